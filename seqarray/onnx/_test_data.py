"""Inputs and outputs in files: in the layout of onnx's test data, or .npz."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
import onnx

from seqarray._dtypes import ONNX_TYPES
from seqarray.onnx._load.tensor_protos import array_of, tensor_of
from seqarray.onnx._load.type_protos import ValueType


class Declared(Protocol):
    """An input or an output of a program."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def type(self) -> ValueType:
        """Its declared type."""


def find_data_sets(model: Path) -> list[Path]:
    """Return the folders test_data_set_0, test_data_set_1, ... next to a model."""
    prefix = "test_data_set_"
    found = [path for path in model.parent.glob(f"{prefix}*") if path.name.removeprefix(prefix).isdigit()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(prefix)))


def read_folder(folder: Path, kind: str, declared: Sequence[Declared]) -> list[Any] | None:
    """Read input_0.pb, input_1.pb, ... (or output_0.pb, ...) of a folder; return None if there are none."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder")
    count = len(list(folder.glob(f"{kind}_*.pb")))
    if count > len(declared):
        raise ValueError(f"{folder} has {count} {kind}s; the model has {len(declared)}")
    return [read_value(folder / f"{kind}_{i}.pb", declared[i].type) for i in range(count)] if count else None


def read_value(path: Path, declared: ValueType) -> Any:
    """Read a .pb file of a declared type: a NumPy array, a list of them, or None for an empty optional."""
    try:
        content = path.read_bytes()
        if not declared.optional:
            return _read_sequence(content) if declared.sequence else array_of(_parse(onnx.TensorProto, content))
        optional = _parse(onnx.OptionalProto, content)
        if optional.HasField("sequence_value"):
            return [array_of(tensor) for tensor in optional.sequence_value.tensor_values]
        return array_of(optional.tensor_value) if optional.HasField("tensor_value") else None
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as {declared}: {error}") from error


def _read_sequence(content: bytes) -> list[Any]:
    """Return the arrays of a `SequenceProto`."""
    return [array_of(tensor) for tensor in _parse(onnx.SequenceProto, content).tensor_values]


def _parse(kind: Any, content: bytes) -> Any:
    """Parse bytes as a protobuf message of some class."""
    try:
        return kind.FromString(content)
    except Exception as error:  # protobuf's DecodeError, which has moved between its versions
        raise ValueError(str(error)) from error


def write_value(path: Path, name: str, value: Any, declared: ValueType) -> None:
    """Write a NumPy array, a list of them, or None to a .pb file."""
    proto: Any
    sequence = None
    if isinstance(value, list):
        tensors = [tensor_of(array) for array in value]
        sequence = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.TENSOR, tensor_values=tensors)
    if not declared.optional:
        proto = tensor_of(value, name) if sequence is None else sequence
    elif value is None:
        proto = onnx.OptionalProto(name=name, elem_type=onnx.OptionalProto.UNDEFINED)
    elif sequence is not None:
        proto = onnx.OptionalProto(name=name, elem_type=onnx.OptionalProto.SEQUENCE, sequence_value=sequence)
    else:
        proto = onnx.OptionalProto(name=name, elem_type=onnx.OptionalProto.TENSOR, tensor_value=tensor_of(value, name))
    path.write_bytes(proto.SerializeToString())


def read_npz(path: Path, declared: Sequence[Declared]) -> dict[str, Any]:
    """Read values by name from an .npz file: tensors as NAME, elements of sequences as NAME.0, NAME.1, ...

    The length of a sequence, as NAME.length, is needed where there are no elements, or where the name of another value
    is that of an element.
    """
    arrays = _read_entries(path)
    names = {value.name for value in declared}
    values: dict[str, Any] = {value.name: arrays.pop(value.name) for value in declared if value.name in arrays}
    taken = set(values)
    for value in declared:
        if value.type.sequence and value.name not in values:
            length = arrays.pop(f"{value.name}.length", None)
            elements: list[Any] = []
            while (key := f"{value.name}.{len(elements)}") in arrays:
                elements.append(arrays.pop(key))
            if key in taken and length is None and elements:
                raise ValueError(
                    f"{path} has {key!r}, which may be an element of {value.name!r} or an input; give "
                    f"'{value.name}.length'"
                )
            later = [rest for rest in arrays if _is_element(rest, value.name) and rest not in names]
            if later:
                raise ValueError(f"{path} has {later[0]!r}, but no '{value.name}.{len(elements)}'")
            if length is not None and (
                length.size != 1 or length.dtype.kind not in "iu" or int(length.item()) != len(elements)
            ):
                raise ValueError(
                    f"{path} has {len(elements)} elements of {value.name!r}, but {value.name}.length {length}"
                )
            if elements or length is not None:
                values[value.name] = elements
        if value.type.optional:
            values.setdefault(value.name, None)
    if arrays:
        raise ValueError(f"{path} has a value {next(iter(arrays))!r}, which the model does not take")
    return values


def _is_element(key: str, name: str) -> bool:
    """Return whether a key is that of an element of a sequence."""
    return key.startswith(f"{name}.") and key[len(name) + 1 :].isdecimal()


def _read_entries(path: Path) -> dict[str, Any]:
    """Return the arrays of an .npz file by name; `np.load` gives two names for each, of which one may be another's."""
    if path.exists() and not is_zipfile(path):
        raise ValueError(f"{path} is no .npz file")
    arrays: dict[str, Any] = {}
    try:
        with ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as file:
                    arrays[entry.filename.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, BadZipFile, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be read as .npz: {error}") from error
    return arrays


def write_npz(path: Path, values: dict[str, Any]) -> None:
    """Write values by name as `read_npz` reads them; the length of a sequence as NAME.length.

    Raises
    ------
    ValueError
        If two values would have the same name in the file, or .npz cannot hold one; nothing is written then.
    """
    arrays: dict[str, Any] = {}
    owners: dict[str, str] = {}
    for name, value in values.items():
        for key, array in _named_arrays(name, value):
            if key in owners:
                raise ValueError(
                    f"{path}: outputs {owners[key]!r} and {name!r} would both be stored as {key!r}; write a folder"
                )
            if "\0" in key:
                raise ValueError(f"{path}: .npz cannot hold the name {key!r}; write a folder")
            owners[key], arrays[key] = name, _storable(array, key, path)
    # np.savez takes the arrays as keywords, of which some are its own.
    with ZipFile(path, "w") as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _named_arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a value, and their names in a file."""
    if isinstance(value, list):
        yield f"{name}.length", np.asarray(len(value))
        yield from ((f"{name}.{index}", element) for index, element in enumerate(value))
    elif value is not None:
        yield name, value


def _storable(array: np.ndarray[Any, Any], key: str, path: Path) -> np.ndarray[Any, Any]:
    """Return an array as .npz can hold it: text as characters."""
    if array.dtype.kind == "O":
        if any(str(text).endswith("\0") for text in array.flat):
            raise ValueError(f"{path}: {key!r} has text that ends in NUL, which .npz cannot hold; write .pb files")
        return array.astype(str)
    if array.dtype.name in ONNX_TYPES and array.dtype.kind not in "biufc":
        raise ValueError(f"{path}: {key!r} has dtype {array.dtype}, which .npz cannot hold; write .pb files")
    return array
