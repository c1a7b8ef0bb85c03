"""Ranges of rows that are copied from some arrays into a new one: the geometry, in columns of host integers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: int64, one entry for every range.
Integers = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]


class Segments(NamedTuple):
    """Ranges of rows of one array, and where they go in another.

    The targets rise, and no two ranges of a target overlap.

    Attributes
    ----------
    sources : int64 array
        First row of every range in the source.
    targets : int64 array
        First row of every range in the target.
    lengths : int64 array
        Rows of every range.
    """

    sources: Integers
    targets: Integers
    lengths: Integers

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.lengths.sum())

    def without_empty(self) -> Segments:
        """Return the ranges that have rows."""
        kept = self.lengths > 0
        return self if kept.all() else Segments(*(column[kept] for column in self))

    def part(self, first: int, last: int, begin: int) -> Segments:
        """Return some of the ranges, their targets counted from the row `begin`."""
        which = slice(first, last)
        return Segments(self.sources[which], self.targets[which] - begin, self.lengths[which])

    def cut(self, rows: int) -> Segments:
        """Return the same copies in ranges of at most this many rows."""
        sources, targets, lengths = self
        if lengths.max() <= rows:
            return self
        counts = -(-lengths // rows)
        within = (np.arange(counts.sum()) - np.repeat(offsets_of(counts)[:-1], counts)) * rows
        sources, targets, lengths = (np.repeat(column, counts) for column in self)
        return Segments(sources + within, targets + within, np.minimum(lengths - within, rows))

    def source_rows(self) -> Integers:
        """Return the number of every row that is read."""
        return rows_of(self.sources, self.lengths)

    def target_rows(self) -> Integers:
        """Return the number of every row that is written."""
        return rows_of(self.targets, self.lengths)


def rows_of(starts: Integers, lengths: Integers) -> Integers:
    """Return the numbers of the rows in ranges, one range after the other."""
    ends = lengths.cumsum()
    rows = np.arange(int(ends[-1]) if len(ends) else 0)
    rows += np.repeat(starts - ends + lengths, lengths)
    return rows


def is_tight(starts: Integers, lengths: Integers) -> bool:
    """Return whether every range starts where the one before it ends."""
    return bool((starts[1:] == (starts + lengths)[:-1]).all())


def offsets_of(lengths: Integers) -> Integers:
    """Return 0 and the sums of the lengths so far: one entry more than there are lengths."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
