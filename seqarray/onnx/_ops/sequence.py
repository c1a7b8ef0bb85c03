"""The sequence and optional operators, with their attributes read once for each node.

Inputs of the usual types are passed to the functions of `seqarray` directly; all others go to `seqarray.opset.run`,
which applies the rules of each version and raises the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seqarray._dtypes import element_type_of
from seqarray._operators import (
    concat_from_sequence,
    sequence_at,
    sequence_construct,
    sequence_erase,
    sequence_insert,
    split_to_sequence,
)
from seqarray._sequence import ArraySequence
from seqarray.onnx._ops.node import Kernel, KernelFactory, Node
from seqarray.onnx._run.executor import Execution
from seqarray.onnx._run.placement import Placement
from seqarray.onnx._run.values import describe_value
from seqarray.opset import run as run_operator

Outputs = Sequence[Any]

#: Up to this many elements, a list of arrays is passed on instead of a sequence or an array.
_FEW_ELEMENTS = 32

_INDEX_DTYPES = (np.dtype(np.int32), np.dtype(np.int64))


def _general(node: Node) -> Callable[..., Outputs]:
    """Return a function that runs the operator of a node through `seqarray.opset`, with all checks."""
    op_type, attributes, n_outputs = node.proto.op_type, node.attributes, node.n_outputs

    def general(execution: Execution, *inputs: Any) -> Outputs:
        target = execution.target
        return run_operator(
            op_type,
            inputs,
            attributes,
            opset=node.version,
            n_outputs=n_outputs,
            copy=None,
            xp=target.library.namespace,
            device=target.device,
        )

    return general


def _element_types(node: Node) -> frozenset[str]:
    """Return the element types of the first input; as in `seqarray.opset`, sequence operators also take bfloat16."""
    return node.element_types(0) | ({"bfloat16"} if "Sequence" in node.proto.op_type else set())


def _position(value: Any) -> int | None:
    """Return the integer of a valid position on the host; None for any other array."""
    if value.dtype in _INDEX_DTYPES and value.size == 1 and value.ndim <= 1:
        position: int = value.item()
        return position
    return None


def make_split(node: Node) -> Kernel:
    """Make the kernel of Split, which always goes through `seqarray.opset`."""
    # There may be more parts than outputs.
    count, general = node.attribute("num_outputs", int, 0), _general(node)
    if 0 < count < node.n_outputs:
        raise ValueError(f"{node.label}: it has {node.n_outputs} outputs, and num_outputs is {count}")

    def run_split(execution: Execution, *inputs: Any) -> Outputs:
        if execution.budget is not None:
            execution.budget.reserve_elements(count, 0)
        return general(execution, *inputs)

    return Kernel(run_split, (Placement.FOLLOW, Placement.HOST))


def make_construct(node: Node) -> Kernel:
    """Make the kernel of SequenceConstruct."""
    allowed, general = _element_types(node), _general(node)

    def run_construct(execution: Execution, *inputs: Any) -> Outputs:
        for value in inputs:
            if value is None:
                return general(execution, *inputs)
        sequence = sequence_construct(*inputs)
        return (sequence,) if sequence.element_type in allowed else general(execution, *inputs)

    return Kernel(run_construct, (Placement.DEVICE,))


def make_empty(node: Node) -> Kernel:
    """Make the kernel of SequenceEmpty, which returns one immutable sequence for each target."""
    general = _general(node)
    latest: tuple[Any, Outputs] | None = None

    def run_empty(execution: Execution) -> Outputs:
        nonlocal latest
        # Another thread may replace `latest` meanwhile.
        found = latest
        if found is None or found[0] is not execution.target:
            found = latest = execution.target, general(execution)
        return found[1]

    return Kernel(run_empty)


def make_at(node: Node) -> Kernel:
    """Make the kernel of SequenceAt."""
    general = _general(node)

    def run_at(execution: Execution, sequence: Any, position: Any) -> Outputs:
        if type(sequence) is ArraySequence and position is not None:
            index = _position(position)
            if index is not None:
                return (sequence_at(sequence, index, copy=None),)
        return general(execution, sequence, position)

    return Kernel(run_at, (Placement.ANY, Placement.HOST))


def make_insert(node: Node) -> Kernel:
    """Make the kernel of SequenceInsert."""
    general = _general(node)

    def run_insert(execution: Execution, sequence: Any, tensor: Any, position: Any = None) -> Outputs:
        index = None if position is None else _position(position)
        if type(sequence) is not ArraySequence or (index is None and position is not None):
            return general(execution, sequence, tensor, position)
        changed = sequence_insert(sequence, tensor, index)
        if execution.budget is not None:
            execution.budget.record_derived(changed, sequence, tensor)
        return (changed,)

    return Kernel(run_insert, (Placement.ANY, Placement.DEVICE, Placement.HOST))


def make_erase(node: Node) -> Kernel:
    """Make the kernel of SequenceErase."""
    general = _general(node)

    def run_erase(execution: Execution, sequence: Any, position: Any = None) -> Outputs:
        index = None if position is None else _position(position)
        if type(sequence) is not ArraySequence or (index is None and position is not None):
            return general(execution, sequence, position)
        changed = sequence_erase(sequence, index)
        if execution.budget is not None:
            execution.budget.record_derived(changed, sequence)
        return (changed,)

    return Kernel(run_erase, (Placement.ANY, Placement.HOST))


def make_length(node: Node) -> Kernel:
    """Make the kernel of SequenceLength, whose result stays on the host."""

    def run_length(execution: Execution, sequence: Any) -> Outputs:
        if type(sequence) is not ArraySequence:
            raise TypeError(f"input 0 (input_sequence) is {describe_value(sequence)}; expected a sequence")
        return (np.asarray(len(sequence)),)

    return Kernel(run_length)


def make_concat_from_sequence(node: Node) -> Kernel:
    """Make the kernel of ConcatFromSequence."""
    axis, new_axis, general = node.attribute("axis", int), node.attribute("new_axis", int, 0), _general(node)

    def run_concat_from_sequence(execution: Execution, sequence: Any) -> Outputs:
        if type(sequence) is not ArraySequence:
            return general(execution, sequence)
        if execution.budget is not None:
            execution.budget.reserve(execution.budget.size_of(sequence))
        return (concat_from_sequence(sequence, axis=axis, new_axis=new_axis, copy=None),)

    return Kernel(run_concat_from_sequence)


def make_concat(node: Node) -> Kernel:
    """Make the kernel of Concat."""
    axis, allowed, general = node.attribute("axis", int, 1), node.element_types(0), _general(node)

    def run_concat(execution: Execution, *inputs: Any) -> Outputs:
        dtype = getattr(inputs[0], "dtype", None)
        if dtype is None or element_type_of(dtype) not in allowed:
            return general(execution, *inputs)
        if execution.budget is not None:
            execution.budget.reserve(sum(map(execution.budget.size_of, inputs)))
        return (concat_from_sequence(inputs, axis=axis, copy=None),)

    return Kernel(run_concat, (Placement.FOLLOW,))


def make_split_to_sequence(node: Node) -> Kernel:
    """Make the kernel of SplitToSequence."""
    axis, keepdims = node.attribute("axis", int, 0), node.attribute("keepdims", int, 1)
    allowed, general = _element_types(node), _general(node)
    drops_axis = node.applies_keepdims and keepdims == 0

    def run_split_to_sequence(execution: Execution, x: Any, sizes: Any = None) -> Outputs:
        if x is None or type(x) is ArraySequence or element_type_of(x.dtype) not in allowed:
            return general(execution, x, sizes)
        if sizes is not None and (type(sizes) is ArraySequence or sizes.dtype not in _INDEX_DTYPES):
            return general(execution, x, sizes)
        if execution.budget is not None and sizes is not None and sizes.ndim == 1:
            execution.budget.reserve_elements(sizes.size, 0)
        if drops_axis and sizes is not None and sizes.ndim == 0:
            if sizes != 1:
                raise ValueError(
                    f"keepdims is 0, which is to be applied, and split is {sizes}; chunks lose an axis of length 1 only"
                )
            sizes = None
        if sizes is not None and sizes.ndim == 1 and sizes.size <= _FEW_ELEMENTS:
            sizes = sizes.tolist()
        return (split_to_sequence(x, sizes, axis=axis, keepdims=keepdims, copy=None),)

    return Kernel(run_split_to_sequence, (Placement.DEVICE, Placement.HOST))


def make_optional(node: Node) -> Kernel:
    """Make the kernel of Optional, which returns its input, or None without one."""
    declared = node.attributes.get("type")
    if node.n_inputs == 0 and declared is None:
        raise ValueError(f"{node.label}: attribute 'type' is required where there is no input")
    return Kernel(lambda execution, value=None: (value,))


def make_has_element(node: Node) -> Kernel:
    """Make the kernel of OptionalHasElement, whose result stays on the host."""
    del node
    return Kernel(lambda execution, value=None: (np.asarray(value is not None),))


def make_get_element(node: Node) -> Kernel:
    """Make the kernel of OptionalGetElement."""
    del node

    def run_get_element(execution: Execution, value: Any) -> Outputs:
        if value is None:
            raise ValueError("input 0 (input) is an empty optional, which has no element to get")
        return (value,)

    return Kernel(run_get_element)


def make_identity(node: Node) -> Kernel:
    """Make the kernel of Identity for values of any type."""
    del node
    return Kernel(lambda execution, value: (value,))


#: op_type -> (first supported version, kernel factory)
SEQUENCE_KERNELS: dict[str, tuple[int, KernelFactory]] = {
    "Concat": (1, make_concat),
    "ConcatFromSequence": (1, make_concat_from_sequence),
    "Identity": (1, make_identity),
    "Optional": (1, make_optional),
    "OptionalGetElement": (1, make_get_element),
    "OptionalHasElement": (1, make_has_element),
    "SequenceAt": (1, make_at),
    "SequenceConstruct": (1, make_construct),
    "SequenceEmpty": (1, make_empty),
    "SequenceErase": (1, make_erase),
    "SequenceInsert": (1, make_insert),
    "SequenceLength": (1, make_length),
    "Split": (1, make_split),
    "SplitToSequence": (1, make_split_to_sequence),
}
