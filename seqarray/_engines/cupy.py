"""Joining and splitting CuPy arrays: one allocation and one launch for any number of pieces of any fixed-size dtype.

A join is planned in plain integers, before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import accumulate, chain
from math import prod
from typing import Any, NamedTuple

import cupy
import numpy as np

from seqarray._arguments import Column, Shape
from seqarray._blocks import Block, Blocks, as_one_piece, shapes_of, to_arrays, to_pieces
from seqarray._engines import plan
from seqarray._engines.launcher import Launcher, launcher_for
from seqarray._engines.segments import Integers, Segments, offsets_of
from seqarray._kind import Kind
from seqarray._views import Cut, PackedRun, Run, as_column

CuPyArray = Any

#: Item size to a dtype of that size for which CuPy has a copy kernel.
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}

#: The maximum number of pieces that are passed as lists; more are passed as NumPy arrays.
FEW = 300

_ndarray = cupy.ndarray
_alloc = cupy.cuda.alloc
_current_device = cupy.cuda.runtime.getDevice
_already_current = nullcontext()


#: `join` compares dtypes and devices, see `Engine`.
compares_elements = True


class _Join(NamedTuple):
    """A planned join: everything but the memory of its result."""

    shape: Shape
    dtype: Any
    device: int
    #: A method of the launcher, and its arguments after the address of the result.
    copy: Callable[..., None]
    arguments: tuple[Any, ...]
    #: Copies of elements, to be kept alive until the launch.
    held: tuple[CuPyArray, ...] = ()

    def into_new_memory(self) -> CuPyArray:
        """Allocate the result and launch the copy, on the current device."""
        result = _empty(self.shape, self.dtype)
        self.copy(launcher_for(self.device), False, result.data.ptr, *self.arguments)
        return result


def _on(device: int) -> Any:
    """Return a context in which a device is current: CuPy allocates and launches on the current one."""
    return _already_current if _current_device() == device else cupy.cuda.Device(device)


def _empty(shape: Shape, dtype: Any) -> CuPyArray:
    """Return an uninitialised array.  `cupy.empty` refuses dtypes that it cannot compute with, such as float8."""
    return _ndarray(shape, dtype, _alloc(prod(shape) * dtype.itemsize))


def join(blocks: Blocks, axis: int, stack: bool, kind: Kind, out: CuPyArray = None) -> CuPyArray:
    """Join elements along an axis that they have or, with `stack`, along a new one."""
    device = kind.device.id
    if _current_device() != device:
        with cupy.cuda.Device(device):
            return join(blocks, axis, stack, kind, out)
    planned = _planned(blocks, axis, stack, kind.dtype, device)
    if out is None:
        return planned.into_new_memory()
    stride = _row_stride(out, axis)
    overlaps = any(cupy.may_share_memory(piece, out) for piece in to_pieces(blocks, axis, stack))
    if stride is None or stride <= 0 or overlaps:
        out[...] = planned.into_new_memory()
    else:
        planned.copy(launcher_for(device), False, out.data.ptr, *planned.arguments, matrix_stride=stride)
    return out


# Elements as rows of a matrix.


def _row_stride(array: CuPyArray, axis: int) -> int | None:
    """Return the row stride, in bytes, of an array as a matrix cut along an axis; 0 for an empty array.

    None if the bytes of a row are not contiguous, or the distances between rows differ.
    """
    if not array.size:
        return 0
    shape, strides = array.shape, array.strides
    width = array.itemsize
    for length, stride in zip(reversed(shape[axis:]), reversed(strides[axis:]), strict=True):
        if length != 1 and stride != width:
            return None
        width *= length
    pitch = step = None
    for length, stride in zip(reversed(shape[:axis]), reversed(strides[:axis]), strict=True):
        if length == 1:
            continue
        if step is None:
            pitch = step = stride
        elif stride != step:
            return None
        step *= length
    return int(width if pitch is None else pitch)


def _in_rows(arrays: Sequence[CuPyArray], axis: int) -> tuple[Sequence[CuPyArray], list[int], tuple[CuPyArray, ...]]:
    """Return arrays that have row strides, those strides, and the copies among the arrays."""
    rows, strides, copies = [], [], []
    for array in arrays:
        stride = _row_stride(array, axis)
        if stride is None:
            array = _duplicate(array)
            stride = prod(array.shape[axis:]) * array.itemsize
            copies.append(array)
        rows.append(array)
        strides.append(stride)
    return rows, strides, tuple(copies)


def _line(shape: Shape, axis: int, stack: bool) -> tuple[Shape, Shape, int]:
    """Return the lengths before and after the axis, and the one along it, which is 1 for a new axis."""
    return (shape[:axis], shape[axis:], 1) if stack else (shape[:axis], shape[axis + 1 :], shape[axis])


def _lines(shapes: Sequence[Shape], axis: int, stack: bool) -> tuple[Shape, Shape, int | list[int]]:
    """Return the same for several shapes; raise a ValueError unless the lengths before and after the axis agree.

    The lengths along the axis are one int if they are equal.
    """
    lengths = plan.lengths_along(shapes, axis, stack)
    before, after, _ = _line(shapes[0], axis, stack)
    return before, after, lengths


# Planning a join.


def _planned(blocks: Blocks, axis: int, stack: bool, dtype: Any, device: int) -> _Join:
    if len(blocks) == 1 and type(blocks[0]) is tuple:
        return _join_of_arrays(blocks[0], axis, stack, dtype, device)
    if not stack:
        blocks = tuple([as_one_piece(block, axis) for block in blocks])
    if all(isinstance(block, tuple) for block in blocks):
        return _join_of_arrays(to_arrays(blocks), axis, stack, dtype, device)
    if len(blocks) == 1 and isinstance(blocks[0], Run):
        join = _join_of_run(blocks[0], axis, stack, dtype, device)
        if join is not None:
            return join
    lines = [_lines_of(block, axis, stack) for block in blocks]
    before, after, _ = lines[0]
    if any(other[:2] != (before, after) for other in lines):
        raise ValueError("shapes differ")
    inner = prod(after) * dtype.itemsize
    lengths = [length for _, _, length in lines]
    bounds = np.zeros(sum(map(len, lengths)) + 1, dtype=np.int64)
    np.cumsum(_concatenated(lengths), out=bounds[1:])
    columns = [_columns(block, axis) for block in blocks]
    addresses = _concatenated([one.addresses for one in columns])
    strides = None
    if any(one.strides is not None for one in columns):
        widths = [length * inner for length in lengths]
        strides = _concatenated(
            [w if one.strides is None else one.strides for w, one in zip(widths, columns, strict=True)]
        )
    shape = (*before, int(bounds[-1]), *after)
    held = tuple(chain.from_iterable(one.held for one in columns))
    return _gather(shape, dtype, device, prod(before), addresses, bounds * inner, strides, held)


def _concatenated(columns: list[Any]) -> Any:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _join_of_arrays(
    arrays: Sequence[CuPyArray],
    axis: int,
    stack: bool,
    dtype: Any,
    device: int,
) -> _Join:
    before, after, lengths = _lines([array.shape for array in arrays], axis, stack)
    rows, inner = prod(before), prod(after) * dtype.itemsize
    strides: list[int] | None = None
    held: tuple[CuPyArray, ...] = ()
    if False in [array._c_contiguous for array in arrays]:
        arrays, strides, held = _in_rows(arrays, axis)
    memory = [array.data for array in arrays]
    if [one.device_id for one in memory].count(device) != len(memory):
        raise ValueError("devices differ")
    addresses = [one.ptr for one in memory]
    if isinstance(lengths, int):
        shape = (*before, len(arrays) * lengths, *after)
        return _gather(shape, dtype, device, rows, addresses, lengths * inner, strides, held)
    if 0 in lengths:
        kept = [index for index, length in enumerate(lengths) if length]
        addresses, lengths = [addresses[index] for index in kept], [lengths[index] for index in kept]
        strides = strides and [strides[index] for index in kept]
    ends = list(accumulate(lengths, initial=0))
    bounds = [end * inner for end in ends]
    return _gather((*before, ends[-1], *after), dtype, device, rows, addresses, bounds, strides, held)


def _gather(
    shape: Shape,
    dtype: Any,
    device: int,
    rows: int,
    addresses: Column,
    bounds: Column,
    strides: Column | None,
    held: tuple[CuPyArray, ...] = (),
) -> _Join:
    """Return the join of pieces, given as lists or int64 arrays; `bounds` may be the width of all pieces."""
    if len(addresses) <= FEW and isinstance(addresses, list):
        return _Join(shape, dtype, device, Launcher.copy_few, (rows, addresses, bounds, strides), held)
    bounds = bounds if isinstance(bounds, int) else as_column(bounds)
    strides = None if strides is None else as_column(strides)
    return _Join(shape, dtype, device, Launcher.copy_many, (rows, as_column(addresses), bounds, strides), held)


def _join_of_run(run: Run, axis: int, stack: bool, dtype: Any, device: int) -> _Join | None:
    """Return the join of the chunks of one split into equal parts; None if the chunks are not such."""
    starts, count = run.starts, len(run)
    size, last_size = run.size_of(0), run.size_of(count - 1)
    if not isinstance(starts, range) or size < last_size or (starts.step < 0 and size > last_size):
        return None  # a shorter first chunk: the run is reversed
    if size != last_size and not _along(run, axis, stack):
        raise ValueError("shapes differ")
    before, after, length = _line(run.cut.chunk_shape(size), axis, stack)
    inner = prod(after) * dtype.itemsize
    total = length * count - (size - last_size)
    rows = _chunk_rows(run, axis)
    if rows is None:
        return None
    step = rows.step * (starts[1] - starts[0]) if count > 1 else 0
    arguments = (prod(before), total * inner, length * inner, rows.first, step, rows.stride)
    return _Join((*before, total, *after), dtype, device, Launcher.copy_uniform, arguments, rows.held)


def _along(run: Run, axis: int, stack: bool) -> bool:
    """Return whether a join is along the axis on which the run was split, and the chunks have kept that axis."""
    return not stack and not run.cut.dropped and axis == run.cut.axis


class _ChunkRows(NamedTuple):
    """Chunks of a run as rows of a matrix.

    Attributes
    ----------
    first : int
        Address of the first chunk.
    step : int
        Bytes for every step along the axis of the split.
    stride : int or None
        Bytes from row to row; None if the chunks have no gaps.
    held : tuple
        The copy of the base, if there is one.
    """

    first: int
    step: int
    stride: int | None
    held: tuple[CuPyArray, ...] = ()


def _chunk_rows(run: Run, axis: int) -> _ChunkRows | None:
    """Return the geometry of the chunks without creating views; chunks without a row stride are copied, in one launch.

    None if the chunks have to be looked at one by one.
    """
    base, cut = run.base, run.cut
    start = int(run.starts[0])
    if cut.packed:
        step = cut.step * base.itemsize
        return _ChunkRows(base.data.ptr + start * step, step, None)
    # The largest chunk: if its rows are contiguous, those of the others are too.
    stride = _row_stride(run[_largest(run)], axis)
    if stride is not None:
        step = base.strides[cut.axis]
        return _ChunkRows(base.data.ptr + start * step, step, stride)
    around = run.trimmed()
    if around is None:
        return None
    copies = _scatter(around.base, around.cut, around.starts, around.stops)
    rows = _chunk_rows(copies, axis)
    return None if rows is None else rows._replace(held=(copies.base,))


def _largest(run: Run) -> int:
    """Return the index of the largest chunk."""
    if isinstance(run.starts, range):
        last = len(run) - 1
        return 0 if run.size_of(0) >= run.size_of(last) else last
    return int((as_column(run.stops) - as_column(run.starts)).argmax())


def _lines_of(block: Block, axis: int, stack: bool) -> tuple[Shape, Shape, Any]:
    """Return what `_lines` does for the elements of a block, with the lengths along the axis as an int64 array."""
    if not isinstance(block, Run):
        before, after, lengths = _lines(shapes_of((block,)), axis, stack)
        return before, after, np.full(len(block), lengths)
    sizes = as_column(block.stops) - as_column(block.starts)
    sizes[[0, -1]] = block.size_of(0), block.size_of(len(block) - 1)  # the last stop may exceed the axis
    along = _along(block, axis, stack)
    if not along and sizes.min() != sizes.max():
        raise ValueError("shapes differ")
    before, after, length = _line(block.cut.chunk_shape(int(sizes[0])), axis, stack)
    return before, after, sizes if along else np.full(len(block), length)


class _Columns(NamedTuple):
    """The elements of a block as rows of a matrix.

    Attributes
    ----------
    addresses : int64 array
        The address of each.
    strides : int64 array or None
        Bytes from row to row; None if no element has gaps.
    held : tuple
        The copies of elements that had no row stride.
    """

    addresses: Any
    strides: Any
    held: tuple[CuPyArray, ...] = ()


def _columns(block: Block, axis: int) -> _Columns:
    if isinstance(block, PackedRun):
        return _Columns(block.base.data.ptr + as_column(block.starts) * block.base.itemsize, None)
    rows = _chunk_rows(block, axis) if isinstance(block, Run) else None
    if isinstance(block, Run) and rows is not None:
        starts = as_column(block.starts)
        strides = None if rows.stride is None else np.full(len(starts), rows.stride)
        return _Columns(rows.first + (starts - starts[0]) * rows.step, strides, rows.held)
    arrays, stride_list, held = _in_rows(list(block), axis)
    return _Columns(as_column([array.data.ptr for array in arrays]), as_column(stride_list), held)


# Other copies.


def duplicate(array: CuPyArray, kind: Kind) -> CuPyArray:
    """Copy one array, row-major."""
    with _on(kind.device.id):
        return _duplicate(array)


def _duplicate(array: CuPyArray) -> CuPyArray:
    if array._c_contiguous:
        result = _empty(array.shape, array.dtype)
        launcher_for(array.data.device_id).copy_few(False, result.data.ptr, 1, [array.data.ptr], array.nbytes)
        return result
    # The first axis with a row stride gives the fewest rows.
    for axis in range(array.ndim):
        stride = _row_stride(array, axis)
        if stride is not None:
            result = _empty(array.shape, array.dtype)
            rows, width = prod(array.shape[:axis]), prod(array.shape[axis:]) * array.itemsize
            launcher = launcher_for(array.data.device_id)
            launcher.copy_few(False, result.data.ptr, rows, [array.data.ptr], width, [stride])
            return result
    # As plain bits: CuPy has no kernels for some dtypes, such as float8.
    copied = array.view(_BITS.get(array.itemsize, array.dtype)).copy(order="C")
    return _ndarray(array.shape, array.dtype, copied.data)


def split(array: CuPyArray, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
    """Copy the chunks of an array, packed in one allocation."""
    with _on(kind.device.id):
        return (_scatter(array, cut, starts, stops),)


def _scatter(array: CuPyArray, cut: Cut, starts: Column, stops: Column) -> Run:
    shape, axis = cut.shape, cut.axis
    rows, length, inner = plan.matrix(shape, axis)
    if rows == 1:
        # The chunks of a row-major copy are contiguous already.
        return Run(_duplicate(array), cut, starts, stops)
    width = inner * array.itemsize
    stride = _row_stride(array, axis)
    if stride is None or stride <= 0:
        array, stride = _duplicate(array), length * width
    base = _empty((array.size,), array.dtype)
    packed = Run(base, Cut(shape, axis, cut.dropped, True), starts, stops)
    launcher = launcher_for(array.data.device_id)
    first, step = base.data.ptr, packed.cut.step * array.itemsize
    matrix, pitch = array.data.ptr, length * width
    if isinstance(starts, range):
        size = stops[0] - starts[0]  # the step of one reversed chunk is negative
        launcher.copy_uniform(True, matrix, rows, pitch, size * width, first, size * step, matrix_stride=stride)
    elif len(starts) <= FEW:
        places = [int(start) for start in starts]
        addresses, bounds = [first + place * step for place in places], [place * width for place in places]
        launcher.copy_few(True, matrix, rows, addresses, [*bounds, pitch], matrix_stride=stride)
    else:
        column = as_column(starts)
        ends = np.append(column * width, pitch)
        launcher.copy_many(True, matrix, rows, first + column * step, ends, matrix_stride=stride)
    return packed


def pack(arrays: Sequence[CuPyArray], kind: Kind) -> Blocks:
    """Copy arrays of any shapes, packed in one allocation."""
    return (packed(arrays, kind),)


def packed(arrays: Sequence[CuPyArray], kind: Kind) -> PackedRun:
    """Copy arrays of any shapes into one packed run."""
    device, itemsize = kind.device.id, kind.dtype.itemsize
    with _on(device):
        rows = [array if array._c_contiguous else _duplicate(array) for array in arrays]
        ends = list(accumulate([array.size for array in arrays], initial=0))
        addresses, bounds = [array.data.ptr for array in rows], [end * itemsize for end in ends]
        base = _gather((ends[-1],), kind.dtype, device, 1, addresses, bounds, None).into_new_memory()
    return PackedRun(base, ends[:-1], [array.shape for array in arrays])


def gather(
    sources: Sequence[tuple[CuPyArray, Segments]], count: int, kind: Kind, fill: np.ndarray[Any, Any] | None = None
) -> CuPyArray:
    """Copy ranges of the rows of arrays into a new array of `count` rows: in one launch, or one for each array."""
    dtype = kind.dtype
    with _on(kind.device.id):
        target = _empty((count, *sources[0][0].shape[1:]), dtype)
        if not target.size:
            return target
        width = target.nbytes // count
        if fill is not None:
            bits = _BITS[dtype.itemsize]
            target.view(bits).fill(fill.astype(dtype).view(bits).item())
        arrays = [source if source._c_contiguous else _duplicate(source) for source, _ in sources]
        copied = [segments.without_empty() for _, segments in sources]
        addresses = [array.data.ptr + one.sources * width for array, one in zip(arrays, copied, strict=True)]
        launcher, first = launcher_for(kind.device.id), target.data.ptr
        if fill is None:
            places = np.concatenate([one.targets for one in copied])
            order = places.argsort()
            _copy_rows(launcher, False, first, np.concatenate(addresses)[order], np.append(places[order], count), width)
            return target
        for array, (starts, places, lengths) in zip(arrays, copied, strict=True):
            if len(starts):
                order = starts.argsort()
                ends = offsets_of(lengths[order])
                matrix = array.data.ptr + int(starts[order[0]]) * width
                _copy_rows(launcher, True, matrix, first + places[order] * width, ends, width)
        return target


def _copy_rows(
    launcher: Launcher, scatter: bool, matrix: int, addresses: Integers, bounds: Integers, width: int
) -> None:
    if len(addresses) <= FEW:
        launcher.copy_few(scatter, matrix, 1, addresses.tolist(), (bounds * width).tolist())
    else:
        launcher.copy_many(scatter, matrix, 1, addresses, bounds * width)
