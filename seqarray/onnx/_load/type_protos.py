"""The types that a model declares for its values, and whether a value is of such a type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from seqarray._dtypes import as_array, element_type_of, onnx_name
from seqarray._libraries import library_of, namespace_of
from seqarray._sequence import ArraySequence, as_sequence
from seqarray.onnx._load.tensor_protos import element_type_by_code


@dataclass(frozen=True)
class ValueType:
    """A tensor, a sequence of tensors, or an optional one of these.

    Attributes
    ----------
    element_type : str or None
        The element type; None where the model does not say it.
    sequence, optional : bool
        Whether it is a sequence, and whether it may be absent.
    shape : tuple or None
        Of a tensor: lengths, names of lengths, and None for what is open.  None where the rank is open.
    """

    element_type: str | None
    sequence: bool = False
    optional: bool = False
    shape: tuple[int | str | None, ...] | None = None

    @cached_property
    def lengths(self) -> tuple[tuple[int, int], ...]:
        """The axes whose lengths are said, and these lengths."""
        return tuple((axis, length) for axis, length in enumerate(self.shape or ()) if isinstance(length, int))

    def __str__(self) -> str:
        text = "tensor" if self.element_type is None else onnx_name(self.element_type)
        if self.shape is not None and not self.sequence:
            text += f"[{', '.join('?' if length is None else str(length) for length in self.shape)}]"
        text = f"seq({text})" if self.sequence else text
        return f"optional({text})" if self.optional else text


def value_type(declared: onnx.TypeProto, label: str) -> ValueType:
    """The type that a `TypeProto` stands for; that of an output need not be declared."""
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
        raise ValueError(f"{label} has the type {kind}, which is not supported; expected tensors, or sequences of them")
    tensor = declared.tensor_type
    element_type = element_type_by_code(tensor.elem_type, label) if tensor.elem_type else None
    shape = None
    if tensor.HasField("shape") and not sequence:
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim)
    return ValueType(element_type, sequence, optional, shape)


def checked(value: Any, wanted: ValueType, label: str) -> Any:
    """An array or an ArraySequence, if a value is what a model asks for; None where it may be absent.

    The shapes of a sequence's elements are not compared: exporters write down those of one example.
    """
    if type(value) is np.ndarray and not wanted.sequence and value.dtype.kind in "biufc":
        if element_type_of(value.dtype) == wanted.element_type and _fits(value.shape, wanted):
            return value
    if value is None:
        if wanted.optional:
            return None
        raise ValueError(f"{label} is missing; expected {wanted}")
    if wanted.sequence:
        if not isinstance(value, (ArraySequence, list, tuple)):
            raise TypeError(f"{label} is a {type(value).__name__}; expected {wanted}: an ArraySequence, list or tuple")
        if not isinstance(value, ArraySequence) and not value:
            return ArraySequence((), dtype=wanted.element_type or "float32")
        value = as_sequence(value, operator=label)
        element_type = value.element_type
        for element in value if element_type == "string" else ():
            check_text(element, label)
    else:
        if isinstance(value, (ArraySequence, list, tuple)):
            raise TypeError(f"{label} is a {type(value).__name__}; expected {wanted}: an array")
        value = as_array(value, operator=label, label="the value")
        element_type = element_type_of(value.dtype)
        if element_type == "string":
            check_text(value, label)
        if not _fits(value.shape, wanted):
            raise ValueError(f"{label} has shape {tuple(value.shape)}; expected {wanted}")
    if element_type != wanted.element_type and wanted.element_type is not None:
        raise TypeError(f"{label} has element type {element_type}; expected {wanted}")
    return value


def declares(declared: ValueType, value: Any) -> bool:
    """Whether an output is what the model declares: a tensor, a sequence or an optional, and of the element type."""
    if declared.element_type is None:
        return True
    if value is None:
        return declared.optional
    if type(value) is ArraySequence:
        return declared.sequence and (declared.element_type == value.element_type or not value)
    return not declared.sequence and declared.element_type == element_type_of(value.dtype)


def _fits(shape: Any, wanted: ValueType) -> bool:
    """Whether an array has the rank and the lengths that are wanted; a length that is not known yet fits."""
    if wanted.shape is None:
        return True
    if len(shape) != len(wanted.shape):
        return False
    return all(shape[axis] == length or not isinstance(shape[axis], int) for axis, length in wanted.lengths)


def check_text(array: Any, label: str) -> None:
    """An object array may hold anything; a tensor of strings holds str."""
    if library_of(namespace_of(array)) == "numpy" and array.dtype.kind in "OT":
        for item in array.flat:
            if not isinstance(item, str):
                kind = type(item).__name__
                raise TypeError(f"{label} has dtype {array.dtype} and holds {item!r} ({kind}); expected str")
