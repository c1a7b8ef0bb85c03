"""Scan on every library: states, axes, directions, captures and errors."""

import random

import numpy as np
import pytest
from onnx import helper

import seqarray.onnx
from tests.onnx.helpers import assert_gives, fails, floats, on_all, text_model


def running_sum(attributes="", text="float[K] item"):
    return text_model(
        f"""agraph (float[N] start, float[A, B] x) => (float[N] last, float[C, D] y) {{
            last, y = Scan<num_scan_inputs = 1{attributes}, body = b (float[K] sum, {text}) =>
            (float[K] next, float[K] out) {{ next = Add(sum, item) out = Identity(next) }}>(start, x)
        }}"""
    )


X = np.arange(6, dtype=np.float32).reshape(3, 2)


@on_all
@pytest.mark.parametrize("input_axis", [0, 1, -1])
@pytest.mark.parametrize("output_axis", [0, 1])
@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("prepends", [0, 1])
def test_axes_and_directions(input_axis, output_axis, backwards, prepends, backend):
    model = running_sum(
        f", scan_input_axes = [{input_axis}], scan_output_axes = [{output_axis}], "
        f"scan_input_directions = [{backwards}], scan_output_directions = [{prepends}]"
    )
    items = np.moveaxis(X, input_axis, 0)
    sums = np.cumsum(items[::-1] if backwards else items, axis=0, dtype=np.float32)
    wanted = np.stack(sums[::-1] if prepends else sums, axis=output_axis)
    assert_gives(model, [np.zeros(items.shape[1], dtype=np.float32), X], [sums[-1], wanted], backend)


@on_all
def test_a_body_that_reads_outer_values(backend):
    model = text_model(
        """agraph (float[N] x, float w) => (float[M] y) {
            y = Scan<num_scan_inputs = 1, body = b (float a) => (float c) { c = Mul(a, w) }>(x)
        }"""
    )
    assert_gives(model, [floats(1, 2, 3), floats(2).reshape(())], [floats(2, 4, 6)], backend)


@on_all
def test_without_items_the_states_stay_and_nothing_is_stacked(backend):
    model = running_sum()
    start = floats(1, 2)
    assert_gives(model, [start, np.zeros((0, 2), dtype=np.float32)], [start, np.zeros((0, 2), np.float32)], backend)


def test_scan_inputs_of_different_lengths_are_refused(any_numpy):
    model = text_model(
        """agraph (float[N] x, float[M] z) => (float[K] y) {
            y = Scan<num_scan_inputs = 2, body = b (float a, float d) => (float c) { c = Add(a, d) }>(x, z)
        }"""
    )
    fails(model, [floats(1, 2), floats(1, 2, 3)], any_numpy, ValueError, "Scan", "[2, 3]")


@pytest.fixture
def any_numpy():
    class Backend:
        xp, device = np, None
        array = staticmethod(np.asarray)

    return Backend


@pytest.mark.parametrize("count", [0, -1, 3, 2**40])
def test_a_number_of_scan_inputs_that_does_not_fit_is_refused(count):
    model = running_sum()
    model.graph.node[0].attribute[0].i = count
    with pytest.raises(ValueError, match="num_scan_inputs"):
        seqarray.onnx.prepare(model)


def test_version_8_is_refused():
    model = running_sum()
    model.opset_import[0].version = 8
    with pytest.raises(ValueError, match="Scan"):
        seqarray.onnx.prepare(model)


def random_scan(seed):
    """A Scan with or without a state and its inputs, of up to three items along any axes and in both directions."""
    chosen = random.Random(seed)
    values = np.random.default_rng(seed)
    rank, n_scanned, n_states, length = (chosen.randint(*bounds) for bounds in [(1, 3), (1, 2), (0, 1), (0, 3)])
    shape = [chosen.randint(1, 3) for _ in range(rank - 1)]
    axes = [chosen.randint(-rank, rank - 1) for _ in range(n_scanned)]
    arrays = [np.ones(shape, np.float32)] * n_states
    for axis in axes:
        items = values.standard_normal((length, *shape), dtype=np.float32)
        arrays.append(np.ascontiguousarray(np.moveaxis(items, 0, axis)))
    names = ["state"] * n_states + [f"x{i}" for i in range(n_scanned)]
    results = ["last"] * n_states + ["y"]
    nodes = [helper.make_node("Exp", ["item0"], ["a"]), helper.make_node("Tanh", ["a"], ["b"])]
    nodes.append(helper.make_node("Mul", ["b", f"item{n_scanned - 1}"], ["c"]))
    if n_states:
        nodes.append(helper.make_node("Add", ["before", "c"], ["after"]))
    nodes.append(helper.make_node("Neg", ["c"], ["out"]))

    def declared(inner):
        return [helper.make_tensor_value_info(name, 1, shape) for name in inner]

    scan = helper.make_node(
        "Scan",
        names,
        results,
        body=helper.make_graph(
            nodes,
            "body",
            declared(["before"] * n_states + [f"item{i}" for i in range(n_scanned)]),
            declared(["after"] * n_states + ["out"]),
        ),
        num_scan_inputs=n_scanned,
        scan_input_axes=axes,
        scan_input_directions=[chosen.randint(0, 1) for _ in axes],
        scan_output_axes=[chosen.randint(-rank, rank - 1)],
        scan_output_directions=[chosen.randint(0, 1)],
    )
    graph = helper.make_graph(
        [scan, helper.make_node("Elu", ["y"], ["z"])],
        "graph",
        [helper.make_tensor_value_info(name, 1, None) for name in names],
        [helper.make_empty_tensor_value_info(name) for name in [*results, "z"]],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), arrays


@pytest.mark.parametrize("first", [0, 40])
def test_random_scans_in_a_session_and_step_by_step(first):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    engines = set()
    for seed in range(first, first + 40):
        model, arrays = random_scan(seed)
        program = seqarray.onnx.prepare(model)
        engines.add(program.steps[0].engine)
        by_steps = seqarray.onnx.prepare(model, fallback="reference")
        for result, expected in zip(program.run(arrays), by_steps.run(arrays), strict=True):
            assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert engines == {"onnxruntime"}
