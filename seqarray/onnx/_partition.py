"""The partition of the steps of a graph into regions that are executed as one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import onnx

from seqarray.onnx._run.steps import Step


@dataclass(slots=True, eq=False)
class Candidate(Step):
    """A node without sequences and optionals, which may become part of a region.

    Attributes
    ----------
    proto : onnx.NodeProto
        The node, without references to attributes of a function, between values with the names of slots.
    names : dict
        The names in the model of what it reads and writes, by slot.
    opsets : dict
        Domain to version of the operator sets.
    own : list of Step or None
        The steps by which seqarray runs the node; None if it has no kernel for it.
    alternative : Step or None
        The step by which onnx.reference runs a node without a kernel.
    check : callable or None
        Called with the execution and the inputs on the host before a node without a kernel runs.
    check_alternative : callable or None
        Called with the reason why onnxruntime refuses a node; raises if the alternative does not run it either.
    """

    proto: onnx.NodeProto = field(default_factory=onnx.NodeProto)
    names: dict[int, str] = field(default_factory=dict)
    opsets: dict[str, int] = field(default_factory=dict)
    own: list[Step] | None = None
    alternative: Step | None = None
    check: Callable[..., None] | None = None
    check_alternative: Callable[[Exception], None] | None = None


#: Makes the step of a region of its nodes, and the slots that are read after it.
MakeRegion = Callable[[list[Candidate], tuple[int, ...]], list[Step]]


def partition(steps: Sequence[Step], needed: Collection[int], make_region: MakeRegion) -> list[Step]:
    """Return the steps of a graph with all candidates replaced by the steps of regions.

    A region is as large as it can be without a step that both reads of it and is read by it: its nodes are connected,
    and on every way to them lie equally many changes from other steps to candidates.

    Parameters
    ----------
    steps : sequence of Step
        The steps in order.
    needed : collection of int
        The slots that are read after all steps.
    make_region : callable
        Makes the steps of a region.
    """
    if not any(isinstance(step, Candidate) for step in steps):
        return list(steps)
    levels = _levels(steps)
    groups = _connected(steps, levels)
    readers: dict[int, set[int]] = {}
    for index, step in enumerate(steps):
        for slot in _read(step):
            readers.setdefault(slot, set()).add(index)
    members: dict[int, set[int]] = {}
    for index, group in groups.items():
        members.setdefault(group, set()).add(index)
    ordered: dict[tuple[int, int, int], list[Step]] = {}
    for index, step in enumerate(steps):
        if not isinstance(step, Candidate):
            ordered[levels[index], 1, index] = [step]
        elif index in members:
            inside = members[index]
            region = [step for member in sorted(inside) if isinstance(step := steps[member], Candidate)]
            outputs = tuple(
                slot
                for candidate in region
                for slot in candidate.outputs
                if slot in needed or not readers.get(slot, inside) <= inside
            )
            # What nothing reads need not run.
            ordered[levels[index], 0, index] = make_region(region, outputs) if outputs else []
    return [step for key in sorted(ordered) for step in ordered[key]]


def _read(step: Step) -> set[int]:
    """Return the slots that a step reads."""
    return {*step.inputs, *step.captured}


def _go_together(a: Step, b: Step) -> bool:
    """Return whether two steps are candidates for one region: nodes of one version of the standard's operators.

    A Scan is a region of its own.
    """
    return (
        isinstance(a, Candidate)
        and isinstance(b, Candidate)
        and a.opsets.get("") == b.opsets.get("")
        and "Scan" not in (a.proto.op_type, b.proto.op_type)
    )


def _levels(steps: Sequence[Step]) -> list[int]:
    """Return for each step how often the ways to it change from another step to a candidate, at most."""
    levels: list[int] = []
    producers: dict[int, int] = {}
    for index, step in enumerate(steps):
        level = 0
        for slot in _read(step):
            before = producers.get(slot)
            if before is not None:
                enters = isinstance(step, Candidate) and not _go_together(steps[before], step)
                level = max(level, levels[before] + enters)
        levels.append(level)
        producers.update(dict.fromkeys(step.outputs, index))
    return levels


def _connected(steps: Sequence[Step], levels: Sequence[int]) -> dict[int, int]:
    """Return for each candidate the first one of those of its level that it is connected with."""
    first = {index: index for index, step in enumerate(steps) if isinstance(step, Candidate)}

    def root(index: int) -> int:
        while first[index] != index:
            first[index] = first[first[index]]
            index = first[index]
        return index

    producers: dict[int, int] = {}
    for index, step in enumerate(steps):
        if index in first:
            for slot in _read(step):
                before = producers.get(slot)
                if before is not None and levels[before] == levels[index] and _go_together(steps[before], step):
                    a, b = sorted((root(before), root(index)))
                    first[b] = a
            producers.update(dict.fromkeys(step.outputs, index))
    return {index: root(index) for index in first}
