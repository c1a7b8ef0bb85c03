"""Small models that would take all memory or all time: each has to be refused under limits before it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LARGE = 20_000


def value(name: str, element_type: int, shape: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    """A declared value."""
    return helper.make_tensor_value_info(name, element_type, shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, Any],
    output: str = "y",
    *,
    opset: int = 20,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model without inputs whose output is the shape or the length of what its nodes make."""
    tensors = []
    for name, values in constants.items():
        if isinstance(values, list) and isinstance(values[0], str):
            # In an array of NumPy, which onnx's helper makes, every item has the width of the longest.
            encoded = [text.encode() for text in values]
            tensors.append(
                TensorProto(name=name, data_type=TensorProto.STRING, dims=[len(values)], string_data=encoded)
            )
            continue
        array = np.asarray(values)
        if array.dtype.kind in "SU":
            tensors.append(helper.make_tensor(name, TensorProto.STRING, array.shape, array.reshape(-1).tolist()))
        else:
            tensors.append(numpy_helper.from_array(array, name))
    graph = helper.make_graph(list(nodes), "hostile", [], [value(output, TensorProto.INT64, [None])], tensors)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def operator(op_type: str, constants: dict[str, Any], *, opset: int = 20, **attributes: Any) -> onnx.ModelProto:
    """A model of one operator on constants."""
    outputs = ["z", "counts"] if op_type == "StringSplit" else ["z"]
    made = helper.make_node(op_type, list(constants), outputs, **attributes)
    return model_of([made, helper.make_node("Shape", ["z"], ["y"])], constants, opset=opset)


def loop(body: Sequence[onnx.NodeProto], carried: onnx.TypeProto, count: str = "count") -> onnx.NodeProto:
    """A Loop that carries `x`, which its body replaces by `next`, and gives `last`."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["goes_on"]), *body],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), helper.make_value_info("x", carried)],
        [value("goes_on", TensorProto.BOOL, []), helper.make_value_info("next", carried)],
    )
    return helper.make_node("Loop", [count, "", "start"], ["last"], body=graph)


def growing_text() -> onnx.ModelProto:
    """Text that doubles in every iteration."""
    grown = loop([helper.make_node("StringConcat", ["x", "x"], ["next"])], tensor_type(TensorProto.STRING))
    return model_of([grown, helper.make_node("Shape", ["last"], ["y"])], {"count": np.int64(25), "start": ["abcdefgh"]})


def tensor_type(element_type: int) -> onnx.TypeProto:
    """The type of a tensor of any shape."""
    return helper.make_tensor_type_proto(element_type, None)


def endless_empties() -> onnx.ModelProto:
    """A sequence to which arrays without elements are added for ever."""
    body = [
        helper.make_node("ConstantOfShape", ["none"], ["empty"]),
        helper.make_node("SequenceInsert", ["x", "empty"], ["next"]),
    ]
    carried = helper.make_sequence_type_proto(tensor_type(TensorProto.FLOAT))
    nodes = [
        helper.make_node("SequenceEmpty", [], ["start"]),
        loop(body, carried),
        helper.make_node("SequenceLength", ["last"], ["y"]),
    ]
    return model_of(nodes, {"count": np.int64(1 << 62), "none": np.asarray([0])})


def empty_chunks(count: int) -> onnx.ModelProto:
    """A split of an array without elements into many chunks."""
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["z"]),
        helper.make_node("SplitToSequence", ["z"], ["s"], axis=0),
        helper.make_node("SequenceLength", ["s"], ["y"]),
    ]
    return model_of(nodes, {"shape": np.asarray([count, 0])})


def nested_loops(depth: int = 4) -> onnx.ModelProto:
    """Loops of 1000 iterations inside one another."""
    nodes = [helper.make_node("Identity", ["x"], ["next"])]
    for level in range(depth):
        inner = loop(nodes, tensor_type(TensorProto.FLOAT))
        graph = inner.attribute[0].g
        for node in graph.node:
            rename(node, level)
        for declared in (*graph.input, *graph.output):
            declared.name = f"{declared.name}_{level}"
        if level < depth - 1:
            inner.input[2], inner.output[0] = "x", "next"
        nodes = [inner]
    return model_of(
        [*nodes, helper.make_node("Shape", ["last"], ["y"])],
        {"count": np.int64(1000), "start": np.ones(1, dtype=np.float32)},
    )


def rename(node: onnx.NodeProto, level: int) -> None:
    """Give the names of one level of a nest a number; those of constants stay."""
    for names in (node.input, node.output):
        for index, name in enumerate(names):
            if name in ("x", "next", "go", "goes_on"):
                names[index] = f"{name}_{level}"


def sparse_constant() -> onnx.ModelProto:
    """A sparse tensor with one value and 2^40 places."""
    sparse = onnx.SparseTensorProto(dims=[1 << 40])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, dtype=np.float32), "v"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, dtype=np.int64)))
    made = helper.make_node("Constant", [], ["v"], sparse_value=sparse)
    return model_of([made, helper.make_node("Shape", ["v"], ["y"])], {})


def scan(count: int) -> onnx.ModelProto:
    """A Scan that is said to have many inputs."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["item"], ["result"])],
        "body",
        [value("item", TensorProto.FLOAT)],
        [value("result", TensorProto.FLOAT)],
    )
    made = helper.make_node("Scan", ["x"], ["y"], num_scan_inputs=count, body=body)
    return model_of([made], {"x": np.ones((3, 2), dtype=np.float32)})


def doubling_functions(levels: int = 30, *, replaces: bool = False) -> onnx.ModelProto:
    """Functions that call the next one twice; or that stand for an operator by which others are defined."""
    imports = [helper.make_opsetid("", 16), helper.make_opsetid("local", 1)]
    functions = []
    for level in range(levels):
        last = level == levels - 1
        name, domain = ("Identity", "") if last else (f"f{level + 1}", "local")
        calls = [helper.make_node(name, [a], [b], domain=domain) for a, b in (("a", "b"), ("b", "c"))]
        functions.append(helper.make_function("local", f"f{level}", ["a"], ["c"], calls, imports))
    if replaces:
        call = helper.make_node("f0", ["a"], ["c"], domain="local")
        functions.append(helper.make_function("", "Or", ["a", "b"], ["c"], [call], imports))
        nodes = [helper.make_node("LessOrEqual", ["x", "x"], [f"y{i}"]) for i in range(400)]
        nodes.append(helper.make_node("Or", ["y0", "y1"], ["y"]))
    else:
        nodes = [helper.make_node("f0", ["x"], ["y"], domain="local")]
    return model_of(nodes, {"x": np.ones(1, dtype=np.float32)}, opset=16, functions=functions)


def floats(*shape: int) -> Any:
    """Ones of float32."""
    return np.ones(shape, dtype=np.float32)


def bytes_of(*shape: int) -> Any:
    """Ones of uint8."""
    return np.ones(shape, dtype=np.uint8)


ROWS = {"a": np.ones((LARGE, 1), dtype=np.int64), "b": np.ones((1, LARGE), dtype=np.int64)}
FLOAT_ROWS = {name: array.astype(np.float32) for name, array in ROWS.items()}
SMALL_ROWS = {name: array.astype(np.uint8) for name, array in ROWS.items()}
IMAGE = floats(1, 1, 2, 2)

#: What would take too much, by what it is.
HOSTILE: dict[str, Callable[[], onnx.ModelProto]] = {
    "text that doubles": growing_text,
    "empty elements without end": endless_empties,
    "empty chunks": lambda: empty_chunks(1 << 27),
    "more empty chunks": lambda: empty_chunks(1 << 62),
    "loops inside loops": nested_loops,
    "sparse constant": sparse_constant,
    "Scan with many inputs": lambda: scan(1 << 40),
    "functions that double": doubling_functions,
    "functions that replace an operator": lambda: doubling_functions(replaces=True),
    "Split": lambda: operator("Split", {"x": floats(0)}, num_outputs=1 << 24),
    "BitwiseOr": lambda: operator("BitwiseOr", ROWS),
    "BitwiseXor": lambda: operator("BitwiseXor", ROWS),
    "MelWeightMatrix": lambda: operator(
        "MelWeightMatrix",
        {
            "a": np.int64(100_000),
            "b": np.int64(8192),
            "c": np.int64(16_000),
            "d": np.float32(0),
            "e": np.float32(8000),
        },
    ),
    "DFT": lambda: operator("DFT", {"x": floats(1, 4, 1), "n": np.int64(10**8)}),
    "DFT-17": lambda: operator("DFT", {"x": floats(1, 4, 1), "n": np.int64(10**8)}, opset=17),
    "STFT": lambda: operator("STFT", {"x": floats(1, 9, 1), "s": np.int64(1), "w": floats(9), "n": np.int64(10**8)}),
    "RoiAlign": lambda: operator(
        "RoiAlign",
        {"x": IMAGE, "r": floats(1, 4), "b": np.zeros(1, dtype=np.int64)},
        output_height=10_000,
        output_width=10_000,
    ),
    "samples of RoiAlign": lambda: operator(
        "RoiAlign", {"x": IMAGE, "r": floats(1, 4), "b": np.zeros(1, dtype=np.int64)}, sampling_ratio=10_000
    ),
    "ConvTranspose": lambda: operator("ConvTranspose", {"x": IMAGE, "w": floats(1, 1, 1, 1)}, strides=[LARGE] * 2),
    "ConvInteger": lambda: operator(
        "ConvInteger", {"x": bytes_of(1, 1, 2, 2), "w": bytes_of(1, 1, 1, 1)}, pads=[10_000] * 4
    ),
    "Conv": lambda: operator("Conv", {"x": IMAGE, "w": floats(1, 1, 2, 2)}, dilations=[LARGE] * 2, pads=[LARGE] * 4),
    "MaxPool": lambda: operator("MaxPool", {"x": IMAGE}, kernel_shape=[LARGE] * 2, auto_pad="SAME_UPPER"),
    "MaxUnpool": lambda: operator(
        "MaxUnpool",
        {"x": IMAGE, "i": np.zeros((1, 1, 2, 2), dtype=np.int64)},
        kernel_shape=[10_000] * 2,
        strides=[10_000] * 2,
    ),
    "GatherND": lambda: operator("GatherND", {"x": floats(1, LARGE), "i": np.zeros((LARGE, 1), dtype=np.int64)}),
    "Multinomial": lambda: operator("Multinomial", {"x": floats(1, 2)}, sample_size=500_000_000),
    "MatMulInteger": lambda: operator("MatMulInteger", SMALL_ROWS),
    "DequantizeLinear": lambda: operator("DequantizeLinear", {"x": bytes_of(LARGE, 1), "s": floats(LARGE)}, axis=1),
    "LayerNormalization": lambda: operator("LayerNormalization", FLOAT_ROWS),
    "PRelu": lambda: operator("PRelu", FLOAT_ROWS),
    "GreaterOrEqual": lambda: operator("GreaterOrEqual", FLOAT_ROWS),
    "Clip": lambda: operator("Clip", FLOAT_ROWS),
    "ReduceSum of nothing": lambda: operator(
        "ReduceSum", {"x": np.zeros((1 << 27, 0), dtype=np.float32), "axes": np.asarray([1])}
    ),
    "ReduceL1 of nothing": lambda: operator(
        "ReduceL1", {"x": np.zeros((1 << 27, 0), dtype=np.float32), "axes": np.asarray([1])}
    ),
    "Softmax of nothing": lambda: operator("Softmax", {"x": np.zeros((1 << 27, 0), dtype=np.float32)}),
    "StringSplit": lambda: operator("StringSplit", {"x": ["a" * 100_000, *[""] * 1999]}, delimiter="a"),
    "LabelEncoder": lambda: with_domain(
        operator("LabelEncoder", {"x": np.arange(2000)}, keys_int64s=[1, 2], values_strings=["a", "b" * 100_000])
    ),
    "regular expression": lambda: operator("RegexFullMatch", {"x": ["a" * 40 + "!"]}, pattern="(a+)+$"),
    "Einsum that takes years": lambda: operator(
        "Einsum", {name: floats(10_000) for name in "abcdef"}, equation="a,b,c,d,e,f->"
    ),
    "RandomNormal": lambda: operator("RandomNormal", {}, shape=[1 << 20, 1 << 20]),
}


def with_domain(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its first node in the domain of machine learning."""
    model.graph.node[0].domain = "ai.onnx.ml"
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 4))
    return model
