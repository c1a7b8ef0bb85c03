"""What the operators of onnx.reference take, estimated from inputs and attributes before they run.

The evaluator allocates first, so that a limit on bytes holds only for operators that have an estimate here; under such
a limit the others do not run.  An estimate bounds the largest array that an operator makes; some make several of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from seqarray.onnx._ops.node import Node
from seqarray.onnx._run.budget import Limits, counted_items

#: How many multiplications a second a product takes at least, with floating-point numbers and otherwise.
_FAST_RATE, _RATE = 1e10, 1e9


def check_bounded(node: Node, limits: Limits) -> None:
    """Raise a ValueError if nothing bounds what the operator of a node takes."""
    op_type = node.proto.op_type
    if op_type == "RegexFullMatch":
        raise ValueError(f"{node.label}: regular expressions may take any time, so they do not run under limits")
    if limits.max_bytes is not None and (node.domain, op_type) not in _ESTIMATES:
        raise ValueError(
            f"{node.label}: it is not known what this operator takes, so it does not run under max_bytes; it does "
            "without that limit: max_bytes=None, or --max-bytes none"
        )


def estimated_nbytes(node: Node, inputs: Sequence[Any]) -> int:
    """Return the bytes that an operator makes of NumPy inputs.

    Raises
    ------
    ValueError
        If the inputs do not fit the operator, so that there is no estimate.
    """
    estimate = _ESTIMATES[node.domain, node.proto.op_type]
    padded = [*inputs, *[None] * (6 - len(inputs))]
    try:
        return max(0, int(estimate(node.attributes, *padded)))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError):
        found = ", ".join(map(_described, inputs))
        raise ValueError(
            f"what the operator takes cannot be told from its inputs, as max_bytes needs it; they are {found or 'none'}"
        ) from None


def _described(value: Any) -> str:
    """Return an input as text for an error message."""
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    return "missing" if value is None else f"{value.dtype} {value.shape}"


def check_work(node: Node, inputs: Sequence[Any], max_seconds: float) -> None:
    """Raise a ValueError if a product of arrays takes longer than a run may."""
    work = _WORK.get(node.proto.op_type)
    if work is None or node.domain:
        return
    try:
        amount, fast = work(node.attributes, *inputs)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError):
        return  # The operator raises.
    if amount > max_seconds * (_FAST_RATE if fast else _RATE):
        raise ValueError(f"it takes {amount:.0e} multiplications, too many for max_seconds, which is {max_seconds}")


def _lengths(array: Any) -> list[int]:
    """Return the values of an array of lengths as Python integers, which cannot overflow."""
    lengths: list[int] = array.reshape(-1).tolist()
    return lengths


def _items(array: Any) -> int:
    """Return the items that an array counts; of text, in units of 8 bytes, as if all were as long as the longest."""
    count = counted_items(array.shape)
    return count * (1 + _width(array)) if array.dtype.kind in "OUT" else count


def _width(text: Any) -> int:
    """Return the length of the longest string: onnx.reference uses arrays in which all have that length."""
    return max(map(len, text.flat), default=0)


def _all_items(inputs: Sequence[Any]) -> int:
    """Return the items of all inputs; those of a sequence too."""
    arrays = [x for value in inputs if value is not None for x in (value if isinstance(value, list) else [value])]
    return sum(map(_items, arrays))


def _like_inputs(attributes: Any, *inputs: Any) -> Any:
    """Return the size of a result that has no more items than the inputs together."""
    arrays = [x for x in inputs if x is not None and not isinstance(x, list)]
    return _all_items(inputs) * max((x.itemsize for x in arrays), default=8)


def _wide_like_inputs(attributes: Any, *inputs: Any) -> Any:
    """Return the size of results that have no more items than the inputs together, of any type of numbers."""
    return _all_items(inputs) * 16


def _broadcast(attributes: Any, *inputs: Any) -> Any:
    arrays = [x for x in inputs if x is not None]
    return counted_items(np.broadcast_shapes(*(x.shape for x in arrays))) * max(x.itemsize for x in arrays)


def _per_channel(attributes: Any, x: Any, *others: Any) -> Any:
    """Return the size of a result of parameters for each channel, which multiply the items unless their number fits."""
    factors = [1, *(_items(other) for other in others if other is not None and other.size not in (1, x.shape[1]))]
    return _items(x) * max(factors) * 8


def _quantized(attributes: Any, x: Any, scale: Any, zero: Any, *_: Any) -> Any:
    axis = attributes.get("axis", 1)
    factor = 1
    for other in (scale, zero):
        fits = other is None or other.size == 1 or other.ndim == x.ndim
        if not fits and other.size != x.shape[axis]:
            factor = max(factor, _items(other))
        elif other is not None and other.ndim == x.ndim:
            factor = max(factor, ceil(counted_items(np.maximum(other.shape, x.shape).tolist()) / _items(x)))
    return _items(x) * factor * 8


def _cast(attributes: Any, x: Any, *_: Any) -> Any:
    return _items(x) * (8 if attributes.get("to") != 8 else 160)


def _cast_like(attributes: Any, x: Any, target: Any, *_: Any) -> Any:
    return _items(x) * (8 if target.dtype.kind not in "OUT" else 160)


def _non_zero(attributes: Any, x: Any, *_: Any) -> Any:
    return _items(x) * max(1, x.ndim) * 8


def _tile(attributes: Any, x: Any, repeats: Any, *_: Any) -> Any:
    return counted_items([a * b for a, b in zip(x.shape, _lengths(repeats), strict=True)]) * x.itemsize


def _range(attributes: Any, start: Any, limit: Any, delta: Any, *_: Any) -> Any:
    return ceil((limit.item() - start.item()) / delta.item()) * max(8, start.itemsize)


def _pad(attributes: Any, x: Any, pads: Any, value: Any, axes: Any, *_: Any) -> Any:
    amounts = (
        _lengths(pads) if pads is not None else attributes["pads"] if "pads" in attributes else attributes["paddings"]
    )
    half = len(amounts) // 2
    along = range(x.ndim) if axes is None else _lengths(axes)
    shape = list(x.shape)
    for axis, before, after in zip(along, amounts[:half], amounts[half:], strict=True):
        # A negative amount removes; what the others add is there before.
        shape[axis] += max(0, before) + max(0, after)
    return counted_items(shape) * x.itemsize


def _one_hot(attributes: Any, indices: Any, depth: Any, values: Any, *_: Any) -> Any:
    return _items(indices) * int(depth.item()) * max(8, values.itemsize)


def _resize(attributes: Any, x: Any, *others: Any) -> Any:
    sizes: list[float] = [_items(x)]
    scales = attributes.get("scales")
    if scales is not None:
        sizes.append(_items(x) * prod(max(1.0, scale) for scale in scales))
    for other in others:
        if other is not None and other.size:
            along = [a % x.ndim for a in attributes.get("axes", range(x.ndim))]
            # An axis that shrinks may do so after others have grown.
            rest = prod(length for axis, length in enumerate(x.shape) if axis not in along)
            if other.dtype.kind == "i":
                lengths = [max(a, x.shape[axis]) for axis, a in zip(along, _lengths(other), strict=False)]
                sizes.append(prod(lengths) * rest)
            else:
                sizes.append(prod(max(1.0, scale) for scale in _lengths(other)) * _items(x))
    return max(sizes) * 8


def _window(attributes: Any, size: Any, *_: Any) -> Any:
    return int(size.item()) * 8


def _centre_crop_pad(attributes: Any, x: Any, lengths: Any, *_: Any) -> Any:
    shape = list(x.shape)
    for axis, length in zip(attributes.get("axes", range(x.ndim)), _lengths(lengths), strict=True):
        shape[axis] = max(shape[axis], length)
    return counted_items(shape) * x.itemsize


def _product_shape(a: Any, b: Any) -> tuple[int, int, int, int]:
    """Return the batch, rows, columns and inner length of a matrix product."""
    a_shape, b_shape = (1, *a.shape)[-max(2, a.ndim) :], b.shape if b.ndim > 1 else (*b.shape, 1)
    batch = counted_items(np.broadcast_shapes(a_shape[:-2], b_shape[:-2]))
    return batch, max(1, a_shape[-2]), max(1, b_shape[-1]), max(1, a_shape[-1])


def _matmul(attributes: Any, a: Any, b: Any, *_: Any) -> Any:
    batch, rows, columns, _inner = _product_shape(a, b)
    return max(batch * rows * columns, _items(a), _items(b)) * 8


def _quantized_matmul(attributes: Any, a: Any, _0: Any, _1: Any, b: Any, *_: Any) -> Any:
    return _matmul(attributes, a, b)


def _gemm_shape(attributes: Any, a: Any, b: Any) -> tuple[int, int, int]:
    """Return the rows, columns and inner length of Gemm."""
    rows, inner = a.shape[::-1] if attributes.get("transA") else a.shape
    return rows, b.shape[0 if attributes.get("transB") else 1], inner


def _gemm(attributes: Any, a: Any, b: Any, c: Any, *_: Any) -> Any:
    rows, columns, _inner = _gemm_shape(attributes, a, b)
    shapes = [(rows, columns), *([] if c is None else [c.shape])]
    return counted_items(np.broadcast_shapes(*shapes)) * a.itemsize


def _einsum_lengths(attributes: Any, arrays: Sequence[Any]) -> tuple[str, dict[str, int]]:
    """Return the labels of the result of Einsum, and the lengths of all labels."""
    left, arrow, right = attributes["equation"].replace(" ", "").partition("->")
    lengths: dict[str, int] = {}
    for term, x in zip(left.split(","), arrays, strict=True):
        before, dots, after = term.partition("...")
        shape = x.shape
        if dots:
            # The axes of an ellipsis count as one, which is as long as all of them together.
            middle = shape[len(before) : len(shape) - len(after)]
            lengths["."] = max(lengths.get(".", 1), counted_items(middle))
            shape = (*shape[: len(before)], *shape[len(shape) - len(after) :])
        for label, length in zip(before + after, shape, strict=True):
            lengths[label] = max(lengths.get(label, 1), length)
    kept = right.replace("...", ".") if arrow else "".join(lab for lab in lengths if lab == "." or left.count(lab) == 1)
    return kept, lengths


def _einsum(attributes: Any, *inputs: Any) -> Any:
    arrays = [x for x in inputs if x is not None]
    kept, lengths = _einsum_lengths(attributes, arrays)
    return prod(lengths[label] for label in kept) * arrays[0].itemsize


def _random(attributes: Any, *_: Any) -> Any:
    return prod(attributes["shape"]) * 8


def _affine_grid(attributes: Any, theta: Any, size: Any, *_: Any) -> Any:
    return counted_items(_lengths(size)) * 4 * 8


def _col2im(attributes: Any, x: Any, image: Any, block: Any, *_: Any) -> Any:
    pads = attributes.get("pads", [])
    padded = [length + sum(map(abs, pads)) for length in _lengths(image)]
    return counted_items(padded) * x.shape[0] * x.shape[1] * x.itemsize


def _gather_elements(attributes: Any, x: Any, indices: Any, *_: Any) -> Any:
    return _items(indices) * max(8, x.itemsize)


def _gather_nd(attributes: Any, x: Any, indices: Any, *_: Any) -> Any:
    taken = attributes.get("batch_dims", 0) + indices.shape[-1]
    return counted_items(indices.shape[:-1]) * counted_items(x.shape[taken:]) * x.itemsize


def _spatial(attributes: Any, x: Any, kernel: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Return the lengths of the padded input, of the result, and of the kernel with its gaps, along spatial axes."""
    rank = x.ndim - 2
    dilations, strides = attributes.get("dilations", [1] * rank), attributes.get("strides", [1] * rank)
    pads = attributes.get("pads", [0] * (2 * rank))
    gaps = [(length - 1) * dilation + 1 for length, dilation in zip(kernel, dilations, strict=True)]
    automatic = attributes.get("auto_pad", "NOTSET").startswith("SAME")
    padded = [
        length + max(0, pads[i]) + max(0, pads[rank + i]) + (gaps[i] if automatic else 0)
        for i, length in enumerate(x.shape[2:])
    ]
    results = [max(1, (length - gap) // stride + 2) for length, gap, stride in zip(padded, gaps, strides, strict=True)]
    return padded, results, gaps


def _conv(attributes: Any, x: Any, weights: Any, *_: Any) -> Any:
    padded, results, gaps = _spatial(attributes, x, weights.shape[2:])
    columns = x.shape[0] * x.shape[1] * prod(gaps) * prod(results)
    return 8 * max(
        columns,
        x.shape[0] * x.shape[1] * prod(padded),
        x.shape[0] * weights.shape[0] * prod(results),
        weights.shape[0] * weights.shape[1] * prod(gaps),
    )


def _quantized_conv(attributes: Any, x: Any, _0: Any, _1: Any, weights: Any, *_: Any) -> Any:
    return _conv(attributes, x, weights)


def _transposed_lengths(attributes: Any, x: Any, kernel: Sequence[int]) -> int:
    """Return the spatial items of the result of an operator that undoes a convolution or a pooling."""
    rank = x.ndim - 2
    dilations, strides = attributes.get("dilations", [1] * rank), attributes.get("strides", [1] * rank)
    added = attributes.get("output_padding", [0] * rank)
    pads = attributes.get("pads", [0] * (2 * rank))
    lengths = [
        stride * length + kernel[i] * dilations[i] + added[i] + abs(pads[i]) + abs(pads[rank + i])
        for i, (length, stride) in enumerate(zip(x.shape[2:], strides, strict=True))
    ]
    items: int = max(prod(lengths), prod(attributes.get("output_shape", [1])[-rank:]))
    return items


def _conv_transpose(attributes: Any, x: Any, weights: Any, *_: Any) -> Any:
    channels = weights.shape[1] * attributes.get("group", 1)
    result = x.shape[0] * channels * _transposed_lengths(attributes, x, weights.shape[2:])
    return 8 * max(result, counted_items(weights.shape[1:]) * counted_items(x.shape[2:]))


def _max_unpool(attributes: Any, x: Any, indices: Any, shape: Any, *_: Any) -> Any:
    lengths = _transposed_lengths(attributes, x, attributes["kernel_shape"]) * x.shape[0] * x.shape[1]
    return max(lengths, 0 if shape is None else counted_items(_lengths(shape))) * 8


def _pooled(attributes: Any, x: Any, *_: Any) -> Any:
    kernel = attributes["kernel_shape"]
    padded, results, gaps = _spatial(attributes, x, kernel)
    planes = x.shape[0] * x.shape[1]
    # Ceiling mode adds one more window, and every window may reach over the end.
    grown = prod(length + gap for length, gap in zip(padded, gaps, strict=True))
    return 8 * max(planes * grown, planes * prod(length + 1 for length in results), prod(kernel))


def _grid_sample(attributes: Any, x: Any, grid: Any, *_: Any) -> Any:
    return max(_items(grid), counted_items((*x.shape[:2], *grid.shape[1:-1]))) * 8


def _roi_align(attributes: Any, x: Any, rois: Any, *_: Any) -> Any:
    height, width = attributes.get("output_height", 1), attributes.get("output_width", 1)
    ratio = attributes.get("sampling_ratio", 0)
    if ratio > 0:
        samples = ratio * ratio * height * width
    else:
        reach = float(np.abs(rois).max(initial=0)) * 2 * attributes.get("spatial_scale", 1.0)
        samples = (ceil(reach / height) + 1) * (ceil(reach / width) + 1) * height * width
    # A sample is an object of Python with eight numbers.
    return max(rois.shape[0] * x.shape[1] * height * width * 8, samples * 400)


def _recurrent(attributes: Any, x: Any, weights: Any, recurrence: Any, *_: Any) -> Any:
    hidden = max(*recurrence.shape[1:], attributes.get("hidden_size", 1))
    return counted_items(x.shape[:2]) * recurrence.shape[0] * hidden * 8


def _dft(attributes: Any, x: Any, length: Any, axis: Any, *_: Any) -> Any:
    along = attributes.get("axis", 1) if axis is None else int(axis.item())
    before = max(1, x.shape[along])
    lengths = [x.shape[a] for a in {along, 1, x.ndim - 2}] if axis is None and "axis" not in attributes else [before]
    return ceil(_items(x) / max(1, min(lengths))) * max(*lengths, 1, 0 if length is None else int(length.item())) * 32


def _stft(attributes: Any, x: Any, step: Any, window: Any, length: Any, *_: Any) -> Any:
    frame = max(0 if window is None else window.size, 0 if length is None else int(length.item()), 1)
    frames = x.shape[1] // int(step.item()) + 1
    return x.shape[0] * frames * frame * 32


def _mel(attributes: Any, bins: Any, length: Any, *_: Any) -> Any:
    return (int(length.item()) // 2 + 1) * (int(bins.item()) + 2) * 8


def _boxes(attributes: Any, boxes: Any, scores: Any, *_: Any) -> Any:
    return _items(scores) * 200


def _string_concat(attributes: Any, a: Any, b: Any, *_: Any) -> Any:
    return counted_items(np.broadcast_shapes(a.shape, b.shape)) * (64 + 4 * (_width(a) + _width(b)))


def _string_split(attributes: Any, x: Any, *_: Any) -> Any:
    pieces = _width(x) // max(1, len(attributes.get("delimiter", ""))) + 1
    most = attributes.get("maxsplit")
    if most is not None and most >= 0:
        pieces = min(pieces, most + 1)
    return counted_items(x.shape) * max(pieces * 64, 4 * _width(x))


def _string_normalizer(attributes: Any, x: Any, *_: Any) -> Any:
    # Three letters may stand for one of the other case.
    return counted_items(x.shape) * (64 + 12 * _width(x))


def _label_encoder(attributes: Any, x: Any, *_: Any) -> Any:
    texts = [
        text for value in attributes.values() if isinstance(value, list) for text in value if isinstance(text, str)
    ]
    texts += [value for value in attributes.values() if isinstance(value, str)]
    return _items(x) * (64 + 4 * max(map(len, texts), default=0))


def _one_hot_encoder(attributes: Any, x: Any, *_: Any) -> Any:
    return _items(x) * max(len(attributes.get(name, ())) for name in ("cats_int64s", "cats_strings")) * 8


def _array_features(attributes: Any, x: Any, indices: Any, *_: Any) -> Any:
    return counted_items(x.shape[:-1]) * _items(indices) * x.itemsize


def _model_rows(attributes: Any, x: Any, *_: Any) -> Any:
    """Return the size of results that have, for each row, no more values than the attributes have or say."""
    width = sum(
        len(value) if isinstance(value, list) else abs(value) if isinstance(value, int) else 1
        for value in attributes.values()
    )
    return max(_items(x), counted_items(x.shape[:1]) * width) * 16


def _tfidf(attributes: Any, x: Any, *_: Any) -> Any:
    rows = x.shape[0] if x.ndim == 2 else 1
    return max(_items(x), rows * (max(attributes["ngram_indexes"], default=0) + 1)) * 8


def _table(estimate: Callable[..., Any], names: str, domain: str = "") -> dict[tuple[str, str], Callable[..., Any]]:
    """Return an estimate by domain and name of several operators."""
    return dict.fromkeys(((domain, name) for name in names.split()), estimate)


#: Domain and op_type -> estimate, called with the attributes and six or more inputs, None for those left out
_ESTIMATES: dict[tuple[str, str], Callable[..., Any]] = {
    **_table(
        _like_inputs,
        "Abs Acos Acosh Asin Asinh Atan Atanh BitCast BitwiseNot Ceil Celu Compress Cos Cosh CumProd CumSum "
        "DepthToSpace Det Dropout Elu Erf Exp Flatten Floor Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool "
        "HardSigmoid HardSwish Hardmax Identity IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization "
        "MeanVarianceNormalization Mish "
        "Reciprocal ReduceMin ReduceProd ReverseSequence Round ScatterElements ScatterND Scatter Selu Shrink Sign Sin "
        "Sinh Softmax Softplus Softsign SpaceToDepth Sqrt Tan TensorScatter ThresholdedRelu Transpose Trilu",
    ),
    **_table(
        _wide_like_inputs,
        "ArgMax ArgMin Bernoulli DynamicQuantizeLinear EyeLike NegativeLogLikelihoodLoss RandomNormalLike "
        "RandomUniformLike ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare Size SoftmaxCrossEntropyLoss "
        "TopK Unique ReduceMax ReduceMean ReduceSum",
    ),
    **_table(
        _broadcast,
        "BitShift BitwiseAnd BitwiseOr BitwiseXor Clip Equal GreaterOrEqual LayerNormalization LessOrEqual Max Mean "
        "Min Mod PRelu Pow RMSNormalization Sum Swish Xor",
    ),
    **_table(_per_channel, "BatchNormalization GroupNormalization InstanceNormalization"),
    **_table(_quantized, "DequantizeLinear QuantizeLinear"),
    **_table(_random, "RandomNormal RandomUniform"),
    **_table(_resize, "Resize Upsample"),
    **_table(_window, "BlackmanWindow HammingWindow HannWindow"),
    **_table(_pooled, "AveragePool LpPool MaxPool"),
    **_table(_conv, "Conv ConvInteger"),
    **_table(_recurrent, "GRU LSTM RNN"),
    **_table(_affine_grid, "AffineGrid"),
    **_table(_boxes, "NonMaxSuppression"),
    **_table(_cast, "Cast"),
    **_table(_cast_like, "CastLike"),
    **_table(_centre_crop_pad, "CenterCropPad"),
    **_table(_col2im, "Col2Im"),
    **_table(_conv_transpose, "ConvTranspose"),
    **_table(_dft, "DFT"),
    **_table(_einsum, "Einsum"),
    **_table(_gather_elements, "GatherElements"),
    **_table(_gather_nd, "GatherND"),
    **_table(_gemm, "Gemm"),
    **_table(_grid_sample, "GridSample"),
    **_table(_matmul, "MatMul MatMulInteger"),
    **_table(_max_unpool, "MaxUnpool"),
    **_table(_mel, "MelWeightMatrix"),
    **_table(_non_zero, "NonZero"),
    **_table(_one_hot, "OneHot"),
    **_table(_pad, "Pad"),
    **_table(_quantized_conv, "QLinearConv"),
    **_table(_quantized_matmul, "QLinearMatMul"),
    **_table(_range, "Range"),
    **_table(_roi_align, "RoiAlign"),
    **_table(_stft, "STFT"),
    **_table(_string_concat, "StringConcat"),
    **_table(_string_normalizer, "StringNormalizer"),
    **_table(_string_split, "StringSplit"),
    **_table(_tfidf, "TfIdfVectorizer"),
    **_table(_tile, "Tile"),
    **_table(_like_inputs, "Binarizer Imputer Normalizer Scaler", "ai.onnx.ml"),
    **_table(
        _model_rows,
        "LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsembleClassifier TreeEnsembleRegressor",
        "ai.onnx.ml",
    ),
    **_table(_array_features, "ArrayFeatureExtractor", "ai.onnx.ml"),
    **_table(_label_encoder, "LabelEncoder", "ai.onnx.ml"),
    **_table(_one_hot_encoder, "OneHotEncoder", "ai.onnx.ml"),
}


def _matmul_work(attributes: Any, a: Any, b: Any, *_: Any) -> tuple[float, bool]:
    return prod(_product_shape(a, b)), a.dtype.kind == "f" and a.itemsize > 2


def _gemm_work(attributes: Any, a: Any, b: Any, *_: Any) -> tuple[float, bool]:
    return prod(_gemm_shape(attributes, a, b)), a.dtype.kind == "f" and a.itemsize > 2


def _einsum_work(attributes: Any, *inputs: Any) -> tuple[float, bool]:
    return prod(_einsum_lengths(attributes, inputs)[1].values()), False


def _quantized_matmul_work(attributes: Any, a: Any, _0: Any, _1: Any, b: Any, *_: Any) -> tuple[float, bool]:
    return prod(_product_shape(a, b)), False


#: op_type -> the number of multiplications, and whether they are fast
_WORK: dict[str, Callable[..., tuple[float, bool]]] = {
    "Einsum": _einsum_work,
    "Gemm": _gemm_work,
    "MatMul": _matmul_work,
    "MatMulInteger": _matmul_work,
    "QLinearMatMul": _quantized_matmul_work,
}
