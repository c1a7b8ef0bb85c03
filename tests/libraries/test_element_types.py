"""ONNX element types and their dtypes in every array library."""

import numpy as np
import pytest

import seqarray as sa
from seqarray._dtypes import ELEMENT_TYPE_BY_CODE, ONNX_TYPES, onnx_name

STANDARD = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()

#: What each backend cannot hold, of the 15 types of the operators and bfloat16.
LACKING = {
    "numpy": set(),
    "dask": set(),
    "array-api-strict": {"float16", "bfloat16", "string"},
    "torch": {"string"},
    "jax": {"string", "int64", "uint64", "float64", "complex128"},
    "jax-x64": {"string"},
    "cupy": {"string"},
}


def element_type_of(dtype):
    """Return the element type of NumPy arrays of a dtype."""
    return sa.ArraySequence([np.empty(0, dtype)]).element_type


def can_hold(xp, element_type, device):
    """Return whether arrays of a namespace (on one of its devices) can be of an element type."""
    try:
        sa.sequence_empty(element_type, xp=xp, device=device)
    except TypeError:
        return False
    return True


def test_numbers_and_names_are_those_of_onnx():
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    for element_type, known in ONNX_TYPES.items():
        dtype = onnx.helper.tensor_dtype_to_np_dtype(known.code)
        assert element_type == ("string" if dtype.kind == "O" else dtype.name)
        assert ELEMENT_TYPE_BY_CODE[known.code] == element_type
        assert element_type == "string" or known.itemsize == dtype.itemsize
    every_type = {
        text for schema in onnx.defs.get_all_schemas() for c in schema.type_constraints for text in c.allowed_type_strs
    }
    assert {onnx_name(element_type) for element_type in ONNX_TYPES} <= every_type


def test_names_in_type_strings():
    assert onnx_name("float32") == "tensor(float)"
    assert onnx_name("float64") == "tensor(double)"
    assert onnx_name("bfloat16") == "tensor(bfloat16)"
    assert onnx_name("datetime64[s]") == "datetime64[s]"


@pytest.mark.parametrize(
    ("dtype", "element_type"),
    [
        *((np.dtype(name), name) for name in (*STANDARD, "float16")),
        *((np.dtype(f">{code}"), name) for code, name in [("f4", "float32"), ("i8", "int64"), ("c16", "complex128")]),
        (np.dtype("U1"), "string"),
        (np.dtype(">U7"), "string"),
        (np.dtype(object), "string"),
        (np.dtypes.StringDType(), "string"),
        (np.dtypes.StringDType(na_object=None), "string"),
        (np.dtype("S1"), "bytes"),
        (np.dtype("S9"), "bytes"),
        (np.dtype("q"), "int64"),
        (np.dtype("l"), "int64"),
        (np.dtype("M8[s]"), "datetime64[s]"),
        (np.dtype(">M8[s]"), "datetime64[s]"),
        (np.dtype("m8[ns]"), "timedelta64[ns]"),
    ],
    ids=str,
)
def test_element_types_of_numpy_dtypes(dtype, element_type):
    assert element_type_of(dtype) == element_type


def test_other_dtypes_are_told_apart():
    dtypes = [
        "M8[s]",
        "M8[ms]",
        "m8[s]",
        "V4",
        "V8",
        [("x", "f4")],
        [("y", "f4")],
        [("x", "f8")],
        "S1",
        "U1",
        np.longdouble,
    ]
    assert len({element_type_of(np.dtype(dtype)) for dtype in dtypes}) == len(dtypes)
    assert element_type_of(np.dtype([("x", ">f4")])) == element_type_of(np.dtype([("x", "<f4")]))


@pytest.mark.parametrize("element_type", [*STANDARD, "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_element_types_of_every_library(backend, element_type):
    if not backend.holds(element_type):
        with pytest.raises(TypeError, match=rf"^sequence_empty: .*cannot hold {element_type}"):
            sa.sequence_empty(element_type, xp=backend.xp, device=backend.device)
        return
    dtype = sa.sequence_empty(element_type, xp=backend.xp, device=backend.device).dtype
    array = backend.xp.asarray(0, dtype=dtype, device=backend.device)
    assert array.dtype == dtype
    assert sa.sequence_empty(dtype).element_type == element_type
    assert sa.ArraySequence([array]).element_type == element_type
    assert sa.ArraySequence([array]).nbytes == ONNX_TYPES[element_type].itemsize


def test_what_each_library_can_hold(backend):
    every_type = [*STANDARD, "float16", "bfloat16", "string"]
    lacking = {element_type for element_type in every_type if not can_hold(backend.xp, element_type, backend.device)}
    assert lacking == LACKING[backend.name]


def test_what_each_device_can_hold():
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    for device in xp.__array_namespace_info__().devices():
        held = {name for name in STANDARD if can_hold(xp, name, device)}
        assert held == set(xp.__array_namespace_info__().dtypes(device=device))
    for device, widest in (("device1", xp.int64), ("no_x64", xp.int32)):
        sequence = sa.ArraySequence([xp.ones(2, dtype=xp.float32, device=xp.Device(device))])
        assert sa.sequence_length(sequence).dtype == widest


def test_text_is_held_as_objects_until_there_is_some(backend):
    if backend.name in ("numpy", "dask"):
        assert sa.sequence_empty("string", xp=backend.xp).dtype == np.dtype(object)
    else:
        with pytest.raises(TypeError, match=r"^sequence_empty: .*cannot hold string; strings live on the CPU"):
            sa.sequence_empty("string", xp=backend.xp, device=backend.device)


def test_types_that_there_are_not_are_held_by_nothing(backend):
    for element_type in ("nonsense", "opaque", "float7"):
        assert not can_hold(backend.xp, element_type, backend.device)


def test_other_types_than_those_of_onnx_are_refused_without_a_hint():
    with pytest.raises(TypeError, match=r"^sequence_empty: array_api_strict cannot hold datetime64\[s\]$"):
        sa.sequence_empty("datetime64[s]", xp="array_api_strict")
    assert sa.sequence_empty("datetime64[s]", xp="numpy").dtype == np.dtype("M8[s]")


@pytest.mark.parametrize(
    "dtype", ["float32", np.float32, np.dtype("f4"), np.dtype(">f4"), "f4", "single", "<f4"], ids=repr
)
def test_ways_to_name_a_type(dtype):
    assert sa.sequence_empty(dtype).element_type == "float32"


@pytest.mark.parametrize("element_type", ONNX_TYPES)
def test_every_onnx_type_goes_by_its_name(element_type):
    assert sa.sequence_empty(element_type).element_type == element_type


@pytest.mark.parametrize(
    "dtype", ["nonsense", "", "tensor(float)", None, True, 1, 2.5, [1], (), {}, b"f4", len], ids=repr
)
def test_what_names_no_type(dtype):
    with pytest.raises(TypeError, match=r"^sequence_empty: dtype is "):
        sa.sequence_empty(dtype)


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        ("f4", "f4", "f4"),
        (">f4", "f4", "f4"),
        (">f4", ">f4", "f4"),
        ("U1", "U5", "U5"),
        (">U5", "U1", "U5"),
        ("U5", "O", "O"),
        ("O", "U5", "O"),
        ("U5", "T", "O"),
        ("T", "O", "O"),
        ("T", "T", "T"),
        ("S1", "S3", "S3"),
        (">M8[s]", "M8[s]", "M8[s]"),
        ([("x", ">f4")], [("x", "<f4")], [("x", "<f4")]),
    ],
    ids=str,
)
def test_common_dtypes(first, second, common):
    actual = sa.ArraySequence([np.empty(0, first), np.empty(0, second)]).dtype
    assert actual == np.dtype(common)
    assert actual.isnative


def test_native_dtypes(backend):
    array = backend.array(np.ones(1, np.float32))
    assert sa.ArraySequence([array]).dtype == array.dtype
    assert sa.ArraySequence([np.ones(1, ">i2")]).dtype.str == np.dtype("i2").str
