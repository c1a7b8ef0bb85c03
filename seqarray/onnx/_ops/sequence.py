"""The sequence family and the optional operators, bound ahead for one node.

The operators' functions are called directly where the inputs are what a model usually has; everything else goes
through `seqarray.opset.run`, which has the rules of every version and the messages for what is wrong.
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
from seqarray.onnx._ops.node import Binder, Node, Operator
from seqarray.onnx._run.executor import Run, described
from seqarray.opset import run as run_operator

Outputs = Sequence[Any]

_FEW_ELEMENTS = 32

_INDICES = (np.dtype(np.int32), np.dtype(np.int64))


def _general(node: Node) -> Callable[..., Outputs]:
    """The operator with all its checks."""
    op_type, attributes, n_outputs = node.proto.op_type, node.attributes, node.n_outputs

    def general(run: Run, *inputs: Any) -> Outputs:
        place = run.place
        return run_operator(
            op_type,
            inputs,
            attributes,
            opset=node.version,
            n_outputs=n_outputs,
            copy=None,
            xp=place.namespace,
            device=place.device,
        )

    return general


def _element_types(node: Node) -> frozenset[str]:
    """What the first input may hold: as `seqarray.opset`, every operator of sequences takes bfloat16."""
    return node.element_types(0) | ({"bfloat16"} if "Sequence" in node.proto.op_type else set())


def _position(value: Any) -> int | None:
    """The integer in a position that is as it should be."""
    if value.dtype in _INDICES and value.size == 1 and value.ndim <= 1:
        position: int = value.item()
        return position
    return None


def bind_general(node: Node) -> Operator:
    """An operator that is not called often enough to be bound ahead."""
    return Operator(_general(node), "sh" if node.proto.op_type == "Split" else ".")


def bind_construct(node: Node) -> Operator:
    """SequenceConstruct."""
    allowed, general = _element_types(node), _general(node)

    def construct(run: Run, *inputs: Any) -> Outputs:
        try:
            sequence = sequence_construct(*inputs)
        except TypeError:
            return general(run, *inputs)
        return (sequence,) if sequence.element_type in allowed else general(run, *inputs)

    return Operator(construct, "d")


def bind_empty(node: Node) -> Operator:
    """SequenceEmpty."""
    general = _general(node)
    made: tuple[Any, Outputs] | None = None

    def make_empty(run: Run) -> Outputs:
        nonlocal made
        # Sequences are immutable, so one serves every call.
        found = made
        if found is None or found[0] is not run.place:
            found = made = run.place, general(run)
        return found[1]

    return Operator(make_empty)


def bind_at(node: Node) -> Operator:
    """SequenceAt."""
    general = _general(node)

    def at(run: Run, sequence: Any, position: Any) -> Outputs:
        if type(sequence) is ArraySequence and position is not None:
            place = _position(position)
            if place is not None:
                return (sequence_at(sequence, place, copy=None),)
        return general(run, sequence, position)

    return Operator(at, ".h")


def bind_insert(node: Node) -> Operator:
    """SequenceInsert."""
    general = _general(node)

    def insert(run: Run, sequence: Any, tensor: Any, position: Any = None) -> Outputs:
        place = None if position is None else _position(position)
        if type(sequence) is not ArraySequence or (place is None and position is not None):
            return general(run, sequence, tensor, position)
        changed = sequence_insert(sequence, tensor, place)
        if run.budget is not None:
            run.budget.derive(changed, sequence, tensor)
        return (changed,)

    return Operator(insert, ".dh")


def bind_erase(node: Node) -> Operator:
    """SequenceErase."""
    general = _general(node)

    def erase(run: Run, sequence: Any, position: Any = None) -> Outputs:
        place = None if position is None else _position(position)
        if type(sequence) is not ArraySequence or (place is None and position is not None):
            return general(run, sequence, position)
        changed = sequence_erase(sequence, place)
        if run.budget is not None:
            run.budget.derive(changed, sequence)
        return (changed,)

    return Operator(erase, ".h")


def bind_length(node: Node) -> Operator:
    """SequenceLength, whose result stays on the host."""

    def length(run: Run, sequence: Any) -> Outputs:
        if type(sequence) is not ArraySequence:
            raise TypeError(f"input 0 (input_sequence) is {described(sequence)}; expected a sequence")
        return (np.asarray(len(sequence)),)

    return Operator(length)


def bind_concat_from_sequence(node: Node) -> Operator:
    """ConcatFromSequence."""
    axis, new_axis, general = node.attribute("axis", int), node.attribute("new_axis", int, 0), _general(node)

    def concat(run: Run, sequence: Any) -> Outputs:
        if type(sequence) is not ArraySequence:
            return general(run, sequence)
        if run.budget is not None:
            run.budget.reserve(run.budget.size_of(sequence))
        blocks = sequence._blocks
        if len(blocks) == 1 and (type(blocks[0]) is not tuple or len(sequence) == 1):
            return (concat_from_sequence(sequence, axis=axis, new_axis=new_axis, copy=None),)
        # Anything else is not joined as a view; a short list of arrays is joined in fewer steps.
        short = len(sequence) <= _FEW_ELEMENTS and sequence._kind.library == "numpy"
        elements = list(sequence) if short else sequence
        return (concat_from_sequence(elements, axis=axis, new_axis=new_axis, copy=True),)

    return Operator(concat)


def bind_concat(node: Node) -> Operator:
    """Concat."""
    axis, allowed, general = node.attribute("axis", int, 1), node.element_types(0), _general(node)

    def concat(run: Run, *inputs: Any) -> Outputs:
        dtype = getattr(inputs[0], "dtype", None)
        if dtype is None or element_type_of(dtype) not in allowed:
            return general(run, *inputs)
        if run.budget is not None:
            run.budget.reserve(sum(map(run.budget.size_of, inputs)))
        return (concat_from_sequence(inputs, axis=axis, copy=None),)

    return Operator(concat, "s")


def bind_split_to_sequence(node: Node) -> Operator:
    """SplitToSequence."""
    axis, keepdims = node.attribute("axis", int, 0), node.attribute("keepdims", int, 1)
    allowed, general = _element_types(node), _general(node)

    def split(run: Run, x: Any, sizes: Any = None) -> Outputs:
        if x is None or type(x) is ArraySequence or element_type_of(x.dtype) not in allowed:
            return general(run, x, sizes)
        if sizes is not None and (type(sizes) is ArraySequence or sizes.dtype not in _INDICES):
            return general(run, x, sizes)
        if sizes is not None and sizes.ndim == 1 and sizes.size <= _FEW_ELEMENTS:
            sizes = sizes.tolist()
        return (split_to_sequence(x, sizes, axis=axis, keepdims=keepdims, copy=None),)

    return Operator(split, "dh")


def bind_optional(node: Node) -> Operator:
    """Optional: what it is given, or nothing."""
    declared = node.attributes.get("type")
    if node.n_inputs == 0 and declared is None:
        raise ValueError(f"{node.label}: attribute 'type' is required where there is no input")
    return Operator(lambda run, value=None: (value,))


def bind_has_element(node: Node) -> Operator:
    """OptionalHasElement, whose result stays on the host."""
    del node
    return Operator(lambda run, value=None: (np.asarray(value is not None),))


def bind_get_element(node: Node) -> Operator:
    """OptionalGetElement."""
    del node

    def get_element(run: Run, value: Any) -> Outputs:
        if value is None:
            raise ValueError("input 0 (input) is an empty optional, which has no element to get")
        return (value,)

    return Operator(get_element)


def bind_identity(node: Node) -> Operator:
    """Identity, of anything."""
    del node
    return Operator(lambda run, value: (value,))


#: Operator to the version since which it is as here, and what binds it.
FAMILY: dict[str, tuple[int, Binder]] = {
    "Concat": (1, bind_concat),
    "ConcatFromSequence": (1, bind_concat_from_sequence),
    "Identity": (1, bind_identity),
    "Optional": (1, bind_optional),
    "OptionalGetElement": (1, bind_get_element),
    "OptionalHasElement": (1, bind_has_element),
    "SequenceAt": (1, bind_at),
    "SequenceConstruct": (1, bind_construct),
    "SequenceEmpty": (1, bind_empty),
    "SequenceErase": (1, bind_erase),
    "SequenceInsert": (1, bind_insert),
    "SequenceLength": (1, bind_length),
    "Split": (1, bind_general),
    "SplitToSequence": (1, bind_split_to_sequence),
}
