"""Values of a run compared with the types that a model declares, and described in error messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqarray._arguments import check_text
from seqarray._dtypes import element_type_of
from seqarray._kind import as_array
from seqarray._sequence import ArraySequence, as_sequence
from seqarray.onnx._load.type_protos import ValueType


def check_value(value: Any, expected: ValueType, label: str) -> Any:
    """Return a value as an array, an ArraySequence or None, if it has the expected type; raise otherwise.

    Shapes of the elements of a sequence are not compared: exporters write the shape of one example there.

    Raises
    ------
    TypeError
        If the container or the element type differs.
    ValueError
        If the shape differs, or if the value is None and not optional.
    """
    if type(value) is np.ndarray and not expected.sequence and value.dtype.kind in "biufc":
        if element_type_of(value.dtype) == expected.element_type and _fits(value.shape, expected):
            return value
    if value is None:
        if expected.optional:
            return None
        raise ValueError(f"{label} is missing; expected {expected}")
    if expected.sequence:
        if not isinstance(value, (ArraySequence, list, tuple)):
            raise TypeError(
                f"{label} is a {type(value).__name__}; expected {expected}: an ArraySequence, list or tuple"
            )
        if not isinstance(value, ArraySequence) and not value:
            return ArraySequence((), dtype=expected.element_type or "float32")
        value = as_sequence(value, operator=label)
        element_type = value.element_type
        for element in value if element_type == "string" else ():
            check_text(element, label=label)
    else:
        if isinstance(value, (ArraySequence, list, tuple)):
            raise TypeError(f"{label} is a {type(value).__name__}; expected {expected}: an array")
        value = as_array(value, operator=label, label="the value")
        element_type = element_type_of(value.dtype)
        if element_type == "string":
            check_text(value, label=label)
        if not _fits(value.shape, expected):
            raise ValueError(f"{label} has shape {tuple(value.shape)}; expected {expected}")
    if element_type != expected.element_type and expected.element_type is not None:
        raise TypeError(f"{label} has element type {element_type}; expected {expected}")
    return value


def conforms(value: Any, declared: ValueType) -> bool:
    """Return whether an output has the declared container and element type; its shape is not compared."""
    if declared.element_type is None or (type(value) is np.ndarray and value.dtype is declared.usual_dtype):
        return True
    if value is None:
        return declared.optional
    if type(value) is ArraySequence:
        return declared.sequence and (declared.element_type == value.element_type or not value)
    return not declared.sequence and declared.element_type == element_type_of(value.dtype)


def _fits(shape: Any, expected: ValueType) -> bool:
    """Return whether a shape has the expected rank and lengths; unknown lengths, as dask has, are not compared."""
    if expected.shape is None:
        return True
    if len(shape) != len(expected.shape):
        return False
    return all(shape[axis] == length or not isinstance(shape[axis], int) for axis, length in expected.lengths)


def describe_value(value: Any) -> str:
    """Return the container, element type and shape of a value as text for an error message."""
    if value is None:
        return "an empty optional"
    if type(value) is ArraySequence:
        return f"a sequence of {value.element_type}"
    return f"a tensor of {element_type_of(value.dtype)} and shape {tuple(value.shape)}"
