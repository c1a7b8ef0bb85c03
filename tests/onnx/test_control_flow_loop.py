"""Loop: how often it iterates, and what it carries, collects and captures."""

import numpy as np
import onnx
import pytest

from tests.onnx.helpers import assert_gives, boolean, fails, floats, integer, on_all, text_model

pytestmark = on_all


# Loop: how often


COLLECT = """
agraph ({declared}) => (seq(int64) out) {{
    empty = SequenceEmpty<dtype = 7>()
    {before}
    out = Loop({trip_count}, {condition}, empty)<
        body = body (int64 i, bool c, seq(int64) s) => (bool c2, seq(int64) s2) {{
        {body}
        s2 = SequenceInsert(s, i)
    }}>
}}
"""

GO_ON = "c2 = Identity(c)"
STOP_AFTER_TWO = "one = Constant<value_int = 1>() c2 = Less(i, one)"


def collect(declared, trip_count, condition, body=GO_ON, before="", opset=18):
    """A model that gives the numbers of the iterations that a loop makes."""
    text = COLLECT.format(declared=declared, trip_count=trip_count, condition=condition, body=body, before=before)
    return text_model(text, opset=opset)


def numbers(count):
    return [integer(i) for i in range(count)]


@pytest.mark.parametrize("count", [0, 1, 5, -1])
def test_loop_with_a_trip_count_alone(count, backend):
    model = collect("int64 n", "n", '""')
    assert_gives(model, [integer(count)], [numbers(max(count, 0))], backend)


@pytest.mark.parametrize("start", [True, False])
def test_loop_with_a_condition_alone(start, backend):
    model = collect("bool go", '""', "go", STOP_AFTER_TWO)
    assert_gives(model, [boolean(start)], [numbers(2 if start else 0)], backend)


@pytest.mark.parametrize(("count", "start", "made"), [(1, True, 1), (2, True, 2), (9, True, 2), (9, False, 0)])
def test_loop_with_a_trip_count_and_a_condition(count, start, made, backend):
    model = collect("int64 n, bool go", "n", "go", STOP_AFTER_TWO)
    assert_gives(model, [integer(count), boolean(start)], [numbers(made)], backend)


def test_loop_with_neither(backend):
    assert_gives(collect("", '""', '""', STOP_AFTER_TWO), [], [numbers(2)], backend)


def test_condition_computed_in_the_body_ends_a_loop_with_a_trip_count_alone(backend):
    """Without a condition to begin with, the body's still counts."""
    assert_gives(collect("int64 n", "n", '""', STOP_AFTER_TWO), [integer(7)], [numbers(2)], backend)


def test_trip_count_may_have_the_shape_of_one_element(backend):
    model = collect("int64[1] n", "n", '""')
    assert_gives(model, [np.asarray([3], dtype=np.int64)], [numbers(3)], backend)


def test_trip_count_from_a_length(backend):
    model = collect("float[N] x", "n", '""', before="parts = SplitToSequence(x) n = SequenceLength(parts)")
    assert_gives(model, [floats(5, 6, 7)], [numbers(3)], backend)


def test_trip_count_from_a_shape(backend):
    model = collect("float[N] x", "n", '""', before="n = Shape(x)")
    assert_gives(model, [floats(5, 6)], [numbers(2)], backend)


@pytest.mark.parametrize("opset", [13, 16, 19, 21, 23, 24, 25])
def test_loop_of_each_version_carries_sequences(opset, backend):
    assert_gives(collect("int64 n", "n", '""', opset=opset), [integer(2)], [numbers(2)], backend)


@pytest.mark.parametrize("opset", [1, 11, 13, 16, 19, 21, 23, 24, 25])
def test_loop_of_each_version_carries_tensors(opset, backend):
    model = text_model(
        """agraph (int64 n, bool go, float[N] x, float[N] z) => (float[N] y, float[T, N] each) {
            y, each = Loop(n, go, x)<body = body (int64 i, bool c, float[N] a) => (bool c2, float[N] b, float[N] e) {
                c2 = Identity(c)
                b = Identity(z)
                e = Identity(a)
            }>
        }""",
        opset=opset,
    )
    inputs = [integer(3), boolean(True), floats(1, 2), floats(3, 4)]
    assert_gives(model, inputs, [floats(3, 4), floats([1, 2], [3, 4], [3, 4])], backend)


# Loop: what is carried, collected and captured


def test_carried_values_that_change_places(backend):
    model = text_model(
        """agraph (int64 n, float[N] x, float[M] y) => (float[P] a, float[Q] b) {
            a, b = Loop(n, "", x, y)<body = body (int64 i, bool c, float[N] v, float[M] w)
                => (bool c2, float[M] w, float[N] v2) {
                c2 = Identity(c)
                v2 = Identity(v)
            }>
        }"""
    )
    # The body gives its second input first; ONNX asks outputs of a graph to be computed in it.
    model.graph.node[0].attribute[0].g.node.append(onnx.helper.make_node("Identity", ["w"], ["w2"]))
    model.graph.node[0].attribute[0].g.output[1].name = "w2"
    assert_gives(model, [integer(3), floats(1), floats(2, 3)], [floats(2, 3), floats(1)], backend)


def test_sequences_and_tensors_carried_together(backend):
    model = text_model(
        """agraph (int64 n, float[N] x, seq(float[]) s) => (float[N] y, seq(float[]) t, seq(float[]) u) {
            nothing = SequenceEmpty()
            y, t, u = Loop(n, "", x, s, nothing)<
                body = body (int64 i, bool c, float[N] a, seq(float[]) s1, seq(float[]) u1)
                    => (bool c2, float[N] a2, seq(float[]) s2, seq(float[]) u2) {
                c2 = Identity(c)
                a2 = Add(a, a)
                first = Constant<value_int = 0>()
                u2 = SequenceInsert(u1, a, first)
                s2 = SequenceErase(s1)
            }>
        }"""
    )
    inputs = [integer(2), floats(1), [floats(7), floats(8, 9), floats()]]
    assert_gives(model, inputs, [floats(4), [floats(7)], [floats(2), floats(1)]], backend)


OPTIONAL_CARRIED = """
agraph (int64 n, float[N] x) => (optional(float[N]) o, bool filled) {
    nothing = Optional<type = float[N]>()
    o = Loop(n, "", nothing)<body = body (int64 i, bool c, optional(float[N]) o1) => (bool c2, optional(float[N]) o2) {
        c2 = Identity(c)
        has = OptionalHasElement(o1)
        v = If(has)<
            then_branch = yes () => (float[N] a) { old = OptionalGetElement(o1) a = Add(old, old) },
            else_branch = no () => (float[N] b) { b = Identity(x) }
        >
        o2 = Optional(v)
    }>
    filled = OptionalHasElement(o)
}
"""


@pytest.mark.parametrize(("count", "expected"), [(0, None), (1, floats(3)), (3, floats(12))])
def test_optionals_carried(count, expected, backend):
    outputs = [expected, boolean(expected is not None)]
    assert_gives(text_model(OPTIONAL_CARRIED), [integer(count), floats(3)], outputs, backend)


SCAN = """
agraph (int64 n, float[2] x) => (float[2] y, float[T, 2] each, int64[T] numbers) {
    y, each, numbers = Loop(n, "", x)<
        body = body (int64 i, bool c, float[2] a) => (bool c2, float[2] b, float[2] e, int64 k) {
            c2 = Identity(c)
            b = Add(a, a)
            e = Identity(b)
            k = Identity(i)
        }>
}
"""


def test_scan_outputs_are_stacked(backend):
    outputs = [floats(4, 8), floats([2, 4], [4, 8]), np.asarray([0, 1], dtype=np.int64)]
    assert_gives(text_model(SCAN), [integer(2), floats(1, 2)], outputs, backend)


def test_scan_outputs_of_no_iteration_have_the_declared_type(backend):
    outputs = [floats(1, 2), np.empty((0, 2), dtype=np.float32), np.empty(0, dtype=np.int64)]
    assert_gives(text_model(SCAN), [integer(0), floats(1, 2)], outputs, backend)


def test_scan_outputs_of_different_shapes_are_refused(backend):
    model = text_model(
        """agraph (float[N] x) => (float[T, M] each) {
            n = Constant<value_int = 2>()
            _, each = Loop(n, "", x)<body = body (int64 i, bool c, float[N] a) => (bool c2, float[M] b, float[K] e) {
                c2 = Identity(c)
                b = Concat<axis = 0>(a, a)
                e = Identity(b)
            }>
        }"""
    )
    fails(model, [floats(1)], backend, ValueError, "Loop", "(4,)", "(2,)")


def test_carried_value_given_back_at_once(backend):
    model = text_model(
        """agraph (int64 n, seq(float[]) s) => (seq(float[]) t) {
            t = Loop(n, "", s)<body = body (int64 i, bool c, seq(float[]) a) => (bool c2, seq(float[]) b) {
                c2 = Identity(c)
                b = Identity(a)
            }>
        }"""
    )
    assert_gives(model, [integer(2), [floats(1, 2)]], [[floats(1, 2)]], backend)


def test_body_whose_inputs_are_its_outputs(backend):
    model = text_model(
        """agraph (int64 n, seq(float[]) s, float[N] x) => (seq(float[]) t, float[N] y, float[T, N] each) {
            t, y, each = Loop(n, "", s, x)<
                body = body (int64 i, bool c, seq(float[]) a, float[N] b)
                    => (bool c, seq(float[]) a, float[N] b, float[N] b) {}
            >
        }"""
    )
    given = [floats(1, 2)], floats(3)
    assert_gives(model, [integer(2), *given], [*given, floats([3], [3])], backend)


def test_one_value_of_a_body_carried_twice_and_collected(backend):
    model = text_model(
        """agraph (int64 n, float[N] x, float[N] z) => (float[N] y, float[N] w, float[T, N] each) {
            y, w, each = Loop(n, "", x, z)<
                body = body (int64 i, bool c, float[N] a, float[N] b) => (bool c2, float[N] d, float[N] d, float[N] d) {
                    c2 = Identity(c)
                    d = Add(a, b)
                }>
        }"""
    )
    outputs = [floats(6), floats(6), floats([3], [6])]
    assert_gives(model, [integer(2), floats(1), floats(2)], outputs, backend)


def test_initializers_of_a_body(backend):
    model = text_model(
        """agraph (int64 n, float[N] x) => (float[N] y, float[T, M] each) {
            y, each = Loop(n, "", x)<
                body = body (int64 i, bool c, float[N] a) => (bool c2, float[N] b, float[M] w)
                <float[1] w = {5}> {
                    c2 = Identity(c)
                    b = Add(a, w)
                }>
        }"""
    )
    assert_gives(model, [integer(2), floats(1)], [floats(11), floats([5], [5])], backend)


@pytest.mark.parametrize("count", [0, 2])
def test_scan_outputs_of_every_type(count, backend):
    types = ["bool", "uint8", "int32", "double", *(["string"] if backend.name == "numpy" else [])]
    values = [np.asarray([1, 0]).astype(dtype) for dtype in ("bool", "uint8", "int32", "float64")]
    values += [np.asarray(["a", "bc"], dtype=object)] if backend.name == "numpy" else []
    inputs = ", ".join(f"{name}[2] x{i}" for i, name in enumerate(types))
    scans = ", ".join(f"{name}[2] e{i}" for i, name in enumerate(types))
    outputs = ", ".join(f"{name}[T, 2] y{i}" for i, name in enumerate(types))
    nodes = " ".join(f"e{i} = Identity(x{i})" for i in range(len(types)))
    results = ", ".join(f"y{i}" for i in range(len(types)))
    model = text_model(
        f"""agraph (int64 n, {inputs}) => ({outputs}) {{
            {results} = Loop(n, "")<body = body (int64 i, bool c) => (bool c2, {scans}) {{ c2 = Identity(c) {nodes} }}>
        }}"""
    )
    expected = [np.broadcast_to(value, (count, 2)) for value in values]
    assert_gives(model, [integer(count), *values], expected, backend)


def test_captures_from_two_graphs_out_and_nested_loops(backend):
    model = text_model(
        """agraph (int64 n, float[N] x) => (seq(float[]) out)
        <float[1] step = {10}> {
            empty = SequenceEmpty()
            twice = Add(x, x)
            out = Loop(n, "", empty)<body = outer (int64 i, bool c, seq(float[]) s) => (bool c2, seq(float[]) s2) {
                c2 = Identity(c)
                times = Cast<to = 1>(i)
                base = Add(twice, times)
                s2 = Loop(i, "", s)<body = inner (int64 j, bool d, seq(float[]) t) => (bool d2, seq(float[]) t2) {
                    d2 = Identity(d)
                    value = Add(base, step)
                    t2 = SequenceInsert(t, value)
                }>
            }>
        }"""
    )
    inner = [floats(13), floats(14), floats(14)]  # one in the second outer iteration, two in the third
    assert_gives(model, [integer(3), floats(1)], [inner], backend)


def test_value_used_after_a_loop_that_captures_it(backend):
    """The body is not the last to use it."""
    model = text_model(
        """agraph (int64 n, float[N] x) => (float[N] y, float[N] z) {
            v = Neg(x)
            y = Loop(n, "", x)<body = body (int64 i, bool c, float[N] a) => (bool c2, float[N] b) {
                c2 = Identity(c)
                b = Add(a, v)
            }>
            z = Neg(v)
        }"""
    )
    assert_gives(model, [integer(3), floats(1)], [floats(-2), floats(1)], backend)


def test_names_in_two_bodies_are_apart(backend):
    body = """(int64 i, bool c, float[N] a) => (bool c2, float[N] b) {
        c2 = Identity(c)
        t = Neg(a)
        b = Add(t, t)
    }"""
    model = text_model(
        f"""agraph (int64 n, float[N] x) => (float[N] z) {{
            y = Loop(n, "", x)<body = one {body}>
            z = Loop(n, "", y)<body = other {body}>
        }}"""
    )
    assert_gives(model, [integer(1), floats(1)], [floats(4)], backend)


@pytest.mark.parametrize(
    ("declared", "value", "mention"),
    [("float n", floats(3)[0, ...], "float"), ("int64[2] n", np.asarray([1, 2]), "2"), ("bool n", boolean(1), "bool")],
)
def test_trip_count_of_the_wrong_kind_is_refused(declared, value, mention, backend):
    error = ValueError if "[2]" in declared else TypeError
    fails(collect(declared, "n", '""'), [np.asarray(value)], backend, error, "Loop", mention)


@pytest.mark.parametrize(
    ("declared", "value"), [("int64 go", integer(1)), ("float go", np.asarray(1, dtype=np.float32))]
)
def test_condition_of_the_wrong_kind_is_refused(declared, value, backend):
    fails(collect(declared, '""', "go", STOP_AFTER_TWO), [value], backend, TypeError, "Loop", "bool")


@pytest.mark.parametrize(
    "body",
    [
        "body (int64 i, bool c) => (bool c2, float[N] b) { c2 = Identity(c) b = Neg(x) }",
        "body (int64 i, bool c, float[N] a) => (bool c2) { c2 = Identity(c) }",
        "body () => (bool c2, float[N] b) { c2 = Constant<value = bool {1}>() b = Neg(x) }",
    ],
    ids=["too few inputs", "too few outputs", "no inputs"],
)
def test_body_that_does_not_fit_its_loop_is_refused(body, backend):
    model = text_model(f'agraph (int64 n, float[N] x) => (float[N] y) {{ y = Loop(n, "", x)<body = {body}> }}')
    fails(model, [integer(1), floats(1)], backend, ValueError, "Loop")


def test_body_that_gives_no_condition_is_refused(backend):
    body = "body (int64 i, bool c, float[N] a) => (float[N] b, float[N] d) { b = Neg(a) d = Neg(a) }"
    model = text_model(f'agraph (int64 n, float[1] x) => (float[N] y) {{ y = Loop(n, "", x)<body = {body}> }}')
    fails(model, [integer(2), floats(1)], backend, TypeError, "Loop", "bool")


def test_scan_output_without_a_name(backend):
    model = text_model(SCAN)
    model.graph.node[0].output[1] = ""
    del model.graph.output[1]
    assert_gives(model, [integer(1), floats(1, 2)], [floats(2, 4), np.asarray([0], dtype=np.int64)], backend)
