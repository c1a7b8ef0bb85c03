"""`ArraySequence`: making one, looking into it, what it refuses, pickling and copying it."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal

#: The backends whose arrays can be read without computing them.
EAGER = ["numpy", "array-api-strict", "torch", "jax", "jax-x64", "cupy"]
#: One backend of every library, for what does not depend on the types that it can hold.
each_library = pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")
#: Those whose arrays can be written into.
MUTABLE = ["numpy", "array-api-strict", "torch", "cupy"]

MATRIX = np.arange(12, dtype=np.float32).reshape(2, 6)
MATRIX.flags.writeable = False
SIZES = [1, 0, 3, 2]
CHUNKS = [MATRIX[:, :1], MATRIX[:, 1:1], MATRIX[:, 1:4], MATRIX[:, 4:]]


def matrix(backend):
    return backend.array(MATRIX.copy())


def held(backend):
    return sa.ArraySequence([backend.array(chunk.copy()) for chunk in CHUNKS]), CHUNKS


def copied(backend):
    return sa.sequence_construct(*map(backend.array, CHUNKS), copy=True), CHUNKS


def split_into_copies(backend):
    return sa.split_to_sequence(matrix(backend), SIZES, axis=1), CHUNKS


def split_into_views(backend):
    return sa.split_to_sequence(matrix(backend), SIZES, axis=1, copy=None), CHUNKS


def split_evenly(backend):
    return sa.split_to_sequence(matrix(backend), 4, axis=1, copy=None), [MATRIX[:, :4], MATRIX[:, 4:]]


def split_and_dropped(backend):
    sequence = sa.split_to_sequence(matrix(backend), axis=1, keepdims=0, copy=None)
    return sequence, [MATRIX[:, i] for i in range(6)]


def copies_dropped(backend):
    return sa.split_to_sequence(matrix(backend), axis=1, keepdims=0), [MATRIX[:, i] for i in range(6)]


def mended(backend):
    sequence, chunks = split_into_views(backend)
    new = np.full((3, 1), 7, dtype=np.float32)
    sequence = sa.sequence_insert(sa.sequence_erase(sequence, 1), backend.array(new), 2)
    return sequence, [chunks[0], chunks[2], new, chunks[3]]


def empty(backend):
    return sa.sequence_erase([matrix(backend)]), []


#: Every form in which a sequence keeps its elements.
FORMS = [
    held,
    copied,
    split_into_copies,
    split_into_views,
    split_evenly,
    split_and_dropped,
    copies_dropped,
    mended,
    empty,
]


#: The modules by which a program makes arrays of each library.
MODULES = {
    "numpy": "numpy",
    "array_api_strict": "array_api_strict",
    "torch": "torch",
    "jax": "jax.numpy",
    "dask": "dask.array",
}


def library_of(backend: Any) -> str:
    """The name of the backend's library in messages."""
    return backend.name.removesuffix("-x64").replace("-", "_")


def assert_holds(sequence: Any, expected: list[Any], backend: Any) -> None:
    """`sequence` has these NumPy arrays as its elements, as arrays of the backend."""
    assert len(sequence) == len(expected)
    for element, wanted in zip(sequence, expected, strict=True):
        assert_arrays_equal(element, backend.array(wanted))


# Making one.


@pytest.mark.parametrize("container", [list, tuple, sa.ArraySequence])
def test_made_from_a_list_a_tuple_or_a_sequence(backend, container):
    arrays = [backend.array(np.ones((2, 3), np.float32)), backend.array(np.zeros(4, np.float32))]
    sequence = sa.ArraySequence(container(arrays))
    assert isinstance(sequence, sa.ArraySequence)
    assert all(element is array for element, array in zip(sequence, arrays, strict=True))
    assert sequence.shapes == ((2, 3), (4,))
    assert sequence.element_type == "float32"
    assert sequence.dtype == arrays[0].dtype
    assert sequence.namespace is backend.xp
    assert sequence.device == array_api_compat.device(arrays[0])
    assert backend.device is None or sequence.device == backend.device


def test_made_from_nothing_is_empty_float32():
    for sequence in (sa.ArraySequence(), sa.ArraySequence([]), sa.ArraySequence(())):
        assert len(sequence) == 0
        assert list(sequence) == []
        assert sequence.element_type == "float32"
        assert (sequence.dtype, sequence.namespace, sequence.device) == (None, None, None)
        assert (sequence.shapes, sequence.sizes(), sequence.nbytes) == ((), (), 0)


def test_a_list_changed_later_does_not_change_the_sequence():
    arrays = [np.zeros(1), np.zeros(2)]
    sequence = sa.ArraySequence(arrays)
    arrays.append(np.zeros(3))
    arrays[0] = np.zeros(9)
    assert sequence.shapes == ((1,), (2,))


def test_declarations_that_agree_are_accepted(backend):
    array = backend.array(np.ones(2, np.float32))
    for dtype in (None, "float32", array.dtype, np.float32, np.dtype(">f4")):
        for xp, device in product((None, backend.xp), (None, array_api_compat.device(array))):
            sequence = sa.ArraySequence([array], dtype=dtype, xp=xp, device=device)
            assert sequence[0] is array
            assert sequence.namespace is backend.xp
            assert sequence.device == array_api_compat.device(array)
            again = sa.ArraySequence(sequence, dtype=dtype, xp=xp, device=device)
            assert again[0] is array


def test_a_dtype_that_disagrees_is_refused(backend):
    array = backend.array(np.ones(2, np.float32))
    for elements in ([array], sa.ArraySequence([array])):
        with pytest.raises(TypeError, match=r"^ArraySequence: .*int32.*float32"):
            sa.ArraySequence(elements, dtype="int32")


def test_a_namespace_that_disagrees_is_refused(backend):
    array = backend.array(np.ones(2, np.float32))
    other = "array_api_strict" if backend.name == "numpy" else "numpy"
    with pytest.raises(TypeError, match=rf"^ArraySequence: .*{other}.*{library_of(backend)}"):
        sa.ArraySequence([array], xp=other)


@pytest.mark.parametrize(
    ("library", "here", "there"),
    [
        ("array_api_strict", "device1", "device2"),
        ("array_api_strict", "CPU_DEVICE", "no_x64"),
        ("torch", "cpu", "meta"),
        ("numpy", "cpu", "cuda"),
    ],
)
def test_a_device_that_disagrees_is_refused(library, here, there):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    array = xp.ones(2, dtype=xp.float32, device=xp.Device(here) if library == "array_api_strict" else here)
    assert sa.ArraySequence([array], device=here)[0] is array
    for declared in ({"device": there}, {"device": there, "xp": library}):
        with pytest.raises(ValueError, match=f"(?=.*{here})(?=.*{there})"):
            sa.ArraySequence([array], **declared)


@pytest.mark.parametrize(
    "arrays",
    [
        np.ones((2, 3)),
        np.float32(1),
        (array for array in [np.ones(2)]),
        iter([np.ones(2)]),
        {"a": np.ones(2)},
        {1, 2},
        "text",
        range(2),
        3,
        None,
    ],
    ids=lambda arrays: type(arrays).__name__,
)
def test_only_lists_tuples_and_sequences_are_taken(arrays):
    with pytest.raises(TypeError, match=rf"^ArraySequence: .*list or tuple.*{type(arrays).__name__}"):
        sa.ArraySequence(arrays)


def test_an_array_of_the_backend_is_not_taken_for_a_list(backend):
    with pytest.raises(TypeError, match=r"^ArraySequence: .*list or tuple"):
        sa.ArraySequence(backend.array(np.ones((2, 3), np.float32)))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(
    "element",
    [
        lambda: [1.0, 2.0],
        lambda: 1.0,
        lambda: 1,
        lambda: True,
        lambda: None,
        lambda: "text",
        lambda: b"bytes",
        lambda: memoryview(b"bytes"),
        lambda: np.ma.masked_array([1.0, 2.0], mask=[True, False]),
        lambda: np.ma.masked,
        lambda: np.matrix([[1.0, 2.0]]),
        lambda: sa.ArraySequence([np.ones(2)]),
        lambda: (np.ones(2),),
        lambda: np.float64,
    ],
    ids="list float int bool None str bytes memoryview masked_array masked matrix sequence tuple class".split(),
)
def test_elements_that_are_no_arrays_are_refused(element):
    with pytest.raises(TypeError, match=r"^ArraySequence: element 1 "):
        sa.ArraySequence([np.ones(2), element()])
    with pytest.raises(TypeError, match=r"^sequence_construct: element 0 "):
        sa.sequence_construct(element())
    with pytest.raises(TypeError, match=r"^sequence_insert: tensor "):
        sa.sequence_insert([np.ones(2)], element())


def test_scipy_like_objects_with_only_an_array_method_are_refused():
    class Convertible:
        shape = (2,)
        dtype = np.dtype("float64")

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(2)

    with pytest.raises(TypeError, match=r"^ArraySequence: element 0 .*Convertible"):
        sa.ArraySequence([Convertible()])


@pytest.mark.parametrize(
    "scalar",
    [np.float32(1.5), np.int8(-1), np.bool_(True), np.complex128(1j), np.str_("text"), np.bytes_(b"b"), np.float16(2)],
    ids=lambda scalar: type(scalar).__name__,
)
def test_numpy_scalars_are_stored_as_arrays_of_rank_zero(scalar):
    for sequence in (
        sa.ArraySequence([scalar]),
        sa.sequence_construct(scalar),
        sa.sequence_insert(sa.ArraySequence((), dtype=scalar.dtype), scalar),
    ):
        assert type(sequence[0]) is np.ndarray
        assert_arrays_equal(sequence[0], np.asarray(scalar))


# What elements have in common.


def test_elements_of_different_types_are_refused(backend):
    elements = [backend.array(np.ones(2, np.float32)), backend.array(np.ones(2, np.int32))]
    with pytest.raises(TypeError, match=r"^ArraySequence: element 1 .*int32.*float32"):
        sa.ArraySequence(elements)


@pytest.mark.parametrize(
    ("first", "second"),
    [("float32", "float64"), ("int64", "uint64"), ("bool", "int8"), ("int32", "int64"), ("complex64", "complex128")],
)
def test_no_promotion_makes_different_types_agree(backend, first, second):
    with pytest.raises(TypeError, match=rf"^ArraySequence: element 2 .*{second}.*{first}"):
        sa.ArraySequence([backend.array(np.ones(1, name)) for name in (first, first, second)])


@each_library
@pytest.mark.parametrize("other", MODULES)
def test_mixed_namespaces_are_refused(backend, other):
    module = pytest.importorskip(MODULES[other], reason=f"{other} is not installed")
    stranger = module.asarray(np.ones(2, np.float32))
    array = backend.array(np.ones(2, np.float32))
    if other == library_of(backend):
        assert sa.ArraySequence([array], xp=module)[0] is array
        return
    message = f"element 1 (?=.*{library_of(backend)})(?=.*{other})"
    with pytest.raises(TypeError, match=r"^ArraySequence: " + message):
        sa.ArraySequence([array, stranger])
    with pytest.raises(TypeError, match=r"^sequence_construct: " + message):
        sa.sequence_construct(array, stranger)
    with pytest.raises(TypeError, match=r"^concat_from_sequence: " + message):
        sa.concat_from_sequence([array, stranger], axis=0)
    with pytest.raises(TypeError, match=f"^sequence_insert: tensor (?=.*{library_of(backend)})(?=.*{other})"):
        sa.sequence_insert([array], stranger)


@pytest.mark.parametrize(
    ("library", "here", "there"), [("array_api_strict", "device1", "CPU_DEVICE"), ("torch", "cpu", "meta")]
)
def test_mixed_devices_are_refused(library, here, there):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    make_device = xp.Device if library == "array_api_strict" else xp.device
    arrays = [xp.ones(2, dtype=xp.float32, device=make_device(name)) for name in (here, there)]
    both = f"(?=.*{here})(?=.*{there})"
    with pytest.raises(ValueError, match=r"^ArraySequence: element 1 " + both):
        sa.ArraySequence(arrays)
    with pytest.raises(ValueError, match=r"^sequence_construct: element 1 " + both):
        sa.sequence_construct(*arrays)
    with pytest.raises(ValueError, match=r"^sequence_insert: tensor " + both):
        sa.sequence_insert(sa.ArraySequence(arrays[:1]), arrays[1])
    with pytest.raises(ValueError, match=r"^concat_from_sequence: element 1 " + both):
        sa.concat_from_sequence(arrays, axis=0)


def test_the_dtype_of_text_is_the_common_one():
    narrow, wide = np.asarray(["a"]), np.asarray(["abcd"])
    objects, variable = np.asarray(["xyz"], dtype=object), np.asarray(["xyz"], dtype=np.dtypes.StringDType())
    for arrays, dtype in [
        ([narrow, narrow], "<U1"),
        ([narrow, wide], "<U4"),
        ([wide, narrow], "<U4"),
        ([variable, variable], np.dtypes.StringDType()),
        ([objects, objects], object),
        ([narrow, objects], object),
        ([objects, narrow], object),
        ([narrow, variable], object),
        ([variable, objects], object),
    ]:
        sequence = sa.ArraySequence(arrays)
        assert sequence.element_type == "string"
        assert sequence.dtype == np.dtype(dtype)
        assert all(element is array for element, array in zip(sequence, arrays, strict=True))
        grown = sa.sequence_insert(sa.ArraySequence(arrays[:1]), arrays[1])
        assert grown.dtype == np.dtype(dtype)


def test_bytes_are_not_text():
    text, data = np.asarray(["a"]), np.asarray([b"a"])
    with pytest.raises(TypeError, match=r"element 1 .*bytes.*string"):
        sa.ArraySequence([text, data])
    with pytest.raises(TypeError, match=r"element 1 .*string.*bytes"):
        sa.ArraySequence([data, text])
    widths = sa.ArraySequence([data, np.asarray([b"abc"])])
    assert (widths.element_type, widths.dtype) == ("bytes", np.dtype("S3"))


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ms]", [("x", "f4"), ("y", "i2", (2,))], "V5", np.longdouble])
def test_dtypes_that_onnx_has_not_pass_through(dtype):
    x = np.zeros(6, dtype=dtype)
    sequence = sa.split_to_sequence(x, [2, 4])
    assert sequence.dtype == x.dtype
    assert_sequences_equal(sequence, [x[:2], x[2:]])
    assert_arrays_equal(sa.concat_from_sequence(sequence, axis=0), x)
    assert_arrays_equal(sa.sequence_at(sequence, 1), x[2:])
    assert_sequences_equal(sa.sequence_insert(sequence, x, 0), [x, x[:2], x[2:]])
    assert_sequences_equal(pickle.loads(pickle.dumps(sequence)), sequence)
    with pytest.raises(TypeError, match=r"^sequence_insert: tensor .*float32"):
        sa.sequence_insert(sequence, np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("first", "second"), [("M8[s]", "M8[ms]"), ([("x", "f4")], [("y", "f4")]), ([("x", "f4")], [("x", "f8")])]
)
def test_units_and_fields_have_to_agree(first, second):
    with pytest.raises(TypeError, match=r"^ArraySequence: element 1 "):
        sa.ArraySequence([np.zeros(1, first), np.zeros(1, second)])


@pytest.mark.parametrize("kind", ["f4", "i8", "c16", "U3", "M8[s]", [("x", "f4"), ("y", "i2")]], ids=str)
def test_byte_order_plays_no_part_and_results_are_native(kind):
    native = np.zeros((2, 3), np.dtype(kind))
    swapped = native.astype(native.dtype.newbyteorder())
    for arrays in ([native, swapped], [swapped, native], [swapped, swapped]):
        sequence = sa.ArraySequence(arrays)
        assert sequence.dtype.isnative
        assert sequence.dtype == native.dtype
        assert sa.concat_from_sequence(sequence, axis=0).dtype.isnative
        assert sa.concat_from_sequence(sequence, axis=0, new_axis=1).dtype.isnative
        assert sa.sequence_at(sequence, 0).dtype.isnative
        assert all(element.dtype.isnative for element in sa.sequence_construct(*arrays, copy=True))
    for axis in (0, 1):
        chunks = sa.split_to_sequence(swapped, axis=axis)
        assert chunks.dtype.isnative
        assert all(chunk.dtype.isnative for chunk in chunks)
        assert_arrays_equal(sa.concat_from_sequence(chunks, axis=axis), native)
        assert all(chunk.dtype.isnative for chunk in sa.split(swapped, num_outputs=2, axis=axis))


def test_values_survive_a_change_of_byte_order():
    values = np.asarray([1, 2**40, -(2**62) - 1])
    swapped = values.astype(">i8")
    assert_arrays_equal(sa.concat_from_sequence([values, swapped], axis=0), np.concatenate([values, values]))
    assert_arrays_equal(sa.sequence_at([swapped], 0), values)
    assert_arrays_equal(sa.split(swapped, [1, 2])[1], values[1:])
    views = sa.split_to_sequence(swapped, 1, copy=None)
    assert_arrays_equal(sa.concat_from_sequence(views, axis=0), values)


def test_subclasses_of_ndarray_are_arrays(tmp_path):
    mapped = np.memmap(tmp_path / "data", dtype=np.float32, mode="w+", shape=(4, 2))
    mapped[:] = np.arange(8).reshape(4, 2)
    plain = np.asarray(mapped).copy()
    sequence = sa.ArraySequence([mapped, plain])
    assert sequence[0] is mapped
    assert_arrays_equal(sa.concat_from_sequence(sequence, axis=0), np.concatenate([plain, plain]))
    assert_sequences_equal(sa.split_to_sequence(mapped, 2), [plain[:2], plain[2:]])
    assert_sequences_equal(sa.split_to_sequence(mapped, 2, copy=None), [plain[:2], plain[2:]])
    at = sa.sequence_at(sequence, 0)
    assert not isinstance(at, np.memmap)
    assert_arrays_equal(at, plain)
    assert len(sa.sequence_insert([plain], mapped, 0)) == 2


# Looking into it.


def test_it_is_a_collections_sequence():
    assert isinstance(sa.ArraySequence(), Sequence)
    assert issubclass(sa.ArraySequence, Sequence)
    assert sa.ArraySequence[np.ndarray] is not None


@each_library
@pytest.mark.parametrize("form", FORMS)
def test_length_index_and_iteration(backend, form):
    sequence, expected = form(backend)
    assert_holds(sequence, expected, backend)
    for i in range(len(expected)):
        assert_arrays_equal(sequence[i], backend.array(expected[i]))
        assert tuple(sequence[i - len(expected)].shape) == expected[i].shape
    assert [tuple(element.shape) for element in reversed(sequence)] == [a.shape for a in reversed(expected)]
    assert sequence.shapes == tuple(array.shape for array in expected)
    assert sequence.sizes() == tuple(len(array) for array in expected)
    assert sequence.sizes(-1) == tuple(array.shape[-1] for array in expected)
    assert sequence.nbytes == sum(array.nbytes for array in expected)
    assert all(type(length) is int for shape in sequence.shapes for length in shape)
    assert all(type(size) is int for size in sequence.sizes())
    assert bool(sequence) == bool(expected)


@each_library
@pytest.mark.parametrize("form", FORMS)
def test_slices(form, backend):
    sequence, expected = form(backend)
    bounds = (None, -9, -2, 0, 1, 5)
    for start, stop, step in product(bounds, bounds, (None, 2, 3, -1, -2)):
        part = sequence[start:stop:step]
        assert isinstance(part, sa.ArraySequence)
        assert part.shapes == tuple(array.shape for array in expected[start:stop:step])
        assert part.element_type == "float32"
        assert part.namespace is backend.xp
        assert part.device == sequence.device
    assert_holds(sequence[1::2], expected[1::2], backend)
    assert_holds(sequence[::-1], expected[::-1], backend)
    assert_holds(sequence[::-2][1:], expected[::-2][1:], backend)
    assert_holds(sequence[2:0:-1], expected[2:0:-1], backend)


@pytest.mark.parametrize("length", [255, 256, 257, 600])
def test_sequences_longer_than_a_block(length):
    arrays = [np.full(i % 3, i) for i in range(length)]
    sequence = sa.ArraySequence(arrays)
    assert all(sequence[i] is arrays[i] for i in range(-length, length))
    assert all(element is array for element, array in zip(sequence, arrays, strict=True))
    for part in (slice(250, 260), slice(None, None, -1), slice(None, None, 7), slice(-3, None), slice(300, 100, -9)):
        assert all(element is array for element, array in zip(sequence[part], arrays[part], strict=True))
    assert sequence.sizes() == tuple(i % 3 for i in range(length))


@each_library
@pytest.mark.parametrize("index", [4, 5, -5, 2**70, -(2**70)])
def test_an_index_out_of_range(backend, index):
    sequence, _ = held(backend)
    with pytest.raises(IndexError, match=rf"^ArraySequence: .*{index}\b.*\b4\b"):
        sequence[index]


def test_index_types():
    sequence = sa.ArraySequence([np.zeros(1), np.zeros(2)])
    assert sequence[np.int8(-1)].shape == (2,)
    assert sequence[np.asarray(1)].shape == (2,)
    for index in (1.0, "1", None, (0, 0), [0], Ellipsis):
        with pytest.raises(TypeError):
            sequence[index]
    with pytest.raises(ValueError, match="zero"):
        sequence[::0]
    with pytest.raises(IndexError):
        sa.ArraySequence()[0]


def test_repr_tells_length_type_library_device_and_shapes(backend):
    arrays = [backend.array(np.ones((2, 3), np.float32)), backend.array(np.ones((), np.float32))]
    text = repr(sa.ArraySequence(arrays))
    assert text.startswith(f"<ArraySequence of 2 float32 arrays, {library_of(backend)} on ")
    assert text.endswith(f"{array_api_compat.device(arrays[0])}: (2, 3), ()>")
    assert repr(sa.ArraySequence(arrays[:1])).startswith("<ArraySequence of 1 float32 array, ")


def test_repr_of_empty_and_of_long_sequences():
    assert repr(sa.ArraySequence()) == "<ArraySequence of 0 float32 arrays>"
    assert repr(sa.ArraySequence(dtype="string")) == "<ArraySequence of 0 string arrays>"
    assert repr(sa.sequence_erase([np.ones(2)])) == "<ArraySequence of 0 float64 arrays, numpy on cpu>"
    text = repr(sa.split_to_sequence(np.zeros(100_000), 1, copy=None))
    assert text.startswith("<ArraySequence of 100000 float64 arrays, numpy on cpu: (1,), ")
    assert text.endswith(", ...>")
    assert len(text) < 200


@each_library
def test_sizes_along_axes_of_ragged_ranks(backend):
    arrays = [backend.array(np.ones(shape, np.float32)) for shape in [(4,), (2, 3), (0, 5, 6)]]
    sequence = sa.ArraySequence(arrays)
    assert sequence.sizes() == sequence.sizes(0) == (4, 2, 0)
    assert sequence.sizes(-1) == sequence.sizes(axis=-1) == (4, 3, 6)
    assert sequence[1:].sizes(1) == (3, 5)
    with pytest.raises(np.exceptions.AxisError, match=r"axis is 1;.*element 0.*\[-1, 0\]"):
        sequence.sizes(1)
    with pytest.raises(np.exceptions.AxisError, match=r"axis is -3;.*element 0.*\[-2, 1\]"):
        sequence[1:].sizes(-3)
    with pytest.raises(np.exceptions.AxisError, match=r"axis is 2;.*element 1.*\[-2, 1\]"):
        sequence[::-1][:2].sizes(2)
    with pytest.raises(np.exceptions.AxisError, match="rank 0"):
        sa.ArraySequence([backend.array(np.float32(1))]).sizes()


@pytest.mark.parametrize("axis", [True, 1.0, "0", None])
def test_sizes_refuses_an_axis_that_is_no_integer(axis):
    with pytest.raises(TypeError, match=r"sizes: axis"):
        sa.ArraySequence([np.ones((2, 3))]).sizes(axis)


def test_nbytes_counts_every_element_as_stored():
    text = sa.ArraySequence([np.asarray(["a", "b"]), np.asarray(["abc"])])
    assert text.nbytes == 2 * 4 + 3 * 4
    shared = np.ones((4, 4))
    assert sa.ArraySequence([shared, shared, shared.T, shared[::2]]).nbytes == (3 * 16 + 8) * 8
    assert sa.ArraySequence([np.broadcast_to(np.float32(1), (10, 10))]).nbytes == 400


@pytest.mark.parametrize("element_type", ["bool", "int8", "uint16", "float64", "complex64", "bfloat16", "float16"])
def test_nbytes_knows_every_item_size(backend, element_type):
    sizes = {"bool": 1, "int8": 1, "uint16": 2, "float64": 8, "complex64": 8, "bfloat16": 2, "float16": 2}
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = ml_dtypes.bfloat16 if element_type == "bfloat16" else element_type
    sequence = sa.ArraySequence([backend.array(np.zeros((2, 3), dtype)), backend.array(np.zeros(4, dtype))])
    assert sequence.element_type == element_type
    assert sequence.nbytes == 10 * sizes[element_type]


# What it refuses.


def test_membership_index_and_count_say_why_they_refuse(backend):
    array = backend.array(np.ones(2, np.float32))
    for sequence in (sa.ArraySequence([array]), sa.ArraySequence()):
        with pytest.raises(TypeError, match="equal"):
            array in sequence  # noqa: B015
        with pytest.raises(TypeError, match="compare"):
            sequence.index(array)
        with pytest.raises(TypeError, match="compare"):
            sequence.count(array)


def test_arithmetic_does_not_swallow_it(backend):
    array = backend.array(np.ones(3, np.float32))
    sequence = sa.ArraySequence([array])
    for operation in (lambda: array + sequence, lambda: sequence + array, lambda: sequence + sequence):
        with pytest.raises(TypeError):
            operation()
    with pytest.raises(TypeError):
        np.ones(3) + sequence
    with pytest.raises(TypeError):
        np.float64(1) * sequence
    with pytest.raises(TypeError):
        np.add(sequence, 1)


def test_it_does_not_pass_for_an_array():
    sequence = sa.ArraySequence([np.ones(2)])
    assert sequence.__array_ufunc__ is None
    for name in ("__array__", "__array_namespace__", "__dlpack__", "__array_interface__", "__array_function__"):
        assert not hasattr(sequence, name)
    assert not array_api_compat.is_array_api_obj(sequence)


def test_it_cannot_be_changed():
    sequence = sa.ArraySequence([np.ones(2)])
    with pytest.raises(TypeError):
        sequence[0] = np.zeros(2)
    with pytest.raises(TypeError):
        del sequence[0]
    for name in ("shapes", "dtype", "element_type", "namespace", "device", "nbytes", "anything"):
        with pytest.raises(AttributeError):
            setattr(sequence, name, None)
    assert not hasattr(sequence, "append")


def test_writing_into_an_element_is_seen_by_every_version():
    sequence = sa.ArraySequence([np.zeros(2), np.zeros(3)])
    later = sa.sequence_erase(sa.sequence_insert(sequence, np.ones(1), 1), 2)
    sequence[0][:] = 5
    assert later[0].tolist() == [5, 5]


# Pickling and copying.


def pickled(sequence):
    return pickle.loads(pickle.dumps(sequence))


@each_library
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("duplicate", [pickled, copy.deepcopy, copy.copy])
def test_pickled_and_copied(backend, form, duplicate):
    sequence, expected = form(backend)
    for original, wanted in ((sequence, expected), (sequence[1:], expected[1:]), (sequence[::-2], expected[::-2])):
        again = duplicate(original)
        assert type(again) is sa.ArraySequence
        assert_holds(again, wanted, backend)
        assert again.element_type == original.element_type
        assert again.dtype == original.dtype
        assert again.namespace is original.namespace
        assert again.device == original.device
        assert again.shapes == original.shapes
        assert again.nbytes == original.nbytes
        grown = sa.sequence_insert(again, backend.array(MATRIX), 0)
        assert_arrays_equal(grown[0], backend.array(MATRIX))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.backends("numpy")
def test_every_pickle_protocol(backend, form, protocol):
    sequence, expected = form(backend)
    assert_holds(pickle.loads(pickle.dumps(sequence, protocol)), expected, backend)


@pytest.mark.backends(*MUTABLE)
@pytest.mark.parametrize("form", FORMS[:-1])
def test_a_deep_copy_shares_no_memory(backend, form):
    sequence, expected = form(backend)
    duplicate = copy.deepcopy(sequence)
    with backend.current():
        for element in duplicate:
            if 0 not in element.shape:
                element[...] = -1
    assert_holds(sequence, expected, backend)


@pytest.mark.backends(*MUTABLE)
def test_a_shallow_copy_shares_its_elements(backend):
    sequence, _ = held(backend)
    duplicate = copy.copy(sequence)
    assert all(element is other for element, other in zip(duplicate, sequence, strict=True))
    views, _ = split_into_views(backend)
    with backend.current():
        copy.copy(views)[0][...] = -1
    assert_arrays_equal(views[0], backend.array(np.full((2, 1), -1, np.float32)))


SMALL_PARTS: dict[str, Callable[[Any], Any]] = {
    "slice of views": lambda x: sa.split_to_sequence(x, 10, copy=None)[5:8],
    "steps through views": lambda x: sa.split_to_sequence(x, 10, copy=None)[5:20:3],
    "views backwards": lambda x: sa.split_to_sequence(x, 10, copy=None)[8:5:-1],
    "one view": lambda x: sa.split_to_sequence(x, 10, copy=None)[-1:],
    "views of single items": lambda x: sa.split_to_sequence(x, keepdims=0, copy=None)[100:105],
    "slice of copies": lambda x: sa.split_to_sequence(x[:5_000], 100)[5:6],
    "views of unequal sizes": lambda x: sa.split_to_sequence(x, [10, 20, 30, 99_940], copy=None)[:3],
    "a view inserted": lambda x: sa.sequence_insert(sa.split_to_sequence(x, 10, copy=None)[5:8], x[:5], 1),
    "views erased": lambda x: sa.sequence_erase(sa.split_to_sequence(x, 10, copy=None)[5:9], 2),
    "views held": lambda x: sa.ArraySequence([x[:10], x[10:20], x[50:55]]),
    "packed": lambda x: sa.sequence_construct(x[:10], x, x[:20], copy=True)[::2],
}


@pytest.mark.parametrize("part", SMALL_PARTS)
@pytest.mark.backends(*[name for name in EAGER if name != "jax-x64"])
def test_a_small_part_of_a_large_base_is_a_small_pickle(backend, part):
    x = backend.array(np.arange(100_000, dtype=np.float32))
    sequence = SMALL_PARTS[part](x)
    assert sequence.nbytes <= 600
    data = pickle.dumps(sequence)
    assert len(data) < sequence.nbytes + 600 * (len(sequence) + 1)
    assert_sequences_equal(pickle.loads(data), list(sequence))


@pytest.mark.backends(*EAGER[:4])
def test_many_views_are_not_pickled_with_their_base_each(backend):
    x = backend.array(np.arange(20_000, dtype=np.float32))
    sequence = sa.split_to_sequence(x, 100, copy=None)
    for position in range(0, 120, 2):
        sequence = sa.sequence_insert(sequence, x[:1], position)
    assert len(pickle.dumps(sequence)) < 3 * sequence.nbytes + 500 * len(sequence)


def test_the_columns_of_a_long_run_are_not_pickled_either():
    sequence = sa.split_to_sequence(np.zeros(100_000), [1] * 100_000, copy=None)
    assert len(pickle.dumps(sequence[5:8])) < 2_000
    with_copies = sa.split_to_sequence(np.zeros((2, 100_000)), [1] * 100_000, axis=1)
    assert len(pickle.dumps(with_copies[5:8])) < 2_000


def test_an_element_held_twice_is_pickled_once():
    array = np.ones(1000)
    again = pickled(sa.ArraySequence([array, array]))
    assert again[0] is again[1]
    assert len(pickle.dumps(sa.ArraySequence([array] * 10))) < 10_000


@pytest.mark.parametrize("duplicate", [pickled, copy.deepcopy, copy.copy])
def test_empty_sequences_keep_what_they_know(backend, duplicate):
    device = array_api_compat.device(backend.array(np.ones(1, np.float32)))
    for sequence in (
        sa.sequence_empty("float32", xp=backend.xp, device=device),
        sa.sequence_empty("float32", xp=backend.xp),
        sa.sequence_erase([backend.array(np.ones(1, np.float32))]),
        sa.split_to_sequence(backend.array(np.ones(0, np.int32))),
    ):
        again = duplicate(sequence)
        assert len(again) == 0
        assert again.element_type == sequence.element_type
        assert again.namespace is sequence.namespace
        assert again.device == sequence.device
        assert again.dtype == sequence.dtype


@pytest.mark.parametrize("element_type", ["float32", "int8", "string", "bfloat16"])
def test_empty_sequences_without_a_namespace_keep_their_type(element_type):
    for duplicate in (pickled, copy.deepcopy):
        again = duplicate(sa.sequence_empty(element_type))
        assert (again.element_type, again.namespace, again.device) == (element_type, None, None)
        assert duplicate(sa.sequence_empty(element_type, device="cpu")).device == "cpu"


def test_mixed_text_is_pickled():
    sequence = sa.ArraySequence([np.asarray(["a"]), np.asarray(["bcd"], dtype=object)])
    again = pickled(sequence)
    assert_sequences_equal(again, sequence)
    assert again.dtype == np.dtype(object)
    strings = sa.split_to_sequence(np.asarray(["a", "bb", "ccc"], dtype=np.dtypes.StringDType()), 1)
    assert_sequences_equal(pickled(strings[1:]), strings[1:])


@pytest.mark.backends("numpy", "array-api-strict")
def test_a_pickle_is_read_in_a_process_that_has_imported_nothing(backend):
    sequence, _ = mended(backend)
    both = pickle.dumps((sequence, sa.sequence_empty("float32", xp=backend.xp)))
    program = (
        "import pickle, sys; sequence, empty = pickle.loads(sys.stdin.buffer.read()); "
        "print(sequence.element_type, sequence.shapes, empty.namespace.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], input=both, capture_output=True, check=True)
    assert done.stdout.decode().strip() == f"float32 {sequence.shapes} {backend.xp.__name__}"
