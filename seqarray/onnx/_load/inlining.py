"""Functions: those of a model, and those by which the standard defines some of its operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import AttributeProto

from seqarray.onnx._load.model import graphs_of


def body_of(schema: Any, version: int, node: onnx.NodeProto, types: Sequence[onnx.TypeProto | None]) -> Any:
    """The function that defines an operator, or None if there is none.

    Parameters
    ----------
    schema : OpSchema
        The operator.
    version : int
        Of the operator set.
    node : onnx.NodeProto
        The node.
    types : sequence of onnx.TypeProto
        The types of its inputs, on which some functions depend; None where one is not known.
    """
    fixed = [since for since in schema.function_opset_versions if since <= version]
    dependent = [since for since in schema.context_dependent_function_opset_versions if since <= version]
    if fixed:
        content = schema.get_function_with_opset_version(max(fixed))
    elif dependent and None not in types:
        described = [declared.SerializeToString() for declared in types if declared is not None]
        content = schema.get_context_dependent_function_with_opset_version(
            max(dependent), node.SerializeToString(), described
        )
    else:
        return None
    return onnx.FunctionProto.FromString(content) if content else None


def with_defaults(node: onnx.NodeProto, schema: Any) -> onnx.NodeProto:
    """A node that gives every attribute that has a default."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    given = {attribute.name for attribute in node.attribute}
    copy.attribute.extend(
        attribute.default_value
        for name, attribute in schema.attributes.items()
        if name not in given and attribute.default_value.type != AttributeProto.UNDEFINED
    )
    return copy


def resolved(node: onnx.NodeProto, attributes: dict[str, AttributeProto]) -> onnx.NodeProto:
    """A node of a function, and the nodes of graphs in it, whose attributes are those of the call."""
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
                inner.CopyFrom(resolved(inner, attributes))
    return copy


def outer_names(node: onnx.NodeProto) -> set[str]:
    """The names that graphs in the attributes of a node do not define themselves."""
    found: set[str] = set()
    for attribute in node.attribute:
        for graph in graphs_of(attribute):
            known = {value.name for value in (*graph.input, *graph.initializer)}
            known |= {sparse.values.name for sparse in graph.sparse_initializer} | {""}
            for inner in graph.node:
                found |= ({*inner.input} | outer_names(inner)) - known
                known |= {*inner.output}
            found |= {value.name for value in graph.output} - known
    return found
