"""Recycled memory: who gets it, that it never comes back while anything sees it, and how much of it is kept."""

import ctypes
import gc
import os
import pickle
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib import stride_tricks

import seqarray as sa
from seqarray._engines import pool as hostpool
from seqarray._engines.pool import HostPool
from seqarray._engines.settings import settings
from tests.processes import PATIENCE, output_of, run_python

pytestmark = pytest.mark.engine

MIB = 1 << 20
BYTE = np.dtype(np.uint8)
FLOAT = np.dtype(np.float32)

#: Blocks are somewhat larger than asked for, so that near sizes share them.
ROUNDING = 256 << 10

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell its peak")


@pytest.fixture
def pool() -> HostPool:
    """A pool of its own, from which even small arrays may be asked for."""
    return HostPool(limit=1 << 30)


@pytest.fixture
def small_pool(pool: HostPool, monkeypatch: pytest.MonkeyPatch) -> HostPool:
    """The pool of all results, from few bytes on."""
    monkeypatch.setattr(hostpool, "host_pool", pool)
    monkeypatch.setattr(settings, "pool_from", 1024)
    monkeypatch.setattr(settings, "threads_from", 1024)
    return pool


def address_of(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def filled(pool: HostPool, value: int, shape: tuple[int, ...] = (4, 6), dtype: Any = FLOAT) -> np.ndarray[Any, Any]:
    array = pool._empty(shape, np.dtype(dtype))
    array[...] = value
    return array


# Nothing that sees a block loses it.


class Subclass(np.ndarray[Any, Any]):
    """An array of another class."""


class Attributed(np.ndarray[Any, Any]):
    """An array of another class, with an attribute."""

    def __array_finalize__(self, source: Any) -> None:
        self.source = None


class Interface:
    """Something that NumPy makes an array around."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


def a_frame(array: np.ndarray[Any, Any]) -> Iterator[None]:
    """A generator that has begun, and waits."""

    def generator() -> Iterator[None]:
        yield
        array.sum()

    begun = generator()
    next(begun)
    return begun


def from_torch(array: np.ndarray[Any, Any], how: Callable[[Any, np.ndarray[Any, Any]], Any]) -> Any:
    return how(pytest.importorskip("torch"), array)


#: Ways to see the memory of an array.
VIEWS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "the result itself": lambda result: result,
    "a slice": lambda result: result[1:],
    "a slice of a slice": lambda result: result[1:][:, ::2],
    "a slice of a transposed slice": lambda result: result[1:].T[2:][..., :1],
    "one item": lambda result: result[1, 1, ...],
    "a new axis": lambda result: result[None],
    "reshaped": lambda result: result.reshape(-1),
    "raveled": lambda result: result.ravel(),
    "squeezed": lambda result: result[:1].squeeze(),
    "another dtype": lambda result: result.view(np.int16)[::2],
    "a field": lambda result: result.view([("a", "i2"), ("b", "i2")])["b"],
    "the real part": lambda result: result.view(np.complex64).imag,
    "the diagonal": lambda result: result.diagonal(),
    "a memoryview": memoryview,
    "a slice of a memoryview": lambda result: memoryview(result)[1:],
    "a cast memoryview": lambda result: memoryview(result).cast("B")[4:],
    "an array around a memoryview": lambda result: np.asarray(memoryview(result)[1:]),
    "data": lambda result: result.data,
    "data of a slice": lambda result: result[:, 1:].data,
    "flat": lambda result: result.flat,
    "an iterator": lambda result: iter(result[1:]),
    "nditer": np.nditer,
    "ndenumerate": np.ndenumerate,
    "broadcast": lambda result: np.broadcast(result, 1),
    "broadcast_to": lambda result: np.broadcast_to(result[0], (3, 6)),
    "broadcast_arrays": lambda result: np.broadcast_arrays(result[:1], np.zeros((5, 1)))[0],
    "as_strided": lambda result: stride_tricks.as_strided(result, (2, 2), (4, 4)),
    "sliding windows": lambda result: stride_tricks.sliding_window_view(result, 2, 1),
    "frombuffer": lambda result: np.frombuffer(result, np.uint8),
    "frombuffer of a memoryview": lambda result: np.frombuffer(memoryview(result)[1:].cast("B"), np.uint8),
    "ndarray around it": lambda result: np.ndarray((3,), np.float32, buffer=result, offset=8),
    "asarray": np.asarray,
    "array without a copy": lambda result: np.array(result, copy=False, ndmin=3),
    "a subclass": lambda result: result.view(Subclass),
    "a slice of a subclass": lambda result: result.view(Subclass)[1:].T,
    "a subclass with attributes": lambda result: result.view(Attributed)[1:],
    "an array around a subclass": lambda result: np.asarray(result.view(Subclass)),
    "a recarray": lambda result: result.view(np.recarray),
    "a masked array": lambda result: np.ma.array(result, mask=result > 0, copy=False)[1:].data,
    "an object with an interface": Interface,
    "an array around an object with an interface": lambda result: np.asarray(Interface(result)),
    "ctypes": lambda result: result.ctypes,
    "a ctypes pointer": lambda result: result.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
    "a ctypes array": np.ctypeslib.as_ctypes,
    "an array around a ctypes array": lambda result: np.ctypeslib.as_array(np.ctypeslib.as_ctypes(result)),
    "ctypes from its buffer": (ctypes.c_float * 24).from_buffer,
    "from DLPack": np.from_dlpack,
    "from DLPack of a view": lambda result: np.from_dlpack(result[1:].T)[1:],
    "an unconsumed DLPack capsule": lambda result: result.__dlpack__(),
    "a pickle buffer": pickle.PickleBuffer,
    "pickled out of band": lambda result: pickle.loads(
        pickle.dumps(result, 5, buffer_callback=(buffers := []).append), buffers=buffers
    ),
    "torch.from_numpy": lambda result: from_torch(result, lambda torch, x: torch.from_numpy(x)),
    "a view of torch.from_numpy": lambda result: from_torch(result, lambda torch, x: torch.from_numpy(x)[1:].T),
    "torch.from_dlpack": lambda result: from_torch(result, lambda torch, x: torch.from_dlpack(x)),
    "an array around a torch tensor": lambda result: from_torch(result, lambda torch, x: torch.asarray(x)[1:].numpy()),
    "torch.frombuffer": lambda result: from_torch(result, lambda torch, x: torch.frombuffer(x, dtype=torch.float32)),
    "a shallow copy of a list": lambda result: copy([result]),
    "what a strided view is made around": lambda result: stride_tricks.as_strided(result, (2, 2), (4, 4)).base,
    "a bound method": lambda result: result.sum,
    "a frame": a_frame,
    "a sequence of its chunks": lambda result: sa.split_to_sequence(result, 2, axis=1, copy=None)[1:],
    "one of its chunks": lambda result: sa.split_to_sequence(result, 2, axis=1, copy=None)[1],
    "what it is made around": lambda result: result.base,
    "what that is made around": lambda result: result.base.base,
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_block_is_not_used_again_while_it_is_seen(pool, view):
    result = filled(pool, 7)
    address, used = address_of(result), pool.used_bytes()
    seen = view(result)
    del result
    gc.collect()
    assert pool.used_bytes() == used
    other = filled(pool, 9)
    assert address_of(other) != address
    assert np.all(np.ctypeslib.as_array((ctypes.c_float * 24).from_address(address)) == 7)
    del seen
    gc.collect()
    assert pool.used_bytes() == used  # that of `other`
    assert address_of(pool._empty((4, 6), FLOAT)) == address


def test_a_block_comes_back_at_once_without_the_collector(pool):
    gc.disable()
    try:
        addresses = {address_of(filled(pool, value)) for value in range(5)}
    finally:
        gc.enable()
    assert len(addresses) == 1
    assert pool.used_bytes() == 0


def test_many_views_share_a_block_until_the_last_is_gone(pool):
    result = filled(pool, 7)
    address = address_of(result)
    views = [result[i:].T[j:] for i in range(4) for j in range(6)]
    del result
    random.Random(0).shuffle(views)
    while len(views) > 1:
        views.pop()
        assert address_of(filled(pool, 9)) != address
        assert (views[-1] == 7).all()
    views.clear()
    pool.free_all_blocks()
    assert pool.total_bytes() == 0


class Node:
    """Something that may be part of a cycle."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.itself = self


def test_a_cycle_keeps_a_block_until_it_is_collected(pool):
    gc.disable()
    try:
        result = filled(pool, 7)
        address = address_of(result)
        node = weakref.ref(Node(result[1:]))
        del result
        other = filled(pool, 9)
        assert address_of(other) != address
        assert (node().array == 7).all()
        gc.collect()
        assert node() is None
        assert address_of(filled(pool, 9)) == address
    finally:
        gc.enable()


def test_an_array_that_is_revived_in_a_finalizer_keeps_its_block(pool):
    revived: list[Any] = []

    class Phoenix(Node):
        def __del__(self) -> None:
            revived.append(self.array)

    address = address_of(Phoenix(filled(pool, 7)).array)
    gc.collect()
    assert address_of(revived[0]) == address
    assert address_of(filled(pool, 9)) != address
    assert (revived[0] == 7).all()
    revived.clear()
    assert address in (address_of(filled(pool, 9)), address_of(pool._empty((4, 6), FLOAT)))
    assert pool.used_bytes() == 0


def test_the_collector_may_run_anywhere_in_the_pool(pool):
    thresholds = gc.get_threshold()
    kept: list[np.ndarray[Any, Any]] = []
    gc.set_threshold(1, 1, 1)
    try:
        for turn in range(400):
            array = filled(pool, turn % 250, shape=(1 + turn % 3, ROUNDING), dtype=BYTE)
            # Blocks come back from the collector, which the pool's own work sets off.
            Node(array[:1])
            kept.append(array)
            del array
            if len(kept) > 3:
                del kept[turn % 3]
            assert len(set(map(address_of, kept))) == len(kept)
    finally:
        gc.set_threshold(*thresholds)
    for one in kept:
        assert (one == one[0, 0]).all()
    assert len({int(one[0, 0]) for one in kept}) == len(kept)
    del one
    kept.clear()
    gc.collect()
    assert pool.used_bytes() == 0


def test_threads_never_share_a_block(pool):
    failures: list[str] = []
    begin = threading.Barrier(6)

    def work(number: int) -> None:
        chance, kept = random.Random(number), []
        begin.wait(PATIENCE)
        for turn in range(300):
            value = number * 1000 + turn
            array = pool._empty((chance.choice([10, 90_000]),), np.dtype(np.int64))
            array[:10] = value
            kept.append((value, array[:10] if chance.random() < 0.5 else array))
            del array
            if chance.random() < 0.02:
                pool.free_all_blocks()
            if chance.random() < 0.02:
                pool.set_limit(chance.choice([0, 4 * ROUNDING, 1 << 30]))
            while len(kept) > chance.randrange(1, 8):
                expected, seen = kept.pop(chance.randrange(len(kept)))
                if not (seen[:10] == expected).all():
                    failures.append(f"{expected} became {seen[:10]}")

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert failures == []
    assert pool.used_bytes() == 0


def test_an_array_dropped_in_another_thread_gives_its_block_back(pool):
    kept = [filled(pool, 7)]
    address = address_of(kept[0])
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join(PATIENCE)
    assert address_of(filled(pool, 9)) == address


COPIES: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "pickle": lambda array: pickle.loads(pickle.dumps(array)),
    "deepcopy": deepcopy,
    "copy": copy,
    "pickle of a sequence": lambda array: pickle.loads(pickle.dumps(sa.ArraySequence([array])))[0],
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_are_independent(pool, copied):
    result = filled(pool, 7)
    independent = copied(result)
    assert not np.shares_memory(result, independent)
    assert independent.flags.writeable
    del result
    assert pool.used_bytes() == 0
    filled(pool, 9)
    assert (independent == 7).all()


# What kind of arrays they are.


@pytest.mark.parametrize(
    "dtype",
    [FLOAT, np.dtype(bool), np.dtype(np.complex128), np.dtype("U5"), np.dtype("M8[s]"), np.dtype(ml_dtypes.bfloat16)],
    ids=str,
)
@pytest.mark.parametrize("shape", [(7,), (3, 0, 2), (), (2, 3, 5), (100_000,)], ids=str)
def test_arrays_of_the_pool_are_ordinary(pool, dtype, shape):
    array = pool._empty(shape, dtype)
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
        garbage = small_pool._empty((1200,), FLOAT)
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
def test_results_are_made_in_the_pool_from_32_mib_on(monkeypatch, pool, rows):
    monkeypatch.setattr(hostpool, "host_pool", pool)
    half = np.zeros((rows // 2, 1024), np.float32)
    rest = np.ones((rows - rows // 2, 1024), np.float32)
    joined = sa.concat_from_sequence([half, rest], axis=0)
    assert joined.nbytes == rows * 4096
    assert (pool.used_bytes() > 0) == (joined.nbytes >= 32 * MIB) == (not joined.flags.owndata)
    assert joined[rows // 2 - 1, -1] == 0
    assert joined[rows // 2, 0] == 1
    assert pool.used_bytes() in (0, 32 * MIB)


# How much is kept.


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
    array = pool._empty((nbytes,), BYTE)
    assert 0 <= pool.used_bytes() - nbytes < ROUNDING
    array[...] = 1


def test_near_sizes_share_a_block_and_others_do_not(pool):
    address = address_of(pool._empty((ROUNDING - 5,), BYTE))
    assert address_of(pool._empty((ROUNDING // 8,), np.dtype(np.int64))) == address
    larger = pool._empty((ROUNDING + 1,), BYTE)
    assert address_of(larger) != address
    assert pool.total_bytes() == 3 * ROUNDING


def test_free_memory_is_given_back(pool):
    block = weakref.ref(pool._empty((MIB,), BYTE).base)
    assert block() is None
    memory = [weakref.ref(one.memory) for one in pool._idle]
    assert len(memory) == 1
    pool.free_all_blocks()
    assert memory[0]() is None


@pytest.fixture
def allocations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """For every block that is made: its size, and the idle bytes of `watched` at that time."""
    made: list[tuple[int, int]] = []

    class Watched(hostpool._Block):
        __slots__ = ()

        def __init__(self, nbytes: int) -> None:
            made.append((nbytes, Watched.pool.total_bytes() - Watched.pool.used_bytes()))
            super().__init__(nbytes)

    Watched.pool = HostPool(limit=8 * MIB)
    monkeypatch.setattr(hostpool, "_Block", Watched)
    return made


def limited() -> HostPool:
    """The pool that `allocations` watches."""
    pool: HostPool = hostpool._Block.pool  # type: ignore[attr-defined]
    return pool


def make_and_drop(pool: HostPool, *sizes: int) -> None:
    """Have results of these sizes in MiB, all at once, and drop them in turn."""
    kept = [pool._empty((size * MIB,), BYTE) for size in sizes]
    while kept:
        del kept[0]


def test_a_block_of_a_new_size_takes_the_place_of_idle_ones_before_it_is_made(allocations):
    pool = limited()
    make_and_drop(pool, 3, 4)
    assert pool.total_bytes() == 7 * MIB
    make_and_drop(pool, 2)
    assert allocations[-1] == (2 * MIB, 4 * MIB)
    assert pool.total_bytes() == 6 * MIB
    make_and_drop(pool, 8)
    assert allocations[-1] == (8 * MIB, 0)
    assert pool.total_bytes() == 8 * MIB


def test_the_block_that_has_been_idle_longest_goes_first(allocations):
    pool = limited()
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
    pool = limited()
    chance = random.Random(1)
    kept: list[Any] = []
    for _ in range(200):
        kept.append(pool._empty((chance.randrange(1, 6) * MIB,), BYTE))
        chance.shuffle(kept)
        del kept[chance.randrange(5) :]
        assert pool.total_bytes() - pool.used_bytes() <= 8 * MIB
        assert pool.used_bytes() == sum(array.nbytes for array in kept)
    assert all(size + idle <= 8 * MIB for size, idle in allocations)
    assert len(allocations) < 200


def test_a_block_over_the_limit_is_never_kept(allocations):
    pool = limited()
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
    kept = pool._empty((MIB,), BYTE)
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
    assert sa.host_pool is hostpool.host_pool
    public = {name for name in dir(sa.host_pool) if not name.startswith("_")}
    assert public == {"used_bytes", "total_bytes", "free_all_blocks", "set_limit"}


# Out of memory.


class Refusing(hostpool._Block):
    """Memory that the system has not got, for the first `refusals` times."""

    __slots__ = ()
    refusals = 0
    idle: list[int]
    pool: HostPool

    def __init__(self, nbytes: int) -> None:
        self.idle.append(self.pool.total_bytes())
        if Refusing.refusals:
            Refusing.refusals -= 1
            raise MemoryError
        super().__init__(nbytes)


@pytest.fixture
def refusing(pool: HostPool, monkeypatch: pytest.MonkeyPatch) -> type[Refusing]:
    """A system that is out of memory as often as said, while the pool has idle blocks."""
    make_and_drop(pool, 1, 2)
    monkeypatch.setattr(hostpool, "_Block", Refusing)
    monkeypatch.setattr(Refusing, "pool", pool, raising=False)
    monkeypatch.setattr(Refusing, "idle", [], raising=False)
    monkeypatch.setattr(Refusing, "refusals", 0)
    return Refusing


def test_without_memory_the_pool_is_emptied_and_it_is_tried_once_more(pool, refusing):
    refusing.refusals = 1
    array = filled(pool, 7, shape=(4 * MIB,), dtype=BYTE)
    assert refusing.idle == [3 * MIB, 0]
    assert pool.total_bytes() == pool.used_bytes() == 4 * MIB
    assert (array == 7).all()


def test_without_memory_even_then_the_error_is_raised(pool, refusing):
    refusing.refusals = 2
    with pytest.raises(MemoryError):
        pool._empty((4 * MIB,), BYTE)
    assert refusing.idle == [3 * MIB, 0]
    assert pool.total_bytes() == 0
    assert (filled(pool, 7) == 7).all()


def test_an_operator_gets_through_on_the_second_try(small_pool, refusing):
    refusing.refusals = 1
    joined = sa.concat_from_sequence([ROWS, ROWS], axis=0)
    np.testing.assert_array_equal(joined, np.concatenate([ROWS, ROWS]))
    assert len(refusing.idle) == 2


# The life of the process.


POOL = """
import gc, os, sys, threading
import numpy as np
import seqarray as sa
MIB = 1 << 20
def make(value, mib=32):
    return sa.concat_from_sequence([np.full(mib * MIB - 8, value, np.uint8), np.full(8, value, np.uint8)], axis=0)
def address_of(array):
    return array.__array_interface__["data"][0]
"""


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (33 << 20, 33), (64 << 20, 64), (1 << 40, 97)])
def test_the_environment_sets_the_limit(limit, kept):
    script = f"""{POOL}
results = [make(1, 31), make(2, 33), make(3, 64)]
print(results[0].flags.owndata, sa.host_pool.used_bytes() // MIB)
del results[1]
del results[1]
print(sa.host_pool.total_bytes() // MIB)
"""
    # The larger block comes back last, and does not drive out the other.
    expected = "True 97\n" + str(33 if limit == 64 << 20 else kept)
    assert output_of(script, SEQARRAY_HOST_POOL_LIMIT=str(limit)) == expected


@pytest.mark.parametrize("value", ["much", "1 GiB", "1.5", "-1"])
def test_a_limit_in_the_environment_that_is_none_is_refused(value):
    done = run_python("import seqarray", SEQARRAY_HOST_POOL_LIMIT=value)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ValueError: SEQARRAY_HOST_POOL_LIMIT is ")
    assert repr(value) in last
    assert "bytes" in last


@pytest.mark.parametrize(
    ("pages", "expected"), [((1 << 30) // 4096, 128 * MIB), ((8 << 30) // 4096, 1 << 30), ((1 << 40) // 4096, 1 << 30)]
)
def test_the_default_limit_is_an_eighth_of_memory_or_1_gib(monkeypatch, pages, expected):
    monkeypatch.delenv("SEQARRAY_HOST_POOL_LIMIT", raising=False)
    values = {"SC_PAGE_SIZE": 4096, "SC_PAGESIZE": 4096, "SC_PHYS_PAGES": pages}
    monkeypatch.setattr(os, "sysconf", values.__getitem__, raising=False)
    assert hostpool._default_limit() == expected


def test_a_system_that_does_not_tell_its_memory_has_a_limit_too(monkeypatch):
    monkeypatch.delenv("SEQARRAY_HOST_POOL_LIMIT", raising=False)
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert 0 < hostpool._default_limit() <= 1 << 30


ENDINGS = {
    "a result": "result = make(1)",
    "an idle block": "make(1)",
    "a view": "view = make(1)[5:]",
    "a cycle": """
class Node: pass
node = Node()
node.itself, node.array = node, make(1)
""",
    "an object with a finalizer": """
class Last:
    def __del__(self):
        assert self.array[-1] == 1
last = Last()
last.array, last.itself = make(1), last
""",
    "a module": "sys.modules['somewhere'] = make(1); sys.results = [make(2)]",
    "a thread": """
def hold():
    result = make(1)
    held.set()
    threading.Event().wait()
held = threading.Event()
threading.Thread(target=hold, daemon=True).start()
held.wait()
""",
    "threads that make more": """
def keep_making():
    while True:
        make(1)
for _ in range(3):
    threading.Thread(target=keep_making, daemon=True).start()
make(2)
""",
    "an exit handler": """
import atexit
result = make(1)
atexit.register(lambda: make(2) is result)
""",
    "a pool that has lost its module": "result = make(1); del sys.modules['seqarray._engines.pool']; del sa",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_the_interpreter_exits_with_live_results(ending):
    assert output_of(f"{POOL}{ending}\nprint('end')") == "end"


@needs_fork
def test_results_survive_a_fork():
    script = f"""{POOL}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer versions warn about fork in a process with threads
idle, kept, dropped = make(1), make(2), make(3)
idle_address, dropped_address = address_of(idle), address_of(dropped)
del idle
gc.collect()
used = sa.host_pool.used_bytes()

def works():
    global dropped
    right = sa.host_pool.used_bytes() == used and (dropped == 3).all()
    del dropped
    first, second, third = make(4), make(5), make(6)
    right = right and {{address_of(first), address_of(second)}} == {{idle_address, dropped_address}}
    right = right and address_of(third) not in (idle_address, dropped_address, address_of(kept))
    right = right and (kept == 2).all() and (first == 4).all() and (second == 5).all() and (third == 6).all()
    sa.host_pool.free_all_blocks()
    del first, second, third
    return right and sa.host_pool.used_bytes() == used // 2

child = os.fork()
if not child:
    os._exit(0 if works() else 1)
first = works()
print(os.waitpid(child, 0)[1], first, (kept == 2).all())
"""
    assert output_of(script) == "0 True True"


@needs_fork
def test_a_child_forked_while_threads_make_and_drop_results_works():
    script = f"""{POOL}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
make(0)  # what is imported on first use, is: a child cannot take an import lock that another thread held
stop = threading.Event()
def keep_making(value):
    while not stop.is_set():
        assert (make(value) == value).all()
threads = [threading.Thread(target=keep_making, args=(value,)) for value in (1, 2)]
for thread in threads:
    thread.start()
for _ in range(3):
    child = os.fork()
    if not child:
        sa.host_pool.free_all_blocks()
        first, second = make(8), make(9)
        os._exit(0 if (first == 8).all() and (second == 9).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
print(sa.host_pool.used_bytes())
"""
    assert output_of(script) == "0"


LARGE_CALLS = {
    "concat": "sa.concat_from_sequence(list(np.split(x, 16)), axis=0)",
    "concat along columns": "sa.concat_from_sequence(list(np.split(x, 4, axis=1)), axis=1)",
    "stack": "sa.concat_from_sequence(list(np.split(x, 16)), axis=0, new_axis=1)",
    "split": "sa.split_to_sequence(x, 4)",
    "split along columns": "sa.split_to_sequence(x, 256, axis=1)",
    "split along columns into sizes": "sa.split_to_sequence(x, [1000, 24, 1024], axis=1)",
}


def peak_of(call: str) -> int:
    """The most memory that a fresh process holds that makes one call."""
    # What getrusage tells is at least that of the process that started it; this is of the interpreter alone.
    script = f"""
import numpy as np
import seqarray as sa
x = np.ones((32768, 2048), np.float32)
result = {call}
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    return int(output_of(script)) << 10


@pytest.fixture(scope="module")
def peak_without_a_call() -> int:
    return peak_of("None")


@needs_proc
@pytest.mark.parametrize("call", LARGE_CALLS.values(), ids=LARGE_CALLS)
def test_a_fresh_process_holds_little_more_than_the_result_at_its_peak(peak_without_a_call, call):
    result = 256 * MIB
    assert result // 2 < peak_of(call) - peak_without_a_call <= result + 16 * MIB
