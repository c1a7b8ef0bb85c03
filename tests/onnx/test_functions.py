"""Functions of models, outputs without a name, and results without an input, on every backend."""

import pytest

import seqarray as sa
import seqarray.onnx
from tests.onnx.helpers import assert_gives, fails, floats, integer, on_all, text_model

pytestmark = on_all


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
def test_opset_of_a_function_is_its_own(operator, fits, backend):
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
        fails(model, [floats(1)], backend, ValueError, "Split", "num_outputs")


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
