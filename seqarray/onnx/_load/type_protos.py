"""The types that a model declares for its values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from seqarray._dtypes import STANDARD_TYPES, onnx_name
from seqarray.onnx._load.names import plain
from seqarray.onnx._load.tensor_protos import element_type_by_code


@dataclass(frozen=True)
class ValueType:
    """A tensor, a sequence of tensors, or an optional one of these.

    Attributes
    ----------
    element_type : str or None
        The element type; None where the model does not declare one.
    sequence, optional : bool
        Whether it is a sequence, and whether it may be absent.
    shape : tuple or None
        The shape of a tensor: fixed lengths, names of symbolic ones, None for unknown ones.  None for an unknown rank.
    unsupported : str
        The kind of an output of another type, which programs do not give: "map", "sequence of map".
    """

    element_type: str | None
    sequence: bool = False
    optional: bool = False
    shape: tuple[int | str | None, ...] | None = None
    unsupported: str = ""

    @cached_property
    def lengths(self) -> tuple[tuple[int, int], ...]:
        """The axes with fixed lengths, and these lengths."""
        return tuple((axis, length) for axis, length in enumerate(self.shape or ()) if isinstance(length, int))

    @cached_property
    def usual_dtype(self) -> np.dtype[Any] | None:
        """NumPy's own dtype of a tensor; None for a sequence, and for other element types."""
        if self.sequence or self.element_type not in STANDARD_TYPES:
            return None
        return np.dtype(self.element_type)

    def __str__(self) -> str:
        if self.unsupported:
            return self.unsupported
        text = "tensor" if self.element_type is None else onnx_name(self.element_type)
        if self.shape is not None and not self.sequence:
            text += f"[{', '.join('?' if length is None else plain(str(length)) for length in self.shape)}]"
        text = f"seq({text})" if self.sequence else text
        return f"optional({text})" if self.optional else text


def value_type(declared: onnx.TypeProto, label: str) -> ValueType:
    """Return the type of a `TypeProto`; without an element type if the proto is empty, as it may be for outputs.

    Raises
    ------
    ValueError
        If it is another type than a tensor, a sequence of tensors, or an optional one of these.
    """
    found = output_type(declared, label)
    if found.unsupported:
        raise ValueError(
            f"{label} has the type {found}, which is not supported; expected tensors, or sequences of them"
        )
    return found


def output_type(declared: onnx.TypeProto, label: str) -> ValueType:
    """Return the type of an output, which may be `unsupported`: a program can give its other outputs."""
    if declared.WhichOneof("value") is None:
        return ValueType(None)
    optional = declared.WhichOneof("value") == "optional_type"
    if optional:
        declared = declared.optional_type.elem_type
    sequence = declared.WhichOneof("value") == "sequence_type"
    if sequence:
        declared = declared.sequence_type.elem_type
    if declared.WhichOneof("value") != "tensor_type":
        kind = (declared.WhichOneof("value") or "unknown_type").removesuffix("_type")
        prefix = ("optional " if optional else "") + ("sequence of " if sequence else "")
        return ValueType(None, unsupported=prefix + kind)
    tensor = declared.tensor_type
    element_type = element_type_by_code(tensor.elem_type, label) if tensor.elem_type else None
    shape = None
    if tensor.HasField("shape") and not sequence:
        shape = tuple(map(_length_of, tensor.shape.dim))
    return ValueType(element_type, sequence, optional, shape)


def _length_of(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """Return a length, the name of a symbolic one, or None; some exporters write -1 for unknown ones."""
    if not dim.HasField("dim_value"):
        return dim.dim_param or None
    return int(dim.dim_value) if dim.dim_value >= 0 else None
