"""Joining and splitting NumPy arrays: whatever way the host engine takes, the results are those of the general way."""

import sys
import threading
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqarray as sa
from seqarray._blocks import Cut, Run, from_arrays
from seqarray._dtypes import kind_of, settled
from seqarray._engines import numpy as host
from seqarray._engines import pool as hostpool
from seqarray._engines import standard
from seqarray._engines import threads as hostthreads
from seqarray._engines.settings import settings
from seqarray.testing import assert_arrays_equal

pytestmark = pytest.mark.engine

Array = np.ndarray[Any, Any]

#: Dtypes that may be together in one sequence.
NUMBERS: dict[str, list[np.dtype[Any]]] = {
    "float32": [np.dtype("<f4")],
    "float64, big-endian": [np.dtype(">f8")],
    "int16 of both byte orders": [np.dtype("<i2"), np.dtype(">i2")],
    "uint8": [np.dtype("u1")],
    "bool": [np.dtype(bool)],
    "complex64": [np.dtype("c8")],
    "complex128 of both byte orders": [np.dtype(">c16"), np.dtype("<c16")],
    "bfloat16": [np.dtype(ml_dtypes.bfloat16)],
}
FAMILIES = NUMBERS | {
    "float8": [np.dtype(ml_dtypes.float8_e4m3fn)],
    "datetime64": [np.dtype("M8[s]")],
    "structure": [np.dtype([("number", ">i4"), ("object", object)])],
    "bytes": [np.dtype("S2"), np.dtype("S5")],
    "object": [np.dtype(object)],
    "str_": [np.dtype("U5")],
    "str_ of all widths": [np.dtype("<U5"), np.dtype("<U9"), np.dtype(">U6")],
    "StringDType": [np.dtypes.StringDType()],
    "text of all kinds": [np.dtype("U5"), np.dtypes.StringDType(), np.dtype(object)],
}


def filled(shape: tuple[int, ...], dtype: np.dtype[Any], start: int = 0) -> Array:
    """An array of different values; texts are too long to be stored in place, and objects are new ones."""
    numbers = range(start, start + prod(shape))
    values = np.empty(shape, object)
    if dtype.kind in "UTSO":
        long = "a text that StringDType keeps elsewhere " if dtype.kind == "T" else "t"
        values.flat = [f"{long}{n}" for n in numbers]
    elif dtype.names:
        return np.array([(n, f"text {n}") for n in numbers], dtype).reshape(shape)
    elif dtype.kind == "c":
        values.flat = [complex(n, -n) for n in numbers]
    elif dtype.kind == "b":
        values.flat = [n % 3 == 0 for n in numbers]
    elif dtype.kind == "V":
        return np.array([n % 200 for n in numbers], np.float32).reshape(shape).astype(dtype)
    else:
        values.flat = [n % 120 for n in numbers]
    return values.astype(dtype)


def laid_out(array: Array, layout: str) -> Array:
    """The same values in memory of another layout."""
    match layout:
        case "Fortran":
            return np.asfortranarray(array)
        case "strided":
            wider = np.empty((*array.shape, 2), dtype=array.dtype)
            wider[..., 1] = array
            return wider[..., 1]
        case "backwards":
            return np.flip(np.flip(array).copy())
        case "unaligned" if not array.dtype.hasobject:
            memory = np.empty(array.nbytes + 1, np.uint8)[1:]
            unaligned: Array = np.ndarray(array.shape, array.dtype, buffer=memory)
            unaligned[...] = array
            return unaligned
        case "repeated":
            repeated: Array = np.broadcast_to(array[(*(slice(1),) * array.ndim, ...)], array.shape)
            return repeated
        case "read-only":
            array.flags.writeable = False
    return array


LAYOUTS = ["row-major", "Fortran", "strided", "backwards", "unaligned", "repeated", "read-only"]


def assert_same(actual: Array, expected: Array, *, converted: bool = False) -> None:
    """Equal in all that counts, where texts have the same dtype too; objects that are not converted are the same."""
    assert type(actual) is np.ndarray
    assert actual.dtype == expected.dtype
    assert actual.dtype.isnative
    assert actual.flags.writeable
    assert_arrays_equal(actual, expected)
    if actual.dtype == object and not converted:
        assert all(a is b for a, b in zip(actual.flat, expected.flat, strict=True))


def assert_all_same(actual: Any, expected: Any, *, converted: bool = False) -> None:
    actual, expected = list(actual), list(expected)
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert_same(a, b, converted=converted)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes all work large: it is shared among so many threads, in recycled memory."""
    monkeypatch.setattr(hostpool, "host_pool", hostpool.HostPool(1 << 30))
    monkeypatch.setattr(settings, "pool_from", 1)
    for name in ("threads_from", "piece_from", "items_from"):
        monkeypatch.setattr(settings, name, 1)
    before = sa.get_num_threads()

    def large(threads: int, *, wide_row: int = 8, head_start: int = 0, block: int = 64) -> None:
        sa.set_num_threads(threads)
        monkeypatch.setattr(settings, "wide_row", wide_row)
        monkeypatch.setattr(settings, "head_start", head_start)
        monkeypatch.setattr(settings, "block", block)

    large(2)
    yield large
    sa.set_num_threads(before)


@st.composite
def settings_of_large(draw: Any) -> dict[str, int]:
    return {
        "threads": draw(st.sampled_from([2, 3, 1])),
        "wide_row": draw(st.sampled_from([1, 8, 1 << 30])),
        "head_start": draw(st.sampled_from([0, 16, 1 << 10])),
        "block": draw(st.sampled_from([1, 64, 1 << 20])),
    }


#: Lengths before and after the axis.  Arrays of 64 rows and more may be cut across.
AROUND = [(2,), (), (64,), (3, 2), (65,), (1,), (0,)]
AFTER = [(3,), (), (2, 2), (1,), (0,)]


class Drawn:
    """Arrays that can be joined along an axis."""

    def __init__(self, arrays: list[Array], axis: int, stack: bool) -> None:
        self.arrays = arrays
        self.axis = axis
        self.stack = stack
        self.kind = sa.ArraySequence(arrays)._kind

    def __repr__(self) -> str:
        shapes = [(array.shape, str(array.dtype)) for array in self.arrays]
        return f"Drawn({shapes}, axis={self.axis}, stack={self.stack})"


@st.composite
def joinable(draw: Any, families: Any = tuple(FAMILIES), layouts: Any = tuple(LAYOUTS)) -> Drawn:
    dtypes = FAMILIES[draw(st.sampled_from(families))]
    before, after = draw(st.sampled_from(AROUND)), draw(st.sampled_from(AFTER))
    stack = draw(st.booleans())
    lengths = draw(st.lists(st.sampled_from([1, 2, 0, 5, 9]), min_size=1, max_size=5))
    arrays = []
    for index, length in enumerate(lengths):
        shape = (*before, *after) if stack else (*before, length, *after)
        array = filled(shape, draw(st.sampled_from(dtypes)), 1000 * index)
        arrays.append(laid_out(array, draw(st.sampled_from(layouts))))
    return Drawn(arrays, len(before), stack)


# Large work.


@given(drawn=joinable(), settings=settings_of_large())
def test_arrays_are_joined_as_by_the_standard(large, drawn, settings):
    large(**settings)
    expected = standard.join(from_arrays(drawn.arrays), drawn.axis, drawn.kind, stack=drawn.stack)
    joined = host.join(from_arrays(drawn.arrays), drawn.axis, drawn.kind, stack=drawn.stack)
    assert_same(joined, expected, converted=not drawn.kind.exact)


@given(drawn=joinable(), settings=settings_of_large(), copy=st.sampled_from([True, None]))
def test_sequences_and_lists_are_joined_as_by_the_standard(large, drawn, settings, copy):
    large(**settings)
    expected = standard.join(from_arrays(drawn.arrays), drawn.axis, drawn.kind, stack=drawn.stack)
    for arrays in (drawn.arrays, sa.ArraySequence(drawn.arrays)):
        joined = sa.concat_from_sequence(arrays, axis=drawn.axis, new_axis=int(drawn.stack), copy=copy)
        if copy is True:
            assert_same(joined, expected, converted=not drawn.kind.exact)
            assert not any(np.shares_memory(joined, array) for array in drawn.arrays)
        else:
            assert_arrays_equal(joined, expected)


@given(drawn=joinable(), settings=settings_of_large())
def test_one_array_is_duplicated_as_by_the_standard(large, drawn, settings):
    large(**settings)
    for array in drawn.arrays:
        copied = host.duplicate(array, drawn.kind)
        assert_same(copied, standard.duplicate(array, drawn.kind), converted=not drawn.kind.exact)
        assert copied.flags.c_contiguous
        assert not np.shares_memory(copied, array)


@given(drawn=joinable(), settings=settings_of_large())
def test_arrays_are_packed_as_by_the_standard(large, drawn, settings):
    large(**settings)
    expected = [array for block in standard.pack(drawn.arrays, drawn.kind) for array in block]
    packed = [array for block in host.pack(drawn.arrays, drawn.kind) for array in block]
    assert_all_same(packed, expected, converted=not drawn.kind.exact)
    assert all(array.flags.c_contiguous for array in packed)


class Chunks:
    """An array, and the chunks to split it into."""

    def __init__(self, array: Array, cut: Cut, starts: Any, stops: Any, kind: Any) -> None:
        self.array = array
        self.cut = cut
        self.starts = starts
        self.stops = stops
        self.kind = kind

    def __repr__(self) -> str:
        return f"Chunks({self.array.dtype}, {self.cut}, {self.starts!r}, {self.stops!r})"


@st.composite
def splittable(draw: Any) -> Chunks:
    before, after = draw(st.sampled_from(AROUND)), draw(st.sampled_from(AFTER))
    length = draw(st.sampled_from([12, 1, 7, 70]))
    dtype = draw(st.sampled_from([dtype for dtypes in FAMILIES.values() for dtype in dtypes]))
    array = laid_out(filled((*before, length, *after), dtype), draw(st.sampled_from(LAYOUTS)))
    dropped = False
    if draw(st.booleans()):
        chunk = draw(st.sampled_from([1, 2, 3, 5, 100]))
        count = -(-length // chunk)
        starts: Any = range(0, count * chunk, chunk)
        stops: Any = range(chunk, (count + 1) * chunk, chunk)
        dropped = chunk == 1 and draw(st.booleans())
    else:
        bounds = [0, *sorted(draw(st.lists(st.integers(0, length), max_size=4))), length]
        starts, stops = bounds[:-1], bounds[1:]
        if draw(st.booleans()):
            starts, stops = np.asarray(starts), np.asarray(stops)
    return Chunks(array, Cut(array.shape, len(before), dropped), starts, stops, kind_of(array))


@given(drawn=splittable(), settings=settings_of_large())
def test_an_array_is_split_as_by_the_standard(large, drawn, settings):
    large(**settings)
    arguments = drawn.array, drawn.cut, drawn.starts, drawn.stops, drawn.kind
    expected = [chunk for block in standard.split(*arguments) for chunk in block]
    blocks = host.split(*arguments)
    assert_all_same([chunk for block in blocks for chunk in block], expected)
    for chunk in blocks[0]:
        assert chunk.flags.c_contiguous
        assert not np.shares_memory(chunk, drawn.array)


@given(drawn=splittable(), settings=settings_of_large(), data=st.data())
def test_chunks_are_joined_again_as_by_the_standard(large, drawn, settings, data):
    large(**settings)
    kind = settled(drawn.kind)
    (run,) = host.split(drawn.array, drawn.cut, drawn.starts, drawn.stops, drawn.kind)
    first = data.draw(st.integers(0, len(run) - 1))
    step = data.draw(st.sampled_from([1, 1, 2, -1]))
    for some in (run, run.part(slice(first, None)), run.part(slice(first + 1)), run.part(slice(first, None, step))):
        elements = from_arrays(list(some))
        expected = standard.join(elements, drawn.cut.axis, kind, stack=drawn.cut.dropped)
        for blocks in ((some,), elements):
            joined = host.join(blocks, drawn.cut.axis, kind, stack=drawn.cut.dropped)
            assert_same(joined, expected)
            assert not np.shares_memory(joined, run.base)


@given(drawn=splittable(), settings=settings_of_large(), copy=st.sampled_from([True, None]))
def test_splitting_and_joining_again_gives_the_same_array(large, drawn, settings, copy):
    large(**settings)
    sizes = None if drawn.cut.dropped else [stop - start for start, stop in zip(drawn.starts, drawn.stops, strict=True)]
    if isinstance(drawn.starts, range):
        sizes = None if drawn.cut.dropped else drawn.starts.step
    chunks = sa.split_to_sequence(drawn.array, sizes, axis=drawn.cut.axis, keepdims=not drawn.cut.dropped, copy=copy)
    joined = sa.concat_from_sequence(chunks, axis=drawn.cut.axis, new_axis=int(drawn.cut.dropped))
    assert_same(joined, drawn.array.astype(drawn.kind.dtype))


#: Work on an array of (66, 12), whose results hold every item of it once.
SHARED: dict[str, Callable[[Array], Any]] = {
    "concat, rows cut across": lambda x: sa.concat_from_sequence([x[:, :5], x[:, 5:]], axis=1),
    "concat, between and inside pieces": lambda x: sa.concat_from_sequence([x[:9], x[9:11], x[11:]], axis=0),
    "concat of a sequence": lambda x: sa.concat_from_sequence(sa.ArraySequence([x[:9], x[9:]]), axis=0),
    "stack": lambda x: sa.concat_from_sequence([x[:33], x[33:]], axis=0, new_axis=1),
    "stack along a last axis": lambda x: sa.concat_from_sequence([x[:22], x[22:44], x[44:]], axis=2, new_axis=1),
    "duplicate": lambda x: sa.sequence_at([x], 0),
    "duplicate of what is not row-major": lambda x: sa.sequence_at([x.T], 0),
    "split": lambda x: sa.split_to_sequence(x, 4),
    "split along columns": lambda x: sa.split_to_sequence(x, 4, axis=1),
    "split along columns into sizes": lambda x: sa.split_to_sequence(x, [1, 2, 5, 2, 2], axis=1),
    "rejoin": lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, 4, axis=1), axis=1),
}


@pytest.fixture
def shares(count_calls) -> Callable[[], list[int]]:
    """How many jobs have been shared in each call since the last question."""
    calls = count_calls(hostthreads, "share")

    def shares() -> list[int]:
        counts = [len(jobs) for jobs, *_ in calls]
        calls.clear()
        return counts

    return shares


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
def test_large_work_is_shared_among_threads(large, shares, work, threads):
    large(threads)
    shares()
    work(filled((66, 12), np.dtype(np.float32)))
    # A join by one thread is one call of NumPy.
    assert set(shares()) == {threads} or (threads == 1 and not shares())


@pytest.mark.parametrize("family", ["object", "str_", "bytes"])
@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
def test_objects_and_text_are_not_shared_among_threads(large, shares, work, family):
    large(3)
    shares()
    work(filled((66, 12), FAMILIES[family][0]))
    assert set(shares()) <= {1}


@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
def test_small_work_is_not_shared_among_threads(shares, work):
    work(filled((66, 12), np.dtype(np.float32)))
    assert set(shares()) <= {1}


def test_how_many_threads_share_is_asked_anew_each_time(large, monkeypatch, shares):
    sequence = sa.ArraySequence(list(filled((8, 4), np.dtype(np.float32))))
    for threads in (2, 3, 2, 1):
        large(threads)
        assert_same(sa.concat_from_sequence(sequence, axis=0), filled((32,), np.dtype(np.float32)))
        assert shares() == [threads]
    # The first call after a fork starts no thread, whatever was prepared before.
    large(3)
    monkeypatch.setattr(hostthreads, "_forked", True)
    sa.concat_from_sequence(sequence, axis=0)
    sa.concat_from_sequence(sequence, axis=0)
    assert shares() == [1, 3]
    sequence = sa.ArraySequence(list(sequence))
    monkeypatch.setattr(hostthreads, "_forked", True)
    sa.concat_from_sequence(sequence, axis=0)
    assert shares() == [1]


def reshaped(arrays: list[Array]) -> None:
    for array in arrays:
        array.shape = array.shape[::-1]


def resized(arrays: list[Array]) -> None:
    arrays[1].resize((4_000, 6), refcheck=False)
    arrays[1][:] = 7


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
@pytest.mark.parametrize("change", [reshaped, resized])
@pytest.mark.parametrize("threads", [1, 2])
def test_elements_that_have_been_changed_in_place_are_joined_as_they_are_now(large, threads, change):
    large(threads)
    arrays = [filled((4, 6), np.dtype(np.float32), start).copy() for start in range(3)]
    sequence = sa.ArraySequence(arrays)
    sa.concat_from_sequence(sequence, axis=0)
    change(arrays)
    assert_same(sa.concat_from_sequence(sequence, axis=0), np.concatenate(arrays))


def test_an_element_that_no_longer_fits_is_named(large):
    arrays = [filled((4, 6), np.dtype(np.float32), start).copy() for start in range(3)]
    sequence = sa.ArraySequence(arrays)
    sa.concat_from_sequence(sequence, axis=0)
    arrays[2].resize((6, 4), refcheck=False)
    with pytest.raises(ValueError, match=r"^concat_from_sequence: element 2 has shape \(6, 4\)"):
        sa.concat_from_sequence(sequence, axis=0)


def test_out_may_be_empty():
    arrays, out = [np.empty((0, 3))] * 2, np.empty((0, 3))
    assert sa.concat_from_sequence(arrays, axis=0, out=out) is out


def test_many_small_pieces_are_not_shared_among_threads(large, monkeypatch, shares):
    monkeypatch.setattr(settings, "piece_from", 100)
    arrays = [filled((2, 4), np.dtype(np.float32), start) for start in range(30)]
    assert_same(sa.concat_from_sequence(arrays, axis=0), np.concatenate(arrays))
    assert set(shares()) <= {1}


# Objects and text.


def items(result: Any) -> list[Any]:
    """All items of an array, or of the arrays in a sequence."""
    return [item for array in ([result] if isinstance(result, np.ndarray) else result) for item in array.flat]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
def test_objects_are_counted(large, work, threads):
    large(threads)
    x = np.empty((66, 12), object)
    x.flat = [object() for _ in range(x.size)]
    before = [sys.getrefcount(item) for item in x.flat]
    results = [work(x) for _ in range(3)]
    for result in results:
        assert set(map(id, items(result))) == set(map(id, x.flat))
    assert [sys.getrefcount(item) for item in x.flat] == [count + 3 for count in before]
    del results, result
    assert [sys.getrefcount(item) for item in x.flat] == before


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("family", ["StringDType", "str_", "object"])
def test_text_outlives_the_arrays_that_it_came_from(large, work, threads, family):
    large(threads)
    dtype = FAMILIES[family][0]
    texts = filled((66, 12), dtype).astype(object)
    result = work(texts.astype(dtype))
    for start in range(3):
        filled((66, 12), dtype, 1000 * start)  # takes the memory that the texts had
    assert items(result) == items(work(texts))


# out=


@st.composite
def outs(draw: Any) -> tuple[Drawn, Array, Array]:
    """Arrays, where to write them joined, and the memory that this lies in; all may overlap."""
    dtype = draw(st.sampled_from([np.dtype("i2"), np.dtype("f8"), np.dtype(object), np.dtype("U3")]))
    memory = filled((400,), np.dtype("i8")).astype(dtype)
    before, after = draw(st.sampled_from([(), (2,), (3, 2)])), draw(st.sampled_from([(), (2,), (3,)]))
    stack = draw(st.booleans())
    lengths = draw(st.lists(st.sampled_from([1, 2, 0, 4]), min_size=1, max_size=3))
    if stack:
        lengths = [1] * len(lengths)

    def view(shape: tuple[int, ...], overlapping: bool) -> Array:
        source = memory if overlapping else memory.copy()
        step = draw(st.sampled_from([1, 2, -1]))
        size = prod(shape)
        first = draw(st.integers(0, 30))
        taken = source[first : first + size * abs(step)][::step]
        return taken.reshape(shape[::-1]).T if draw(st.booleans()) else taken.reshape(shape)

    shapes = [(*before, *after) if stack else (*before, length, *after) for length in lengths]
    arrays = [view(shape, draw(st.booleans())) for shape in shapes]
    return Drawn(arrays, len(before), stack), view((*before, sum(lengths), *after), True), memory


@given(drawn=outs(), settings=settings_of_large())
def test_out_is_right_whatever_it_overlaps(large, drawn, settings):
    large(**settings)
    joined, out, memory = drawn
    expected = standard.join(
        from_arrays([array.copy() for array in joined.arrays]), joined.axis, joined.kind, stack=joined.stack
    )
    outside = np.ones(memory.shape, bool)
    # The places that belong to `out`, found by writing to them in a copy.
    offset = (out.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) // memory.itemsize
    strides = [stride // memory.itemsize for stride in out.strides]
    for index in np.ndindex(out.shape):
        outside[offset + sum(i * stride for i, stride in zip(index, strides, strict=True))] = False
    rest = memory[outside].copy()
    result = sa.concat_from_sequence(joined.arrays, axis=joined.axis, new_axis=int(joined.stack), out=out)
    assert result is out
    assert_same(out, expected)
    np.testing.assert_array_equal(memory[outside], rest)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "case", ["shifted", "backwards", "halves swapped", "itself", "transposed", "stacked", "columns"]
)
def test_out_may_be_made_of_its_elements(large, threads, case):
    large(threads)
    memory = np.arange(72 * 72, dtype=np.int32)
    square = memory.reshape(72, 72)
    arguments: dict[str, Any] = {"axis": 0}
    match case:
        case "shifted":
            arrays, out = [memory[:100], memory[100:200]], memory[50:250]
        case "backwards":
            arrays, out = [memory[:100], memory[100:200]], memory[199::-1]
        case "halves swapped":
            arrays, out = [square[36:], square[:36]], square
        case "itself":
            arrays, out = [square], square
        case "transposed":
            arrays, out = [square[:, :30].T, square[:, 30:].T], square
        case "stacked":
            arrays, out, arguments = (
                [memory[:64], memory[64:128]],
                memory[:128].reshape(64, 2),
                {"axis": 1, "new_axis": 1},
            )
        case "columns":
            arrays, out, arguments = [square[:, 50:], square[:, :50]], square, {"axis": 1}
    join = np.stack if arguments.get("new_axis") else np.concatenate
    expected = join([array.copy() for array in arrays], axis=arguments["axis"])
    for _ in range(2):
        assert (
            sa.concat_from_sequence([array.copy() for array in arrays], out=np.empty_like(out), **arguments) is not out
        )
    assert sa.concat_from_sequence(arrays, out=out, **arguments) is out
    np.testing.assert_array_equal(out, expected, strict=True)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("stack", [False, True])
def test_out_takes_no_memory_where_it_overlaps_nothing(large, threads, stack):
    large(threads)
    arrays = [filled((70, 4), np.dtype(np.float32), 1000 * index) for index in range(3)]
    for axis in (0, 1):
        expected = standard.join(from_arrays(arrays), axis, kind_of(arrays[0]), stack=stack)
        out = np.empty_like(expected, order="C")
        sa.concat_from_sequence(arrays, axis=axis, new_axis=int(stack), out=out)
        assert_same(out, expected)
        assert hostpool.host_pool.total_bytes() == 0


# Small work: what is remembered on a sequence.


def tiny(count: int, shape: tuple[int, ...] = (2, 3), dtype: Any = np.float32) -> list[Array]:
    return [filled(shape, np.dtype(dtype), 100 * index) for index in range(count)]


def joined_by_numpy(arrays: Any, axis: int, stack: bool) -> Array:
    return np.stack(list(arrays), axis) if stack else np.concatenate(list(arrays), axis)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch, count_calls) -> list[Any]:
    """The calls that join bytes, which few arrays are enough for."""
    monkeypatch.setattr(host, "STREAM_FROM", 2)
    return count_calls(host, "_streamed")


@given(
    drawn=joinable(families=tuple(NUMBERS)), calls=st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=5)
)
def test_calls_do_not_change_what_later_ones_give(streams, drawn, calls):
    sequence = sa.ArraySequence(drawn.arrays)
    for axis, stack in [*calls, (drawn.axis, drawn.stack), (0, False), (0, True), *calls]:
        natives = [array.astype(drawn.kind.dtype) for array in drawn.arrays]
        try:
            expected = joined_by_numpy(natives, axis, stack)
        except ValueError:
            for arrays in (sequence, drawn.arrays):
                with pytest.raises(ValueError, match=r"^concat_from_sequence: "):
                    sa.concat_from_sequence(arrays, axis=axis, new_axis=int(stack))
        else:
            for arrays in (sequence, drawn.arrays):
                assert_same(sa.concat_from_sequence(arrays, axis=axis, new_axis=int(stack)), expected)


DTYPES = [*"?bBhHiIlLqQefdgFDG", ml_dtypes.bfloat16, ">f4", ">c16"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1, 5)], ids=str)
def test_many_tiny_arrays_of_every_number_are_joined_the_same_again(dtype, shape):
    arrays = tiny(20, shape, dtype)
    sequence = sa.ArraySequence(arrays)
    natives = [array.astype(array.dtype.newbyteorder("=")) for array in arrays]
    for stack in (False, True, False, True):
        joined = sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack))
        assert_same(joined, joined_by_numpy(natives, 0, stack))
        assert joined.flags.aligned
        assert not any(np.shares_memory(joined, array) for array in arrays)


def test_many_tiny_arrays_are_joined_as_bytes_from_the_second_time_on(streams):
    sequence = sa.ArraySequence(tiny(20))
    sa.concat_from_sequence(sequence, axis=0)
    assert streams == []
    first, second = (sa.concat_from_sequence(sequence, axis=0) for _ in range(2))
    sa.concat_from_sequence(sequence, axis=0, new_axis=1)
    assert len(streams) == 3
    first[...] = -1
    assert not (second == -1).any()
    assert_same(second, np.concatenate(list(sequence)))


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
@pytest.mark.parametrize("family", ["object", "str_ of all widths", "StringDType", "text of all kinds", "structure"])
def test_many_tiny_arrays_of_text_are_no_bytes(streams, again, family):
    dtypes = FAMILIES[family]
    arrays = [filled((2,), dtypes[index % len(dtypes)], 10 * index) for index in range(40)]
    sequence = sa.ArraySequence(arrays)
    expected = {stack: standard.join(from_arrays(arrays), 0, sequence._kind, stack=stack == 1) for stack in (0, 1)}
    for _ in range(3 if again else 1):
        for stack, wanted in expected.items():
            joined = sa.concat_from_sequence(sequence, axis=0, new_axis=stack)
            assert_same(joined, wanted, converted=not sequence._kind.exact)
    assert streams == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place", [0, 7, 19])
@pytest.mark.parametrize("stack", [False, True])
def test_elements_of_any_layout_are_joined_the_same_again(streams, layout, place, stack):
    arrays = tiny(20)
    arrays[place] = laid_out(arrays[place], layout)
    sequence = sa.ArraySequence(arrays)
    for _ in range(3):
        assert_same(sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack)), joined_by_numpy(arrays, 0, stack))


def test_ragged_elements_and_empty_ones_are_joined_the_same_again(streams):
    arrays = [filled((length, 3), np.dtype(np.int32), 100 * length) for length in (0, 4, 1, 0, 0, 2, 7, 0)]
    sequence = sa.ArraySequence(arrays)
    for _ in range(3):
        assert_same(sa.concat_from_sequence(sequence, axis=0), np.concatenate(arrays))
        with pytest.raises(ValueError, match=r"element 1 has shape \(4, 3\); element 0 has \(0, 3\)"):
            sa.concat_from_sequence(sequence, axis=0, new_axis=1)
    assert streams


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)], ids=str)
def test_empty_elements_are_joined_the_same_again(shape):
    arrays = tiny(20, shape)
    sequence = sa.ArraySequence(arrays)
    for _ in range(3):
        for stack in (False, True):
            assert_same(
                sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack)), joined_by_numpy(arrays, 0, stack)
            )


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("first", [True, False], ids=["after the first axis", "before it"])
def test_other_axes_are_joined_right(streams, axis, stack, first):
    arrays = tiny(20)
    sequence = sa.ArraySequence(arrays)
    if first:
        for _ in range(2):
            sa.concat_from_sequence(sequence, axis=0)
    places = 2 + stack
    if not -places <= axis < places:
        with pytest.raises(np.exceptions.AxisError):
            sa.concat_from_sequence(sequence, axis=axis, new_axis=int(stack))
    else:
        for _ in range(2):
            joined = sa.concat_from_sequence(sequence, axis=axis, new_axis=int(stack))
            assert_same(joined, joined_by_numpy(arrays, axis, stack))
    for stacked in (stack, not stack, stack):
        joined = sa.concat_from_sequence(sequence, axis=0, new_axis=int(stacked))
        assert_same(joined, joined_by_numpy(arrays, 0, stacked))


def test_what_is_written_to_an_element_is_joined_the_next_time(streams):
    arrays = tiny(20)
    sequence = sa.ArraySequence(arrays)
    for value in range(4):
        arrays[value][1, 2] = -value
        for stack in (False, True):
            assert_same(
                sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack)), joined_by_numpy(arrays, 0, stack)
            )
    assert streams


def resized(*shapes: tuple[int, ...]) -> Callable[[list[Array]], None]:
    def change(arrays: list[Array]) -> None:
        for array, shape in zip(arrays, shapes, strict=False):
            array.resize(shape, refcheck=False)

    return change


def reshaped(shape: tuple[int, ...], count: int) -> Callable[[list[Array]], None]:
    def change(arrays: list[Array]) -> None:
        for array in arrays[:count]:
            array.shape = shape

    return change


def retyped(dtype: Any, count: int) -> Callable[[list[Array]], None]:
    def change(arrays: list[Array]) -> None:
        for array in arrays[:count]:
            array.dtype = dtype

    return change


def restrided(arrays: list[Array]) -> None:
    arrays[0].strides = (4, 8)


#: What can be done in place to elements of shape (2, 3) that a sequence holds.
IN_PLACE: dict[str, Callable[[list[Array]], None]] = {
    "one longer": resized((3, 3)),
    "one shorter": resized((1, 3)),
    "one empty": resized((0, 3)),
    "one longer and one shorter": resized((3, 3), (1, 3)),
    "one of other columns": resized((2, 4)),
    "two of other columns, as many in all": resized((2, 4), (2, 2)),
    "one reshaped": reshaped((3, 2), 1),
    "one of another rank": reshaped((6,), 1),
    "one of a higher rank": reshaped((2, 3, 1), 1),
    "all reshaped": reshaped((3, 2), 99),
    "all of rank 1": reshaped((6,), 99),
    "all of a higher rank": reshaped((1, 2, 3), 99),
    "one of another dtype": retyped(np.int32, 1),
    "one of a smaller dtype": retyped(np.float16, 1),
    "one of another byte order": retyped(">f4", 1),
    "all of another dtype": retyped(np.int32, 99),
    "all of another byte order": retyped(">f4", 99),
    "one of other strides": restrided,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # newer versions of NumPy warn about all of this
@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE)
def test_elements_that_were_changed_in_place_before_they_are_joined_give_no_wrong_results(change, count, stack):
    arrays = [array.copy() for array in tiny(count)]
    sequence = sa.ArraySequence(arrays)
    change(arrays)
    try:
        expected = joined_by_numpy(arrays, 0, stack)
    except ValueError:
        with pytest.raises(ValueError, match=r"^concat_from_sequence: "):
            sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack))
        return
    # To refuse an element whose type has changed is right too.
    try:
        joined = sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack))
    except (TypeError, ValueError):
        assert any(array.dtype != np.float32 for array in arrays)
    else:
        np.testing.assert_array_equal(joined, expected)
        assert joined.shape == expected.shape


def test_what_is_remembered_belongs_to_one_version(streams):
    arrays = tiny(20)
    sequence = sa.ArraySequence(arrays)
    for _ in range(3):
        sa.concat_from_sequence(sequence, axis=0)
    longer, wider = filled((5, 3), np.dtype(np.float32), 5000), filled((2, 4), np.dtype(np.float32), 6000)
    versions = {
        "insert": (sa.sequence_insert(sequence, longer, 3), [*arrays[:3], longer, *arrays[3:]]),
        "append": (sa.sequence_insert(sequence, longer), [*arrays, longer]),
        "erase": (sa.sequence_erase(sequence, 0), arrays[1:]),
        "erase the last": (sa.sequence_erase(sequence), arrays[:-1]),
        "slice": (sequence[2:9], arrays[2:9]),
        "reverse": (sequence[::-1], arrays[::-1]),
        "one": (sequence[4:5], arrays[4:5]),
        "again": (sa.ArraySequence(sequence), arrays),
        "the same": (sequence, arrays),
    }
    for _ in range(3):
        for version, elements in versions.values():
            assert_same(sa.concat_from_sequence(version, axis=0), np.concatenate(elements))
        with pytest.raises(ValueError, match=r"element 20 has shape \(2, 4\)"):
            sa.concat_from_sequence(sa.sequence_insert(sequence, wider), axis=0)
        with pytest.raises(ValueError, match=r"element 3 has shape \(5, 3\)"):
            sa.concat_from_sequence(versions["insert"][0], axis=0, new_axis=1)
        assert_same(sa.concat_from_sequence(sequence, axis=0, new_axis=1), np.stack(arrays))


def test_a_version_of_mixed_text_does_not_keep_what_one_of_equal_widths_had():
    arrays = [np.array([f"{i:02}"]) for i in range(20)]
    sequence = sa.ArraySequence(arrays)
    for _ in range(2):
        sa.concat_from_sequence(sequence, axis=0)
    wider = sa.sequence_insert(sequence, np.array(["wider"]))
    for _ in range(2):
        assert_same(sa.concat_from_sequence(wider, axis=0), np.concatenate([*arrays, np.array(["wider"])]))


def test_a_sequence_of_many_blocks_is_joined_the_same_again(streams):
    arrays = tiny(1000, (1, 2))
    sequence = sa.sequence_erase(sa.ArraySequence(arrays), 300)
    del arrays[300]
    for stack in (False, False, True, True):
        assert_same(sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack)), joined_by_numpy(arrays, 0, stack))
    assert streams


def test_a_sequence_of_views_and_arrays_is_joined_the_same_again(streams):
    x = filled((40, 3), np.dtype(np.float32))
    extra = filled((2, 3), np.dtype(np.float32), 1000)
    sequence = sa.sequence_insert(sa.split_to_sequence(x, 2, copy=None), extra, 7)
    for _ in range(3):
        assert_same(sa.concat_from_sequence(sequence, axis=0), np.concatenate([x[:14], extra, x[14:]]))


class Preferred(np.ndarray[Any, Any]):
    """A class that NumPy prefers for what it makes of it and others."""

    __array_priority__ = 10


@pytest.mark.parametrize("place", [0, 1])
def test_the_class_of_results_depends_neither_on_size_nor_on_earlier_calls(request, place):
    arrays = tiny(20)
    arrays[place] = arrays[place].view(Preferred)
    sequence = sa.ArraySequence(arrays)
    joined = [sa.concat_from_sequence(sequence, axis=0) for _ in range(3)]
    joined.append(sa.concat_from_sequence(arrays, axis=0))
    request.getfixturevalue("large")
    joined.append(sa.concat_from_sequence(sa.ArraySequence(arrays), axis=0))
    assert len(set(map(type, joined))) == 1


def test_threads_may_join_a_sequence_for_the_first_time_together():
    arrays = tiny(30)
    expected = {stack: joined_by_numpy(arrays, 0, stack) for stack in (False, True)}
    failures: list[str] = []

    def join(sequence: Any, begin: threading.Barrier, stack: bool) -> None:
        begin.wait(30)
        for turn in range(3):
            joined = sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack))
            if not np.array_equal(joined, expected[stack]):
                failures.append(f"{turn}: {joined}")

    for _ in range(20):
        begin, sequence = threading.Barrier(6), sa.ArraySequence(arrays)
        threads = [threading.Thread(target=join, args=(sequence, begin, stack)) for stack in (False, True) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert failures == []


# What does not fit.

MISFITS = {
    "rank too low": [(4, 3), (12,)],
    "rank too high": [(4, 3), (4, 3, 1)],
    "rank 0": [(4, 3), ()],
    "another length": [(4, 3), (5, 2)],
    "empty, another length": [(4, 3), (0, 0)],
}


@pytest.mark.parametrize("are_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("shapes", MISFITS.values(), ids=MISFITS)
def test_shapes_that_do_not_fit_are_refused(request, shapes, axis, stack, count, are_large):
    if are_large:
        request.getfixturevalue("large")
    first, other = (filled(shape, np.dtype(np.float32)) for shape in shapes)
    arrays = [first] * count + [other]
    for some in (arrays, sa.ArraySequence(arrays)):
        with pytest.raises(ValueError, match=r"^concat_from_sequence: ") as caught:
            sa.concat_from_sequence(some, axis=axis, new_axis=int(stack))
        if axis != 2 or stack:
            assert str(shapes[1]) in str(caught.value)
            assert f"element {count} " in str(caught.value)


@pytest.mark.parametrize("are_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_lengths_that_only_add_up_are_not_stacked(request, axis, count, are_large):
    if are_large:
        request.getfixturevalue("large")
    shapes = [(2, 2), (1, 2), (3, 2)] if axis != 1 else [(2, 2), (2, 1), (2, 3)]
    arrays = [filled(shape, np.dtype(np.float32)) for shape in shapes * count]
    for some in (arrays, sa.ArraySequence(arrays)):
        for _ in range(2):
            with pytest.raises(ValueError, match=r"^concat_from_sequence: element 1 has shape \("):
                sa.concat_from_sequence(some, axis=axis, new_axis=1)


@pytest.mark.parametrize("are_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize(("dtype", "other"), [("f4", "f8"), ("i4", "f4"), ("?", "i1"), ("i8", "u8"), ("f4", "O")])
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("stack", [False, True])
def test_types_that_differ_are_refused(request, dtype, other, count, stack, are_large):
    if are_large:
        request.getfixturevalue("large")
    arrays = [np.ones((2, 3), dtype)] * count + [np.ones((2, 3), other)]
    for axis in (0, 1):
        with pytest.raises(TypeError, match=f"^concat_from_sequence: element {count} has element type "):
            sa.concat_from_sequence(arrays, axis=axis, new_axis=int(stack))


# Giving out chunks.


def views(array: Array) -> tuple[Any, ...]:
    """What makes a view: where it lies, and how; of axes of length 1 the strides mean nothing."""
    strides = tuple(stride for stride, length in zip(array.strides, array.shape, strict=True) if length > 1)
    address = array.__array_interface__["data"][0]
    return (array.shape, array.dtype, array.flags.writeable, *((address, strides) if array.size else ()))


@given(drawn=splittable(), copy=st.sampled_from([True, None]), data=st.data())
def test_iteration_gives_the_same_arrays_as_looking_them_up(drawn, copy, data):
    sizes = None if drawn.cut.dropped else [stop - start for start, stop in zip(drawn.starts, drawn.stops, strict=True)]
    if isinstance(drawn.starts, range):
        sizes = None if drawn.cut.dropped else drawn.starts.step
    chunks = sa.split_to_sequence(drawn.array, sizes, axis=drawn.cut.axis, keepdims=not drawn.cut.dropped, copy=copy)
    some = slice(
        *data.draw(st.tuples(*[st.none() | st.integers(-9, 9)] * 2)), data.draw(st.sampled_from([None, 2, -1]))
    )
    for sequence in (chunks, chunks[some]):
        looked_up = [sequence[index] for index in range(len(sequence))]
        iterated = list(sequence)
        assert all(type(array) is np.ndarray for array in looked_up + iterated)
        assert list(map(views, iterated)) == list(map(views, looked_up))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("ranks", [1, 2])
def test_chunks_are_arrays_and_never_scalars(family, copy, ranks):
    x = filled((5, 1)[:ranks], FAMILIES[family][0])
    chunks = sa.split_to_sequence(x, keepdims=0, copy=copy)
    for elements in (list(chunks), [chunks[i] for i in range(5)], list(chunks[1:4]), list(chunks[::-1])):
        assert [type(element) for element in elements] == [np.ndarray] * len(elements)
        assert {element.shape for element in elements} == {x.shape[1:]}
    assert [type(element) for element in sa.split(x, num_outputs=5, copy=copy)] == [np.ndarray] * 5
    assert type(sa.sequence_at(chunks, 2, copy=copy)) is np.ndarray


def test_an_iteration_that_has_begun_keeps_the_memory(large):
    chunks = sa.split_to_sequence(filled((64, 4), np.dtype(np.float32)), 2)
    expected = [array.copy() for array in chunks]
    iterator = iter(chunks)
    del chunks
    sa.split_to_sequence(filled((64, 4), np.dtype(np.float32), 500), 2)
    assert_all_same(iterator, expected)


def test_writing_to_an_iterated_chunk_is_seen_when_it_is_looked_up():
    chunks = sa.split_to_sequence(np.zeros((4, 3)), 2, axis=0)
    for number, chunk in enumerate(chunks):
        chunk[...] = number
    assert [float(chunks[i].sum()) for i in range(2)] == [0, 6]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_runs_of_few_chunks_are_iterated(packed, count):
    x = np.arange(12.0).reshape(2, 6)
    starts, stops = range(0, 2 * count, 2), range(2, 2 * count + 2, 2)
    run = Run(x.ravel() if packed else x, Cut((2, 6), 1, False, packed), starts, stops)
    assert [array.shape for array in run] == [(2, 2)] * count
    assert list(map(views, run)) == [views(run[index]) for index in range(count)]
