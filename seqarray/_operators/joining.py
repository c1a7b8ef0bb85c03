"""The operator that joins the elements of a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqarray import _blocks
from seqarray._arguments import Shape, axis_in_range, check_joinable, copy_flag, flag
from seqarray._blocks import Block, Run
from seqarray._dtypes import Kind
from seqarray._engines import engine_for, list_joins
from seqarray._engines.facts import Facts
from seqarray._libraries import Array, device_of, namespace_of, same_device
from seqarray._sequence import ArraySequence, as_sequence

_LIBRARIES_THAT_WRITE = ("numpy", "cupy", "torch")


def concat_from_sequence(
    sequence: Any, /, *, axis: int, new_axis: int = 0, out: Any = None, copy: bool | None = True
) -> Array:
    """Join all elements into one array, along an axis that they have or along a new one.

    Parameters
    ----------
    sequence : ArraySequence, or list or tuple of arrays
        At least one element.  Shapes must be equal, but for the lengths along `axis` when ``new_axis=0``.
    axis : int
        For elements of rank `r` in ``[-r, r - 1]``, with ``new_axis=1`` in ``[-r - 1, r]``.
    new_axis : {0, 1}, default 0
        0 concatenates along `axis`.  1 stacks: the elements lie side by side along a new axis at this place.
    out : array, optional
        Where to write the result, on NumPy, CuPy and torch: of its shape, dtype and device.  It may share memory with
        the elements.
    copy : bool or None, default True
        True gives fresh memory in one allocation.  None gives a view where that is possible: of a single element, or of
        an array whose chunks, next to each other, are all there is to join.  False raises where it is not.

    Returns
    -------
    array
        The joined array; `out` if it was given.

    Raises
    ------
    ValueError
        If the sequence is empty, shapes do not fit, `out` has another shape or device, ``copy=False`` and a copy is
        needed, or tensors that require a gradient meet `out`.
    AxisError
        If the axis is out of range; elements of rank 0 can only be stacked.
    TypeError
        If `out` has another dtype or is not an array of the same library.

    Notes
    -----
    ONNX operator ConcatFromSequence, since opset 11.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> s = sa.sequence_construct(np.asarray([1, 2]), np.asarray([3, 4]))
    >>> sa.concat_from_sequence(s, axis=0)
    array([1, 2, 3, 4])
    >>> sa.concat_from_sequence(s, axis=0, new_axis=1)
    array([[1, 2],
           [3, 4]])
    """
    if copy is True and out is None and type(axis) is int and type(new_axis) is int and 0 <= new_axis <= 1:
        # What is wrong with the arguments shows here, and is explained below.
        try:
            if type(sequence) is ArraySequence:
                facts = sequence._facts
                if facts is None:
                    facts = _learned(sequence)
                joined = None if facts.join is None else facts.join(sequence._blocks, axis, new_axis, facts)
            elif type(sequence) is list or type(sequence) is tuple:
                join = list_joins.get(type(sequence[0]))
                joined = None if join is None else join(sequence, axis, new_axis)
            else:
                joined = None
        except (TypeError, ValueError, IndexError, OverflowError):
            joined = None
        if joined is not None:
            return joined
    if type(sequence) is not ArraySequence:
        sequence = as_sequence(sequence, operator="concat_from_sequence")
    kind, blocks = sequence._kind, sequence._blocks
    stack = flag(new_axis, operator="concat_from_sequence", name="new_axis")
    if copy is not True:
        copy_flag(copy, operator="concat_from_sequence")
        if out is not None:
            raise ValueError(f"concat_from_sequence: out= is written to, so copy must be True, not {copy}")
    if not blocks:
        raise ValueError("concat_from_sequence: the sequence is empty, so the rank of the result is unknown")

    engine = engine_for(kind, "concat_from_sequence")
    if out is None and len(blocks) == 1 and (len(blocks[0]) == 1 or type(blocks[0]) is Run):
        source, view = _as_view(blocks[0], axis, stack)
        if view is not None:
            if copy is True:
                return engine.duplicate(view, kind)
            # What jax calls a slice is a copy.
            if copy is None or kind.library != "jax" or view is source:
                return view
    rank = len(_blocks.first_shape(blocks))
    axis = axis_in_range(axis, rank, operator="concat_from_sequence", of="element 0", new=stack)
    if out is not None or copy is False or not engine.checks_shapes:
        shapes = _blocks.shapes_of(blocks)
        check_joinable(shapes, axis, operator="concat_from_sequence", stack=stack)
        if copy is False:
            raise ValueError(
                f"concat_from_sequence: joining {len(sequence)} {kind.library} arrays takes a copy; "
                "pass copy=True or copy=None"
            )
        if out is not None:
            _check_out(out, kind, _joined_shape(shapes, axis, stack))
    try:
        return engine.join(blocks, axis, kind, stack=stack, out=out)
    except ValueError as error:
        check_joinable(_blocks.shapes_of(blocks), axis, operator="concat_from_sequence", stack=stack)
        raise ValueError(f"concat_from_sequence: {error}") from error


def _learned(sequence: ArraySequence[Any]) -> Facts:
    """The facts about the elements of a sequence, which it keeps; ValueError if there are none."""
    if not sequence._blocks:
        raise ValueError("left to the general case")
    facts = engine_for(sequence._kind, "concat_from_sequence").learn(sequence._blocks, sequence._kind)
    sequence._facts = facts
    return facts


def _as_view(block: Block, axis: Any, stack: bool) -> tuple[Array, Array | None]:
    """A block that is joined as it lies: the array it lies in, and the view; None where joining takes a copy."""
    if isinstance(block, Run) and stack == block.cut.dropped:
        rank = len(block.cut.shape) - block.cut.dropped
        axis = axis_in_range(axis, rank, operator="concat_from_sequence", of="element 0", new=stack)
        if axis == block.cut.axis:
            return block.base, block.rejoined()
    if len(block) > 1:
        return None, None
    element = block[0]
    axis = axis_in_range(axis, len(element.shape), operator="concat_from_sequence", of="element 0", new=stack)
    return element, element[(*(slice(None),) * axis, None, ...)] if stack else element


def _joined_shape(shapes: list[Shape], axis: int, stack: bool) -> Shape:
    before = shapes[0][:axis]
    if stack:
        return (*before, len(shapes), *shapes[0][axis:])
    return (*before, sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def _check_out(out: Any, kind: Kind, shape: Shape) -> None:
    if kind.library not in _LIBRARIES_THAT_WRITE:
        raise TypeError(f"concat_from_sequence: out= is not supported for {kind.library} arrays")
    if not _is_array_of(kind.namespace, out):
        raise TypeError(
            f"concat_from_sequence: out is of type {type(out).__name__}; expected an array of {kind.library}"
        )
    if out.dtype != kind.dtype:
        raise TypeError(f"concat_from_sequence: out has dtype {out.dtype}; the result has {kind.dtype}")
    if tuple(out.shape) != shape:
        raise ValueError(f"concat_from_sequence: out has shape {tuple(out.shape)}; the result has {shape}")
    if not same_device(device_of(out), kind.device):
        raise ValueError(f"concat_from_sequence: out is on device {device_of(out)}; the elements are on {kind.device}")
    if kind.library == "numpy" and not out.flags.writeable:
        raise ValueError("concat_from_sequence: out is read-only")
    strides = out.stride() if kind.library == "torch" else out.strides
    if 0 not in shape and any(stride == 0 and length > 1 for stride, length in zip(strides, out.shape, strict=True)):
        raise ValueError("concat_from_sequence: out has items that share their memory, as broadcast arrays do")


def _is_array_of(namespace: Any, value: Any) -> bool:
    try:
        return namespace_of(value) is namespace and not isinstance(value, np.generic)
    except TypeError:
        return False
