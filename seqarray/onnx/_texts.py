"""Nodes as `print(program)` and `Program.steps` show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto

from seqarray._dtypes import onnx_name
from seqarray.onnx._load.names import plain
from seqarray.onnx._load.tensor_protos import array_of, element_type_by_code, is_external
from seqarray.onnx._ops.node import value_of
from seqarray.onnx._run.steps import NodeInfo

#: Of longer lists of attributes and of values in them, a text shows the beginning.
_MAX_ITEMS = 6

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def info_of(
    proto: onnx.NodeProto,
    domain: str,
    version: int,
    label: str,
    inputs: Sequence[int],
    constants: Mapping[int, np.ndarray[Any, Any]],
) -> NodeInfo:
    """Return a node as it is shown.

    Parameters
    ----------
    proto : onnx.NodeProto
        The node.
    domain : str
        Its domain, "" for ONNX's own.
    version : int
        The version of the operator.
    label : str
        The node as error messages name it.
    inputs : sequence of int
        The slots of its inputs.
    constants : mapping
        The values of constants, of which small ones are shown, by slot.
    """
    shown = [
        f"{plain(name)} = {_shown(constants[slot])}"
        if slot in constants and _is_small(constants[slot])
        else plain(name)
        for name, slot in zip(proto.input, inputs, strict=False)
    ]
    attributes = [f"{plain(a.name)} = {_attribute(a)}" for a in proto.attribute[:_MAX_ITEMS] if a.type not in _GRAPHS]
    if len(proto.attribute) > _MAX_ITEMS:
        attributes.append("...")
    between = f"<{', '.join(attributes)}>" if attributes else ""
    call = f"{', '.join(map(plain, proto.output))} = {plain(proto.op_type)}{between}({', '.join(shown)})"
    return NodeInfo(label, plain(proto.name), domain, plain(proto.op_type), version, f"{label}: {call}")


def _is_small(array: np.ndarray[Any, Any]) -> bool:
    """Return whether a constant is shown with its values."""
    # Without any item, an array may still be of many rows.
    return max(array.size, *array.shape, 0) <= _MAX_ITEMS and array.dtype.kind in "biufOUT"


def _shown(array: np.ndarray[Any, Any]) -> str:
    """Return the values of a small array."""
    return _listed(array.tolist())


def _listed(value: Any) -> str:
    """Return a value of an attribute or a small array, with the beginnings of long texts and lists."""
    if isinstance(value, list):
        return f"[{', '.join(map(_listed, value[:_MAX_ITEMS]))}{', ...' if len(value) > _MAX_ITEMS else ''}]"
    return repr(plain(value)) if isinstance(value, str) else f"{value:.7g}" if isinstance(value, float) else str(value)


def _attribute(attribute: AttributeProto) -> str:
    """Return the value of an attribute as text; of a large tensor, its type and shape."""
    value = value_of(attribute)
    if isinstance(value, onnx.TensorProto):
        small = (
            not is_external(value) and len(value.dims) <= 1 and all(0 <= length <= _MAX_ITEMS for length in value.dims)
        )
        if small:
            array = array_of(value)
            if _is_small(array):
                return _shown(array)
        element_type = onnx_name(element_type_by_code(value.data_type, f"attribute {attribute.name!r}"))
        return f"{element_type}[{', '.join(map(str, value.dims[:_MAX_ITEMS]))}]"
    if isinstance(value, (int, float, str)) or (
        isinstance(value, list) and isinstance((value or [0])[0], (int, float, str))
    ):
        return _listed(value)
    return "..."
