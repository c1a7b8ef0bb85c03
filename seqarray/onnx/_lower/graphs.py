"""Graphs, functions and control flow, lowered node by node: what carries sequences is unrolled, the rest stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from seqarray._arguments import axis_in_range
from seqarray._dtypes import ELEMENT_TYPE_BY_CODE
from seqarray.onnx._load.inlining import substitute_attributes
from seqarray.onnx._load.model import MAX_NESTING, domain_of, function_key, graphs_of, opsets_of
from seqarray.onnx._load.pruning import captured_names, names_read
from seqarray.onnx._load.tensor_protos import DataFolder, array_of, dense_array_of, tensor_of
from seqarray.onnx._lower.builder import MAX_ITEMS, Builder, Tensor, Tensors, Value
from seqarray.onnx._lower.sequences import SEQUENCE_OPERATORS, stack, take
from seqarray.onnx._ops.constant import constant_value
from seqarray.onnx._ops.node import Node, schema_of
from seqarray.onnx._scope import Scope

#: Operators that make a graph one with sequences or optionals.
_WITH_SEQUENCES = SEQUENCE_OPERATORS.keys() - {"Identity"} | {"SequenceMap"}

_Values = dict[str, Value]


class Lowering:
    """Lowers the graphs of one model.

    Parameters
    ----------
    builder : Builder
        Where the nodes are written.
    applies_keepdims : bool
        Whether SplitToSequence follows `keepdims` where a size is given.
    """

    def __init__(self, builder: Builder, applies_keepdims: bool) -> None:
        self._builder = builder
        self._model = builder.model
        #: Whether functions of the model have operators on sequences, as far as it has been found out.
        self._functions: dict[Any, bool] = {}
        self._applies_keepdims = applies_keepdims

    def graph(self, graph: onnx.GraphProto, values: _Values, scope: Scope) -> list[Value]:
        """Lower a graph, given the values of its inputs and of the names around it; return its outputs."""
        if scope.depth > MAX_NESTING:
            raise ValueError(f"lower: graphs and functions are nested deeper than {MAX_NESTING} levels")
        values = dict(values)
        for tensor in graph.initializer:
            if tensor.name not in values or scope.depth:
                values[tensor.name] = initializer(self._builder, tensor, self._model.folder)
        for sparse in graph.sparse_initializer:
            values[sparse.values.name] = self._builder.constant(dense_array_of(sparse, self._model.folder))
        for index, node in enumerate(graph.node):
            self._node(node, index, values, scope)
        return [_found(values, output.name, f"{scope.prefix}output {output.name!r}") for output in graph.output]

    def _node(self, proto: onnx.NodeProto, index: int, values: _Values, scope: Scope) -> None:
        """Lower a node."""
        name = f" {proto.name!r}" if proto.name else ""
        domain = domain_of(proto)
        schema = schema_of(proto.op_type, scope.opsets.get(domain, 0), domain)
        version = schema.since_version if schema is not None else scope.opsets.get(domain, 0)
        label = f"lower: {scope.prefix}node {index} ({proto.op_type}-{version}{name})"
        self._builder.count(1 + len(proto.input), label)
        if scope.attributes is not None:
            proto = substitute_attributes(proto, scope.attributes)
        inputs = [_found(values, name, label) if name else None for name in proto.input]
        while inputs and not proto.input[len(inputs) - 1]:
            inputs.pop()
        function = self._model.functions.get(function_key(proto))
        if function is not None:
            results: Sequence[Value] = self._call(
                function, proto, inputs, scope, f"{scope.prefix}node {index} ({proto.op_type}{name})"
            )
        else:
            node = Node(
                proto, domain, version, schema, label, len(inputs), len(proto.output), folder=self._model.folder
            )
            node.applies_keepdims = self._applies_keepdims
            results = self._lowered(node, inputs, values, scope)
        for name, value in zip(proto.output, results, strict=False):
            if name:
                values[name] = value

    def _lowered(self, node: Node, inputs: list[Value], values: _Values, scope: Scope) -> Sequence[Value]:
        """Return the outputs of a node that calls no function of the model."""
        op_type, builder = node.proto.op_type, self._builder
        if node.domain == "":
            if op_type == "Constant":
                tensor = node.attributes.get("value")
                if tensor is not None:
                    return [initializer(builder, tensor, self._model.folder, node.proto.output[0])]
                return [builder.constant(constant_value(node, lambda *_: None))]
            if op_type in SEQUENCE_OPERATORS:
                return SEQUENCE_OPERATORS[op_type](builder, node, inputs)
            if op_type == "SequenceMap":
                return self._map(node, inputs, values, scope)
            if op_type in ("If", "Loop", "Scan") and self._has_sequences(node, values):
                lower = {"If": self._if, "Loop": self._loop, "Scan": self._scan}[op_type]
                return lower(node, inputs, values, scope)
        return self._kept(node, inputs, values)

    def _has_sequences(self, node: Node, values: _Values) -> bool:
        """Return whether a node of control flow reads, gives or makes a sequence or an optional."""
        captured = [values[name] for name in names_read(node.proto) if name in values]
        if any(not isinstance(value, Tensor) for value in captured):
            return True
        return any(self._makes_sequences(graph.node) for a in node.proto.attribute for graph in graphs_of(a))

    def _makes_sequences(self, nodes: Any) -> bool:
        """Return whether there are operators on sequences among nodes, or in their graphs and functions."""
        for node in nodes:
            key = function_key(node)
            if key in self._model.functions:
                if key not in self._functions:
                    self._functions[key] = True  # a function that calls itself is refused when it is called
                    self._functions[key] = self._makes_sequences(self._model.functions[key].node)
                if self._functions[key]:
                    return True
            elif not key[0] and node.op_type in _WITH_SEQUENCES:
                return True
            if any(self._makes_sequences(graph.node) for a in node.attribute for graph in graphs_of(a)):
                return True
        return False

    def _kept(self, node: Node, inputs: Sequence[Value], values: _Values) -> Sequence[Value]:
        """Append a node as it is, with other names."""
        proto = onnx.NodeProto()
        proto.CopyFrom(node.proto)
        proto.domain = node.domain
        captured: dict[str, Tensor] = {}
        for attribute in proto.attribute:
            for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
                tensor.CopyFrom(tensor_of(array_of(tensor, self._model.folder), tensor.name))
            for graph in graphs_of(attribute):
                read = {name: values[name] for name in captured_names(graph) if name in values}
                names = {name: self._builder.name_of(value, node.label) for name, value in read.items()}
                rename(graph, names, self._builder)
                captured |= {name: value for name, value in read.items() if isinstance(value, Tensor)}
        return self._builder.append(proto, inputs, node.label, captured.values())

    def _call(
        self, function: onnx.FunctionProto, proto: onnx.NodeProto, inputs: list[Value], scope: Scope, label: str
    ) -> list[Value]:
        """Return the outputs of a call of a function of the model."""
        key = function_key(function)
        if key in scope.callers or len(scope.callers) + scope.depth >= MAX_NESTING:
            raise ValueError(f"lower: {label}: functions are nested deeper than {MAX_NESTING} levels")
        opsets = opsets_of(function)
        others = {d: version for d, version in opsets.items() if self._builder.opsets.get(d, version) != version}
        if others:
            raise ValueError(f"lower: {label}: the function imports opsets {others}; others {self._builder.opsets}")
        self._builder.opsets |= opsets
        defaults = {attribute.name: attribute for attribute in function.attribute_proto}
        given = {attribute.name: attribute for attribute in proto.attribute}
        called = Scope(
            opsets,
            attributes=defaults | given,
            prefix=f"{label}: ",
            depth=scope.depth,
            callers=(*scope.callers, key),
        )
        values: _Values = dict(zip(function.input, (*inputs, *[None] * len(function.input)), strict=False))
        for index, node in enumerate(function.node):
            self._node(node, index, values, called)
        return [_found(values, name, f"lower: {label}: output {name!r}") for name in function.output]

    # Control flow that carries sequences

    def _inner(self, scope: Scope, label: str) -> Scope:
        """Return the scope of a graph in a node."""
        inner = scope.inner()
        inner.prefix = f"{label.removeprefix('lower: ')}: "
        return inner

    def _if(self, node: Node, inputs: list[Value], values: _Values, scope: Scope) -> Sequence[Value]:
        """Lower an If: to one of its branches, or to an If that gives the elements of sequences."""
        branches = [node.attributes[name] for name in ("then_branch", "else_branch")]
        inner, condition = self._inner(scope, node.label), inputs[0]
        if isinstance(condition, Tensor) and condition.value is not None:
            value = self._builder.value_of(condition, node.label)
            return self.graph(branches[0 if value.item() else 1], values, inner)
        written = [self._branch(branch, values, inner) for branch in branches]
        results = [outputs for _, outputs in written]
        merged = [self._merged(pair, index, node.label) for index, pair in enumerate(zip(*results, strict=True))]
        flat = [flattened(outputs) for outputs in results]
        graphs = []
        for (nodes, _), tensors, name in zip(written, flat, ("then_branch", "else_branch"), strict=True):
            outputs = [self._output_of(nodes, tensor, node.label) for tensor in tensors]
            graphs.append(helper.make_graph(nodes, name, [], outputs))
        names = [self._builder.fresh("chosen") for _ in flat[0]]
        condition_name = self._builder.name_of(condition, node.label)
        self._builder.nodes.append(
            helper.make_node("If", [condition_name], names, then_branch=graphs[0], else_branch=graphs[1])
        )
        for tensor, name in zip(flattened(merged), names, strict=True):
            tensor.name = name
        return merged

    def _branch(
        self, graph: onnx.GraphProto, values: _Values, scope: Scope
    ) -> tuple[list[onnx.NodeProto], list[Value]]:
        """Return the lowered nodes of a branch, and its outputs."""
        around, self._builder.nodes = self._builder.nodes, []
        try:
            outputs = self.graph(graph, values, scope)
            return self._builder.nodes, outputs
        finally:
            self._builder.nodes = around

    def _output_of(self, nodes: list[onnx.NodeProto], tensor: Tensor, label: str) -> onnx.ValueInfoProto:
        """Return an output of a branch; each is the result of a node in it."""
        name = self._builder.fresh("branch")
        nodes.append(helper.make_node("Identity", [self._builder.name_of(tensor, label)], [name]))
        return helper.make_value_info(name, tensor.type)

    def _merged(self, pair: tuple[Value, Value], index: int, label: str) -> Value:
        """Return what either of two branches gives, as far as both agree."""
        first, second = pair
        if isinstance(first, Tensor) and isinstance(second, Tensor):
            if first.element_type != second.element_type:
                raise ValueError(f"{label}: output {index} is of {first.element_type} or {second.element_type}")
            kind = onnx.TypeProto()
            kind.tensor_type.elem_type = first.type.tensor_type.elem_type
            if first.shape is not None and second.shape is not None and len(first.shape) == len(second.shape):
                kind.tensor_type.shape.SetInParent()
                for a, b in zip(first.shape, second.shape, strict=True):
                    dim = kind.tensor_type.shape.dim.add()
                    if a is not None and a == b:
                        dim.dim_value = a
            return Tensor("", kind, shape_of_inputs=first.shape_of_inputs | second.shape_of_inputs)
        if isinstance(first, Tensors) and isinstance(second, Tensors):
            if len(first.elements) == len(second.elements):
                merged = [
                    self._merged(both, index, label) for both in zip(first.elements, second.elements, strict=True)
                ]
                elements = tuple(tensor for tensor in merged if isinstance(tensor, Tensor))
                return Tensors(elements, first.element_type or second.element_type)
            raise ValueError(
                f"{label}: output {index} is a sequence of {len(first.elements)} or {len(second.elements)} tensors, "
                "by a condition that is not known beforehand"
            )
        if first is second is None:
            return None
        raise ValueError(f"{label}: output {index} is of two kinds, by a condition that is not known beforehand")

    def _loop(self, node: Node, inputs: list[Value], values: _Values, scope: Scope) -> Sequence[Value]:
        """Unroll a Loop."""
        builder, body, label = self._builder, node.attributes["body"], node.label
        trips, condition = (*inputs, None, None)[:2]
        carried, inner = inputs[2:], self._inner(scope, label)
        stop = None if trips is None else int(builder.value_of(trips, f"{label}: the number of iterations").item())
        scans: list[list[Tensor]] = [[] for _ in body.output[1 + len(carried) :]]
        number = 0
        while stop is None or number < stop:
            if condition is not None:
                known = builder.value_of(condition, f"{label}: the condition of iteration {number}")
                if not known.item():
                    break
            builder.count(1, label)
            given = [builder.constant(np.asarray(number)), condition or builder.constant(np.asarray(True)), *carried]
            around = values | dict(zip((value.name for value in body.input), given, strict=True))
            condition, *outputs = self.graph(body, around, inner)
            carried, items = outputs[: len(carried)], outputs[len(carried) :]
            for scan, item in zip(scans, items, strict=True):
                scan.append(_item(item, label))
            number += 1
        declared = body.output[1 + len(carried) :]
        return [*carried, *(self._stacked(scan, value, 0, label) for scan, value in zip(scans, declared, strict=True))]

    def _scan(self, node: Node, inputs: list[Value], values: _Values, scope: Scope) -> Sequence[Value]:
        """Unroll a Scan."""
        builder, body, label = self._builder, node.attributes["body"], node.label
        n_scanned = node.attribute("num_scan_inputs", int, 0)
        states, scanned = (
            inputs[: len(inputs) - n_scanned],
            [_item(x, label) for x in inputs[len(inputs) - n_scanned :]],
        )
        scans: list[list[Tensor]] = [[] for _ in body.output[len(states) :]]
        axes = [
            axis_in_range(axis, len(builder.shape_of(x, f"{label}: an input")), operator=label, of="an input")
            for x, axis in zip(scanned, node.attributes.get("scan_input_axes", [0] * n_scanned), strict=True)
        ]
        backwards = node.attributes.get("scan_input_directions", [0] * n_scanned)
        length = builder.length_of(scanned[0], axes[0], f"{label}: input {len(states)}")
        inner = self._inner(scope, label)
        for number in range(length):
            builder.count(1, label)
            items = [
                take(builder, x, length - 1 - number if backward else number, axis, label)
                for x, axis, backward in zip(scanned, axes, backwards, strict=True)
            ]
            around = values | dict(zip((value.name for value in body.input), [*states, *items], strict=True))
            outputs = self.graph(body, around, inner)
            states = outputs[: len(states)]
            for scan, item in zip(scans, outputs[len(states) :], strict=True):
                scan.append(_item(item, label))
        declared = body.output[len(states) :]
        output_axes = node.attributes.get("scan_output_axes", [0] * len(scans))
        prepends = node.attributes.get("scan_output_directions", [0] * len(scans))
        return [
            *states,
            *(
                self._stacked(scan[::-1] if prepend else scan, value, axis, label)
                for scan, value, axis, prepend in zip(scans, declared, output_axes, prepends, strict=True)
            ),
        ]

    def _stacked(self, scan: list[Tensor], declared: onnx.ValueInfoProto, axis: int, label: str) -> Tensor:
        """Return the items of a scan output along a new axis."""
        if scan:
            rank = len(self._builder.shape_of(scan[0], f"{label}: a scan output"))
            place = axis_in_range(axis, rank, operator=label, of="a scan output", new=True)
            return stack(self._builder, scan, place, label)
        raise ValueError(f"{label}: it has no iterations, so the shape of scan output {declared.name!r} is not known")

    def _map(self, node: Node, inputs: list[Value], values: _Values, scope: Scope) -> Sequence[Value]:
        """Unroll a SequenceMap."""
        body, label, inner = node.attributes["body"], node.label, self._inner(scope, node.label)
        lengths = {len(value.elements) for value in inputs if isinstance(value, Tensors)}
        if not isinstance(inputs[0], Tensors) or len(lengths) != 1:
            raise ValueError(f"{label}: the sequences have lengths {sorted(lengths)}; they must be equal")
        results = []
        for index in range(lengths.pop()):
            given = [value.elements[index] if isinstance(value, Tensors) else value for value in inputs]
            around = values | dict(zip((value.name for value in body.input), given, strict=True))
            results.append([_item(value, label) for value in self.graph(body, around, inner)])
        declared = [ELEMENT_TYPE_BY_CODE.get(output.type.tensor_type.elem_type) for output in body.output]
        return [
            Tensors(tuple(result[place] for result in results), element_type or inputs[0].element_type)
            for place, element_type in enumerate(declared)
        ]


def initializer(builder: Builder, tensor: onnx.TensorProto, folder: DataFolder | None, name: str = "") -> Tensor:
    """Return a constant of the model; one of more items is written at once, others where they are read."""
    array = array_of(tensor, folder)
    constant = builder.constant(array)
    if array.size > MAX_ITEMS:
        # Integers may be sizes.  Other values are not looked at.
        constant.name = builder.write(array, name or tensor.name)
        constant.value = array if array.dtype.kind in "iu" else None
    return constant


def flattened(values: Sequence[Value]) -> list[Tensor]:
    """Return the tensors of values, those of a sequence in order."""
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensors):
            tensors += value.elements
        elif value is not None:
            tensors.append(value)
    return tensors


def rename(graph: onnx.GraphProto, names: dict[str, str], builder: Builder) -> None:
    """Change the names in a graph: those around it, and those that it defines, which must be new ones."""
    names = dict(names)
    for value in (*graph.input, *graph.initializer):
        names[value.name] = value.name = builder.fresh(value.name)
    for sparse in graph.sparse_initializer:
        names[sparse.values.name] = sparse.values.name = builder.fresh(sparse.values.name)
    for node in graph.node:
        builder.name_node(node)
        read = [names.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in graphs_of(attribute):
                rename(inner, names, builder)
        for name in filter(None, node.output):
            names[name] = builder.fresh(name)
        written = [names[name] if name else "" for name in node.output]
        del node.input[:], node.output[:], graph.value_info[:]
        node.input.extend(read)
        node.output.extend(written)
    for output in graph.output:
        output.name = names.get(output.name, output.name)


def _item(value: Value, label: str) -> Tensor:
    """Return a value that has to be a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{label}: an item is no tensor")
    return value


def _found(values: _Values, name: str, label: str) -> Value:
    """Return the value of a name."""
    if name not in values:
        raise ValueError(f"{label}: nothing before it has the name {name!r}")
    return values[name]
