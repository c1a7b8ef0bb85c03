"""Moving a sequence to another array library or device."""

import copy
import pickle

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_sequences_equal, to_numpy
from tests.helpers import blocks_of, library_of

TYPES = "bool int8 int64 uint16 float16 float32 float64 complex64 complex128 bfloat16 float8_e5m2 string".split()


def values(element_type="float32"):
    """Of shape (6, 10)."""
    if element_type == "string":
        return np.asarray([[f"{i} {j}" for j in range(10)] for i in range(6)], dtype=object)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numbers = np.arange(60).reshape(6, 10) % 7 - 2 * (element_type[0] != "u" and element_type != "bool")
    return numbers.astype(getattr(ml_dtypes, element_type, element_type))


def shapes_of_sequences(x):
    """Sequences of NumPy arrays that lie in memory in every way."""
    chunks = sa.split_to_sequence(x, 3, axis=1)
    return {
        "held": sa.ArraySequence([x[0].copy(), x[:2, :3].copy(), x[0, 0:1].reshape(()), x[:0].copy()]),
        "views": sa.split_to_sequence(x, [3, 0, 7], axis=1, copy=None),
        "copies": sa.split_to_sequence(x, [3, 0, 7], axis=1),
        "some rows": sa.split_to_sequence(x, copy=None)[1:5],
        "backwards": sa.split_to_sequence(x, keepdims=0, axis=1)[::-2],
        "packed": sa.sequence_construct(x, x[0], copy=True),
        "mixed": sa.sequence_insert(chunks, x[:, 4:9], 1),
        "empty chunks": sa.split_to_sequence(x[:, :0], [0, 0], axis=1),
        "strided": sa.ArraySequence([x[:, ::2], x.T, x[::-1]]),
    }


LAYOUTS = list(shapes_of_sequences(values()))


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("element_type", TYPES)
def test_there_and_back_is_the_same(backend, element_type, copy):
    x = values(element_type)
    if not backend.holds(element_type):
        pytest.skip(f"{backend.name} cannot hold {element_type}")
    for sequence in shapes_of_sequences(x).values():
        there = sequence.to(xp=backend.xp, device=backend.device, copy=copy)
        assert library_of(there.namespace) == library_of(backend.xp)
        assert there.element_type == element_type
        assert backend.device is None or there.device == backend.device
        back = there.to(xp="numpy", copy=copy)
        assert back.device == "cpu"
        assert_sequences_equal(back, sequence)


@pytest.mark.parametrize("target", ["numpy", "torch", "jax", "dask", "array_api_strict"])
def test_between_any_two(backend, target):
    pytest.importorskip(target, reason=f"{target} is not installed")
    host = values("int32")
    for sequence in shapes_of_sequences(host).values():
        source = sequence.to(xp=backend.xp, device=backend.device)
        moved = source.to(xp=target, device="cpu" if target == "torch" else None)
        assert library_of(moved.namespace) == target
        assert_sequences_equal(moved.to(xp="numpy"), sequence)


def test_where_nothing_is_to_be_done_nothing_is_done(backend):
    sequence = sa.ArraySequence([backend.array(values())])
    assert sequence.to() is sequence
    assert sequence.to(xp=backend.xp, device=sequence.device, copy=False) is sequence
    fresh = sequence.to(copy=True)
    assert fresh is not sequence
    assert fresh[0] is not sequence[0]
    assert_sequences_equal(fresh, sequence)


@pytest.mark.parametrize("element_type", ["float32", "string", "bfloat16"])
def test_empty_sequences_keep_their_type(backend, element_type):
    if not backend.holds(element_type):
        pytest.skip(f"{backend.name} cannot hold {element_type}")
    for sequence in (sa.sequence_empty(element_type), sa.sequence_empty(element_type, xp="numpy")):
        moved = sequence.to(xp=backend.xp, device=backend.device)
        assert (len(moved), moved.element_type) == (0, element_type)
        assert library_of(moved.namespace) == library_of(backend.xp)


# Memory that both look at.


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="jax is not installed")


def address(array):
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data_ptr()


PARTS = [[2], [4, 1], slice(1, 3), slice(None, None, -1), slice(1), slice(5, None), slice(1, 5, 2)]


@pytest.mark.parametrize(("shape", "axis"), [((6,), 0), ((6, 2), 0), ((1, 6), 1), ((2, 6), 1)])
def test_copies_of_some_chunks_without_the_axis_of_the_split(backend, shape, axis):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    rows = [backend.array(row) for row in np.moveaxis(values, axis, 0)]
    chunks = sa.split_to_sequence(backend.array(values), axis=axis, keepdims=0)
    for part in PARTS:
        expected = [rows[place] for place in part] if isinstance(part, list) else rows[part]
        for copied in (chunks[part].to(copy=True), copy.deepcopy(chunks[part]), sa.sequence_construct(*chunks[part])):
            assert_sequences_equal(copied, expected)


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "strided"])
@pytest.mark.parametrize("element_type", ["float32", "bool", "bfloat16", "complex64"])
def test_numpy_and_torch_look_at_the_same_memory(torch, layout, element_type, copy):
    sequence = shapes_of_sequences(values(element_type))[layout]
    tensors = sequence.to(xp="torch", copy=copy)
    back = tensors.to(xp="numpy", copy=copy)
    for array, tensor, again in zip(sequence, tensors, back, strict=True):
        if array.size:
            assert address(array) == address(tensor) == address(again)
    assert_sequences_equal(back, sequence)


def test_fresh_memory_is_fresh(torch):
    for sequence in shapes_of_sequences(values()).values():
        tensors = sequence.to(xp="torch", copy=True)
        arrays = tensors.to(xp="numpy", copy=True)
        for array, tensor, again in zip(sequence, tensors, arrays, strict=True):
            assert not np.shares_memory(array, tensor.numpy())
            assert not np.shares_memory(again, tensor.numpy())


def test_numpy_looks_at_the_memory_of_jax_read_only(jax):
    sequence = sa.ArraySequence([jax.numpy.arange(4.0), jax.numpy.ones((2, 3))])
    views = sequence.to(xp="numpy", copy=False)
    for array, view in zip(sequence, views, strict=True):
        assert view.__array_interface__["data"][0] == array.unsafe_buffer_pointer()
        assert not view.flags.writeable
    for copy_ in (None, True):
        for array, view in zip(sequence, sequence.to(xp="numpy", copy=copy_), strict=True):
            assert view.flags.writeable
            assert view.__array_interface__["data"][0] != array.unsafe_buffer_pointer()


def test_what_jax_gets_does_not_change_with_its_source(jax):
    x = np.zeros(1000, np.float32)
    moved = sa.ArraySequence([x]).to(xp="jax")
    x[:] = 1
    assert not np.asarray(moved[0]).any()


def test_what_jax_gets_has_been_read_when_it_comes_back(jax):
    for size in (1 << 16, 1 << 20):
        for _ in range(5):
            memory = np.ones(size + 4, np.float32)
            x = memory[4 - memory.ctypes.data // 4 % 16 :][:size]  # not aligned as jax likes it
            moved = sa.ArraySequence([x]).to(xp="jax", copy=True)
            x[:] = 7
            assert (np.asarray(moved[0]) == 1).all()


@pytest.mark.parametrize("device", [5, -1, "cpu:9", "nowhere", 1.5])
def test_devices_that_jax_does_not_have_are_named(jax, device):
    sequence = sa.ArraySequence([jax.numpy.ones(2)])
    with pytest.raises(ValueError, match=r"ArraySequence.to: jax has no device"):
        sequence.to(device=device)
    assert sequence.to(device=0) is sequence


def odd(name):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    match name:
        case "read-only":
            x.flags.writeable = False
        case "byte order":
            x = x.astype(">f4")
        case "negative strides":
            x = x[::-1]
        case "not aligned":
            memory = np.zeros(x.nbytes + 1, np.uint8)[1:]
            x, source = memory.view(np.float32).reshape(3, 4), x
            x[...] = source
    return x


@pytest.mark.parametrize("name", ["read-only", "byte order", "negative strides", "not aligned"])
def test_arrays_that_torch_cannot_look_at_are_copied_or_refused(torch, name):
    x = odd(name)
    sequence = sa.ArraySequence([x])
    moved = sequence.to(xp="torch")
    assert moved[0].tolist() == x.tolist()
    assert not np.shares_memory(moved[0].numpy(), x)
    with pytest.raises(ValueError, match=rf"ArraySequence.to: .*{name}.*copy=None"):
        sequence.to(xp="torch", copy=False)


@pytest.mark.parametrize("name", ["read-only", "byte order", "negative strides", "not aligned"])
def test_odd_arrays_arrive_intact_everywhere(backend, name):
    x = odd(name)
    moved = sa.ArraySequence([x, x[:1]]).to(xp=backend.xp, device=backend.device)
    assert to_numpy(moved[0]).tolist() == x.tolist()
    assert moved.shapes == ((3, 4), (1, 4))


def test_gradients_are_not_lost_without_a_word(torch):
    leaf = torch.ones(3, requires_grad=True)
    for sequence in (sa.ArraySequence([torch.ones(2), leaf * 2]), sa.split_to_sequence(leaf * 2, 1, copy=None)):
        with pytest.raises(ValueError, match=r"ArraySequence.to: element \d requires a gradient.*detach"):
            sequence.to(xp="numpy")


def test_lazily_conjugated_and_negated_tensors(torch):
    x = torch.tensor([1 + 2j, 3 - 1j])
    for tensor in (x.conj(), x.conj().imag):
        sequence = sa.ArraySequence([tensor])
        assert sequence.to(xp="numpy")[0].tolist() == tensor.resolve_conj().resolve_neg().tolist()
        with pytest.raises(ValueError, match="lazily"):
            sequence.to(xp="numpy", copy=False)


# What is refused, before anything moves.


def test_types_that_the_target_lacks_are_refused(backend):
    if backend.name == "dask":
        pytest.skip("dask cannot hold everything")
    for element_type in ("string", "int64", "float8_e4m3fn"):
        if backend.name != "numpy" and not backend.holds(element_type):
            with pytest.raises(TypeError, match=rf"ArraySequence.to: {backend.name.partition('-')[0]}.* cannot hold"):
                sa.ArraySequence([values(element_type)]).to(xp=backend.xp, device=backend.device)


def test_datetimes_go_nowhere_but_to_dask():
    dates = np.asarray(["2020-01-01"], dtype="datetime64[D]")
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(TypeError, match=r"torch on cpu cannot hold datetime64\[D\]"):
        sa.ArraySequence([dates]).to(xp="torch")


@pytest.mark.parametrize("library", ["jax", "dask", "array_api_strict"])
def test_views_are_refused_where_there_are_none(library):
    pytest.importorskip(library, reason=f"{library} is not installed")
    sequence = sa.ArraySequence([np.ones(3, np.float32)])
    with pytest.raises(ValueError, match=rf"ArraySequence.to: moving from numpy on cpu to {library}.* takes a copy"):
        sequence.to(xp=library, copy=False)


def test_values_that_are_not_known_cannot_move(jax, torch):
    def body(x):
        with pytest.raises(TypeError, match="not known yet"):
            sa.ArraySequence([x]).to(xp="numpy")
        return x

    jax.jit(body)(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="meta"):
        sa.ArraySequence([torch.empty(3, device="meta")]).to(xp="numpy")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"xp": "no_such_library"}, ImportError, "no_such_library"),
        ({"xp": 3}, TypeError, "expected an array namespace"),
        ({"device": "cuda:0"}, ValueError, "numpy has no device 'cuda:0'"),
        ({"copy": 1}, TypeError, "copy is 1"),
    ],
    ids=str,
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        sa.ArraySequence([np.ones(3)]).to(**arguments)


def test_without_a_gpu_nothing_moves_to_cupy():
    cupy = pytest.importorskip("cupy", reason="cupy is not installed")
    if cupy.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=r"ArraySequence\.to: cupy has no usable device"):
        sa.ArraySequence([np.ones(3)]).to(xp="cupy")


# Lazy.


def test_moving_to_dask_computes_nothing_and_back_is_one_computation():
    dask = pytest.importorskip("dask", reason="dask is not installed")
    computed = []

    class Counting(dask.callbacks.Callback):
        def _start(self, dsk):
            computed.append(len(dsk))

    with Counting():
        lazy = sa.ArraySequence([np.arange(6.0), np.ones((2, 3))]).to(xp="dask")
        assert computed == []
        lazy.to(xp="numpy")
    assert len(computed) == 1


# Pickles.


@pytest.mark.engine
def test_a_run_is_pickled_as_one_buffer_of_the_bytes_in_use():
    base = np.arange(2_000_000, dtype=np.uint8).reshape(10_000, 200)
    for sequence in (sa.split_to_sequence(base), sa.split_to_sequence(base, copy=None)):
        buffers = []
        head = pickle.dumps(sequence, protocol=5, buffer_callback=buffers.append)
        assert len(buffers) == 1
        assert len(head) < 2_000
        assert len(pickle.dumps(sequence)) < 1.2 * base.nbytes
        assert_sequences_equal(pickle.loads(head, buffers=buffers), sequence)
    part = sa.split_to_sequence(base, copy=None)[100:200]
    assert len(pickle.dumps(part)) < 25_000
    sizes = np.random.default_rng(0).multinomial(10_000, np.full(500, 1 / 500))
    uneven = sa.split_to_sequence(base, sizes)
    assert len(pickle.dumps(uneven)) < 1.2 * base.nbytes
    assert_sequences_equal(pickle.loads(pickle.dumps(uneven)), uneven)


def test_copies_stay_where_they_are(backend):
    sequence = sa.split_to_sequence(backend.array(values()), 2, axis=1)
    assert copy.copy(sequence) is sequence
    for again in (copy.deepcopy(sequence), pickle.loads(pickle.dumps(sequence))):
        assert again.device == sequence.device
        assert_sequences_equal(again, sequence)


# Counts, on CuPy on the host.


def on_gpu(cupy, count):
    return [cupy.full((i % 5 + 1, 3), i, "float32") for i in range(count)]


@pytest.mark.cupy_host
@pytest.mark.parametrize("count", [3, 300, 10_000])
def test_one_transfer_to_the_device_whatever_the_number_of_elements(counting, count):
    arrays = [np.full((i % 5 + 1, 3), i, np.float32) for i in range(count)]
    for sequence in (sa.ArraySequence(arrays), sa.split_to_sequence(np.concatenate(arrays), 3, copy=None)):
        with counting() as counts:
            moved = sequence.to(xp="cupy", device=1)
        assert (counts.host_to_device, counts.pinned_uploads, counts.launches, counts.allocations) == (1, 1, 0, 1)
        assert counts.device_to_host == counts.between_devices == counts.synchronizations == 0
        assert counts.bytes_of("upload") == sequence.nbytes
        assert not isinstance(blocks_of(moved)[0], tuple)
        assert moved[0].device.id == 1
        assert moved[-1].get().tolist() == sequence[-1].tolist()


@pytest.mark.cupy_host
@pytest.mark.parametrize("count", [3, 300, 3000])
def test_one_launch_and_one_transfer_back(counting, count):
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(1):
        held = sa.ArraySequence(on_gpu(cupy, count))
        x = cupy.arange(3 * count, dtype="float32").reshape(3, count)
        chunks = sa.split_to_sequence(x, axis=1, copy=None)
    for sequence in (held, chunks[: count // 2], sa.split_to_sequence(x, axis=1)):
        with counting() as counts:
            moved = sequence.to(xp="numpy")
        assert counts.device_to_host == 1
        assert counts.launches + counts.device_to_device <= 1
        assert counts.bytes_of("download") == sequence.nbytes
        assert counts.between_devices == 0
        assert len(moved) == len(sequence)
        assert moved[-1].tolist() == sequence[-1].get().tolist()


@pytest.mark.cupy_host
def test_one_copy_from_device_to_device(counting):
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(0):
        sequence = sa.ArraySequence(on_gpu(cupy, 300))
    with counting() as counts:
        moved = sequence.to(device=1)
    assert (counts.launches, counts.between_devices, counts.allocations) == (1, 1, 2)
    assert counts.device_to_host == counts.host_to_device == 0
    assert moved.device.id == 1
    assert_sequences_equal(moved.to(device=0), sequence)
    with pytest.raises(ValueError, match="takes a copy"):
        sequence.to(device=1, copy=False)


@pytest.mark.cupy_host
def test_pinned_memory_is_kept_until_it_has_been_read():
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        moved = [sa.ArraySequence([np.full(1000, i)]).to(xp="cupy") for i in range(50)]
    stream.synchronize()
    assert [int(one[0][0]) for one in moved] == list(range(50))
