"""The limit on the bytes that the values of a run take together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from seqarray._dtypes import itemsize_of
from seqarray._libraries import Array
from seqarray._sequence import ArraySequence


class Budget:
    """The bytes of all values that are alive: each value counts once, and views count as copies do."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        #: Slot to the identity of its value.
        self._slots: dict[int, int] = {}
        #: Identity of a value to the number of slots that hold it, and its bytes.
        self._sizes: dict[int, list[int]] = {}
        self._sequences: WeakKeyDictionary[ArraySequence[Any], int] = WeakKeyDictionary()

    def update(self, values: list[Any], slots: Sequence[int]) -> None:
        """Count the current values of some slots instead of their former ones.

        Raises
        ------
        ValueError
            If all values together exceed the limit.
        """
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
        if self.held > self.limit:
            self._recount(values)
            self.reserve(0)

    def reserve(self, nbytes: int) -> None:
        """Raise a ValueError if a further value of this size would exceed the limit."""
        if self.held + nbytes > self.limit:
            raise ValueError(
                f"the values of the program would take {self.held + nbytes} bytes; max_bytes is {self.limit}"
            )

    def record_derived(
        self, sequence: ArraySequence[Any], origin: ArraySequence[Any], added: Array | None = None
    ) -> None:
        """Set the size of a sequence from that of the one it was made from, without adding up all elements."""
        self._sequences[sequence] = self.size_of(origin) + (0 if added is None else self.size_of(added))

    def size_of(self, value: Any) -> int:
        """Return the bytes of an array or a sequence; an upper bound for a sequence that has lost elements."""
        if value is None:
            return 0
        if type(value) is not ArraySequence:
            return int(prod(value.shape)) * itemsize_of(value.dtype)
        size = self._sequences.get(value)
        if size is None:
            size = self._sequences[value] = value.nbytes
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
