"""Models that work, and inputs for them: what is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

from tests.onnx.fuzz.hostile import HOSTILE
from tests.onnx.helpers import read_value, text_model


class Entry(NamedTuple):
    """A model that works, and inputs for it."""

    model: onnx.ModelProto
    inputs: list[Any]


FURTHER_MODELS = [
    # Functions that call functions, with attributes; optionals carried by a loop; a body with captures.
    """
    agraph (int64 n, float[N] x, optional(float[N]) o) => (seq(float[]) s, float[M] y, optional(float[N]) p)
    <float[2] w = {1, 2}> {
        s = local.parts<size = 2>(x)
        z = SequenceMap(s, w)<body = b (float[K] a, float[2] v) => (float[L] c) { c = Concat<axis = 0>(a, v, x) }>
        y = ConcatFromSequence<axis = 0>(z)
        p = Loop(n, "", o)<body = l (int64 i, bool c, optional(float[N]) q) => (bool c2, optional(float[N]) r) {
            c2 = Identity(c)
            has = OptionalHasElement(q)
            v = If(has)<
                then_branch = t () => (float[N] a) { a = OptionalGetElement(q) },
                else_branch = e () => (float[N] b) { b = Neg(x) }
            >
            r = Optional(v)
        }>
    }
    <domain: "local", opset_import: ["": 18, "local": 1]>
    parts <size: int = 1> (x) => (s) {
        d = local.double(x)
        n = Constant<value_int: int = @size>()
        s = SplitToSequence<axis = 0>(d, n)
    }
    <domain: "local", opset_import: ["": 18]>
    double (x) => (y) { y = Add(x, x) }
    """,
    # What makes large results, and the reference's operators.
    """
    agraph (int64 n, float[N] x, optional(float[N]) o) => (float[M] y, int64[K] r, float[P, Q] h, float[R, N] e) {
        length = Constant<value_ints = [3]>()
        filled = ConstantOfShape(length)
        times = Constant<value_ints = [2]>()
        tiled = Tile(x, times)
        joined = Concat<axis = 0>(filled, tiled)
        around = Constant<value_ints = [1, 2]>()
        y = Pad(joined, around)
        zero = Constant<value_int = 0>()
        one = Constant<value_int = 1>()
        r = Range(zero, n, one)
        axes = Constant<value_ints = [0]>()
        row = Unsqueeze(x, axes)
        h = Hardmax(row)
        shape = Constant<value_ints = [4, 1]>()
        e = Expand(row, shape)
    }
    """,
    # What grows until the limit is passed, in arrays and in sequences.
    """
    agraph (int64 n, float[N] x, optional(float[N]) o) => (float[M] y, seq(float[]) t, int64 l) {
        times = Constant<value_int = 20>()
        y = Loop(times, "", x)<body = body (int64 i, bool c, float[N] a) => (bool c2, float[M] b) {
            c2 = Identity(c)
            s = SequenceConstruct(a, a, a)
            erased = SequenceErase(s)
            r = SequenceMap(erased)<body = each (float[K] d) => (float[K] e) { e = Neg(d) }>
            b = ConcatFromSequence<axis = 0>(r)
        }>
        empty = SequenceEmpty()
        t = Loop(times, "", empty)<body = other (int64 j, bool d, seq(float[]) u) => (bool d2, seq(float[]) v) {
            d2 = Identity(d)
            w = SequenceInsert(u, x)
            f = Concat<axis = 0>(y, y)
            v = SequenceInsert(w, f)
        }>
        l = SequenceLength(t)
    }
    """,
    # Loops inside a loop, which end on a count, on a condition, and on both; a scan output; text.
    """
    agraph (int64 n, float[N] x, optional(float[N]) o) => (float[M] y, float[K, L] scan, seq(string[]) t) {
        words = Constant<value_strings = ["a", "bc", "def"]>()
        t = SplitToSequence(words)
        go = Constant<value = bool {1}>()
        y, scan = Loop(n, go, x)<body = outer (int64 i, bool c, float[N] a) => (bool c2, float[N] b, float[N] e) {
            c2 = Identity(c)
            p = Loop(n, "", a)<body = middle (int64 j, bool d, float[N] q) => (bool d2, float[N] r) {
                d2 = Less(j, n)
                r = Loop("", d2, q)<body = inner (int64 k, bool f, float[N] u) => (bool f2, float[N] v) {
                    f2 = Less(k, j)
                    v = Add(u, x)
                }>
            }>
            b = Identity(p)
            e = Relu(p)
        }>
    }
    """,
]


def entries() -> list[Entry]:
    """The models of the tests and those of the onnx package that have sequences, larger ones several times."""
    return (
        [*exported_entries()] * 12
        + [*onnx_entries()] * 6
        + [*conformance_entries()]
        + [*further_entries()] * 30
        + [*hostile_entries()] * 3
    )


def hostile_entries() -> Iterator[Entry]:
    """Models that would take all memory or all time."""
    for make in HOSTILE.values():
        yield Entry(make(), [])


def exported_entries() -> Iterator[Entry]:
    """The models exported from torch."""
    from tests.onnx.test_exported import FOLDER, NAMES, data_sets

    for name in NAMES:
        inputs, _ = data_sets(name)[0]
        yield Entry(onnx.load(FOLDER / f"{name}.onnx"), list(inputs.values()))


def onnx_entries() -> Iterator[Entry]:
    """The sequence models in the onnx package."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "simple"
    for path in sorted(folder.glob("test_sequence_model*/model.onnx")):
        model = onnx.load(path)
        data = path.parent / "test_data_set_0"
        inputs = enumerate(model.graph.input[: len(list(data.glob("input_*.pb")))])
        yield Entry(model, [read_value(data / f"input_{index}.pb", declared.type) for index, declared in inputs])


def conformance_entries() -> Iterator[Entry]:
    """The conformance cases as models, those that fail included."""
    from tests.onnx.test_conformance import EXAMPLES, SPEC_CASES, contained, values_of

    for case in EXAMPLES + SPEC_CASES:
        values = map(contained, case.inputs)
        yield Entry(
            case.model,
            [
                [values_of(element) for element in value["seq"]]
                if value is not None and "seq" in value
                else (None if value is None else values_of(value))
                for value in values
            ],
        )


def further_entries() -> Iterator[Entry]:
    """Models with what the others lack."""
    x = np.asarray([1, 2, 3], dtype=np.float32)
    for text in FURTHER_MODELS:
        yield Entry(text_model(text, imports=', "local": 1'), [np.asarray(2), x, None])
