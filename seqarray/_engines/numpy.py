"""Joining and splitting NumPy arrays.

Small work is the fewest Python steps around one NumPy call; `numpy_copies` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from seqarray._arguments import Column
from seqarray._blocks import Blocks, to_pieces
from seqarray._engines import numpy_copies as copies
from seqarray._engines import plan, pool
from seqarray._engines.segments import Segments
from seqarray._engines.settings import settings
from seqarray._kind import Kind
from seqarray._views import Cut, Run

NumPyArray = np.ndarray[Any, Any]

# Looked up once: in tiny work every step counts.
_ndarray = np.ndarray
_concatenate: Callable[..., NumPyArray] = np.concatenate


#: `join` compares dtypes and devices, see `Engine`.
compares_elements = True


def join(blocks: Blocks, axis: int, stack: bool, kind: Kind, out: NumPyArray | None = None) -> NumPyArray:
    """Join elements along an axis that they have or, with `stack`, along a new one."""
    block = blocks[0]
    if len(blocks) == 1 and type(block) is tuple:
        arrays: Sequence[NumPyArray] = block
    elif len(blocks) == 1 and out is None and type(block) is Run and _is_regular(block, axis, stack):
        return _rejoined(block, kind)
    else:
        arrays = to_pieces(blocks, axis, stack)
    if kind.array_type is None:
        arrays = [np.asarray(array) for array in arrays]  # results are plain arrays, whatever the elements are
    casting: Any = "equiv" if kind.exact else "safe"
    if out is not None:
        return copies.join_into(out, arrays, axis, stack, casting)
    nbytes = 0
    if len(arrays) > 8:
        nbytes = _bytes_of(arrays)
    else:
        for array in arrays:
            nbytes += array.nbytes
    if nbytes >= settings.threads_from and (
        nbytes >= len(arrays) * settings.piece_from or nbytes >= settings.pool_from
    ):
        return copies.join(arrays, axis, stack, kind.dtype, casting)
    if not stack:
        # NumPy compares the dtypes itself.
        return _concatenate(arrays, axis, dtype=kind.dtype, casting=casting)
    shape, count = arrays[0].shape, len(arrays)
    if axis == len(shape):
        stacked: NumPyArray = np.stack(arrays, axis, dtype=kind.dtype, casting=casting)
        return stacked
    # np.stack makes a view of every array.  Joined along an axis that is there, the result only lacks one in its
    # shape; NumPy compares the other lengths, but would add up different ones along the axis.
    lengths = list(map(len, arrays)) if axis == 0 else [array.shape[axis : axis + 1] for array in arrays]
    if lengths.count(lengths[0]) != count:
        raise ValueError("shapes differ")
    joined = _concatenate(arrays, axis, dtype=kind.dtype, casting=casting)
    return joined.reshape((count, *shape) if axis == 0 else shape[:axis] + (count,) + shape[axis:])


def _bytes_of(arrays: Sequence[NumPyArray]) -> int:
    """Return the bytes of all arrays; of very many, a guess from a sample unless that may be large."""
    count = len(arrays)
    if count > 64:
        guess: int = count * max(arrays[i].nbytes for i in range(0, count, count // 16))
        if guess < settings.threads_from or guess < count * (settings.piece_from // 16):
            return guess
    return sum([array.nbytes for array in arrays])


def _is_regular(run: Run, axis: int, stack: bool) -> bool:
    """Return whether a join puts the packed chunks of one split, all of one size, back where they came from."""
    cut, starts, stops = run.cut, run.starts, run.stops
    return (
        cut.packed
        and axis == cut.axis
        and stack == cut.dropped
        and isinstance(starts, range)
        and run.is_gapless()
        and stops[-1] <= cut.shape[cut.axis]
    )


def _rejoined(run: Run, kind: Kind) -> NumPyArray:
    cut, starts, stops = run.cut, run.starts, run.stops
    count = len(starts)
    before, after = cut.shape[: cut.axis], cut.shape[cut.axis + 1 :]
    rows, step = plan.matrix(cut.shape, cut.axis).rows, cut.step
    target = pool.empty((*before, stops[-1] - starts[0], *after), kind.dtype)
    if target.size:
        width = target.size // (rows * count)
        source = run.base[starts[0] * step : stops[-1] * step].reshape(count, rows, width)
        copies.copy_rows(target.reshape(rows, count, width).swapaxes(0, 1), source, rows)
    return target


def duplicate(array: NumPyArray, kind: Kind) -> NumPyArray:
    """Copy one array, row-major, in the dtype of `kind`."""
    if array.nbytes >= settings.threads_from:
        return copies.duplicate(array, kind.dtype)
    if kind.exact and type(array) is _ndarray:
        return array.copy()
    return np.array(array, dtype=kind.dtype, order="C")


def split(array: NumPyArray, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
    """Copy the chunks of an array, packed in one allocation."""
    shape, axis, dropped, _ = cut
    if axis == 0 or prod(shape[:axis]) == 1:
        # Along the first axis, the chunks of a row-major copy follow one another already.
        return (Run(duplicate(array, kind), cut, starts, stops),)
    base = pool.empty((array.size,), kind.dtype)
    packed = Run(base, Cut(shape, axis, dropped, True), starts, stops)
    array = np.asarray(array)
    if isinstance(starts, range) and stops[-1] == shape[axis] and array.flags.c_contiguous and array.size:
        # Chunks of one size lie in both as rows of a matrix of rows; one call copies many of them.
        rows, count = plan.matrix(shape, axis).rows, len(starts)
        width = array.size // (rows * count)
        source = array.reshape(rows, count, width).swapaxes(0, 1)
        copies.copy_rows(base.reshape(count, rows, width), source, rows)
    else:
        copies.copy_chunks(packed, Run(array, cut, starts, stops))
    return (packed,)


def pack(arrays: Sequence[NumPyArray], kind: Kind) -> Blocks:
    """Copy arrays of any shapes, packed in one allocation."""
    return (copies.packed(arrays, kind.dtype, pool.empty),)


def gather(
    sources: Sequence[tuple[NumPyArray, Segments]], count: int, kind: Kind, fill: NumPyArray | None = None
) -> NumPyArray:
    """Copy ranges of the rows of arrays into a new array of `count` rows."""
    target = pool.empty((count, *sources[0][0].shape[1:]), kind.dtype)
    alone = len(sources) == 1
    if fill is not None and not alone:
        target[...] = fill
    for source, segments in sources:
        copies.copy_segments(target, np.asarray(source, dtype=kind.dtype), segments, fill if alone else None)
    return target
