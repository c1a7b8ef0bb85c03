"""Chunks of NumPy arrays, iterated and looked up."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqarray as sa
from tests.engines.numpy_arrays import FAMILIES, Array, assert_all_same, filled, splittable

pytestmark = pytest.mark.engine


def views(array: Array) -> tuple[Any, ...]:
    """What makes a view: where it lies, and how; of axes of length 1 the strides mean nothing."""
    strides = tuple(stride for stride, length in zip(array.strides, array.shape, strict=True) if length > 1)
    address = array.__array_interface__["data"][0]
    return (array.shape, array.dtype, array.flags.writeable, *((address, strides) if array.size else ()))


@given(drawn=splittable(), copy=st.sampled_from([True, None]), data=st.data())
def test_iteration_gives_the_same_arrays_as_looking_them_up(drawn, copy, data):
    chunks = drawn.to_sequence(copy=copy)
    some = slice(
        *data.draw(st.tuples(*[st.none() | st.integers(-9, 9)] * 2)), data.draw(st.sampled_from([None, 2, -1]))
    )
    for sequence in (chunks, chunks[some]):
        looked_up = [sequence[index] for index in range(len(sequence))]
        iterated = list(sequence)
        assert all(type(array) is np.ndarray for array in looked_up + iterated)
        assert list(map(views, iterated)) == list(map(views, looked_up))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("ranks", [1, 2])
def test_chunks_are_arrays_and_never_scalars(family, copy, ranks):
    x = filled((5, 1)[:ranks], FAMILIES[family][0])
    chunks = sa.split_to_sequence(x, keepdims=0, copy=copy)
    for elements in (list(chunks), [chunks[i] for i in range(5)], list(chunks[1:4]), list(chunks[::-1])):
        assert [type(element) for element in elements] == [np.ndarray] * len(elements)
        assert {element.shape for element in elements} == {x.shape[1:]}
    assert [type(element) for element in sa.split(x, num_outputs=5, copy=copy)] == [np.ndarray] * 5
    assert type(sa.sequence_at(chunks, 2, copy=copy)) is np.ndarray


def test_an_iteration_that_has_begun_keeps_the_memory(large):
    chunks = sa.split_to_sequence(filled((64, 4), np.dtype(np.float32)), 2)
    expected = [array.copy() for array in chunks]
    iterator = iter(chunks)
    del chunks
    sa.split_to_sequence(filled((64, 4), np.dtype(np.float32), 500), 2)
    assert_all_same(iterator, expected)


def test_writing_to_an_iterated_chunk_is_seen_when_it_is_looked_up():
    chunks = sa.split_to_sequence(np.zeros((4, 3)), 2, axis=0)
    for number, chunk in enumerate(chunks):
        chunk[...] = number
    assert [float(chunks[i].sum()) for i in range(2)] == [0, 6]


@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_few_chunks_are_iterated(copy, count):
    chunks = sa.split_to_sequence(np.arange(12.0).reshape(2, 6), 2, axis=1, copy=copy)[:count]
    assert [array.shape for array in chunks] == [(2, 2)] * count
    assert list(map(views, chunks)) == [views(chunks[index]) for index in range(count)]
