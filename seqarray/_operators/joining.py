"""The operator that joins the elements of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqarray._arguments import Shape, axis_in_range, check_joinable, copy_flag, flag, raise_named
from seqarray._blocks import Blocks, shapes_of, to_arrays
from seqarray._kind import Kind, kind_of_all
from seqarray._libraries import Array, library_of, same_device
from seqarray._sequence import ArraySequence, refuse_sequence
from seqarray._typing import ArrayT
from seqarray._views import PackedRun, Run

_OPERATOR = "concat_from_sequence"


def concat_from_sequence(
    sequence: Sequence[ArrayT], /, *, axis: int, new_axis: int = 0, out: ArrayT | None = None, copy: bool | None = True
) -> ArrayT:
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
        An array for the result, on NumPy, CuPy and torch: of its shape, dtype and device.  It may share memory with the
        elements.
    copy : bool or None, default True
        True returns fresh memory in one allocation.  None returns a view where that is possible: of a single element,
        or of the array whose consecutive chunks are the elements.  False raises where a view is impossible.

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

    See Also
    --------
    pack : The joined elements together with their offsets.
    pad_sequence : Joins elements of different lengths along a new axis.
    concat_each : Joins the elements of several sequences pairwise.
    split_to_sequence : The way back.

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
    if type(sequence) is ArraySequence:
        kind, blocks = sequence._kind, sequence._blocks
    elif isinstance(sequence, (list, tuple)):
        kind, arrays = kind_of_all(sequence, _OPERATOR, True)
        blocks = (tuple(arrays),) if arrays else ()
    else:
        refuse_sequence(sequence, operator=_OPERATOR)
    stack = new_axis == 1 if type(new_axis) is int and 0 <= new_axis <= 1 else flag(new_axis, _OPERATOR, "new_axis")
    if not blocks:
        raise ValueError("concat_from_sequence: the sequence is empty, so the rank of the result is unknown")
    if kind.library is None:
        raise TypeError("concat_from_sequence: the elements of the sequence are not arrays")
    first = blocks[0]
    rank = first[0].ndim if isinstance(first, tuple) else len(first.first_shape)
    if type(axis) is not int or not 0 <= axis < rank + stack:
        axis = axis_in_range(axis, rank, operator=_OPERATOR, of="element 0", new=stack)
    if copy is not True:
        view = view_of(sequence, kind, blocks, axis, stack, copy, out, _OPERATOR)
        if view is not None:
            return view
    if out is not None:
        _check_elements(sequence, blocks, axis, stack)
        _check_out(out, kind, _joined_shape(shapes_of(blocks), axis, stack))
    try:
        return kind.library.engine.join(blocks, axis, stack, kind, out)
    except (MemoryError, RuntimeError, TypeError, ValueError) as error:
        _check_elements(sequence, blocks, axis, stack)
        if type(sequence) is ArraySequence:
            kind_of_all(to_arrays(blocks), _OPERATOR)  # a dtype may have been set in place
        raise_named(error, _OPERATOR)
        raise


def _check_elements(sequence: Any, blocks: Blocks, axis: int, stack: bool) -> None:
    """Check what an engine compares on its way, to name the element that does not fit."""
    if type(sequence) is not ArraySequence:
        kind_of_all(sequence, _OPERATOR)
    check_joinable(shapes_of(blocks), axis, operator=_OPERATOR, stack=stack)


def view_of(
    sequence: Any, kind: Kind, blocks: Blocks, axis: int, stack: bool, copy: bool | None, out: Any, operator: str
) -> Array | None:
    """Return what joins the elements without a copy; None, or with ``copy=False`` an error, where nothing does."""
    copy_flag(copy, operator=operator)
    if out is not None:
        raise ValueError(f"concat_from_sequence: out= is written to, so copy must be True, not {copy}")
    assert kind.library is not None
    block, source, view = blocks[0], None, None
    alone = len(blocks) == 1
    if alone and isinstance(block, Run) and stack == block.cut.dropped and axis == block.cut.axis:
        source, view = block.base, block.rejoined()
    if alone and isinstance(block, PackedRun) and not stack:
        check_joinable(block.shapes, axis, operator=operator, stack=stack)  # before they are lost in a row of items
        view = block.rejoined(axis)
    if alone and view is None and len(block) == 1:
        source = block[0]
        view = source[(*(slice(None),) * axis, None, ...)] if stack else source
    if view is not None and view is not source and not kind.library.is_own(view):
        view = None
    if copy is False and (view is None or (kind.library.slices_are_copies and view is not source)):
        _check_elements(sequence, blocks, axis, stack)
        raise ValueError(
            f"{operator}: joining {len(sequence)} {kind.library.name} "
            f"array{'' if len(sequence) == 1 else 's'} takes a copy; "
            "pass copy=True or copy=None"
        )
    # The caller may change the shape of the result in place, but not that of the base of a run.
    return kind.library.own_view(view) if isinstance(block, Run) and view is source and view is not None else view


def _joined_shape(shapes: list[Shape], axis: int, stack: bool) -> Shape:
    before = shapes[0][:axis]
    if stack:
        return (*before, len(shapes), *shapes[0][axis:])
    return (*before, sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def _check_out(out: Any, kind: Kind, shape: Shape) -> None:
    library = kind.library
    assert library is not None
    if not library.takes_out:
        raise TypeError(f"concat_from_sequence: out= is not supported for {library.name} arrays")
    if not _is_array_of(library, out):
        raise TypeError(
            f"concat_from_sequence: out is of type {type(out).__name__}; expected an array of {library.name}"
        )
    if out.dtype != kind.dtype:
        raise TypeError(f"concat_from_sequence: out has dtype {out.dtype}; the result has {kind.dtype}")
    if tuple(out.shape) != shape:
        raise ValueError(f"concat_from_sequence: out has shape {tuple(out.shape)}; the result has {shape}")
    if not same_device(library.device_of(out), kind.device):
        raise ValueError(
            f"concat_from_sequence: out is on device {library.device_of(out)}; the elements are on {kind.device}"
        )
    if library.is_read_only(out):
        raise ValueError("concat_from_sequence: out is read-only")
    if 0 not in shape and library.has_repeated_items(out):
        raise ValueError("concat_from_sequence: out has items that share their memory, as broadcast arrays do")


def _is_array_of(library: Any, value: Any) -> bool:
    try:
        return library_of(value) is library and not isinstance(value, np.generic)
    except TypeError:
        return False
