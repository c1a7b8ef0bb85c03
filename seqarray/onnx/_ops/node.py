"""A node as operators see it when they are bound: its attributes, and what the standard says about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import AttributeProto, defs

from seqarray._dtypes import ONNX_TYPES
from seqarray.onnx._run.executor import Block

_ELEMENT_TYPES = {f"tensor({onnx_type.onnx_name})": name for name, onnx_type in ONNX_TYPES.items()}

_PARTS = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}


class Operator(NamedTuple):
    """What runs a node: see `execution.Step`."""

    function: Callable[..., Sequence[Any]]
    roles: str = "."


@dataclass(eq=False)
class Node:
    """A node whose references to the attributes of a function are resolved.

    Attributes
    ----------
    proto : onnx.NodeProto
        The node.
    domain : str
        Its domain, "" for ONNX's own.
    version : int
        The version of the operator: the first opset that has it like this.
    schema : OpSchema or None
        What onnx knows about the operator.
    label : str
        The node, as error messages name it.
    n_inputs, n_outputs : int
        How many it has; inputs left out at the end do not count.
    blocks : dict
        The graphs among its attributes, compiled.
    folder : Path or None
        Where files with data of tensors have to be.
    """

    proto: onnx.NodeProto
    domain: str
    version: int
    schema: Any
    label: str
    n_inputs: int
    n_outputs: int
    blocks: dict[str, Block] = field(default_factory=dict)
    folder: Path | None = None

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes that the node gives, by name, as Python values or protos."""
        return {attribute.name: value_of(attribute) for attribute in self.proto.attribute}

    def attribute(self, name: str, kind: type, default: Any = None) -> Any:
        """One attribute, if it is of a kind; its default if it is not given."""
        value = self.attributes.get(name, default)
        if value is not default and not isinstance(value, kind):
            raise TypeError(
                f"{self.label}: attribute {name!r} is of type {type(value).__name__}; expected {kind.__name__}"
            )
        return value

    def element_types(self, index: int) -> frozenset[str]:
        """The element types that the standard allows for an input."""
        parameters = self.schema.inputs
        types = parameters[min(index, len(parameters) - 1)].types
        return frozenset(_ELEMENT_TYPES[name] for name in types if name in _ELEMENT_TYPES)


#: Makes the operator of a node; None where only onnx's reference implementation will do.
Binder = Callable[[Node], Operator | None]


def value_of(attribute: AttributeProto) -> Any:
    """The value of an attribute: int, float, str, a list of these, or a proto."""
    part = _PARTS.get(attribute.type)
    if part is None:
        raise ValueError(f"attribute {attribute.name!r} has no type that is known")
    value = getattr(attribute, part)
    if part == "s":
        return value.decode("utf-8", errors="surrogateescape")
    if part == "strings":
        return [text.decode("utf-8", errors="surrogateescape") for text in value]
    return list(value) if part.endswith("s") else value


def schema_of(op_type: str, version: int, domain: str) -> Any:
    """The newest schema of an operator up to a version of its operator set; None if onnx knows none."""
    try:
        return defs.get_schema(op_type, version, domain)
    except defs.SchemaError:
        return None
