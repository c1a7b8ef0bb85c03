"""Conversion of ONNX tensors to NumPy arrays and back."""

from __future__ import annotations

from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
import onnx

from seqarray._dtypes import ELEMENT_TYPE_BY_CODE, ONNX_TYPES, element_type_of, native
from seqarray._libraries import NUMPY

#: Element type to the field that holds its values when they are not in raw_data, and the dtype of that field.
_FIELDS = {
    "float32": ("float_data", np.float32),
    "complex64": ("float_data", np.float32),
    "float64": ("double_data", np.float64),
    "complex128": ("double_data", np.float64),
    "int64": ("int64_data", np.int64),
    "uint32": ("uint64_data", np.uint64),
    "uint64": ("uint64_data", np.uint64),
}
#: Element types of which several values are packed in one byte, and the bits of a value.
_PACKED_BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}

#: The fields of a tensor that hold values, of which it has one.
_VALUE_FIELDS = ("int32_data", "int64_data", "uint64_data", "float_data", "double_data", "string_data")


class DataFolder(NamedTuple):
    """The folders in which the external data of a model may lie.

    Attributes
    ----------
    given : Path
        The folder of the path that was given.
    resolved : Path
        The folder of the file to which that path leads if it is a symbolic link.
    """

    given: Path
    resolved: Path


def element_type_by_code(code: int, label: str) -> str:
    """Return the element type of a `TensorProto.DataType`."""
    if code not in ELEMENT_TYPE_BY_CODE:
        raise ValueError(f"{label} has element type {code}, which is not supported")
    return ELEMENT_TYPE_BY_CODE[code]


def nbytes_of(tensor: onnx.TensorProto) -> int:
    """Return the bytes of the array of a tensor, with its text; 0 for an unknown type, for which `array_of` raises."""
    element_type = ELEMENT_TYPE_BY_CODE.get(tensor.data_type)
    if element_type is None:
        return 0
    return ONNX_TYPES[element_type].itemsize * int(prod(tensor.dims)) + sum(map(len, tensor.string_data))


def array_of(tensor: onnx.TensorProto, folder: DataFolder | None = None, label: str = "") -> np.ndarray[Any, Any]:
    """Return the values of a tensor as a new array.

    Parameters
    ----------
    tensor : onnx.TensorProto
        The tensor; its data may be in another file.
    folder : DataFolder, optional
        The folder of the model, which must contain such a file.
    label : str, optional
        What error messages call the tensor.  Default: its name.

    Raises
    ------
    ValueError
        If the number of values does not match the shape, or the file with the data cannot be used.
    """
    label = label or f"tensor {tensor.name!r}"
    element_type = element_type_by_code(tensor.data_type, label)
    shape = tuple(tensor.dims)
    if any(length < 0 for length in shape):
        raise ValueError(f"{label} has shape {shape}; a length must not be negative")
    if tensor.HasField("segment"):
        raise ValueError(f"{label} is a segment of a tensor, which is not supported")
    external = is_external(tensor)
    if element_type == "string":
        if external:
            raise ValueError(f"{label} holds strings in another file, which is not possible")
        return _strings(tensor, shape, label)
    dtype = NUMPY.dtype_for(element_type, operator=label)
    count = prod(shape)
    packed = element_type in _PACKED_BITS
    needed = _nbytes_stored(count, element_type)
    held = [name for name in _VALUE_FIELDS if len(getattr(tensor, name))]
    if len(held) + tensor.HasField("raw_data") > 1:
        raise ValueError(f"{label} holds values more than once, in {' and '.join([*held, 'raw_data'][:2])}")
    if external:
        stored = np.frombuffer(_external_bytes(tensor, folder, needed, label), dtype=np.uint8)
    elif tensor.HasField("raw_data"):
        stored = np.frombuffer(tensor.raw_data, dtype=np.uint8)
    else:
        field, entry = _FIELDS.get(element_type, ("int32_data", np.int32))
        entries = np.asarray(getattr(tensor, field), dtype=entry)
        stored = _narrow(entries, element_type, dtype, packed).view(np.uint8)
    if stored.size != needed:
        raise ValueError(f"{label} has shape {shape}, which takes {needed} bytes of data, but holds {stored.size}")
    if packed:
        return _unpack(stored, count, element_type, dtype).reshape(shape)
    # ONNX files are little-endian.
    array: np.ndarray[Any, Any] = stored.view(dtype.newbyteorder("<")).astype(native(dtype)).reshape(shape)
    return array


def _narrow(entries: Any, element_type: str, dtype: Any, packed: bool) -> Any:
    """Convert the entries of a field, which may be wider than the type, to the bytes that raw_data would hold."""
    if element_type in _FIELDS and element_type != "uint32":
        return entries
    if packed:
        return entries.astype(np.uint8)
    # int32_data holds the bits of types that are not integers.
    bits = dtype if dtype.kind in "iub" else np.dtype(f"u{dtype.itemsize}")
    return entries.astype(bits)


def _strings(tensor: onnx.TensorProto, shape: tuple[int, ...], label: str) -> np.ndarray[Any, Any]:
    """Return the values of a tensor of strings as an array of str objects."""
    if len(tensor.string_data) != prod(shape):
        raise ValueError(f"{label} has shape {shape}, but holds {len(tensor.string_data)} strings")
    array = np.empty(len(tensor.string_data), dtype=object)
    try:
        array[:] = [text.decode("utf-8") for text in tensor.string_data]
    except UnicodeDecodeError as error:
        raise ValueError(f"{label} holds a string that is not UTF-8: {error}") from None
    return array.reshape(shape)


def _unpack(stored: Any, count: int, element_type: str, dtype: Any) -> np.ndarray[Any, Any]:
    """Return values of 2 or 4 bits, of which each byte holds several, the first in the lowest bits."""
    bits = _PACKED_BITS[element_type]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = ((stored[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[:count]
    if element_type.startswith("int"):
        sign = np.uint8(1 << (bits - 1))
        parts = (parts ^ sign).astype(np.int8) - sign.astype(np.int8)
    values: np.ndarray[Any, Any] = parts.view(dtype) if element_type == "float4_e2m1fn" else parts.astype(dtype)
    return values


def _pack(array: np.ndarray[Any, Any], element_type: str) -> np.ndarray[Any, Any]:
    """Return the bytes of values of 2 or 4 bits, as `_unpack` reads them."""
    bits, flat = _PACKED_BITS[element_type], array.reshape(-1)
    parts = flat.view(np.uint8) if element_type == "float4_e2m1fn" else flat.astype(np.int8).view(np.uint8)
    parts = parts & np.uint8((1 << bits) - 1)
    each = 8 // bits
    rows = np.append(parts, np.zeros(-parts.size % each, dtype=np.uint8)).reshape(-1, each)
    packed: np.ndarray[Any, Any] = np.bitwise_or.reduce(rows << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    return packed


def is_external(tensor: onnx.TensorProto) -> bool:
    """Return whether the data of a tensor is in another file."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def check_external(tensor: onnx.TensorProto, folder: DataFolder | None) -> None:
    """Raise a ValueError if the data of a tensor is not all in a file below the folder of the model."""
    label = f"tensor {tensor.name!r}"
    _external_part(tensor, folder, _stored_nbytes(tensor, label), label)


def embed_external(tensor: onnx.TensorProto, folder: DataFolder | None) -> None:
    """Put the data of a tensor that is in another file into the tensor itself."""
    label = f"tensor {tensor.name!r}"
    content = _external_bytes(tensor, folder, _stored_nbytes(tensor, label), label)
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")
    tensor.raw_data = content


def _stored_nbytes(tensor: onnx.TensorProto, label: str) -> int:
    """Return the bytes that the data of a tensor takes in another file."""
    element_type = element_type_by_code(tensor.data_type, label)
    if element_type == "string":
        raise ValueError(f"{label} holds strings in another file, which is not possible")
    if any(length < 0 for length in tensor.dims):
        raise ValueError(f"{label} has shape {tuple(tensor.dims)}; a length must not be negative")
    return _nbytes_stored(int(prod(tensor.dims)), element_type)


def _nbytes_stored(count: int, element_type: str) -> int:
    """Return the bytes that a number of values takes in raw_data or in another file."""
    if element_type in _PACKED_BITS:
        return -(-count * _PACKED_BITS[element_type] // 8)
    return count * ONNX_TYPES[element_type].itemsize


def _external_part(tensor: onnx.TensorProto, folder: DataFolder | None, needed: int, label: str) -> tuple[Path, int]:
    """Return the file that holds the data of a tensor, which must be below the folder of the model, and the offset.

    If the path of the model is a symbolic link, as in the caches of model hubs, there are two folders: that of the link
    and that of the file.  The data may be linked from either, but must lie in one of them.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ValueError(
            f"{label} lies in the file {location!r}, which is looked for only beside a model that is given by its path"
        )
    parts = PurePosixPath(location).parts + PureWindowsPath(location).parts
    if not location or ".." in parts or PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor:
        raise ValueError(f"{label} lies in the file {location!r}, which is not below the folder of the model")
    try:
        found = folder.given / location
        path = (found if found.exists() else folder.resolved / location).resolve(strict=True)
        inside = path.is_file() and any(path.is_relative_to(allowed.resolve()) for allowed in folder)
        size = path.stat().st_size
        offset, length = (int(entries.get(key, default)) for key, default in (("offset", 0), ("length", needed)))
    except (OSError, ValueError) as error:
        raise ValueError(f"{label} lies in the file {location!r}, which cannot be read: {error}") from error
    if not inside:
        raise ValueError(f"{label} lies in {location!r}, which is not a file below the folder of the model")
    if offset < 0 or length != needed or offset + length > size:
        raise ValueError(
            f"{label} takes {needed} bytes, but is said to be {length} bytes at {offset} of {location!r}, "
            f"which has {size}"
        )
    return path, offset


def _external_bytes(tensor: onnx.TensorProto, folder: DataFolder | None, needed: int, label: str) -> bytes:
    """Read the bytes of a tensor from another file, which must be below the folder of the model."""
    path, offset = _external_part(tensor, folder, needed, label)
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(needed)
    except OSError as error:
        raise ValueError(f"{label} lies in the file {str(path)!r}, which cannot be read: {error}") from error


def dense_nbytes_of(sparse: onnx.SparseTensorProto) -> int:
    """Return the bytes of a sparse tensor as a dense array."""
    return nbytes_of(onnx.TensorProto(data_type=sparse.values.data_type, dims=sparse.dims))


def dense_array_of(sparse: onnx.SparseTensorProto, folder: DataFolder | None = None) -> np.ndarray[Any, Any]:
    """Return a sparse tensor as a dense array."""
    values, indices = array_of(sparse.values, folder), array_of(sparse.indices, folder)
    shape = tuple(sparse.dims)
    if values.ndim != 1 or indices.dtype != np.int64 or any(length < 0 for length in shape):
        raise ValueError(f"sparse tensor {sparse.values.name!r} needs 1-D values, int64 indices and a shape")
    dense = np.zeros(prod(shape), dtype=values.dtype)
    try:
        if indices.ndim == 2:
            indices = np.ravel_multi_index(tuple(indices.T), shape) if len(values) else indices[:, 0]
        dense[indices] = values
    except (ValueError, IndexError) as error:
        raise ValueError(f"sparse tensor {sparse.values.name!r} has indices outside of its shape {shape}") from error
    return dense.reshape(shape)


def tensor_of(array: np.ndarray[Any, Any], name: str = "") -> onnx.TensorProto:
    """Return a NumPy array as a tensor."""
    element_type = element_type_of(array.dtype)
    tensor = onnx.TensorProto(name=name, data_type=ONNX_TYPES[element_type].code, dims=array.shape)
    if element_type == "string":
        tensor.string_data.extend(str(text).encode("utf-8") for text in array.flat)
    elif element_type in _PACKED_BITS:
        tensor.raw_data = _pack(array, element_type).tobytes()
    else:
        tensor.raw_data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return tensor
