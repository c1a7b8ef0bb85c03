"""The operators whose attributes are graphs: If, Loop and SequenceMap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seqarray._dtypes import element_type_of
from seqarray._operators import concat_from_sequence, sequence_map
from seqarray._sequence import ArraySequence
from seqarray.onnx._load.type_protos import ValueType, value_type
from seqarray.onnx._ops.node import Node, Operator
from seqarray.onnx._run.executor import Block, Run, Step, condition_of, count_of, described, execute

_TRUE = np.asarray(True)


def _leave(block: Block, run: Run) -> list[Any]:
    """The outputs of a graph that has been run; its slots are emptied."""
    values = run.values
    outputs = [values[slot] for slot in block.outputs]
    for slot in block.own:
        values[slot] = None
    if run.budget is not None:
        run.budget.update(values, block.own)
    return outputs


def bind_if(node: Node) -> Operator:
    """If: one of two graphs, whose outputs are those of the node."""
    then_branch, else_branch = node.blocks["then_branch"], node.blocks["else_branch"]
    for name, branch in (("then_branch", then_branch), ("else_branch", else_branch)):
        if branch.inputs:
            raise ValueError(f"{node.label}: attribute {name!r} has {len(branch.inputs)} inputs; a branch has none")
        if len(branch.outputs) != node.n_outputs:
            raise ValueError(
                f"{node.label}: attribute {name!r} has {len(branch.outputs)} outputs; the node has {node.n_outputs}"
            )

    def run_if(run: Run, step: Step) -> Sequence[Any]:
        condition = run.read(run.values[step.inputs[0]])
        branch = then_branch if condition_of(condition, "input 0 (cond)") else else_branch
        execute(branch.steps, run)
        return _leave(branch, run)

    return Operator(run_if)


def _declared(node: Node, name: str) -> list[ValueType]:
    """The types that the graph in an attribute declares for its outputs."""
    return [
        value_type(output.type, f"{node.label}: output {output.name!r} of attribute {name!r}")
        for output in node.attributes[name].output
    ]


def bind_loop(node: Node) -> Operator:
    """Loop: a graph that runs a number of times, as long as a condition holds, on values that it carries along."""
    body = node.blocks["body"]
    n_carried = max(node.n_inputs - 2, 0)
    n_scans = len(body.outputs) - 1 - n_carried
    if len(body.inputs) != n_carried + 2 or n_scans < 0 or node.n_outputs > n_carried + n_scans:
        raise ValueError(
            f"{node.label}: with {n_carried} values carried and {node.n_outputs} outputs, attribute 'body' must have "
            f"{n_carried + 2} inputs and at least {max(node.n_outputs, n_carried) + 1} outputs; it has "
            f"{len(body.inputs)} and {len(body.outputs)}"
        )
    number_slot, condition_slot, *carried_slots = body.inputs
    scan_types = _declared(node, "body")[1 + n_carried :]

    def run_loop(run: Run, step: Step) -> Sequence[Any]:
        values = run.values
        given = [values[slot] for slot in step.inputs] + [None] * (2 - len(step.inputs))
        trip_count, condition = map(run.read, given[:2])
        carried = given[2:]
        del given
        # The first iteration takes these along, so nothing else need hold them.
        initial = [slot for slot in step.dead if slot not in step.captured]
        for slot in initial:
            values[slot] = None
        if run.budget is not None:
            run.budget.update(values, initial)
        stop = None if trip_count is None else count_of(trip_count, "input 0 (M)")
        goes_on = True if condition is None else condition_of(condition, "input 1 (cond)")
        condition = _TRUE
        scans: list[list[Any]] = [[] for _ in range(n_scans)]
        number = 0
        while goes_on and (stop is None or number < stop):
            if number == run.max_trip_count:
                raise ValueError(f"the loop goes on after {number} iterations; max_trip_count is {run.max_trip_count}")
            values[number_slot], values[condition_slot] = np.asarray(number), condition
            for slot, value in zip(carried_slots, carried, strict=True):
                values[slot] = value
            value, carried = None, []
            if run.budget is not None:
                run.budget.update(values, body.inputs)
            execute(body.steps, run)
            condition, *carried = _leave(body, run)
            condition = run.read(condition)
            goes_on = condition_of(condition, "the condition that attribute 'body' gives")
            if scans:
                carried, new = carried[:n_carried], carried[n_carried:]
                for index, (scan, value) in enumerate(zip(scans, new, strict=True)):
                    _check_scan(value, scan, index, run)
                    scan.append(value)
            number += 1
        carried += [_joined(scan, scan_types[index], index, run) for index, scan in enumerate(scans)]
        return carried[: node.n_outputs]

    return Operator(run_loop)


def _check_scan(value: Any, scan: list[Any], index: int, run: Run) -> None:
    if value is None or type(value) is ArraySequence:
        raise TypeError(f"scan output {index} is {described(value)}; scan outputs are tensors")
    if scan and _kind(value) != _kind(scan[0]):
        raise ValueError(
            f"scan output {index} is {described(value)} in iteration {len(scan)}; it was {described(scan[0])} before"
        )
    if run.budget is not None:
        # Twice: once in the list, once in the tensor that is made of it.
        run.budget.reserve(2 * (len(scan) + 1) * run.budget.size_of(value))


def _kind(array: Any) -> tuple[str, tuple[Any, ...]]:
    return element_type_of(array.dtype), tuple(array.shape)


def _joined(scan: list[Any], declared: ValueType, index: int, run: Run) -> Any:
    """The values of all iterations along a new first axis."""
    if scan:
        return concat_from_sequence(run.placed(scan, "s"), axis=0, new_axis=1, copy=None)
    if declared.element_type is None or declared.sequence or declared.optional:
        raise ValueError(
            f"there are no iterations, and the body does not say that scan output {index} is a tensor of a type"
        )
    shape = (0, *(length if isinstance(length, int) else 0 for length in declared.shape or ()))
    return run.empty(shape, declared.element_type)


def bind_sequence_map(node: Node) -> Operator:
    """SequenceMap: a graph that runs for every element of a sequence."""
    body = node.blocks["body"]
    if len(body.inputs) != node.n_inputs or len(body.outputs) != node.n_outputs:
        raise ValueError(
            f"{node.label}: the node has {node.n_inputs} inputs and {node.n_outputs} outputs; attribute 'body' has "
            f"{len(body.inputs)} and {len(body.outputs)}"
        )
    declared = [output.element_type for output in _declared(node, "body")]

    def run_map(run: Run, step: Step) -> Sequence[Any]:
        values = run.values
        sequence, *others = [values[slot] for slot in step.inputs]
        if type(sequence) is not ArraySequence:
            raise TypeError(f"input 0 (input_sequence) is {described(sequence)}; expected a sequence")
        for index, other in enumerate(others, start=1):
            if other is None:
                raise ValueError(f"input {index} is an empty optional")
        # `sequence_map` takes arrays of every library, so a value on the host may stay there.
        held = 0

        def mapped(*arguments: Any) -> tuple[Any, ...]:
            nonlocal held
            for slot, argument in zip(body.inputs, arguments, strict=True):
                values[slot] = argument
            if run.budget is not None:
                run.budget.update(values, body.inputs)
            execute(body.steps, run)
            outputs = tuple(run.on_device(output) for output in _leave(body, run))
            for index, output in enumerate(outputs):
                if output is None or type(output) is ArraySequence:
                    raise TypeError(f"output {index} of attribute 'body' is {described(output)}; expected a tensor")
            if run.budget is not None:
                held += sum(map(run.budget.size_of, outputs))
                run.budget.reserve(held)
            return outputs

        dtypes = None if sequence else [element_type or sequence.element_type for element_type in declared]
        results = sequence_map(sequence, *others, body=mapped, n_outputs=node.n_outputs, dtypes=dtypes)
        return results if isinstance(results, tuple) else (results,)

    return Operator(run_map)


CONTROL: dict[str, Callable[[Node], Operator]] = {"If": bind_if, "Loop": bind_loop, "SequenceMap": bind_sequence_map}
