"""ONNX element types, their dtypes in each array library, and what the elements of one sequence have in common."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from seqarray._libraries import (
    Array,
    Device,
    as_device,
    device_of,
    library_of,
    namespace_of,
    refuse_sparse,
    same_device,
)


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
}

ELEMENT_TYPE_BY_CODE = {onnx_type.code: name for name, onnx_type in ONNX_TYPES.items()}

_STANDARD_TYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
)

_element_type_by_dtype: dict[np.dtype[Any], str] = {}


def onnx_name(element_type: str) -> str:
    """The element type as ONNX writes it, ``tensor(float)``; types that ONNX does not have keep their own name."""
    onnx_type = ONNX_TYPES.get(element_type)
    return f"tensor({onnx_type.onnx_name})" if onnx_type else element_type


def element_type_of(dtype: Any) -> str:
    """The element type of a dtype: two arrays may share a sequence when theirs are equal.

    Text of any width, `StringDType` and object arrays are all "string".  Byte order plays no part.  What ONNX has no
    type for keeps the dtype's own name, except that the width of a bytes dtype does not count.
    """
    if not isinstance(dtype, np.dtype):
        return str(dtype).rpartition(".")[2]
    try:
        return _element_type_by_dtype[dtype]
    except KeyError:
        pass
    if dtype.kind in "UTO":
        name = "string"
    elif dtype.kind == "S":
        name = "bytes"
    elif dtype.name in ONNX_TYPES:
        name = dtype.name
    else:
        name = str(dtype.newbyteorder("="))
    _element_type_by_dtype[dtype] = name
    return name


def as_element_type(dtype: Any, *, operator: str) -> str:
    """The element type that a user names by its ONNX name, by a string that NumPy knows, or by a dtype."""
    if isinstance(dtype, str) and dtype in ONNX_TYPES:
        return dtype
    if isinstance(dtype, np.dtype):
        return element_type_of(dtype)
    if dtype == "float":
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
    """The dtype of results: the same in the byte order of this machine."""
    return dtype.newbyteorder("=") if isinstance(dtype, np.dtype) and not dtype.isnative else dtype


def common_dtype(a: Any, b: Any) -> Any:
    """The dtype that holds both without changing a value, for dtypes of one element type."""
    a, b = native(a), native(b)
    if a == b:
        return a
    if a.kind == b.kind and a.kind in "US":
        return np.promote_types(a, b)
    return np.dtype(object)


def can_hold(namespace: Any, element_type: str, device: Device = None) -> bool:
    """Whether arrays of a namespace (on one of its devices) can be of an element type."""
    library = library_of(namespace)
    if element_type == "string":
        return library in ("numpy", "dask")
    if element_type in _STANDARD_TYPES:
        if element_type in namespace.__array_namespace_info__().dtypes(device=device):
            return True
        # torch does not list these, since it cannot compute much with them; it holds, joins and splits them.
        return library == "torch" and element_type in ("uint16", "uint32", "uint64")
    if library in ("numpy", "dask") or (library == "cupy" and element_type == "bfloat16"):
        return element_type == "float16" or _extension_dtype(element_type) is not None
    return hasattr(namespace, element_type)


def dtype_for(namespace: Any, element_type: str, device: Device = None, *, operator: str) -> Any:
    """The dtype of an element type in a namespace; a TypeError that names both where there is none."""
    if not can_hold(namespace, element_type, device):
        where = library_of(namespace) + (f" on {device}" if device is not None else "")
        hint = ""
        if element_type == "string":
            hint = "; strings live on the CPU, in NumPy arrays"
        elif library_of(namespace) == "jax" and element_type in _STANDARD_TYPES:
            hint = "; set jax_enable_x64"
        elif element_type in ONNX_TYPES and library_of(namespace) in ("numpy", "dask"):
            hint = "; install ml_dtypes"
        raise TypeError(f"{operator}: {where} cannot hold {element_type}{hint}")
    if element_type == "string":
        return np.dtype(object)
    if element_type == "float16" and library_of(namespace) == "dask":
        return np.dtype(np.float16)
    if hasattr(namespace, element_type):
        dtype = getattr(namespace, element_type)
        return np.dtype(dtype) if isinstance(dtype, type) else dtype
    return _extension_dtype(element_type)


def _extension_dtype(element_type: str) -> Any:
    """NumPy's dtype for a type that the ml_dtypes package brings, or None without that package."""
    try:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), element_type))
    except (ImportError, AttributeError):
        return None


def widest_integer(namespace: Any, device: Device) -> Any:
    """int64, or int32 where the namespace or the device has nothing wider."""
    return namespace.int64 if can_hold(namespace, "int64", device) else namespace.int32


def itemsize_of(dtype: Any) -> int:
    """Bytes per item, also for dtypes that do not say it themselves."""
    size = getattr(dtype, "itemsize", None)
    return int(size) if size is not None else ONNX_TYPES[element_type_of(dtype)].itemsize


class Kind:
    """What every element of one sequence shares.

    Attributes
    ----------
    element_type : str
        The ONNX element type: the truth about equality of types.
    namespace : module or None
        The array API namespace; None while a sequence is empty and nobody has named one.
    library : str
        Short name of the namespace's library, "" without a namespace.
    dtype : dtype or None
        The common dtype, which is also the dtype of results.
    device : device or None
        Where the elements live; None while unknown.
    array_type : type or None
        `numpy.ndarray` if every element is exactly one: another is known to agree in library and device.
    exact : bool
        Whether every element has exactly `dtype`, not just the same element type.
    """

    __slots__ = ("array_type", "device", "dtype", "element_type", "engine", "exact", "library", "namespace")

    def __init__(
        self,
        element_type: str,
        *,
        namespace: Any = None,
        dtype: Any = None,
        device: Device = None,
        array_type: type | None = None,
        exact: bool = True,
    ) -> None:
        self.element_type = element_type
        self.namespace = namespace
        self.library = "" if namespace is None else library_of(namespace)
        self.dtype = dtype
        self.device = device
        self.array_type = array_type
        self.exact = exact
        #: Where `seqarray._engines` keeps what it has chosen for this kind.
        self.engine: Any = None


#: The kind of a sequence that was rebuilt around something other than arrays, as pytree transformations do.
OPAQUE = Kind("opaque")

_numpy_kinds: dict[np.dtype[Any], Kind] = {}


def as_array(value: Any, *, operator: str, label: str) -> Array:
    """`value` if it is an array, a NumPy scalar as a 0-d array; a TypeError for everything else."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    try:
        namespace = namespace_of(value)
        refuse_sparse(value, namespace)
    except TypeError as error:
        raise TypeError(f"{operator}: {label} must be an array: {error}") from None
    return value


def kind_of(array: Array) -> Kind:
    """The kind of a sequence that holds just this array."""
    if type(array) is np.ndarray:
        try:
            return _numpy_kinds[array.dtype]
        except KeyError:
            kind = _numpy_kinds[array.dtype] = _new_kind(array)
            return kind
    return _new_kind(array)


def _new_kind(array: Array) -> Kind:
    dtype = native(array.dtype)
    namespace = namespace_of(array)
    return Kind(
        element_type_of(array.dtype),
        namespace=namespace,
        dtype=dtype,
        device=device_of(array),
        array_type=np.ndarray if type(array) is np.ndarray else None,
        exact=bool(dtype == array.dtype),
    )


def admit(kind: Kind, array: Array, *, operator: str, label: str) -> Kind:
    """The kind of a sequence of `kind` once `array` has joined it.

    Raises
    ------
    TypeError
        When the array is of another namespace or another element type.
    ValueError
        When the array is on another device.
    """
    namespace = namespace_of(array)
    if kind.namespace is not None and namespace is not kind.namespace:
        raise TypeError(
            f"{operator}: {label} is an array of {library_of(namespace)}; "
            f"the sequence is of {kind.library}, and nothing is moved between array libraries"
        )
    element_type = element_type_of(array.dtype)
    if element_type != kind.element_type:
        hint = (
            "" if kind.namespace is not None else f"; sequence_empty({element_type!r}) makes an empty one of this type"
        )
        raise TypeError(
            f"{operator}: {label} has element type {element_type}; the sequence holds {kind.element_type}, "
            f"and all elements of a sequence have one type{hint}"
        )
    device = device_of(array)
    wanted = (
        kind.device
        if kind.namespace is not None
        else as_device(namespace, kind.device, operator=f"{operator}: {label}")
    )
    if not same_device(wanted, device):
        raise ValueError(
            f"{operator}: {label} is on device {device}; the sequence is on {wanted}, "
            "and nothing is moved between devices"
        )
    if kind.namespace is None or kind.dtype is None:
        return kind_of(array)
    array_type = kind.array_type if type(array) is kind.array_type else None
    exact = kind.exact and bool(array.dtype == kind.dtype)
    dtype = kind.dtype if exact else common_dtype(kind.dtype, array.dtype)
    # An empty sequence of a named library may not know its device yet.
    device = device if kind.device is None else kind.device
    if (array_type, exact, device) == (kind.array_type, kind.exact, kind.device) and dtype == kind.dtype:
        return kind
    return _changed(kind, dtype=dtype, exact=exact, array_type=array_type, device=device)


def settled(kind: Kind) -> Kind:
    """The kind of copies: every one of them has exactly the common dtype, and is no instance of a subclass."""
    array_type = np.ndarray if kind.library == "numpy" else None
    if kind.exact and kind.array_type is array_type:
        return kind
    return _changed(kind, dtype=kind.dtype, exact=True, array_type=array_type, device=kind.device)


def _changed(kind: Kind, *, dtype: Any, exact: bool, array_type: type | None, device: Device) -> Kind:
    return Kind(
        kind.element_type,
        namespace=kind.namespace,
        dtype=dtype,
        device=device,
        array_type=array_type,
        exact=exact,
    )
