"""The graph that is being written without sequences, and the values of the graph that is being read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TypeProto, helper

from seqarray._dtypes import ELEMENT_TYPE_BY_CODE, ONNX_TYPES, element_type_of
from seqarray.onnx._load.model import Model
from seqarray.onnx._load.tensor_protos import tensor_of
from seqarray.onnx._ops.node import schema_of
from seqarray.onnx._program import Program

#: Values of more items are not computed while a model is lowered: they are no lengths, positions or conditions.
MAX_ITEMS = 1024

#: How many nodes a lowered model may have: loops are unrolled.
MAX_NODES = 50_000

#: How much may be lowered: nodes, iterations and elements of sequences count one each.
MAX_WORK = 250_000

#: Operators that give something else each time, and are not computed beforehand.
_RANDOM = frozenset(
    "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split()
)


@dataclass(eq=False)
class Tensor:
    """A tensor of the graph that is being lowered.

    Attributes
    ----------
    name : str
        Its name in the lowered graph; "" for a constant that is not there yet.
    type : onnx.TypeProto
        Its type, as far as it is known.
    value : array or None
        Its value, if it is a constant or computed of constants and examples of inputs.
    of_inputs : frozenset of str
        The inputs from whose examples the value was computed; none for a constant.
    shape_of_inputs : frozenset of str
        The inputs from whose examples the shape was computed.
    """

    name: str
    type: TypeProto
    value: np.ndarray[Any, Any] | None = None
    of_inputs: frozenset[str] = frozenset()
    shape_of_inputs: frozenset[str] = frozenset()

    @property
    def element_type(self) -> str | None:
        """The element type; None if it is not known."""
        return ELEMENT_TYPE_BY_CODE.get(self.type.tensor_type.elem_type)

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The shape, with None for unknown lengths; None if the rank is not known."""
        tensor = self.type.tensor_type
        if not tensor.HasField("shape"):
            return None
        return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)


@dataclass(eq=False)
class Tensors:
    """A sequence of the graph that is being lowered: its tensors, whose number is known."""

    elements: tuple[Tensor, ...]
    element_type: str | None = None


#: What a name stands for: a tensor, a sequence, or an optional that is absent.
Value = Tensor | Tensors | None


@dataclass
class Builder:
    """Writes the lowered graph.

    Attributes
    ----------
    model : Model
        The model that is being lowered.
    fixed : frozenset of str
        The inputs whose examples are constants.
    read : set of str
        The inputs whose examples were read, so that they have to be constants.
    nodes : list of onnx.NodeProto
        The nodes until now, of the graph or of the branch that is being written.
    initializers : list of onnx.TensorProto
        The constants until now.
    opsets : dict
        Domain to version of the operator sets.
    outputs : frozenset of str
        The names of the outputs of the model, which are kept free for them.
    """

    model: Model
    fixed: frozenset[str]
    read: set[str] = field(default_factory=set)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    opsets: dict[str, int] = field(default_factory=dict)
    outputs: frozenset[str] = frozenset()
    _constants: dict[Any, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _node_names: set[str] = field(default_factory=set)
    _programs: dict[bytes, Program] = field(default_factory=dict)
    _n_nodes: int = 0
    _work: int = 0

    def count(self, amount: int, label: str) -> None:
        """Raise a ValueError if too much has been lowered: loops and functions expand."""
        self._work += amount
        if self._work > MAX_WORK:
            raise ValueError(f"{label}: there are more than {MAX_WORK} nodes, iterations and elements to lower")

    def fresh(self, name: str) -> str:
        """Return a name that no value has yet: the given one, or one with a number behind it."""
        return _unique(name or "value", self._names)

    def name_node(self, node: onnx.NodeProto) -> None:
        """Change the name of a node, if it has one, to one that no node has yet: onnxruntime requires it."""
        if node.name:
            node.name = _unique(node.name, self._node_names)

    def constant(self, array: np.ndarray[Any, Any]) -> Tensor:
        """Return a constant."""
        code = ONNX_TYPES[element_type_of(array.dtype)].code
        return Tensor("", helper.make_tensor_type_proto(code, array.shape), array)

    def name_of(self, value: Value, label: str) -> str:
        """Return the name of a tensor in the lowered graph, in which it is written if it is a constant; "" for None."""
        if value is None:
            return ""
        if isinstance(value, Tensors):
            raise ValueError(f"{label}: it reads a sequence, and is no operator on sequences")
        if not value.name and value.value is not None:
            value.name = self.write(value.value, "constant")
        return value.name

    def write(self, array: np.ndarray[Any, Any], name: str) -> str:
        """Return the name of a constant in the lowered graph, in which equal ones are written once."""
        tensor = tensor_of(array)
        key = sha256(tensor.SerializeToString(deterministic=True)).digest()
        if key not in self._constants:
            tensor.name = self._constants[key] = self.fresh(name)
            self.initializers.append(tensor)
        return self._constants[key]

    def value_of(self, value: Value, name: str) -> np.ndarray[Any, Any]:
        """Return the value of a tensor, which from now on must not change.

        Raises
        ------
        ValueError
            If it is not known.
        """
        if not isinstance(value, Tensor) or value.value is None:
            raise ValueError(
                f"{name} is not known beforehand; give its value, or the values and shapes of which it is computed"
            )
        self.read |= value.of_inputs
        return value.value

    def shape_of(self, value: Tensor, name: str) -> tuple[int | None, ...]:
        """Return the shape of a tensor, which from now on must not change; raise if its rank is not known."""
        shape = value.shape
        if shape is None:
            raise ValueError(f"{name} has a rank that is not known beforehand; give the shapes of the inputs")
        self.read |= value.shape_of_inputs
        return shape

    def length_of(self, value: Tensor, axis: int, name: str) -> int:
        """Return a length of a tensor, which from now on must not change; raise if it is not known."""
        length = self.shape_of(value, name)[axis]
        if length is None:
            raise ValueError(
                f"the length of axis {axis} of {name} is not known beforehand; give the shapes of the inputs"
            )
        return length

    def emit(
        self, op_type: str, inputs: Sequence[Value], label: str, names: Sequence[str] = ("value",), **attributes: Any
    ) -> list[Tensor]:
        """Append a node of ONNX's own operators, with outputs of these names, and return its outputs."""
        node = helper.make_node(op_type, [""] * len(inputs), list(names), **attributes)
        return self.append(node, inputs, label)

    def append(
        self, node: onnx.NodeProto, inputs: Sequence[Value], label: str, captured: Iterable[Tensor] = ()
    ) -> list[Tensor]:
        """Append a copy of a node that reads these inputs, unless its outputs are constants, and return its outputs."""
        results = self._inferred(node, inputs, list(captured), label)
        values = self._computed(node, inputs) if all(map(_is_small, results)) else []
        for result, value in zip(results, values, strict=False):
            if value is not None:
                result.type = helper.make_tensor_type_proto(ONNX_TYPES[element_type_of(value.dtype)].code, value.shape)
                result.value = value
                result.of_inputs = self._examples_of(node, inputs)
        if results and all(result.value is not None and not result.of_inputs for result in results):
            return results
        self._n_nodes += 1
        if self._n_nodes > MAX_NODES:
            raise ValueError(f"{label}: the lowered model would have more than {MAX_NODES} nodes")
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        self.name_node(copy)
        del copy.input[:], copy.output[:]
        copy.input.extend(self.name_of(value, label) for value in inputs)
        for result, name in zip(results, node.output, strict=True):
            result.name = self.fresh(name) if name else ""
            copy.output.append(result.name)
        self.nodes.append(copy)
        return results

    def _examples_of(self, node: onnx.NodeProto, inputs: Sequence[Value]) -> frozenset[str]:
        """Return the inputs of the model from whose examples the value of a node was computed."""
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        if node.op_type in ("Shape", "Size"):
            return frozenset().union(*(tensor.shape_of_inputs for tensor in tensors)) - self.fixed
        return frozenset().union(*(tensor.of_inputs for tensor in tensors)) - self.fixed

    def _inferred(
        self, node: onnx.NodeProto, inputs: Sequence[Value], captured: Sequence[Tensor], label: str
    ) -> list[Tensor]:
        """Return the outputs of a node with the types that onnx infers."""
        given = {f"input {i}": value for i, value in enumerate(inputs) if isinstance(value, Tensor)}
        domain = "" if node.domain == "ai.onnx" else node.domain
        schema = schema_of(node.op_type, self.opsets.get(domain, 0), domain)
        n_outputs = len(node.output)
        if schema is None or not all(tensor.element_type for tensor in (*given.values(), *captured)):
            return [Tensor("", TypeProto()) for _ in range(n_outputs)]
        numbered = onnx.NodeProto()
        numbered.CopyFrom(node)
        del numbered.input[:], numbered.output[:]
        numbered.input.extend(f"input {i}" if f"input {i}" in given else "" for i in range(len(inputs)))
        numbered.output.extend(f"output {i}" if name else "" for i, name in enumerate(node.output))
        types = {name: value.type for name, value in given.items()} | {value.name: value.type for value in captured}
        values = {name: value for name, value in given.items() if value.value is not None}
        constants = {name: value for name, value in values.items() if not value.of_inputs - self.fixed}
        shape_of_inputs = frozenset().union(*(tensor.shape_of_inputs for tensor in (*given.values(), *captured)))
        inferred = self._infer(schema, numbered, types, constants, label)
        if len(values) > len(constants):
            further = self._infer(schema, numbered, types, values, label)
            if further != inferred:
                inferred = further
                shape_of_inputs = shape_of_inputs.union(*(value.of_inputs for value in values.values()))
        return [
            Tensor("", inferred.get(f"output {i}", TypeProto()), shape_of_inputs=shape_of_inputs - self.fixed)
            for i in range(n_outputs)
        ]

    def _infer(
        self, schema: Any, node: onnx.NodeProto, types: dict[str, TypeProto], values: dict[str, Tensor], label: str
    ) -> dict[str, TypeProto]:
        """Return the types of the outputs of a node, by name."""
        data = {name: tensor_of(value.value, name) for name, value in values.items() if value.value is not None}
        imports = [helper.make_opsetid(*opset) for opset in self.opsets.items()]
        try:
            inferred: dict[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=imports, ir_version=onnx.IR_VERSION
            )
        except Exception as error:  # InferenceError, and errors of the type
            raise ValueError(f"{label}: its inputs do not fit: {error}") from error
        return inferred

    def _computed(self, node: onnx.NodeProto, inputs: Sequence[Value]) -> list[np.ndarray[Any, Any] | None]:
        """Return the values of the outputs of a node, if those of its inputs are known; or of a shape that is known."""
        if node.domain not in ("", "ai.onnx") or node.op_type in _RANDOM:
            return []
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        if node.op_type in ("Shape", "Size"):
            shape = tensors[0].shape
            if shape is None:
                return []
            lengths = [length for length in shape if length is not None]
            if len(lengths) < len(shape):
                return []
            if node.op_type == "Size":
                return [np.asarray(prod(lengths), dtype=np.int64)]
            given = {attribute.name: attribute.i for attribute in node.attribute}
            return [np.asarray(lengths[given.get("start", 0) : given.get("end")], dtype=np.int64)]
        if (
            not tensors
            or len(tensors) != sum(value is not None for value in inputs)
            or any(t.value is None for t in tensors)
        ):
            return []
        if any(attribute.HasField("g") for attribute in node.attribute):
            return []
        return self._program_of(node, inputs).run([tensor.value for tensor in tensors])

    def _program_of(self, node: onnx.NodeProto, inputs: Sequence[Value]) -> Program:
        """Return a program of one node, whose inputs are those that are there."""
        types = [value.element_type if isinstance(value, Tensor) else None for value in inputs]
        key = node.SerializeToString() + repr(types).encode()
        program = self._programs.get(key)
        if program is None:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            del copy.input[:], copy.output[:]
            copy.input.extend(f"input {i}" if element_type else "" for i, element_type in enumerate(types))
            copy.output.extend(f"output {i}" for i in range(len(node.output)))
            declared = [
                helper.make_tensor_value_info(f"input {i}", ONNX_TYPES[element_type].code, None)
                for i, element_type in enumerate(types)
                if element_type
            ]
            outputs = [helper.make_empty_tensor_value_info(name) for name in copy.output]
            imports = [helper.make_opsetid(*opset) for opset in self.opsets.items()]
            proto = helper.make_model(
                helper.make_graph([copy], "one node", declared, outputs), opset_imports=imports, ir_version=10
            )
            program = self._programs[key] = Program(Model(proto, self.model.folder), None, None)
        return program


def _unique(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it: the given one, or one with a number behind it."""
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def _is_small(tensor: Tensor) -> bool:
    """Return whether a tensor is known to have few items."""
    shape = tensor.shape
    if shape is None:
        return False
    count = 1
    for length in shape:
        if length is None:
            return False
        count *= length
    return count <= MAX_ITEMS
