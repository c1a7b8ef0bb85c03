"""Whether outputs share memory with inputs or constants or hold more than their values, and copies of those that do."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from seqarray._blocks import held_arrays
from seqarray._dtypes import itemsize_of
from seqarray._engines import engine_for
from seqarray._kind import as_array, kind_of
from seqarray._libraries import NUMPY, Array, library_of
from seqarray._operators import sequence_construct
from seqarray._sequence import ArraySequence
from seqarray.onnx._run.budget import Budget

#: For at most this many arrays, comparing each is faster than sorting their addresses.
_FEW_ARRAYS = 16

#: An output may hold so many bytes more than its values, or a 128th of them: large results lie in rounded memory.
_MORE_NBYTES = 4096


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
        self._ranges: tuple[list[int], list[int]] | None = None
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
        # Several threads may get here for the first time; each sees both lists or none.
        ranges = self._ranges
        if ranges is None:
            bounds = sorted(pair for array in self._arrays.values() for pair in library_of(array).memory_of(array))
            # The starts, and the largest end of all ranges up to the one at the same index.
            ranges = [first for first, _ in bounds], list(accumulate((last for _, last in bounds), max))
            self._ranges = ranges
        starts, furthest_stops = ranges
        before = bisect_left(starts, stop)
        return before > 0 and furthest_stops[before - 1] > start


def own(value: Any, tracker: AliasTracker, budget: Budget | None = None) -> Any:
    """Return an output that the caller may write into and keep.

    It is a copy if the value shares memory with something or with itself, or is a small part of what it keeps alive.

    Parameters
    ----------
    value : array, ArraySequence or None
        The output.
    tracker : AliasTracker
        The memory of inputs and constants.
    budget : Budget, optional
        Where the bytes of copies count.
    """
    if value is None:
        return None
    if type(value) is ArraySequence:
        shares = any(tracker.may_alias(array) or _is_shared(array) for array in _arrays_of(value))
        if not shares and not _holds_more(value):
            return value
        if budget is not None:
            budget.hold_element(value)
        return sequence_construct(*value, copy=True)
    if not tracker.may_alias(value) and not _is_shared(value) and not _holds_more(value):
        return value
    if not library_of(value).is_writable:
        return value
    if budget is not None:
        budget.hold_element(value)
    kind = kind_of(as_array(value, operator="run", label="the output"))
    return engine_for(kind, "run").duplicate(value, kind)


def _is_shared(array: Array) -> bool:
    """Return whether an array must not be written into, or several items of it share their memory.

    Broadcast arrays do: those of NumPy are read-only, in those of other libraries one write changes several items.
    """
    if type(array) is np.ndarray:
        if array.base is None:
            return False
        flags = array.flags
        return not flags.writeable or not (flags.c_contiguous or not NUMPY.has_repeated_items(array))
    library = library_of(array)
    if not library.is_writable:
        return False
    try:
        return library.has_repeated_items(array)
    except AttributeError:  # Without strides, shared memory cannot be detected.
        return True


def _holds_more(value: Any) -> bool:
    """Return whether a value keeps much more memory alive than its own items take, as a small view of an array does."""
    if type(value) is ArraySequence:
        library = value._kind.library
        if library is None or not library.is_writable or all(map(_owns_its_memory, value._blocks)):
            return False
        held, needed = value.nbytes_held, value.nbytes
    else:
        library = library_of(value)
        if not library.is_writable or _owns_its_memory((value,)):
            return False
        held, needed = library.held_memory(value)[1], prod(value.shape) * itemsize_of(value.dtype)
    return held > needed + max(_MORE_NBYTES, needed >> 7)


def _owns_its_memory(block: Any) -> bool:
    """Return whether a block of a sequence consists of NumPy arrays that are views of nothing."""
    return type(block) is tuple and all(type(array) is np.ndarray and array.base is None for array in block)


def _arrays_of(value: Any) -> Iterator[Array]:
    """Yield the arrays of a value; for chunks of one base, the base."""
    if type(value) is ArraySequence:
        yield from held_arrays(value._blocks)
    elif value is not None:
        yield value
