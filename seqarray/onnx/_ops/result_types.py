"""The types of the results of an operator, as far as its schema tells them from the types of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import helper

from seqarray._dtypes import ELEMENT_TYPE_BY_CODE, ONNX_TYPES
from seqarray.onnx._ops.node import Node

#: The code of an element type to the type of a tensor of it, of any shape.
_TENSORS = {code: helper.make_tensor_type_proto(code, None) for code in ELEMENT_TYPE_BY_CODE}


def tensor_type(element_type: str) -> onnx.TypeProto:
    """Return the type of a tensor of any shape."""
    return _TENSORS[ONNX_TYPES[element_type].code]


def without_shape(declared: onnx.TypeProto | None) -> onnx.TypeProto | None:
    """Return a type without the shape of a tensor; None for an unknown type."""
    if declared is None or declared.WhichOneof("value") != "tensor_type":
        return declared
    return _TENSORS.get(declared.tensor_type.elem_type)


def is_tensor(declared: onnx.TypeProto | None) -> bool:
    """Return whether a type is known to be that of a tensor."""
    return declared is not None and declared.WhichOneof("value") == "tensor_type"


def result_types(node: Node, inputs: Sequence[onnx.TypeProto | None]) -> list[onnx.TypeProto | None]:
    """Return the types of the results of a node without graphs; None for those that are not known."""
    schema = node.schema
    if schema is None:
        return [None] * node.n_outputs
    from_attribute = _from_attribute(node)
    if from_attribute is not None:
        return [from_attribute] * node.n_outputs
    if node.domain == "" and node.proto.op_type == "OptionalGetElement":
        declared = inputs[0] if inputs else None
        if declared is not None and declared.WhichOneof("value") == "optional_type":
            declared = declared.optional_type.elem_type
        return [without_shape(declared)]
    bound = {
        _parameter(schema.inputs, index).type_str: without_shape(declared)
        for index, declared in enumerate(inputs)
        if declared is not None and declared.WhichOneof("value")
    }
    return [
        _result_type(_parameter(schema.outputs, index).type_str, bound, schema.type_constraints)
        for index in range(node.n_outputs)
    ]


def _parameter(parameters: Any, index: int) -> Any:
    """Return the formal parameter of an input or output; the last one may stand for several."""
    return parameters[min(index, len(parameters) - 1)]


def _result_type(text: str, bound: dict[str, Any], constraints: Any) -> onnx.TypeProto | None:
    """Return the type that a formal parameter stands for."""
    if text in bound:
        declared: onnx.TypeProto | None = bound[text]
        return declared
    allowed = [text]
    for constraint in constraints:
        if constraint.type_param_str == text:
            allowed = list(constraint.allowed_type_strs)
    if len(allowed) == 1:
        return _parsed(allowed[0])
    # The operators on sequences call the type of the elements T, and that of the sequence S.
    element, sequence = bound.get("T"), bound.get("S")
    if text == "S" and element is not None and is_tensor(element):
        return helper.make_sequence_type_proto(element)
    if text == "T" and sequence is not None and sequence.WhichOneof("value") == "sequence_type":
        return without_shape(sequence.sequence_type.elem_type)
    return None


def _parsed(text: str) -> onnx.TypeProto | None:
    """Return the type that a type string such as tensor(int64) means; None unless it is a tensor's."""
    for element_type, onnx_type in ONNX_TYPES.items():
        if text == f"tensor({onnx_type.onnx_name})":
            return tensor_type(element_type)
    return None


def _from_attribute(node: Node) -> onnx.TypeProto | None:
    """Return the type of all results where attributes alone tell it, else None."""
    op_type = node.proto.op_type
    if node.domain:
        return None
    if op_type == "Cast":
        return _TENSORS.get(node.attribute("to", int, 0))
    if op_type == "SequenceEmpty":
        tensor = _TENSORS.get(node.attribute("dtype", int, onnx.TensorProto.FLOAT))
        return None if tensor is None else helper.make_sequence_type_proto(tensor)
    if op_type == "ConstantOfShape":
        value = node.attribute("value", onnx.TensorProto)
        return _TENSORS.get(onnx.TensorProto.FLOAT if value is None else value.data_type)
    return None
