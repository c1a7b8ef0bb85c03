"""Whether outputs share memory with inputs or constants, and copies of those that do."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from seqarray._blocks import held_arrays
from seqarray._engines import engine_for
from seqarray._kind import as_array, kind_of
from seqarray._libraries import Array, library_of
from seqarray._operators import sequence_construct
from seqarray._sequence import ArraySequence

#: For at most this many arrays, comparing each is faster than sorting their addresses.
_FEW_ARRAYS = 16


class AliasTracker:
    """The memory of a set of values: the constants of a program, or the inputs of an execution and these constants."""

    def __init__(self, values: Iterable[Any], constants: AliasTracker | None = None) -> None:
        # The arrays are kept alive, so that no new array gets the identity of one of them.
        self._arrays: dict[int, Array] = {}
        for value in values:
            if type(value) is np.ndarray:
                self._arrays[id(value)] = value
            else:
                self._arrays |= {id(array): array for array in _arrays_of(value)}
        self._starts: list[int] | None = None
        self._constants = constants

    def may_alias(self, array: Array) -> bool:
        """Return whether an array may share memory with one of the values, as `np.may_share_memory` does."""
        if id(array) in self._arrays or (self._constants is not None and self._constants.may_alias(array)):
            return True
        if type(array) is np.ndarray:
            # An array that owns its memory is a view of no other.
            if array.base is None:
                return False
            if len(self._arrays) <= _FEW_ARRAYS:
                tracked = self._arrays.values()
                return any(type(other) is not np.ndarray or np.may_share_memory(array, other) for other in tracked)
        return any(self._overlaps(start, stop) for start, stop in library_of(array).memory_of(array))

    def _overlaps(self, start: int, stop: int) -> bool:
        """Return whether a range of addresses overlaps the memory of one of the values."""
        if self._starts is None:
            bounds = sorted(pair for array in self._arrays.values() for pair in library_of(array).memory_of(array))
            self._starts = [first for first, _ in bounds]
            #: The largest end of all ranges up to the one at the same index.
            self._furthest_stops = list(accumulate((last for _, last in bounds), max))
        before = bisect_left(self._starts, stop)
        return before > 0 and self._furthest_stops[before - 1] > start


def copy_if_aliased(value: Any, tracker: AliasTracker) -> Any:
    """Return an output, copied if it may share memory with an input or a constant."""
    if value is None:
        return None
    if type(value) is ArraySequence:
        aliased = any(map(tracker.may_alias, _arrays_of(value)))
        return sequence_construct(*value, copy=True) if aliased else value
    if not tracker.may_alias(value):
        return value
    if not library_of(value).is_writable:
        return value
    kind = kind_of(as_array(value, operator="run", label="the output"))
    return engine_for(kind, "run").duplicate(value, kind)


def _arrays_of(value: Any) -> Iterator[Array]:
    """Yield the arrays of a value; for chunks of one base, the base."""
    if type(value) is ArraySequence:
        yield from held_arrays(value._blocks)
    elif value is not None:
        yield value
