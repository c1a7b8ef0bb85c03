"""The limits on what a model may take: bytes of the values of a run, iterations, and seconds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from seqarray._blocks import Block
from seqarray._dtypes import itemsize_of
from seqarray._libraries import Array
from seqarray._sequence import ArraySequence
from seqarray._views import Run, as_column

#: Bytes that an element of a sequence counts besides its values: what NumPy takes for an array without any.
ELEMENT_NBYTES = 112


class Limits(NamedTuple):
    """The limits of a program; None for no limit."""

    max_trip_count: int | None = None
    max_bytes: int | None = None
    max_seconds: float | None = None


class Clock:
    """The time that something may take, from now on."""

    def __init__(self, max_seconds: float | None, operator: str) -> None:
        self._max_seconds = max_seconds
        self._end = None if max_seconds is None else monotonic() + max_seconds
        self._operator = operator

    def check(self) -> None:
        """Raise a ValueError if the time is over."""
        if self._end is not None and monotonic() > self._end:
            raise ValueError(f"{self._operator} goes on after {self._max_seconds} s, which is max_seconds")


class Budget:
    """What a run may take: bytes of all values that are alive, iterations of all loops, and seconds.

    Each value counts once, and views count as copies do.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0
        self._clock = Clock(limits.max_seconds, "run")
        self._n_trips = 0
        #: Slot to the identity of its value.
        self._slots: dict[int, int] = {}
        #: Identity of a value to the number of slots that hold it, and its bytes.
        self._sizes: dict[int, list[int]] = {}
        self._sequences: WeakKeyDictionary[ArraySequence[Any], int] = WeakKeyDictionary()

    def update(self, values: list[Any], slots: Sequence[int]) -> None:
        """Count the current values of some slots instead of their former ones, and look at the time.

        Raises
        ------
        ValueError
            If all values together exceed the limit on bytes, or the time is over.
        """
        self._clock.check()
        limit = self.limits.max_bytes
        if limit is None:
            return
        # All are removed first: a new value may have the identity of a former one that has been freed.
        for slot in slots:
            self._remove(slot)
        for slot in slots:
            value = values[slot]
            if value is not None and slot not in self._slots:
                entry = self._sizes.get(id(value))
                if entry is None:
                    entry = self._sizes[id(value)] = [0, self.size_of(value)]
                    self.held += entry[1]
                entry[0] += 1
                self._slots[slot] = id(value)
        if self.held > limit:
            self._recount(values)
            self.reserve(0)

    def count_trip(self) -> None:
        """Count an iteration; raise a ValueError if those of all loops together exceed the limit, or the time is over.

        Loops are Loop, Scan and SequenceMap, each time they run.
        """
        limit = self.limits.max_trip_count
        if self._n_trips == limit:
            raise ValueError(f"the run goes on after {limit} iterations of all loops, which is max_trip_count")
        self._n_trips += 1
        self._clock.check()

    def reserve(self, nbytes: int) -> None:
        """Raise a ValueError if a further value of this size would exceed the limit on bytes."""
        limit = self.limits.max_bytes
        if limit is not None and self.held + nbytes > limit:
            raise ValueError(f"the values of the program would take {self.held + nbytes} bytes; max_bytes is {limit}")

    def reserve_elements(self, count: int, nbytes: int) -> None:
        """Raise a ValueError if a sequence of so many elements and bytes would exceed the limit on bytes."""
        self.reserve(nbytes + count * ELEMENT_NBYTES)

    def hold(self, nbytes: int) -> int:
        """Count bytes that are in no slot, and return them."""
        self.reserve(nbytes)
        self.held += nbytes
        return nbytes

    def hold_element(self, value: Any) -> int:
        """Count a value that is in no slot but in a list, and return the bytes that it counts."""
        return 0 if self.limits.max_bytes is None else self.hold(ELEMENT_NBYTES + self.size_of(value))

    def release(self, nbytes: int) -> None:
        """Count bytes no longer that `hold` has counted."""
        self.held -= nbytes

    def record_derived(
        self, sequence: ArraySequence[Any], origin: ArraySequence[Any], added: Array | None = None
    ) -> None:
        """Set the size of a sequence from that of the one it was made from, without adding up all elements."""
        if self.limits.max_bytes is not None:
            more = 0 if added is None else ELEMENT_NBYTES + self.size_of(added)
            self._sequences[sequence] = self.size_of(origin) + more

    def size_of(self, value: Any) -> int:
        """Return the bytes that an array or a sequence counts; an upper bound for a sequence that has lost elements."""
        if value is None:
            return 0
        if type(value) is not ArraySequence:
            return counted_nbytes(value)
        size = self._sequences.get(value)
        if size is None:
            elements = sum(map(_block_nbytes, value._blocks))
            size = self._sequences[value] = elements + len(value) * ELEMENT_NBYTES
        return size

    def _remove(self, slot: int) -> None:
        """Stop counting the value of a slot."""
        key = self._slots.pop(slot, None)
        if key is not None:
            entry = self._sizes[key]
            entry[0] -= 1
            if entry[0] == 0:
                self.held -= entry[1]
                del self._sizes[key]

    def _recount(self, values: list[Any]) -> None:
        """Replace the upper bounds of sequences by their sizes."""
        self._sequences.clear()
        for slot, key in self._slots.items():
            value = values[slot]
            if value is None:
                continue  # emptied; the next `update` removes it
            size = self.size_of(value)
            self.held += size - self._sizes[key][1]
            self._sizes[key][1] = size


def counted_items(shape: Sequence[Any]) -> int:
    """Return the items that a shape counts: a length of 0 counts as 1, since results may have no such axis any more.

    Lengths that are not known, as dask has, count as 1 too.
    """
    count = prod(shape)
    if type(count) is int and count > 0:
        return count
    return prod(length if isinstance(length, int) and length > 0 else 1 for length in shape)


def counted_nbytes(array: Array) -> int:
    """Return the bytes that an array counts; for text, those of the strings and of the references to them."""
    count = counted_items(array.shape)
    if _is_text(array):
        return count * 8 + sum(map(sys.getsizeof, array.flat))
    return count * itemsize_of(array.dtype)


def _is_text(array: Array) -> bool:
    """Return whether the items of an array are references to strings."""
    return type(array) is np.ndarray and array.dtype.kind in "OT"


def _block_nbytes(block: Block) -> int:
    """Return the bytes of the values of a block of a sequence; for chunks of one size in constant time."""
    if not isinstance(block, Run) or _is_text(block.base):
        return sum(map(counted_nbytes, block))
    shape, axis, *_ = block.cut
    others = counted_items((*shape[:axis], *shape[axis + 1 :]))
    starts, stops = block.starts, block.stops
    if isinstance(starts, range):
        length = len(starts) * max(1, stops[0] - starts[0]) if starts else 0
    else:
        length = int(np.maximum(as_column(stops) - as_column(starts), 1).sum())
    return length * others * itemsize_of(block.base.dtype)
