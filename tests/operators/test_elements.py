"""The operators that make sequences and work on single elements: positions, element types, namespaces and devices."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal

INTEGER_TYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
#: The backends whose arrays can be read without computing them.
EAGER = ["numpy", "array-api-strict", "torch", "jax", "jax-x64", "cupy"]

#: One backend of every library, for what does not depend on the types that it can hold.
each_library = pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")

#: Every operator that takes a position, with the positions it takes in a sequence of three.
POSITIONED: dict[str, tuple[Callable[[Any, Any], Any], range]] = {
    "sequence_at": (sa.sequence_at, range(-3, 3)),
    "sequence_erase": (sa.sequence_erase, range(-3, 3)),
    "sequence_insert": (lambda s, position: sa.sequence_insert(s, s[0], position), range(-3, 4)),
}

#: Every operator that takes a sequence, by its name.
ON_SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "sequence_at": lambda s: sa.sequence_at(s, 0),
    "sequence_insert": lambda s: sa.sequence_insert(s, np.ones(1, np.float32)),
    "sequence_erase": sa.sequence_erase,
    "sequence_length": sa.sequence_length,
    "concat_from_sequence": lambda s: sa.concat_from_sequence(s, axis=0),
    "sequence_map": lambda s: sa.sequence_map(s, body=lambda x: x),
}


def three(backend: Any) -> list[Any]:
    return [backend.array(np.full(i + 1, i, np.float32)) for i in range(3)]


def library_of(backend: Any) -> str:
    """The name of the backend's library in messages."""
    return backend.name.removesuffix("-x64").replace("-", "_")


# Positions.


def test_at_takes_every_position_of_the_range(backend):
    elements = three(backend)
    for position in range(-3, 3):
        assert_arrays_equal(sa.sequence_at(elements, position), elements[position])
        assert sa.sequence_at(elements, position, copy=None) is elements[position]
        assert sa.sequence_at(sa.ArraySequence(elements), position, copy=False) is elements[position]


def test_insert_puts_the_tensor_before_the_position(backend):
    elements = three(backend)
    new = backend.array(np.full((2, 2), 9, np.float32))
    for position in range(-3, 4):
        expected = list(elements)
        expected.insert(position, new)
        before = sa.ArraySequence(elements)
        after = sa.sequence_insert(before, new, position)
        assert [id(element) for element in after] == [id(element) for element in expected]
        assert [id(element) for element in before] == [id(element) for element in elements]
    assert sa.sequence_insert(elements, new)[3] is new


def test_erase_takes_out_the_element_at_the_position(backend):
    elements = three(backend)
    for position in range(-3, 3):
        expected = list(elements)
        del expected[position]
        before = sa.ArraySequence(elements)
        after = sa.sequence_erase(before, position)
        assert [id(element) for element in after] == [id(element) for element in expected]
        assert len(before) == 3
    assert [id(element) for element in sa.sequence_erase(elements)] == [id(element) for element in elements[:2]]


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
@pytest.mark.backends(*EAGER)
def test_a_position_may_be_an_integer_array_of_one_element(backend, dtype):
    elements = three(backend)
    for shape, value in product(((), (1,)), (1,) if dtype.startswith("u") else (1, -2)):
        position = backend.array(np.full(shape, value, dtype))
        assert_arrays_equal(sa.sequence_at(elements, position), elements[value])
        assert_sequences_equal(sa.sequence_erase(elements, position), sa.sequence_erase(elements, value))
        inserted = sa.sequence_insert(elements, elements[0], position)
        assert_sequences_equal(inserted, sa.sequence_insert(elements, elements[0], value))


@each_library
@pytest.mark.parametrize(
    "position", [np.int8(1), np.uint64(1), np.asarray(1), np.asarray([1], ">i4"), np.asarray([1, 5])[:1]], ids=repr
)
def test_a_position_may_be_a_numpy_integer_whatever_the_elements_are(backend, position):
    elements = three(backend)
    assert sa.sequence_at(elements, position, copy=None) is elements[1]
    assert sa.sequence_erase(elements, position).shapes == ((1,), (3,))
    assert sa.sequence_insert(elements, elements[2], position).shapes == ((1,), (3,), (2,), (3,))


@pytest.mark.parametrize("name", POSITIONED)
@pytest.mark.parametrize(
    "position",
    [True, False, np.True_, 1.0, 0.0, np.float64(1), 1j, "1", b"1", "", [0], (0,), {0}, range(1), slice(0, 1)],
    ids=repr,
)
def test_a_position_of_another_kind_is_refused(name, position):
    operator, _ = POSITIONED[name]
    with pytest.raises(TypeError, match=rf"^{name}: position .*integer"):
        operator([np.zeros(1), np.zeros(2), np.zeros(3)], position)


@each_library
@pytest.mark.parametrize("name", POSITIONED)
@pytest.mark.parametrize("dtype", ["bool", "float32", "complex64"])
def test_a_position_array_of_another_type_is_refused(backend, name, dtype):
    operator, _ = POSITIONED[name]
    for shape in ((), (1,)):
        with pytest.raises(TypeError, match=rf"^{name}: position .*{dtype}.*integer"):
            operator(three(backend), backend.array(np.ones(shape, dtype)))


@pytest.mark.parametrize("name", POSITIONED)
@pytest.mark.parametrize(
    "position",
    [np.asarray("1"), np.asarray(1, object), np.datetime64(1, "s"), np.timedelta64(1, "s"), np.ma.masked_array(1)],
    ids=lambda position: str(position.dtype),
)
def test_a_position_array_of_no_number_is_refused(name, position):
    operator, _ = POSITIONED[name]
    with pytest.raises(TypeError, match=rf"^{name}: position .*integer"):
        operator([np.zeros(1), np.zeros(2), np.zeros(3)], position)


@pytest.mark.parametrize("name", POSITIONED)
@pytest.mark.parametrize("shape", [(2,), (0,), (1, 1), (0, 1)], ids=str)
@pytest.mark.backends(*EAGER)
def test_a_position_of_more_or_less_than_one_element_is_refused(backend, name, shape):
    operator, _ = POSITIONED[name]
    position = backend.array(np.zeros(shape, np.int32))
    with pytest.raises(ValueError, match=rf"^{name}: position .*shape \({shape[0]},") as caught:
        operator(three(backend), position)
    assert not isinstance(caught.value, IndexError)


@pytest.mark.parametrize("name", POSITIONED)
@pytest.mark.backends("dask")
def test_a_lazy_position_is_refused(backend, name):
    operator, _ = POSITIONED[name]
    for position in (backend.array(np.asarray(1)), backend.array(np.asarray([1]))):
        with pytest.raises(TypeError, match=rf"^{name}: position .*host integer"):
            operator(three(backend), position)


@each_library
@pytest.mark.parametrize("name", POSITIONED)
@pytest.mark.parametrize("position", [4, -4, 2**64, -(2**63) - 1, np.uint64(2**64 - 1)], ids=str)
def test_a_position_out_of_range_is_an_index_error_that_tells_the_range(backend, name, position):
    operator, allowed = POSITIONED[name]
    message = rf"^{name}: position is {position}; .*\b3 elements.*\[-3, {allowed[-1]}\]"
    for sequence in (three(backend), sa.ArraySequence(three(backend))):
        with pytest.raises(IndexError, match=message):
            operator(sequence, position)


@pytest.mark.parametrize("name", ["sequence_at", "sequence_erase"])
def test_the_position_after_the_last_is_for_inserting_only(backend, name):
    operator, _ = POSITIONED[name]
    with pytest.raises(IndexError, match=rf"^{name}: .*3.*\[-3, 2\]"):
        operator(three(backend), 3)


@pytest.mark.parametrize("position", [0, -1, 1])
def test_an_empty_sequence_has_no_position(position):
    empty = sa.sequence_empty("float32")
    with pytest.raises(IndexError, match=rf"^sequence_at: .*{position}.*empty"):
        sa.sequence_at(empty, position)
    with pytest.raises(IndexError, match=r"^sequence_erase: .*empty"):
        sa.sequence_erase(empty, position)
    with pytest.raises(IndexError, match=r"^sequence_erase: .*empty"):
        sa.sequence_erase(empty)
    if position != 0:
        with pytest.raises(IndexError, match=rf"^sequence_insert: .*{position}.*\[0, 0\]"):
            sa.sequence_insert(empty, np.ones(1, np.float32), position)


def test_the_gap_of_an_empty_sequence_is_at_zero(backend):
    array = backend.array(np.ones(2, np.float32))
    assert sa.sequence_insert(sa.sequence_empty(), array, 0)[0] is array
    assert sa.sequence_insert([], array, np.asarray([0]))[0] is array


def test_the_kind_of_a_position_is_checked_on_empty_sequences_too():
    for position in (True, 0.0, "0", [0]):
        with pytest.raises(TypeError, match=r"^sequence_at: position"):
            sa.sequence_at([], position)
        with pytest.raises(TypeError, match=r"^sequence_erase: position"):
            sa.sequence_erase([], position)


def test_at_needs_a_position():
    with pytest.raises(TypeError, match="position"):
        sa.sequence_at([np.ones(1)])
    with pytest.raises(TypeError, match=r"^sequence_at: position is None"):
        sa.sequence_at([np.ones(1)], None)


def test_names_of_arguments():
    elements = [np.zeros(1), np.zeros(2)]
    assert sa.sequence_at(elements, position=1).shape == (2,)
    assert sa.sequence_insert(elements, tensor=np.zeros(3), position=0).shapes == ((3,), (1,), (2,))
    assert sa.sequence_erase(elements, position=0).shapes == ((2,),)
    with pytest.raises(TypeError):
        sa.sequence_at(sequence=elements, position=0)
    with pytest.raises(TypeError):
        sa.sequence_at(elements, 0, None)


@pytest.mark.parametrize("copy", [1, 0, "yes", 2.0, np.True_])
def test_copy_is_true_false_or_none(copy):
    with pytest.raises(TypeError, match=r"^sequence_at: copy .*True, False or None"):
        sa.sequence_at([np.ones(1)], 0, copy=copy)
    with pytest.raises(TypeError, match=r"^sequence_construct: copy .*True, False or None"):
        sa.sequence_construct(np.ones(1), copy=copy)


# What is taken for a sequence.


@pytest.mark.parametrize("name", ON_SEQUENCES)
def test_lists_and_tuples_are_taken_for_sequences(name):
    elements = [np.ones(2, np.float32), np.zeros(3, np.float32)]
    for sequence in (elements, tuple(elements), sa.ArraySequence(elements)):
        result = ON_SEQUENCES[name](sequence)
        assert isinstance(result, (np.ndarray, sa.ArraySequence))
        assert isinstance(result, sa.ArraySequence) == (name in {"sequence_insert", "sequence_erase", "sequence_map"})


@pytest.mark.parametrize("name", ON_SEQUENCES)
@pytest.mark.parametrize(
    "value",
    [
        lambda: np.ones((2, 3)),
        lambda: np.float32(1),
        lambda: (array for array in [np.ones(1)]),
        lambda: iter([np.ones(1)]),
        lambda: {"a": np.ones(1)},
        lambda: {1},
        lambda: "text",
        lambda: None,
        lambda: 3,
        lambda: range(2),
    ],
    ids="array scalar generator iterator dict set str None int range".split(),
)
def test_anything_else_is_refused(name, value):
    value = value()
    with pytest.raises(TypeError, match=rf"^{name}: .*list or tuple.*{type(value).__name__}"):
        ON_SEQUENCES[name](value)


@each_library
@pytest.mark.parametrize("name", ON_SEQUENCES)
def test_an_array_of_the_backend_is_no_sequence(backend, name):
    with pytest.raises(TypeError, match=rf"^{name}: .*list or tuple"):
        ON_SEQUENCES[name](backend.array(np.ones((2, 3), np.float32)))


@pytest.mark.parametrize("name", ON_SEQUENCES)
def test_elements_are_checked_wherever_a_list_is_taken(name):
    with pytest.raises(TypeError, match=rf"^{name}: element 1 must be an array"):
        ON_SEQUENCES[name]([np.ones(1, np.float32), [1.0]])
    with pytest.raises(TypeError, match=rf"^{name}: element 1 .*int32.*float32"):
        ON_SEQUENCES[name]([np.ones(1, np.float32), np.ones(1, np.int32)])


# Making sequences.


def test_construct_keeps_the_inputs_in_order(backend):
    elements = three(backend)
    sequence = sa.sequence_construct(*elements)
    assert [id(element) for element in sequence] == [id(element) for element in elements]
    assert_sequences_equal(sa.sequence_construct(*elements, copy=True), elements)
    assert_sequences_equal(sa.sequence_construct(elements[0], elements[0], copy=True), [elements[0]] * 2)


def test_construct_of_ragged_ranks_and_zero_sizes(backend):
    arrays = [backend.array(np.ones(shape, np.float32)) for shape in [(), (0,), (2, 0, 3), (1, 2), (4,)]]
    for copy in (True, None, False):
        sequence = sa.sequence_construct(*arrays, copy=copy)
        assert sequence.shapes == ((), (0,), (2, 0, 3), (1, 2), (4,))
        assert_sequences_equal(sequence, arrays)


def test_construct_copies_what_is_strided(backend):
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = backend.array(base)
    sequence = sa.sequence_construct(x[::2, ...], x[:, 1::2], x[1, ...], copy=True)
    assert_sequences_equal(sequence, [backend.array(part) for part in (base[::2], base[:, 1::2], base[1])])
    fortran = np.asfortranarray(base)
    packed = sa.sequence_construct(fortran, fortran[::-1], fortran.T, copy=True)
    assert_sequences_equal(packed, [base, base[::-1], base.T])


def test_construct_needs_an_input():
    with pytest.raises(ValueError, match=r"^sequence_construct: .*sequence_empty"):
        sa.sequence_construct()
    with pytest.raises(ValueError, match=r"^sequence_construct: .*sequence_empty"):
        sa.sequence_construct(copy=True)


def test_construct_takes_arrays_not_a_list_of_them():
    with pytest.raises(TypeError, match=r"^sequence_construct: element 0 must be an array"):
        sa.sequence_construct([np.ones(1), np.ones(2)])


def test_construct_copies_text_of_mixed_width():
    arrays = [np.asarray(["a", "b"]), np.asarray([["abcd"]]), np.asarray("xyz", dtype=object)]
    assert_sequences_equal(sa.sequence_construct(*arrays, copy=True), arrays)
    assert_sequences_equal(sa.sequence_construct(*arrays[:2], copy=True), arrays[:2])


@pytest.mark.parametrize(
    ("dtype", "element_type"),
    [
        ("float32", "float32"),
        ("string", "string"),
        ("bfloat16", "bfloat16"),
        (np.int16, "int16"),
        (np.dtype(">f8"), "float64"),
        (str, "string"),
        (object, "string"),
        (np.dtype("U7"), "string"),
        (float, "float64"),
        (bool, "bool"),
        ("double", "float64"),
    ],
    ids=str,
)
def test_empty_knows_its_element_type(dtype, element_type):
    sequence = sa.sequence_empty(dtype)
    assert (len(sequence), sequence.element_type) == (0, element_type)
    assert (sequence.namespace, sequence.dtype, sequence.device) == (None, None, None)


def test_empty_is_float32_by_default():
    assert sa.sequence_empty().element_type == "float32"


@pytest.mark.parametrize("dtype", ["nonsense", "", 1, True, None, [1], 3.5, np.float32(1), b"float32", (), np])
def test_empty_names_a_type_that_there_is_not(dtype):
    with pytest.raises(TypeError, match=r"^sequence_empty: dtype is "):
        sa.sequence_empty(dtype)


def test_empty_takes_the_dtypes_of_every_library(backend):
    for element_type in ("float32", "int8", "bool", "complex64"):
        dtype = backend.array(np.zeros(1, element_type)).dtype
        sequence = sa.sequence_empty(dtype, xp=backend.xp, device=backend.device)
        assert sequence.element_type == element_type
        assert sequence.dtype == dtype
        assert sequence.namespace is backend.xp
        assert sequence.device == backend.device


def test_empty_takes_a_namespace_by_module_and_by_name(backend):
    for xp in (backend.xp, backend.xp.__name__, library_of(backend)):
        assert sa.sequence_empty(xp=xp).namespace is backend.xp


@pytest.mark.parametrize(
    "xp",
    [5, True, object(), "math", "no_such_library", "", np.ones(2), math],
    ids=lambda xp: xp if isinstance(xp, str) else type(xp).__name__,
)
def test_empty_refuses_a_namespace_that_is_none(xp):
    with pytest.raises((TypeError, ImportError), match=r"^sequence_empty: xp "):
        sa.sequence_empty(xp=xp)
    with pytest.raises((TypeError, ImportError), match=r"^ArraySequence: xp "):
        sa.ArraySequence(xp=xp)


def test_empty_refuses_a_device_that_the_namespace_has_not(backend):
    with pytest.raises(ValueError, match=r"^sequence_empty: .*nowhere"):
        sa.sequence_empty(xp=backend.xp, device="nowhere")


@pytest.mark.parametrize(
    ("library", "element_type"),
    [("torch", "string"), ("array_api_strict", "string"), ("jax", "string"), ("jax", "int64"), ("jax", "float64")]
    + [("array_api_strict", "bfloat16"), ("array_api_strict", "float16"), ("torch", "float4_e2m1fn")],
)
def test_empty_refuses_what_the_namespace_cannot_hold(library, element_type):
    pytest.importorskip(library, reason=f"{library} is not installed")
    with pytest.raises(TypeError, match=rf"^sequence_empty: (?=.*{library})(?=.*{element_type})"):
        sa.sequence_empty(element_type, xp=library)
    with pytest.raises(TypeError, match=rf"^ArraySequence: (?=.*{library})(?=.*{element_type})"):
        sa.ArraySequence(dtype=element_type, xp=library)


@pytest.mark.parametrize(
    ("device", "element_type"), [("no_float64", "float64"), ("no_x64", "int64"), ("no_x64", "float64")]
)
def test_empty_asks_the_device_what_it_can_hold(device, element_type):
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    for where in (device, xp.Device(device)):
        with pytest.raises(
            TypeError, match=rf"^sequence_empty: (?=.*array_api_strict)(?=.*{device})(?=.*{element_type})"
        ):
            sa.sequence_empty(element_type, xp="array_api_strict", device=where)
    assert sa.sequence_empty("float32", xp="array_api_strict", device=device).device == xp.Device(device)


# What an empty sequence becomes.


@pytest.mark.parametrize("element_type", ["float32", "int32", "bool", "float16", "uint64", "string", "bfloat16"])
def test_the_first_tensor_decides_namespace_and_device(backend, element_type):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = {"string": "U3", "bfloat16": ml_dtypes.bfloat16}.get(element_type, element_type)
    tensor = backend.array(np.zeros((2, 3), dtype))
    empty = sa.sequence_empty(element_type)
    sequence = sa.sequence_insert(empty, tensor)
    assert sequence[0] is tensor
    assert sequence.element_type == element_type
    assert sequence.dtype == tensor.dtype
    assert sequence.namespace is backend.xp
    assert sequence.device == array_api_compat.device(tensor)
    assert (empty.namespace, empty.device, empty.dtype, len(empty)) == (None, None, None, 0)


def test_a_tensor_of_another_type_is_refused_by_an_empty_sequence(backend):
    tensor = backend.array(np.zeros(2, np.int32))
    for empty in (sa.sequence_empty("float32"), [], sa.sequence_empty(xp=backend.xp, device=backend.device)):
        with pytest.raises(TypeError, match=r"^sequence_insert: tensor (?=.*int32)(?=.*float32)"):
            sa.sequence_insert(empty, tensor)
        with pytest.raises(TypeError, match=r"^sequence_insert: tensor "):
            sa.sequence_insert(empty, tensor, 0)


def test_an_empty_sequence_with_a_namespace_takes_no_other(backend):
    stranger = "array_api_strict" if backend.name == "numpy" else "numpy"
    for empty in (sa.sequence_empty(xp=stranger), sa.ArraySequence(xp=stranger)):
        with pytest.raises(TypeError, match=rf"^sequence_insert: tensor (?=.*{stranger})(?=.*{library_of(backend)})"):
            sa.sequence_insert(empty, backend.array(np.zeros(2, np.float32)))
    declared = sa.sequence_empty(xp=backend.xp)
    assert len(sa.sequence_insert(declared, backend.array(np.zeros(2, np.float32)))) == 1


@pytest.mark.parametrize(
    ("library", "here", "there"), [("array_api_strict", "device1", "CPU_DEVICE"), ("torch", "cpu", "meta")]
)
def test_an_empty_sequence_with_a_device_takes_no_other(library, here, there):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    make_device = xp.Device if library == "array_api_strict" else xp.device
    tensor = xp.ones(2, dtype=xp.float32, device=make_device(here))
    for declared in (
        {"device": there},
        {"xp": library, "device": there},
        {"xp": library, "device": make_device(there)},
    ):
        with pytest.raises(ValueError, match=rf"^sequence_insert: tensor (?=.*{here})(?=.*{there})"):
            sa.sequence_insert(sa.sequence_empty(**declared), tensor)
    for declared in ({"device": here}, {"device": make_device(here)}, {"xp": library, "device": here}):
        sequence = sa.sequence_insert(sa.sequence_empty(**declared), tensor)
        assert sequence.device == make_device(here)
        assert sequence[0] is tensor


def test_a_device_named_for_no_library_fits_only_those_that_have_it():
    with pytest.raises(ValueError, match=r"^sequence_insert: .*cuda"):
        sa.sequence_insert(sa.sequence_empty(device="cuda"), np.ones(1, np.float32))


def test_erased_to_empty_it_keeps_type_namespace_and_device(backend):
    array = backend.array(np.zeros((2, 3), np.int32))
    for sequence in ([array], sa.ArraySequence([array]), sa.split_to_sequence(array, 2), sa.sequence_construct(array)):
        empty = sa.sequence_erase(sequence)
        assert (len(empty), empty.element_type, empty.shapes) == (0, "int32", ())
        assert empty.namespace is backend.xp
        assert empty.device == array_api_compat.device(array)
        assert empty.dtype == array.dtype
        assert sa.sequence_insert(empty, array)[0] is array
        with pytest.raises(TypeError, match=r"^sequence_insert: tensor (?=.*float32)(?=.*int32)"):
            sa.sequence_insert(empty, backend.array(np.zeros(1, np.float32)))


def test_an_empty_slice_keeps_type_namespace_and_device(backend):
    array = backend.array(np.zeros((2, 3), np.int32))
    empty = sa.ArraySequence([array])[1:]
    assert (len(empty), empty.element_type) == (0, "int32")
    assert empty.namespace is backend.xp
    assert empty.device == array_api_compat.device(array)


def test_inserting_does_not_promote(backend):
    elements = three(backend)
    with pytest.raises(TypeError, match=r"^sequence_insert: tensor (?=.*int32)(?=.*float32)"):
        sa.sequence_insert(elements, backend.array(np.zeros(1, np.int32)), 1)
    with pytest.raises(TypeError, match=r"^sequence_insert: tensor must be an array"):
        sa.sequence_insert(elements, 1.0)
    with pytest.raises(TypeError, match=r"^sequence_insert: tensor must be an array"):
        sa.sequence_insert(elements, [1.0, 2.0])


def test_inserting_text_widens_the_dtype_and_copies_nothing():
    narrow, wide = np.asarray(["a"]), np.asarray(["abc"])
    sequence = sa.sequence_insert([narrow], wide, 0)
    assert sequence.dtype == np.dtype("U3")
    assert (sequence[0] is wide, sequence[1] is narrow) == (True, True)
    assert sa.sequence_insert(sequence, narrow).dtype == np.dtype("U3")
    assert sa.sequence_at(sequence, 1).tolist() == ["a"]


# Lengths.


@pytest.mark.parametrize("length", [0, 1, 3])
def test_length_is_an_array_of_the_namespace_on_the_device(backend, length):
    sequence = sa.ArraySequence(three(backend))[:length]
    actual = sa.sequence_length(sequence)
    dtype = np.int32 if backend.name == "jax" else np.int64
    assert_arrays_equal(actual, backend.array(np.asarray(length, dtype)))
    assert tuple(actual.shape) == ()
    assert array_api_compat.array_namespace(actual) is backend.xp
    assert array_api_compat.device(actual) == sequence.device


def test_length_of_a_declared_empty_sequence(backend):
    actual = sa.sequence_length(sa.sequence_empty("bool", xp=backend.xp, device=backend.device))
    assert_arrays_equal(actual, backend.array(np.asarray(0, np.int32 if backend.name == "jax" else np.int64)))


def test_length_without_a_namespace_is_numpy():
    for sequence in (sa.sequence_empty("float16"), [], (), sa.sequence_empty(device="cpu")):
        assert_arrays_equal(sa.sequence_length(sequence), np.asarray(0, np.int64))


@pytest.mark.parametrize(
    ("device", "dtype"),
    [("CPU_DEVICE", "int64"), ("device1", "int64"), ("device2", "int64"), ("no_float64", "int64"), ("no_x64", "int32")],
)
def test_length_is_the_widest_integer_of_the_device(device, dtype):
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    array = xp.ones(2, dtype=xp.float32, device=xp.Device(device))
    actual = sa.sequence_length([array, array])
    assert_arrays_equal(actual, xp.asarray(2, dtype=getattr(xp, dtype), device=xp.Device(device)))


def test_length_is_not_the_number_of_items():
    assert int(sa.sequence_length([np.ones((5, 5))])) == 1
    assert int(sa.sequence_length(sa.split_to_sequence(np.ones(1000), 1, copy=None))) == 1000


# Element types.


@pytest.mark.backends("numpy", "array-api-strict", "torch", "jax-x64", "dask", "cupy")
@pytest.mark.parametrize(
    "dtype",
    "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bool complex64 complex128 U3 O T "
    "bfloat16 float8_e4m3fn float8_e5m2".split(),
)
def test_every_element_type_passes_through_every_operator(backend, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.asarray([[1, 0, 1], [0, 1, 1]])
    values = values.astype(str).astype(dtype) if dtype in "UOT" else values.astype(getattr(ml_dtypes, dtype, dtype))
    array, other = backend.array(values), backend.array(values[:1])
    sequence = sa.sequence_construct(array, other, copy=True)
    assert_sequences_equal(sequence, [array, other])
    sequence = sa.sequence_insert(sequence, other, 0)
    assert_sequences_equal(sequence, [other, array, other])
    assert_arrays_equal(sa.sequence_at(sequence, 1), array)
    sequence = sa.sequence_erase(sequence, -1)
    assert_sequences_equal(sequence, [other, array])
    assert int(sa.sequence_length(sequence)) == 2
    assert_sequences_equal(sa.sequence_map(sequence, body=lambda x: x), [other, array])
