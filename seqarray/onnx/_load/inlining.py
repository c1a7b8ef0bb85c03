"""Helpers for inlining functions: those of a model, and those by which the standard defines some operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import AttributeProto

from seqarray.onnx._load.model import graphs_of


def function_of(schema: Any, version: int, node: onnx.NodeProto, types: Sequence[onnx.TypeProto | None]) -> Any:
    """Return the function by which the standard defines an operator, or None if there is none.

    Parameters
    ----------
    schema : OpSchema
        The operator.
    version : int
        The version of the operator set.
    node : onnx.NodeProto
        The node, on whose attributes some functions depend.
    types : sequence of onnx.TypeProto
        The types of its inputs, on which some functions depend; None for unknown ones.
    """
    fixed = [since for since in schema.function_opset_versions if since <= version]
    dependent = [since for since in schema.context_dependent_function_opset_versions if since <= version]
    if fixed:
        content = schema.get_function_with_opset_version(max(fixed))
    elif dependent and None not in types:
        serialized = [declared.SerializeToString() for declared in types if declared is not None]
        content = schema.get_context_dependent_function_with_opset_version(
            max(dependent), node.SerializeToString(), serialized
        )
    else:
        return None
    return onnx.FunctionProto.FromString(content) if content else None


def with_defaults(node: onnx.NodeProto, schema: Any) -> onnx.NodeProto:
    """Return a copy of a node with the default values of attributes that it does not set."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    given = {attribute.name for attribute in node.attribute}
    copy.attribute.extend(
        attribute.default_value
        for name, attribute in schema.attributes.items()
        if name not in given and attribute.default_value.type != AttributeProto.UNDEFINED
    )
    return copy


def substitute_attributes(node: onnx.NodeProto, attributes: dict[str, AttributeProto]) -> onnx.NodeProto:
    """Return a copy of a node of a function with references to attributes replaced by the attributes of the call."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.append(attribute)
        elif attribute.ref_attr_name in attributes:
            given = copy.attribute.add()
            given.CopyFrom(attributes[attribute.ref_attr_name])
            given.name = attribute.name
    for attribute in copy.attribute:
        for graph in graphs_of(attribute):
            for inner in graph.node:
                inner.CopyFrom(substitute_attributes(inner, attributes))
    return copy
