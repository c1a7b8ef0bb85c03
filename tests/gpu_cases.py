"""Random work for a GPU, through the operators and for each variant of the kernel, and what NumPy makes of it.

The operators get views of any layout, cut from memory that a case knows byte by byte: none but `out=` may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate, pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

import seqarray as sa
from seqarray._engines.launcher import EQUAL, UNIFORM, Cuda, Launcher, Variant

Generator = np.random.Generator
HostArray = np.ndarray[Any, Any]
Shape = tuple[int, ...]

#: What memory holds that nobody has written.
POISON = 0xA5
#: All sizes; and those of arrays in an order that CuPy has to bring them out of, with a kernel for every dtype.
DTYPES = "bool uint8 float16 int16 float32 int64 complex64 complex128".split()
DTYPES_OUT_OF_ORDER = "uint8 float32 complex128".split()
#: Pieces of a join: none of the metadata of 3 000 is in the arguments of the kernel.
COUNTS = [1, 2, 3, 9, 40, 400, 3_000]
CHANCES = [0.2, 0.2, 0.2, 0.2, 0.12, 0.06, 0.02]


def poisoned() -> AbstractContextManager[Any]:
    """Let CuPy allocate, in this thread, memory that holds POISON and ends where it seems to."""
    import cupy

    def allocate(nbytes: int) -> Any:
        memory = cupy.cuda.MemoryPointer(cupy.cuda.Memory(nbytes), 0)
        if nbytes:
            memory.memset_async(POISON, nbytes)
        return memory

    context: AbstractContextManager[Any] = cupy.cuda.using_allocator(allocate)
    return context


# Values and layouts.


class Place(NamedTuple):
    """Where an array lies in the memory of a case."""

    shape: Shape
    dtype: np.dtype[Any]
    offset: int
    strides: Shape


class Memory:
    """Arrays of any layout side by side: on the host, and, once all are there, on the device."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng
        self._parts: list[HostArray] = []
        self._nbytes = 0

    def add(self, values: HostArray) -> Place:
        """Lay an array out: as it is, with gaps, in steps, backwards, turned, or aligned to its items alone."""
        rng, itemsize = self.rng, values.itemsize
        shape, ndim = values.shape, values.ndim
        order, steps, gaps = list(range(ndim)), [1] * ndim, [0] * ndim
        if ndim and rng.random() < 0.4:
            gaps[rng.integers(ndim)] = int(rng.integers(1, 4))
        if ndim and values.dtype.name in DTYPES_OUT_OF_ORDER and rng.random() < 0.3:
            steps[rng.integers(ndim)] = int(rng.choice([-1, -1, 2, -2]))
            if rng.random() < 0.5:
                order = rng.permutation(ndim).tolist()
        spans = [length * abs(step) for length, step in zip(shape, steps, strict=True)]
        lengths = [span + gap for span, gap in zip(spans, gaps, strict=True)]
        start = itemsize * int(rng.choice([0, 0, 0, 1, 2, 3]))
        memory = np.full(-(-(start + prod(lengths) * itemsize) // 16) * 16, POISON, np.uint8)
        wide = np.ndarray([lengths[axis] for axis in order], values.dtype, memory, start)
        if ndim:
            wide = wide.transpose(np.argsort(order))
        cut = wide[tuple(slice(gap // 2, gap // 2 + span) for span, gap in zip(spans, gaps, strict=True))]
        view = cut[tuple(slice(None, None, step) for step in steps)]
        view[...] = values
        offset = view.__array_interface__["data"][0] - memory.ctypes.data if values.size else 0
        place = Place(values.shape, values.dtype, self._nbytes + offset, view.strides)
        self._parts.append(memory)
        self._nbytes += memory.nbytes
        return place

    def upload(self) -> None:
        """Bring everything to the current device."""
        import cupy

        self.host = np.concatenate([np.zeros(0, np.uint8), *self._parts])
        self._device = cupy.asarray(self.host)

    def on_host(self, place: Place) -> HostArray:
        """One of the arrays, writable."""
        return np.ndarray(place.shape, place.dtype, self.host, place.offset, place.strides)

    def on_device(self, place: Place) -> Any:
        """The same on the device."""
        import cupy

        return cupy.ndarray(place.shape, place.dtype, self._device.data + place.offset, place.strides)

    def check(self) -> None:
        """Every byte must be on the device what it is on the host."""
        np.testing.assert_array_equal(self._device.get(), self.host)


def values(rng: Generator, shape: Shape, dtype: np.dtype[Any]) -> HostArray:
    """Random bytes."""
    raw = rng.integers(0, 2 if dtype.kind == "b" else 256, (*shape, dtype.itemsize), np.uint8)
    return raw.view(dtype).reshape(shape)


def check(actual: Any, expected: HostArray) -> None:
    """Assert that an array is CuPy's, on the current device, and equal to another one byte by byte."""
    import cupy

    assert type(actual) is cupy.ndarray
    assert actual.data.device_id == cupy.cuda.runtime.getDevice()
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(bytes_of(actual.get()), bytes_of(expected))


def bytes_of(array: HostArray) -> HostArray:
    """Its bytes in order: NaN is one of the values."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


# The operators.


class Case:
    """What a random case draws from."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng
        self.dtype = np.dtype(str(rng.choice(DTYPES)))
        self.memory = Memory(rng)

    def shape(self, ndim: int, size: int = 4_000) -> Shape:
        """A shape with about so many elements at most, the most along any axis."""
        rng = self.rng
        shape = [int(rng.integers(1, 6)) for _ in range(ndim)]
        longest = int(rng.integers(ndim))
        shape[longest] = int(rng.integers(1, 2 + max(1, size // prod(shape))))
        return tuple(shape)

    def arrays(self, shapes: Sequence[Shape]) -> tuple[list[Any], list[HostArray]]:
        """Arrays of these shapes on the device, and the same on the host."""
        places = [self.memory.add(values(self.rng, shape, self.dtype)) for shape in shapes]
        self.memory.upload()
        return list(map(self.memory.on_device, places)), list(map(self.memory.on_host, places))

    def count(self) -> int:
        """A number of pieces."""
        return int(self.rng.choice(COUNTS, p=CHANCES))

    def axis(self, places: int) -> int:
        """An axis, counted from either end."""
        return int(self.rng.integers(-places, places))

    def elements(self, arrays: list[Any]) -> Any:
        """A list or a sequence."""
        return arrays if self.rng.random() < 0.5 else sa.ArraySequence(arrays)

    def sizes(self, length: int) -> tuple[Any, list[int]]:
        """Sizes of chunks as they may be given, and what they come to."""
        rng = self.rng
        if rng.random() < 0.4:
            size = int(rng.integers(1, length + 1))
            return size, [min(size, length - start) for start in range(0, length, size)]
        cuts = np.sort(rng.integers(0, length + 1, int(rng.choice([0, 1, 3, 20, 400]))))
        sizes = np.diff(cuts, prepend=0, append=length).tolist()
        return (sizes if rng.random() < 0.5 else np.asarray(sizes)), sizes

    def chunks(self, x: HostArray, sizes: list[int], axis: int) -> list[HostArray]:
        """What NumPy splits an array into."""
        return np.split(x, list(accumulate(sizes))[:-1], axis)

    def check_all(self, actual: Any, expected: Sequence[HostArray]) -> None:
        """Assert that a sequence has these elements; all of them, or of many the first, the last and some others."""
        assert isinstance(actual, sa.ArraySequence)
        assert len(actual) == len(expected)
        count = len(expected)
        some = range(count) if count < 30 else {0, count - 1, *self.rng.integers(0, count, 20).tolist()}
        for index in some:
            check(actual[index], expected[index])


def concat(case: Case) -> None:
    """Concat of arrays, sometimes into one that is there."""
    rng, count = case.rng, case.count()
    shape = list(case.shape(int(rng.integers(1, 5)), 40_000 // count))
    axis = case.axis(len(shape))
    longest = max(2, shape[axis])
    shapes = [tuple(shape)]
    for _ in range(count - 1):
        shape[axis] = int(rng.integers(0, longest))
        shapes.append(tuple(shape))
    into_memory = rng.random() < 0.3
    if into_memory:
        shape[axis] = sum(one[axis] for one in shapes)
        shapes.append(tuple(shape))
    arrays, expected = case.arrays(shapes)
    if not into_memory:
        check(sa.concat_from_sequence(case.elements(arrays), axis=axis), np.concatenate(expected, axis))
        return
    out, place = arrays.pop(), expected.pop()
    assert sa.concat_from_sequence(case.elements(arrays), axis=axis, out=out) is out
    np.concatenate(expected, axis, out=place)


def stack(case: Case) -> None:
    """Stack of arrays."""
    count = case.count()
    shape = case.shape(int(case.rng.integers(1, 4)), 40_000 // count)
    arrays, expected = case.arrays([shape] * count)
    axis = case.axis(len(shape) + 1)
    result = sa.concat_from_sequence(case.elements(arrays), axis=axis, new_axis=1)
    check(result, np.stack(expected, axis))


def split(case: Case) -> None:
    """Split of an array."""
    rng = case.rng
    (x,), (expected,) = case.arrays([case.shape(int(rng.integers(1, 5)), 40_000)])
    axis = case.axis(x.ndim)
    copy = None if rng.random() < 0.2 else True
    if rng.random() < 0.2:
        result = sa.split_to_sequence(x, axis=axis, keepdims=0, copy=copy)
        case.check_all(result, list(np.moveaxis(expected, axis, 0)))
        return
    given, sizes = case.sizes(x.shape[axis])
    case.check_all(sa.split_to_sequence(x, given, axis=axis, copy=copy), case.chunks(expected, sizes, axis))


def rejoin(case: Case) -> None:
    """Concat or stack of chunks of one split: of all of them, some, or all backwards."""
    rng = case.rng
    (x,), (expected,) = case.arrays([case.shape(int(rng.integers(1, 4)), 20_000)])
    axis = case.axis(x.ndim)
    copy = None if rng.random() < 0.4 else True
    taken = slice(*[(None, None, None), (1, None, None), (None, -1, 2), (None, None, -1)][rng.integers(4)])
    if rng.random() < 0.3:  # chunks of one size, which can be joined along any axis
        chunks = list(np.moveaxis(expected, axis, 0))[taken]
        sequence = sa.split_to_sequence(x, axis=axis, keepdims=0, copy=copy)[taken]
        if chunks:
            new_axis = case.axis(x.ndim)
            check(sa.concat_from_sequence(sequence, axis=new_axis, new_axis=1), np.stack(chunks, new_axis))
        return
    given, sizes = case.sizes(x.shape[axis])
    chunks = case.chunks(expected, sizes, axis)[taken]
    sequence = sa.split_to_sequence(x, given, axis=axis, copy=copy)[taken]
    if chunks:
        check(sa.concat_from_sequence(sequence, axis=axis), np.concatenate(chunks, axis))


def pack(case: Case) -> None:
    """Arrays of any shapes in one allocation, and their concat where they have one."""
    rng = case.rng
    count = int(rng.choice([1, 2, 5, 30, 400]))
    flat = rng.random() < 0.5
    shapes = [case.shape(1 if flat else int(rng.integers(1, 4)), 40_000 // count) for _ in range(count)]
    arrays, expected = case.arrays(shapes)
    packed = sa.sequence_construct(*arrays, copy=True)
    case.check_all(packed, expected)
    if flat:
        check(sa.concat_from_sequence(packed, axis=0), np.concatenate(expected))


def insert(case: Case) -> None:
    """Chunks of a split with arrays put in between and some taken out, joined."""
    rng = case.rng
    shape = case.shape(int(rng.integers(1, 4)), 20_000)
    axis = case.axis(len(shape))
    other = list(shape)
    other[axis] = int(rng.integers(1, 5))
    (x, *others), (expected, *expected_others) = case.arrays([shape, *[tuple(other)] * 3])
    given, sizes = case.sizes(x.shape[axis])
    sequence = sa.split_to_sequence(x, given, axis=axis, copy=None if rng.random() < 0.3 else True)
    chunks = case.chunks(expected, sizes, axis)
    for element, values in zip(others, expected_others, strict=True):
        position = int(rng.integers(0, len(chunks) + 1))
        sequence = sa.sequence_insert(sequence, element, position)
        chunks.insert(position, values)
        if rng.random() < 0.5:
            position = int(rng.integers(0, len(chunks)))
            sequence = sa.sequence_erase(sequence, position)
            del chunks[position]
    case.check_all(sequence, chunks)
    check(sa.concat_from_sequence(sequence, axis=axis), np.concatenate(chunks, axis))


OPERATORS: dict[str, Callable[[Case], None]] = {
    work.__name__: work for work in (concat, stack, split, rejoin, pack, insert)
}


def run_cases(operator: str, numbers: range) -> None:
    """Run cases of one operator on the current device and stream."""
    for number in numbers:
        case = Case(np.random.default_rng([list(OPERATORS).index(operator), number]))
        with noting(f"case {number} of {operator}"), poisoned():
            OPERATORS[operator](case)
            case.memory.check()


@contextmanager
def noting(note: str) -> Iterator[None]:
    """Add a note to whatever is raised in the block."""
    try:
        yield
    except BaseException as error:
        error.add_note(note)
        raise


# The kernel.


class NotingCuda(Cuda):
    """CUDA, and which variants of the kernel it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.variants: list[Variant] = []

    def function(self, variant: Variant, block_threads: int) -> Callable[..., None]:
        self.variants.append(variant)
        return super().function(variant, block_threads)


class PickyLauncher(Launcher):
    """Launches one variant of the kernel, whatever it is given."""

    def __init__(self, variant: Variant) -> None:
        self.cuda = NotingCuda()
        super().__init__(self.cuda)
        self.variant = variant
        if variant.wide:
            self.wide_from = 0

    def _table_bytes_for(self, nbytes: int) -> int:
        assert not self.variant.table_bytes or nbytes <= self.variant.table_bytes
        return self.variant.table_bytes

    def _launch(self, bits: int, *others: Any) -> None:
        super()._launch(bits | self.variant.vector_bytes, *others)


class Rows(NamedTuple):
    """Rows of bytes in a memory: where the first begins, their number, and bytes in each and from one to the next."""

    offset: int
    rows: int
    width: int
    stride: int

    def of(self, memory: HostArray) -> HostArray:
        """These bytes."""
        return np.ndarray((self.rows, self.width), np.uint8, memory, self.offset, (self.stride, 1))


def run_variant(variant: Variant, numbers: range) -> None:
    """Run cases of one variant of the kernel on the current device."""
    launcher = PickyLauncher(variant)
    for number in numbers:
        with noting(f"case {number} of {variant}"), poisoned():
            _run_variant(launcher, np.random.default_rng([*map(int, variant), number]))
    assert launcher.cuda.variants == [variant]  # compiled once, and no other


def _run_variant(launcher: PickyLauncher, rng: Generator) -> None:
    import cupy

    variant = launcher.variant
    vector, layout = variant.vector_bytes, variant.layout
    rows = int(rng.choice([1, 2, 3, 50]))
    count = int(rng.choice([2, 3, 17] if variant.table_bytes == launcher.small_table_bytes else [2, 40, 400]))
    most = max(2, (1 << 18) // (rows * count * vector))
    longest = min(most, int(rng.choice([2, 9, 3_000])))
    units = rng.integers(1, longest, count)
    if layout in (EQUAL, UNIFORM):
        units[:] = units[0]
    if layout == UNIFORM:
        units[-1] = rng.integers(1, units[0] + 1)  # the last one may be narrower
    widths = (units * vector).tolist()
    gap = vector * int(rng.choice([0, 1, 5]))

    # The matrix first, then the pieces: side by side in wider rows, or one after the other.
    pitch = sum(widths)
    matrix = Rows(vector * int(rng.integers(0, 4)), rows, pitch, pitch + gap)
    top = matrix.offset + rows * matrix.stride + vector * int(rng.integers(0, 4))
    starts = list(accumulate(widths, initial=0))
    side_by_side = rng.random() < 0.5 and (rows > 1 or layout != UNIFORM)
    if side_by_side:
        stride = pitch + vector * int(rng.integers(1, 4))
        pieces = [Rows(top + start, rows, width, stride) for start, width in zip(starts, widths, strict=False)]
        top += rows * stride
    else:
        apart = vector * int(rng.integers(1, 4))
        inner = vector * int(rng.choice([0, 0, 3]))
        step = rows * (widths[0] + inner) + apart
        places: Sequence[int] = range(top, top + count * step, step)
        if layout != UNIFORM:
            places = [top + rows * (start + i * inner) + i * apart for i, start in enumerate(starts[:-1])]
        pieces = [Rows(place, rows, width, width + inner) for place, width in zip(places, widths, strict=True)]
        top = pieces[-1].offset + rows * (max(widths) + inner) + apart
    host = rng.integers(0, 256, top + vector, np.uint8)
    device = cupy.asarray(host)
    _launch(launcher, device.data.ptr, matrix, pieces)
    for (start, stop), piece in zip(pairwise(starts), pieces, strict=True):
        columns = matrix.of(host)[:, start:stop]
        target, source = (piece.of(host), columns) if variant.scatter else (columns, piece.of(host))
        target[...] = source
    np.testing.assert_array_equal(device.get(), host)


def _launch(launcher: PickyLauncher, base: int, matrix: Rows, pieces: list[Rows]) -> None:
    variant, rows = launcher.variant, matrix.rows
    addresses = [base + piece.offset for piece in pieces]
    widths, strides = [piece.width for piece in pieces], [piece.stride for piece in pieces]
    if variant.layout == UNIFORM:
        launcher.copy_uniform(
            variant.scatter,
            base + matrix.offset,
            rows,
            matrix.width,
            widths[0],
            addresses[0],
            addresses[1] - addresses[0],
            strides[0],
            strides[-1],
            matrix.stride,
        )
        return
    launcher.copy_many(
        variant.scatter,
        base + matrix.offset,
        rows,
        np.array(addresses),
        widths[0] if variant.layout == EQUAL else np.array([0, *accumulate(widths)]),
        None if strides == widths else np.array(strides),
        matrix.stride,
    )
