"""The operators that split an array."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from seqarray._arguments import (
    Column,
    Shape,
    axis_in_range,
    chunks_of_parts,
    chunks_of_sizes,
    copy_flag,
    describe,
    equal_chunks,
    flag,
    integer,
    is_integer,
    length_along,
    raise_named,
    rank_of,
)
from seqarray._blocks import Blocks, from_arrays, to_arrays
from seqarray._kind import Kind, as_array, kind_of, kind_of_copies
from seqarray._libraries import Array
from seqarray._sequence import ArraySequence, make
from seqarray._typing import AnyIntegers, ArrayT
from seqarray._views import AnyRun, Cut, Run


def split_to_sequence(
    x: ArrayT, /, split: int | AnyIntegers | None = None, *, axis: int = 0, keepdims: int = 1, copy: bool | None = True
) -> ArraySequence[ArrayT]:
    """Split an array into a sequence of chunks.

    Parameters
    ----------
    x : array
        The array, of rank 1 or more.
    split : int, list, tuple or integer array, optional
        An int or a 0-d array is the size of every chunk, of which only the last may be smaller.  A list, a tuple or a
        1-D array gives all sizes, which must sum to the length of the axis.  Default: chunks of one.
    axis : int, default 0
        In ``[-r, r - 1]`` for an array of rank `r`.
    keepdims : {0, 1}, default 1
        0 drops the axis from the chunks, if ``split`` is not given.  Otherwise it is ignored.
    copy : bool or None, default True
        True copies, on NumPy, torch and CuPy all chunks into one allocation.  None returns views as `numpy.split` does,
        which are created on demand.  False raises where a view is impossible.

    Returns
    -------
    ArraySequence
        The chunks in order.  Splitting an axis of length 0 without sizes gives none.

    Raises
    ------
    ValueError
        If sizes are negative or do not sum to the length of the axis, or ``copy=False`` on jax.
    AxisError
        If the axis is out of range; an array of rank 0 has none.
    TypeError
        If `x` is not an array, or sizes are not integers.

    See Also
    --------
    split : Returns a tuple, and takes sizes or a number of chunks.
    unpack : Takes offsets in place of sizes.
    concat_from_sequence : The way back.

    Notes
    -----
    ONNX operator SplitToSequence, since opset 11; opset 24 adds bfloat16.

    On NumPy and CuPy, every chunk keeps the memory of all alive, copies as well as views; `sequence_at`, or
    ``sequence_construct(*few, copy=True)``, gives some of them memory of their own.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> list(sa.split_to_sequence(np.arange(5), 2))
    [array([0, 1]), array([2, 3]), array([4])]
    >>> sa.split_to_sequence(np.zeros((3, 4)), axis=1, keepdims=0)
    <ArraySequence of 4 float64 arrays, numpy on cpu: (3,), (3,), (3,), (3,)>
    """
    operator = "split_to_sequence"
    keep = flag(keepdims, operator, "keepdims")
    x, kind, axis, length = splittable(x, axis, copy, operator)
    if split is None or _is_scalar(split):
        size = 1 if split is None else integer(split, operator=operator, name="split")
        # torch.compile follows no cache.
        cut_equally = _equal_cut if kind.array_type is None else _known_equal_cut
        cut, starts, stops = cut_equally(x.shape, axis, length, size, split is None and not keep)
    else:
        starts, stops = chunks_of_sizes(length, split, axis=axis, operator=operator, ranks="a scalar or 1-D")
        cut = Cut(x.shape, axis)
    chunks = _chunks(x, cut, starts, stops, kind, copy, operator)
    if copy is True and (kind.array_type is None or not kind.exact):
        kind = kind_of_copies(kind)
    return make(kind, chunks, len(starts))


def split(
    x: ArrayT,
    /,
    split: AnyIntegers | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    copy: bool | None = True,
) -> tuple[ArrayT, ...]:
    """Split an array into a tuple of arrays.

    Parameters
    ----------
    x : array
        The array, of rank 1 or more.
    split : list, tuple or 1-D integer array, optional
        The sizes, which must sum to the length of the axis.
    axis : int, default 0
        In ``[-r, r - 1]`` for an array of rank `r`.
    num_outputs : int, optional
        The number of chunks instead of their sizes.  If the length of the axis is no multiple of it, all sizes are
        rounded up but the last.
    copy : bool or None, default True
        True copies, on NumPy, torch and CuPy all chunks into one allocation.  None returns views as `numpy.split` does.
        False raises where a view is impossible.

    Returns
    -------
    tuple of array
        The chunks in order.

    Raises
    ------
    ValueError
        If sizes are negative or do not sum to the length of the axis, if `num_outputs` leaves the last chunk a negative
        size, if both or neither of ``split`` and `num_outputs` are given, or ``copy=False`` on jax.
    AxisError
        If the axis is out of range; an array of rank 0 has none.
    TypeError
        If `x` is not an array, or ``split`` is a single number, which other libraries read in two ways.

    See Also
    --------
    split_to_sequence : Returns a sequence, and takes one size for all chunks too.
    concat_from_sequence : The way back.

    Notes
    -----
    ONNX operator Split, since opset 1; the rules here are those of opset 18.

    On NumPy and CuPy, every chunk keeps the memory of all alive, copies as well as views; `sequence_at`, or
    ``sequence_construct(*few, copy=True)``, gives some of them memory of their own.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.split(np.arange(5), [2, 3])
    (array([0, 1]), array([2, 3, 4]))
    >>> sa.split(np.arange(5), num_outputs=2)
    (array([0, 1, 2]), array([3, 4]))
    """
    operator = "split"
    if (split is None) == (num_outputs is None):
        given = "both" if split is not None else "neither"
        raise ValueError(f"split: either split or num_outputs must be given, but not both; got {given}")
    x, kind, axis, length = splittable(x, axis, copy, operator)
    if split is None:
        parts = integer(num_outputs, operator=operator, name="num_outputs")
        starts, stops = chunks_of_parts(length, parts, axis=axis, operator=operator)
    elif _is_scalar(split):
        raise TypeError(
            f"split: split must be 1-D: all sizes in a list, a tuple or an array, not {describe(split)}; "
            "num_outputs=n makes n chunks, and split_to_sequence(x, n) makes chunks of n"
        )
    else:
        starts, stops = chunks_of_sizes(length, split, axis=axis, operator=operator)
    return tuple(to_arrays(_chunks(x, Cut(x.shape, axis), starts, stops, kind, copy, operator)))


def _is_scalar(split: Any) -> bool:
    # torch.compile does not trace getattr of a symbolic integer.
    return is_integer(split) or (not isinstance(split, (list, tuple)) and rank_of(split) == 0)


def splittable(x: Any, axis: Any, copy: Any, operator: str, name: str = "x") -> tuple[Array, Kind, int, int]:
    """Return the array, its kind, the axis counted from the front, and its length; check `copy` with them."""
    if copy is not True:
        copy_flag(copy, operator=operator)
    x = as_array(x, operator=operator, label=name)
    shape = x.shape
    if type(axis) is not int or not 0 <= axis < len(shape):
        axis = axis_in_range(axis, len(shape), operator=operator, of=name)
    length = shape[axis]
    if type(length) is not int:
        length = length_along(shape, axis, operator=operator, of=name)
    return x, kind_of(x), axis, length


def _equal_cut(shape: Shape, axis: int, length: int, size: int, dropped: bool) -> tuple[Cut, Column, Column]:
    """Return the geometry of chunks of one size."""
    return Cut(shape, axis, dropped), *equal_chunks(length, size, operator="split_to_sequence")


#: Programs cut the same few shapes again and again, and looking one up is faster than working it out.
_known_equal_cut = lru_cache(maxsize=256)(_equal_cut)


def _chunks(x: Array, cut: Cut, starts: Column, stops: Column, kind: Kind, copy: bool | None, operator: str) -> Blocks:
    if not len(starts):
        return ()
    library = kind.library
    assert library is not None
    if copy is True:
        try:
            chunks: Blocks = library.engine.split(x, cut, starts, stops, kind)
        except (MemoryError, RuntimeError) as error:
            raise_named(error, operator)
            raise
        return chunks
    if library.slices_are_copies and copy is False:
        if len(starts) == 1 and not cut.dropped:
            return ((x,),)
        raise ValueError(f"{operator}: {library.name} has no views, so chunks need a copy; pass copy=True or copy=None")
    return views(x, cut, starts, stops, kind, copy, operator)


def views(x: Array, cut: Cut, starts: Column, stops: Column, kind: Kind, copy: bool | None, operator: str) -> Blocks:
    """Return chunks of an array as views; as copies, unless `copy` is False, where slices are of another library."""
    library: Any = kind.library
    run = Run(library.own_view(x), cut, starts, stops)
    if copy is False and not _has_own_chunks(run, library):
        raise ValueError(
            f"{operator}: slices of {library.name} arrays are of type {type(run[0]).__qualname__}, so chunks need "
            "a copy; pass copy=True or copy=None"
        )
    return as_blocks(run, library)


def as_blocks(run: AnyRun, library: Any) -> Blocks:
    """Return a run as blocks, of arrays where slices of its base are arrays of another library."""
    return (run,) if _has_own_chunks(run, library) else from_arrays(list(map(library.copy_of, run)))


def _has_own_chunks(run: AnyRun, library: Any) -> bool:
    return not library.may_slice_into_others or not len(run) or library.is_own(run[0])
