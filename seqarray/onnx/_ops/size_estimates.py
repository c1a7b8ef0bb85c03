"""Sizes of results in bytes, estimated from inputs and attributes before an operator runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from seqarray.onnx._ops.node import Node


def estimated_nbytes(node: Node, inputs: Sequence[Any]) -> int:
    """Return the bytes of the result of an operator on NumPy inputs; 0 if there is no estimate.

    Invalid inputs give 0; the operator raises.
    """
    estimate = _ESTIMATES.get(node.proto.op_type)
    if estimate is None:
        return 0
    padded = [*inputs, *[None] * (6 - len(inputs))]
    try:
        return max(0, int(estimate(node.attributes, *padded)))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError):
        return 0


def _lengths(array: Any) -> list[int]:
    """Return the values of an array of lengths as Python integers, which cannot overflow."""
    lengths: list[int] = array.reshape(-1).tolist()
    return lengths


def _tile(attributes: Any, x: Any, repeats: Any, *_: Any) -> Any:
    return x.nbytes * prod(_lengths(repeats))


def _range(attributes: Any, start: Any, limit: Any, delta: Any, *_: Any) -> Any:
    return ceil((limit.item() - start.item()) / delta.item()) * start.itemsize


def _pad(attributes: Any, x: Any, pads: Any, value: Any, axes: Any, *_: Any) -> Any:
    amounts = _lengths(pads) if pads is not None else attributes["pads"]
    half = len(amounts) // 2
    along = range(x.ndim) if axes is None else _lengths(axes)
    shape = list(x.shape)
    for axis, before, after in zip(along, amounts[:half], amounts[half:], strict=True):
        shape[axis] += before + after
    return prod(shape) * x.itemsize


def _one_hot(attributes: Any, indices: Any, depth: Any, values: Any, *_: Any) -> Any:
    return indices.size * depth.item() * values.itemsize


def _resize(attributes: Any, x: Any, *others: Any) -> Any:
    sizes = [0]
    for other in others:
        if other is not None and other.size:
            along = [a % x.ndim for a in attributes.get("axes", range(x.ndim))]
            product = prod(_lengths(other))
            rest = prod(length for axis, length in enumerate(x.shape) if axis not in along)
            sizes.append(product * rest if other.dtype.kind == "i" else product * x.size)
    return max(sizes) * x.itemsize


def _window(attributes: Any, size: Any, *_: Any) -> Any:
    return size.item() * 8


def _centre_crop_pad(attributes: Any, x: Any, lengths: Any, *_: Any) -> Any:
    shape = list(x.shape)
    for axis, length in zip(attributes.get("axes", range(x.ndim)), _lengths(lengths), strict=True):
        shape[axis] = length
    return prod(shape) * x.itemsize


def _matmul(attributes: Any, a: Any, b: Any, *_: Any) -> Any:
    a_shape, b_shape = (1, *a.shape)[-max(2, a.ndim) :], b.shape if b.ndim > 1 else (*b.shape, 1)
    batch = np.broadcast_shapes(a_shape[:-2], b_shape[:-2])
    return prod(batch) * a_shape[-2] * b_shape[-1] * a.itemsize


def _gemm(attributes: Any, a: Any, b: Any, *_: Any) -> Any:
    rows = a.shape[1 if attributes.get("transA") else 0]
    return rows * b.shape[0 if attributes.get("transB") else 1] * a.itemsize


def _einsum(attributes: Any, *inputs: Any) -> Any:
    arrays = [x for x in inputs if x is not None]
    left, arrow, right = attributes["equation"].replace(" ", "").partition("->")
    lengths: dict[str, int] = {}
    for term, x in zip(left.split(","), arrays, strict=True):
        lengths |= zip(term, x.shape, strict=True)
    kept = right if arrow else {label for label in left if left.count(label) == 1 and label != ","}
    return prod(lengths[label] for label in kept) * arrays[0].itemsize


def _broadcast(attributes: Any, *inputs: Any) -> Any:
    arrays = [x for x in inputs if x is not None]
    return prod(np.broadcast_shapes(*(x.shape for x in arrays))) * arrays[0].itemsize


def _random(attributes: Any, *_: Any) -> Any:
    return prod(attributes["shape"]) * 8


def _from_lengths(position: int) -> Callable[..., Any]:
    """Make the estimate of an operator whose result has the lengths in an input after the first."""

    def estimate(attributes: Any, x: Any, *others: Any) -> Any:
        return prod(_lengths(others[position])) * x.itemsize

    return estimate


def _pooled(attributes: Any, x: Any, *_: Any) -> Any:
    pads = attributes["pads"]
    half = len(pads) // 2
    spatial = (length + a + b for length, a, b in zip(x.shape[2:], pads[:half], pads[half:], strict=True))
    return x.shape[0] * x.shape[1] * prod(spatial) * x.itemsize


#: op_type -> estimate, called with the attributes and six inputs, None for those left out
_ESTIMATES: dict[str, Callable[..., Any]] = {
    "AffineGrid": _from_lengths(0),
    "CenterCropPad": _centre_crop_pad,
    "Col2Im": _from_lengths(0),
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MaxUnpool": _from_lengths(1),
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Tile": _tile,
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "LpPool", "MaxPool"), _pooled),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _window),
    **dict.fromkeys(("Max", "Mean", "Min", "Mod", "Pow", "Sum", "Xor", "BitShift", "BitwiseAnd"), _broadcast),
    **dict.fromkeys(("RandomNormal", "RandomUniform"), _random),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
}
