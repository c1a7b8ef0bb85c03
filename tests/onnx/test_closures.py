"""Programs on NumPy without a loop over steps: what they give, and that everything unusual goes the general way."""

import numpy as np
import pytest

import seqarray as sa
import seqarray.onnx
from seqarray.onnx import Program
from tests.onnx.helpers import boolean, floats, integer, text_model
from tests.onnx.random_graphs import random_inputs, random_model
from tests.onnx.test_conformance import CASES, ERROR_CASES, value_on

#: A limit that nothing reaches: a program with one runs by its steps.
BY_STEPS = {"max_trip_count": 1 << 40, "keepdims_with_split": "ignore"}


#: Cases that are refused when they are prepared.
REFUSED = frozenset({"construct-none", "opt-construct-neither", "split18-num-outputs-more-declared"})


@pytest.fixture
def general_runs(monkeypatch):
    """The runs by steps, in a list."""
    runs = []
    execute = Program._execute

    def counted(self, *arguments):
        runs.append(self)
        return execute(self, *arguments)

    monkeypatch.setattr(Program, "_execute", counted)
    return runs


def outcome(program, inputs):
    """What a run gives, as lists that can be compared, or the error that it raises."""
    try:
        outputs = program.run(inputs)
    except Exception as error:
        return type(error), str(error)
    return [
        [output.element_type, *map(described, output)] if isinstance(output, sa.ArraySequence) else described(output)
        for output in outputs
    ]


def described(array):
    return None if array is None else (array.dtype, array.shape, array.tolist())


def assert_as_by_steps(model, inputs, general_runs, *, usual=True):
    """Assert that a program gives what its steps give, in this way alone if all is usual."""
    program = seqarray.onnx.prepare(model, keepdims_with_split="ignore", fallback="reference")
    general_runs.clear()
    found = outcome(program, inputs)
    assert len(general_runs) == (not usual)
    assert found == outcome(seqarray.onnx.prepare(model, **BY_STEPS, fallback="reference"), inputs)
    return found


@pytest.mark.backends("numpy")
def test_conformance_cases_as_by_steps(backend):
    bound = 0
    for case in CASES + ERROR_CASES:
        if case.name in REFUSED:
            continue
        programs = [
            seqarray.onnx.prepare(case.model, keepdims_with_split="ignore", fallback="reference"),
            seqarray.onnx.prepare(case.model, **BY_STEPS, fallback="reference"),
        ]
        inputs = [value_on(value, backend) for value in case.inputs]
        bound += programs[0]._closures is not None
        outcomes = [outcome(program, inputs) for program in (programs[0], *programs)]
        assert outcomes[0] == outcomes[1] == outcomes[2], case.name
    assert bound > 150


@pytest.mark.parametrize("first", [0, 40, 80])
def test_random_graphs_as_by_steps(first):
    bound = 0
    for seed in range(first, first + 40):
        model, inputs = random_model(seed), random_inputs(seed)
        program = seqarray.onnx.prepare(model, fallback="reference")
        bound += program._closures is not None
        expected = outcome(seqarray.onnx.prepare(model, **BY_STEPS, fallback="reference"), inputs)
        assert outcome(program, inputs) == outcome(program, inputs) == expected, seed
        assert outcome(seqarray.onnx.prepare(model), inputs) == expected, seed  # in regions, where onnxruntime is there
    assert bound > 10


@pytest.mark.parametrize(("axis", "split", "usual"), [(0, 1, True), (-1, 1, True), (0, 2, False)])
def test_keepdims_that_is_applied_beside_a_size(axis, split, usual, general_runs):
    model = text_model(
        "agraph (float[N, M] x, int64 n) => (seq(float[]) y) "
        f"{{ y = SplitToSequence<axis = {axis}, keepdims = 0>(x, n) }}"
    )
    inputs = [floats([1, 2, 3], [4, 5, 6]), integer(split)]
    program = seqarray.onnx.prepare(model, keepdims_with_split="apply")
    found = outcome(program, inputs)
    assert len(general_runs) == (not usual)
    by_steps = seqarray.onnx.prepare(model, **BY_STEPS | {"keepdims_with_split": "apply"})
    assert found == outcome(by_steps, inputs)
    if usual:
        assert [described(row) for row in np.moveaxis(inputs[0], axis, 0)] == found[0][1:]
    else:
        assert found[0] is ValueError


# Lists that are changed in place

PARTS = "s = SplitToSequence(x) p = Constant<value_int = 1>() q = Constant<value_int = -1>()"

EDITS = {
    "each once": f"agraph (float[N] x) => (float[K] y) {{ {PARTS} a = SequenceAt(s, p) t = SequenceInsert(s, a) "
    "u = SequenceErase(t, p) y = ConcatFromSequence<axis = 0>(u) }",
    "read again": f"agraph (float[N] x) => (float[K] y, float[L] z) {{ {PARTS} a = SequenceAt(s, q) "
    "t = SequenceInsert(s, a, p) u = SequenceErase(s) y = ConcatFromSequence<axis = 0>(t) "
    "z = ConcatFromSequence<axis = 0>(u) }",
    "three versions": f"agraph (float[N] x) => (seq(float[]) s, seq(float[]) t, seq(float[]) u) {{ {PARTS} "
    "t = SequenceErase(s) u = SequenceErase(t, p) }",
    "two names": f"agraph (float[N] x) => (int64 n, int64 m) {{ {PARTS} t = Identity(s) u = SequenceErase(t) "
    "n = SequenceLength(s) m = SequenceLength(u) }",
    "the second name": f"agraph (float[N] x) => (int64 m) {{ {PARTS} t = Identity(s) u = SequenceErase(t) "
    "m = SequenceLength(u) }",
    "lengths between": f"agraph (float[N] x) => (int64 n, int64 m) {{ {PARTS} n = SequenceLength(s) "
    "u = SequenceErase(s) m = SequenceLength(u) }",
    "stacked": f"agraph (float[N] x) => (float[A, B] y, float[C, D] z) {{ {PARTS} "
    "y = ConcatFromSequence<axis = 0, new_axis = 1>(s) z = ConcatFromSequence<axis = -1, new_axis = 1>(s) }",
    "of a constant": "agraph (float[N] x) => (seq(float[]) s, float[] y) <float[2] w = {1, 2}> "
    "{ s = SequenceConstruct(w, x) p = Constant<value_int = 0>() y = SequenceAt(s, p) }",
}


@pytest.mark.parametrize("name", EDITS)
def test_edits_of_lists(name, general_runs):
    assert_as_by_steps(text_model(EDITS[name]), [floats(1, 2, 3, 4)], general_runs)


def test_a_sequence_that_is_passed_is_not_changed(general_runs):
    model = text_model(
        "agraph (seq(float[]) s, float[N] x) => (seq(float[]) t, seq(float[]) u) { t = SequenceInsert(s, x) "
        "u = SequenceErase(t) }"
    )
    s = sa.ArraySequence([floats(1), floats(2, 3)])
    given = [s[0], s[1]]
    for passed in (s, given):
        assert_as_by_steps(model, [passed, floats(4)], general_runs)
        assert len(passed) == 2
        assert passed[0] is given[0]


LOOPS = {
    "append": 'e = SequenceEmpty() s = Loop(n, "", e)<body = b (int64 i, bool c, seq(float[]) a) => (bool d, '
    "seq(float[]) t) { d = Identity(c) t = SequenceInsert(a, x) }> y = SequenceLength(s)",
    "append to what is read later": 'e = SequenceConstruct(x) s = Loop(n, "", e)<body = b (int64 i, bool c, '
    "seq(float[]) a) => (bool d, seq(float[]) t) { d = Identity(c) t = SequenceInsert(a, x) }> y = SequenceLength(e)",
    "append to what the body reads": 'e = SequenceConstruct(x) s = Loop(n, "", e)<body = b (int64 i, bool c, '
    "seq(float[]) a) => (bool d, seq(float[]) t) { d = Identity(c) k = Constant<value_int = 0>() f = SequenceAt(e, k) "
    "u = SequenceInsert(a, f, k) t = SequenceInsert(u, x) }> y = SequenceLength(s)",
    "swapped": 'e = SequenceConstruct(x) f = SequenceEmpty() s, r = Loop(n, "", e, f)<body = b (int64 i, bool c, '
    "seq(float[]) a, seq(float[]) g) => (bool d, seq(float[]) h, seq(float[]) t) { d = Identity(c) "
    "t = SequenceInsert(a, x) h = Identity(g) }> y = SequenceLength(r)",
    "the same twice": 'e = SequenceConstruct(x) s, r = Loop(n, "", e, e)<body = b (int64 i, bool c, seq(float[]) a, '
    "seq(float[]) g) => (bool d, seq(float[]) h, seq(float[]) t) { d = Identity(c) t = SequenceInsert(a, x) "
    "h = SequenceErase(g) }> y = SequenceLength(r)",
    "an end that is computed": 'e = SequenceEmpty() s = Loop(n, "", e)<body = b (int64 i, bool c, seq(float[]) a) => '
    "(bool d, seq(float[]) t) { k = Constant<value_int = 1>() d = Less(i, k) t = SequenceInsert(a, x) }> "
    "y = SequenceLength(s)",
    "scans": 'e = SequenceEmpty() s, z = Loop(n, "", e)<body = b (int64 i, bool c, seq(float[]) a) => (bool d, '
    "seq(float[]) t, float[M] v) { d = Identity(c) v = Add(x, x) t = SequenceInsert(a, v) }> y = Shape(z)",
    "on a condition": 'e = SequenceEmpty() k = Constant<value_int = 1>() s = Loop(n, "", e)<body = b (int64 i, bool c, '
    "seq(float[]) a) => (bool d, seq(float[]) t) { d = Identity(c) o = Less(i, k) t = If(o)<then_branch = p () => "
    "(seq(float[]) u) { u = SequenceInsert(a, x) }, else_branch = q () => (seq(float[]) v) { v = Identity(a) }> }> "
    "y = SequenceLength(s)",
    "in a loop": 'e = SequenceEmpty() s = Loop(n, "", e)<body = b (int64 i, bool c, seq(float[]) a) => (bool d, '
    'seq(float[]) t) { d = Identity(c) t = Loop(n, "", a)<body = g (int64 j, bool m, seq(float[]) h) => (bool o, '
    "seq(float[]) r) { o = Identity(m) r = SequenceInsert(h, x) }> }> y = SequenceLength(s)",
}


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("name", LOOPS)
def test_loops(name, count, general_runs):
    model = text_model(f"agraph (int64 n, float[N] x) => (seq(float[]) s, int64[] y) {{ {LOOPS[name]} }}")
    del model.graph.output[1].type.tensor_type.shape.dim[:]
    model.graph.output[1].type.tensor_type.ClearField("shape")
    unusual = name == "scans" and count == 0
    assert_as_by_steps(model, [integer(count), floats(1, 2)], general_runs, usual=not unusual)


BRANCH = """agraph (bool c, float[N] x) => (int64 n, int64 m) {{ s = SplitToSequence(x)
    t = If(c)<then_branch = a () => (seq(float[]) p) {{ p = SequenceErase(s) }},
              else_branch = b () => (seq(float[]) q) {{ q = {other} }}>
    u = SequenceInsert(t, x) n = SequenceLength({read}) m = SequenceLength(u) }}"""


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("read", ["s", "t", "u"])
@pytest.mark.parametrize("other", ["Identity(s)", "SequenceConstruct(x, x)", "SequenceInsert(s, x)"])
def test_branches(other, read, condition, general_runs):
    model = text_model(BRANCH.format(other=other, read=read))
    assert_as_by_steps(model, [boolean(condition), floats(1, 2, 3)], general_runs)


@pytest.mark.parametrize("condition", [True, False])
def test_a_list_that_a_branch_gives_and_that_is_read_later(condition, general_runs):
    model = text_model(
        """agraph (bool c, float[N] x) => (seq(float[]) t, seq(float[]) u) { s = SplitToSequence(x)
            t = If(c)<then_branch = a () => (seq(float[]) p) {
                          p = If(c)<then_branch = d () => (seq(float[]) h) { h = Identity(s) },
                                    else_branch = f () => (seq(float[]) k) { k = SequenceErase(s) }> },
                      else_branch = b () => (seq(float[]) q) { q = Identity(s) }>
            u = SequenceInsert(s, x) }"""
    )
    assert_as_by_steps(model, [boolean(condition), floats(1, 2, 3)], general_runs)


def test_a_body_that_gives_what_is_around_it_is_run_by_steps(general_runs):
    text = """agraph (int64 n, float[N] x) => (int64 y) { e = SequenceConstruct(x) f = SequenceEmpty()
        s = Loop(n, "", f)<body = b (int64 i, bool c, seq(float[]) a) => (bool d, seq(float[]) t) {
            d = Identity(c) t = Identity(e) }> u = SequenceInsert(s, x) y = SequenceLength(u) }"""
    program = seqarray.onnx.prepare(text_model(text))
    assert program._closures is None
    assert program.run([integer(2), floats(1)])[0] == 2


# What is not usual

EDIT = """agraph (float[N] x, int64[M] sizes, int64 p) => (float[K] y) { s = SplitToSequence(x, sizes)
    [take] a = SequenceAt(s, p) [put] t = SequenceInsert(s, a, p) y = ConcatFromSequence<axis = 0>(t) }"""

UNUSUAL = {
    "sum": [floats(1, 2, 3), integer([1, 1]), integer(0)],
    "negative size": [floats(1, 2, 3), integer([4, -1]), integer(0)],
    "position": [floats(1, 2, 3), integer([1, 2]), integer(2)],
    "negative position": [floats(1, 2, 3), integer([1, 2]), integer(-3)],
    "dtype": [np.ones(3), integer([1, 2]), integer(0)],
    "rank": [floats([1], [2], [3]), integer([1, 2]), integer(0)],
    "missing": [floats(1, 2, 3), integer([1, 2])],
    "none": [None, integer([1, 2]), integer(0)],
    "list": [[1.0], integer([1, 2]), integer(0)],
    "big-endian": [floats(1, 2, 3).astype(">f4"), integer([1, 2]), integer(0)],
    "subclass": [floats(1, 2, 3).view(np.recarray), integer([1, 2]), integer(0)],
    "text": [np.asarray(["a"], dtype=object), integer([1, 2]), integer(0)],
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_not_usual_is_told_by_the_steps(name, general_runs):
    model = text_model(EDIT)
    program, by_steps = seqarray.onnx.prepare(model), seqarray.onnx.prepare(model, **BY_STEPS)
    program.run([floats(1, 2, 3), integer([1, 2]), integer(0)])
    found = outcome(program, UNUSUAL[name])
    assert found == outcome(by_steps, UNUSUAL[name])
    if name not in ("big-endian", "subclass"):
        assert isinstance(found, tuple)


def test_a_default_may_be_left_out_or_given(general_runs):
    model = text_model("agraph (seq(float[]) s, int64 p) => (float[N] y) <int64 p = {1}> { y = SequenceAt(s, p) }")
    program = seqarray.onnx.prepare(model)
    for inputs, expected in ([[[floats(1), floats(2)]], 2], [[[floats(1), floats(2)], integer(0)], 1]) * 2:
        assert program.run(inputs)[0].tolist() == [expected]


def test_names_and_order_of_inputs(general_runs):
    program = seqarray.onnx.prepare(text_model(EDIT))
    inputs = [floats(1, 2, 3), integer([1, 2]), integer(0)]
    expected = program.run(inputs)[0].tolist()
    by_name = dict(zip(("p", "sizes", "x"), reversed(inputs), strict=True))
    general_runs.clear()
    assert program.run(by_name)[0].tolist() == program.run(tuple(inputs))[0].tolist() == expected
    assert not general_runs
    by_name["nobody"] = by_name.pop("p")
    assert outcome(program, by_name) == outcome(seqarray.onnx.prepare(text_model(EDIT), **BY_STEPS), by_name)


def test_limits_and_profiles_run_by_steps(general_runs):
    inputs = [floats(1, 2, 3), integer([1, 2]), integer(0)]
    program = seqarray.onnx.prepare(text_model(EDIT))
    program.run(inputs)
    general_runs.clear()
    with program.profile():
        program.run(inputs)
    assert len(general_runs) == 1
    for limit in ("max_bytes", "max_seconds", "max_trip_count"):
        assert seqarray.onnx.prepare(text_model(EDIT), **{limit: 1 << 30})._closures is None


def test_outputs_share_no_memory_with_inputs(general_runs):
    model = text_model(
        "agraph (float[N] x, seq(float[]) s) => (float[M] y, seq(float[]) t, float[N] z) { r = SplitToSequence(x) "
        "p = Constant<value_int = 0>() y = SequenceAt(r, p) t = SequenceInsert(s, x) z = Identity(x) }"
    )
    x, element = floats(1, 2), floats(3)
    program = seqarray.onnx.prepare(model)
    for _ in range(2):
        y, t, z = program.run([x, [element]])
        assert not any(np.shares_memory(array, given) for array in (y, z, *t) for given in (x, element))
    assert not general_runs


def test_overflows_do_not_warn(general_runs):
    model = text_model(
        "agraph (float[N] x) => (float[M] y) { s = SplitToSequence(x) a = ConcatFromSequence<axis = 0>(s) "
        "y = Div(a, a) }"
    )
    program = seqarray.onnx.prepare(model, fallback="reference")
    for _ in range(2):
        assert np.isnan(program.run([floats(0)])[0]).all()
    assert not general_runs
