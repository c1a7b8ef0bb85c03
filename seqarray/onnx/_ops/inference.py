"""The shapes of what a body of a loop gives, inferred by onnx from the values that it would get.

They are needed where there are no iterations: the result of a scan output has no items then, but axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnx.shape_inference
from onnx import helper

from seqarray._dtypes import ONNX_TYPES, element_type_of
from seqarray._sequence import ArraySequence
from seqarray.onnx._load.pruning import captured_names
from seqarray.onnx._load.type_protos import ValueType, value_type
from seqarray.onnx._ops.node import Node


def make_inference(node: Node, attribute: str) -> Callable[[list[Any], Sequence[onnx.TypeProto]], list[ValueType]]:
    """Return a function that infers the types of the outputs of a graph in an attribute.

    The function takes the values of all slots, and the types of the inputs of the graph.
    """
    body: onnx.GraphProto = node.attributes[attribute]
    captured = {name: slot for name in sorted(captured_names(body)) if (slot := node.find(name))}

    def infer(values: list[Any], inputs: Sequence[onnx.TypeProto]) -> list[ValueType]:
        graph = onnx.GraphProto()
        graph.CopyFrom(body)
        for output in graph.output:
            output.ClearField("type")
        for declared, given in zip(graph.input, inputs, strict=True):
            declared.type.CopyFrom(given)
        graph.input.extend(helper.make_value_info(name, type_of(values[slot])) for name, slot in captured.items())
        imports = [helper.make_opsetid(domain, version) for domain, version in node.opsets.items()]
        model = helper.make_model(graph, opset_imports=imports, ir_version=onnx.IR_VERSION)
        inferred = onnx.shape_inference.infer_shapes(model).graph.output
        return [value_type(output.type, f"output {output.name!r}") for output in inferred]

    return infer


def type_of(value: Any, without: int | None = None) -> onnx.TypeProto:
    """Return the type of a value with its shape, or with that without an axis; elements of a sequence have none."""
    if value is None:
        return onnx.TypeProto()
    if type(value) is ArraySequence:
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(ONNX_TYPES[value.element_type].code, None))
    shape = [length if isinstance(length, int) else None for axis, length in enumerate(value.shape) if axis != without]
    return helper.make_tensor_type_proto(ONNX_TYPES[element_type_of(value.dtype)].code, shape)
