"""The operators on sequences and optionals, on tensors whose number is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seqarray._arguments import axis_in_range, chunks_of_sizes, position_in_range
from seqarray._dtypes import ELEMENT_TYPE_BY_CODE
from seqarray.onnx._lower.builder import Builder, Tensor, Tensors, Value
from seqarray.onnx._ops.node import Node

#: The version from which the axes of Squeeze and Unsqueeze, and the sizes of Split, are an input.
_AXES_INPUT_SINCE = 13


def unsqueeze(builder: Builder, x: Tensor, axis: int, label: str) -> Tensor:
    """Return a tensor with a further axis."""
    if builder.opsets.get("", 0) < _AXES_INPUT_SINCE:
        return builder.emit("Unsqueeze", [x], label, axes=[axis])[0]
    return builder.emit("Unsqueeze", [x, builder.constant(np.asarray([axis]))], label)[0]


def concat(builder: Builder, tensors: Sequence[Tensor], axis: int, label: str) -> Tensor:
    """Return tensors joined along an axis that they have."""
    return builder.emit("Concat", tensors, label, axis=axis)[0]


def stack(builder: Builder, tensors: Sequence[Tensor], axis: int, label: str) -> Tensor:
    """Return tensors joined along a new axis, counted from the front."""
    return concat(builder, [unsqueeze(builder, tensor, axis, label) for tensor in tensors], axis, label)


def take(builder: Builder, x: Tensor, index: int, axis: int, label: str) -> Tensor:
    """Return the items of a tensor at one place of an axis, which the result does not have."""
    return builder.emit("Gather", [x, builder.constant(np.asarray(index))], label, axis=axis)[0]


def _sequence(value: Value, label: str) -> Tensors:
    """Return an input that is a sequence."""
    if not isinstance(value, Tensors):
        raise TypeError(f"{label}: input 0 is no sequence")
    return value


def _tensor(value: Value, index: int, label: str) -> Tensor:
    """Return an input that is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{label}: input {index} is no tensor")
    return value


def _position(builder: Builder, inputs: Sequence[Value], index: int, default: int, label: str) -> int:
    """Return a position, which has to be known."""
    if len(inputs) <= index or inputs[index] is None:
        return default
    value = builder.value_of(inputs[index], f"{label}: input {index} (position)")
    if value.size != 1 or value.dtype.kind not in "iu":
        raise ValueError(f"{label}: input {index} (position) has dtype {value.dtype} and shape {value.shape}")
    return int(value.item())


def _checked(sequence: Tensors, tensor: Tensor, label: str) -> str | None:
    """Return the element type of a sequence that gets a tensor; raise a TypeError if they differ."""
    if None not in (sequence.element_type, tensor.element_type) and sequence.element_type != tensor.element_type:
        raise TypeError(f"{label}: a sequence of {sequence.element_type} cannot hold a tensor of {tensor.element_type}")
    return sequence.element_type or tensor.element_type


def construct(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower SequenceConstruct."""
    made = Tensors(())
    for index, value in enumerate(inputs):
        tensor = _tensor(value, index, node.label)
        made = Tensors((*made.elements, tensor), _checked(made, tensor, node.label))
    return [made]


def empty(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower SequenceEmpty."""
    return [Tensors((), ELEMENT_TYPE_BY_CODE[node.attribute("dtype", int, 1)])]


def insert(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower SequenceInsert."""
    sequence, tensor = _sequence(inputs[0], node.label), _tensor(inputs[1], 1, node.label)
    length = len(sequence.elements)
    position = _position(builder, inputs, 2, length, node.label)
    place = position_in_range(position, length, operator=node.label, insertion=True)
    elements = (*sequence.elements[:place], tensor, *sequence.elements[place:])
    return [Tensors(elements, _checked(sequence, tensor, node.label))]


def erase(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower SequenceErase."""
    sequence = _sequence(inputs[0], node.label)
    position = _position(builder, inputs, 1, -1, node.label)
    place = position_in_range(position, len(sequence.elements), operator=node.label)
    return [Tensors(sequence.elements[:place] + sequence.elements[place + 1 :], sequence.element_type)]


def at(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower SequenceAt; at a position that is not known, elements of one shape are stacked and gathered from."""
    sequence, position = _sequence(inputs[0], node.label), _tensor(inputs[1], 1, node.label)
    elements, shapes = sequence.elements, {tensor.shape for tensor in sequence.elements}
    if position.value is None and elements and len(shapes) == 1 and None not in (*shapes, *(next(iter(shapes)) or ())):
        for tensor in elements:
            builder.shape_of(tensor, node.label)
        if position.shape == (1,):
            position = builder.emit("Reshape", [position, builder.constant(np.empty(0, np.int64))], node.label)[0]
        stacked = stack(builder, elements, 0, node.label)
        return [*builder.emit("Gather", [stacked, position], node.label, node.proto.output, axis=0)]
    place = position_in_range(_position(builder, inputs, 1, 0, node.label), len(elements), operator=node.label)
    return [elements[place]]


def length(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower SequenceLength."""
    return [builder.constant(np.asarray(len(_sequence(inputs[0], node.label).elements)))]


def concat_from_sequence(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower ConcatFromSequence."""
    label, elements = node.label, _sequence(inputs[0], node.label).elements
    axis, new_axis = node.attribute("axis", int), node.attribute("new_axis", int, 0)
    if not elements:
        raise ValueError(f"{label}: the sequence is empty, so the shape of the result is unknown")
    rank = len(builder.shape_of(elements[0], f"{label}: element 0"))
    axis = axis_in_range(axis, rank, operator=label, of="element 0", new=bool(new_axis))
    return [(stack if new_axis else concat)(builder, elements, axis, label)]


def split_to_sequence(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower SplitToSequence."""
    label, x = node.label, _tensor(inputs[0], 0, node.label)
    given = inputs[1] if len(inputs) > 1 else None
    rank = len(builder.shape_of(x, f"{label}: input 0"))
    axis = axis_in_range(node.attribute("axis", int, 0), rank, operator=label, of="input 0")
    length = builder.length_of(x, axis, f"{label}: input 0")
    split = None if given is None else builder.value_of(given, f"{label}: input 1 (split)")
    drops = node.attribute("keepdims", int, 1) == 0 and (
        split is None or (node.applies_keepdims and split.ndim == 0 and split == 1)
    )
    builder.count(length if drops else chunk_count(split, length), label)
    if drops:
        return [Tensors(tuple(take(builder, x, index, axis, label) for index in range(length)), x.element_type)]
    return [Tensors(split_tensor(builder, x, axis, _sizes_of(split, axis, length, label), label), x.element_type)]


def chunk_count(split: Any, length: int) -> int:
    """Return how many chunks there are at most."""
    if split is None or split.ndim:
        return length if split is None else int(split.size)
    return length // max(1, int(split)) + 1


def _sizes_of(split: Any, axis: int, length: int, label: str) -> list[int]:
    """Return the sizes of all chunks."""
    if split is None or split.ndim == 0:
        size = 1 if split is None else int(split)
        if size < 1:
            raise ValueError(f"{label}: split is {size}; it must be positive")
        return [min(size, length - start) for start in range(0, length, size)]
    starts, stops = chunks_of_sizes(length, split, axis=axis, operator=label, ranks="a scalar or 1-D")
    return [int(stop) - int(start) for start, stop in zip(starts, stops, strict=True)]


def split_tensor(builder: Builder, x: Tensor, axis: int, sizes: list[int], label: str) -> tuple[Tensor, ...]:
    """Return the chunks of a tensor."""
    names = ["chunk"] * len(sizes)
    if len(sizes) <= 1:
        return (x,) * len(sizes)
    if builder.opsets.get("", 0) < _AXES_INPUT_SINCE:
        return tuple(builder.emit("Split", [x], label, names, axis=axis, split=sizes))
    return tuple(builder.emit("Split", [x, builder.constant(np.asarray(sizes))], label, names, axis=axis))


def optional(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower Optional."""
    return [inputs[0] if inputs else None]


def has_element(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower OptionalHasElement."""
    return [builder.constant(np.asarray(bool(inputs) and inputs[0] is not None))]


def get_element(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower OptionalGetElement."""
    if inputs[0] is None:
        raise ValueError(f"{node.label}: input 0 is an empty optional, which has no element to get")
    return [inputs[0]]


def identity(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """Lower Identity."""
    return [inputs[0]]


#: op_type -> what lowers it, given the builder, the node and its inputs
SEQUENCE_OPERATORS: dict[str, Callable[[Builder, Node, Sequence[Value]], list[Value]]] = {
    "ConcatFromSequence": concat_from_sequence,
    "Identity": identity,
    "Optional": optional,
    "OptionalGetElement": get_element,
    "OptionalHasElement": has_element,
    "SequenceAt": at,
    "SequenceConstruct": construct,
    "SequenceEmpty": empty,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SplitToSequence": split_to_sequence,
}
