"""Memory of programs: what outputs share, how long values live, and what CuPy allocates."""

import gc
import threading
import tracemalloc
import weakref
from itertools import pairwise

import numpy as np
import onnx
import pytest

import seqarray as sa
import seqarray.onnx
from tests.helpers import on_device_of
from tests.onnx.helpers import floats, integer, placed, text_model

SHARING = {
    "Identity": "agraph (float[N] x) => (float[N] y) { y = Identity(x) }",
    "nothing": "agraph (float[N] x) => (float[N] x) {}",
    "Split": "agraph (float[N] x) => (float[M] y) { y, z = Split<num_outputs = 2>(x) }",
    "SplitToSequence": "agraph (float[N] x) => (seq(float[]) y) { y = SplitToSequence(x) }",
    "SequenceConstruct": "agraph (float[N] x) => (seq(float[]) y) { y = SequenceConstruct(x, x) }",
    "SequenceAt": "agraph (float[N] x) => (float[M] y) { s = SplitToSequence(x) p = Constant<value_int = 1>() "
    "y = SequenceAt(s, p) }",
    "ConcatFromSequence": "agraph (float[N] x) => (float[M] y) { s = SplitToSequence(x) "
    "y = ConcatFromSequence<axis = 0>(s) }",
    "Optional": "agraph (float[N] x) => (float[N] y) { o = Optional(x) y = OptionalGetElement(o) }",
    "optional output": "agraph (float[N] x) => (optional(float[N]) y) { y = Optional(x) }",
    "Reshape": "agraph (float[N] x) => (float[M] y) { l = Shape(x) y = Reshape(x, l) }",
    "If": "agraph (float[N] x) => (float[N] y) { c = Constant<value = bool {1}>() y = If(c)<"
    "then_branch = yes () => (float[N] a) { a = Identity(x) }, else_branch = no () => (float[N] b) { b = Neg(x) }> }",
    "Loop": 'agraph (float[N] x) => (float[N] y) { n = Constant<value_int = 0>() y = Loop(n, "", x)<'
    "body = body (int64 i, bool c, float[N] a) => (bool c2, float[N] b) { c2 = Identity(c) b = Identity(a) }> }",
    "SequenceMap": "agraph (float[N] x) => (seq(float[]) y) { s = SequenceConstruct(x) y = SequenceMap(s)<"
    "body = body (float[N] a) => (float[N] b) { b = Identity(a) }> }",
}


def arrays_in(value):
    return list(value) if isinstance(value, sa.ArraySequence) else [value]


@pytest.mark.parametrize("name", SHARING)
def test_outputs_share_no_memory_with_inputs(name):
    x = floats(1, 2, 3, 4)
    (output,) = seqarray.onnx.prepare(text_model(SHARING[name])).run([x])
    assert not any(np.shares_memory(array, x) for array in arrays_in(output))


@pytest.mark.parametrize("name", SHARING)
def test_outputs_share_no_memory_with_initializers(name):
    model = text_model(SHARING[name].replace("(float[N] x) =>", "() =>", 1))
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(1, 2, 3, 4), "x"))
    program = seqarray.onnx.prepare(model)
    first = [array.copy() for array in arrays_in(program.run([])[0])]
    for array in arrays_in(program.run([])[0]):
        array[...] = 0
    for array, before in zip(arrays_in(program.run([])[0]), first, strict=True):
        sa.testing.assert_arrays_equal(array, before)


@pytest.mark.parametrize("name", SHARING)
def test_elements_of_sequence_inputs_are_not_shared_either(name):
    model = text_model(
        "agraph (seq(float[]) s) => (seq(float[]) t, float[N] y) { t = Identity(s) p = Constant<value_int = 0>() "
        "y = SequenceAt(s, p) }"
    )
    x = floats(1, 2)
    sequence, element = seqarray.onnx.prepare(model).run([[x]])
    assert not any(np.shares_memory(array, x) for array in [*sequence, element])


@pytest.mark.filterwarnings("ignore:.*fall back:UserWarning")
@pytest.mark.parametrize("backend", ["torch"], indirect=True)
@pytest.mark.parametrize("name", SHARING)
def test_outputs_share_no_memory_with_inputs_on_torch(name, backend):
    x = placed(floats(1, 2, 3, 4), backend)
    (output,) = seqarray.onnx.prepare(text_model(SHARING[name]), xp=backend.xp, device=backend.device).run([x])
    for array in arrays_in(output):
        array[...] = 0
    sa.testing.assert_arrays_equal(x, placed(floats(1, 2, 3, 4), backend))


BROADCAST = {
    "Expand": "agraph (float[N] x, int64[R] s) => (float[A, B] y) { t = Add(x, x) y = Expand(t, s) }",
    "of an input": "agraph (float[N] x, int64[R] s) => (float[A, B] y) { y = Expand(x, s) }",
    "transposed": "agraph (float[N] x, int64[R] s) => (float[A, B] y) { t = Add(x, x) e = Expand(t, s) "
    "y = Transpose(e) }",
    "in a sequence": "agraph (float[N] x, int64[R] s) => (seq(float[A, B]) y) { t = Add(x, x) e = Expand(t, s) "
    "y = SequenceConstruct(e, t) }",
    "chunks": "agraph (float[N] x, int64[R] s) => (seq(float[A, B]) y) { t = Add(x, x) e = Expand(t, s) "
    "y = SplitToSequence(e) }",
}


@pytest.mark.filterwarnings("ignore:.*fall back:UserWarning")
@pytest.mark.parametrize("backend", ["numpy", "torch", "array-api-strict", "cupy"], indirect=True)
@pytest.mark.parametrize("name", BROADCAST)
def test_broadcast_outputs_have_memory_of_their_own_for_every_item(name, backend):
    program = seqarray.onnx.prepare(text_model(BROADCAST[name]), xp=backend.xp, device=backend.device)
    (output,) = program.run([placed(floats(1, 2, 3), backend), integer([2, 3])])
    for array in arrays_in(output):
        before = sa.testing.to_numpy(array).copy()
        with on_device_of(array):
            array[(0,) * array.ndim] = 9
        assert (sa.testing.to_numpy(array) != before).sum() == 1


ROWS = "agraph (float[N, M] x) => ({} y) {{ t = Add(x, x) {} }}"

#: Small parts of what a program has computed.
PARTS = {
    "SequenceAt": ROWS.format(
        "float[M]", "r = SplitToSequence<keepdims = 0>(t) p = Constant<value_int = -1>() y = SequenceAt(r, p)"
    ),
    "Slice": ROWS.format(
        "float[N, M]", "b = Constant<value_ints = [3]>() e = Constant<value_ints = [5]>() y = Slice(t, b, e)"
    ),
    "Gather": ROWS.format("float[M]", "i = Constant<value_int = 7>() y = Gather(t, i)"),
    "Split": ROWS.format("float[N, M]", "z, y, w = Split<num_outputs = 3>(t)"),
    "SequenceErase": ROWS.format(
        "seq(float[])", "l = Constant<value_ints = [1, 999]>() r = SplitToSequence(t, l) y = SequenceErase(r)"
    ),
    "SequenceInsert": ROWS.format(
        "seq(float[])",
        "r = SplitToSequence(t) p = Constant<value_int = 1>() a = SequenceAt(r, p) e = SequenceEmpty() "
        "f = SequenceInsert(e, a) y = SequenceInsert(f, a)",
    ),
    "If": ROWS.format(
        "float[M]",
        "c = Constant<value = bool {1}>() i = Constant<value_int = 7>() y = If(c)<then_branch = a () => (float[M] p) "
        "{ p = Gather(t, i) }, else_branch = b () => (float[M] q) { q = Gather(x, i) }>",
    ),
}


@pytest.mark.parametrize("backend", ["numpy", "torch", "cupy"], indirect=True)
@pytest.mark.parametrize("name", PARTS)
def test_outputs_hold_little_more_than_themselves(name, backend):
    x = placed(np.arange(10_000, dtype=np.float32).reshape(1000, 10), backend)
    (output,) = seqarray.onnx.prepare(text_model(PARTS[name]), xp=backend.xp, device=backend.device).run([x])
    kept = sa.ArraySequence(arrays_in(output))
    assert 0 < kept.nbytes <= kept.nbytes_held <= kept.nbytes + 4096


def test_outputs_that_are_most_of_what_they_hold_are_not_copied():
    model = text_model(
        "agraph (float[N, M] x) => (float[K] y, seq(float[]) s) { t = Add(x, x) l = Constant<value_ints = [-1]>() "
        "y = Reshape(t, l) u = Add(t, x) s = SplitToSequence(u) }"
    )
    flat, rows = seqarray.onnx.prepare(model).run([np.ones((1000, 10), dtype=np.float32)])
    assert flat.base is not None
    assert len({id(row.base) for row in rows}) == 1


def test_first_runs_may_be_concurrent():
    many = [onnx.numpy_helper.from_array(np.zeros(2, dtype=np.float32), f"c{i}") for i in range(3000)]
    model = text_model("agraph (float[N] x, int64[1] a, int64[1] b) => (float[M] y) { y = Slice(x, a, b) }")
    model.graph.initializer.extend(many)
    errors = []
    for _ in range(20):
        program = seqarray.onnx.prepare(model)
        barrier = threading.Barrier(4)

        def run(program=program, barrier=barrier):
            barrier.wait()
            try:
                program.run([floats(1, 2, 3), integer([0]), integer([2])])
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(program._prepared) == 1
    assert not errors


def test_inputs_do_not_change():
    model = text_model(
        "agraph (float[N] x, seq(float[]) s) => (float[N] y, seq(float[]) t) { y = Neg(x) t = SequenceErase(s) }"
    )
    x, elements = floats(1, 2), [floats(3), floats(4)]
    seqarray.onnx.prepare(model).run([x, elements])
    sa.testing.assert_arrays_equal(x, floats(1, 2))
    np.testing.assert_equal(elements, [floats(3), floats(4)])


def peak_of(program, inputs):
    """How many bytes a run allocates at most at one time."""
    program.run(inputs)
    tracemalloc.start()
    try:
        program.run(inputs)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


MEGABYTE = np.zeros(1 << 18, dtype=np.float32)


def test_values_are_dropped_after_their_last_use():
    names = ["x", *(f"a{i}" for i in range(40)), "y"]
    nodes = " ".join(f"{after} = Neg({before})" for before, after in pairwise(names))
    program = seqarray.onnx.prepare(text_model(f"agraph (float[N] x) => (float[N] y) {{ {nodes} }}"))
    assert peak_of(program, [MEGABYTE]) < 4 * MEGABYTE.nbytes


def test_values_of_past_iterations_are_dropped():
    model = text_model(
        """agraph (int64 n, float[N] x) => (float[N] y) {
            y = Loop(n, "", x)<body = body (int64 i, bool c, float[N] a) => (bool c2, float[N] b) {
                c2 = Identity(c)
                d = Neg(a)
                b = Neg(d)
            }>
        }"""
    )
    assert peak_of(seqarray.onnx.prepare(model), [integer(40), MEGABYTE]) < 5 * MEGABYTE.nbytes


def test_elements_are_dropped_with_the_sequence():
    """A queue of one element: what is erased is not held any more."""
    model = text_model(
        """agraph (int64 n, float[N] x) => (seq(float[]) y) {
            s = SequenceConstruct(x)
            first = Constant<value_int = 0>()
            y = Loop(n, "", s)<body = body (int64 i, bool c, seq(float[]) a) => (bool c2, seq(float[]) b) {
                c2 = Identity(c)
                e = SequenceAt(a, first)
                f = Neg(e)
                g = SequenceInsert(a, f)
                b = SequenceErase(g, first)
            }>
        }"""
    )
    assert peak_of(seqarray.onnx.prepare(model), [integer(40), MEGABYTE]) < 6 * MEGABYTE.nbytes


def test_a_program_holds_neither_inputs_nor_outputs():
    program = seqarray.onnx.prepare(text_model("agraph (float[N] x) => (seq(float[]) y) { y = SequenceConstruct(x) }"))
    x = floats(1, 2)
    output = list(program.run([x])[0])
    held = [weakref.ref(x), weakref.ref(output[0])]
    del x, output
    gc.collect()
    assert [reference() for reference in held] == [None, None]


def test_a_failed_run_holds_nothing_either():
    program = seqarray.onnx.prepare(
        text_model(
            "agraph (float[N] x) => (float[N] y) { s = SequenceConstruct(x) p = Constant<value_int = 7>() "
            "y = SequenceAt(s, p) }"
        )
    )
    x = floats(1, 2)
    held = weakref.ref(x)
    with pytest.raises(IndexError):
        program.run([x])
    del x
    gc.collect()
    assert held() is None


# What CuPy does, counted on the host


@pytest.mark.cupy_host
@pytest.mark.parametrize("backend", ["cupy"], indirect=True)
def test_two_results_of_sequence_operators_are_made_by_two_calls_and_nothing_comes_to_the_host(backend, counting):
    model = text_model(
        """agraph (float[N, 4] x) => (float[M, 4] y, float[K, 4] a) {
            size = Constant<value_int = 2>()
            last = Constant<value_int = -1>()
            first = Constant<value_int = 0>()
            s = SplitToSequence(x, size)
            a = SequenceAt(s, last)
            t = SequenceInsert(s, a, first)
            y = ConcatFromSequence<axis = 0>(t)
        }"""
    )
    values = np.arange(20, dtype=np.float32).reshape(5, 4)
    x = placed(values, backend)
    program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device, fallback="error")
    program.run([x])
    with counting() as counts:
        joined, element = program.run([x])
    # One kernel for the join; the element is copied, since it would share memory with the input.
    assert (counts.launches + counts.device_to_device, counts.allocations, counts.device_to_host) == (2, 2, 0)
    sa.testing.assert_arrays_equal(joined, placed(np.concatenate([values[4:], values]), backend))
    sa.testing.assert_arrays_equal(element, placed(values[4:], backend))
