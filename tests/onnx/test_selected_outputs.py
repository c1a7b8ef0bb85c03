"""Runs that ask for some values of a graph: what they need is computed, and nothing else."""

import gc
import warnings
import weakref

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import seqarray as sa
import seqarray.onnx
from tests.onnx.helpers import floats, integer, on_all, placed, refuses, text_model

TWO = """agraph (float[N] x, int64[M] sizes) => (seq(float[]) parts, float[K] y) {
    a = Neg(x) [cut] parts = SplitToSequence(a, sizes) b = Add(a, a) [join] y = Concat<axis = 0>(a, b) }"""


@on_all
def test_any_value_of_the_graph_can_be_asked_for(backend):
    x = placed(floats(1, 2, 3), backend)
    program = seqarray.onnx.prepare(text_model(TWO), xp=backend.xp, device=backend.device)
    b, parts, again = program.run([x, integer([1, 2])], outputs=["b", "parts", "x"])
    sa.testing.assert_arrays_equal(b, placed(floats(-2, -4, -6), backend))
    sa.testing.assert_sequences_equal(parts, [placed(floats(-1), backend), placed(floats(-2, -3), backend)])
    sa.testing.assert_arrays_equal(again, x)
    assert again is not x or backend.name != "numpy"
    assert program.run([x, integer([1, 2])], outputs=[]) == []


def test_what_is_not_needed_is_not_computed():
    """The sizes do not fit: splitting fails, and the other output does not need it."""
    program = seqarray.onnx.prepare(text_model(TWO))
    inputs = [floats(1, 2, 3), integer([1, 1])]
    refuses(ValueError, lambda: program.run(inputs), "cut")
    (y,) = program.run(inputs, outputs=["y"])
    sa.testing.assert_arrays_equal(y, floats(-1, -2, -3, -2, -4, -6))
    refuses(ValueError, lambda: program.run(inputs, outputs=["y", "parts"]), "node 1 (SplitToSequence-11 'cut')")


def test_values_that_only_inner_graphs_need_are_computed():
    model = text_model(
        """agraph (int64 n, float[N] x) => (float[N] y, float[N] z) { d = Add(x, x) t = Neg(x) z = Neg(t)
            y = Loop(n, "", x)<body = b (int64 i, bool c, float[N] v) => (bool k, float[N] w) {
                k = Identity(c) w = If(c)<then_branch = p () => (float[N] r) { r = Add(v, d) },
                else_branch = q () => (float[N] s) { s = Identity(v) }> }> }"""
    )
    program = seqarray.onnx.prepare(model, fallback="reference")
    (y,) = program.run([integer(2), floats(1)], outputs=["y"])
    sa.testing.assert_arrays_equal(y, floats(5))
    with program.profile() as profile:
        program.run([integer(1), floats(1)], outputs=["y"])
    assert {taken.operator for taken in profile.steps} == {"Add-14", "Loop-16", "Identity-16", "If-16"}


def test_initializers_are_shared_and_those_that_are_not_needed_are_not_there():
    model = text_model("agraph (float[N] x) => (float[N] y, float[N] z) { y = Add(x, v) z = Add(x, w) }")
    arrays = [numpy_helper.from_array(np.zeros(1000, dtype=np.float32), name) for name in "vw"]
    model.graph.initializer.extend(arrays)
    program = seqarray.onnx.prepare(model)
    program.run([floats(1)], outputs=["z"])
    (selection,) = program._selections.values()
    (shared,) = selection._constants.values()
    assert any(shared is array for array in program._constants.values())


def test_a_model_that_has_changed_is_not_read_again(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(text_model(TWO), path)
    program = seqarray.onnx.prepare(path)
    onnx.save(text_model(TWO.replace("Neg", "Abs")), path)
    refuses(ValueError, lambda: program.run([floats(1), integer([1])], outputs=["y"]), "changed")


def test_selections_warn_of_nothing_again():
    model = text_model(
        "agraph (float[N, M] x, int64 n) => (float[N, M] y, seq(float[]) s) { y = Hardmax(x) "
        "s = SplitToSequence<keepdims = 0>(x, n) }"
    )
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = seqarray.onnx.prepare(model, xp=torch, fallback="reference")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.run([torch.ones((1, 2)), torch.asarray(1)], outputs=["s"])
        program.run([torch.ones((1, 2)), torch.asarray(1)], outputs=["y"])


def classifier():
    """A classifier as skl2onnx makes them: a label, and probabilities as a sequence of maps."""
    nodes = [
        helper.make_node("ArgMax", ["x"], ["best"], axis=1, keepdims=0),
        helper.make_node("Identity", ["best"], ["label"]),
        helper.make_node("ZipMap", ["x"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]
    key = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
        helper.make_value_info("probabilities", helper.make_sequence_type_proto(key)),
    ]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])], outputs)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def test_the_label_of_a_model_with_maps():
    program = seqarray.onnx.prepare(classifier())
    x = floats([0, 1, 0], [0, 0, 1])
    (label,) = program.run([x], outputs=["label"])
    sa.testing.assert_arrays_equal(label, integer([1, 2]))
    refuses(ValueError, lambda: program.run([x]), "probabilities", "sequence of map", "outputs=")
    assert "sequence of map" in str(program)


def test_an_input_of_maps_is_refused():
    model = classifier()
    model.graph.input[0].type.CopyFrom(model.graph.output[1].type)
    refuses(ValueError, lambda: seqarray.onnx.prepare(model), "x", "sequence of map")


def test_values_that_are_not_asked_for_are_freed():
    program = seqarray.onnx.prepare(text_model(TWO))
    (y,) = program.run([floats(1), integer([1])], outputs=["y"])
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None
