"""Inputs and outputs in files: in the layout of onnx's test data, or .npz."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx

from seqarray._files import load
from seqarray.onnx._load.type_protos import ValueType
from seqarray.onnx._load.value_protos import optional_of, to_proto, value_of


class Declared(Protocol):
    """An input or an output of a program."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def type(self) -> ValueType:
        """Its declared type."""


def model_file(path: Path) -> Path:
    """Return the file of a model that is given as a file, or as a folder with a model.onnx."""
    return path / "model.onnx" if path.is_dir() else path


def check_inputs(path: Path) -> None:
    """Raise a ValueError if what `--inputs` names is not there."""
    if not path.exists():
        raise ValueError(f"--inputs {path}: there is no such file or folder")
    if path.is_dir() and not any(path.glob("input_*.pb")):
        raise ValueError(f"--inputs {path}: the folder has no input_0.pb, input_1.pb, ...")


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
    kind = onnx.OptionalProto if declared.optional else onnx.SequenceProto if declared.sequence else onnx.TensorProto
    try:
        return value_of(_parse(kind, path.read_bytes()))
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as {declared}: {error}") from error


def _parse(kind: Any, content: bytes) -> Any:
    """Parse bytes as a protobuf message of some class."""
    try:
        return kind.FromString(content)
    except Exception as error:  # protobuf's DecodeError, which has moved between its versions
        raise ValueError(str(error)) from error


def write_value(path: Path, name: str, value: Any, declared: ValueType) -> None:
    """Write a value of a declared type to a .pb file."""
    proto = to_proto(value, name)
    path.write_bytes((optional_of(proto) if declared.optional else proto).SerializeToString())


def read_npz(path: Path, declared: Sequence[Declared]) -> dict[str, Any]:
    """Read values by name from an .npz file: of `seqarray.save`, or of arrays.

    In a file of arrays, the elements of a sequence are NAME.0, NAME.1, ...  Its length, as NAME.length, is needed where
    there are no elements, or where the name of another value is that of an element.
    """
    arrays = load(path)
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
                not isinstance(length, np.ndarray)
                or length.size != 1
                or length.dtype.kind not in "iu"
                or int(length.item()) != len(elements)
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
