"""Recycled memory never comes back while anything sees it."""

import ctypes
import gc
import pickle
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from typing import Any

import numpy as np
import pytest
from numpy.lib import stride_tricks

import seqarray as sa
from tests.engines.pool_arrays import (
    BYTE,
    FLOAT,
    ROUNDING,
    address_of,
    filled,
    uninitialised,
)
from tests.processes import PATIENCE

pytestmark = pytest.mark.engine


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
    assert address_of(uninitialised(pool, (4, 6), FLOAT)) == address


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
    assert address in (address_of(filled(pool, 9)), address_of(uninitialised(pool, (4, 6), FLOAT)))
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
            array = uninitialised(pool, (chance.choice([10, 90_000]),), np.dtype(np.int64))
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
