"""Scan on every library: states, axes, directions, captures and errors."""

import numpy as np
import pytest

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
