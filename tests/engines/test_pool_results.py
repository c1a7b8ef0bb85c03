"""Which results are made in recycled memory, and what they are like."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import seqarray as sa
from seqarray._engines import pool as hostpool
from seqarray._engines.settings import settings
from tests.engines.pool_arrays import (
    FLOAT,
    MIB,
    address_of,
    filled,
    uninitialised,
)

pytestmark = pytest.mark.engine


@pytest.mark.parametrize(
    "dtype",
    [FLOAT, np.dtype(bool), np.dtype(np.complex128), np.dtype("U5"), np.dtype("M8[s]"), np.dtype(ml_dtypes.bfloat16)],
    ids=str,
)
@pytest.mark.parametrize("shape", [(7,), (3, 0, 2), (), (2, 3, 5), (100_000,)], ids=str)
def test_arrays_of_the_pool_are_ordinary(pool, dtype, shape):
    array = uninitialised(pool, shape, dtype)
    assert type(array) is np.ndarray
    assert (array.shape, array.dtype) == (shape, dtype)
    assert array.flags.c_contiguous
    assert array.flags.aligned
    assert array.flags.writeable
    assert not array.flags.owndata
    assert address_of(array) % 64 == 0
    zero = np.zeros((), dtype)
    array[...] = zero
    assert (array == zero).all()


def test_only_resizing_in_place_notices(pool):
    with pytest.raises(ValueError, match="own"):
        filled(pool, 7).resize((2, 2), refcheck=False)


ROWS = np.arange(1200, dtype=np.float32).reshape(20, 60)

#: Results of 4 800 bytes, one array of each.
RESULTS: dict[str, Callable[[Any], Any]] = {
    "concat": lambda x: sa.concat_from_sequence([x[:9], x[9:]], axis=0),
    "concat of a sequence": lambda x: sa.concat_from_sequence(sa.ArraySequence([x[:9], x[9:]]), axis=0),
    "concat along columns": lambda x: sa.concat_from_sequence([x[:, :7], x[:, 7:]], axis=1),
    "concat of one": lambda x: sa.concat_from_sequence([x], axis=0),
    "concat of chunks": lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, 2, copy=None), axis=0),
    "concat of packed chunks": lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, 20, axis=1), axis=1),
    "stack": lambda x: sa.concat_from_sequence([x[:10], x[10:]], axis=0, new_axis=1),
    "stack along a last axis": lambda x: sa.concat_from_sequence([x[:10], x[10:]], axis=2, new_axis=1),
    "at": lambda x: sa.sequence_at([x], 0),
    "construct": lambda x: sa.sequence_construct(x[:1], x[1:], copy=True)[1],
    "split_to_sequence": lambda x: sa.split_to_sequence(x, 3)[2],
    "split_to_sequence along columns": lambda x: sa.split_to_sequence(x, 30, axis=1)[1],
    "split_to_sequence along columns into sizes": lambda x: sa.split_to_sequence(x, [1, 40, 19], axis=1)[1],
    "split": lambda x: sa.split(x, [5, 15])[0],
}

every_result = pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)


@every_result
def test_large_results_are_made_in_the_pool(small_pool, make):
    result = make(ROWS)
    assert not result.flags.owndata
    assert result.flags.writeable
    assert result.nbytes <= small_pool.used_bytes()
    del result
    assert small_pool.used_bytes() == 0


@every_result
def test_large_results_are_right_in_recycled_memory(small_pool, make):
    expected = make(ROWS).copy()
    for _ in range(3):
        garbage = uninitialised(small_pool, (1200,), FLOAT)
        garbage[...] = np.nan
        address = address_of(garbage)
        del garbage
        result = make(ROWS)
        base = result
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert address_of(base) == address
        np.testing.assert_array_equal(result, expected, strict=True)
        del result, base


@every_result
def test_chunks_keep_the_block_that_they_lie_in(small_pool, make):
    result = make(ROWS)
    expected, kept = result[..., -1:].copy(), result[..., -1:]
    used = small_pool.used_bytes()
    del result
    assert small_pool.used_bytes() == used
    make(-ROWS)
    np.testing.assert_array_equal(kept, expected)


@every_result
def test_small_results_are_not_made_in_the_pool(make):
    before = sa.host_pool.total_bytes()
    kept = make(ROWS)
    assert kept.nbytes < settings.pool_from
    assert sa.host_pool.total_bytes() == before


@pytest.mark.parametrize("dtype", [np.dtype(object), np.dtypes.StringDType()], ids=["object", "StringDType"])
@every_result
def test_results_that_refer_to_objects_are_not_made_in_the_pool(small_pool, make, dtype):
    texts = np.array([f"text {i}" for i in range(1200)], dtype=object).reshape(20, 60).astype(dtype)
    result = make(texts)
    assert result.dtype == dtype
    assert small_pool.total_bytes() == 0
    assert set(result.flat) <= set(texts.flat)


def test_structures_that_refer_to_objects_are_not_made_in_the_pool(small_pool):
    dtype = np.dtype([("number", "i8"), ("object", object)])
    values = np.array([(i, f"text {i}") for i in range(200)], dtype)
    joined = sa.concat_from_sequence([values, values], axis=0)
    assert small_pool.total_bytes() == 0
    assert joined["object"][399] is values["object"][199]


@pytest.mark.parametrize("rows", [8 << 10, (8 << 10) - 1])
def test_results_are_made_in_the_pool_from_32_mib_on(results_pool, rows):
    pool = results_pool
    half = np.zeros((rows // 2, 1024), np.float32)
    rest = np.ones((rows - rows // 2, 1024), np.float32)
    joined = sa.concat_from_sequence([half, rest], axis=0)
    assert joined.nbytes == rows * 4096
    assert (pool.used_bytes() > 0) == (joined.nbytes >= 32 * MIB) == (not joined.flags.owndata)
    assert joined[rows // 2 - 1, -1] == 0
    assert joined[rows // 2, 0] == 1
    assert pool.used_bytes() in (0, 32 * MIB)


def test_the_owner_of_a_block_cannot_be_copied(pool):
    array = filled(pool, 7)
    owner = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copy the array"):
            duplicate(owner)
    other = filled(pool, 8)
    assert not np.shares_memory(array, other)
    for duplicate in (copy.copy, copy.deepcopy, lambda array: pickle.loads(pickle.dumps(array))):
        assert not np.shares_memory(duplicate(array), array)
        assert (duplicate(array) == 7).all()


def test_an_owner_that_was_never_finished_gives_nothing_back(pool):
    filled(pool, 7)
    idle = pool.total_bytes()
    hostpool._Lease.__new__(hostpool._Lease)
    assert (pool.used_bytes(), pool.total_bytes()) == (0, idle)
