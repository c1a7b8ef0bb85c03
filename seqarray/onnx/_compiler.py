"""From a graph to steps: names become slots, operators become functions, and every value gets a last use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper

from seqarray._dtypes import ONNX_TYPES, element_type_of
from seqarray.onnx._load.inlining import body_of, outer_names, resolved, with_defaults
from seqarray.onnx._load.model import MAX_NESTING, Model, domain_of, opsets_of
from seqarray.onnx._load.tensor_protos import array_of, dense_array_of, nbytes_of
from seqarray.onnx._ops.control_flow import CONTROL
from seqarray.onnx._ops.math import ARITHMETIC
from seqarray.onnx._ops.node import Binder, Node, Operator, schema_of
from seqarray.onnx._ops.reference import bind_reference
from seqarray.onnx._ops.sequence import FAMILY
from seqarray.onnx._ops.shape import LAYOUT, constant_of
from seqarray.onnx._run.executor import Block, Step

_OPERATORS: dict[str, tuple[int, Binder]] = {**FAMILY, **ARITHMETIC, **LAYOUT}

#: How many steps a program may have, functions written out.
MAX_STEPS = 50_000


class _NotImplementedHereError(Exception):
    """A node of a function that is to be written out needs the reference implementation."""


class Scope:
    """The names that a node can refer to."""

    def __init__(
        self,
        opsets: dict[str, int],
        *,
        parent: Scope | None = None,
        attributes: dict[str, AttributeProto] | None = None,
        prefix: str = "",
        depth: int = 0,
        callers: tuple[Any, ...] = (),
    ) -> None:
        self.opsets = opsets
        self.parent = parent
        #: What the attributes of the function are in this call; None outside of functions.
        self.attributes = attributes
        #: What labels of nodes begin with.
        self.prefix = prefix
        self.depth = depth
        #: The functions that are being called, outermost first.
        self.callers = callers
        self.slots: dict[str, int] = {}

    def inner(self) -> Scope:
        """The scope of a graph in an attribute of one of its nodes."""
        return Scope(self.opsets, parent=self, attributes=self.attributes, depth=self.depth + 1, callers=self.callers)

    def find(self, name: str) -> int | None:
        """The slot of a name, here or in an outer graph."""
        scope: Scope | None = self
        while scope is not None:
            slot = scope.slots.get(name)
            if slot is not None:
                return slot
            scope = scope.parent
        return None


class Compiler:
    """Compiles the graphs of one model.

    Attributes
    ----------
    constants : dict
        What some slots hold from the beginning.
    """

    def __init__(self, model: Model, *, max_bytes: int | None = None) -> None:
        self.model = model
        self.n_slots = 1
        self.constants: dict[int, np.ndarray[Any, Any]] = {}
        self.types: dict[int, onnx.TypeProto] = {}
        self._n_steps = 0
        self._max_bytes = max_bytes
        self._bytes = 0
        #: How many functions around a node are written out only if everything in them is implemented.
        self._trying = 0

    def program(self) -> Block:
        """The main graph."""
        return self._graph(self.model.graph, Scope(self.model.opsets))

    def slot(self, scope: Scope | None = None, name: str = "") -> int:
        """A new slot; what `name` stands for from now on."""
        slot = self.n_slots
        self.n_slots += 1
        if scope is not None and name:
            scope.slots[name] = slot
        return slot

    def _constant(self, array: np.ndarray[Any, Any], scope: Scope, name: str) -> None:
        self.constants[self.slot(scope, name)] = array

    def reserve(self, nbytes: int, label: str) -> None:
        """Refuse constants that would pass the limit."""
        self._bytes += nbytes
        if self._max_bytes is not None and self._bytes > self._max_bytes:
            raise ValueError(f"{label}: the constants take {self._bytes} bytes or more; max_bytes is {self._max_bytes}")

    def _graph(self, graph: onnx.GraphProto, scope: Scope) -> Block:
        if scope.depth > MAX_NESTING:
            raise ValueError(f"prepare: graphs and functions are nested deeper than {MAX_NESTING} levels")
        for tensor in graph.initializer:
            self.reserve(nbytes_of(tensor), f"initializer {tensor.name!r}")
            self._constant(array_of(tensor, self.model.folder), scope, tensor.name)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            self.reserve(dense_nbytes_of(sparse), f"initializer {name!r}")
            self._constant(dense_array_of(sparse, self.model.folder), scope, name)
        # An input that is also an initializer has that value unless it is given another.
        inputs = tuple(
            slot if (slot := scope.slots.get(value.name)) is not None else self.slot(scope, value.name)
            for value in graph.input
        )
        declared = {value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input)}
        self._note_types(declared, scope)
        steps: list[Step] = []
        for index, node in enumerate(graph.node):
            self._node(node, index, scope, steps, declared)
        outputs = tuple(
            self._found(value.name, scope, f"output {value.name!r} of graph {graph.name!r}") for value in graph.output
        )
        return finished(graph.name, inputs, outputs, steps, self.constants)

    def _note_types(self, declared: dict[str, onnx.TypeProto], scope: Scope) -> None:
        for name, slot in scope.slots.items():
            if name in declared and declared[name].WhichOneof("value"):
                self.types[slot] = declared[name]

    def _found(self, name: str, scope: Scope, label: str) -> int:
        slot = scope.find(name)
        if slot is None:
            raise ValueError(f"{label}: nothing before it has the name {name!r}")
        return slot

    def _node(
        self,
        proto: onnx.NodeProto,
        index: int,
        scope: Scope,
        steps: list[Step],
        declared: dict[str, onnx.TypeProto],
    ) -> None:
        self._n_steps += 1
        if self._n_steps > MAX_STEPS:
            raise ValueError(f"prepare: the model has more than {MAX_STEPS} steps")
        domain = domain_of(proto)
        name = f" {proto.name!r}" if proto.name else ""
        names = list(proto.input)
        while names and not names[-1]:
            names.pop()
        label = f"{scope.prefix}node {index} ({proto.op_type}{name})"
        inputs = tuple(self._found(name, scope, label) if name else 0 for name in names)
        function = self.model.functions.get((domain, proto.op_type, getattr(proto, "overload", "")))
        if any(attribute.ref_attr_name for attribute in proto.attribute) and scope.attributes is None:
            raise ValueError(f"{label}: an attribute refers to one of a function, but this is no function")
        if scope.attributes is not None:
            proto = resolved(proto, scope.attributes)
        if function is not None:
            self._call(function, proto, inputs, scope, steps, label)
            return
        if domain not in scope.opsets:
            raise ValueError(f"{label}: the model imports no operator set of the domain {domain!r}")
        schema = schema_of(proto.op_type, scope.opsets[domain], domain)
        version = schema.since_version if schema is not None else scope.opsets[domain]
        label = f"{scope.prefix}node {index} ({proto.op_type}-{version}{name})"
        node = Node(proto, domain, version, schema, label, len(inputs), len(proto.output), folder=self.model.folder)
        if domain == "" and proto.op_type == "Constant":
            self._constant_node(node, scope)
            return
        text = described(proto, names)
        if domain == "" and proto.op_type in CONTROL:
            for attribute in proto.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    node.blocks[attribute.name] = self._graph(attribute.g, scope.inner())
            step = self._step(node, CONTROL[proto.op_type](node), inputs, text)
            step.blocks = tuple(node.blocks.values())
            step.captured = frozenset().union(*(block.captured for block in step.blocks))
        else:
            operator = self._direct(node)
            fallback = operator is None
            if operator is None:
                if self._written_out(node, inputs, scope, steps):
                    return
                if self._trying:
                    raise _NotImplementedHereError
                names += sorted(name for name in outer_names(proto) if scope.find(name) is not None)
                inputs = tuple(self._found(name, scope, label) if name else 0 for name in names)
                types = [self._type_of(slot) for slot in inputs]
                operator = bind_reference(node, names, types, scope.opsets, self.model.proto)
            step = self._step(node, operator, inputs, text)
            step.fallback = fallback
            step.computes = fallback or proto.op_type in ARITHMETIC
        step.outputs = tuple(self.slot(scope, name) for name in proto.output)
        steps.append(step)
        for name, slot in zip(proto.output, step.outputs, strict=True):
            if name in declared and declared[name].WhichOneof("value"):
                self.types[slot] = declared[name]

    def _direct(self, node: Node) -> Operator | None:
        """The operator as seqarray implements it."""
        if node.domain:
            return None
        since, bind = _OPERATORS.get(node.proto.op_type, (0, None))
        return bind(node) if bind is not None and node.version >= since else None

    def _written_out(self, node: Node, inputs: tuple[int, ...], scope: Scope, steps: list[Step]) -> bool:
        """Whether an operator that is a function has become the nodes of it, because all of them are implemented."""
        if node.schema is None:
            return False
        before, written = self._n_steps, list[Step]()
        self._trying += 1
        try:
            types = [self._type_of(slot) for slot in inputs]
            function = body_of(node.schema, scope.opsets[node.domain], node.proto, types)
            if function is None:
                return False
            self._call(function, with_defaults(node.proto, node.schema), inputs, scope, written, node.label)
        except (_NotImplementedHereError, TypeError, ValueError):
            self._n_steps = before
            return False
        finally:
            self._trying -= 1
        steps += written
        return True

    def _type_of(self, slot: int) -> onnx.TypeProto | None:
        """The type of a value, as far as the model says it; that of a missing input is empty."""
        if slot == 0:
            return onnx.TypeProto()
        if slot in self.constants:
            array = self.constants[slot]
            return helper.make_tensor_type_proto(ONNX_TYPES[element_type_of(array.dtype)].code, array.shape)
        return self.types.get(slot)

    def _step(self, node: Node, operator: Operator, inputs: tuple[int, ...], text: str) -> Step:
        return Step(node.label, operator.function, operator.roles, inputs, (), text=text)

    def _constant_node(self, node: Node, scope: Scope) -> None:
        self._constant(constant_of(node, self.reserve), scope, node.proto.output[0])

    def _call(
        self,
        function: onnx.FunctionProto,
        proto: onnx.NodeProto,
        inputs: Sequence[int],
        scope: Scope,
        steps: list[Step],
        label: str,
    ) -> None:
        """Write out the nodes of a function that a node calls."""
        key = (domain_of(function), function.name, getattr(function, "overload", ""))
        if key in scope.callers:
            raise ValueError(f"{label}: the function calls itself")
        if len(scope.callers) + scope.depth >= MAX_NESTING:
            raise ValueError(f"{label}: graphs and functions are nested deeper than {MAX_NESTING} levels")
        if len(inputs) > len(function.input) or len(proto.output) > len(function.output):
            raise ValueError(
                f"{label}: it has {len(inputs)} inputs and {len(proto.output)} outputs; the function has "
                f"{len(function.input)} and {len(function.output)}"
            )
        given = {attribute.name: attribute for attribute in proto.attribute}
        defaults = {attribute.name: attribute for attribute in getattr(function, "attribute_proto", ())}
        called = Scope(
            opsets_of(function),
            attributes=defaults | given,
            prefix=f"{label}: ",
            depth=scope.depth,
            callers=(*scope.callers, key),
        )
        called.slots = dict(zip(function.input, (*inputs, *[0] * len(function.input)), strict=False))
        for index, node in enumerate(function.node):
            self._node(node, index, called, steps, {})
        for name, output in zip(proto.output, function.output, strict=False):
            if name:
                scope.slots[name] = self._found(output, called, f"{label}: output {output!r}")


def dense_nbytes_of(sparse: onnx.SparseTensorProto) -> int:
    """Bytes of a sparse tensor with all its zeros."""
    shaped = onnx.TensorProto(data_type=sparse.values.data_type, dims=sparse.dims)
    return nbytes_of(shaped)


def described(proto: onnx.NodeProto, inputs: Iterable[str]) -> str:
    """A node as it is printed."""
    shown = ", ".join(inputs)
    return f"{', '.join(proto.output)} = {proto.op_type}({shown})"


def finished(
    name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], steps: list[Step], constants: dict[int, Any]
) -> Block:
    """A block whose steps know which values die with them."""
    own = set(inputs).union(*(step.outputs for step in steps)) - constants.keys()
    needed = set(outputs)
    used: set[int] = set(outputs)
    for step in reversed(steps):
        read = {*step.inputs, *step.captured}
        step.dead = tuple(((read | set(step.outputs)) & own) - needed)
        needed |= read
        used |= read
    captured = frozenset(used - own - constants.keys() - {0})
    return Block(name, inputs, outputs, steps, captured, tuple(own & {*inputs, *outputs}))
