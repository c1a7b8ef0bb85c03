"""Models rewritten without sequences: onnxruntime runs them to the same values, and what cannot be lowered is named."""

from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import onnx.parser
import pytest
from onnx import helper, numpy_helper

import seqarray as sa
import seqarray.onnx
from seqarray.__main__ import main
from seqarray.onnx._lower import builder
from seqarray.onnx._test_data import read_folder
from tests.onnx.helpers import boolean, floats, integer, refuses, text_model
from tests.onnx.random_graphs import random_inputs, random_model
from tests.onnx.test_exported import FOLDER, data_sets

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

#: Nothing of these is in a lowered model.
SEQUENCE_OPERATORS = frozenset(
    "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty "
    "SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence".split()
)

ONNX_MODELS = Path(onnx.backend.test.__file__).parent / "data" / "simple"


def nodes_of(graph):
    """Every node of a graph, at any depth."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def flattened(values):
    """Tensors by name; those of a sequence as NAME.0, NAME.1, ..."""
    flat = {}
    for name, value in values.items():
        if isinstance(value, (list, sa.ArraySequence)):
            flat |= {f"{name}.{index}": element for index, element in enumerate(value)}
        elif value is not None:
            flat[name] = value
    return flat


def assert_lowers(model, feeds, given=None, **options):
    """Assert that a model without sequences gives in onnxruntime what the model gives here; return it."""
    lowered = sa.onnx.lower(model, feeds if given is None else given, **options)
    onnx.checker.check_model(lowered, full_check=True)
    assert not {node.op_type for node in nodes_of(lowered.graph)} & SEQUENCE_OPERATORS
    names = [node.name for node in nodes_of(lowered.graph) if node.name]
    assert len(names) == len(set(names))
    program = sa.onnx.prepare(model, **({"keepdims_with_split": "ignore"} | options))
    expected = flattened(dict(zip((o.name for o in program.outputs), program.run(feeds), strict=True)))
    session = onnxruntime.InferenceSession(lowered.SerializeToString(), providers=["CPUExecutionProvider"])
    flat = flattened(feeds)
    outputs = session.run(None, {value.name: flat[value.name] for value in session.get_inputs()})
    assert [value.name for value in session.get_outputs()] == list(expected)
    for output, wanted in zip(outputs, expected.values(), strict=True):
        assert output.dtype == wanted.dtype
        np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-6)
    return lowered


def names_of(values):
    return [value.name for value in values]


def op_types(model):
    return [node.op_type for node in model.graph.node]


# Models of others


@pytest.mark.parametrize("number", range(1, 9))
def test_sequence_models_of_onnx(number):
    folder = ONNX_MODELS / f"test_sequence_model{number}"
    model = onnx.load(folder / "model.onnx")
    program = sa.onnx.prepare(model)
    values = read_folder(folder / "test_data_set_0", "input", program.inputs)
    # Positions have defaults, of which the data set has none.
    lowered = assert_lowers(model, dict(zip(names_of(program.inputs), values, strict=False)))
    assert set(names_of(lowered.graph.input)) <= {"X", "Y", "Z"}


@pytest.mark.parametrize(
    "name",
    [
        "centre_parts",
        "doubled_parts",
        "newest_three",
        "pad_to_longest",
        "pairwise_products",
        "ragged_means",
        "reversed_chunks",
        "softmax_each",
        "without_pair",
    ],
)
def test_models_exported_from_torch(name):
    inputs, _ = data_sets(name)[0]
    assert_lowers(onnx.load(FOLDER / f"{name}.onnx"), inputs)


def test_models_whose_lists_depend_on_values_are_refused_by_name():
    for name, mentions in (
        ("keep_positive_rows", ("'Loop_14'", "'If_20'", "2 or 1 tensors", "condition")),
        ("states_until", ("'Loop_9'", "condition of iteration 0")),
    ):
        inputs, _ = data_sets(name)[0]
        refuses(ValueError, lambda n=name, i=inputs: sa.onnx.lower(FOLDER / f"{n}.onnx", i), "lower:", *mentions)


# Operators and control flow

LOOP = """agraph (float[N, M] x) => (float[N, M] y) {
    n = Shape<start = 0, end = 1>(x) e = SequenceEmpty()
    [rows] s = Loop(n, "", e)<body = b (int64 i, bool c, seq(float[]) a) => (bool k, seq(float[]) t) {
        k = Identity(c) [row] r = Gather<axis = 0>(x, i) v = Tanh(r) t = SequenceInsert(a, v) }>
    y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }"""

MAP = """agraph (seq(float[K, 2]) s, float[2] w) => (seq(float[]) t) {
    t = SequenceMap(s, w)<body = b (float[K, 2] e, float[2] v) => (float[K, 2] r) { a = Mul(e, v) r = Relu(a) }> }"""

BRANCHES = """agraph (bool c, float[N] x) => (seq(float[]) t, float[] y) {
    t, y = If(c)<
        then_branch = a () => (seq(float[]) p, float[] q) { u = Neg(x) p = SequenceConstruct(x, u) q = Identity(x) },
        else_branch = b () => (seq(float[]) p, float[] q) {
            k = Constant<value_int = 2>() p = SplitToSequence(x, k) q = Exp(x) }> }"""

SCAN = """agraph (float[N, 2] x, seq(float[]) s) => (float[2] z, float[2, N] y) {
    z0 = Constant<value_floats = [0.0, 1.0]>()
    z, y = Scan<num_scan_inputs = 1, scan_input_directions = [1], scan_output_axes = [1], scan_output_directions = [1],
        body = b (float[2] p, float[2] v) => (float[2] q, float[2] o) {
            k = Constant<value_int = 0>() e = SequenceAt(s, k) t = Mul(v, e) q = Add(p, t) o = Identity(q)
        }>(z0, x) }"""

OPTIONAL = """agraph (optional(float[N]) o, float[N] x) => (bool h, float[N] y) { h = OptionalHasElement(o)
    y = If(h)<then_branch = a () => (float[N] p) { p = OptionalGetElement(o) },
              else_branch = b () => (float[N] q) { q = Neg(x) }> }"""

AT = "agraph (int64 p, float[N, M] x) => (float[M] y) { s = SplitToSequence<keepdims = 0>(x) y = SequenceAt(s, p) }"


def test_a_loop_that_appends_is_unrolled():
    lowered = assert_lowers(text_model(LOOP), {"x": np.arange(6, dtype=np.float32).reshape(3, 2) / 6})
    assert op_types(lowered).count("Gather") == op_types(lowered).count("Tanh") == 3


def test_a_map_over_items():
    lowered = assert_lowers(
        text_model(MAP), {"s": [floats([1, -2]), floats([3, 4], [-5, 6])], "w": floats(1, 2)}, {"s": [(1, 2), (2, 2)]}
    )
    assert names_of(lowered.graph.input) == ["s.0", "s.1", "w"]
    assert names_of(lowered.graph.output) == ["t.0", "t.1"]
    assert names_of(sa.onnx.lower(text_model(MAP), {"s": []}).graph.output) == []


@pytest.mark.parametrize("value", [True, False])
def test_branches_that_give_as_many_tensors(value):
    feeds = {"c": boolean(value), "x": floats(1, 2, 3, 4)}
    lowered = assert_lowers(text_model(BRANCHES), feeds, {"c": (), "x": (4,)})
    assert op_types(lowered).count("If") == 1
    fixed = assert_lowers(text_model(BRANCHES), feeds)
    assert names_of(fixed.graph.input) == ["x"]
    assert "If" not in op_types(fixed)


def test_branches_that_give_different_numbers_of_tensors_are_refused():
    refuses(ValueError, lambda: sa.onnx.lower(text_model(BRANCHES), {"x": (6,)}), "node 0 (If-", "2 or 3", "condition")


def test_a_scan_that_reads_a_sequence():
    assert_lowers(text_model(SCAN), {"x": floats([1, 2], [3, 4], [5, 6]), "s": [floats(2, 3)]})


@pytest.mark.parametrize("given", [None, floats(5, 6)], ids=["absent", "present"])
def test_optionals(given):
    assert_lowers(text_model(OPTIONAL), {"o": given, "x": floats(1, 2)})


@pytest.mark.parametrize("position", [0, 2, -1])
def test_a_position_that_is_not_known(position):
    feeds = {"p": integer(position), "x": floats([1, 2], [3, 4], [5, 6])}
    lowered = assert_lowers(text_model(AT), feeds, {"p": (), "x": (3, 2)})
    assert names_of(lowered.graph.input) == ["p", "x"]
    assert_lowers(text_model(AT.replace("int64 p", "int64[1] p")), feeds | {"p": integer([position])}, {"x": (3, 2)})


def test_tensors_of_different_shapes_need_a_position_that_is_known():
    text = AT.replace("<keepdims = 0>(x)", "(x, two)").replace("float[M]", "float[A, M]")
    model = text_model(text)
    model.graph.initializer.append(numpy_helper.from_array(integer(2), "two"))
    refuses(ValueError, lambda: sa.onnx.lower(model, {"x": (3, 2)}), "node 1 (SequenceAt-11)", "position", "not known")
    assert_lowers(model, {"p": integer(1), "x": floats([1, 2], [3, 4], [5, 6])})


@pytest.mark.parametrize("opset", [11, 12, 13, 18])
def test_every_version_of_split_and_of_the_axes(opset):
    model = text_model(
        """agraph (float[2, 5] x) => (float[A, B, C] y, float[D, E] z) {
            sizes = Constant<value = int64[2] {2, 3}>() s = SplitToSequence<axis = 1>(x, sizes)
            i = Constant<value = int64 {1}>() a = SequenceAt(s, i) t = SequenceConstruct(a, a, a)
            y = ConcatFromSequence<axis = -1, new_axis = 1>(t) u = SequenceErase(s) v = SequenceInsert(u, x, i)
            z = ConcatFromSequence<axis = -1>(v) }""",
        opset=opset,
    )
    assert_lowers(model, {"x": np.arange(10, dtype=np.float32).reshape(2, 5)})


def test_keepdims_beside_a_size():
    model = text_model(
        "agraph (float[N, M] x) => (seq(float[]) y) { n = Constant<value_int = 1>() "
        "y = SplitToSequence<keepdims = 0>(x, n) }"
    )
    feeds = {"x": floats([1, 2], [3, 4])}
    ignored = assert_lowers(model, feeds)
    applied = assert_lowers(model, feeds, keepdims_with_split="apply")
    shapes = [len(m.graph.output[0].type.tensor_type.shape.dim) for m in (ignored, applied)]
    assert shapes == [2, 1]


def test_functions_and_what_touches_no_sequence():
    model = text_model(
        """agraph (int64 n, float[N] x) => (seq(float[]) s, float[N] y, float[N] z) {
            s = local.halves<n = 2>(x)
            y = Loop(n, "", x)<body = b (int64 i, bool c, float[N] a) => (bool d, float[N] e) {
                d = Identity(c) f = local.double(a) e = Add(f, x) }>
            zero = Constant<value_int = 0>() first = SequenceAt(s, zero)
            z = Loop(n, "", first)<body = b (int64 i, bool c, float[N] a) => (bool d, float[N] e) {
                d = Identity(c) e = Add(a, first) }> }
        <domain: "local", opset_import: ["": 18, "local": 1]>
        halves <n> (x) => (y) { k = Constant<value_int: int = @n>() s = SplitToSequence(x, k) y = Identity(s) }
        <domain: "local", opset_import: ["": 18]> double (x) => (y) { y = Add(x, x) }""",
        imports=', "local": 1',
    )
    lowered = assert_lowers(model, {"n": integer(3), "x": floats(1, 2, 3)})
    assert op_types(lowered).count("Loop") == 2
    assert names_of(lowered.graph.input) == ["n", "x"]
    assert [function.name for function in lowered.functions] == ["double"]


def test_a_constant_in_a_loop_is_written_once():
    model = text_model(LOOP.replace("v = Tanh(r)", "v = Add(r, w)"))
    (loop,) = (node for node in model.graph.node if node.op_type == "Loop")
    weights = np.arange(2000, dtype=np.float32)
    loop.attribute[0].g.initializer.append(numpy_helper.from_array(weights, "w"))
    lowered = assert_lowers(model, {"x": np.ones((3, 2000), dtype=np.float32)})
    assert sum(list(tensor.dims) == [2000] for tensor in lowered.graph.initializer) == 1


def test_inputs_that_are_outputs():
    model = text_model(
        "agraph (float[N] x, seq(float[]) s) => (float[N] x, seq(float[]) s, seq(float[]) t, float[] y) "
        "{ t = SequenceInsert(s, x) p = Constant<value_int = 0>() y = SequenceAt(s, p) }"
    )
    lowered = assert_lowers(model, {"x": floats(1, 2), "s": [floats(3), floats(4)]})
    assert names_of(lowered.graph.input) == ["x", "s.0", "s.1"]
    assert names_of(lowered.graph.output) == ["x", "s.0", "s.1", "t.0", "t.1", "t.2", "y"]


def test_random_graphs():
    lowered = 0
    for seed in range(16):
        model, inputs = random_model(seed), random_inputs(seed)
        try:
            sa.onnx.prepare(model).run(inputs)
        except (IndexError, ValueError):
            with pytest.raises((IndexError, ValueError)):
                sa.onnx.lower(model, inputs)
        else:
            assert_lowers(model, inputs)
            lowered += 1
    assert lowered >= 8


# What examples give


SIZES = """agraph (float[N] x, int64[K] sizes, int64[L] more) => (float[M] y, int64[A] doubled, int64[L] sum) {
    s = SplitToSequence(x, sizes) t = SequenceErase(s) y = ConcatFromSequence<axis = 0>(t)
    doubled = Add(sizes, sizes) sum = Add(more, more) }"""


def test_an_example_that_is_read_becomes_a_constant_everywhere():
    feeds = {"x": floats(1, 2, 3), "sizes": integer([2, 1]), "more": integer([5])}
    lowered = assert_lowers(text_model(SIZES), feeds)
    assert names_of(lowered.graph.input) == ["x", "more"]
    assert "Add" in op_types(lowered)
    assert op_types(lowered).count("Add") == 1


def test_sizes_without_values_are_named():
    model = text_model(SIZES)
    refuses(
        ValueError, lambda: sa.onnx.lower(model, {"x": (3,), "sizes": (2,)}), "SplitToSequence-11", "split", "known"
    )
    refuses(ValueError, lambda: sa.onnx.lower(model, {"sizes": integer([2, 1])}), "axis 0", "input 0", "not known")
    refuses(
        ValueError, lambda: sa.onnx.lower(model, {"x": (4,), "sizes": integer([2, 1])}), "SplitToSequence", "4", "3"
    )


def test_values_that_shapes_depend_on_become_constants_only_where_the_shapes_matter():
    text = """agraph (float[N] x, int64[1] n) => (float[M] y{more}) {{ z = Constant<value_ints = [0]>()
        y = Slice(x, z, n) {split} }}"""
    feeds = {"x": floats(1, 2, 3), "n": integer([2])}
    lowered = assert_lowers(text_model(text.format(more="", split="")), feeds)
    assert names_of(lowered.graph.input) == ["x", "n"]
    session = onnxruntime.InferenceSession(lowered.SerializeToString(), providers=["CPUExecutionProvider"])
    (output,) = session.run(None, feeds | {"n": integer([3])})
    assert output.tolist() == [1, 2, 3]
    model = text_model(text.format(more=", seq(float[]) s", split="s = SplitToSequence(y)"))
    assert names_of(assert_lowers(model, feeds).graph.input) == ["x"]


@pytest.mark.parametrize(
    ("given", "error", "mentions"),
    [
        ({"nobody": (2,)}, ValueError, ("'nobody'", "x, sizes, more")),
        ({"x": (2, 2)}, ValueError, ("'x'", "(2, 2)")),
        ({"x": np.ones(2)}, TypeError, ("'x'", "float64")),
        ({"x": "2"}, TypeError, ("'x'", "shape")),
        ({"x": None}, ValueError, ("'x'", "None")),
        ("x", TypeError, ("inputs", "str")),
        ([(1,)] * 4, ValueError, ("4", "3")),
    ],
)
def test_what_does_not_fit_is_refused(given, error, mentions):
    refuses(error, lambda: sa.onnx.lower(text_model(SIZES), given), "lower", *mentions)


def test_errors_of_sequences_are_those_of_their_operators():
    text = "agraph (float[2] x) => (float[2] y) { s = SequenceConstruct(x) p = Constant<value_int = 3>() "
    refuses(
        IndexError, lambda: sa.onnx.lower(text_model(text + "y = SequenceAt(s, p) }")), "node 2 (SequenceAt-11)", "3"
    )
    empty = text + "e = SequenceErase(s) y = ConcatFromSequence<axis = 0>(e) }"
    refuses(ValueError, lambda: sa.onnx.lower(text_model(empty)), "ConcatFromSequence-11", "empty")


def test_an_input_of_a_sequence_needs_the_number_of_its_tensors():
    refuses(ValueError, lambda: sa.onnx.lower(text_model(MAP)), "'s'", "number of tensors")


EXPANDING = {
    "iterations": """agraph (int64 n, float[N] x) => (float[N] y, seq(float[]) t) { s = SequenceEmpty()
        y, t = Loop(n, "", x, s)<body = b (int64 i, bool c, float[N] v, seq(float[]) a) => (bool d, float[N] w,
        seq(float[]) e) { d = Identity(c) w = Identity(v) e = Identity(a) }> }""",
    "chunks": "agraph (int64 n, float[N] x) => (seq(float[]) s) { s = SplitToSequence(x) }",
    "chunks of a size": "agraph (int64 n, float[N] x) => (seq(float[]) s) { two = Constant<value_int = 2>() "
    "s = SplitToSequence(x, two) }",
}


@pytest.mark.parametrize("name", EXPANDING)
def test_what_expands_without_end_is_refused(name, monkeypatch):
    monkeypatch.setattr(builder, "MAX_WORK", 5000)
    model = text_model(EXPANDING[name])
    refuses(ValueError, lambda: sa.onnx.lower(model, {"n": integer(1 << 40), "x": (1 << 40,)}), "node", "5000")


# The command line


def test_the_command(tmp_path, capsys):
    onnx.save(text_model(MAP), tmp_path / "model.onnx")
    command = ["lower", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out.onnx")]
    assert main([*command, "--shape", "s=1,2;3,2", "--shape", "w=2"]) == 0
    assert "input s.1: tensor(float)[3, 2]" in capsys.readouterr().out
    assert names_of(onnx.load(tmp_path / "out.onnx").graph.output) == ["t.0", "t.1"]
    np.savez(tmp_path / "in.npz", **{"s.0": floats([1, 2]), "w": floats(1, 2)})
    assert main([*command, "--inputs", str(tmp_path / "in.npz")]) == 0
    assert names_of(onnx.load(tmp_path / "out.onnx").graph.input) == ["s.0", "w"]
    for wrong in (["--shape", "s=1,x"], ["--shape", "z=1"], []):
        capsys.readouterr()
        assert main([*command, *wrong]) == 2
        assert capsys.readouterr().err.startswith("error: ")


def test_the_metadata_stays():
    model = text_model(MAP)
    helper.set_model_props(model, {"author": "somebody"})
    lowered = sa.onnx.lower(model, {"s": [(1, 2)]})
    assert [(prop.key, prop.value) for prop in lowered.metadata_props] == [("author", "somebody")]
