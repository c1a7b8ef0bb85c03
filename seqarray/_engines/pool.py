"""Recycled memory for large NumPy results.

Page faults of fresh memory cost more than the copy that fills it.  From 32 MiB on the C library returns memory to the
system when it is freed, so a program that makes such results repeatedly pays for page faults every time.  A block of
this pool is reused once the last array in it has been freed.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from contextlib import suppress
from math import prod
from typing import Any, NoReturn

import numpy as np

from seqarray._arguments import is_integer
from seqarray._engines import limits
from seqarray._engines.settings import settings

_ROUNDING = 256 << 10
_ALIGNMENT = 64


class _Buffer:
    """A block of memory of the pool, idle or leased."""

    __slots__ = ("interface", "memory", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.memory = np.empty(nbytes + _ALIGNMENT, dtype=np.uint8)
        address = -(-self.memory.__array_interface__["data"][0] // _ALIGNMENT) * _ALIGNMENT
        self.nbytes = nbytes
        self.interface = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


class _Lease:
    """The owner of a block while arrays use it.

    NumPy collapses chains of bases that are arrays or memoryviews; an owner of another class stays the base of every
    view.  Its finalizer may run at any time, even within the code of the pool, so it takes no lock.  A copy of
    the owner would give the block back while arrays still use it, so there is none.
    """

    __slots__ = ("__array_interface__", "__weakref__", "block", "pool")

    def __init__(self, block: _Buffer, pool: HostPool) -> None:
        self.pool = pool
        self.__array_interface__ = block.interface
        self.block = block

    def __del__(self) -> None:
        if hasattr(self, "block"):  # a signal handler may have raised an exception before
            self.pool._take_back(self.block)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("the owner of an array's memory cannot be copied or pickled; copy the array")


class HostPool:
    """Memory of large NumPy results, reused when no array uses it any more.

    Results from 32 MiB on are allocated here.  They are ordinary writable arrays, but ``flags.owndata`` is False.  The
    pool keeps idle blocks up to a limit: by default the lesser of 1 GiB and an eighth of the memory that the machine
    has and the control group allows, or the number of bytes in the environment variable ``SEQARRAY_HOST_POOL_LIMIT``.

    Examples
    --------
    >>> import seqarray as sa
    >>> sa.host_pool.free_all_blocks()
    >>> sa.host_pool.total_bytes() == sa.host_pool.used_bytes()
    True
    """

    def __init__(self, limit: int) -> None:
        # Both are changed by atomic operations only, since other threads and finalizers may run at any point, and be
        # left by an exception that a signal handler raises.  So an entry counts only as long as the owner lives.
        self._idle: deque[_Buffer] = deque()
        self._leases: dict[int, weakref.ref[_Lease]] = {}
        self._limit = limit

    def used_bytes(self) -> int:
        """Return the bytes of the blocks in use.

        Returns
        -------
        int
        """
        leases = [reference() for reference in list(self._leases.values())]
        return sum([lease.block.nbytes for lease in leases if lease is not None])

    def total_bytes(self) -> int:
        """Return the bytes of all blocks, in use and idle.

        Returns
        -------
        int
        """
        return self.used_bytes() + self._idle_bytes()

    def free_all_blocks(self) -> None:
        """Free all idle memory."""
        self._idle.clear()

    def set_limit(self, size: int) -> None:
        """Set the limit of idle memory.

        Parameters
        ----------
        size : int
            Bytes; 0 keeps nothing.

        Raises
        ------
        TypeError, ValueError
            If it is not an integer, or negative.
        """
        if not is_integer(size):
            raise TypeError(f"host_pool.set_limit: size is {size!r}; expected an integer")
        if size < 0:
            raise ValueError(f"host_pool.set_limit: size is {size}; it must not be negative")
        self._limit = int(size)
        self._make_room(0)

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an uninitialised array in memory of the pool."""
        size = -(-prod(shape) * dtype.itemsize // _ROUNDING) * _ROUNDING
        block = self._idle_block(size)
        if block is None:
            self._make_room(size)
            try:
                block = _Buffer(size)
            except MemoryError:
                self.free_all_blocks()
                block = _Buffer(size)
        lease = _Lease(block, self)
        self._leases[id(block)] = weakref.ref(lease)
        return np.ndarray(shape, dtype, buffer=np.asarray(lease))

    def _idle_bytes(self) -> int:
        return sum([block.nbytes for block in list(self._idle)])

    def _idle_block(self, size: int) -> _Buffer | None:
        for block in list(self._idle):
            if block.nbytes == size:
                with suppress(ValueError):  # another thread has taken it
                    self._idle.remove(block)
                    return block
        return None

    def _make_room(self, size: int) -> None:
        """Free the blocks that have been idle longest, before a block of a size is allocated."""
        with suppress(IndexError):
            while self._idle and self._idle_bytes() + size > self._limit:
                self._idle.popleft()

    def _take_back(self, block: _Buffer) -> None:
        self._leases.pop(id(block), None)
        if self._idle_bytes() + block.nbytes <= self._limit:
            self._idle.append(block)


def _default_limit() -> int:
    given = os.environ.get("SEQARRAY_HOST_POOL_LIMIT")
    if given is not None:
        if not (given.isascii() and given.isdigit()):
            raise ValueError(f"SEQARRAY_HOST_POOL_LIMIT is {given!r}; expected a number of bytes")
        return int(given)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = 8 << 30
    return int(min(1 << 30, memory // 8, limits.memory_limit() // 8))


host_pool = HostPool(_default_limit())


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an uninitialised array for a result, in memory of the pool if it is large."""
    if prod(shape) * dtype.itemsize < settings.pool_from or dtype.hasobject:
        return np.empty(shape, dtype)
    return host_pool._empty(shape, dtype)
