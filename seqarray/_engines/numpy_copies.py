"""Copies of NumPy arrays that take more than one call; large ones are divided among threads, into recycled memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from seqarray._arguments import Shape
from seqarray._blocks import shapes_of
from seqarray._engines import plan, pool, threads
from seqarray._engines.segments import Segments, is_tight, offsets_of
from seqarray._engines.settings import settings
from seqarray._views import PackedRun, Run

NumPyArray = np.ndarray[Any, Any]


def join(arrays: Sequence[NumPyArray], axis: int, stack: bool, dtype: np.dtype[Any], casting: str) -> NumPyArray:
    """Join arrays along an axis that they have or, with `stack`, along a new one."""
    arrays, result_shape = _unstacked(arrays, axis) if stack else (arrays, None)
    sizes, shape = _joined_shape(arrays, axis)
    _check_dtypes(arrays, dtype, casting)
    target = pool.empty(shape, dtype)
    _join(target, arrays, sizes, axis)
    return target if result_shape is None else target.reshape(result_shape)


def join_into(out: NumPyArray, arrays: Sequence[NumPyArray], axis: int, stack: bool, casting: str) -> NumPyArray:
    """Join arrays into an existing one, which may share memory with them."""
    joined_from, _ = _unstacked(arrays, axis) if stack else (arrays, None)
    sizes, shape = _joined_shape(joined_from, axis)
    _check_dtypes(arrays, out.dtype, casting)
    target = out.reshape(shape) if stack else out
    if np.may_share_memory(target, out) and not any(np.may_share_memory(array, out) for array in arrays):
        _join(target, joined_from, sizes, axis)
    else:
        joined = pool.empty(shape, out.dtype)
        _join(joined, joined_from, sizes, axis)
        out[...] = joined.reshape(out.shape)
    return out


def _unstacked(arrays: Sequence[NumPyArray], axis: int) -> tuple[Sequence[NumPyArray], Shape | None]:
    """Return arrays that concatenate to the stack, and the shape of the stack if the result has to be reshaped.

    np.stack creates a view of every array.
    """
    first = arrays[0].shape
    plan.lengths_along([array.shape for array in arrays], axis, stack=True)
    if axis == len(first):
        return [array[..., np.newaxis] for array in arrays], None
    return arrays, (*first[:axis], len(arrays), *first[axis:])


def _joined_shape(arrays: Sequence[NumPyArray], axis: int) -> tuple[list[int], Shape]:
    """Return the lengths of arrays along an axis and the shape of their join; raise a ValueError if there is none."""
    shapes = [array.shape for array in arrays]
    lengths = plan.lengths_along(shapes, axis)
    sizes = [lengths] * len(shapes) if isinstance(lengths, int) else lengths
    return sizes, (*shapes[0][:axis], sum(sizes), *shapes[0][axis + 1 :])


def _check_dtypes(arrays: Sequence[NumPyArray], dtype: np.dtype[Any], casting: Any) -> None:
    """Check dtypes before the result is allocated; NumPy would check them afterwards."""
    dtypes = [array.dtype for array in arrays]
    if dtypes.count(dtype) != len(dtypes) and not all(np.can_cast(one, dtype, casting) for one in set(dtypes)):
        raise TypeError("dtypes differ")


def _join(target: NumPyArray, arrays: Sequence[NumPyArray], sizes: Sequence[int], axis: int) -> None:
    """Join arrays into one of the right shape, with several threads if the copy is large enough."""
    shape, nbytes = target.shape, target.nbytes
    count = _threads_for(nbytes, len(arrays), target.dtype)
    if count == 1:
        np.concatenate(arrays, axis, out=target, casting="unsafe")
        return
    rows = plan.matrix(shape, axis).rows
    across = 0 if axis and shape[0] >= 64 and nbytes >= settings.wide_row * rows * len(arrays) else axis
    cut = partial(_rows, arrays) if across != axis else partial(_columns, arrays, sizes, axis)
    bounds = plan.shares(shape[across], nbytes, count, settings.head_start)
    before = (slice(None),) * across
    threads.share(
        [partial(_copy_into, partial(cut, lo, hi), axis, (*before, slice(lo, hi))) for lo, hi in pairwise(bounds)],
        target,
    )


def _threads_for(nbytes: int, count: int, dtype: np.dtype[Any]) -> int:
    """Return how many threads share a copy of `count` pieces."""
    if nbytes < settings.threads_from or nbytes < count * settings.piece_from or dtype.kind in "OUS":
        return 1  # NumPy keeps the GIL while it copies objects and text
    return threads.usable_threads()


def _copy_into(
    cut: Callable[[], Sequence[NumPyArray]], axis: int, where: tuple[slice, ...], target: NumPyArray
) -> None:
    """Join the pieces that `cut` returns into a part of the result.

    The thread that copies the pieces slices them, so that the other threads are woken first.
    """
    np.concatenate(cut(), axis, out=target[where], casting="unsafe")


def _rows(arrays: Sequence[NumPyArray], start: int, stop: int) -> list[NumPyArray]:
    return [array[start:stop] for array in arrays]


def _columns(arrays: Sequence[NumPyArray], sizes: Sequence[int], axis: int, start: int, stop: int) -> list[NumPyArray]:
    before = (slice(None),) * axis
    parts = plan.parts_between(sizes, start, stop)
    return [arrays[part.piece][(*before, slice(part.start, part.stop))] for part in parts]


def duplicate(array: NumPyArray, dtype: np.dtype[Any]) -> NumPyArray:
    """Copy one array, row-major, in a dtype."""
    target, source = pool.empty(array.shape, dtype), np.asarray(array)
    into = target
    if source.flags.c_contiguous:
        into, source = target.reshape(-1), source.reshape(-1)
    bounds = plan.shares(len(into), target.nbytes, _threads_for(target.nbytes, 1, dtype), settings.head_start)
    threads.share([partial(np.copyto, into[lo:hi], source[lo:hi]) for lo, hi in pairwise(bounds)])
    return target


def copy_chunks(targets: Run, sources: Run) -> None:
    """Copy chunks of any sizes."""
    count, base = len(targets), targets.base
    shape, axis = targets.cut.shape, targets.cut.axis
    used = _threads_for(base.nbytes, count, base.dtype)
    bounds = plan.shares(shape[axis], base.nbytes, used, settings.head_start)
    first = [bisect_left(targets.starts, bound) for bound in bounds[:-1]] + [count]
    threads.share([partial(_copy_between, targets, sources, lo, hi) for lo, hi in pairwise(first)])


def _copy_between(targets: Run, sources: Run, first: int, last: int) -> None:
    for index in range(first, last):
        np.copyto(targets[index], sources[index])


def copy_rows(target: NumPyArray, source: NumPyArray, rows: int) -> None:
    """Copy between arrays of shape (chunks, rows, width), of which one has gaps between its rows."""
    nbytes = target.shape[2] * target.itemsize
    used = _threads_for(target.nbytes, len(target), target.dtype)
    as_items = target.nbytes >= settings.items_from and target.itemsize < nbytes <= settings.items_up_to
    if as_items and source.dtype == target.dtype:
        target, source = _with_rows_as_items(target, nbytes), _with_rows_as_items(source, nbytes)
    if target.nbytes < 4 * settings.block:
        np.copyto(target, source)
        return
    bounds = plan.shares(rows, target.nbytes, used, settings.head_start)
    step = max(1, settings.block * rows // target.nbytes)
    threads.share([partial(_copy_blocks, target, source, lo, hi, step) for lo, hi in pairwise(bounds)])


def _with_rows_as_items(array: NumPyArray, nbytes: int) -> NumPyArray:
    """Return a view with one item for each row: NumPy runs one loop over items, but one loop for each row."""
    return array if array.dtype.hasobject else array.view(f"V{nbytes}")[:, :, 0]


def _copy_blocks(target: NumPyArray, source: NumPyArray, first: int, last: int, step: int) -> None:
    for row in range(first, last, step):
        rows = slice(row, min(row + step, last))
        np.copyto(target[:, rows], source[:, rows])


def packed(
    arrays: Sequence[NumPyArray], dtype: np.dtype[Any], empty: Callable[[Shape, np.dtype[Any]], NumPyArray]
) -> PackedRun:
    """Copy arrays of any shapes into one 1-D array, which `empty` allocates."""
    shapes = shapes_of((tuple(arrays),))
    sizes = list(map(prod, shapes))
    base = empty((sum(sizes),), dtype)
    _join(base, [np.asarray(array).reshape(-1) for array in arrays], sizes, 0)
    return PackedRun.of_shapes(base, shapes)


def copy_segments(target: NumPyArray, source: NumPyArray, segments: Segments, fill: NumPyArray | None) -> None:
    """Copy ranges of rows; with `fill`, all other rows of the target become it.

    The ranges are copied in groups whose rows fit into a cache.
    """
    segments = segments.without_empty()
    if not len(segments.lengths) or not target.size:
        if fill is not None:
            target[...] = fill
        return
    width = target.nbytes // len(target)
    rows = max(1, settings.block // width)
    copy: Callable[..., None] = _copy_ranges
    if segments.total * width < len(segments.lengths) * settings.range_from:
        copy = _copy_by_index
        if not target.dtype.hasobject and source.flags.c_contiguous:
            # An index of plain items is faster than one of rows.
            dtype = target.dtype
            target, source = target.reshape(-1).view(f"V{width}"), source.reshape(-1).view(f"V{width}")
            fill = None if fill is None else np.full(width // dtype.itemsize, fill, dtype).view(f"V{width}")[0]
    segments = segments.cut(rows)
    offsets = offsets_of(segments.lengths)
    firsts = np.unique(offsets[:-1].searchsorted(np.arange(0, offsets[-1], rows), side="right") - 1).tolist()
    regions = [0, *segments.targets[firsts[1:]].tolist(), len(target)]
    bounds = plan.shares(len(firsts), target.nbytes, _threads_for(target.nbytes, 1, target.dtype), settings.head_start)
    firsts.append(len(segments.lengths))
    groups = [
        partial(copy, target[begin:end], source, segments.part(lo, hi, begin), fill)
        for (lo, hi), (begin, end) in zip(pairwise(firsts), pairwise(regions), strict=True)
    ]
    threads.share([partial(_call_all, groups[lo:hi]) for lo, hi in pairwise(bounds)])


def _call_all(jobs: Sequence[Callable[[], None]]) -> None:
    for job in jobs:
        job()


def _copy_ranges(target: NumPyArray, source: NumPyArray, segments: Segments, fill: Any) -> None:
    """Copy a few long ranges one by one."""
    if fill is not None:
        target[...] = fill
    for start, place, length in zip(*(column.tolist() for column in segments), strict=True):
        target[place : place + length] = source[start : start + length]


def _copy_by_index(target: NumPyArray, source: NumPyArray, segments: Segments, fill: Any) -> None:
    """Copy many short ranges by a number for each row, at one end only where the other has them in a row."""
    if fill is not None:
        target[...] = fill
    starts, targets, lengths = segments
    if is_tight(starts, lengths):
        target[segments.target_rows()] = source[starts[0] : starts[-1] + lengths[-1]]
    elif is_tight(targets, lengths):
        np.take(source, segments.source_rows(), axis=0, out=target[targets[0] : targets[-1] + lengths[-1]], mode="clip")
    else:
        target[segments.target_rows()] = source[segments.source_rows()]
