"""Limits of programs on iterations and bytes."""

import tracemalloc

import numpy as np
import pytest

import seqarray as sa
import seqarray.onnx
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


@pytest.mark.parametrize(
    ("options", "mention"),
    [
        ({"fallback": "numpy"}, "fallback"),
        ({"max_trip_count": -1}, "max_trip_count"),
        ({"max_bytes": -1}, "max_bytes"),
    ],
)
def test_options_of_a_wrong_value_are_refused(options, mention):
    refuses(ValueError, lambda: seqarray.onnx.prepare(text_model(PARTS), **options), mention)


@pytest.mark.parametrize("options", [{"max_trip_count": 2.5}, {"max_bytes": "1 GB"}, {"max_trip_count": True}])
def test_options_of_a_wrong_kind_are_refused(options):
    refuses(TypeError, lambda: seqarray.onnx.prepare(text_model(PARTS), **options), *options)
