"""Exports torch functions that work on lists to the ONNX models in this folder, with what torch computes for them.

    python tests/onnx/models/make_models.py

writes NAME.onnx and NAME.npz for each function below, and needs torch (2.13 was used), onnx and numpy.  An .npz holds
data sets: "SET.input.NAME" and "SET.output.INDEX" are arrays, "SET.input.NAME.INDEX" and "SET.output.INDEX.INDEX" the
elements of a list.  Integers in the lists of inputs below are lengths, positions and counts, floats are values.
"""

# The functions append in loops on purpose: that is what becomes Loop and SequenceInsert.  None of them uses unbind,
# whose export counts on keepdims=0 next to a scalar split, which the text of SplitToSequence says to ignore.
# ruff: noqa: PERF401

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from torch import Tensor

FOLDER = Path(__file__).parent


def ragged_means(x: Tensor, lengths: Tensor) -> Tensor:
    """Split by lengths, one row of each part."""
    rows: list[Tensor] = []
    start = 0
    for i in range(lengths.size(0)):
        length = int(lengths[i])
        rows.append(x[start : start + length].mean(0))
        start += length
    return torch.stack(rows)


def centre_parts(x: Tensor) -> Tensor:
    """Split by constant lengths, work on each part, join."""
    parts: list[Tensor] = []
    for part in torch.split(x, [2, 3, 1]):
        parts.append(torch.relu(part) - part.sum(0, keepdim=True))
    return torch.cat(parts)


def keep_positive_rows(x: Tensor, first: Tensor) -> Tensor:
    """Append to a list on a condition on values."""
    kept: list[Tensor] = [first.unsqueeze(0)]
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0):
            kept.append(x[i : i + 1])
    return torch.cat(kept)


def pad_to_longest(x: Tensor, lengths: Tensor) -> Tensor:
    """A batch out of ragged rows, filled up with zeros."""
    longest = int(lengths.max())
    rows: list[Tensor] = []
    start = 0
    for i in range(lengths.size(0)):
        length = int(lengths[i])
        row = x[start : start + length]
        rows.append(torch.cat([row, torch.zeros([longest - length, x.size(1)])]))
        start += length
    return torch.stack(rows, 1)


def newest_three(x: Tensor) -> Tensor:
    """Insert at the front, drop at the back once there are more than three."""
    items: list[Tensor] = []
    for i in range(x.size(0)):
        items.insert(0, x[i] * i)
        if len(items) > 3:
            items.pop()
    return torch.stack(items) + items[-1]


def doubled_parts(x: Tensor) -> list[Tensor]:
    """A list as the result; the last part may be shorter."""
    parts: list[Tensor] = []
    for part in torch.split(x, 2):
        parts.append(part * 2)
    return parts


def states_until(x: Tensor, limit: Tensor) -> Tensor:
    """Append in a loop that ends on a condition."""
    states: list[Tensor] = [x]
    while bool(states[-1].sum() < limit):
        states.append(torch.tanh(states[-1]) + states[-1])
    return torch.stack(states)


def softmax_each(parts: list[Tensor]) -> Tensor:
    """A list as the input."""
    results: list[Tensor] = []
    for part in parts:
        results.append(torch.softmax(part, -1))
    return torch.cat(results)


def reversed_chunks(x: Tensor) -> Tensor:
    """Take the elements of a list from the back."""
    parts = torch.chunk(x, 3, 1)
    results: list[Tensor] = []
    for i in range(len(parts)):
        results.append(parts[len(parts) - 1 - i])
    return torch.cat(results, 1)


def without_pair(x: Tensor, position: Tensor) -> Tensor:
    """Erase an element at a position that is an input."""
    parts = list(torch.split(x, 2))
    del parts[int(position)]
    return torch.cat(parts)


def pairwise_products(x: Tensor, lengths: Tensor) -> Tensor:
    """A list per outer iteration, filled by an inner loop."""
    parts: list[Tensor] = []
    start = 0
    for i in range(lengths.size(0)):
        length = int(lengths[i])
        products: list[Tensor] = []
        for j in range(length):
            products.append(x[start] * x[start + j])
        parts.append(torch.stack(products).sum(0))
        start += length
    return torch.stack(parts)


class Export(NamedTuple):
    """How to export a function: the version, the names of its inputs, and the inputs for which to store results."""

    function: Any
    opset: int
    names: list[str]
    inputs: list[tuple[Any, ...]]


def values(*shape: int) -> Tensor:
    """Values of both signs, different ones each time."""
    return torch.randn(*shape)


def integers(*numbers: int) -> Tensor:
    """Lengths or positions."""
    return torch.tensor(numbers)


def exports() -> list[Export]:
    """What to export; the first inputs of each are what the exporter traces with."""
    torch.manual_seed(6)
    ragged = [
        (values(6, 2), integers(1, 3, 2)),
        (values(9, 4), integers(4, 5)),
        (values(3, 1), integers(3)),
    ]
    return [
        Export(ragged_means, 17, ["x", "lengths"], ragged),
        Export(centre_parts, 13, ["x"], [(values(6, 2),), (values(6, 3),)]),
        Export(keep_positive_rows, 16, ["x", "first"], [(values(5, 3), values(3)), (-torch.ones(4, 2), values(2))]),
        Export(pad_to_longest, 18, ["x", "lengths"], [*ragged, (values(5, 2), integers(0, 5, 0))]),
        Export(newest_three, 16, ["x"], [(values(5, 3),), (values(2, 2),)]),
        Export(doubled_parts, 17, ["x"], [(values(3, 2),), (values(1, 4),), (values(6, 1),)]),
        Export(
            states_until, 20, ["x", "limit"], [(torch.ones(3), torch.tensor(20.0)), (values(2), torch.tensor(-9.0))]
        ),
        Export(softmax_each, 17, ["parts"], [([values(3, 2), values(1, 2)],), ([values(2, 5)],)]),
        Export(reversed_chunks, 14, ["x"], [(values(2, 6),), (values(3, 7),)]),
        Export(without_pair, 11, ["x", "position"], [(values(7, 2), integers(1)[0]), (values(6, 3), integers(-1)[0])]),
        Export(pairwise_products, 17, ["x", "lengths"], ragged),
    ]


def exported(export: Export) -> onnx.ModelProto:
    """The model of a function, without notes on where its source lies."""
    path = FOLDER / f"{export.function.__name__}.onnx"
    lengths = {
        name: {axis: f"{name}_{axis}" for axis in range(value.dim())}
        for name, value in zip(export.names, export.inputs[0], strict=True)
        if isinstance(value, Tensor) and value.dim()
    }
    torch.onnx.export(
        torch.jit.script(export.function),
        export.inputs[0],
        path,
        input_names=export.names,
        opset_version=export.opset,
        dynamic_axes=lengths,
        dynamo=False,
    )
    model = onnx.load(path)
    strip_notes(model.graph)
    onnx.save(model, path)
    return model


def strip_notes(graph: onnx.GraphProto) -> None:
    """Remove the notes of the exporter from a graph and those inside it."""
    for node in graph.node:
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                strip_notes(attribute.g)


def stored(export: Export) -> dict[str, np.ndarray]:
    """The inputs of a function and what torch computes for them, by the keys that the module describes."""
    arrays = {}
    for number, inputs in enumerate(export.inputs):
        for name, value in zip(export.names, inputs, strict=True):
            arrays |= as_arrays(f"{number}.input.{name}", value)
        arrays |= as_arrays(f"{number}.output.0", export.function(*inputs))
    return arrays


def as_arrays(key: str, value: Tensor | list[Tensor]) -> dict[str, np.ndarray]:
    """A tensor under its key, or the elements of a list each under one."""
    if isinstance(value, Tensor):
        return {key: value.numpy()}
    return {f"{key}.{index}": element.numpy() for index, element in enumerate(value)}


def main() -> None:
    """Write every model and its data."""
    for export in exports():
        model = exported(export)
        np.savez_compressed(FOLDER / f"{export.function.__name__}.npz", **stored(export))
        operators = " ".join(node.op_type for node in model.graph.node)
        print(f"{export.function.__name__}: opset {export.opset}, {model.ByteSize()} bytes: {operators}")


if __name__ == "__main__":
    main()
