"""Joining NumPy arrays into `out`, which may overlap them."""

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqarray as sa
from tests.engines.numpy_arrays import Array, Drawn, assert_same, filled, joined_by_numpy, settings_of_large

pytestmark = pytest.mark.engine


def test_out_may_be_empty():
    arrays, out = [np.empty((0, 3))] * 2, np.empty((0, 3))
    assert sa.concat_from_sequence(arrays, axis=0, out=out) is out


@st.composite
def outs(draw: Any) -> tuple[Drawn, Array, Array]:
    """Arrays, where to write them joined, and the memory that this lies in; all may overlap."""
    dtype = draw(st.sampled_from([np.dtype("i2"), np.dtype("f8"), np.dtype(object), np.dtype("U3")]))
    memory = filled((400,), np.dtype("i8")).astype(dtype)
    before, after = draw(st.sampled_from([(), (2,), (3, 2)])), draw(st.sampled_from([(), (2,), (3,)]))
    stack = draw(st.booleans())
    lengths = draw(st.lists(st.sampled_from([1, 2, 0, 4]), min_size=1, max_size=3))
    if stack:
        lengths = [1] * len(lengths)

    def view(shape: tuple[int, ...], overlapping: bool) -> Array:
        source = memory if overlapping else memory.copy()
        step = draw(st.sampled_from([1, 2, -1]))
        size = prod(shape)
        first = draw(st.integers(0, 30))
        taken = source[first : first + size * abs(step)][::step]
        return taken.reshape(shape[::-1]).T if draw(st.booleans()) else taken.reshape(shape)

    shapes = [(*before, *after) if stack else (*before, length, *after) for length in lengths]
    arrays = [view(shape, draw(st.booleans())) for shape in shapes]
    return Drawn(arrays, len(before), stack), view((*before, sum(lengths), *after), True), memory


@given(drawn=outs(), settings=settings_of_large())
def test_out_is_right_whatever_it_overlaps(large, drawn, settings):
    large(**settings)
    joined, out, memory = drawn
    expected = joined_by_numpy([array.copy() for array in joined.arrays], joined.axis, joined.stack)
    outside = np.ones(memory.shape, bool)
    # The places that belong to `out`, found by writing to them in a copy.
    offset = (out.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) // memory.itemsize
    strides = [stride // memory.itemsize for stride in out.strides]
    for index in np.ndindex(out.shape):
        outside[offset + sum(i * stride for i, stride in zip(index, strides, strict=True))] = False
    rest = memory[outside].copy()
    result = sa.concat_from_sequence(joined.arrays, axis=joined.axis, new_axis=int(joined.stack), out=out)
    assert result is out
    assert_same(out, expected)
    np.testing.assert_array_equal(memory[outside], rest)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "case", ["shifted", "backwards", "halves swapped", "itself", "transposed", "stacked", "columns"]
)
def test_out_may_be_made_of_its_elements(large, threads, case):
    large(threads)
    memory = np.arange(72 * 72, dtype=np.int32)
    square = memory.reshape(72, 72)
    arguments: dict[str, Any] = {"axis": 0}
    match case:
        case "shifted":
            arrays, out = [memory[:100], memory[100:200]], memory[50:250]
        case "backwards":
            arrays, out = [memory[:100], memory[100:200]], memory[199::-1]
        case "halves swapped":
            arrays, out = [square[36:], square[:36]], square
        case "itself":
            arrays, out = [square], square
        case "transposed":
            arrays, out = [square[:, :30].T, square[:, 30:].T], square
        case "stacked":
            arrays, out, arguments = (
                [memory[:64], memory[64:128]],
                memory[:128].reshape(64, 2),
                {"axis": 1, "new_axis": 1},
            )
        case "columns":
            arrays, out, arguments = [square[:, 50:], square[:, :50]], square, {"axis": 1}
    join = np.stack if arguments.get("new_axis") else np.concatenate
    expected = join([array.copy() for array in arrays], axis=arguments["axis"])
    for _ in range(2):
        assert (
            sa.concat_from_sequence([array.copy() for array in arrays], out=np.empty_like(out), **arguments) is not out
        )
    assert sa.concat_from_sequence(arrays, out=out, **arguments) is out
    np.testing.assert_array_equal(out, expected, strict=True)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("stack", [False, True])
def test_out_takes_no_memory_where_it_overlaps_nothing(large, threads, stack):
    large(threads)
    before = sa.host_pool.total_bytes()
    arrays = [filled((70, 4), np.dtype(np.float32), 1000 * index) for index in range(3)]
    for axis in (0, 1):
        expected = joined_by_numpy(arrays, axis, stack)
        out = np.empty_like(expected, order="C")
        sa.concat_from_sequence(arrays, axis=axis, new_axis=int(stack), out=out)
        assert_same(out, expected)
        assert sa.host_pool.total_bytes() == before
