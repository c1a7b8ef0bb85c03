"""The compilation of a graph to steps: names become slots, operators become kernels, functions are inlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper

from seqarray._dtypes import ONNX_TYPES, element_type_of
from seqarray._libraries import NUMPY
from seqarray.onnx._load.inlining import function_of, substitute_attributes, with_defaults
from seqarray.onnx._load.model import MAX_NESTING, Model, domain_of, function_key, opsets_of, tensors_of
from seqarray.onnx._load.names import plain, short
from seqarray.onnx._load.pruning import needed_for
from seqarray.onnx._load.tensor_protos import (
    array_of,
    dense_array_of,
    dense_nbytes_of,
    embed_external,
    is_external,
    nbytes_of,
)
from seqarray.onnx._ops.closures import binder_of
from seqarray.onnx._ops.constant import constant_value
from seqarray.onnx._ops.control_flow import CONTROL_FLOW_KERNELS
from seqarray.onnx._ops.deviations import deviates_in_onnxruntime
from seqarray.onnx._ops.math import MATH_KERNELS
from seqarray.onnx._ops.node import Kernel, KernelFactory, Node, schema_of
from seqarray.onnx._ops.reference import LazyReference, make_reference
from seqarray.onnx._ops.result_types import result_types, without_shape
from seqarray.onnx._ops.sequence import SEQUENCE_KERNELS
from seqarray.onnx._ops.shape import SHAPE_KERNELS
from seqarray.onnx._partition import Candidate
from seqarray.onnx._regions import Regions
from seqarray.onnx._run.budget import Clock, Limits
from seqarray.onnx._run.placement import Placement, Target
from seqarray.onnx._run.sessions import SessionMaker
from seqarray.onnx._run.steps import NodeInfo, Step, Subgraph, make_subgraph
from seqarray.onnx._scope import Scope
from seqarray.onnx._texts import info_of

#: op_type -> (first supported version, kernel factory)
_KERNELS: dict[str, tuple[int, KernelFactory]] = {**SEQUENCE_KERNELS, **MATH_KERNELS, **SHAPE_KERNELS}

#: Operators with kernels that neither take nor give sequences.
_ON_TENSORS = frozenset({*MATH_KERNELS, *SHAPE_KERNELS, "Concat", "Split"})

#: The maximum number of steps of a program after inlining.
MAX_STEPS = 50_000

#: How much may be compiled: nodes and names count one each, also those of functions whose inlining is given up.
MAX_WORK = 1_000_000

#: In a function, every so many bytes of a node count one more: a function may be called many times.
_BYTES_OF_WORK = 256


class _ReferenceNeededError(Exception):
    """A node of a function that may be inlined has no kernel here."""


class Compiler:
    """Compiles the graphs of one model.

    Attributes
    ----------
    constants : dict
        Slot to the value of an initializer or a Constant.
    n_slots : int
        How many slots there are.
    scope : Scope
        The names of the main graph.
    ambiguous : list of str
        The labels of the nodes that mean something else to the exporters of torch and to onnxruntime.
    """

    def __init__(
        self,
        model: Model,
        limits: Limits,
        clock: Clock,
        maker: SessionMaker | None = None,
        *,
        target: Target | None = None,
        applies_keepdims: bool = False,
        initializers: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> None:
        self.model = model
        self.n_slots = 1
        self.constants: dict[int, np.ndarray[Any, Any]] = {}
        self.scope = Scope(model.opsets)
        self.ambiguous: list[str] = []
        self._applies_keepdims = applies_keepdims
        #: Values of initializers of the main graph that have been read before.
        self._initializers = initializers or {}
        self._types: dict[int, onnx.TypeProto] = {}
        self._n_steps = 0
        self._work = 0
        self._limits = limits
        self._clock = clock
        self._bytes = 0
        #: Whether a limit has been passed, which no error of an inlining that is given up must hide.
        self._is_over = False
        #: How many functions are being inlined on the condition that all their nodes have kernels.
        self._conditional_inlinings = 0
        #: How many nodes are being compiled to the steps that run them outside of a region.
        self._alone = 0
        self._regions: Regions | None = None
        if maker is not None:
            is_bounded = any(limit is not None for limit in limits)
            self._regions = Regions(
                model, maker, target or Target(NUMPY, None), is_bounded, self.constants, self._types, clock
            )

    def compile(self, outputs: Sequence[str] | None = None) -> Subgraph:
        """Compile the main graph, or what of it some of its values need."""
        self.scope = Scope(self.model.opsets)
        return self._compile_graph(self.model.graph, self.scope, outputs)

    def _new_slot(self, scope: Scope, name: str) -> int:
        """Return a new slot, to which the name refers from now on."""
        slot = self.n_slots
        self.n_slots += 1
        if name:
            scope.slots[name] = slot
        return slot

    def _slot_of(self, name: str, scope: Scope, label: str) -> int:
        """Return the slot of a name; raise a ValueError if no node before defines it."""
        slot = scope.find(name)
        if slot is None:
            raise ValueError(f"{label}: nothing before it has the name {name!r}")
        return slot

    def _reserve(self, nbytes: int, label: str) -> None:
        """Raise a ValueError if a further constant would exceed the limit on bytes."""
        self._bytes += max(0, nbytes)
        limit = self._limits.max_bytes
        if limit is not None and self._bytes > limit:
            self._is_over = True
            raise ValueError(f"{label}: the constants take {self._bytes} bytes or more; max_bytes is {limit}")

    def _count_work(self, amount: int) -> None:
        """Raise a ValueError if too much has been compiled, or for too long."""
        self._work += amount
        if self._work > MAX_WORK:
            self._is_over = True
            raise ValueError(f"prepare: there are more than {MAX_WORK} nodes and names to compile; functions expand")
        self._clock.check()

    def _compile_graph(
        self, graph: onnx.GraphProto, scope: Scope, outputs_wanted: Sequence[str] | None = None
    ) -> Subgraph:
        """Compile a graph, or what some of its values need; the scope gets the names that it defines."""
        needed = None if outputs_wanted is None else needed_for(graph, outputs_wanted)
        names = [value.name for value in graph.output] if outputs_wanted is None else outputs_wanted
        if scope.depth > MAX_NESTING:
            raise ValueError(f"prepare: graphs and functions are nested deeper than {MAX_NESTING} levels")
        self._count_work(len(graph.initializer) + len(graph.input) + len(graph.output) + len(graph.value_info))
        for tensor in graph.initializer:
            if needed is not None and tensor.name not in needed.names:
                continue
            self._reserve(nbytes_of(tensor), f"initializer {short(tensor.name)!r}")
            known = self._initializers.get(tensor.name) if scope is self.scope else None
            array = array_of(tensor, self.model.folder) if known is None else known
            self.constants[self._new_slot(scope, tensor.name)] = array
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            if needed is not None and name not in needed.names:
                continue
            self._reserve(dense_nbytes_of(sparse), f"initializer {short(name)!r}")
            self.constants[self._new_slot(scope, name)] = dense_array_of(sparse, self.model.folder)
        # An initializer with the name of an input is its default.
        inputs = tuple(
            slot if (slot := scope.slots.get(value.name)) is not None else self._new_slot(scope, value.name)
            for value in graph.input
        )
        if self._regions is not None:
            self._regions.replaceable.update(inputs)
        declared = {value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input)}
        for name, slot in scope.slots.items():
            # What is fed is checked.  Other shapes are what exporters believe, which onnxruntime would insist on.
            self._record_type(slot, declared.get(name) if scope is self.scope else without_shape(declared.get(name)))
        steps: list[Step] = []
        for index, node in enumerate(graph.node):
            if needed is None or index in needed.nodes:
                self._compile_node(node, index, scope, steps, declared)
        outputs = tuple(self._slot_of(name, scope, f"output {name!r} of graph {graph.name!r}") for name in names)
        if self._regions is not None:
            steps = self._regions.partition(steps, outputs, prepares=not self._alone)
        return make_subgraph(plain(graph.name), inputs, outputs, steps, self.constants)

    def _record_type(self, slot: int, declared: onnx.TypeProto | None) -> None:
        """Record the declared type of a slot, if there is one."""
        if declared is not None and declared.WhichOneof("value"):
            self._types[slot] = declared

    def _compile_node(
        self,
        proto: onnx.NodeProto,
        index: int,
        scope: Scope,
        steps: list[Step],
        declared: dict[str, onnx.TypeProto],
    ) -> None:
        """Append what a node becomes: a candidate for a region, or steps."""
        if not all(isinstance(name, str) for name in (*proto.input, *proto.output)):
            raise ValueError(f"{self._label(proto, index, scope)}: the name of an input or output is not UTF-8")
        key = function_key(proto)
        calls = key in self.model.functions and not scope.is_standard
        if self._regions is None or self._regions.is_bounded or self._alone or self._conditional_inlinings or calls:
            self._compile_alone(proto, index, scope, steps, declared)
            return
        if not self._regions.may_join(proto, scope):
            self._compile_alone(proto, index, scope, steps, declared)
            return
        own: list[Step] = []
        self._alone += 1
        try:
            self._compile_alone(proto, index, scope, own, declared)
        finally:
            self._alone -= 1
        if (len(own) == 1 and isinstance(own[0], Candidate)) or not self._has_bool_condition(proto, own):
            steps += own
            return
        if scope.attributes is not None:
            proto = substitute_attributes(proto, scope.attributes)
        inputs = tuple((scope.find(name) or 0) if name else 0 for name in proto.input)
        outputs = tuple(scope.slots[name] if name else 0 for name in proto.output)
        _, version = _schema_of(proto, scope)
        label = self._label(proto, index, scope, version)
        info = info_of(proto, domain_of(proto), version, label, inputs, self.constants)
        candidate = self._regions.make_candidate(proto, info, scope, inputs, outputs)
        candidate.own = own
        steps.append(candidate)

    def _compile_alone(
        self,
        proto: onnx.NodeProto,
        index: int,
        scope: Scope,
        steps: list[Step],
        declared: dict[str, onnx.TypeProto],
    ) -> None:
        """Append the steps of a node: one, none for a Constant, or those of a function that it calls."""
        self._n_steps += 1
        if self._n_steps > MAX_STEPS:
            self._is_over = True
            raise ValueError(f"prepare: the model has more than {MAX_STEPS} steps")
        self._count_work(1 + len(proto.input) + len(proto.output))
        if scope.callers:
            self._count_work(proto.ByteSize() // _BYTES_OF_WORK)
        domain = domain_of(proto)
        names = list(proto.input)
        while names and not names[-1]:
            names.pop()
        label = self._label(proto, index, scope)
        inputs = tuple(self._slot_of(name, scope, label) if name else 0 for name in names)
        function = None
        if not scope.is_standard:
            function = self.model.functions.get(function_key(proto))
        if any(attribute.ref_attr_name for attribute in proto.attribute) and scope.attributes is None:
            raise ValueError(f"{label}: an attribute refers to one of a function, but this is no function")
        if scope.attributes is not None:
            if any(attribute.ref_attr_name for attribute in proto.attribute):
                self._count_work(sum(given.ByteSize() for given in scope.attributes.values()) // _BYTES_OF_WORK)
            proto = substitute_attributes(proto, scope.attributes)
        if function is not None:
            self._inline(function, proto, inputs, scope, steps, label)
            return
        if domain not in scope.opsets:
            raise ValueError(f"{label}: the model imports no operator set of the domain {domain!r}")
        schema, version = _schema_of(proto, scope)
        label = self._label(proto, index, scope, version)
        if not (domain == "" and (proto.op_type == "Constant" or proto.op_type in CONTROL_FLOW_KERNELS)):
            proto = self._without_external(proto, label)
        node = Node(proto, domain, version, schema, label, len(inputs), len(proto.output), folder=self.model.folder)
        node.output_types = [declared.get(name) for name in proto.output]
        node.opsets, node.find = scope.opsets, scope.find
        node.applies_keepdims = self._applies_keepdims
        if domain == "" and proto.op_type == "SplitToSequence" and self._ignores_keepdims(node, inputs):
            self.ambiguous.append(label)
        if domain == "" and proto.op_type == "Constant":
            self.constants[self._new_slot(scope, proto.output[0])] = constant_value(node, self._reserve)
            return
        info = info_of(proto, domain, version, label, inputs, self.constants)
        if domain == "" and proto.op_type in CONTROL_FLOW_KERNELS:
            for attribute in proto.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    node.subgraphs[attribute.name] = self._compile_graph(attribute.g, scope.inner())
            step = self._make_step(node, CONTROL_FLOW_KERNELS[proto.op_type](node), inputs, info)
            step.subgraphs = tuple(node.subgraphs.values())
            step.captured = frozenset().union(*(subgraph.captured for subgraph in step.subgraphs))
        else:
            kernel = self._find_kernel(node)
            fallback = kernel is None
            if kernel is None:
                if self._inline_definition(node, inputs, scope, steps):
                    return
                if self._conditional_inlinings:
                    raise _ReferenceNeededError
                types = [self._type_of(slot) for slot in inputs]
                self._reserve(proto.ByteSize(), label)
                values = [self.constants.get(slot) for slot in inputs]
                version_of_ir = self.model.proto.ir_version
                make = partial(make_reference, node, names, types, values, scope.opsets, version_of_ir, self._limits)
                if self._regions is not None:
                    self._append_candidate(node, make, inputs, info._replace(fallback=True), scope, steps)
                    return
                kernel = make()
            step = self._make_step(node, kernel, inputs, info._replace(fallback=fallback))
            step.fallback, step.engine = fallback, "onnx.reference" if fallback else ""
            step.computes = fallback or proto.op_type in MATH_KERNELS
        step.outputs = tuple(self._new_slot(scope, name) for name in proto.output)
        steps.append(step)
        for name, slot in zip(proto.output, step.outputs, strict=True):
            self._record_type(slot, without_shape(declared.get(name)))
        if self._regions is not None:
            self._infer_types(node, inputs, step.outputs)
            self._regions.mark_host(proto.op_type, inputs, step.outputs, has_kernel=not step.subgraphs)

    def _has_bool_condition(self, proto: onnx.NodeProto, own: list[Step]) -> bool:
        """Return whether a node is no Loop whose body gives a condition of another type, which kernels explain."""
        if proto.op_type != "Loop" or not own[0].subgraphs:
            return True
        declared = self._type_of(own[0].subgraphs[0].outputs[0])
        return declared is None or declared.tensor_type.elem_type == onnx.TensorProto.BOOL

    def _label(self, proto: onnx.NodeProto, index: int, scope: Scope, version: int | None = None) -> str:
        """Return a node as error messages name it, without a version while that is not known."""
        domain = domain_of(proto)
        operator = (f"{plain(domain)}." if domain else "") + plain(proto.op_type)
        operator += "" if version is None else f"-{version}"
        name = f" {short(proto.name)!r}" if proto.name else ""
        return f"{scope.prefix}node {index} ({operator}{name})"

    def _append_candidate(
        self,
        node: Node,
        make: Callable[[], Kernel],
        inputs: tuple[int, ...],
        info: NodeInfo,
        scope: Scope,
        steps: list[Step],
    ) -> None:
        """Append a node for which there is no kernel, as a candidate for a region."""
        assert self._regions is not None
        outputs = tuple(self._new_slot(scope, name) for name in node.proto.output)
        candidate = self._regions.make_candidate(node.proto, info, scope, inputs, outputs)
        kernel = LazyReference(node, inputs, make, self._limits)
        candidate.check, candidate.check_alternative = kernel.check, kernel.check_alternative
        candidate.alternative = Step(
            node.label, kernel.run, (Placement.ANY,) * len(inputs), inputs, outputs, computes=True, nodes=(info,)
        )
        if deviates_in_onnxruntime(node.proto):
            kernel.make()
            candidate.alternative.fallback, candidate.alternative.engine = True, "onnx.reference"
            steps.append(candidate.alternative)
        else:
            steps.append(candidate)
        self._infer_types(node, inputs, outputs)

    def _infer_types(self, node: Node, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        """Record the types of the outputs of a node that the model does not declare, as far as its schema tells."""
        if not node.subgraphs:
            inferred = result_types(node, [self._type_of(slot) for slot in inputs])
            for slot, declared in zip(outputs, inferred, strict=True):
                if slot not in self._types:
                    self._record_type(slot, declared)

    def _ignores_keepdims(self, node: Node, inputs: tuple[int, ...]) -> bool:
        """Return whether a SplitToSequence has `keepdims` 0, which the standard ignores, beside a single size."""
        if len(inputs) < 2 or node.attributes.get("keepdims", 1) != 0:
            return False
        return inputs[1] not in self.constants or self.constants[inputs[1]].ndim == 0

    def _without_external(self, proto: onnx.NodeProto, label: str) -> onnx.NodeProto:
        """Return a node whose attributes contain all data of their tensors: onnx would look for it somewhere else."""
        external = [tensor for tensor in tensors_of(proto.attribute) if is_external(tensor)]
        if not external:
            return proto
        for tensor in external:
            self._reserve(nbytes_of(tensor), label)
        copy = onnx.NodeProto()
        copy.CopyFrom(proto)
        for tensor in filter(is_external, tensors_of(copy.attribute)):
            embed_external(tensor, self.model.folder)
        return copy

    def _find_kernel(self, node: Node) -> Kernel | None:
        """Return the kernel of a node without subgraphs; None if there is none here."""
        if node.domain:
            return None
        since, factory = _KERNELS.get(node.proto.op_type, (0, None))
        return factory(node) if factory is not None and node.version >= since else None

    def _inline_definition(self, node: Node, inputs: tuple[int, ...], scope: Scope, steps: list[Step]) -> bool:
        """Inline the function by which the standard defines an operator, if all its nodes have kernels.

        Returns
        -------
        bool
            Whether the steps have been appended.
        """
        if node.schema is None:
            return False
        n_steps_before, n_slots_before, inlined = self._n_steps, self.n_slots, list[Step]()
        self._conditional_inlinings += 1
        try:
            types = [self._type_of(slot) for slot in inputs]
            function = function_of(node.schema, scope.opsets[node.domain], node.proto, types)
            if function is None:
                return False
            called = with_defaults(node.proto, node.schema)
            self._inline(function, called, inputs, scope, inlined, node.label, is_standard=True)
        except (_ReferenceNeededError, TypeError, ValueError):
            if self._is_over:
                raise
            self._clock.check()
            self._n_steps = n_steps_before
            for slot in range(n_slots_before, self.n_slots):
                self.constants.pop(slot, None)
            return False
        finally:
            self._conditional_inlinings -= 1
        steps += inlined
        return True

    def _type_of(self, slot: int) -> onnx.TypeProto | None:
        """Return the declared type of a value, None if there is none; an empty one for an input left out."""
        if slot == 0:
            return onnx.TypeProto()
        if slot in self.constants:
            array = self.constants[slot]
            return helper.make_tensor_type_proto(ONNX_TYPES[element_type_of(array.dtype)].code, array.shape)
        return self._types.get(slot)

    def _make_step(self, node: Node, kernel: Kernel, inputs: tuple[int, ...], info: NodeInfo) -> Step:
        """Make the step of a node; its outputs are set later."""
        step = Step(node.label, kernel.function, kernel.placements_of(len(inputs)), inputs, (), nodes=(info,))
        if not info.fallback:
            is_tensors = not node.domain and node.proto.op_type in _ON_TENSORS
            step.binder = binder_of(node, is_tensors=is_tensors)
        return step

    def _inline(
        self,
        function: onnx.FunctionProto,
        proto: onnx.NodeProto,
        inputs: Sequence[int],
        scope: Scope,
        steps: list[Step],
        label: str,
        *,
        is_standard: bool = False,
    ) -> None:
        """Append the steps of a function that a node calls."""
        self._count_work(len(function.input) + len(function.output))
        key = function_key(function)
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
            is_standard=is_standard or scope.is_standard,
        )
        called.slots = dict(zip(function.input, (*inputs, *[0] * len(function.input)), strict=False))
        for index, node in enumerate(function.node):
            self._compile_node(node, index, called, steps, {})
        for name, output in zip(proto.output, function.output, strict=False):
            if name:
                scope.slots[name] = self._slot_of(output, called, f"{label}: output {output!r}")


def _schema_of(proto: onnx.NodeProto, scope: Scope) -> tuple[Any, int]:
    """Return the schema of the operator of a node, None if onnx has none, and the version of the operator."""
    newest = scope.opsets[domain_of(proto)]
    schema = schema_of(proto.op_type, newest, domain_of(proto))
    return schema, newest if schema is None else int(schema.since_version)
