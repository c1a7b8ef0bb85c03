"""Programs made of ONNX models: what they take and give, what they refuse, and where their values are."""

import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import array_api_strict
import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

import seqarray as sa
import seqarray.onnx
from tests.onnx.helpers import assert_gives, floats, integer, on_all, placed, refuses, text_model

# Inputs


TWO_INPUTS = """
agraph (float[2, N] x, seq(int64[]) s, optional(float[]) o) => (float[2, N] y, seq(int64[]) t, bool has) {
    y = Neg(x)
    t = SequenceErase(s)
    has = OptionalHasElement(o)
}
"""

GOOD = {"x": np.ones((2, 3), dtype=np.float32), "s": [integer(4), integer([5, 6])], "o": None}


@on_all
@pytest.mark.parametrize("container", [dict, list, tuple])
@pytest.mark.parametrize("sequence", [list, tuple, sa.ArraySequence])
def test_inputs_by_name_or_in_order_and_sequences_in_every_form(container, sequence, backend):
    inputs = {name: placed(value, backend) for name, value in GOOD.items()}
    inputs["s"] = sequence(inputs["s"])
    given = inputs if container is dict else container(inputs.values())
    program = seqarray.onnx.prepare(text_model(TWO_INPUTS), xp=backend.xp, device=backend.device)
    negative, rest, has = program.run(given)
    sa.testing.assert_arrays_equal(negative, placed(-GOOD["x"], backend))
    sa.testing.assert_sequences_equal(rest, placed([integer(4)], backend))
    sa.testing.assert_arrays_equal(has, placed(np.asarray(False), backend))


@on_all
def test_empty_list_is_a_sequence_of_the_declared_type(backend):
    model = text_model(
        "agraph (seq(float16[]) s) => (seq(float16[]) t, int64 n) { t = Identity(s) n = SequenceLength(s) }"
    )
    if not backend.holds("float16"):
        model = text_model(
            "agraph (seq(int8[]) s) => (seq(int8[]) t, int64 n) { t = Identity(s) n = SequenceLength(s) }"
        )
    assert_gives(model, [[]], [[], integer(0)], backend)


BAD_INPUTS = {
    "unknown name": (GOOD | {"z": floats(1)}, ValueError, ["z"]),
    "missing": ({"x": GOOD["x"], "o": None}, ValueError, ["s"]),
    "too few": ([GOOD["x"]], ValueError, ["1", "3"]),
    "too many": ([*GOOD.values(), None], ValueError, ["4", "3"]),
    "an array for all": (GOOD["x"], TypeError, ["ndarray"]),
    "element type": (GOOD | {"x": np.ones((2, 3))}, TypeError, ["x", "float64", "tensor(float)"]),
    "rank": (GOOD | {"x": floats(1)}, ValueError, ["x", "(1,)"]),
    "length": (GOOD | {"x": np.ones((3, 3), dtype=np.float32)}, ValueError, ["x", "(3, 3)"]),
    "number": (GOOD | {"x": 3.0}, TypeError, ["x", "float"]),
    "nothing": (GOOD | {"x": None}, ValueError, ["x", "missing"]),
    "sequence for a tensor": (GOOD | {"x": [GOOD["x"]]}, TypeError, ["x", "list"]),
    "tensor for a sequence": (GOOD | {"s": integer([1, 2])}, TypeError, ["s", "ndarray"]),
    "nothing for a sequence": (GOOD | {"s": None}, ValueError, ["s", "missing"]),
    "elements of another type": (GOOD | {"s": [floats(1)]}, TypeError, ["s", "int64", "float"]),
    "elements of two types": (GOOD | {"s": [integer(1), floats(1)]}, TypeError, ["s"]),
    "elements that are no arrays": (GOOD | {"s": [integer(1), 2]}, TypeError, ["s"]),
    "typed sequence without elements": (GOOD | {"s": sa.ArraySequence(dtype="float32")}, TypeError, ["s", "int64"]),
    "optional of another type": (GOOD | {"o": integer(1)}, TypeError, ["o", "int64", "float"]),
    "optional of a sequence": (GOOD | {"o": [floats(1)]}, TypeError, ["o", "list"]),
    "datetime": (GOOD | {"x": np.zeros((2, 3), dtype="datetime64[s]")}, TypeError, ["x", "datetime64"]),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_wrong_inputs_are_refused(case):
    inputs, error, mentions = BAD_INPUTS[case]
    program = seqarray.onnx.prepare(text_model(TWO_INPUTS))
    refuses(error, lambda: program.run(inputs), *mentions)


def test_inputs_of_another_library_are_refused():
    program = seqarray.onnx.prepare(text_model(TWO_INPUTS), xp=np)
    inputs = GOOD | {"x": array_api_strict.ones((2, 3), dtype=array_api_strict.float32)}
    refuses(TypeError, lambda: program.run(inputs), "x", "numpy", "array_api_strict")


def test_inputs_on_another_device_are_refused():
    one, two = (array_api_strict.Device(name) for name in ("CPU_DEVICE", "device1"))
    model = text_model("agraph (float[N] x) => (float[N] y) { y = Neg(x) }")
    program = seqarray.onnx.prepare(model, xp=array_api_strict, device=one)
    x = array_api_strict.asarray([1.0], dtype=array_api_strict.float32, device=two)
    refuses(ValueError, lambda: program.run([x]), "x", "device1")


@pytest.mark.parametrize("options", [{}, {"fallback": "reference"}, {"max_bytes": 1 << 20}])
def test_results_are_in_the_byte_order_of_the_machine(options):
    model = text_model("""agraph (float[N] x) => (float[N] y, seq(float[M]) s, float[K] z) {
        y = Erf(x) s = SplitToSequence(x) z = ConcatFromSequence<axis = 0>(s) }""")
    x = floats(0, 1, 2)
    program = seqarray.onnx.prepare(model, **options)
    for value, expected in zip(program.run([x.astype(x.dtype.newbyteorder())]), program.run([x]), strict=True):
        if isinstance(expected, sa.ArraySequence):
            sa.testing.assert_sequences_equal(value, expected)
        else:
            sa.testing.assert_arrays_equal(value, expected)


@pytest.mark.parametrize("device", ["cuda", "nonsense", 3])
def test_a_device_that_the_library_of_the_inputs_lacks_is_refused(device):
    model = text_model("agraph (seq(float[N]) s, int64 n) => (float[N] y) { y = SequenceAt(s, n) }")
    program = seqarray.onnx.prepare(model, device=device)
    refuses(ValueError, lambda: program.run([[floats(1)], integer(0)]), repr(device), "numpy")


@pytest.mark.parametrize("backend", ["jax", "torch", "numpy"], indirect=True)
@pytest.mark.parametrize("indices", [[0, 2], [-1], [], [[1, -3], [2, 0]]])
def test_gather_by_indices_on_the_host(backend, indices):
    """Which are int64, also where the library has no such type."""
    model = text_model(
        "agraph (float[N, M] x, int64[K] i) => (float[] y, float[] z) { y = Gather(x, i) z = Gather<axis = 1>(x, i) }"
    )
    model.graph.input[1].type.tensor_type.ClearField("shape")
    x, i = np.arange(9, dtype=np.float32).reshape(3, 3), np.asarray(indices, np.int64)
    for fallback in ("reference", None):
        program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device, fallback=fallback)
        for output, axis in zip(program.run([backend.array(x), i]), (0, 1), strict=True):
            sa.testing.assert_arrays_equal(output, backend.array(np.take(x, i, axis)))
        refuses(IndexError, lambda p=program: p.run([backend.array(x), integer([1, 3])]), "Gather", "3")


@pytest.mark.parametrize("backend", ["jax"], indirect=True)
def test_an_output_that_the_library_cannot_hold_is_told_by_name(backend):
    model = text_model("agraph (seq(float[N]) s) => (int64 n) { n = SequenceLength(s) }")
    program = seqarray.onnx.prepare(model, xp=backend.xp)
    if backend.holds("int64"):
        assert int(program.run([[floats(1)]])[0]) == 1
    else:
        refuses(TypeError, lambda: program.run([[floats(1)]]), "output 'n'", "int64", "jax_enable_x64")


@pytest.mark.parametrize("backend", ["array-api-strict", "torch", "cupy"], indirect=True)
def test_inputs_on_the_host_are_moved_and_counted(backend):
    program = seqarray.onnx.prepare(text_model(TWO_INPUTS), xp=backend.xp, device=backend.device)
    negative, rest, _ = program.run(GOOD)
    sa.testing.assert_arrays_equal(negative, placed(-GOOD["x"], backend))
    sa.testing.assert_sequences_equal(rest, placed([integer(4)], backend))
    assert program.transfers.to_device >= 3  # an array and two elements at least, wherever they are when they move


@on_all
def test_library_of_the_inputs_is_that_of_the_run(backend):
    program = seqarray.onnx.prepare(text_model("agraph (float[N] x) => (seq(float[]) s) { s = SplitToSequence(x) }"))
    for place in (backend, None, backend):
        x = floats(1, 2) if place is None else placed(floats(1, 2), place)
        (output,) = program.run([x])
        sa.testing.assert_sequences_equal(output, [x[:1], x[1:]])


def test_object_arrays_hold_text_only():
    model = text_model("agraph (string[N] x) => (string[N] y) { y = Identity(x) }")
    program = seqarray.onnx.prepare(model)
    text = np.asarray(["a", "bc"], dtype=object)
    sa.testing.assert_arrays_equal(program.run([text])[0], text)
    refuses(TypeError, lambda: program.run([np.asarray(["a", 2], dtype=object)]), "x", "holds 2")


@pytest.mark.parametrize("dtype", ["U", "O", "T"])
def test_text_of_every_kind(dtype):
    model = text_model("agraph (string[N] x, seq(string[]) s) => (seq(string[]) t) { t = SequenceInsert(s, x) }")
    text = np.asarray(["ab", "c"], dtype=dtype)
    (output,) = seqarray.onnx.prepare(model).run([text, [text[:1]]])
    sa.testing.assert_sequences_equal(output, [text[:1], text])
    assert {element.dtype.kind for element in output} == {dtype}


@pytest.mark.parametrize("backend", ["numpy", "torch", "cupy"], indirect=True)
def test_bfloat16_through_every_sequence_operator(backend):
    model = text_model(
        """agraph (bfloat16[N] x) => (bfloat16[M] y, seq(bfloat16[]) u) {
            first = Constant<value_int = 0>()
            s = SplitToSequence(x)
            a = SequenceAt(s, first)
            t = SequenceInsert(s, a)
            u = SequenceErase(t, first)
            y = ConcatFromSequence<axis = 0>(u)
        }""",
        opset=24,
    )
    x = np.asarray([1, 2, 3]).astype(ml_dtypes.bfloat16)
    assert_gives(model, [x], [x[[1, 2, 0]], [x[1:2], x[2:], x[:1]]], backend, fallback="error")


@on_all
def test_models_without_inputs(backend):
    model = text_model("agraph () => (seq(float[]) s) { s = SequenceEmpty() }")
    program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device)
    for inputs in ([], {}, ()):
        (output,) = program.run(inputs)
        sa.testing.assert_sequences_equal(output, sa.sequence_empty("float32", xp=backend.xp, device=backend.device))
    refuses(ValueError, lambda: program.run([floats(1)]), "0")


# Outputs


def test_outputs_by_name():
    program = seqarray.onnx.prepare(text_model(TWO_INPUTS))
    has, negative = program.run(GOOD, outputs=["has", "y"])
    sa.testing.assert_arrays_equal(has, np.asarray(False))
    sa.testing.assert_arrays_equal(negative, -GOOD["x"])
    assert type(program.run(GOOD)) is list


@pytest.mark.parametrize("outputs", [["y", "nobody"], [""]])
def test_unknown_outputs_are_refused(outputs):
    program = seqarray.onnx.prepare(text_model(TWO_INPUTS))
    refuses(ValueError, lambda: program.run(GOOD, outputs=outputs), outputs[-1])


# Errors at run time


def test_error_names_operator_and_node():
    model = text_model("agraph (seq(float[]) s, int64 p) => (float[N] y) { [last_one] y = SequenceAt(s, p) }")
    program = seqarray.onnx.prepare(model)
    refuses(IndexError, lambda: program.run([[floats(1)], integer(3)]), "SequenceAt-11", "last_one", "3")


def test_label_of_the_node_precedes_the_whole_message_of_the_operator():
    model = text_model("agraph (seq(float[]) s, int64 p) => (float[N] y) { [last_one] y = SequenceAt(s, p) }")
    program = seqarray.onnx.prepare(model)
    elements, position = [floats(1)], integer(3)
    with pytest.raises(IndexError) as of_the_function:
        sa.sequence_at(elements, position)
    with pytest.raises(IndexError) as of_the_program:
        program.run([elements, position])
    assert str(of_the_program.value) == f"node 0 (SequenceAt-11 'last_one'): {of_the_function.value}"


def test_error_in_a_program_leaves_it_usable():
    program = seqarray.onnx.prepare(text_model("agraph (seq(float[]) s) => (seq(float[]) t) { t = SequenceErase(s) }"))
    refuses(IndexError, lambda: program.run([[]]))
    sa.testing.assert_sequences_equal(program.run([[floats(1), floats(2)]])[0], [floats(1)])


@on_all
def test_error_of_shapes_that_do_not_fit(backend):
    model = text_model("agraph (seq(float[]) s) => (float[N] y) { [joining] y = ConcatFromSequence<axis = 0>(s) }")
    program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device)
    inputs = [placed([np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)], backend)]
    refuses(ValueError, lambda: program.run(inputs), "ConcatFromSequence-11", "joining", "(2, 4)", "(2, 3)")


# Fallback and transfers


HARD = "agraph (float[M, N] x) => (float[M, N] y) { [before] a = Neg(x) [hard] b = Hardmax(a) [after] y = Neg(b) }"

HARD_RESULT = np.asarray([[-1, 0], [0, -1]], dtype=np.float32)


def test_operators_of_the_reference_are_used_unless_forbidden():
    x = floats([0, 1], [3, 2])
    program = seqarray.onnx.prepare(text_model(HARD))
    sa.testing.assert_arrays_equal(program.run([x])[0], HARD_RESULT)
    refuses(
        ValueError, lambda: seqarray.onnx.prepare(text_model(HARD), fallback="error"), "Hardmax", "hard", "fallback"
    )


def test_forbidden_operator_inside_a_body_is_found_when_prepared():
    model = text_model(
        """agraph (seq(float[]) s) => (seq(float[]) t) {
            t = SequenceMap(s)<body = body (float[M, N] a) => (float[M, N] b) { [hard] b = Hardmax(a) }>
        }"""
    )
    refuses(ValueError, lambda: seqarray.onnx.prepare(model, fallback="error"), "Hardmax", "hard")


def prepared_with_warnings(model, backend, **options):
    """A program and the messages of the warnings that preparing and running it twice gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device, **options)
        for _ in range(2):
            (output,) = program.run([placed(floats([0, 1], [3, 2]), backend)])
    sa.testing.assert_arrays_equal(output, placed(HARD_RESULT, backend))
    return program, [str(warning.message) for warning in caught]


def lines_of(program, operator):
    return [line for line in str(program).splitlines() if re.search(rf"\b{operator}\b", line)]


@on_all
def test_fallback_is_never_silent(backend):
    program, messages = prepared_with_warnings(text_model(HARD), backend, fallback="reference")
    on_host = backend.name == "numpy"
    assert len(messages) == (0 if on_host else 1)
    assert all("Hardmax" in message for message in messages)
    (line,) = lines_of(program, "Hardmax")
    assert "reference" in line
    assert not any("reference" in line for line in lines_of(program, "Neg"))


@pytest.mark.parametrize("backend", ["numpy"], indirect=True)
def test_no_transfers_on_numpy(backend):
    program, _ = prepared_with_warnings(text_model(HARD), backend)
    assert program.transfers == (0, 0)


@pytest.mark.parametrize("backend", ["array-api-strict", "torch", "cupy"], indirect=True)
def test_transfers_are_counted(backend):
    program, _ = prepared_with_warnings(text_model(HARD), backend, fallback="reference")
    assert (program.transfers.to_host, program.transfers.to_device) == (1, 1)  # of the last run


@on_all
def test_sequence_operators_transfer_nothing(backend):
    model = text_model(
        """agraph (float[N] x, float[M] v) => (float[K] y) {
            first = Constant<value_int = 0>()
            s = SplitToSequence(x)
            a = SequenceAt(s, first)
            t = SequenceInsert(s, v, first)
            u = SequenceInsert(t, a)
            y = ConcatFromSequence<axis = 0>(u)
        }"""
    )
    program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device, fallback="error")
    (output,) = program.run([placed(floats(1, 2), backend), placed(floats(9), backend)])
    sa.testing.assert_arrays_equal(output, placed(floats(9, 1, 2, 1), backend))
    assert program.transfers == (0, 0)


@pytest.mark.parametrize("backend", ["array-api-strict", "torch", "cupy"], indirect=True)
def test_lengths_and_what_is_computed_from_them_stay_on_the_host(backend):
    model = text_model(
        """agraph (float[N] x, float[M, K] z) => (seq(float[]) out, float[L] y, int64[2] h) {
            one = Constant<value_int = 1>()
            axes = Constant<value_ints = [0]>()
            size = Shape<start = 0, end = 1>(z)
            more = Add(size, one)
            rest = Shape(x)
            fewer = Sub(rest, more)
            h = Concat<axis = 0>(more, fewer)
            s = SplitToSequence(x, h)
            count = SequenceLength(s)
            last = Sub(count, one)
            y = SequenceAt(s, last)
            empty = SequenceEmpty()
            out = Loop(count, "", empty)<body = body (int64 i, bool c, seq(float[]) t) => (bool c2, seq(float[]) u) {
                c2 = Less(i, count)
                e = SequenceAt(s, i)
                start = Mul(i, one)
                starts = Unsqueeze(start, axes)
                ends = Shape(e)
                f = Slice(e, starts, ends)
                u = SequenceInsert(t, f, i)
            }>
        }"""
    )
    program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device, fallback="error")
    x, z = floats(0, 1, 2, 3, 4), np.zeros((2, 1), dtype=np.float32)
    parts, last, sizes = program.run([placed(x, backend), placed(z, backend)])
    sa.testing.assert_sequences_equal(parts, placed([x[:3], x[4:]], backend))
    sa.testing.assert_arrays_equal(last, placed(x[3:], backend))
    sa.testing.assert_arrays_equal(sizes, placed(np.asarray([3, 2], dtype=np.int64), backend))
    assert program.transfers == (0, 0)


@pytest.mark.parametrize("backend", ["array-api-strict", "torch", "cupy"], indirect=True)
def test_positions_on_the_device_are_read_once(backend):
    model = text_model(
        "agraph (seq(float[]) s, int64 p) => (float[N] y, seq(float[]) t) { y = SequenceAt(s, p) t = SequenceErase(s) }"
    )
    program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device)
    elements = placed([floats(1), floats(2)], backend)
    for position, transfers in [(placed(integer(1), backend), (1, 0)), (integer(1), (0, 0))]:
        element, _ = program.run([elements, position])
        sa.testing.assert_arrays_equal(element, elements[1])
        assert program.transfers == transfers


def test_printed_program_shows_every_step():
    text = str(seqarray.onnx.prepare(text_model(TWO_INPUTS)))
    for word in ("Neg", "SequenceErase", "OptionalHasElement", "x", "s", "o", "y", "t", "has"):
        assert re.search(rf"\b{word}\b", text), f"{word} not in {text}"


def test_printed_program_shows_no_rows_of_constants_without_items():
    empty = numpy_helper.from_array(np.zeros((1 << 20, 0), np.float32), "c")
    graph = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["y"])], "g", [], [helper.make_tensor_value_info("y", 1, None)], [empty]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert len(str(seqarray.onnx.prepare(model))) < 1000


@pytest.mark.filterwarnings("ignore:some steps fall back")
@pytest.mark.parametrize("backend", ["torch"], indirect=True)
@pytest.mark.parametrize("element_type", ["float32", "bfloat16"])
def test_the_fallback_takes_every_torch_tensor(backend, element_type):
    torch = backend.xp
    model = text_model(HARD.replace("float[", f"{'float' if element_type == 'float32' else element_type}["), opset=18)
    program = seqarray.onnx.prepare(model, xp=torch, fallback="reference")
    x = torch.asarray([[0.0, 1.0], [3.0, 2.0]], dtype=getattr(torch, element_type))
    for given in (x, x[...]):
        (output,) = program.run([given])
        assert (output.dtype, output.tolist()) == (x.dtype, HARD_RESULT.tolist())
        assert program.transfers == (1, 1)


@pytest.mark.filterwarnings("ignore:some steps fall back")
@pytest.mark.parametrize("backend", ["torch"], indirect=True)
@pytest.mark.parametrize("fallback", ["onnxruntime", "reference"])
@pytest.mark.parametrize("options", [{}, {"max_bytes": 1 << 20}])
def test_a_gradient_is_not_lost(backend, fallback, options):
    """What the other engines compute has none."""
    if fallback == "onnxruntime":
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model = text_model("""agraph (float[N, M] x) => (float[N, M] y, int64[N] i) {
        s = SplitToSequence(x)
        t = SequenceMap(s)<body = b (float[A, B] a) => (float[A, B] d) { e = Erf(a) f = Elu(e) d = Add(f, a) }>
        y = ConcatFromSequence<axis = 0>(t) i = ArgMax<axis = 1, keepdims = 0>(x) }""")
    program = seqarray.onnx.prepare(model, fallback=fallback, **options)
    x = torch.ones(2, 2, requires_grad=True)
    refuses(ValueError, lambda: program.run([x]), "SequenceMap", "node 0 (Erf-13)", "gradient", "torch.no_grad()")
    assert program.run([x], outputs=["i"])[0].tolist() == [0, 0]
    with torch.no_grad():
        (y, _) = program.run([x])
    assert not y.requires_grad
    torch.testing.assert_close(y, torch.erf(x.detach()) + 1)


@pytest.mark.parametrize("backend", ["torch"], indirect=True)
def test_a_warning_counts_by_operator(backend):
    nodes = " ".join(f"y{i + 1} = Hardmax(y{i})" for i in range(40))
    model = text_model(f"agraph (float[N, M] y0) => (float[N, M] z) {{ {nodes} z = Sign(y40) }}")
    with pytest.warns(UserWarning, match="fall back") as caught:
        program = seqarray.onnx.prepare(model, xp=backend.xp, fallback="reference")
    (warning,) = caught
    assert "Hardmax-13 (40 times), Sign-13;" in str(warning.message)
    assert len(str(warning.message)) < 250
    assert "fallback" in str(program)
    refuses(
        ValueError, lambda: seqarray.onnx.prepare(model, fallback="error"), "Hardmax-13 (40 times), Sign-13", "node 0"
    )


# Running again, and in threads


@on_all
def test_running_twice_gives_the_same(backend):
    model = text_model(
        """agraph (int64 n, float[N] x) => (seq(float[]) s, float[K] y) <float[1] w = {1}> {
            empty = SequenceEmpty()
            s = Loop(n, "", empty)<body = body (int64 i, bool c, seq(float[]) a) => (bool c2, seq(float[]) b) {
                c2 = Identity(c)
                v = Add(x, w)
                b = SequenceInsert(a, v)
            }>
            y = ConcatFromSequence<axis = 0>(s)
        }"""
    )
    program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device)
    for count, value in [(2, 5), (3, 6), (2, 5)]:
        sequence, joined = program.run([placed(integer(count), backend), placed(floats(value), backend)])
        sa.testing.assert_sequences_equal(sequence, placed([floats(value + 1)] * count, backend))
        sa.testing.assert_arrays_equal(joined, placed(floats(*[value + 1] * count), backend))


def test_a_program_runs_in_several_threads():
    model = text_model(
        """agraph (int64 n, float[N] x) => (float[M] y) {
            empty = SequenceEmpty()
            s = Loop(n, "", empty)<body = body (int64 i, bool c, seq(float[]) a) => (bool c2, seq(float[]) b) {
                c2 = Identity(c)
                f = Cast<to = 1>(i)
                v = Add(x, f)
                b = SequenceInsert(a, v)
            }>
            y = ConcatFromSequence<axis = 0>(s)
        }"""
    )
    program = seqarray.onnx.prepare(model)

    def run(start):
        return program.run([integer(20), floats(start)])[0]

    with ThreadPoolExecutor(4) as pool:
        for start, output in enumerate(pool.map(run, range(200))):
            sa.testing.assert_arrays_equal(output, np.arange(start, start + 20, dtype=np.float32))


def test_switching_threads_often_changes_nothing():
    """Two threads in the middle of the same program have values of their own."""
    model = text_model("agraph (float[N] x) => (float[N] y) { a = Neg(x) b = Neg(a) c = Neg(b) d = Neg(c) y = Neg(d) }")
    program = seqarray.onnx.prepare(model)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            outputs = list(pool.map(lambda value: program.run([floats(value)])[0], range(500)))
    finally:
        sys.setswitchinterval(interval)
    np.testing.assert_array_equal(outputs, [[-value] for value in range(500)])


# What a model says about its outputs


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ("(float[N] x) => (int64[7] o) { s = SequenceConstruct(x) o = SequenceAt(s, {first}) }", "a tensor of float32"),
        ("(float[N] x) => (seq(int64[]) o) { o = SequenceConstruct(x) }", "a sequence of float32"),
        ("(float[N] x) => (float[N] o) { o = SequenceConstruct(x) }", "a sequence of float32"),
        ("(float[N] x) => (seq(float[N]) o) { o = Neg(x) }", "a tensor of float32"),
        ("(float[N] x) => (int64[N] o) { o = Neg(x) }", "a tensor of float32"),
    ],
)
@on_all
def test_an_output_that_is_not_what_is_declared_is_refused(backend, graph, found):
    graph = graph.replace("o = SequenceAt(s, {first})", "first = Constant<value_int=0>() o = SequenceAt(s, first)")
    program = seqarray.onnx.prepare(text_model(f"agraph {graph}"), xp=backend.xp, device=backend.device)
    refuses(TypeError, lambda: program.run([placed(floats(1, 2), backend)]), "output 'o'", found, "declares")


@on_all
@pytest.mark.parametrize(
    "view", [lambda x: x[::-1], lambda x: x[:, ::2], lambda x: x.T], ids=["reversed", "step", "turned"]
)
def test_numpy_inputs_of_any_layout_arrive(backend, view):
    x = view(np.arange(12, dtype=np.float32).reshape(3, 4))
    program = seqarray.onnx.prepare(
        text_model("agraph (float[N, M] x) => (float[N, M] y) { y = Neg(x) }"), xp=backend.xp, device=backend.device
    )
    (y,) = program.run([x])
    assert sa.testing.to_numpy(y).tolist() == (-x).tolist()


def test_the_fallback_knows_the_types_of_its_inputs():
    text = """
    agraph (float[2, 4, 3] x, float[4] scale, float[4] bias) => (float[2, 4, 3] y) {
        y = GroupNormalization <num_groups = 2> (x, scale, bias)
    }"""
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    (y,) = seqarray.onnx.prepare(text_model(text, opset=21)).run([x, np.ones(4, np.float32), np.zeros(4, np.float32)])
    groups = x.reshape(2, 2, 6)
    expected = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, expected.reshape(x.shape), rtol=1e-4)
