"""ONNX element types, and the dtypes that represent them."""

from __future__ import annotations

from cmath import isfinite
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

# Now, since no call imports anything: a child process that is forked meanwhile would wait for the import for ever.
_ml_dtypes: ModuleType | None = None
with suppress(ImportError):
    import ml_dtypes as _ml_dtypes


class OnnxType(NamedTuple):
    """An element type of ONNX: its number in `TensorProto.DataType`, its name in type strings, its size in bytes."""

    code: int
    onnx_name: str
    itemsize: int


ONNX_TYPES = {
    "float32": OnnxType(1, "float", 4),
    "uint8": OnnxType(2, "uint8", 1),
    "int8": OnnxType(3, "int8", 1),
    "uint16": OnnxType(4, "uint16", 2),
    "int16": OnnxType(5, "int16", 2),
    "int32": OnnxType(6, "int32", 4),
    "int64": OnnxType(7, "int64", 8),
    "string": OnnxType(8, "string", 8),
    "bool": OnnxType(9, "bool", 1),
    "float16": OnnxType(10, "float16", 2),
    "float64": OnnxType(11, "double", 8),
    "uint32": OnnxType(12, "uint32", 4),
    "uint64": OnnxType(13, "uint64", 8),
    "complex64": OnnxType(14, "complex64", 8),
    "complex128": OnnxType(15, "complex128", 16),
    "bfloat16": OnnxType(16, "bfloat16", 2),
    "float8_e4m3fn": OnnxType(17, "float8e4m3fn", 1),
    "float8_e4m3fnuz": OnnxType(18, "float8e4m3fnuz", 1),
    "float8_e5m2": OnnxType(19, "float8e5m2", 1),
    "float8_e5m2fnuz": OnnxType(20, "float8e5m2fnuz", 1),
    "uint4": OnnxType(21, "uint4", 1),
    "int4": OnnxType(22, "int4", 1),
    "float4_e2m1fn": OnnxType(23, "float4e2m1", 1),
    "float8_e8m0fnu": OnnxType(24, "float8e8m0", 1),
    "uint2": OnnxType(25, "uint2", 1),
    "int2": OnnxType(26, "int2", 1),
}

ELEMENT_TYPE_BY_CODE = {onnx_type.code: name for name, onnx_type in ONNX_TYPES.items()}

STANDARD_TYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
)


#: The element types of NumPy's own numbers.
_number_types = {np.dtype(name): name for name in (*STANDARD_TYPES, "float16")}


def onnx_name(element_type: str) -> str:
    """Return the element type as ONNX writes it, ``tensor(float)``; other types keep their own name."""
    onnx_type = ONNX_TYPES.get(element_type)
    return f"tensor({onnx_type.onnx_name})" if onnx_type else element_type


def element_type_of(dtype: Any) -> str:
    """Return the element type of a dtype: two arrays may share a sequence when theirs are equal.

    Text of any width, `StringDType` and object arrays are all "string".  Byte order does not matter.  Types that ONNX
    does not have keep the dtype's own name, except that the width of a bytes dtype does not count.
    """
    if not isinstance(dtype, np.dtype):
        return str(dtype).rpartition(".")[2]
    found = _number_types.get(dtype)
    if found is not None:
        return found
    if dtype.kind in "UTO":
        return "string"
    if dtype.kind == "S":
        return "bytes"
    return dtype.name if dtype.name in ONNX_TYPES else str(dtype.newbyteorder("="))


def as_element_type(dtype: Any, *, operator: str) -> str:
    """Return the element type for its ONNX name, a string that NumPy accepts as a dtype, or a dtype."""
    if isinstance(dtype, str) and dtype in ONNX_TYPES:
        return dtype
    if isinstance(dtype, np.dtype):
        return element_type_of(dtype)
    if isinstance(dtype, str) and dtype == "float":
        raise TypeError(
            f"{operator}: dtype is 'float', which is float32 in ONNX and float64 in NumPy; name one of these"
        )
    if isinstance(dtype, (str, type)):
        with suppress(TypeError):
            return element_type_of(np.dtype(dtype))
    # The dtypes of torch and array-api-strict are objects of their own, named like the element types.
    elif (name := element_type_of(dtype)) in ONNX_TYPES:
        return name
    known = ", ".join(ONNX_TYPES)
    raise TypeError(f"{operator}: dtype is {dtype!r}; expected a dtype, or one of {known}")


def native(dtype: Any) -> Any:
    """Return the same dtype in the byte order of the machine, which is that of all results."""
    return dtype.newbyteorder("=") if isinstance(dtype, np.dtype) and not dtype.isnative else dtype


def common_dtype(a: Any, b: Any) -> Any:
    """Return the dtype that holds both without changing a value, for dtypes of one element type."""
    a, b = native(a), native(b)
    if a == b:
        return a
    if a.kind == b.kind and a.kind in "US":
        return np.promote_types(a, b)
    return np.dtype(object)


def extension_dtype(element_type: str) -> Any:
    """Return NumPy's dtype for a type of the ml_dtypes package; None without that package."""
    try:
        return np.dtype(getattr(_ml_dtypes, element_type))
    except AttributeError:
        return None


def itemsize_of(dtype: Any) -> int:
    """Return the bytes of an item, also for dtypes without `itemsize`."""
    size = getattr(dtype, "itemsize", None)
    return int(size) if size is not None else ONNX_TYPES[element_type_of(dtype)].itemsize


def fill_of(value: Any, element_type: str, dtype: Any, *, operator: str) -> np.ndarray[Any, Any]:
    """Return a value as a 0-d NumPy array of an element type; raise an error if that cannot hold it.

    0 is the zero of every type: of text, the empty string.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if element_type not in ONNX_TYPES:
        return np.zeros((), dtype) if value == 0 else np.asarray(value, dtype=dtype)
    if element_type == "string":
        fits = isinstance(value, str) or (isinstance(value, int) and value == 0)
    elif element_type == "bool":
        fits = isinstance(value, int) and value in (0, 1)
    elif "int" in element_type:
        fits = isinstance(value, int)
    else:
        fits = isinstance(value, (int, float)) or (isinstance(value, complex) and element_type.startswith("complex"))
    if not fits:
        raise TypeError(f"{operator}: fill_value is {value!r} ({type(value).__name__}); {element_type} cannot hold it")
    if element_type == "string":
        return np.asarray(value or "", dtype=object)
    known = element_type in STANDARD_TYPES or element_type == "float16"
    # Without ml_dtypes, other libraries have the types that it adds.
    numpy_dtype = element_type if known else extension_dtype(element_type) or "float64"
    with np.errstate(over="ignore"), suppress(OverflowError):
        fill = np.asarray(value).astype(numpy_dtype)
        same = int(fill) == value if "int" in element_type else np.isfinite(fill) == isfinite(value)
        if same and np.isnan(fill) == (value != value):  # noqa: PLR0124  (true of nan alone)
            return fill
    raise ValueError(f"{operator}: fill_value is {value!r}, which is out of range for {element_type}")
