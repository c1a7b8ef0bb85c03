"""Joining and splitting NumPy arrays.

Small work is the fewest Python steps around one NumPy call.  Large work is cut among threads, each of which makes one
NumPy call, into recycled memory.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from seqarray._arguments import Column, Shape
from seqarray._blocks import Blocks, Cut, PackedRun, Run, shapes_of, to_arrays, to_pieces
from seqarray._dtypes import Kind
from seqarray._engines import plan
from seqarray._engines import pool as hostpool
from seqarray._engines import threads as hostthreads
from seqarray._engines.facts import Facts
from seqarray._engines.settings import settings

NumPyArray = np.ndarray[Any, Any]

ARRAY_TYPE = np.ndarray
checks_shapes = True

#: From this many pieces on, of this size at most, a byte stream joins them faster than NumPy.
STREAM_FROM, STREAM_PIECE = 16, 2 << 10

_NUMBERS = frozenset("biufc")
_NATIVE_NUMBERS = frozenset(np.dtype(code) for code in np.typecodes["All"] if np.dtype(code).kind in _NUMBERS)

# Looked up once: in tiny work every step counts.
_ndarray = np.ndarray
_concatenate: Callable[..., NumPyArray] = np.concatenate


def learn(blocks: Blocks, kind: Kind) -> Facts:
    """What joining needs to know about the elements of a sequence, found out once."""
    if not (kind.exact and kind.array_type is np.ndarray) or any(type(block) is not tuple for block in blocks):
        return Facts()
    arrays = to_arrays(blocks)
    nbytes = _bytes_of(arrays)
    if _is_large(nbytes, len(arrays)):
        facts = Facts(_join_prepared)
        facts.prepared = {}
        return facts
    first = arrays[0].shape
    common_shape = first if [array.shape for array in arrays].count(first) == len(arrays) else None
    return Facts(_join_small, common_shape=common_shape, nbytes=nbytes)


def _join_prepared(blocks: Blocks, axis: int, stack: int, facts: Facts) -> NumPyArray:
    threads = hostthreads.usable_threads()
    arrays = to_arrays(blocks)
    join: _LargeJoin | None = facts.prepared.get((axis, stack, threads))
    if join is None or not join.fits(arrays):
        join = facts.prepared[axis, stack, threads] = _large_join(arrays, axis, stack, threads)
    return join.into_new_memory()


def _join_small(blocks: Blocks, axis: int, stack: int, facts: Facts) -> NumPyArray:
    """Join by one call of NumPy; ValueError where anything about the arrays or the axis is wrong."""
    arrays: Any = blocks[0] if len(blocks) == 1 else to_arrays(blocks)
    shape = facts.common_shape
    if stack:
        if shape is None or not -len(shape) - 1 <= axis <= len(shape):
            raise ValueError("left to the general case")
        if axis < 0:
            axis += len(shape) + 1
        if axis == len(shape):
            return np.stack(arrays, axis)
    joined: NumPyArray | None = _streamed(arrays, facts) if axis == 0 and facts.streams else None
    if joined is None:
        joined = _concatenate(arrays, axis)
        if axis == 0 and facts.result_shape is None:
            _note_result(joined, arrays, facts)
    if not stack or shape is None:
        return joined
    # np.stack makes a view of every input.  Joined along an axis that is there, they only lack one in the shape.
    if joined.ndim != len(shape) or joined.shape[axis] != len(arrays) * shape[axis]:
        raise ValueError("an element has been reshaped")
    return joined.reshape(shape[:axis] + (len(arrays),) + shape[axis:])


def _large_join(arrays: Sequence[NumPyArray], axis: int, stack: int, threads: int) -> _LargeJoin:
    rank = arrays[0].ndim
    axis = plan.counted_axis(axis, rank + stack)
    dtype, result_shape = arrays[0].dtype, None
    # A stack along a last axis is joined from views, which cannot be kept.
    if axis == rank or [array.dtype for array in arrays].count(dtype) != len(arrays):
        raise ValueError("left to the general case")
    if stack:
        arrays, result_shape = _unstacked(arrays, axis)
    return _LargeJoin(arrays, axis, dtype, result_shape, threads)


def _note_result(joined: NumPyArray, arrays: Sequence[NumPyArray], facts: Facts) -> None:
    """NumPy has joined them along axis 0, so their other lengths agree: bytes alone can be joined from now on."""
    facts.result_shape = joined.shape
    facts.dtype = joined.dtype
    facts.nbytes = joined.nbytes
    count = len(arrays)
    facts.streams = count >= STREAM_FROM and 0 < joined.nbytes <= count * STREAM_PIECE and joined.dtype.kind in _NUMBERS


def _streamed(arrays: Sequence[NumPyArray], facts: Facts) -> NumPyArray | None:
    """The bytes of many tiny arrays, one after the other; None where one is not contiguous."""
    stream = io.BytesIO()
    stream.seek(facts.nbytes - 1)
    stream.write(b"\0")  # the whole size at once
    stream.seek(0)
    try:
        stream.writelines(arrays)  # type: ignore[arg-type]
    except (ValueError, BufferError):
        return None
    if stream.tell() != facts.nbytes:
        return None
    return np.frombuffer(stream.getbuffer(), facts.dtype).reshape(facts.result_shape)


def join_list(arrays: Sequence[Any], axis: int, stack: int) -> NumPyArray | None:
    """Join a list of small NumPy arrays; None where anything about them asks for the general case."""
    count = len(arrays)
    if count <= 32:
        nbytes = 0
        for array in arrays:
            if type(array) is not _ndarray:
                return None
            nbytes += array.nbytes
    else:
        if list(map(type, arrays)).count(_ndarray) != count:
            return None
        nbytes = _bytes_of(arrays)
    dtype = arrays[0].dtype
    if dtype not in _NATIVE_NUMBERS or (nbytes >= settings.threads_from and _is_large(nbytes, count)):
        return None
    # With casting="no" NumPy compares the dtypes on the way.
    if not stack:
        return _concatenate(arrays, axis, dtype=dtype, casting="no")
    shape = arrays[0].shape
    rank = len(shape)
    if not -rank - 1 <= axis <= rank:
        return None
    if axis < 0:
        axis += rank + 1
    if axis == rank:
        return np.stack(arrays, axis, dtype=dtype, casting="no")
    # Along the axis, lengths that differ but add up would pass; the others are compared by the join.
    length = shape[axis]
    lengths = list(map(len, arrays)) if axis == 0 else [array.shape[axis] for array in arrays]
    if lengths.count(length) != count:
        return None
    joined = _concatenate(arrays, axis, dtype=dtype, casting="no")
    return joined.reshape(shape[:axis] + (count,) + shape[axis:])


def _bytes_of(arrays: Sequence[NumPyArray]) -> int:
    """The bytes of all arrays; of very many, a guess that is exact as soon as it might be large."""
    count = len(arrays)
    if count > 64:
        guess: int = count * max(arrays[i].nbytes for i in range(0, count, count // 16))
        if guess < settings.threads_from or guess < count * (settings.piece_from // 16):
            return guess
    return sum([array.nbytes for array in arrays])


def _is_large(nbytes: int, count: int) -> bool:
    """Whether threads or recycled memory are worth their while."""
    return nbytes >= settings.threads_from and (nbytes >= count * settings.piece_from or nbytes >= settings.pool_from)


def _threads_for(nbytes: int, count: int, dtype: np.dtype[Any], threads: int | None = None) -> int:
    """How many threads share a copy, of `threads` that may be used, or of as many as may be used now."""
    if nbytes < settings.threads_from or nbytes < count * settings.piece_from or dtype.kind in "OUS":
        return 1  # NumPy keeps the GIL while it copies objects and text
    return hostthreads.usable_threads() if threads is None else threads


def join(blocks: Blocks, axis: int, kind: Kind, *, stack: bool, out: NumPyArray | None = None) -> NumPyArray:
    """The elements along one axis, an existing one or (with `stack`) a new one."""
    if out is None and len(blocks) == 1 and type(blocks[0]) is Run:
        rejoined = _rejoined(blocks[0], axis, kind, stack)
        if rejoined is not None:
            return rejoined
    arrays = to_pieces(blocks, axis, stack)
    if kind.array_type is None:
        arrays = [np.asarray(array) for array in arrays]  # results are plain arrays, whatever the elements are
    result_shape = None
    if stack:
        arrays, result_shape = _unstacked(arrays, axis)
    if out is None and not _is_large(_bytes_of(arrays), len(arrays)):
        joined = _joined_at_once(arrays, axis, kind)
        return joined if result_shape is None else joined.reshape(result_shape)
    large = _LargeJoin(arrays, axis, kind.dtype, result_shape)
    if out is None:
        return large.into_new_memory()
    target = out.reshape(large.shape)
    if np.may_share_memory(target, out) and not any(np.may_share_memory(array, out) for array in arrays):
        large.into(target)
    else:
        out[...] = large.into_new_memory()
    return out


def _unstacked(arrays: Sequence[NumPyArray], axis: int) -> tuple[Sequence[NumPyArray], Shape | None]:
    """Arrays whose join along an axis that they have is what stacking gives, but for the shape; and that, if not equal.

    np.stack makes a view of every array.
    """
    first = arrays[0].shape
    if [array.shape for array in arrays].count(first) != len(arrays):
        raise ValueError("shapes differ")
    if axis == len(first):
        return [array[..., np.newaxis] for array in arrays], None
    return arrays, (*first[:axis], len(arrays), *first[axis:])


def _joined_at_once(arrays: Sequence[NumPyArray], axis: int, kind: Kind) -> NumPyArray:
    if kind.exact:
        return np.concatenate(arrays, axis)
    return np.concatenate(arrays, axis, dtype=kind.dtype, casting="safe")


class _LargeJoin:
    """A join that lacks nothing but the memory of its result.  ValueError: shapes differ."""

    __slots__ = ("copies", "dtype", "result_shape", "shape", "shapes")

    def __init__(
        self,
        arrays: Sequence[NumPyArray],
        axis: int,
        dtype: np.dtype[Any],
        result_shape: Shape | None = None,
        threads: int | None = None,
    ) -> None:
        shapes = [array.shape for array in arrays]
        first, count = shapes[0], len(shapes)
        before, after = first[:axis], first[axis + 1 :]
        if shapes.count(first) == count:
            sizes = [first[axis]] * count
        elif any(len(s) != len(first) or s[:axis] != before or s[axis + 1 :] != after for s in shapes):
            raise ValueError("shapes differ")
        else:
            sizes = [shape[axis] for shape in shapes]
        self.shapes = shapes
        self.dtype = dtype
        self.shape = (*before, sum(sizes), *after)
        self.result_shape = result_shape
        nbytes = prod(self.shape) * dtype.itemsize
        threads = _threads_for(nbytes, count, dtype, threads)
        self.copies = _shared_copies(arrays, sizes, axis, self.shape, nbytes, threads)

    def fits(self, arrays: Sequence[NumPyArray]) -> bool:
        """Whether these arrays, from which it was made, have kept their shapes and dtype: both can be changed."""
        same_dtype = [array.dtype for array in arrays].count(self.dtype) == len(arrays)
        return same_dtype and [array.shape for array in arrays] == self.shapes

    def into_new_memory(self) -> NumPyArray:
        target = hostpool.empty(self.shape, self.dtype)
        self.into(target)
        return target if self.result_shape is None else target.reshape(self.result_shape)

    def into(self, target: NumPyArray) -> None:
        """Join into an array of the shape in which they are joined."""
        hostthreads.share(self.copies, target)


def _shared_copies(
    arrays: Sequence[NumPyArray], sizes: Sequence[int], axis: int, shape: Shape, nbytes: int, threads: int
) -> list[Callable[[NumPyArray], None]]:
    """A join into an array of some shape, cut among threads: functions of that array."""
    if threads == 1:
        return [partial(_copy_into, lambda: arrays, axis, ())]
    rows = plan.matrix(shape, axis).rows
    across = 0 if axis and shape[0] >= 64 and nbytes >= settings.wide_row * rows * len(arrays) else axis
    cut = partial(_rows, arrays) if across != axis else partial(_columns, arrays, sizes, axis)
    bounds = plan.shares(shape[across], nbytes, threads, settings.head_start)
    before = (slice(None),) * across
    return [partial(_copy_into, partial(cut, lo, hi), axis, (*before, slice(lo, hi))) for lo, hi in pairwise(bounds)]


def _copy_into(
    cut: Callable[[], Sequence[NumPyArray]], axis: int, where: tuple[slice, ...], target: NumPyArray
) -> None:
    """Join the pieces that `cut` gives into a part of the result.

    They are cut out here, by the thread that copies them: the other threads are woken before anything else is done.  No
    view is kept, since the memory of an array may be moved by a resize.
    """
    np.concatenate(cut(), axis, out=target[where], casting="unsafe")


def _rows(arrays: Sequence[NumPyArray], start: int, stop: int) -> list[NumPyArray]:
    return [array[start:stop] for array in arrays]


def _columns(arrays: Sequence[NumPyArray], sizes: Sequence[int], axis: int, start: int, stop: int) -> list[NumPyArray]:
    before = (slice(None),) * axis
    parts = plan.parts_between(sizes, start, stop)
    return [arrays[part.piece][(*before, slice(part.start, part.stop))] for part in parts]


def _rejoined(run: Run, axis: int, kind: Kind, stack: bool) -> NumPyArray | None:
    """The packed chunks of one split joined again along the axis they came from; None where they are something else."""
    cut, starts, stops = run.cut, run.starts, run.stops
    count = len(starts)
    if (
        axis != cut.axis
        or stack != cut.dropped
        or not cut.packed
        or not isinstance(starts, range)
        or not run.is_gapless()
        or stops[-1] > cut.shape[cut.axis]
    ):
        return None
    before, after = cut.shape[: cut.axis], cut.shape[cut.axis + 1 :]
    rows, step = plan.matrix(cut.shape, cut.axis).rows, cut.step
    length = stops[-1] - starts[0]
    target = hostpool.empty((*before, length, *after), kind.dtype)
    if target.size:
        width = target.size // (rows * count)
        source = run.base[starts[0] * step : stops[-1] * step].reshape(count, rows, width)
        threads = _threads_for(target.nbytes, count, target.dtype)
        _copy_rows(target.reshape(rows, count, width).swapaxes(0, 1), source, rows, threads)
    return target


def duplicate(array: NumPyArray, kind: Kind) -> NumPyArray:
    """A copy of one array, in the dtype of `kind`, row-major."""
    if array.nbytes < settings.threads_from:
        if kind.exact and type(array) is np.ndarray:
            return array.copy()
        return np.array(array, dtype=kind.dtype, order="C")
    target, source = hostpool.empty(array.shape, kind.dtype), np.asarray(array)
    into = target
    if source.flags.c_contiguous:
        into, source = target.reshape(-1), source.reshape(-1)
    threads = _threads_for(target.nbytes, 1, target.dtype)
    bounds = plan.shares(len(into), target.nbytes, threads, settings.head_start)
    hostthreads.share([partial(np.copyto, into[lo:hi], source[lo:hi]) for lo, hi in pairwise(bounds)])
    return target


def split(array: NumPyArray, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
    """Copies of the chunks of an array, packed in one allocation."""
    shape, axis, dropped, _ = cut
    if axis == 0 or prod(shape[:axis]) == 1:
        # Along the first axis, the chunks of a row-major copy follow one another already.
        plain = array.nbytes < settings.threads_from and kind.exact and type(array) is _ndarray
        return (Run(array.copy() if plain else duplicate(array, kind), cut, starts, stops),)
    base = hostpool.empty((array.size,), kind.dtype)
    packed = Run(base, Cut(shape, axis, dropped, True), starts, stops)
    count = len(starts)
    threads = _threads_for(base.nbytes, count, base.dtype)
    if isinstance(starts, range) and stops[-1] == shape[axis] and array.flags.c_contiguous and array.size:
        # Chunks of one size lie in both as rows of a matrix of rows; one call copies many of them.
        rows = plan.matrix(shape, axis).rows
        width = array.size // (rows * count)
        source = np.asarray(array).reshape(rows, count, width).swapaxes(0, 1)
        _copy_rows(base.reshape(count, rows, width), source, rows, threads)
        return (packed,)
    chunks = Run(np.asarray(array), cut, starts, stops)
    bounds = plan.shares(shape[axis], base.nbytes, threads, settings.head_start)
    first = [bisect_left(starts, bound) for bound in bounds[:-1]] + [count]
    hostthreads.share([partial(_copy_chunks, packed, chunks, lo, hi) for lo, hi in pairwise(first)])
    return (packed,)


def _copy_chunks(targets: Run, sources: Run, first: int, last: int) -> None:
    for index in range(first, last):
        np.copyto(targets[index], sources[index])


def _copy_rows(target: NumPyArray, source: NumPyArray, rows: int, threads: int) -> None:
    """Copy between arrays of shape (chunks, rows, width), whose rows lie apart in one of them."""
    nbytes = target.shape[2] * target.itemsize
    if (
        target.nbytes >= settings.items_from
        and target.itemsize < nbytes <= settings.items_up_to
        and source.dtype == target.dtype
    ):
        target, source = _with_rows_as_items(target, nbytes), _with_rows_as_items(source, nbytes)
    if target.nbytes < 4 * settings.block:
        np.copyto(target, source)
        return
    bounds = plan.shares(rows, target.nbytes, threads, settings.head_start)
    step = max(1, settings.block * rows // target.nbytes)
    hostthreads.share([partial(_copy_blocks, target, source, lo, hi, step) for lo, hi in pairwise(bounds)])


def _with_rows_as_items(array: NumPyArray, nbytes: int) -> NumPyArray:
    """The same bytes with one item in a row: NumPy copies items in a loop, for rows it prepares one each time."""
    return array if array.dtype.hasobject else array.view(f"V{nbytes}")[:, :, 0]


def _copy_blocks(target: NumPyArray, source: NumPyArray, first: int, last: int, step: int) -> None:
    for row in range(first, last, step):
        rows = slice(row, min(row + step, last))
        np.copyto(target[:, rows], source[:, rows])


def pack(arrays: Sequence[NumPyArray], kind: Kind) -> Blocks:
    """Copies of arrays of any shapes, packed in one allocation."""
    return (packed(arrays, kind.dtype, hostpool.empty),)


def packed(arrays: Sequence[NumPyArray], dtype: Any, empty: Callable[[Shape, Any], NumPyArray]) -> PackedRun:
    """Copies of arrays of any shapes, packed in memory that `empty` gives for a shape and a dtype."""
    shapes = shapes_of((tuple(arrays),))
    sizes = list(map(prod, shapes))
    ends = list(accumulate(sizes, initial=0))
    base = empty((ends[-1],), dtype)
    flat = [np.asarray(array).reshape(-1) for array in arrays]
    _LargeJoin(flat, 0, base.dtype).into(base)
    return PackedRun(base, ends[:-1], shapes)
