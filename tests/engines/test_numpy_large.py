"""Large work on NumPy arrays: shared among threads, in recycled memory, with the results of NumPy."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqarray as sa
from seqarray._engines.settings import settings
from seqarray.testing import assert_arrays_equal
from tests.engines.numpy_arrays import (
    FAMILIES,
    Array,
    assert_all_same,
    assert_same,
    filled,
    in_native_order,
    joinable,
    joined_by_numpy,
    settings_of_large,
    splittable,
)

pytestmark = pytest.mark.engine


@given(drawn=joinable(), settings=settings_of_large(), copy=st.sampled_from([True, None]))
def test_sequences_and_lists_are_joined_as_by_numpy(large, drawn, settings, copy):
    large(**settings)
    expected = joined_by_numpy(drawn.arrays, drawn.axis, drawn.stack)
    for arrays in (drawn.arrays, sa.ArraySequence(drawn.arrays)):
        joined = sa.concat_from_sequence(arrays, axis=drawn.axis, new_axis=int(drawn.stack), copy=copy)
        if copy is True:
            assert_same(joined, expected, converted=drawn.converted)
            assert not any(np.shares_memory(joined, array) for array in drawn.arrays)
        else:
            assert_arrays_equal(joined, expected)


@given(drawn=joinable(), settings=settings_of_large())
def test_one_array_is_duplicated_as_by_numpy(large, drawn, settings):
    large(**settings)
    sequence = sa.ArraySequence(drawn.arrays)
    for index, array in enumerate(drawn.arrays):
        copied = sa.sequence_at(sequence, index)
        assert_same(copied, np.array(array, sequence.dtype, order="C"), converted=drawn.converted)
        assert copied.flags.c_contiguous
        assert not np.shares_memory(copied, array)


@given(drawn=joinable(), settings=settings_of_large())
def test_arrays_are_packed_as_by_numpy(large, drawn, settings):
    large(**settings)
    packed = list(sa.sequence_construct(*drawn.arrays, copy=True))
    dtype = sa.ArraySequence(drawn.arrays).dtype
    assert_all_same(packed, [array.astype(dtype) for array in drawn.arrays], converted=drawn.converted)
    assert all(array.flags.c_contiguous for array in packed)


@given(drawn=splittable(), settings=settings_of_large())
def test_an_array_is_split_as_by_numpy(large, drawn, settings):
    large(**settings)
    chunks = list(drawn.to_sequence())
    assert_all_same(chunks, drawn.by_numpy())
    for chunk in chunks:
        assert chunk.flags.c_contiguous
        assert not np.shares_memory(chunk, drawn.array)


@given(drawn=splittable(), settings=settings_of_large(), data=st.data())
def test_chunks_are_joined_again_as_by_numpy(large, drawn, settings, data):
    large(**settings)
    chunks, stack = drawn.to_sequence(), not drawn.keepdims
    first = data.draw(st.integers(0, len(chunks) - 1))
    step = data.draw(st.sampled_from([1, 1, 2, -1]))
    for some in (chunks, chunks[first:], chunks[: first + 1], chunks[first::step]):
        elements = list(some)
        expected = joined_by_numpy(elements, drawn.axis, stack)
        for arrays in (some, elements):
            joined = sa.concat_from_sequence(arrays, axis=drawn.axis, new_axis=int(stack))
            assert_same(joined, expected)
            assert not any(np.shares_memory(joined, element) for element in elements)


@given(drawn=splittable(), settings=settings_of_large(), copy=st.sampled_from([True, None]))
def test_splitting_and_joining_again_gives_the_same_array(large, drawn, settings, copy):
    large(**settings)
    joined = sa.concat_from_sequence(drawn.to_sequence(copy=copy), axis=drawn.axis, new_axis=int(not drawn.keepdims))
    assert_same(joined, in_native_order(drawn.array))


#: Work on an array of (66, 12), whose results hold every item of it once.
SHARED: dict[str, Callable[[Array], Any]] = {
    "concat, rows cut across": lambda x: sa.concat_from_sequence([x[:, :5], x[:, 5:]], axis=1),
    "concat, between and inside pieces": lambda x: sa.concat_from_sequence([x[:9], x[9:11], x[11:]], axis=0),
    "concat of a sequence": lambda x: sa.concat_from_sequence(sa.ArraySequence([x[:9], x[9:]]), axis=0),
    "stack": lambda x: sa.concat_from_sequence([x[:33], x[33:]], axis=0, new_axis=1),
    "stack along a last axis": lambda x: sa.concat_from_sequence([x[:22], x[22:44], x[44:]], axis=2, new_axis=1),
    "duplicate": lambda x: sa.sequence_at([x], 0),
    "duplicate of what is not row-major": lambda x: sa.sequence_at([x.T], 0),
    "split": lambda x: sa.split_to_sequence(x, 4),
    "split along columns": lambda x: sa.split_to_sequence(x, 4, axis=1),
    "split along columns into sizes": lambda x: sa.split_to_sequence(x, [1, 2, 5, 2, 2], axis=1),
    "rejoin": lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, 4, axis=1), axis=1),
}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
def test_large_work_is_shared_among_threads(large, shares, work, threads):
    large(threads)
    shares()
    work(filled((66, 12), np.dtype(np.float32)))
    # A join by one thread is one call of NumPy.
    assert set(shares()) == {threads} or (threads == 1 and not shares())


@pytest.mark.parametrize("family", ["object", "str_", "bytes"])
@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
def test_objects_and_text_are_not_shared_among_threads(large, shares, work, family):
    large(3)
    shares()
    work(filled((66, 12), FAMILIES[family][0]))
    assert set(shares()) <= {1}


@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
def test_small_work_is_not_shared_among_threads(shares, work):
    work(filled((66, 12), np.dtype(np.float32)))
    assert set(shares()) <= {1}


def test_how_many_threads_share_is_asked_anew_each_time(large, shares):
    sequence = sa.ArraySequence(list(filled((8, 4), np.dtype(np.float32))))
    for threads in (2, 3, 2, 1):
        large(threads)
        assert_same(sa.concat_from_sequence(sequence, axis=0), filled((32,), np.dtype(np.float32)))
        assert shares() == ([threads] if threads > 1 else [])


def test_many_small_pieces_are_not_shared_among_threads(large, monkeypatch, shares):
    monkeypatch.setattr(settings, "piece_from", 100)
    arrays = [filled((2, 4), np.dtype(np.float32), start) for start in range(30)]
    assert_same(sa.concat_from_sequence(arrays, axis=0), np.concatenate(arrays))
    assert set(shares()) <= {1}


# Objects and text.


def items(result: Any) -> list[Any]:
    """All items of an array, or of the arrays in a sequence."""
    return [item for array in ([result] if isinstance(result, np.ndarray) else result) for item in array.flat]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
def test_objects_are_counted(large, work, threads):
    large(threads)
    x = np.empty((66, 12), object)
    x.flat = [object() for _ in range(x.size)]
    before = [sys.getrefcount(item) for item in x.flat]
    results = [work(x) for _ in range(3)]
    for result in results:
        assert set(map(id, items(result))) == set(map(id, x.flat))
    assert [sys.getrefcount(item) for item in x.flat] == [count + 3 for count in before]
    del results, result
    assert [sys.getrefcount(item) for item in x.flat] == before


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("work", SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("family", ["StringDType", "str_", "object"])
def test_text_outlives_the_arrays_that_it_came_from(large, work, threads, family):
    large(threads)
    dtype = FAMILIES[family][0]
    texts = filled((66, 12), dtype).astype(object)
    result = work(texts.astype(dtype))
    for start in range(3):
        filled((66, 12), dtype, 1000 * start)  # takes the memory that the texts had
    assert items(result) == items(work(texts))
