"""Loop, If, SequenceMap, optionals and functions of ONNX models, on every backend."""

import numpy as np
import onnx
import pytest

import seqarray as sa
import seqarray.onnx
from tests.onnx_helpers import assert_gives, boolean, floats, integer, on_all, placed, refuses, text_model

pytestmark = on_all


def fails(model, inputs, backend, error, *mentions):
    """Assert that a model is refused, when prepared or when run, by an error of exactly this class."""
    values = [placed(value, backend) for value in inputs]
    refuses(error, lambda: seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device).run(values), *mentions)


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


# Functions


def test_functions_that_call_functions(backend):
    model = text_model(
        """
        agraph (float[N] x) => (seq(float[]) s) { s = local.halves<count = 2>(x) }
        <domain: "local", opset_import: ["": 18, "local": 1]>
        halves <count> (x) => (s) {
            doubled = local.double(x)
            s = local.parts<size: int = @count>(doubled)
        }
        <domain: "local", opset_import: ["": 18]>
        double (x) => (y) { y = Add(x, x) }
        <domain: "local", opset_import: ["": 18]>
        parts <size: int = 1> (x) => (s) {
            n = Constant<value_int: int = @size>()
            s = SplitToSequence(x, n)
        }
        """,
        imports=', "local": 1',
    )
    assert_gives(model, [floats(1, 2, 3)], [[floats(2, 4), floats(6)]], backend)


def test_function_whose_input_is_its_output(backend):
    model = text_model(
        """
        agraph (float[N] x) => (float[N] y, float[N] z) { y, z = local.f(x) }
        <domain: "local", opset_import: ["": 18]>
        f (x) => (x, y) { y = Neg(x) }
        """,
        imports=', "local": 1',
    )
    assert_gives(model, [floats(1)], [floats(1), floats(-1)], backend)


def test_names_in_a_function_are_its_own(backend):
    model = text_model(
        """
        agraph (float[N] x, float[N] t) => (float[N] y, float[N] z) { y = local.f(t) a = Neg(x) z = local.f(a) }
        <domain: "local", opset_import: ["": 18]>
        f (x) => (y) { t = Add(x, x) a = Add(t, x) y = Identity(a) }
        """,
        imports=', "local": 1',
    )
    assert_gives(model, [floats(1), floats(5)], [floats(15), floats(-3)], backend)


def test_function_with_outputs_that_nobody_asks_for(backend):
    model = text_model(
        """
        agraph (float[N] x) => (float[N] a, float[N] b) { a = local.f(x) "", b = local.f(x) }
        <domain: "local", opset_import: ["": 18]>
        f (x) => (y, z, u) { y = Neg(x) z = Add(x, x) u = Add(y, z) }
        """,
        imports=', "local": 1',
    )
    assert_gives(model, [floats(1)], [floats(-1), floats(2)], backend)


def test_attribute_of_a_function_has_a_default(backend):
    model = text_model(
        """
        agraph (float[N, M] x) => (seq(float[]) a, seq(float[]) b) { a = local.parts(x) b = local.parts<axis = 1>(x) }
        <domain: "local", opset_import: ["": 18]>
        parts <axis: int = 0> (x) => (s) { s = SplitToSequence<axis: int = @axis>(x) }
        """,
        imports=', "local": 1',
    )
    x = floats([1, 2], [3, 4])
    assert_gives(model, [x], [[x[:1], x[1:]], [x[:, :1], x[:, 1:]]], backend)


@pytest.mark.parametrize(("operator", "fits"), [("Neg(x)", True), ("Split<num_outputs = 1>(x)", False)])
def test_opset_of_a_function_has_to_mean_the_same_as_that_of_the_model(operator, fits, backend):
    model = text_model(
        f"""
        agraph (float[N] x) => (float[N] y) {{ y = local.function(x) }}
        <domain: "local", opset_import: ["": 13]>
        function (x) => (y) {{ y = {operator} }}
        """,
        imports=', "local": 1',
    )
    if fits:
        assert_gives(model, [floats(1)], [floats(-1)], backend)
    else:
        fails(model, [floats(1)], backend, ValueError, "Split", "13", "18")


def test_function_with_control_flow_and_inputs_left_out(backend):
    model = text_model(
        """
        agraph (int64 n, float[N] x) => (float[N] y, float[N] z) {
            y = local.repeat(n, x)
            z = local.repeat("", x)
        }
        <domain: "local", opset_import: ["": 18]>
        repeat (n, x) => (y) {
            given = OptionalHasElement(n)
            y = If(given)<
                then_branch = yes () => (float[N] a) {
                    a = Loop(n, "", x)<body = body (int64 i, bool c, float[N] v) => (bool c2, float[N] w) {
                        c2 = Identity(c)
                        w = Add(v, x)
                    }>
                },
                else_branch = no () => (float[N] b) { b = Neg(x) }
            >
        }
        """,
        imports=', "local": 1',
    )
    assert_gives(model, [integer(2), floats(1)], [floats(3), floats(-1)], backend)


def test_function_called_in_a_body(backend):
    model = text_model(
        """
        agraph (seq(float[]) s) => (seq(float[]) t) {
            t = SequenceMap(s)<body = body (float[N] a) => (float[N] b) { b = local.double(a) }>
        }
        <domain: "local", opset_import: ["": 18]>
        double (x) => (y) { y = Add(x, x) }
        """,
        imports=', "local": 1',
    )
    assert_gives(model, [[floats(1), floats(2, 3)]], [[floats(2), floats(4, 6)]], backend)


@pytest.mark.parametrize(
    "functions",
    [
        {"first": "first"},
        {"first": "second", "second": "first"},
    ],
)
def test_function_that_calls_itself_is_refused(functions, backend):
    bodies = [
        f'<domain: "local", opset_import: ["": 18, "local": 1]> {name} (x) => (y) {{ y = local.{called}(x) }}'
        for name, called in functions.items()
    ]
    call = "agraph (float[N] x) => (float[N] y) { y = local.first(x) }"
    model = text_model("\n".join([call, *bodies]), imports=', "local": 1')
    fails(model, [floats(1)], backend, ValueError, "first")


def test_functions_of_one_name_with_overloads(backend):
    model = text_model(
        """
        agraph (float[N] x) => (float[N] y, float[N] z) { y = local.f(x) z = local.f(x) }
        <domain: "local", opset_import: ["": 18]>
        f (x) => (y) { y = Add(x, x) }
        <domain: "local", opset_import: ["": 18]>
        f (x) => (y) { y = Neg(x) }
        """,
        imports=', "local": 1',
    )
    model.functions[1].overload = model.graph.node[1].overload = "negative"
    assert_gives(model, [floats(1)], [floats(2), floats(-1)], backend)


# Names left empty, and inputs left out


def test_outputs_without_a_name_are_not_asked_for(backend):
    model = text_model('agraph (float[N] x) => (float[M] b) { "", b, "" = Split<num_outputs = 3>(x) }')
    assert_gives(model, [floats(1, 2, 3)], [floats(2)], backend)


def test_scan_output_without_a_name(backend):
    model = text_model(SCAN)
    model.graph.node[0].output[1] = ""
    del model.graph.output[1]
    assert_gives(model, [integer(1), floats(1, 2)], [floats(2, 4), np.asarray([0], dtype=np.int64)], backend)


def test_results_lie_on_the_backend_without_any_input(backend):
    model = text_model(
        """agraph () => (seq(float[]) s, int64 n, float[2] x, seq(float[]) t) {
            s = SequenceEmpty()
            n = SequenceLength(s)
            x = Constant<value = float[2] {1, 2}>()
            t = SequenceConstruct(x)
        }"""
    )
    assert_gives(model, [], [[], integer(0), floats(1, 2), [floats(1, 2)]], backend)
    assert all(isinstance(value, sa.ArraySequence) for value in seqarray.onnx.prepare(model).run({})[::3])
