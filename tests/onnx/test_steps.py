"""The steps of a program as text and as data: labels, versions, attributes, small constants, and where each runs."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import seqarray.onnx
from tests.onnx.helpers import floats, integer, text_model

GRAPH = """agraph (float[N, M] x, int64 n) => (seq(float[]) s, float[] y) {
    a = MatMul(x, w) [soft] c = Softmax<axis = 0>(a) k = Constant<value_ints = [1, 2]>()
    t = SplitToSequence<axis = 1>(c, k) e = SequenceEmpty()
    [grow] s = Loop(n, "", e)<body = turn (int64 i, bool go, seq(float[]) p) => (bool on, seq(float[]) q) {
        on = Identity(go) last = Constant<value_int = -1>() f = SequenceAt(t, last) g = Erf(f)
        q = SequenceInsert(p, g) }>
    y = local.f(x) }
    <domain: "local", opset_import: ["": 20]> f (x) => (y) { u = Hardmax(x) y = Neg(u) }"""


FAILING = """agraph (seq(float[]) s, int64 n) => (float[N] y) { x = Constant<value_floats = [0.0]>()
    [repeat] y = Loop(n, "", x)<body = turn (int64 i, bool go, float[N] v) => (bool on, float[M] r) {
        on = Identity(go) far = Constant<value_int = 7>() [here] r = SequenceAt(s, far) }> }"""


def model():
    made = text_model(GRAPH, opset=20, imports=', "local": 1')
    made.graph.initializer.append(numpy_helper.from_array(np.ones((3, 3), dtype=np.float32), "w"))
    return made


def prepared(fallback):
    if fallback == "onnxruntime":
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    return seqarray.onnx.prepare(model(), fallback=fallback)


def test_a_printed_program_has_labels_attributes_and_small_constants():
    lines = [line.strip() for line in str(prepared("reference")).splitlines()]
    for line in (
        "node 0 (MatMul-13): a = MatMul(x, w)   # fallback: onnx.reference on NumPy",
        "node 1 (Softmax-13 'soft'): c = Softmax<axis = 0>(a)",
        "node 3 (SplitToSequence-11): t = SplitToSequence<axis = 1>(c, k = [1, 2])",
        "node 5 (Loop-19 'grow'): s = Loop(n, , e)",
        "turn:",
        "node 2 (SequenceAt-11): f = SequenceAt(t, last = -1)",
        "node 6 (local.f): node 1 (Neg-13): y = Neg(u)",
    ):
        assert line in lines, f"{line!r} not in {lines}"


def test_the_label_of_an_error_is_found_in_the_printed_program():
    program = seqarray.onnx.prepare(text_model(FAILING))
    with pytest.raises(IndexError) as caught:
        program.run([[floats(1)], integer(1)])
    text = str(program)
    outer, inner, *_ = str(caught.value).split(": ")
    assert f"{outer}: " in text
    assert f"{inner}: " in text.split(outer)[1]


@pytest.mark.parametrize(("fallback", "engine"), [("reference", "onnx.reference"), ("onnxruntime", "onnxruntime")])
def test_steps_as_data(fallback, engine):
    steps = prepared(fallback).steps
    by_label = {step.label: step for step in steps}
    assert len(by_label) == len(steps) == 11
    loop = by_label["node 5 (Loop-19 'grow')"]
    assert loop[1:] == ("grow", "", "Loop", 19, "seqarray", False, None)
    for label in ("node 0 (MatMul-13)", f"{loop.label}: node 3 (Erf-13)", "node 6 (local.f): node 0 (Hardmax-13)"):
        assert (by_label[label].engine, by_label[label].fallback) == (engine, True)
        assert (by_label[label].region is not None) == (engine == "onnxruntime")
    assert not by_label["node 1 (Softmax-13 'soft')"].fallback
    at = by_label[f"{loop.label}: node 2 (SequenceAt-11)"]
    assert (at.op_type, at.version, at.engine) == ("SequenceAt", 11, "seqarray")


def test_nodes_that_run_at_once_have_one_region():
    regions = {step.label: step.region for step in prepared("onnxruntime").steps}
    assert regions["node 0 (MatMul-13)"] == regions["node 1 (Softmax-13 'soft')"] is not None
    assert regions["node 6 (local.f): node 0 (Hardmax-13)"] != regions["node 0 (MatMul-13)"]


def test_long_names_texts_lists_and_tensors_are_cut():
    long = "n" * 5000
    node = onnx.helper.make_node("LabelEncoder", ["x"], [long], long, domain="ai.onnx.ml", default_string=long)
    node.attribute.append(onnx.helper.make_attribute("keys_int64s", list(range(5000))))
    node.attribute.append(onnx.helper.make_attribute("values_int64s", list(range(5000))))
    shape = onnx.helper.make_node("ConstantOfShape", ["c"], ["d"], value=numpy_helper.from_array(floats(2)))
    made = text_model("agraph (int64[N] x) => (int64[N] y) { y = Identity(x) }", imports=', "ai.onnx.ml": 4')
    made.graph.node.extend([node])
    text = str(seqarray.onnx.prepare(made, fallback="reference"))
    assert "keys_int64s = [0, 1, 2, 3, 4, 5, ...]" in text
    assert len(text) < 1500
    made.graph.node[-1].CopyFrom(shape)
    made.graph.initializer.append(numpy_helper.from_array(integer([2]), "c"))
    assert "d = ConstantOfShape<value = [2]>(c = [2])" in str(seqarray.onnx.prepare(made, fallback="reference"))


def test_names_do_not_control_the_terminal():
    """A model may come from a stranger."""
    forged = "a\n  output b: fake\x1b[31m\x07"
    node = onnx.helper.make_node("Sinh", ["x"], [forged], forged)
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [forged]) for name in ("x", forged))
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], forged, [x], [y]), opset_imports=[onnx.helper.make_opsetid("", 18)]
    )
    program = seqarray.onnx.prepare(model)
    assert len(str(program).splitlines()) == 4
    for text in (*str(program).splitlines(), repr(program), repr(program.inputs), repr(program.outputs)):
        assert text.isprintable()
    with pytest.raises(ValueError, match="input 'x'") as caught:
        program.run([np.zeros((2, 2), np.float32)])
    assert str(caught.value).isprintable()
    with program.profile() as profile:
        program.run([np.zeros(2, np.float32)])
    assert all(line.isprintable() for line in str(profile).splitlines())
