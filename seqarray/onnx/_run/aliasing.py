"""Whether a result shares memory with what a program was given."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from seqarray._blocks import held_arrays
from seqarray._dtypes import as_array, kind_of
from seqarray._engines import engine_for
from seqarray._libraries import Array, library_of, namespace_of
from seqarray._operators import sequence_construct
from seqarray._sequence import ArraySequence

#: Libraries whose arrays cannot be written into.
_IMMUTABLE = ("jax", "dask")

#: Of this many arrays, a look at each is faster than putting them in order.
FEW = 16


class Memory:
    """The memory of values that a program was given: of its constants, or of the inputs of a run beside them."""

    def __init__(self, values: Iterable[Any], constants: Memory | None = None) -> None:
        # The arrays are held, so that no other gets the identity of one of them.
        self._arrays: dict[int, Array] = {}
        for value in values:
            if type(value) is np.ndarray:
                self._arrays[id(value)] = value
            else:
                self._arrays |= {id(array): array for array in _arrays(value)}
        self._starts: list[int] | None = None
        self._constants = constants

    def owns(self, array: Array) -> bool:
        """Whether an array shares memory with what was given, or might."""
        if id(array) in self._arrays or (self._constants is not None and self._constants.owns(array)):
            return True
        if type(array) is np.ndarray:
            # An array with memory of its own is a view of no other.
            if array.base is None:
                return False
            if len(self._arrays) <= FEW:
                given = self._arrays.values()
                return any(type(other) is not np.ndarray or np.may_share_memory(array, other) for other in given)
        return any(self._overlaps(low, high) for low, high in _memory(array))

    def _overlaps(self, low: int, high: int) -> bool:
        """Whether an interval of addresses meets one of those that were given."""
        if self._starts is None:
            intervals = sorted(interval for given in self._arrays.values() for interval in _memory(given))
            self._starts = [start for start, _ in intervals]
            #: How far any of the intervals up to here reaches.
            self._reach = list(accumulate((stop for _, stop in intervals), max))
        before = bisect_left(self._starts, high)
        return before > 0 and self._reach[before - 1] > low


def detached(value: Any, given: Memory) -> Any:
    """An output in memory of its own, if it shares some with an input or a constant."""
    if value is None:
        return None
    if type(value) is ArraySequence:
        return sequence_construct(*value, copy=True) if any(map(given.owns, _arrays(value))) else value
    if not given.owns(value):
        return value
    kind = kind_of(as_array(value, operator="run", label="the output"))
    return value if kind.library in _IMMUTABLE else engine_for(kind, "run").duplicate(value, kind)


def _arrays(value: Any) -> Iterator[Array]:
    """The arrays in a value; of those that are chunks of one, just that one."""
    if type(value) is ArraySequence:
        yield from held_arrays(value._blocks)
    elif value is not None:
        yield value


def _memory(array: Array) -> Iterator[tuple[int, int]]:
    """The addresses between which the values of an array lie, or the memory that they are part of."""
    library = library_of(namespace_of(array))
    if library == "torch":
        storage = array.untyped_storage()
        yield storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    elif library == "cupy":
        memory = array.data.mem
        yield memory.ptr, memory.ptr + memory.size
    elif library not in _IMMUTABLE:
        yield np.lib.array_utils.byte_bounds(array if isinstance(array, np.ndarray) else np.from_dlpack(array))
