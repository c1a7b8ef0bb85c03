"""A node as the kernel factories read it: its attributes, and its schema in the standard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import onnx
from onnx import AttributeProto, defs

from seqarray._dtypes import ONNX_TYPES
from seqarray.onnx._load.tensor_protos import DataFolder
from seqarray.onnx._run.placement import Placement
from seqarray.onnx._run.steps import Subgraph

_ELEMENT_TYPES = {f"tensor({onnx_type.onnx_name})": name for name, onnx_type in ONNX_TYPES.items()}

#: Type of an attribute to the field that holds its value.
_FIELDS = {
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


class Kernel(NamedTuple):
    """The implementation of one node: a function as of `Step`, and where it reads its inputs.

    The last placement is that of all further inputs.
    """

    function: Callable[..., Sequence[Any]]
    placements: tuple[Placement, ...] = (Placement.ANY,)

    def placements_of(self, n_inputs: int) -> tuple[Placement, ...]:
        """Return one placement for each of a number of inputs."""
        missing = n_inputs - len(self.placements)
        return (*self.placements, *self.placements[-1:] * missing)[:n_inputs]


@dataclass(eq=False)
class Node:
    """A node in which references to attributes of a function have been replaced by their values.

    Attributes
    ----------
    proto : onnx.NodeProto
        The node.
    domain : str
        Its domain, "" for ONNX's own.
    version : int
        The version of the operator: the opset that introduced its present definition.
    schema : OpSchema or None
        The definition of the operator in the onnx package.
    label : str
        The node as error messages name it.
    n_inputs, n_outputs : int
        The numbers of inputs and outputs, without inputs left out at the end.
    subgraphs : dict
        The compiled graphs among its attributes, by name of the attribute.
    folder : DataFolder or None
        Where the external data of tensors lies.
    output_types : sequence of onnx.TypeProto or None
        The types that the graph declares for the outputs.
    opsets : dict
        Domain to version of the operator sets.
    find : callable
        Returns the slot of a name that the node's graphs can refer to; None if there is none.
    applies_keepdims : bool
        Whether SplitToSequence follows attribute `keepdims` where a size is given too, against the standard.
    """

    proto: onnx.NodeProto
    domain: str
    version: int
    schema: Any
    label: str
    n_inputs: int
    n_outputs: int
    subgraphs: dict[str, Subgraph] = field(default_factory=dict)
    folder: DataFolder | None = None
    output_types: Sequence[onnx.TypeProto | None] = ()
    opsets: dict[str, int] = field(default_factory=dict)
    find: Callable[[str], int | None] = lambda _: None
    applies_keepdims: bool = False

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the proto by name, as Python values or protos."""
        return {attribute.name: value_of(attribute) for attribute in self.proto.attribute}

    def attribute(self, name: str, kind: type, default: Any = None) -> Any:
        """Return the value of an attribute, or its default; raise a TypeError if it is not of the given kind."""
        value = self.attributes.get(name, default)
        if value is not default and not isinstance(value, kind):
            raise TypeError(
                f"{self.label}: attribute {name!r} is of type {type(value).__name__}; expected {kind.__name__}"
            )
        return value

    def element_types(self, index: int) -> frozenset[str]:
        """Return the element types that the schema allows for an input."""
        parameters = self.schema.inputs
        types = parameters[min(index, len(parameters) - 1)].types
        return frozenset(_ELEMENT_TYPES[name] for name in types if name in _ELEMENT_TYPES)


#: Makes the kernel of a node; returns None where only onnx's reference implementation covers the node.
KernelFactory = Callable[[Node], Kernel | None]


def value_of(attribute: AttributeProto) -> Any:
    """Return the value of an attribute: an int, float or str, a list of these, or a proto."""
    name = _FIELDS.get(attribute.type)
    if name is None:
        raise ValueError(f"attribute {attribute.name!r} has no type that is known")
    value = getattr(attribute, name)
    if name == "s":
        return value.decode("utf-8", errors="surrogateescape")
    if name == "strings":
        return [text.decode("utf-8", errors="surrogateescape") for text in value]
    return list(value) if name.endswith("s") else value


def schema_of(op_type: str, version: int, domain: str) -> Any:
    """Return the newest schema of an operator up to a version of its operator set; None if onnx has none."""
    try:
        return defs.get_schema(op_type, version, domain)
    except defs.SchemaError:
        return None
