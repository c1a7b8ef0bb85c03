"""The CUDA engine: how many launches, allocations and transfers it takes, on CuPy on the host."""

import gc
import pickle
from operator import itemgetter

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal
from tests.helpers import blocks_of

pytestmark = [pytest.mark.cupy_host, pytest.mark.engine]


@pytest.fixture
def cupy():
    """CuPy on the host, the first device current."""
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(0):
        yield cupy


def contiguous(cupy, count, rows=lambda index: 4):
    return [cupy.arange(rows(i) * 4, dtype="float32").reshape(rows(i), 4) + i for i in range(count)]


def ragged(cupy, count):
    return contiguous(cupy, count, rows=lambda index: index % 5 + 1)


def strided(cupy, count):
    """Views whose rows lie apart."""
    wide = cupy.arange(4 * 8, dtype="float32").reshape(4, 8)
    return [wide[:, i % 3 : i % 3 + 1 + i % 2] for i in range(count)]


def counted(counts):
    """Launches and plain copies together, allocations, transfers from the host, and to it."""
    return (
        counts.launches + counts.device_to_device,
        counts.allocations,
        counts.host_to_device,
        counts.device_to_host + counts.between_devices,
    )


def joined(arrays, axis):
    return np.concatenate([array.get() for array in arrays], axis)


@pytest.mark.parametrize(
    ("make", "count", "axis", "expected"),
    [
        *((make, n, 0, (1, 1, 0, 0)) for make in (contiguous, ragged) for n in (1, 3, 9, 64, 333)),
        *((make, n, 1, (1, 1, 0, 0)) for make in (contiguous, strided) for n in (1, 3, 9, 64, 200)),
        (ragged, 2719, 0, (1, 1, 0, 0)),
        (strided, 1632, 1, (1, 1, 0, 0)),
        (ragged, 10_000, 0, (1, 2, 1, 0)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_any_number_of_pieces_is_joined_in_one_launch(cupy, counting, make, count, axis, expected):
    arrays = make(cupy, count)
    sequence = sa.ArraySequence(arrays)
    for elements in (arrays, sequence, sequence):
        with counting() as counts:
            result = sa.concat_from_sequence(elements, axis=axis)
        assert counted(counts) == expected
        np.testing.assert_array_equal(result.get(), joined(arrays, axis), strict=True)


def test_one_piece_is_a_plain_copy_and_nothing_is_nothing(cupy, counting):
    piece, empty = cupy.ones((4, 4), "float32"), cupy.ones((0, 4), "float32")
    for elements in ([piece], [empty, piece, empty], [piece[:2]]):
        with counting() as counts:
            sa.concat_from_sequence(elements, axis=0)
        assert (counts.launches, counts.device_to_device, counts.allocations) == (0, 1, 1)
    for elements in ([empty], [empty] * 20, [cupy.ones((3, 0))] * 2):
        with counting() as counts:
            sa.concat_from_sequence(elements, axis=0)
        assert (counts.launches, counts.device_to_device) == (0, 0)


UNIFORM = {
    "split by size": lambda x, s: sa.split_to_sequence(x, 1, axis=1),
    "split by a list of sizes": lambda x, s: sa.split_to_sequence(x, [1] * 10_000, axis=1),
    "split by an array of sizes": lambda x, s: sa.split_to_sequence(x, np.ones(10_000, int), axis=1),
    "rejoined": lambda x, s: sa.concat_from_sequence(s, axis=1),
    "rejoined, split without a copy": lambda x, s: sa.concat_from_sequence(
        sa.split_to_sequence(x, axis=1, copy=None), axis=1
    ),
    "joined along another axis": lambda x, s: sa.concat_from_sequence(s, axis=0),
    "stacked": lambda x, s: sa.concat_from_sequence(s, axis=0, new_axis=1),
    "stacked at the end": lambda x, s: sa.concat_from_sequence(s, axis=-1, new_axis=1),
    "stacked, the axis dropped": lambda x, s: sa.concat_from_sequence(
        sa.split_to_sequence(x, axis=1, keepdims=0, copy=None), axis=1, new_axis=1
    ),
    "a part of it": lambda x, s: sa.concat_from_sequence(s[5:-7], axis=1),
    "every third of it": lambda x, s: sa.concat_from_sequence(s[::3], axis=1),
    "backwards": lambda x, s: sa.concat_from_sequence(s[::-1], axis=1),
}


@pytest.mark.parametrize("work", UNIFORM.values(), ids=UNIFORM)
def test_ten_thousand_chunks_of_one_split_need_no_table(cupy, counting, work):
    x = cupy.arange(4 * 10_000, dtype="float32").reshape(4, 10_000)
    s = sa.split_to_sequence(x, axis=1)
    with counting() as counts:
        result = work(x, s)
    assert counted(counts) == (1, 1, 0, 0)
    host = x.get()
    expected = work(host, sa.split_to_sequence(host, axis=1))
    if isinstance(result, sa.ArraySequence):
        result, expected = (sa.concat_from_sequence(one, axis=1) for one in (result, expected))
    np.testing.assert_array_equal(result.get(), expected, strict=True)


def test_chunks_of_one_split_joined_again_without_a_copy_move_nothing(cupy, counting):
    x = cupy.arange(40_000, dtype="float32").reshape(4, 10_000)
    for axis in (0, 1):
        s = sa.split_to_sequence(x, axis=axis, copy=None)
        with counting() as counts:
            result = sa.concat_from_sequence(s, axis=axis, copy=None)
        assert counted(counts) == (0, 0, 0, 0)
        assert result.data.ptr == x.data.ptr


def test_split_at_insert_concat_is_two_launches_and_two_allocations(cupy, counting):
    x = cupy.arange(60, dtype="float32").reshape(4, 15)
    with counting() as counts:
        s = sa.split_to_sequence(x, [2, 3, 10], axis=1)
        s = sa.sequence_insert(s, sa.sequence_at(s, 1, copy=None), 1)
        result = sa.concat_from_sequence(s, axis=1)
    assert (counts.launches, counts.device_to_device, counts.allocations) == (2, 0, 2)
    assert (counts.host_to_device, counts.device_to_host, counts.synchronizations) == (0, 0, 0)
    host = x.get()
    np.testing.assert_array_equal(result.get(), host[:, [0, 1, 2, 3, 4, *range(2, 15)]], strict=True)


@pytest.mark.parametrize("shapes", [[(2, 3), (4,), (), (0, 2)], [(5,)] * 400], ids=["few", "many"])
def test_arrays_of_any_shapes_are_packed_in_one_launch(cupy, counting, shapes):
    arrays = [cupy.full(shape, i, "int16") for i, shape in enumerate(shapes)]
    with counting() as counts:
        packed = sa.sequence_construct(*arrays, copy=True)
    assert counted(counts) == (1, 1, 0, 0)
    assert_sequences_equal(packed, arrays)


def test_what_does_not_lie_in_rows_is_copied_first(cupy, counting):
    arrays = [cupy.arange(24, dtype="int8").reshape(2, 3, 4).transpose(2, 1, 0), cupy.ones((4, 3, 2), "int8")]
    for elements in (arrays, sa.ArraySequence(arrays)):
        for _ in range(2):  # what is copied for one join is not kept for the next
            arrays[0][...] += 1
            with counting() as counts:
                result = sa.concat_from_sequence(elements, axis=0)
            assert counts.allocations == 2
            np.testing.assert_array_equal(result.get(), joined(arrays, 0), strict=True)


def test_a_join_sees_what_was_written_into_the_elements(cupy):
    sequence = sa.ArraySequence([cupy.zeros(3), cupy.zeros(2)])
    sa.concat_from_sequence(sequence, axis=0)
    sequence[1][...] = 7
    assert sa.concat_from_sequence(sequence, axis=0).get().tolist() == [0, 0, 0, 7, 7]


@pytest.mark.parametrize(
    "dtype", "bool int8 uint16 float16 bfloat16 float8_e4m3fn float32 int64 complex64 complex128".split()
)
def test_every_size_of_dtype(cupy, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    bits = np.arange(2 * 6 * dtype.itemsize, dtype=np.uint8).reshape(2, -1) % 2
    base = cupy.asarray(bits)
    # CuPy makes no arrays of some of these by itself.
    x = cupy.ndarray((2, 6), dtype, base.data)
    host = bits.view(dtype)
    s = sa.split_to_sequence(x, [1, 0, 5], axis=1)
    assert [chunk.shape for chunk in s] == [(2, 1), (2, 0), (2, 5)]
    for axis, new_axis, elements in ((1, 0, s), (0, 1, [x, x]), (0, 0, [x[:, :3], x[:, 3:]])):
        result = sa.concat_from_sequence(elements, axis=axis, new_axis=new_axis)
        assert result.dtype == dtype
        raw = cupy.ndarray((result.size * dtype.itemsize,), np.uint8, result.data).get()
        expected = host if axis else np.stack([host] * 2) if new_axis else np.concatenate([host[:, :3], host[:, 3:]])
        assert raw.tobytes() == expected.tobytes()


@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("shape", [(4, 3, 0), (4, 0), (1, 0, 3), (0, 4, 2)], ids=str)
def test_chunks_of_empty_arrays(cupy, counting, shape, copy):
    x = cupy.zeros(shape, "float32")
    for axis in range(len(shape)):
        for keepdims in (0, 1):
            chunks = sa.split_to_sequence(x, axis=axis, keepdims=keepdims, copy=copy)
            host = sa.split_to_sequence(x.get(), axis=axis, keepdims=keepdims)
            for elements, same in (
                (chunks, host),
                (sa.split_to_sequence(x, [shape[axis]], axis=axis, copy=copy), None),
            ):
                if not len(elements):
                    continue
                same = same or [x.get()]
                for new_axis in (0, 1):
                    for along in range(len(same[0].shape) + new_axis):
                        with counting() as counts:
                            result = sa.concat_from_sequence(elements, axis=along, new_axis=new_axis)
                        expected = sa.concat_from_sequence(same, axis=along, new_axis=new_axis)
                        assert result.shape == expected.shape
                        assert (counts.launches, counts.device_to_device) == (0, 0)


# Devices.


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("home", [0, 1])
def test_results_lie_on_the_device_of_the_inputs(cupy, counting, current, home):
    with cupy.cuda.Device(home):
        x = cupy.arange(24, dtype="float32").reshape(4, 6)
        y = x[:, ::2].T
    with cupy.cuda.Device(current), counting() as counts:
        s = sa.split_to_sequence(x, 2, axis=1)
        t = sa.sequence_construct(x, y, copy=True)
        out = sa.concat_from_sequence([x, x], axis=0)
        results = [*s, *t, out, sa.concat_from_sequence(s, axis=1), sa.sequence_at(s, 0)]
        results += [sa.concat_from_sequence([x, x], axis=0, out=out), sa.concat_from_sequence([y, y], axis=1)]
        assert cupy.cuda.runtime.getDevice() == current
    assert {result.device.id for result in results} == {home}
    assert {event.device for event in counts.events if event.kind in ("launch", "request", "copy")} == {home}
    assert counts.between_devices == 0


@pytest.mark.parametrize("device", [5, -1, "cuda:9", "cpu", "gpu", "cuda:x"])
def test_devices_that_are_not_there_are_named(cupy, device):
    sequence = sa.ArraySequence([cupy.ones(2)])
    for work in (lambda: sequence.to(device=device), lambda: sa.sequence_empty("float32", xp="cupy", device=device)):
        with pytest.raises(ValueError, match=rf"cupy has no device {device!r}: (there are 2|expected a number)"):
            work()


def test_the_body_of_a_map_is_called_on_the_device_of_the_elements(cupy):
    with cupy.cuda.Device(1):
        sequence = sa.ArraySequence([cupy.ones(2), cupy.zeros(3)])
    mapped = sa.sequence_map(sequence, body=lambda element: element + 1)
    assert cupy.cuda.runtime.getDevice() == 0
    assert [element.get().tolist() for element in mapped] == [[2, 2], [1, 1, 1]]


def test_devices_are_not_mixed(cupy, counting):
    here = cupy.ones((2, 2))
    with cupy.cuda.Device(1):
        there = cupy.ones((2, 2))
    with counting() as counts:
        for mixed in ([here, there], [here] * 20 + [there], (there, here)):
            with pytest.raises(ValueError, match=r"element \d+ is on device <CUDA Device \d>"):
                sa.concat_from_sequence(mixed, axis=0)
        with pytest.raises(ValueError, match="out is on device"):
            sa.concat_from_sequence([here], axis=0, out=there)
    assert counts.events == []


# Errors come before anything is allocated.

WRONG = {
    "axis": ("AxisError", lambda x: sa.concat_from_sequence([x, x], axis=2)),
    "axis of a sequence": ("AxisError", lambda x: sa.concat_from_sequence(sa.ArraySequence([x, x]), axis=-3)),
    "shapes": ("element 1 has shape", lambda x: sa.concat_from_sequence([x, x[:1]], axis=1)),
    "ranks": ("element 1 has shape", lambda x: sa.concat_from_sequence([x, x[0]], axis=0)),
    "shapes to stack": ("element 1 has shape", lambda x: sa.concat_from_sequence([x, x[:1]], axis=0, new_axis=1)),
    "chunks": (
        "element 1 has shape",
        lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, [1, 2], axis=1, copy=None), axis=0),
    ),
    "chunks to stack": (
        "element 1 has shape",
        lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, 2, axis=1, copy=None), axis=0, new_axis=1),
    ),
    "mixed blocks": (
        "element 1 has shape",
        lambda x: sa.concat_from_sequence(sa.sequence_insert(sa.split_to_sequence(x, copy=None), x[:, :2], 1), axis=0),
    ),
    "sizes": ("sums to", lambda x: sa.split_to_sequence(x, [1, 4], axis=1)),
    "dtypes": ("element type", lambda x: sa.concat_from_sequence([x, x.astype("int8")], axis=0)),
    "library": ("array of numpy", lambda x: sa.concat_from_sequence([x, np.ones((2, 3))], axis=0)),
    "out of another shape": ("out has shape", lambda x: sa.concat_from_sequence([x, x], axis=0, out=x)),
    "out of NumPy": ("out is of type", lambda x: sa.concat_from_sequence([x], axis=0, out=np.ones((2, 3)))),
    "strings": ("strings live on the CPU", lambda x: sa.sequence_empty("string", xp="cupy")),
}


@pytest.mark.parametrize(("message", "work"), WRONG.values(), ids=WRONG)
def test_bad_input_is_refused_before_anything_is_allocated(cupy, counting, message, work):
    x = cupy.ones((2, 3))
    x.astype("int8")  # so that its kernel is there
    with counting() as counts, pytest.raises((TypeError, ValueError)) as raised:
        work(x)
    assert message in f"{type(raised.value).__name__}: {raised.value}"
    assert [event for event in counts.events if event.kind in ("request", "malloc") and event.nbytes > 6] == []


# out=


@pytest.mark.parametrize(
    "view",
    [
        lambda big: big[1:3],
        lambda big: big[:2, ::2],
        lambda big: big.T[:2],
        lambda big: big[1::-1],
        lambda big: big[:2, 2:8],
    ],
    ids=["rows", "steps", "turned", "backwards", "columns"],
)
def test_out_of_any_layout(cupy, view):
    big = cupy.zeros((12, 12), "float32")
    out = view(big)
    halves = [cupy.ones(out.shape, "float32")[:, : out.shape[1] // 2], cupy.ones((2, out.shape[1] // 2), "float32")]
    assert sa.concat_from_sequence(halves, axis=1, out=out) is out
    assert out.get().all()
    assert big.get().sum() == out.size


def test_out_takes_no_other_memory(cupy, counting):
    out, halves = cupy.zeros((8, 12), "float32"), [cupy.ones((8, 6), "float32")] * 2
    with counting() as counts:
        sa.concat_from_sequence(halves, axis=1, out=out)
        sa.concat_from_sequence(halves, axis=1, out=cupy.ndarray((8, 12), "float32", out.data))
    assert counted(counts) == (2, 0, 0, 0)
    assert out.get().all()


def test_out_that_overlaps_is_right(cupy):
    x = cupy.arange(12, dtype="float32").reshape(2, 6)
    sa.concat_from_sequence([x[:, 3:], x[:, :3]], axis=1, out=x)
    assert x.get().tolist() == [[3, 4, 5, 0, 1, 2], [9, 10, 11, 6, 7, 8]]


# Memory.


def test_memory_is_given_back(cupy):
    pool = cupy.get_default_memory_pool()
    gc.collect()
    before = pool.used_bytes()
    x = cupy.ones((4, 10_240), "float32")
    s = sa.split_to_sequence(x, [5_120, 5_120], axis=1)
    chunk = s[0]
    del s, x
    assert pool.used_bytes() == before + chunk.nbytes * 2
    sa.concat_from_sequence(sa.split_to_sequence(chunk, axis=1)[::2], axis=1)
    del chunk
    gc.collect()
    assert pool.used_bytes() == before


def test_the_allocator_of_the_user_is_asked(cupy):
    asked = []

    def allocator(nbytes):
        asked.append(nbytes)
        return cupy.get_default_memory_pool().malloc(nbytes)

    arrays = [cupy.ones((2, 3), "float32")] * 3
    with cupy.cuda.using_allocator(allocator):
        sa.concat_from_sequence(arrays, axis=0)
        sa.split_to_sequence(arrays[0], axis=1)
    assert asked == [3 * 24, 24]


def test_strides_beyond_31_bits_are_right(cupy):
    """CuPy 14.2 truncates them where it joins more than eight arrays in one kernel."""
    from tests.cupy_host.entry_points import without_poison

    with without_poison():  # 8 GiB of address space, of which a few bytes are touched
        base = cupy.empty((2, 1 << 30), "float32")
    views = [base[:, i : i + 1] for i in range(9)]
    for i, view in enumerate(views):
        view[...] = cupy.asarray([[i], [100 + i]], dtype="float32")
    expected = np.asarray([range(9), range(100, 109)], np.float32)
    for elements in (views, sa.ArraySequence(views), sa.split_to_sequence(base[:, :9], axis=1, copy=None)):
        np.testing.assert_array_equal(sa.concat_from_sequence(elements, axis=1).get(), expected, strict=True)
    chunks = sa.split_to_sequence(base[:, :9], [4, 5], axis=1)
    np.testing.assert_array_equal(chunks[1].get(), expected[:, 4:], strict=True)


def test_streams_are_those_that_are_current(cupy):
    arrays = [cupy.ones((4, 4), "float32") for _ in range(3)]
    with cupy.cuda.Stream(non_blocking=True) as stream:
        result = sa.concat_from_sequence(arrays, axis=0)
        chunks = sa.split_to_sequence(result, 4, axis=0)
    stream.synchronize()
    assert_arrays_equal(chunks[2], arrays[2])


def test_pieces_of_many_blocks(cupy, counting):
    """Chunks of splits, held arrays and packed arrays in one join."""
    x = cupy.arange(120, dtype="int32").reshape(4, 30)
    views, copies = sa.split_to_sequence(x, 3, axis=1, copy=None), sa.split_to_sequence(x, [7, 0, 23], axis=1)
    packed = sa.sequence_construct(x[:, :2], x[:, 2:], copy=True)
    parts = [*views[::2], *copies, *packed, x]
    whole = views[::2]
    for part in (*copies, *packed, x):
        whole = sa.sequence_insert(whole, part)
    whole = sa.sequence_insert(sa.sequence_erase(whole, 3), x[:, 5:6], 2)
    parts = [*parts[:3], *parts[4:]]
    parts.insert(2, x[:, 5:6])
    with counting() as counts:
        result = sa.concat_from_sequence(whole, axis=1)
    assert counted(counts) == (1, 1, 0, 0)
    np.testing.assert_array_equal(result.get(), joined(parts, 1), strict=True)


def test_chunks_are_picked_without_a_view_of_each(cupy, counting, count_calls):
    sequence = sa.split_to_sequence(cupy.ones((3, 1_000), "float32"), axis=1, copy=None)
    made = count_calls(type(blocks_of(sequence)[0]), "__getitem__")
    sa.concat_from_sequence(sequence[::2], axis=1)
    sa.concat_from_sequence(sequence, axis=0, new_axis=1)
    sa.concat_from_sequence(sequence, axis=0)
    assert len(made) <= 3
    assert itemgetter(0)(sequence.shapes) == (3, 1)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("split", [2, [2, 2]])
@pytest.mark.parametrize("copy", [None, True])
def test_single_reversed_chunks_are_joined(cupy, axis, split, copy):
    x = cupy.arange(1, 65).reshape(4, 4, 4)
    for chunks in (
        sa.split_to_sequence(x, split, axis=1, copy=copy)[:1][::-1],
        sa.split_to_sequence(x, split, axis=1, copy=copy)[1:][::-3],
        sa.split_to_sequence(x[:, :, ::2], split, axis=1, copy=copy)[:1][::-1],
    ):
        expected = chunks[0].get()
        assert sa.concat_from_sequence(chunks, axis=axis).get().tolist() == expected.tolist()
        stacked = sa.concat_from_sequence(chunks, axis=axis, new_axis=1)
        assert stacked.get().tolist() == np.expand_dims(expected, axis).tolist()
        assert sa.sequence_construct(*chunks, copy=True)[0].get().tolist() == expected.tolist()
        assert chunks.to(xp="numpy")[0].tolist() == expected.tolist()
        assert pickle.loads(pickle.dumps(chunks))[0].get().tolist() == expected.tolist()
