"""Making an `ArraySequence`, and what its elements have in common."""

import pickle
from itertools import product
from typing import Any

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal
from tests.sequence.forms import (
    MODULES,
    each_library,
    library_of,
)


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
