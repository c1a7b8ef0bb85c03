"""Single operators with inputs and attributes: what models around sequences consist of, in the versions that exporters
write.

``python -m tests.onnx.operator_cases [--fallback NAME]`` compares what programs give for all of them with onnxruntime.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Case(NamedTuple):
    """A node of an operator set, and values of its inputs; None for those left out."""

    op_type: str
    opset: int
    inputs: list[Any]
    attributes: dict[str, Any]
    n_outputs: int

    def __str__(self) -> str:
        shapes = ",".join("-" if x is None else "x".join(map(str, x.shape)) or "()" for x in self.inputs)
        attributes = ",".join(f"{name}={value}" for name, value in self.attributes.items() if not is_array(value))
        return f"{self.op_type}-{self.opset}({shapes}){attributes}".replace(" ", "")

    def model(self) -> onnx.ModelProto:
        """The model of this node."""
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.n_outputs)]
        node = helper.make_node(self.op_type, names, outputs, name="n", **self.attributes)
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in zip(names, self.inputs, strict=True)
            if name
        ]
        declared = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph([node], "case", inputs, declared)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def feeds(self) -> dict[str, Any]:
        """The inputs by name."""
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None}


def is_array(value: Any) -> bool:
    """Whether a value of an attribute is a tensor."""
    return isinstance(value, onnx.TensorProto)


def cases() -> list[Case]:
    """Make all cases."""
    return list(_cases())


def _cases() -> Iterator[Case]:
    """Yield all cases."""
    random = np.random.default_rng(0)

    def f(*shape: int) -> Any:
        return random.random(shape, dtype=np.float32)

    def g(*shape: int) -> Any:
        return random.standard_normal(shape).astype(np.float32)

    def i(*values: Any) -> Any:
        return np.asarray(values, dtype=np.int64)

    def one(value: Any, dtype: Any = np.float32) -> Any:
        return np.asarray(value, dtype=dtype)

    def case(
        op_type: str, opsets: Any, *inputs: Any, n: int = 1, domain: str = "", **attributes: Any
    ) -> Iterator[Case]:
        for opset in (opsets,) if isinstance(opsets, int) else opsets:
            yield Case(op_type, opset, list(inputs), attributes, n)

    for (
        op
    ) in "Abs Ceil Exp Floor Neg Reciprocal Relu Sigmoid Tanh LeakyRelu Elu Selu Softplus Softsign HardSigmoid".split():
        yield from case(op, (9, 13, 17), g(2, 3, 4))
    for op in "Erf Sin Cos Tan Atan Sinh Cosh Asinh Round Sign HardSwish Mish ThresholdedRelu".split():
        yield from case(op, (18,), g(2, 3))
    for op in ("Log", "Sqrt", "Asin", "Acos", "Atanh"):
        yield from case(op, (13, 17), f(2, 3) * 0.9 + 0.05)
    yield from case("Acosh", 17, f(2, 3) + 1)
    yield from case("IsNaN", 13, np.asarray([1, np.nan, np.inf], dtype=np.float32))
    yield from case("IsInf", 10, np.asarray([1, -np.inf, np.inf], dtype=np.float32))
    yield from case("IsInf", 10, np.asarray([1, -np.inf, np.inf], dtype=np.float32), detect_negative=0)
    yield from case("Not", 13, f(4) > 0.5)
    for op in ("LeakyRelu", "Elu", "ThresholdedRelu"):
        yield from case(op, 16, g(2, 3), alpha=0.3)
    for op in ("Add", "Sub", "Mul", "Div"):
        yield from case(op, (7, 13, 14), g(2, 3, 4), g(3, 1))
        yield from case(op, 14, i(7, -8, 9), i(2, 3, -4))
        yield from case(op, 14, np.asarray([7, 8], np.int32), np.asarray(3, np.int32))
    yield from case("Pow", (12, 15), f(2, 3), f(3))
    yield from case("Pow", 15, f(2, 3), one(2, np.int64))
    yield from case("Pow", 15, i(2, 3), i(3, 2))
    for fmod in (0, 1):
        yield from case("Mod", 13, g(2, 3), g(3), fmod=1)
        yield from case("Mod", 13, i(7, -8, 9), i(2, 3, -4), fmod=fmod)
    for op in ("Max", "Min", "Mean", "Sum"):
        yield from case(op, (8, 13), g(2, 3), g(3), g(1, 3))
        yield from case(op, 13, g(2, 3))
    for op in ("Equal", "Greater", "Less"):
        yield from case(op, (11, 13), i(1, 2, 3), i(3, 2, 1))
        yield from case(op, 13, g(2, 3), g(3))
    for op in ("GreaterOrEqual", "LessOrEqual"):
        yield from case(op, (12, 16), g(2, 3), g(3))
    for op in ("And", "Or", "Xor"):
        yield from case(op, 7, f(2, 3) > 0.5, f(3) > 0.5)
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield from case(op, 18, np.asarray([1, 2, 7], np.int32), np.asarray([3, 3, 3], np.int32))
    for direction in ("LEFT", "RIGHT"):
        yield from case(
            "BitShift", 11, np.asarray([16, 4], np.uint32), np.asarray([1, 2], np.uint32), direction=direction
        )
    yield from case("Where", (9, 16), f(2, 3) > 0.5, g(2, 3), g(3))
    yield from case("PRelu", (9, 16), g(2, 3, 4), f(3, 1))
    yield from case("Clip", (6,), g(2, 3), min=-0.5, max=0.5)
    yield from case("Clip", (11, 13), g(2, 3), one(-0.5), one(0.5))
    yield from case("Clip", 13, g(2, 3), None, one(0.5))
    yield from case("Clip", 13, i(1, 5, 9), one(2, np.int64), one(6, np.int64))
    yield from case("Cast", (9, 13, 19), g(2, 3) * 9, to=onnx.TensorProto.INT32)
    for to in (onnx.TensorProto.DOUBLE, onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT16, onnx.TensorProto.UINT8):
        yield from case("Cast", 13, f(2, 3) * 9, to=to)
    yield from case("Cast", 13, f(2, 3) * 9, to=onnx.TensorProto.INT8)
    yield from case("CastLike", 15, f(2, 3), i(1))
    # Reductions
    for op in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare".split():
        for axes, keepdims in (([1], 1), ([0, 2], 0), ([-1], 1)):
            since = 13 if op == "ReduceSum" else 18
            yield from case(op, 11, f(2, 3, 4), axes=axes, keepdims=keepdims)
            yield from case(op, since, f(2, 3, 4), i(*axes), keepdims=keepdims)
        yield from case(op, 11, f(2, 3))
        yield from case(op, 18, f(2, 3), keepdims=0)
        yield from case(op, 18, f(2, 3), None, noop_with_empty_axes=1)
    for op in ("ReduceLogSum", "ReduceLogSumExp"):
        yield from case(op, 13, f(2, 3, 4), axes=[1])
        yield from case(op, 18, f(2, 3, 4), i(1), keepdims=0)
    for op in ("ArgMax", "ArgMin"):
        for axis, keepdims, last in itertools.product((0, -1), (0, 1), (0, 1)):
            yield from case(op, 13, f(2, 3, 4), axis=axis, keepdims=keepdims, select_last_index=last)
        yield from case(op, (9, 11), f(2, 3), axis=1)
    yield from case("CumSum", (11, 14), f(2, 3), one(1, np.int64))
    yield from case("CumSum", 14, f(2, 3), one(-2, np.int64), exclusive=1, reverse=1)
    # Shapes
    yield from case("Reshape", (5, 13, 14, 19), f(2, 3, 4), i(0, -1))
    yield from case("Reshape", 14, f(2, 0, 3), i(3, 0, 2), allowzero=1)
    yield from case("Flatten", (9, 11, 13), f(2, 3, 4))
    for axis in (0, 2, -1):
        yield from case("Flatten", 13, f(2, 3, 4), axis=axis)
    yield from case("Flatten", 13, f(0, 3, 4))
    yield from case("Squeeze", 11, f(1, 3, 1), axes=[0, 2])
    yield from case("Squeeze", 13, f(1, 3, 1), i(-1))
    yield from case("Squeeze", 13, f(1, 3, 1))
    yield from case("Unsqueeze", 11, f(2, 3), axes=[0, 3])
    yield from case("Unsqueeze", 13, f(2, 3), i(1, -1))
    yield from case("Transpose", (9, 13), f(2, 3, 4))
    yield from case("Transpose", 13, f(2, 3, 4), perm=[1, 2, 0])
    yield from case("Expand", (8, 13), f(3, 1), i(2, 1, 4))
    yield from case("Tile", (6, 13), f(2, 3), i(2, 1))
    yield from case("Shape", (9, 13, 15), f(2, 3, 4))
    yield from case("Shape", 15, f(2, 3, 4), start=-2, end=2)
    yield from case("Size", 13, f(2, 3))
    yield from case("Concat", (9, 11, 13), f(2, 3), f(2, 1), axis=1)
    yield from case("Concat", 13, f(0, 3), f(2, 3), axis=-2)
    yield from case("Split", 11, f(6, 2), axis=0, split=[1, 2, 3], n=3)
    yield from case("Split", 13, f(6, 2), i(1, 2, 3), axis=0, n=3)
    yield from case("Split", 13, f(6, 2), axis=0, n=2)
    yield from case("Split", 18, f(7, 2), axis=0, num_outputs=3, n=3)
    for starts, ends, axes, steps in (
        ([1], [3], [0], None),
        ([-3], [1 << 62], [-1], None),
        ([0, 3], [4, 0], [0, 1], [2, -1]),
        ([5], [-10], [1], [-2]),
    ):
        yield from case("Slice", (10, 11, 13), f(4, 5), i(*starts), i(*ends), i(*axes), steps and i(*steps))
    yield from case("Slice", 9, f(4, 5), starts=[1, 0], ends=[3, -1])
    yield from case("ConstantOfShape", 9, i(2, 3))
    yield from case("ConstantOfShape", 9, i(2), value=numpy_helper.from_array(np.asarray([7], np.int64)))
    yield from case("Range", 11, one(1), one(6), one(1.5))
    yield from case("Range", 11, one(5, np.int64), one(-2, np.int64), one(-2, np.int64))
    yield from case("EyeLike", 9, f(3, 4), k=1)
    yield from case("Trilu", 14, f(3, 4), one(1, np.int64))
    yield from case("Trilu", 14, f(2, 3, 4), upper=0)
    for mode in ("DCR", "CRD"):
        yield from case("DepthToSpace", (11, 13), f(1, 8, 2, 3), blocksize=2, mode=mode)
    yield from case("SpaceToDepth", (9, 13), f(1, 2, 4, 6), blocksize=2)
    yield from case("ReverseSequence", 10, f(4, 3), i(1, 2, 4)[:3], time_axis=0, batch_axis=1)
    yield from case("NonZero", (9, 13), np.asarray([[1, 0], [2, 3]], np.float32))
    yield from case("NonZero", 13, one(1))
    for mode in ("constant", "reflect", "edge"):
        yield from case("Pad", 10, f(3, 4), pads=[1, 0, 2, 1], mode=mode)
        yield from case("Pad", (11, 13, 18), f(3, 4), i(1, 0, 2, 1), mode=mode)
    yield from case("Pad", 13, f(3, 4), i(1, 0, 2, 1), one(7))
    yield from case("Pad", 13, f(3, 4), i(-1, 0, 0, -2))
    yield from case("Pad", 18, f(3, 4), i(1, 2), None, i(1))
    # Gathers and scatters
    for axis in (0, 1, -1):
        yield from case("Gather", (9, 11, 13), f(4, 3), np.asarray([[0, 2], [1, -1]], np.int64), axis=axis)
    yield from case("Gather", 13, f(4, 3), one(2, np.int64))
    yield from case("GatherElements", (11, 13), f(3, 4), np.asarray([[0, 2, 1, 0]], np.int64), axis=0)
    yield from case("GatherElements", 13, f(3, 4), np.asarray([[0, 1], [3, 2], [1, 1]], np.int64), axis=1)
    yield from case("GatherElements", 13, f(3, 4), np.asarray([[0, 1], [3, 2], [1, 1]], np.int64), axis=-1)
    yield from case("GatherND", (11, 13), f(2, 3, 4), np.asarray([[0, 1], [1, 2]], np.int64))
    yield from case("GatherND", 13, f(2, 3, 4), np.asarray([[1], [2]], np.int64), batch_dims=1)
    yield from case("Scatter", 9, f(3, 3), np.asarray([[1, 0, 2]], np.int64), f(1, 3))
    yield from case("ScatterElements", (11, 13, 16), f(3, 3), np.asarray([[1, 0, 2]], np.int64), f(1, 3))
    for reduction in ("add", "mul"):
        yield from case("ScatterElements", 16, f(3, 3), np.asarray([[1, 0, 2]]), f(1, 3), reduction=reduction)
        yield from case("ScatterND", 16, f(4, 2), np.asarray([[1], [2]]), f(2, 2), reduction=reduction)
    for reduction in ("max", "min"):
        yield from case("ScatterElements", 18, f(3, 3), np.asarray([[1, 0, 2]]), f(1, 3), axis=1, reduction=reduction)
    yield from case("ScatterND", (11, 13), f(4, 2), np.asarray([[1], [2]]), f(2, 2))
    for axis in (-1, 0):
        yield from case("OneHot", (9, 11), i(0, 2, -1), i(4), np.asarray([0, 1], np.float32), axis=axis)
    yield from case("OneHot", 11, i(0, 2, 1), one(4, np.int64), np.asarray([0, 1], np.float32))
    yield from case("Compress", (9, 11), f(3, 2), np.asarray([True, False, True]), axis=0)
    yield from case("Compress", 11, f(3, 2), np.asarray([True, False, True]))
    for largest, order in itertools.product((0, 1), (1,)):
        yield from case("TopK", (11,), f(2, 6), i(3), largest=largest, sorted=order, n=2)
    yield from case("TopK", 11, f(2, 6), i(2), axis=0, n=2)
    yield from case("TopK", 10, f(2, 6), i(3), n=2)
    for order in (0, 1):
        yield from case("Unique", 11, np.asarray([2, 1, 1, 3], np.float32), sorted=order, n=4)
    yield from case("Unique", 11, np.asarray([[1, 0], [1, 0], [2, 3]], np.float32), axis=0, n=4)
    # Matrices
    yield from case("MatMul", (9, 13), f(2, 3, 4), f(4, 5))
    yield from case("MatMul", 13, f(4), f(4, 5))
    yield from case("MatMul", 13, f(2, 1, 3, 4), f(5, 4, 2))
    for a, b in itertools.product((0, 1), (0, 1)):
        x, y = f(*((4, 3) if a else (3, 4))), f(*((5, 4) if b else (4, 5)))
        yield from case("Gemm", (9, 11, 13), x, y, f(5), transA=a, transB=b, alpha=0.5, beta=2.0)
    yield from case("Gemm", 13, f(3, 4), f(4, 5))
    for equation, shapes in (("ij,jk->ik", [(2, 3), (3, 4)]), ("bij->bji", [(2, 3, 4)]), ("ii->i", [(3, 3)])):
        yield from case("Einsum", 12, *(f(*shape) for shape in shapes), equation=equation)
    yield from case("Det", (11,), f(2, 3, 3))
    yield from case("MatMulInteger", 10, np.asarray([[1, 2]], np.uint8), np.asarray([[3], [4]], np.uint8))
    # Normalisation
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (9, 11, 13):
            yield from case(op, opset, g(2, 3, 4))
            yield from case(op, opset, g(2, 3, 4), axis=1)
        yield from case(op, 13, g(2, 3, 4), axis=0)
    for shape in ((2, 3, 4, 4), (2, 3), (2, 3, 5)):
        for opset in (8, 9, 11, 13, 14, 15):
            yield from case("BatchNormalization", opset, g(*shape), f(3), f(3), g(3), f(3))
    yield from case("BatchNormalization", 9, g(2, 3), f(3), f(3), g(3), f(3), epsilon=0.001)
    yield from case("InstanceNormalization", (6,), g(2, 3, 4, 5), f(3), f(3))
    for axis in (-1, 1):
        shape = (4,) if axis == -1 else (3, 4)
        yield from case("LayerNormalization", 17, g(2, 3, 4), f(*shape), f(*shape), axis=axis)
    yield from case("GroupNormalization", 21, g(2, 4, 3), f(4), f(4), num_groups=2)
    for p in (1, 2):
        yield from case("LpNormalization", 1, f(2, 3), axis=1, p=p)
    yield from case("MeanVarianceNormalization", (9, 13), g(2, 3, 4, 5))
    yield from case("LRN", (1, 13), f(1, 5, 3, 3), size=3, alpha=0.001, beta=0.7)
    yield from case("Dropout", (7, 10), f(2, 3))
    yield from case("Dropout", (12, 13), f(2, 3), one(0.4))
    yield from case("Gelu", 20, g(2, 3))
    yield from case("Gelu", 20, g(2, 3), approximate="tanh")
    # Convolutions and pools
    for group, attributes in itertools.product(
        (1, 2),
        (
            {},
            {"strides": [2, 2]},
            {"pads": [1, 1, 1, 1]},
            {"dilations": [2, 2]},
            {"auto_pad": "SAME_UPPER"},
            {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
            {"auto_pad": "VALID"},
        ),
    ):
        yield from case("Conv", (11,), f(1, 4, 7, 8), f(4, 4 // group, 3, 3), f(4), group=group, **attributes)
    yield from case("Conv", 1, f(2, 3, 9), f(4, 3, 3), kernel_shape=[3])
    yield from case("Conv", 11, f(1, 2, 5, 6, 7), f(3, 2, 3, 3, 3))
    for group, attributes in itertools.product(
        (1, 2),
        (
            {},
            {"strides": [2, 2]},
            {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
            {"dilations": [2, 2]},
            {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
            {"strides": [3, 2], "output_shape": [15, 12]},
        ),
    ):
        yield from case("ConvTranspose", 11, f(1, 4, 5, 6), f(4, 2, 3, 3), group=group, **attributes)
    yield from case("ConvTranspose", 11, f(1, 4, 5, 6), f(4, 3, 3, 3), f(3))
    for op, opsets in (("MaxPool", (11, 12, 22)), ("AveragePool", (11, 19, 22))):
        for attributes in (
            {"kernel_shape": [3, 2]},
            {"kernel_shape": [3, 2], "strides": [2, 2]},
            {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
            {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2]},
            {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
            {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
        ):
            yield from case(op, opsets, f(1, 3, 7, 8), **attributes)
    yield from case("AveragePool", 11, f(1, 3, 7, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    yield from case("MaxPool", 12, f(1, 3, 7, 8), kernel_shape=[2, 2], dilations=[2, 2])
    yield from case("MaxPool", 12, f(1, 3, 7), kernel_shape=[2], n=2)
    yield from case("MaxPool", 12, (f(1, 2, 4, 4) * 100).astype(np.uint8), kernel_shape=[2, 2])
    for op in ("GlobalMaxPool", "GlobalAveragePool"):
        for shape in ((1, 3, 4, 5), (1, 3, 7), (1, 2, 3, 4, 5)):
            yield from case(op, (1, 12)[:1], f(*shape))
    yield from case("GlobalLpPool", 2, f(1, 2, 4, 4))
    yield from case("LpPool", (11, 18), f(1, 2, 4, 5), kernel_shape=[2, 2])
    yield from case("MaxRoiPool", 1, f(1, 2, 6, 6), np.asarray([[0, 0, 0, 4, 4]], np.float32), pooled_shape=[2, 2])
    for sampling in (0, 2):
        for mode in ("avg", "max"):
            boxes = np.asarray([[0, 0, 7, 7], [1, 2, 6, 5]], np.float32)
            attributes = {"output_height": 3, "output_width": 3, "spatial_scale": 0.5, "sampling_ratio": sampling}
            yield from case("RoiAlign", (10, 16), f(1, 2, 8, 8), boxes, i(0, 0), mode=mode, **attributes)
    # Resizes
    scales = np.asarray([1, 1, 2, 3], np.float32)
    for mode in ("nearest", "linear"):
        yield from case("Upsample", 9, f(1, 2, 4, 5), scales, mode=mode)
        yield from case("Resize", 10, f(1, 2, 4, 5), scales, mode=mode)
    coordinates = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    for mode, transformation in itertools.product(("nearest", "linear", "cubic"), coordinates):
        chosen = {"mode": mode, "coordinate_transformation_mode": transformation}
        yield from case("Resize", 11, f(1, 2, 4, 6), f(0), scales, **chosen)
        yield from case("Resize", (13, 18), f(1, 2, 4, 6), None, scales, **chosen)
        yield from case("Resize", (13, 19), f(1, 2, 10, 12), None, None, i(1, 2, 7, 5), **chosen)
    for sizes in ((22, 22), (6, 22), (11, 22), (30, 45)):
        yield from case("Resize", 13, f(1, 1, 30, 30), None, None, i(1, 1, *sizes), mode="linear")
    for mode, padding, corners in itertools.product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (0, 1)
    ):
        attributes = {"padding_mode": padding, "align_corners": corners}
        grid = f(1, 3, 3, 2) * 2.2 - 1.1
        yield from case("GridSample", 16, f(1, 2, 4, 5), grid, mode=mode, **attributes)
        newer = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
        yield from case("GridSample", 20, f(1, 2, 4, 5), grid, mode=newer, **attributes)
    # Detection, quantisation
    boxes = np.sort(f(1, 6, 2, 2), axis=2).reshape(1, 6, 4)
    for threshold in (0.3, 0.7):
        yield from case("NonMaxSuppression", (10, 11), boxes, f(1, 2, 6), i(3), one(threshold), one(0.1))
    yield from case("NonMaxSuppression", 11, boxes, f(1, 2, 6), one(3, np.int64), one(0.5), one(0.1))
    yield from case("NonMaxSuppression", 11, boxes, f(1, 2, 6))
    yield from case("NonMaxSuppression", 11, f(1, 0, 4), f(1, 1, 0), i(3))
    for opset in (10, 13, 19):
        yield from case("QuantizeLinear", opset, f(2, 3) * 9, one(0.5), one(3, np.uint8))
        yield from case("DequantizeLinear", opset, np.asarray([[1, 2, 9]], np.uint8), one(0.5), one(3, np.uint8))
    for opset in (13, 19):
        yield from case("QuantizeLinear", opset, f(2, 3) * 9, f(2) + 0.1, np.asarray([3, 4], np.uint8), axis=0)
        zeros = np.asarray([3, 4], np.int8)
        yield from case("DequantizeLinear", opset, np.ones((2, 3), np.int8), f(2) + 0.1, zeros, axis=0)
        yield from case("DequantizeLinear", opset, np.ones((2, 3), np.int8), one(0.5))
    yield from case("DynamicQuantizeLinear", 11, g(3, 4), n=3)
    # Recurrent networks
    for op, gates, n in (("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 2)):
        for direction, packed in itertools.product(("forward", "reverse", "bidirectional"), (False, True)):
            count = 2 if direction == "bidirectional" else 1
            weights = [g(count, gates * 3, 4), g(count, gates * 3, 3), g(count, gates * 6)]
            lengths = np.asarray([5, 3], np.int32) if packed else None
            yield from case(op, (7, 14), g(5, 2, 4), *weights, lengths, hidden_size=3, direction=direction, n=n)
        weights = [g(1, gates * 3, 4), g(1, gates * 3, 3), g(1, gates * 6)]
        yield from case(op, 14, g(5, 2, 4), *weights, None, g(1, 2, 3), hidden_size=3, n=n)
        if op == "GRU":
            yield from case(op, 14, g(5, 2, 4), *weights, hidden_size=3, linear_before_reset=1, n=n)
    # Signals and text
    yield from case("STFT", 17, f(1, 16, 1), one(4, np.int64), None, one(8, np.int64))
    yield from case("DFT", 17, f(1, 8, 1), axis=1)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        yield from case(op, 17, one(8, np.int64))
        yield from case(op, 17, one(8, np.int64), periodic=0)
    texts = np.asarray(["One", "two", "oNE", "three", "one two"], dtype=object)
    accented = np.asarray(["a", "", "\u00e9t\u00e9", "\u00c0b"], dtype=object)
    for action in ("NONE", "LOWER", "UPPER"):
        normalized = {"case_change_action": action, "locale": "C"}
        yield from case("StringNormalizer", 10, texts[:4], **normalized)
        yield from case("StringNormalizer", 10, texts[None, :4], **normalized)
        yield from case("StringNormalizer", 10, accented, **normalized)
        for is_case_sensitive in (0, 1):
            normalized |= {"is_case_sensitive": is_case_sensitive}
            yield from case("StringNormalizer", 10, texts, **normalized, stopwords=["one"])
            yield from case("StringNormalizer", 10, texts[:4], **normalized, stopwords=["one", "tWo"])
            yield from case("StringNormalizer", 10, texts[:1], **normalized, stopwords=["one", "One"])
    yield from case(
        "TfIdfVectorizer",
        9,
        i(1, 2, 3, 2),
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=[0, 1, 2],
        pool_int64s=[1, 2, 3],
    )


def run_onnxruntime(case: Case) -> list[Any]:
    """What onnxruntime gives for a case."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    content = case.model().SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session.run(None, case.feeds())


def difference(actual: list[Any], expected: list[Any]) -> str:
    """How outputs differ from expected ones; "" if they do not."""
    for number, (a, b) in enumerate(zip(actual, expected, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {number} is {a.dtype} {a.shape}, not {b.dtype} {b.shape}"
        if a.dtype.kind in "fc":
            if not np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True):
                return f"output {number} differs by {np.nanmax(np.abs(a - b))}"
        elif not np.array_equal(a, b):
            return f"output {number} differs"
    return ""


def main() -> int:
    """Compare all cases; return how many differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fallback")
    fallback = parser.parse_args().fallback
    import seqarray.onnx

    warnings.simplefilter("ignore")
    compared, differing, refused, unknown = 0, 0, 0, 0
    for case in cases():
        try:
            expected = run_onnxruntime(case)
        except Exception as error:
            unknown += 1
            print(f"not in onnxruntime: {case}: {str(error)[:100]}")
            continue
        compared += 1
        try:
            program = seqarray.onnx.prepare(case.model(), fallback=fallback)
        except ValueError as error:
            refused += 1
            print(f"refused: {case}: {str(error)[:150]}")
            continue
        try:
            found = difference(program.run(case.feeds()), expected)
        except Exception as error:
            found = f"{type(error).__name__}: {str(error)[:150]}"
        if found:
            differing += 1
            print(f"DIFFERS: {case}: {found}")
    print(f"{compared} compared, {differing} differ, {refused} refused, {unknown} not in onnxruntime")
    return differing


if __name__ == "__main__":
    raise SystemExit(main() > 0)
