"""How much recycled memory is kept, and what happens when there is no more."""

import random
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from tests.engines.pool_arrays import (
    BYTE,
    MIB,
    ROUNDING,
    HostPool,
    address_of,
    filled,
    make_and_drop,
    uninitialised,
)

pytestmark = pytest.mark.engine


def test_used_and_total_bytes_follow_the_results(pool):
    assert (pool.used_bytes(), pool.total_bytes()) == (0, 0)
    first = filled(pool, 1, shape=(3 * MIB,), dtype=BYTE)
    assert pool.used_bytes() == pool.total_bytes() == 3 * MIB
    second = filled(pool, 2, shape=(5 * MIB - 1,), dtype=BYTE)
    assert pool.used_bytes() == pool.total_bytes() == 8 * MIB
    del first
    assert (pool.used_bytes(), pool.total_bytes()) == (5 * MIB, 8 * MIB)
    del second
    assert (pool.used_bytes(), pool.total_bytes()) == (0, 8 * MIB)
    third = filled(pool, 3, shape=(3 * MIB,), dtype=BYTE)
    assert (pool.used_bytes(), pool.total_bytes()) == (3 * MIB, 8 * MIB)
    pool.free_all_blocks()
    assert (pool.used_bytes(), pool.total_bytes()) == (3 * MIB, 3 * MIB)
    assert (third == 3).all()
    del third
    assert (pool.used_bytes(), pool.total_bytes()) == (0, 3 * MIB)


@pytest.mark.parametrize("nbytes", [1, ROUNDING - 1, ROUNDING, ROUNDING + 1, 3 * MIB + 5])
def test_blocks_are_little_larger_than_asked_for(pool, nbytes):
    array = uninitialised(pool, (nbytes,), BYTE)
    assert 0 <= pool.used_bytes() - nbytes < ROUNDING
    array[...] = 1


def test_near_sizes_share_a_block_and_others_do_not(pool):
    address = address_of(uninitialised(pool, (ROUNDING - 5,), BYTE))
    assert address_of(uninitialised(pool, (ROUNDING // 8,), np.dtype(np.int64))) == address
    larger = uninitialised(pool, (ROUNDING + 1,), BYTE)
    assert address_of(larger) != address
    assert pool.total_bytes() == 3 * ROUNDING


def test_free_memory_is_given_back(pool):
    tracemalloc.start()
    try:
        block = weakref.ref(uninitialised(pool, (MIB,), BYTE).base)
        assert block() is None
        assert tracemalloc.get_traced_memory()[0] >= MIB
        pool.free_all_blocks()
        assert tracemalloc.get_traced_memory()[0] < MIB // 2
    finally:
        tracemalloc.stop()


class Allocations(list[tuple[int, int]]):
    """For every block that a pool asks NumPy for: its size, and the bytes that are idle in the pool at that time."""

    def __init__(self, pool: HostPool) -> None:
        super().__init__()
        self.pool = pool
        #: How many of the next allocations fail.
        self.refusals = 0

    def note(self, nbytes: int) -> None:
        self.append((nbytes, self.pool.total_bytes() - self.pool.used_bytes()))
        if self.refusals:
            self.refusals -= 1
            raise MemoryError


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[[HostPool], Allocations]:
    """Watches the allocations of a pool, and may have them fail."""

    def watch(pool: HostPool) -> Allocations:
        allocations, empty = Allocations(pool), np.empty

        def watched(shape: Any, *arguments: Any, **keywords: Any) -> np.ndarray[Any, Any]:
            if isinstance(shape, int) and shape >= ROUNDING:
                allocations.note(shape // ROUNDING * ROUNDING)
            return empty(shape, *arguments, **keywords)

        monkeypatch.setattr(np, "empty", watched)
        return allocations

    return watch


@pytest.fixture
def allocations(watch: Callable[[HostPool], Allocations]) -> Allocations:
    """Those of a pool that keeps 8 MiB."""
    return watch(HostPool(limit=8 * MIB))


def test_a_block_of_a_new_size_takes_the_place_of_idle_ones_before_it_is_made(allocations):
    pool = allocations.pool
    make_and_drop(pool, 3, 4)
    assert pool.total_bytes() == 7 * MIB
    make_and_drop(pool, 2)
    assert allocations[-1] == (2 * MIB, 4 * MIB)
    assert pool.total_bytes() == 6 * MIB
    make_and_drop(pool, 8)
    assert allocations[-1] == (8 * MIB, 0)
    assert pool.total_bytes() == 8 * MIB


def test_the_block_that_has_been_idle_longest_goes_first(allocations):
    pool = allocations.pool
    make_and_drop(pool, 2, 3)
    make_and_drop(pool, 2)
    made = len(allocations)
    assert made == 2
    make_and_drop(pool, 4)
    make_and_drop(pool, 2)
    assert len(allocations) == made + 1
    make_and_drop(pool, 3)
    assert len(allocations) == made + 2


def test_idle_blocks_never_exceed_the_limit(allocations):
    pool = allocations.pool
    chance = random.Random(1)
    kept: list[Any] = []
    for _ in range(200):
        kept.append(uninitialised(pool, (chance.randrange(1, 6) * MIB,), BYTE))
        chance.shuffle(kept)
        del kept[chance.randrange(5) :]
        assert pool.total_bytes() - pool.used_bytes() <= 8 * MIB
        assert pool.used_bytes() == sum(array.nbytes for array in kept)
    assert all(size + idle <= 8 * MIB for size, idle in allocations)
    assert len(allocations) < 200


def test_a_block_over_the_limit_is_never_kept(allocations):
    pool = allocations.pool
    make_and_drop(pool, 9)
    assert pool.total_bytes() == 0
    make_and_drop(pool, 9)
    assert len(allocations) == 2


def test_a_limit_of_zero_keeps_nothing(pool):
    make_and_drop(pool, 1, 2)
    pool.set_limit(size=0)
    assert pool.total_bytes() == 0
    kept = filled(pool, 7)
    make_and_drop(pool, 1)
    assert pool.total_bytes() == pool.used_bytes() == ROUNDING
    assert (kept == 7).all()
    del kept
    assert pool.total_bytes() == 0


def test_a_lower_limit_holds_at_once(pool):
    kept = uninitialised(pool, (MIB,), BYTE)
    make_and_drop(pool, 2, 3, 4)
    pool.set_limit(7 * MIB)
    assert pool.total_bytes() - pool.used_bytes() == 7 * MIB
    pool.set_limit(6 * MIB)
    assert pool.total_bytes() - pool.used_bytes() <= 6 * MIB
    assert pool.used_bytes() == kept.nbytes


def test_a_higher_limit_keeps_more(pool):
    pool.set_limit(MIB)
    make_and_drop(pool, 4)
    assert pool.total_bytes() == 0
    pool.set_limit(4 * MIB)
    make_and_drop(pool, 4)
    assert pool.total_bytes() == 4 * MIB


@pytest.mark.parametrize("size", [-1, -(1 << 40)])
def test_a_negative_limit_is_refused(pool, size):
    pool.set_limit(2 * MIB)
    make_and_drop(pool, 1)
    with pytest.raises(ValueError, match=r"^host_pool.set_limit: size is -\d+"):
        pool.set_limit(size)
    make_and_drop(pool, 2)
    assert pool.total_bytes() == 2 * MIB


@pytest.mark.parametrize("size", [1.5, 1e9, "1", None, True, np.asarray(1.0), np.timedelta64(1, "s")], ids=repr)
def test_a_limit_is_an_integer(pool, size):
    with pytest.raises(TypeError, match=r"^host_pool.set_limit: size is .*; expected an integer$"):
        pool.set_limit(size)
    pool.set_limit(np.int64(MIB))
    make_and_drop(pool, 1)
    assert pool.total_bytes() == MIB


def test_the_pool_of_the_package_is_the_one_that_results_come_from():
    before = sa.host_pool.used_bytes()
    result = sa.sequence_at([np.zeros(32 * MIB, np.uint8)], 0)
    assert sa.host_pool.used_bytes() == before + result.nbytes
    public = {name for name in dir(sa.host_pool) if not name.startswith("_")}
    assert public == {"used_bytes", "total_bytes", "free_all_blocks", "set_limit"}


# Out of memory.


@pytest.fixture
def refusing(pool: HostPool, watch: Callable[[HostPool], Allocations]) -> Allocations:
    """The allocations of a pool that has idle blocks, on a system that is out of memory as often as said."""
    make_and_drop(pool, 1, 2)
    return watch(pool)


def test_without_memory_the_pool_is_emptied_and_it_is_tried_once_more(pool, refusing):
    refusing.refusals = 1
    array = filled(pool, 7, shape=(4 * MIB,), dtype=BYTE)
    assert refusing == [(4 * MIB, 3 * MIB), (4 * MIB, 0)]
    assert pool.total_bytes() == pool.used_bytes() == 4 * MIB
    assert (array == 7).all()


def test_without_memory_even_then_the_error_is_raised(pool, refusing):
    refusing.refusals = 2
    with pytest.raises(MemoryError):
        uninitialised(pool, (4 * MIB,), BYTE)
    assert refusing == [(4 * MIB, 3 * MIB), (4 * MIB, 0)]
    assert pool.total_bytes() == 0
    assert (filled(pool, 7) == 7).all()


def test_an_operator_gets_through_on_the_second_try(small_pool, refusing):
    refusing.refusals = 1
    rows = np.arange(1200, dtype=np.float32).reshape(20, 60)
    joined = sa.concat_from_sequence([rows, rows], axis=0)
    np.testing.assert_array_equal(joined, np.concatenate([rows, rows]))
    assert len(refusing) == 2
