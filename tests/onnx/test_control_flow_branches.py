"""If, SequenceMap and optionals, on every backend."""

import numpy as np
import pytest

from tests.onnx.helpers import assert_gives, boolean, fails, floats, integer, on_all, text_model

pytestmark = on_all


# If


CHOICE = """
agraph (bool c, float[N] x, seq(float[]) s) => (seq(float[]) out, float[M] other) {
    out, other = If(c)<
        then_branch = yes () => (seq(float[]) a, float[M] b) { a = SequenceInsert(s, x) b = Neg(x) },
        else_branch = no () => (seq(float[]) d, float[M] e) {
            far = Constant<value_int = 5>()
            d = SequenceErase(s)
            e = SequenceAt(s, far)
        }
    >
}
"""


def test_if_runs_one_branch_only(backend):
    inputs = [boolean(True), floats(1), [floats(2, 3)]]
    assert_gives(text_model(CHOICE), inputs, [[floats(2, 3), floats(1)], floats(-1)], backend)
    fails(text_model(CHOICE), [boolean(False), *inputs[1:]], backend, IndexError, "SequenceAt-11", "5")


@pytest.mark.parametrize("opset", [1, 11, 13, 16, 19, 21, 23, 24, 25])
@pytest.mark.parametrize("condition", [True, False])
def test_if_of_each_version(opset, condition, backend):
    model = text_model(
        """agraph (bool c, float[N] x, float[N] z) => (float[N] y) {
            y = If(c)<
                then_branch = yes () => (float[N] a) { a = Identity(x) },
                else_branch = no () => (float[N] b) { b = Identity(z) }
            >
        }""",
        opset=opset,
    )
    assert_gives(model, [boolean(condition), floats(1), floats(2)], [floats(1 if condition else 2)], backend)


def test_condition_of_one_element(backend):
    model = text_model(
        """agraph (bool[1] c, float[N] x) => (float[N] y) {
            y = If(c)<
                then_branch = yes () => (float[N] a) { a = Neg(x) },
                else_branch = no () => (float[N] b) { b = Identity(x) }
            >
        }"""
    )
    assert_gives(model, [np.asarray([True]), floats(1)], [floats(-1)], backend)


def test_if_inside_if_with_captures(backend):
    model = text_model(
        """agraph (bool c, bool d, float[N] x) => (float[N] y) {
            v = Add(x, x)
            y = If(c)<
                then_branch = yes () => (float[N] a) {
                    w = Neg(v)
                    a = If(d)<
                        then_branch = both () => (float[N] p) { p = Add(w, x) },
                        else_branch = first () => (float[N] q) { q = Identity(w) }
                    >
                },
                else_branch = no () => (float[N] b) { b = Identity(v) }
            >
        }"""
    )
    for c, d, expected in [(1, 1, -1), (1, 0, -2), (0, 1, 2), (0, 0, 2)]:
        assert_gives(model, [boolean(c), boolean(d), floats(1)], [floats(expected)], backend)


def test_branches_with_different_numbers_of_outputs_are_refused(backend):
    model = text_model(
        """agraph (bool c, float[N] x) => (float[N] y) {
            y = If(c)<
                then_branch = yes () => (float[N] a) { a = Neg(x) },
                else_branch = no () => (float[N] b, float[N] d) { b = Identity(x) d = Neg(x) }
            >
        }"""
    )
    fails(model, [boolean(False), floats(1)], backend, ValueError, "If", "2", "1")


@pytest.mark.parametrize("branch", ["then_branch", "else_branch"])
def test_if_without_a_branch_is_refused(branch, backend):
    model = text_model(CHOICE)
    kept = [attribute for attribute in model.graph.node[0].attribute if attribute.name != branch]
    del model.graph.node[0].attribute[:]
    model.graph.node[0].attribute.extend(kept)
    fails(model, [boolean(True), floats(1), []], backend, ValueError, "If", branch)


# SequenceMap


def test_sequence_map_with_captures_and_several_outputs(backend):
    model = text_model(
        """agraph (seq(float[]) s, seq(float[]) t, float[K] k, float[K] outer)
            => (seq(float[]) sums, seq(int64[]) shapes, seq(float[]) same) {
            sums, shapes, same = SequenceMap(s, t, k)<
                body = body (float[N] a, float[N] b, float[K] c) => (float[N] x, int64[R] y, float[N] z) {
                    ab = Add(a, b)
                    abc = Add(ab, c)
                    x = Add(abc, outer)
                    y = Shape(a)
                    z = Identity(a)
                }>
        }"""
    )
    inputs = [[floats(1), floats(2, 3)], [floats(10), floats(20, 30)], floats(100), floats(1000)]
    shapes = [np.asarray([1], dtype=np.int64), np.asarray([2], dtype=np.int64)]
    assert_gives(model, inputs, [[floats(1111), floats(1122, 1133)], shapes, inputs[0]], backend)


def test_sequence_map_of_an_empty_sequence_gives_the_types_of_the_body(backend):
    model = text_model(
        """agraph (seq(float[]) s) => (seq(float[]) x, seq(int64[]) y) {
            x, y = SequenceMap(s)<body = body (float[N] a) => (float[N] b, int64[R] d) { b = Neg(a) d = Shape(a) }>
        }"""
    )
    assert_gives(model, [[]], [[], []], backend)


def test_error_inside_a_body_is_told(backend):
    model = text_model(
        """agraph (seq(float[]) s, int64 p) => (seq(float[]) x) {
            x = SequenceMap(s)<body = body (float[N] a) => (float[N] b) { [inside] b = SequenceAt(s, p) }>
        }"""
    )
    fails(model, [[floats(1)], integer(4)], backend, IndexError, "SequenceAt-11", "inside", "4")


# Optionals


def test_optional_inputs_and_outputs(backend):
    model = text_model(
        """agraph (optional(float[N]) o, optional(seq(float[])) p)
            => (optional(float[N]) o2, optional(seq(float[])) p2, bool a, bool b) {
            o2 = Identity(o)
            p2 = Identity(p)
            a = OptionalHasElement(o)
            b = OptionalHasElement(p)
        }"""
    )
    assert_gives(model, [None, None], [None, None, boolean(0), boolean(0)], backend)
    assert_gives(model, [floats(1), []], [floats(1), [], boolean(1), boolean(1)], backend)
    some = [floats(1), floats(2, 3)]
    assert_gives(model, [None, some], [None, some, boolean(0), boolean(1)], backend)


@pytest.mark.parametrize("opset", [15, 18, 28])
def test_optionals_of_each_version(opset, backend):
    model = text_model(
        """agraph (float[N] x) => (float[N] y, bool a, bool b) {
            o = Optional(x)
            nothing = Optional<type = seq(float[N])>()
            y = OptionalGetElement(o)
            a = OptionalHasElement(o)
            b = OptionalHasElement(nothing)
        }""",
        opset=opset,
        ir_version=10,
    )
    assert_gives(model, [floats(1)], [floats(1), boolean(1), boolean(0)], backend)
