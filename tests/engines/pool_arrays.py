"""Arrays in the memory of a pool: the one place where tests ask a pool of their own for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqarray._engines.pool import HostPool

__all__ = ["BYTE", "FLOAT", "MIB", "ROUNDING", "HostPool", "address_of", "filled", "make_and_drop", "uninitialised"]

MIB = 1 << 20
BYTE = np.dtype(np.uint8)
FLOAT = np.dtype(np.float32)

#: Blocks are somewhat larger than asked for, so that near sizes share them.
ROUNDING = 256 << 10

Array = np.ndarray[Any, Any]


def address_of(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def uninitialised(pool: HostPool, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Make an array in the memory of a pool, whatever its size."""
    return pool._empty(shape, dtype)


def filled(pool: HostPool, value: int, shape: tuple[int, ...] = (4, 6), dtype: Any = FLOAT) -> Array:
    """Make an array of one value in the memory of a pool."""
    array = uninitialised(pool, shape, np.dtype(dtype))
    array[...] = value
    return array


def make_and_drop(pool: HostPool, *sizes: int) -> None:
    """Have arrays of these sizes in MiB, all at once, and drop them in turn."""
    kept = [uninitialised(pool, (size * MIB,), BYTE) for size in sizes]
    while kept:
        del kept[0]
