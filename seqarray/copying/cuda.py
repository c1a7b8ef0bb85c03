"""Joining and splitting CuPy arrays: one allocation and one launch for any number of pieces of any fixed-size dtype.

A join is prepared in plain integers, before anything is allocated.  What was prepared for a sequence stays with it, as
the addresses of its elements do not change: joining it again costs an allocation and a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import accumulate, chain
from math import prod
from typing import Any, NamedTuple

import cupy
import numpy as np

from seqarray.arguments import Column, Shape
from seqarray.blocks import (
    Block,
    Blocks,
    Cut,
    PackedRun,
    Run,
    as_column,
    as_one_piece,
    first_shape,
    to_arrays,
    to_pieces,
)
from seqarray.copying import plan
from seqarray.copying.cudalaunch import Launcher, launcher_for
from seqarray.copying.facts import Facts
from seqarray.elementtypes import Kind

CuPyArray = Any

ARRAY_TYPE = cupy.ndarray
checks_shapes = True

#: More pieces than this are kept as columns, which the launcher copies into its arguments at once.
FEW = 300

_ndarray = cupy.ndarray
_alloc = cupy.cuda.alloc
_current_device = cupy.cuda.runtime.getDevice
_already_current = nullcontext()


class _Join(NamedTuple):
    """A join that only lacks the memory of its result."""

    shape: Shape
    dtype: Any
    device: int
    #: A method of the launcher, and its arguments after the address of the result.
    copy: Callable[..., None]
    arguments: tuple[Any, ...]
    #: Copies of elements, made for this join alone.
    held: tuple[CuPyArray, ...] = ()

    def into_new_memory(self) -> CuPyArray:
        """The result.  The device is current."""
        result = _empty(self.shape, self.dtype)
        self.copy(launcher_for(self.device), False, result.data.ptr, *self.arguments)
        return result


def _on(device: int) -> Any:
    """A context in which a device is current, whichever was before: CuPy allocates and launches on the current one."""
    return _already_current if _current_device() == device else cupy.cuda.Device(device)


def _empty(shape: Shape, dtype: Any) -> CuPyArray:
    """An uninitialised array.  `cupy.empty` refuses dtypes that it cannot compute with, such as float8."""
    return _ndarray(shape, dtype, _alloc(prod(shape) * dtype.itemsize))


def learn(blocks: Blocks, kind: Kind) -> Facts:
    """Joins of any size are prepared once for each axis."""
    del blocks, kind
    facts = Facts(small=True)
    facts.prepared = {}
    return facts


def join_small(blocks: Blocks, axis: int, stack: int, facts: Facts) -> CuPyArray:
    """As `join`, from what was prepared before."""
    join: _Join | None = facts.prepared.get((axis, stack))
    if join is not None:
        with _on(join.device):
            return join.into_new_memory()
    first = blocks[0][0] if isinstance(blocks[0], tuple) else blocks[0].base
    device = first.data.device_id
    with _on(device):
        join = _prepare(blocks, _counted(axis, len(first_shape(blocks)) + stack), bool(stack), first.dtype, device)
        if not join.held:
            facts.prepared[axis, stack] = join
        return join.into_new_memory()


def join_list(arrays: Sequence[Any], axis: int, stack: int) -> CuPyArray | None:
    """Join a list of CuPy arrays; None where anything about them asks for the general case."""
    count = len(arrays)
    if list(map(type, arrays)).count(_ndarray) != count:
        return None
    dtype = arrays[0].dtype
    memory = [array.data for array in arrays]
    device = memory[0].device_id
    if [array.dtype for array in arrays].count(dtype) != count:
        return None
    if [one.device_id for one in memory].count(device) != count:
        return None
    axis = _counted(axis, arrays[0].ndim + stack)
    with _on(device):
        return _join_of_arrays(arrays, axis, bool(stack), dtype, device, memory).into_new_memory()


def join(blocks: Blocks, axis: int, kind: Kind, *, stack: bool, out: CuPyArray = None) -> CuPyArray:
    """The elements along one axis, an existing one or (with `stack`) a new one."""
    device = kind.device.id
    with _on(device):
        join = _prepare(blocks, axis, stack, kind.dtype, device)
        if out is None:
            return join.into_new_memory()
        stride = _row_stride(out, axis)
        if stride is None or any(cupy.may_share_memory(piece, out) for piece in to_pieces(blocks, axis, stack)):
            out[...] = join.into_new_memory()
        else:
            join.copy(launcher_for(device), False, out.data.ptr, *join.arguments, matrix_stride=stride)
        return out


def _counted(axis: int, places: int) -> int:
    """The axis counted from the front; ValueError sends the caller to the general case, which explains."""
    if not -places <= axis < places:
        raise ValueError("left to the general case")
    return axis + places if axis < 0 else axis


# Elements as rows of a matrix.


def _row_stride(array: CuPyArray, axis: int) -> int | None:
    """Bytes from a row to the next where an array lies in rows of contiguous bytes, equally far apart; else None.

    The rows are those of the matrix that it is along the axis.
    """
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
    """Arrays that lie in rows, their strides, and those among them that had to be copied for it."""
    rows, strides, copies = [], [], []
    for array in arrays:
        stride = _row_stride(array, axis) if array.size else 0
        if stride is None:
            array = array.copy(order="C")
            stride = prod(array.shape[axis:]) * array.itemsize
            copies.append(array)
        rows.append(array)
        strides.append(stride)
    return rows, strides, tuple(copies)


def _line(shape: Shape, axis: int, stack: bool) -> tuple[Shape, Shape, int]:
    """The lengths before and after the axis, and the one along it.  A new axis is one long."""
    return (shape[:axis], shape[axis:], 1) if stack else (shape[:axis], shape[axis + 1 :], shape[axis])


def _lines(shapes: Sequence[Shape], axis: int, stack: bool) -> tuple[Shape, Shape, int | list[int]]:
    """As `_line` for shapes that have the lengths before and after in common; ValueError for others.

    The length along the axis is one for all where it is the same.
    """
    first, count = shapes[0], len(shapes)
    if shapes.count(first) == count:
        return _line(first, axis, stack)
    before, after = first[:axis], first[axis + 1 :]
    # Shapes of another rank differ in one of the two.
    fits = [shape[axis + 1 :] for shape in shapes].count(after) == count and not stack
    if not fits or (axis and [shape[:axis] for shape in shapes].count(before) != count):
        raise ValueError("shapes differ")
    return before, after, [shape[axis] for shape in shapes]


# Preparing a join.


def _prepare(blocks: Blocks, axis: int, stack: bool, dtype: Any, device: int) -> _Join:
    if not stack:
        blocks = tuple([as_one_piece(block, axis) for block in blocks])
    if all(isinstance(block, tuple) for block in blocks):
        return _join_of_arrays(to_arrays(blocks), axis, stack, dtype, device)
    if len(blocks) == 1 and isinstance(blocks[0], Run):
        join = _join_of_run(blocks[0], axis, stack, dtype, device)
        if join is not None:
            return join
    columns = [_columns(block, axis, stack) for block in blocks]
    before, after = columns[0].before, columns[0].after
    if any((one.before, one.after) != (before, after) for one in columns):
        raise ValueError("shapes differ")
    inner = prod(after) * dtype.itemsize
    lengths = np.concatenate([one.lengths for one in columns])
    addresses = np.concatenate([one.addresses for one in columns])
    strides = None
    if any(one.strides is not None for one in columns):
        strides = np.concatenate([one.lengths * inner if one.strides is None else one.strides for one in columns])
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    shape = (*before, int(bounds[-1]), *after)
    held = tuple(chain.from_iterable(one.held for one in columns))
    return _gather(shape, dtype, device, prod(before), addresses, bounds * inner, strides, held)


def _join_of_arrays(
    arrays: Sequence[CuPyArray],
    axis: int,
    stack: bool,
    dtype: Any,
    device: int,
    memory: Sequence[Any] | None = None,
) -> _Join:
    """A join of arrays; `memory` is where they lie, if that has been looked up already."""
    before, after, lengths = _lines([array.shape for array in arrays], axis, stack)
    rows, inner = prod(before), prod(after) * dtype.itemsize
    strides: list[int] | None = None
    held: tuple[CuPyArray, ...] = ()
    if False in [array._c_contiguous for array in arrays]:
        arrays, strides, held = _in_rows(arrays, axis)
        memory = None
    addresses = [array.data.ptr for array in arrays] if memory is None else [one.ptr for one in memory]
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
    """A join of pieces, as lists or columns of integers; the bounds may be the width of all."""
    if len(addresses) <= FEW and isinstance(addresses, list):
        return _Join(shape, dtype, device, Launcher.copy_few, (rows, addresses, bounds, strides), held)
    bounds = bounds if isinstance(bounds, int) else as_column(bounds)
    strides = None if strides is None else as_column(strides)
    return _Join(shape, dtype, device, Launcher.copy_many, (rows, as_column(addresses), bounds, strides), held)


def _join_of_run(run: Run, axis: int, stack: bool, dtype: Any, device: int) -> _Join | None:
    """A join of the equal chunks of one split, however many there are; None where they are something else."""
    starts, count = run.starts, len(run)
    if not isinstance(starts, range):
        return None
    size, last_size = run.size_of(0), run.size_of(count - 1)
    if size < last_size or (starts.step < 0 and size > last_size):
        return None  # reversed: the one that is shorter comes first
    rows = _chunk_rows(run, axis, largest=0)
    if rows is None:
        return None
    if size != last_size and not _along(run, axis, stack):
        raise ValueError("shapes differ")
    before, after, length = _line(run.cut.chunk_shape(size), axis, stack)
    inner = prod(after) * dtype.itemsize
    total = length * count - (size - last_size)
    step = rows.step * (starts[1] - starts[0]) if count > 1 else 0
    arguments = (prod(before), total * inner, length * inner, rows.first, step, rows.stride)
    return _Join((*before, total, *after), dtype, device, Launcher.copy_uniform, arguments)


def _along(run: Run, axis: int, stack: bool) -> bool:
    """Whether a join goes along the axis that the run was split on, which its chunks still have."""
    return not stack and not run.cut.dropped and axis == run.cut.axis


class _ChunkRows(NamedTuple):
    """Chunks of a run as rows of a matrix: address of the first, bytes per step of the split, and from row to row."""

    first: int
    step: int
    stride: int | None


def _chunk_rows(run: Run, axis: int, *, largest: int) -> _ChunkRows | None:
    """How the chunks lie, without a view of each; None where they do not lie in rows."""
    base, cut = run.base, run.cut
    if cut.packed:
        step, stride = cut.step * base.itemsize, None
    else:
        # In the largest, the most steps have to lie side by side.
        step, stride = base.strides[cut.axis], _row_stride(run[largest], axis)
        if stride is None:
            return None
    return _ChunkRows(base.data.ptr + int(run.starts[0]) * step, step, stride)


class _Columns(NamedTuple):
    """The elements of a block as rows of a matrix: one integer for each of them.

    Attributes
    ----------
    before, after : Shape
        The lengths before and after the axis.
    lengths : int64 array
        Along the axis.
    addresses : int64 array
        Where each begins.
    strides : int64 array or None
        Bytes from row to row; None if none of them has gaps.
    held : tuple
        Copies of elements that did not lie in rows.
    """

    before: Shape
    after: Shape
    lengths: Any
    addresses: Any
    strides: Any
    held: tuple[CuPyArray, ...] = ()


def _columns(block: Block, axis: int, stack: bool) -> _Columns:
    if isinstance(block, PackedRun):
        before, after, lengths = _lines(block.shapes, axis, stack)
        addresses = block.base.data.ptr + as_column(block.starts) * block.base.itemsize
        return _Columns(before, after, np.full(len(block), lengths), addresses, None)
    if isinstance(block, Run):
        columns = _columns_of_run(block, axis, stack)
        if columns is not None:
            return columns
    arrays = list(block)
    before, after, lengths = _lines([array.shape for array in arrays], axis, stack)
    rows, strides, held = _in_rows(arrays, axis)
    addresses = [array.data.ptr for array in rows]
    return _Columns(before, after, np.full(len(rows), lengths), as_column(addresses), as_column(strides), held)


def _columns_of_run(run: Run, axis: int, stack: bool) -> _Columns | None:
    starts = as_column(run.starts)
    sizes = np.minimum(as_column(run.stops), run.cut.shape[run.cut.axis]) - starts
    largest = int(sizes.argmax())
    rows = _chunk_rows(run, axis, largest=largest)
    if rows is None:
        return None
    along = _along(run, axis, stack)
    if not along and sizes.min() != sizes[largest]:
        raise ValueError("shapes differ")
    before, after, length = _line(run.cut.chunk_shape(int(sizes[largest])), axis, stack)
    lengths = sizes if along else np.full(len(run), length)
    strides = None if rows.stride is None else np.full(len(run), rows.stride)
    return _Columns(before, after, lengths, rows.first + (starts - starts[0]) * rows.step, strides)


# Copies that are no join.


def duplicate(array: CuPyArray, kind: Kind) -> CuPyArray:
    """A copy of one array, row-major."""
    with _on(kind.device.id):
        return _duplicate(array)


def _duplicate(array: CuPyArray) -> CuPyArray:
    # Along the last axis that will do, an array has the fewest rows.
    for axis in range(array.ndim):
        stride = _row_stride(array, axis)
        if stride is not None:
            result = _empty(array.shape, array.dtype)
            rows, width = prod(array.shape[:axis]), prod(array.shape[axis:]) * array.itemsize
            launcher = launcher_for(array.data.device_id)
            launcher.copy_few(False, result.data.ptr, rows, [array.data.ptr], width, [stride])
            return result
    return array.copy(order="C")


def split(array: CuPyArray, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
    """Copies of the chunks of an array, packed in one allocation."""
    if not len(starts):
        return ()
    shape, axis = cut.shape, cut.axis
    rows, length, inner = plan.matrix(shape, axis)
    device, itemsize = kind.device.id, array.itemsize
    with _on(device):
        if rows == 1:
            # The chunks of a row-major copy follow one another already.
            return (Run(_duplicate(array), cut, starts, stops),)
        stride = _row_stride(array, axis)
        if stride is None or stride <= 0:
            array = array.copy(order="C")
            stride = length * inner * itemsize
        base = _empty((array.size,), kind.dtype)
        packed = Run(base, Cut(shape, axis, cut.dropped, True), starts, stops)
        first, step, width = base.data.ptr, packed.cut.step * itemsize, inner * itemsize
        launcher, matrix, pitch = launcher_for(device), array.data.ptr, length * width
        if isinstance(starts, range):
            size = starts.step
            launcher.copy_uniform(True, matrix, rows, pitch, size * width, first, size * step, matrix_stride=stride)
        elif len(starts) <= FEW:
            places = [int(start) for start in starts]
            addresses = [first + place * step for place in places]
            bounds = [*(place * width for place in places), pitch]
            launcher.copy_few(True, matrix, rows, addresses, bounds, matrix_stride=stride)
        else:
            column = as_column(starts)
            ends = np.append(column * width, pitch)
            launcher.copy_many(True, matrix, rows, first + column * step, ends, matrix_stride=stride)
    return (packed,)


def pack(arrays: Sequence[CuPyArray], kind: Kind) -> Blocks:
    """Copies of arrays of any shapes, packed in one allocation."""
    device, itemsize = kind.device.id, kind.dtype.itemsize
    with _on(device):
        rows = [array if array._c_contiguous else array.copy(order="C") for array in arrays]
        ends = list(accumulate([array.size for array in arrays], initial=0))
        addresses, bounds = [array.data.ptr for array in rows], [end * itemsize for end in ends]
        base = _gather((ends[-1],), kind.dtype, device, 1, addresses, bounds, None).into_new_memory()
    return (PackedRun(base, ends[:-1], [array.shape for array in arrays]),)
