"""The regions of a program: which nodes may be in one, and what runs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import onnx

from seqarray.onnx._load.model import MAX_NESTING, Model, domain_of, function_key, graphs_of
from seqarray.onnx._load.names import short
from seqarray.onnx._ops.closures import SESSION, TENSORS
from seqarray.onnx._ops.deviations import deviates_in_onnxruntime
from seqarray.onnx._ops.regions import Region, RegionModel, free_names, renamed
from seqarray.onnx._ops.result_types import is_tensor, tensor_type
from seqarray.onnx._partition import Candidate, partition
from seqarray.onnx._run.budget import Clock
from seqarray.onnx._run.placement import FEW_VALUES, Target
from seqarray.onnx._run.sessions import SessionMaker
from seqarray.onnx._run.steps import NodeInfo, Step, Subgraph, make_subgraph
from seqarray.onnx._scope import Scope

#: The operators on sequences and optionals.
SEQUENCE_OPERATORS = frozenset(
    "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty "
    "SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence".split()
)

#: Operators that take sequences and optionals as well as tensors.
_OF_ANY_TYPE = frozenset({"Identity", "If", "Loop"})

#: As many steps of a region as seqarray executes in the time that one call of a session takes.
_FEW_STEPS = 3

#: Operators with kernels whose results stay on the host.
_HOST_RESULTS = frozenset({"OptionalHasElement", "SequenceLength", "Shape"})


class Regions:
    """Makes the regions of one program.

    Parameters
    ----------
    model : Model
        The model.
    maker : SessionMaker
        Makes the sessions.
    target : Target
        What sessions are made for when the program is prepared.
    is_bounded : bool
        Whether the program has limits: each region is then one node without a kernel.
    constants : dict
        The values of constants by slot.
    types : dict
        The types of values by slot, as far as they are known.
    clock : Clock
        The time that preparing may take.
    """

    def __init__(
        self,
        model: Model,
        maker: SessionMaker,
        target: Target,
        is_bounded: bool,
        constants: dict[int, np.ndarray[Any, Any]],
        types: dict[int, onnx.TypeProto],
        clock: Clock,
    ) -> None:
        self._model = model
        self._maker = maker
        self._is_direct = maker.is_direct(target)
        self._cuda_index = None if target.shares_host_memory else target.cuda_index
        self.is_bounded = is_bounded
        self._constants = constants
        self._types = types
        self._clock = clock
        #: Slots of constants that an input of the graph may replace.
        self.replaceable: set[int] = set()
        #: Slots of values that are lengths, or computed of lengths, and stay on the host.
        self._on_host: set[int] = set()
        #: Slots of tensors, of which no more may be known.
        self._tensors: set[int] = set()
        self._functions_of_ours: dict[Any, bool] = {}
        self._regions: dict[Step, Region] = {}
        #: The regions of one node that seqarray has no kernel for.
        self._singles: dict[Step, Candidate] = {}
        maker.is_bounded = is_bounded
        # The threads of a session that wait for its next run would take the processors from the next session.
        maker.has_several = self._are_ours(model.graph.node)

    def may_join(self, proto: onnx.NodeProto, scope: Scope) -> bool:
        """Return whether a node, which calls no function of the model, may be in a region."""
        domain, op_type = domain_of(proto), proto.op_type
        if domain == "" and op_type == "Constant":
            return False
        read = {name: scope.find(name) for name in {*proto.input, *free_names(proto)} - {""}}
        if None in read.values() or domain not in scope.opsets:
            return False
        if op_type == "Scan" and domain == "" and scope.opsets[""] > 8:
            # It is a region of its own, passed on only if it has items.  onnxruntime wants shapes to be declared.
            graphs = [graph for attribute in proto.attribute for graph in graphs_of(attribute)]
            declared = [output.type.tensor_type for graph in graphs for output in graph.output]
            if any(self._are_ours(graph.node) for graph in graphs) or not all(t.HasField("shape") for t in declared):
                return False
        elif self._are_ours([proto]):
            return False
        captured = [scope.find(name) for name in free_names(proto)]
        if 0 in captured:
            return False
        types = [self._type_of(slot) for slot in read.values() if slot]
        if domain == "" and op_type in _OF_ANY_TYPE:
            return all(map(is_tensor, types))
        return all(declared is None or is_tensor(declared) for declared in types)

    def _type_of(self, slot: int) -> onnx.TypeProto | None:
        """Return a type of the kind of a value, a tensor or another; None if it is not known."""
        is_some_tensor = slot in self._constants or slot in self._tensors
        return tensor_type("float32") if is_some_tensor else self._types.get(slot)

    def _are_ours(self, nodes: Any, depth: int = 0) -> bool:
        """Return whether one of the nodes, or of those of their graphs and functions, must not be in a session."""
        if depth > MAX_NESTING:
            return True  # The compiler refuses it.
        for node in nodes:
            key = function_key(node)
            function = self._model.functions.get(key)
            if function is not None:
                if key not in self._functions_of_ours:
                    self._functions_of_ours[key] = True  # A function that calls itself runs nowhere.
                    self._functions_of_ours[key] = self._are_ours(function.node, depth + 1)
                if self._functions_of_ours[key]:
                    return True
            elif key[0] == "" and _is_ours(node):
                return True
            graphs = [graph for attribute in node.attribute for graph in graphs_of(attribute)]
            if any(self._are_ours(graph.node, depth + 1) for graph in graphs):
                return True
        return False

    def _is_standard(self, nodes: Iterable[onnx.NodeProto]) -> bool:
        """Return whether nodes and those in their graphs are the standard's, which make tensors of tensors."""
        return all(
            domain_of(node) == ""
            and function_key(node) not in self._model.functions
            and all(self._is_standard(graph.node) for attribute in node.attribute for graph in graphs_of(attribute))
            for node in nodes
        )

    def make_candidate(
        self,
        proto: onnx.NodeProto,
        info: NodeInfo,
        scope: Scope,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> Candidate:
        """Return a node as a candidate, as yet without steps that run it otherwise."""
        names = {name: scope.find(name) or 0 for name in {*proto.input, *free_names(proto)} - {""}}
        captured = frozenset(slot for name in free_names(proto) if (slot := names[name]))
        if self._is_standard([proto]):
            self._tensors.update(outputs)
        return Candidate(
            info.label,
            _not_executed,
            (),
            inputs,
            tuple(slot for slot, name in zip(outputs, proto.output, strict=True) if name),
            captured=captured,
            nodes=(info,),
            proto=renamed(proto, names, outputs),
            names={slot: short(name) for name, slot in [*names.items(), *zip(proto.output, outputs, strict=True)]},
            opsets=scope.opsets,
        )

    def mark_host(self, op_type: str, inputs: Sequence[int], outputs: Sequence[int], has_kernel: bool) -> None:
        """Note which results of a node stay on the host."""
        derived = has_kernel and any(inputs) and all(slot in self._on_host or self._is_small(slot) for slot in inputs)
        if op_type in _HOST_RESULTS or derived:
            self._on_host.update(outputs)

    def _is_small(self, slot: int) -> bool:
        """Return whether a slot holds nothing, or a constant that stays on the host."""
        return slot == 0 or (slot in self._constants and self._constants[slot].size <= FEW_VALUES)

    def partition(self, steps: Sequence[Step], needed: Collection[int], *, prepares: bool) -> list[Step]:
        """Return the steps of a graph with all candidates replaced by regions.

        Parameters
        ----------
        steps : sequence of Step
            The steps in order.
        needed : collection of int
            The slots that are read after all steps.
        prepares : bool
            Whether sessions are made now.  Those of steps that are there for want of another session are made if these
            are executed.
        """
        if self.is_bounded:
            made = [made for step in steps for made in self._alone(step)]
        else:
            made = partition(steps, needed, self._make_prepared if prepares else self._make)
        if prepares and self.is_bounded:
            self._prepare(made)
        return made

    def _alone(self, step: Step) -> list[Step]:
        """Return the steps of a step that shares no region with others."""
        return self._make([step], step.outputs) if isinstance(step, Candidate) else [step]

    def _make_prepared(self, candidates: list[Candidate], outputs: tuple[int, ...]) -> list[Step]:
        """Return the steps of a region whose session has been made."""
        steps = self._make(candidates, outputs)
        self._prepare(steps)
        return steps

    def _make(self, candidates: list[Candidate], outputs: tuple[int, ...]) -> list[Step]:
        """Return the steps of a region: a session for all nodes, or few kernels."""
        has_kernels = any(candidate.own is not None for candidate in candidates)
        steps = [step for candidate in candidates for step in candidate.own or [candidate]]
        if has_kernels:
            iterates = any(candidate.proto.op_type in ("Loop", "Scan") for candidate in candidates)
            if not iterates and _count(steps) <= _FEW_STEPS and not any(isinstance(step, Candidate) for step in steps):
                return steps
            steps = partition(steps, outputs, self._make)
        elif len(candidates) > 1:
            steps = [made for candidate in candidates for made in self._make([candidate], candidate.outputs)]
        else:
            assert candidates[0].alternative is not None
            steps = [candidates[0].alternative]
        return [self._make_region(candidates, outputs, steps, has_kernels)]

    def _make_region(
        self, candidates: list[Candidate], outputs: tuple[int, ...], steps: list[Step], has_kernels: bool
    ) -> Step:
        """Return the step of a region, given the steps by which its nodes run without a session of them all."""
        label = candidates[0].label
        if len(candidates) > 1:
            label += f" to {candidates[-1].label}"
        written = {slot for candidate in candidates for slot in candidate.outputs}
        read = {slot for candidate in candidates for slot in (*candidate.inputs, *candidate.captured)} - written - {0}
        constants = {slot for slot in read if slot in self._constants and slot not in self.replaceable}
        inputs = tuple(sorted(read - constants))
        opsets: dict[str, int] = {}
        for candidate in candidates:
            opsets |= candidate.opsets
        model = RegionModel(
            [candidate.proto for candidate in candidates],
            [candidate.label for candidate in candidates],
            {slot: name for candidate in candidates for slot, name in candidate.names.items()},
            opsets,
            inputs,
            outputs,
            {slot: self._constants[slot] for slot in constants},
            {slot: self._types[slot] for slot in inputs if is_tensor(self._types.get(slot))},
            self._model.proto.functions,
            self._model.folder,
        )
        is_single = len(candidates) == 1 and not has_kernels
        own = make_subgraph(label, (), outputs, steps, self._constants)
        own_constants = {slot: self._constants[slot] for slot in _slots_of(own) if slot in self._constants}
        region = Region(
            label,
            model,
            self._maker,
            own,
            own_constants,
            has_kernels,
            self._on_host,
            candidates[0].check if is_single and self.is_bounded else None,
            _scanned(candidates[0]),
        )
        step = Step(label, region.run, (), inputs, outputs, computes=True, fallback=is_single, subgraphs=(own,))
        step.engine, step.binder, step.names_itself = "onnxruntime", TENSORS, True
        step.nodes = tuple(info for candidate in candidates for info in candidate.nodes)
        self._regions[step] = region
        if is_single:
            self._singles[step] = candidates[0]
        return step

    def _prepare(self, steps: Sequence[Step]) -> None:
        """Make the sessions that the execution of some steps needs, as far as types are known now."""
        for step in steps:
            self._clock.check()
            region = self._regions.get(step)
            if region is not None and (self._is_direct or not region.has_kernels):
                session = region.prepare(self._cuda_index if self._is_direct else None)
                if session is not None:
                    step.binder = TENSORS if region.scanned else SESSION
                    for slot, element_type in zip(step.outputs, session.output_types, strict=True):
                        self._types.setdefault(slot, tensor_type(element_type))
                if region.refusal is None:
                    continue
                step.engine, step.nodes = "", ()
                if step in self._singles:
                    candidate = self._singles[step]
                    assert candidate.check_alternative is not None
                    candidate.check_alternative(region.refusal)
                    step.engine, step.nodes = "onnx.reference", candidate.nodes
                    continue
            for subgraph in step.subgraphs:
                self._prepare(subgraph.steps)


def _not_executed(*arguments: Any) -> Sequence[Any]:
    """Stand for the function of a candidate, of which no program consists."""
    raise NotImplementedError


def _is_ours(node: onnx.NodeProto) -> bool:
    """Return whether seqarray executes a node itself: one on sequences, or one that onnxruntime executes differently.

    onnxruntime crashes where a Scan has no items, and loses the axes of what a Loop collects in no iterations.
    """
    if node.op_type == "Loop":
        return len(node.output) > len(node.input) - 2
    if node.op_type == "Split":
        return not _is_split_checked(node)
    return node.op_type == "Scan" or node.op_type in SEQUENCE_OPERATORS or deviates_in_onnxruntime(node)


def _scanned(candidate: Candidate) -> list[tuple[int, int]]:
    """Return the slots of what a Scan iterates over, each with its axis; nothing for other operators."""
    node = candidate.proto
    if node.op_type != "Scan" or domain_of(node):
        return []
    attributes = {attribute.name: attribute for attribute in node.attribute}
    count = attributes["num_scan_inputs"].i
    axes = attributes["scan_input_axes"].ints if "scan_input_axes" in attributes else [0] * count
    return list(zip(candidate.inputs[-count:], axes, strict=True))


def _is_split_checked(proto: onnx.NodeProto) -> bool:
    """Return whether a Split is as the standard has it; onnxruntime crashes for outputs left out or one too many."""
    count = next((attribute.i for attribute in proto.attribute if attribute.name == "num_outputs"), len(proto.output))
    return all(proto.output) and count == len(proto.output)


def _slots_of(subgraph: Subgraph) -> set[int]:
    """Return the slots that the steps of a subgraph read, at any depth."""
    read = set(subgraph.outputs)
    for step in subgraph.steps:
        read.update(step.inputs, *map(_slots_of, step.subgraphs))
    return read


def _count(steps: Sequence[Step]) -> float:
    """Return how many steps are executed."""
    return sum(1 + sum(_count(subgraph.steps) for subgraph in step.subgraphs) for step in steps)
