"""Limits of programs on iterations, bytes and seconds."""

import time
import tracemalloc

import numpy as np
import onnx
import pytest

import seqarray as sa
import seqarray.onnx
from tests.onnx.fuzz.hostile import HOSTILE, doubling_functions, empty_chunks, nested_loops
from tests.onnx.helpers import floats, integer, refuses, text_model

PARTS = "agraph (float[N] x) => (seq(float[]) s, int64 n) { s = SplitToSequence(x) n = SequenceLength(s) }"


def loop(declared, count, condition):
    return text_model(
        f"""agraph ({declared}) => (int64 y) {{
            zero = Constant<value_int = 0>()
            y = Loop({count}, {condition}, zero)<body = body (int64 i, bool c, int64 a) => (bool c2, int64 b) {{
                one = Constant<value_int = 1>()
                c2 = Constant<value = bool {{1}}>()
                b = Add(a, one)
            }}>
        }}"""
    )


def test_trip_count_has_a_limit():
    program = seqarray.onnx.prepare(loop("int64 n", "n", '""'), max_trip_count=5)
    sa.testing.assert_arrays_equal(program.run([integer(5)])[0], integer(5))
    refuses(ValueError, lambda: program.run([integer(6)]), "Loop", "max_trip_count", "5")
    refuses(ValueError, lambda: program.run([integer(2**62)]), "Loop", "max_trip_count", "5")


def test_endless_loop_ends_at_the_limit():
    program = seqarray.onnx.prepare(loop("", '""', '""'), max_trip_count=1000)
    refuses(ValueError, lambda: program.run([]), "Loop", "max_trip_count", "1000")


#: Nodes that make a result `y` which grows with the number `n`, and a large number.
GROWING = {
    "ConstantOfShape": ("y = ConstantOfShape(n)", 1 << 24),
    "Expand": ("y = Expand(x, n)", 1 << 24),
    "Tile": ("y = Tile(x, n)", 1 << 24),
    "Range": ("r = Range(zero, l, one) y = Cast<to = 1>(r)", 1 << 24),
    "Pad": ("p = Concat<axis = 0>(n, n) y = Pad(x, p)", 1 << 24),
    "OneHot": ("y = OneHot(zeros, l, pair)", 1 << 24),
    "HannWindow": ("y = HannWindow(l)", 1 << 24),
    "Resize": ('y = Resize<mode = "nearest">(x, "", "", n)', 1 << 24),
    "CenterCropPad": ("y = CenterCropPad(x, n)", 1 << 24),
    "Gather": ("i = ConstantOfShape<value = int64[1] {0}>(n) w = Unsqueeze(wide, first) y = Gather(w, i)", 1 << 13),
    "Add": ("y = Add(row, column)", 1 << 13),
    "Max": ("y = Max(row, column)", 1 << 13),
    "Where": ("c = Cast<to = 9>(row) y = Where(c, row, column)", 1 << 13),
    "MatMul": ("y = MatMul(column, row)", 1 << 13),
    "Einsum": ('y = Einsum<equation = "i,j->ij">(v, v)', 1 << 13),
}


@pytest.mark.parametrize("operator", GROWING)
def test_results_have_a_limit_in_bytes(operator):
    nodes, large = GROWING[operator]
    rows = "v = Expand(x, n) row = Unsqueeze(v, first) column = Unsqueeze(v, second)" if large == 1 << 13 else ""
    model = text_model(
        f"""agraph (float[1] x, int64[1] n) => (float[N] y)
        <int64 zero = {{0}}, int64 one = {{1}}, int64[1] first = {{0}}, int64[1] second = {{1}},
        int64[1] zeros = {{0}}, float[2] pair = {{0, 1}}, int64[1] thousands = {{4096}}> {{
            l = Squeeze(n)
            wide = ConstantOfShape(thousands)
            {rows}
            {nodes}
        }}"""
    )
    few, many = np.asarray([3]), np.asarray([large])
    program = seqarray.onnx.prepare(model, max_bytes=1 << 20)
    program.run([floats(0), few])
    tracemalloc.start()
    try:
        refuses(ValueError, lambda: program.run([floats(0), many]), operator, "max_bytes")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


DOUBLING = {
    "Concat": "b = Concat<axis = 0>(a, a)",
    "ConcatFromSequence": "s = SequenceConstruct(a, a, a, a) b = ConcatFromSequence<axis = 0>(s)",
    "SequenceMap": "s = SequenceConstruct(a, a) "
    "t = SequenceMap(s)<body = inner (float[K] d) => (float[L] e) { e = Neg(d) }> "
    "b = ConcatFromSequence<axis = 0>(t)",
}


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("name", DOUBLING)
def test_growth_in_a_loop_has_a_limit_in_bytes(name, length):
    model = text_model(
        f"""agraph (float[N] x) => (float[M] y) {{
            n = Constant<value_int = 60>()
            y = Loop(n, "", x)<body = body (int64 i, bool c, float[K] a) => (bool c2, float[L] b) {{
                c2 = Identity(c)
                {DOUBLING[name]}
            }}>
        }}"""
    )
    program = seqarray.onnx.prepare(model, max_bytes=1 << 20)
    refuses(ValueError, lambda: program.run([np.ones(length, dtype=np.float32)]), "Loop", "max_bytes")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_models_are_refused_before_they_take_memory(name):
    model = HOSTILE[name]()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"max_|limits|num_scan_inputs"):
            seqarray.onnx.prepare(model, max_bytes=1 << 20, max_trip_count=1000, max_seconds=2).run([])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20


def test_iterations_of_inner_loops_count_too():
    refuses(ValueError, lambda: seqarray.onnx.prepare(nested_loops(), max_trip_count=5000).run([]), "max_trip_count")
    (shape,) = seqarray.onnx.prepare(nested_loops(1), max_trip_count=1000).run([])
    assert shape.tolist() == [1]


def test_iterations_of_sequence_map_and_scan_count():
    text = """agraph (float[N] x) => (seq(float[]) y) {
        s = SplitToSequence(x) y = SequenceMap(s)<body = b (float[K] a) => (float[K] c) { c = Neg(a) }>
    }"""
    program = seqarray.onnx.prepare(text_model(text), max_trip_count=3)
    assert len(program.run([floats(1, 2, 3)])[0]) == 3
    refuses(ValueError, lambda: program.run([floats(1, 2, 3, 4)]), "SequenceMap", "max_trip_count")
    text = """agraph (float[N] x) => (float[M] y) {
        y = Scan<num_scan_inputs = 1, body = b (float a) => (float c) { c = Neg(a) }>(x)
    }"""
    program = seqarray.onnx.prepare(text_model(text), max_trip_count=3)
    sa.testing.assert_arrays_equal(program.run([floats(1, 2, 3)])[0], floats(-1, -2, -3))
    refuses(ValueError, lambda: program.run([floats(1, 2, 3, 4)]), "Scan", "max_trip_count")


def test_an_endless_loop_ends_when_the_time_is_over():
    program = seqarray.onnx.prepare(loop("", '""', '""'), max_seconds=0.2)
    start = time.monotonic()
    refuses(ValueError, lambda: program.run([]), "Loop", "max_seconds", "0.2")
    assert 0.2 <= time.monotonic() - start < 20


def test_preparing_ends_when_the_time_is_over():
    model = doubling_functions(14)
    seqarray.onnx.prepare(model)
    refuses(ValueError, lambda: seqarray.onnx.prepare(model, max_seconds=0), "prepare", "max_seconds")


def test_functions_of_the_model_do_not_replace_what_the_standard_defines_others_by():
    text = """agraph (float[N] x, float[N] y) => (bool[N] z) { z = LessOrEqual(x, y) }
    <opset_import: ["": 16]> Or (a, b) => (c) { c = And(a, b) }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 16]> {text}')
    model.functions[0].domain = ""
    (output,) = seqarray.onnx.prepare(model).run([floats(1, 2, 3), floats(2, 2, 2)])
    assert output.tolist() == [True, True, False]


def test_text_counts_with_its_letters():
    program = seqarray.onnx.prepare(text_model("agraph (string[N] x) => (string[N] x) {}"), max_bytes=10_000)
    program.run([np.asarray(["a" * 1000], dtype=object)])
    refuses(ValueError, lambda: program.run([np.asarray(["a" * 10_000], dtype=object)]), "max_bytes")


def test_elements_without_values_count():
    text = """agraph (int64 n) => (int64 l) <int64[1] zero = {0}> {
        e = ConstantOfShape(zero)
        s = SequenceEmpty()
        t = Loop(n, "", s)<body = b (int64 i, bool c, seq(float[]) q) => (bool d, seq(float[]) r) {
            d = Identity(c) r = SequenceInsert(q, e) }>
        l = SequenceLength(t)
    }"""
    program = seqarray.onnx.prepare(text_model(text), max_bytes=50_000)
    assert program.run([integer(100)])[0] == 100
    refuses(ValueError, lambda: program.run([integer(10_000)]), "Loop", "max_bytes")


def test_many_chunks_without_values_are_counted_at_once():
    assert seqarray.onnx.prepare(empty_chunks(1000), max_bytes=1 << 20).run([])[0] == 1000
    refuses(ValueError, lambda: seqarray.onnx.prepare(empty_chunks(1 << 40), max_bytes=1 << 30).run([]), "max_bytes")


def test_chunks_of_long_splits_count_in_constant_time():
    model = text_model("agraph (uint8[N] x) => (int64 n) { s = SplitToSequence(x) n = SequenceLength(s) }")
    program = seqarray.onnx.prepare(model, max_bytes=1 << 32)
    start = time.process_time()
    assert program.run([np.zeros(1 << 24, dtype=np.uint8)])[0] == 1 << 24
    assert time.process_time() - start < 2


def test_scan_outputs_of_all_loops_count_together():
    text = """agraph (int64 n, float[K] x) => (float[M, K] y, float[M, K] z) {
        y, z = Loop(n, "")<body = b (int64 i, bool c) => (bool d, float[K] p, float[K] q) {
            d = Identity(c) p = Neg(x) q = Neg(p) }>
    }"""
    program = seqarray.onnx.prepare(text_model(text), max_bytes=100_000)
    program.run([integer(10), np.ones(100, dtype=np.float32)])
    refuses(ValueError, lambda: program.run([integer(60), np.ones(100, dtype=np.float32)]), "Loop", "max_bytes")


def test_copies_for_the_caller_count():
    names = [f"y{i}" for i in range(50)]
    nodes = " ".join(f"{name} = Identity(x)" for name in names)
    text = f"agraph (float[N] x) => ({', '.join(f'float[N] {name}' for name in names)}) {{ {nodes} }}"
    program = seqarray.onnx.prepare(text_model(text), max_bytes=40_000)
    refuses(ValueError, lambda: program.run([np.ones(1000, dtype=np.float32)]), "max_bytes")


def test_what_nobody_can_bound_runs_without_limits_only():
    model = text_model('agraph (string[N] x) => (bool[N] y) { y = RegexFullMatch<pattern = "a+">(x) }', opset=20)
    (output,) = seqarray.onnx.prepare(model).run([np.asarray(["aa", "b"], dtype=object)])
    assert output.tolist() == [True, False]
    for limit in ("max_bytes", "max_trip_count", "max_seconds"):
        refuses(ValueError, lambda limit=limit: seqarray.onnx.prepare(model, **{limit: 1000}), "RegexFullMatch")


def test_what_other_domains_take_is_not_known():
    model = text_model("agraph (float[N] x) => (float[N] y) { y = com.example.Gelu(x) }", imports=', "com.example": 1')
    refuses(
        ValueError,
        lambda: seqarray.onnx.prepare(model, max_bytes=1000),
        "node 0 (com.example.Gelu-1)",
        "max_bytes=None",
    )


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        ({"fallback": "numpy"}, "fallback"),
        ({"max_trip_count": -1}, "max_trip_count"),
        ({"max_bytes": -1}, "max_bytes"),
        ({"max_seconds": -0.5}, "max_seconds"),
        ({"max_seconds": float("nan")}, "max_seconds"),
    ],
)
def test_options_of_a_wrong_value_are_refused(options, mention):
    refuses(ValueError, lambda: seqarray.onnx.prepare(text_model(PARTS), **options), mention)


@pytest.mark.parametrize(
    "options", [{"max_trip_count": 2.5}, {"max_bytes": "1 GB"}, {"max_trip_count": True}, {"max_seconds": "1"}]
)
def test_options_of_a_wrong_kind_are_refused(options):
    refuses(TypeError, lambda: seqarray.onnx.prepare(text_model(PARTS), **options), *options)
