"""Recycled memory for large NumPy results.

Fresh pages cost more than the copy that fills them.  From 32 MiB on the C library returns memory to the system at once;
a program that makes such results again and again pays for fresh pages every time.  Here a block comes back to the
pool when the last array that sees it is gone.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from seqarray._arguments import is_integer
from seqarray._engines.settings import settings

_ROUNDING = 256 << 10
_ALIGNMENT = 64


class _Buffer:
    """Memory of the pool, idle or leased."""

    __slots__ = ("interface", "memory", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.memory = np.empty(nbytes + _ALIGNMENT, dtype=np.uint8)
        address = -(-self.memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        self.nbytes = nbytes
        self.interface = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


class _Lease:
    """The owner of a block for as long as an array sees it.

    NumPy looks through arrays and memoryviews to what they are made around; an owner that is neither stays the base of
    every view.  Its finalizer may run anywhere, in the middle of the pool's own code too, so it takes no lock.
    """

    __slots__ = ("__array_interface__", "block", "pool")

    def __init__(self, block: _Buffer, pool: HostPool) -> None:
        self.block = block
        self.pool = pool
        self.__array_interface__ = block.interface

    def __del__(self) -> None:
        self.pool._take_back(self.block)


class HostPool:
    """Memory of large NumPy results that is used again once nothing sees it any more.

    Results from 32 MiB on are made in it.  They are ordinary writable arrays, except that ``flags.owndata`` is False.
    The pool keeps idle blocks up to a limit, by default the lesser of 1 GiB and an eighth of the machine's memory, or
    what the environment variable ``SEQARRAY_HOST_POOL_LIMIT`` says, in bytes.

    Examples
    --------
    >>> import seqarray as sa
    >>> sa.host_pool.free_all_blocks()
    >>> sa.host_pool.total_bytes() == sa.host_pool.used_bytes()
    True
    """

    def __init__(self, limit: int) -> None:
        # Both are changed by single operations that other threads and finalizers cannot come between.
        self._idle: deque[_Buffer] = deque()
        self._leased: dict[int, int] = {}
        self._limit = limit

    def used_bytes(self) -> int:
        """Bytes of the blocks that arrays see now.

        Returns
        -------
        int
        """
        return sum(list(self._leased.values()))

    def total_bytes(self) -> int:
        """Bytes of all blocks, in use and idle.

        Returns
        -------
        int
        """
        return self.used_bytes() + self._idle_bytes()

    def free_all_blocks(self) -> None:
        """Give all idle memory back to the system."""
        self._idle.clear()

    def set_limit(self, size: int) -> None:
        """Set how much idle memory is kept.

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
        """An uninitialised array in the pool's memory."""
        size = -(-prod(shape) * dtype.itemsize // _ROUNDING) * _ROUNDING
        block = self._idle_block(size)
        if block is None:
            self._make_room(size)
            try:
                block = _Buffer(size)
            except MemoryError:
                self.free_all_blocks()
                block = _Buffer(size)
        self._leased[id(block)] = size
        return np.ndarray(shape, dtype, buffer=np.asarray(_Lease(block, self)))

    def _idle_bytes(self) -> int:
        return sum([block.nbytes for block in list(self._idle)])

    def _idle_block(self, size: int) -> _Buffer | None:
        for block in list(self._idle):
            if block.nbytes == size:
                with suppress(ValueError):  # another thread was faster
                    self._idle.remove(block)
                    return block
        return None

    def _make_room(self, size: int) -> None:
        """Let go of the blocks that have been idle longest, before more memory is asked for."""
        with suppress(IndexError):
            while self._idle and self._idle_bytes() + size > self._limit:
                self._idle.popleft()

    def _take_back(self, block: _Buffer) -> None:
        self._leased.pop(id(block), None)
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
    return min(1 << 30, memory // 8)


host_pool = HostPool(_default_limit())


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialised array for a result: in the pool's memory if it is large."""
    if prod(shape) * dtype.itemsize < settings.pool_from or dtype.hasobject:
        return np.empty(shape, dtype)
    return host_pool._empty(shape, dtype)
