"""The operators whose attributes are graphs: If, Loop, Scan and SequenceMap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seqarray._arguments import axis_in_range, length_along
from seqarray._dtypes import element_type_of
from seqarray._operators import concat_from_sequence, sequence_map
from seqarray._sequence import ArraySequence
from seqarray.onnx._load.type_protos import ValueType, value_type
from seqarray.onnx._ops.inference import make_inference, type_of
from seqarray.onnx._ops.inputs import as_result, single_bool, single_integer, tensor
from seqarray.onnx._ops.node import Kernel, Node
from seqarray.onnx._run.executor import Execution, execute
from seqarray.onnx._run.placement import Placement
from seqarray.onnx._run.steps import Step, Subgraph
from seqarray.onnx._run.values import describe_value

_TRUE = np.asarray(True)


def _take_outputs(subgraph: Subgraph, execution: Execution) -> list[Any]:
    """Return the outputs of a subgraph that has been executed, and empty its slots."""
    values = execution.values
    outputs = [values[slot] for slot in subgraph.outputs]
    for slot in subgraph.local_slots:
        values[slot] = None
    if execution.budget is not None:
        execution.budget.update(values, subgraph.local_slots)
    return outputs


def make_if(node: Node) -> Kernel:
    """Make the kernel of If, which executes one of two subgraphs."""
    then_branch, else_branch = node.subgraphs["then_branch"], node.subgraphs["else_branch"]
    for name, branch in (("then_branch", then_branch), ("else_branch", else_branch)):
        if branch.inputs:
            raise ValueError(f"{node.label}: attribute {name!r} has {len(branch.inputs)} inputs; a branch has none")
        if len(branch.outputs) != node.n_outputs:
            raise ValueError(
                f"{node.label}: attribute {name!r} has {len(branch.outputs)} outputs; the node has {node.n_outputs}"
            )

    def run_if(execution: Execution, step: Step) -> Sequence[Any]:
        condition = execution.read(execution.values[step.inputs[0]])
        branch = then_branch if single_bool(condition, "input 0 (cond)") else else_branch
        execute(branch.steps, execution)
        return _take_outputs(branch, execution)

    return Kernel(run_if)


def _output_types(node: Node, name: str) -> list[ValueType]:
    """Return the declared types of the outputs of the graph in an attribute."""
    return [
        value_type(output.type, f"{node.label}: output {output.name!r} of attribute {name!r}")
        for output in node.attributes[name].output
    ]


def _stacked_types(node: Node, first: int, count: int) -> list[ValueType]:
    """Return the types that the graph declares for the scan outputs of a node, which begin at some output."""
    types = [*node.output_types[first:], *[None] * count][:count]
    return [ValueType(None) if t is None else value_type(t, f"{node.label}: a scan output") for t in types]


def make_loop(node: Node) -> Kernel:
    """Make the kernel of Loop, which executes a subgraph while a condition holds, up to a number of times."""
    body = node.subgraphs["body"]
    n_carried = max(node.n_inputs - 2, 0)
    n_scans = len(body.outputs) - 1 - n_carried
    if len(body.inputs) != n_carried + 2 or n_scans < 0 or node.n_outputs > n_carried + n_scans:
        raise ValueError(
            f"{node.label}: with {n_carried} values carried and {node.n_outputs} outputs, attribute 'body' must have "
            f"{n_carried + 2} inputs and at least {max(node.n_outputs, n_carried) + 1} outputs; it has "
            f"{len(body.inputs)} and {len(body.outputs)}"
        )
    number_slot, condition_slot, *carried_slots = body.inputs
    scan_types, infer = _output_types(node, "body")[1 + n_carried :], make_inference(node, "body")
    stacked_types = _stacked_types(node, n_carried, n_scans)

    def run_loop(execution: Execution, step: Step) -> Sequence[Any]:
        values = execution.values
        inputs = [values[slot] for slot in step.inputs] + [None] * (2 - len(step.inputs))
        trip_count, condition = map(execution.read, inputs[:2])
        carried = inputs[2:]
        del inputs
        # Slots that are read here for the last time are emptied, so that the first iteration can free their values.
        initial = [slot for slot in step.dead if slot not in step.captured]
        for slot in initial:
            values[slot] = None
        if execution.budget is not None:
            execution.budget.update(values, initial)
        stop = None if trip_count is None else single_integer(trip_count, "input 0 (M)")
        continues = True if condition is None else single_bool(condition, "input 1 (cond)")
        condition = _TRUE
        scans: list[list[Any]] = [[] for _ in range(n_scans)]
        number = held = 0
        while continues and (stop is None or number < stop):
            if execution.budget is not None:
                execution.budget.count_trip()
            values[number_slot], values[condition_slot] = np.asarray(number), condition
            for slot, value in zip(carried_slots, carried, strict=True):
                values[slot] = value
            value, carried = None, []
            if execution.budget is not None:
                execution.budget.update(values, body.inputs)
            execute(body.steps, execution)
            condition, *carried = _take_outputs(body, execution)
            condition = execution.read(condition)
            continues = single_bool(condition, "the condition that attribute 'body' gives")
            if scans:
                carried, new = carried[:n_carried], carried[n_carried:]
                for index, (scan, value) in enumerate(zip(scans, new, strict=True)):
                    held += _append_scan(value, scan, index, execution)
            number += 1
        if number:
            carried += [_stack_scan(scan, execution) for scan in scans]
        elif scans:
            inferred = infer(values, [*map(type_of, [np.asarray(0), _TRUE, *carried])])[1 + n_carried :]
            carried += [
                _empty_scan(types, index, execution)
                for index, types in enumerate(zip(scan_types, inferred, stacked_types, strict=True))
            ]
        if execution.budget is not None:
            execution.budget.release(held)
        return carried[: node.n_outputs]

    return Kernel(run_loop)


def _append_scan(value: Any, scan: list[Any], index: int, execution: Execution) -> int:
    """Append a scan output of one iteration, if it can be stacked with those before it; return the bytes it counts."""
    if value is None or type(value) is ArraySequence:
        raise TypeError(f"scan output {index} is {describe_value(value)}; scan outputs are tensors")
    if scan and _type_and_shape(value) != _type_and_shape(scan[0]):
        raise ValueError(
            f"scan output {index} is {describe_value(value)} in iteration {len(scan)}; "
            f"it was {describe_value(scan[0])} before"
        )
    scan.append(value)
    if execution.budget is None:
        return 0
    # The values in the list and the tensor that is stacked from them are alive together.
    return execution.budget.hold_element(value) + execution.budget.hold_element(value)


def _type_and_shape(array: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the element type and the shape of an array."""
    return element_type_of(array.dtype), tuple(array.shape)


def _stack_scan(scan: list[Any], execution: Execution, axis: int = 0) -> Any:
    """Stack the values of a scan output in all iterations along a new axis, the first unless another is given."""
    placements = (Placement.FOLLOW,) * len(scan)
    return concat_from_sequence(execution.place_arguments(scan, placements), axis=axis, new_axis=1, copy=None)


def _empty_scan(types: tuple[ValueType, ValueType, ValueType], index: int, execution: Execution, axis: int = 0) -> Any:
    """Return a scan output without iterations, whose length is 0 along one axis, and along those that are not known.

    The types are what the body declares for an item, what is inferred for it, and what the graph declares for the
    result.
    """
    declared, inferred, stacked = types
    element_type = declared.element_type or inferred.element_type
    if element_type is None or declared.sequence or declared.optional:
        raise ValueError(
            f"there are no iterations, and the body does not say that scan output {index} is a tensor of a type"
        )
    items = [item.shape for item in (declared, inferred) if item.shape is not None]
    if not items and stacked.shape is None:
        raise ValueError(
            f"there are no iterations, and neither the body nor the graph declares the rank of scan output {index}"
        )
    rank = len(items[0]) + 1 if items else len(stacked.shape or ())
    added = axis_in_range(axis, rank, operator="Scan", of="the output")
    shapes = [(*item[:added], None, *item[added:]) for item in items]
    shape = [0] * rank
    for known in (*shapes, stacked.shape):
        if known is not None and len(known) != rank:
            raise ValueError(f"scan output {index} has {rank} axes or {len(known)}; the declared types differ")
        shape = [new if isinstance(new, int) else old for old, new in zip(shape, known or shape, strict=True)]
    shape[added] = 0
    return execution.make_empty(tuple(shape), element_type)


def make_sequence_map(node: Node) -> Kernel:
    """Make the kernel of SequenceMap, which executes a subgraph for each element of a sequence."""
    body = node.subgraphs["body"]
    if len(body.inputs) != node.n_inputs or len(body.outputs) != node.n_outputs:
        raise ValueError(
            f"{node.label}: the node has {node.n_inputs} inputs and {node.n_outputs} outputs; attribute 'body' has "
            f"{len(body.inputs)} and {len(body.outputs)}"
        )
    declared = [output.element_type for output in _output_types(node, "body")]

    def run_map(execution: Execution, step: Step) -> Sequence[Any]:
        values = execution.values
        sequence, *others = [values[slot] for slot in step.inputs]
        if type(sequence) is not ArraySequence:
            raise TypeError(f"input 0 (input_sequence) is {describe_value(sequence)}; expected a sequence")
        for index, other in enumerate(others, start=1):
            if other is None:
                raise ValueError(f"input {index} is an empty optional")
        # Values on the host need not be moved: `sequence_map` accepts arrays of several libraries.
        held = 0

        def run_body(*arguments: Any) -> tuple[Any, ...]:
            nonlocal held
            if execution.budget is not None:
                execution.budget.count_trip()
            for slot, argument in zip(body.inputs, arguments, strict=True):
                values[slot] = argument
            if execution.budget is not None:
                execution.budget.update(values, body.inputs)
            execute(body.steps, execution)
            outputs = tuple(execution.move_to_device(output) for output in _take_outputs(body, execution))
            for index, output in enumerate(outputs):
                if output is None or type(output) is ArraySequence:
                    raise TypeError(
                        f"output {index} of attribute 'body' is {describe_value(output)}; expected a tensor"
                    )
            if execution.budget is not None:
                held += sum(map(execution.budget.hold_element, outputs))
            return outputs

        dtypes = None if sequence else [element_type or sequence.element_type for element_type in declared]
        results = sequence_map(sequence, *others, body=run_body, n_outputs=node.n_outputs, dtypes=dtypes)
        if execution.budget is not None:
            execution.budget.release(held)
        return results if isinstance(results, tuple) else (results,)

    return Kernel(run_map)


def make_scan(node: Node) -> Kernel:
    """Make the kernel of Scan from version 9, which executes a subgraph for all items of tensors along an axis."""
    if node.version < 9:
        raise ValueError(f"{node.label}: version 8, in which all tensors have a batch axis, is not supported")
    body, n_scanned = node.subgraphs["body"], node.attribute("num_scan_inputs", int, 0)
    n_states = node.n_inputs - n_scanned
    n_scans = len(body.outputs) - n_states
    if not (1 <= n_scanned <= node.n_inputs and len(body.inputs) == node.n_inputs):
        raise ValueError(
            f"{node.label}: attribute 'num_scan_inputs' is {n_scanned}, the node has {node.n_inputs} inputs and "
            f"attribute 'body' has {len(body.inputs)}"
        )
    if n_scans < 0 or node.n_outputs > len(body.outputs):
        raise ValueError(
            f"{node.label}: with {n_states} states and {node.n_outputs} outputs, attribute 'body' has "
            f"{len(body.outputs)} outputs"
        )
    input_axes, backwards = (
        _per_scan(node, "scan_input_axes", n_scanned),
        _per_scan(node, "scan_input_directions", n_scanned),
    )
    output_axes, prepends = (
        _per_scan(node, "scan_output_axes", n_scans),
        _per_scan(node, "scan_output_directions", n_scans),
    )
    scan_types, infer = _output_types(node, "body")[n_states:], make_inference(node, "body")
    stacked_types = _stacked_types(node, n_states, n_scans)

    def run_scan(execution: Execution, step: Step) -> Sequence[Any]:
        values, budget = execution.values, execution.budget
        inputs = [values[slot] for slot in step.inputs]
        states, scanned = inputs[:n_states], [tensor(x, n_states + i) for i, x in enumerate(inputs[n_states:])]
        axes = [
            axis_in_range(axis, len(x.shape), operator="Scan", of=f"input {n_states + index}")
            for index, (x, axis) in enumerate(zip(scanned, input_axes, strict=True))
        ]
        lengths = [
            length_along(x.shape, axis, operator="Scan", of="an input") for x, axis in zip(scanned, axes, strict=True)
        ]
        if len(set(lengths)) > 1:
            raise ValueError(f"the scan inputs have lengths {lengths} along their axes; they must be equal")
        scans: list[list[Any]] = [[] for _ in range(n_scans)]
        held = 0
        for number in range(lengths[0]):
            if budget is not None:
                budget.count_trip()
            items = [
                x[(*(slice(None),) * axis, lengths[0] - 1 - number if backward else number, ...)]
                for x, axis, backward in zip(scanned, axes, backwards, strict=True)
            ]
            for slot, value in zip(body.inputs, [*states, *map(as_result, items)], strict=True):
                values[slot] = value
            if budget is not None:
                budget.update(values, body.inputs)
            execute(body.steps, execution)
            outputs = _take_outputs(body, execution)
            states = outputs[:n_states]
            for index, (scan, value) in enumerate(zip(scans, outputs[n_states:], strict=True)):
                held += _append_scan(value, scan, index, execution)
        if lengths[0]:
            stacked = [
                _stack_scan(scan[::-1] if prepend else scan, execution, axis)
                for scan, axis, prepend in zip(scans, output_axes, prepends, strict=True)
            ]
        else:
            items = [type_of(x, without=axis) for x, axis in zip(scanned, axes, strict=True)]
            inferred = infer(values, [*map(type_of, states), *items])[n_states:]
            stacked = [
                _empty_scan(types, index, execution, output_axes[index])
                for index, types in enumerate(zip(scan_types, inferred, stacked_types, strict=True))
            ]
        if budget is not None:
            budget.release(held)
        return [*states, *stacked][: node.n_outputs]

    return Kernel(run_scan)


def _per_scan(node: Node, name: str, count: int) -> list[int]:
    """Return an attribute with an integer for each scan input or output; zeros if it is left out."""
    given: list[int] = node.attribute(name, list, [0] * count)
    if len(given) != count or not all(isinstance(value, int) for value in given):
        raise ValueError(f"{node.label}: attribute {name!r} has {len(given)} values; expected {count} integers")
    return given


#: op_type -> kernel factory; kernels of subgraphs are called with the step instead of its inputs.
CONTROL_FLOW_KERNELS: dict[str, Callable[[Node], Kernel]] = {
    "If": make_if,
    "Loop": make_loop,
    "Scan": make_scan,
    "SequenceMap": make_sequence_map,
}
