"""Chunks of one array, whose views are created on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np

from seqarray._arguments import LONG_COLUMN, Column, Shape, Value
from seqarray._libraries import Array, is_compiling, library_of


def fixed(column: Column) -> Column:
    """Return a column that can be indexed while torch.compile traces.

    Of a range that a program is given it makes one of symbols, which cannot be; of a new one it asks for the values.
    """
    return range(column.start, column.stop, column.step) if type(column) is range and is_compiling() else column


class Cut(NamedTuple):
    """The layout of the chunks of a run in its base."""

    #: Shape of the array that was split.
    shape: Shape
    #: The axis along which it was split.
    axis: int
    #: The chunks have length 1 along the axis and have lost it (keepdims=0).
    dropped: bool = False
    #: The base is 1-D and contains the chunks one after the other, each row-major.  Otherwise the base has `shape`.
    packed: bool = False

    @property
    def step(self) -> int:
        """The number of items of a packed base for every step along the axis."""
        return prod(self.shape[: self.axis]) * prod(self.shape[self.axis + 1 :])

    def chunk_shape(self, size: int) -> Shape:
        before, after = tuple(self.shape[: self.axis]), tuple(self.shape[self.axis + 1 :])
        return before + after if self.dropped else (*before, size, *after)


class Run:
    """Chunks of one array along one axis.

    `starts` and `stops` are their bounds on that axis.  For chunks of equal size both are ranges, so that the cost of a
    run does not depend on its length; the last stop may then exceed the length of the axis.
    """

    __slots__ = ("base", "cut", "starts", "stops")

    def __init__(self, base: Array, cut: Cut, starts: Column, stops: Column) -> None:
        self.base = base
        self.cut = cut
        self.starts = starts
        self.stops = stops

    def __len__(self) -> int:
        return len(fixed(self.starts))

    def __getitem__(self, index: int) -> Array:
        start, stop = self._bounds(index)
        _, axis, dropped, packed = self.cut
        if packed:
            step = self.cut.step
            return reshaped(self.base[start * step : stop * step], self.cut.chunk_shape(stop - start))
        # array-api-strict takes an index for every axis, or an ellipsis.
        return self.base[(slice(None),) * axis + (start if dropped else slice(start, stop), ...)]

    def __iter__(self) -> Iterator[Array]:
        if type(self.base) is np.ndarray:
            stacked = self._stacked()
            return self._cut_up() if stacked is None else iter(stacked)
        elif len(self) > 1:
            library = library_of(self.base)
            part = self.rejoined() if library.can_slice_at_once(self.base) else None
            if part is not None:
                return iter(library.slices(part, self.cut.axis, self._sizes(), self.cut.dropped))
        return map(self.__getitem__, range(len(self)))

    def _cut_up(self) -> Iterator[Array]:
        """Return an iterator over NumPy chunks, whose bounds are read from the columns at once."""
        shape, axis, dropped, packed = self.cut
        if dropped:
            return map(self.__getitem__, range(len(self)))
        base, starts, sizes = self.base, as_column(self.starts).tolist(), self._sizes()
        if axis == 0:
            rows = base.reshape(shape) if packed else base
            return (rows[start : start + size] for start, size in zip(starts, sizes, strict=True))
        if packed:
            step, shapes = self.cut.step, self.shapes
            starts = [start * step for start in starts]
            return _unpacked(base, starts, shapes)
        before = (slice(None),) * axis
        return (base[(*before, slice(start, start + size))] for start, size in zip(starts, sizes, strict=True))

    def _sizes(self) -> list[int]:
        if isinstance(self.starts, range):
            return self._each(self.size_of)
        if isinstance(self.stops, list):
            return [stop - start for start, stop in zip(self.starts, self.stops, strict=True)]
        return self.lengths(self.cut.axis).tolist() if not self.cut.dropped else [1] * len(self)

    def _each(self, value_of: Callable[[int], Value]) -> list[Value]:
        """Return a value for each of equal chunks, among which only the first or the last may differ."""
        count = len(self)
        values = [value_of(min(1, count - 1))] * count
        values[0], values[-1] = value_of(0), value_of(count - 1)
        return values

    def _stacked(self) -> Array | None:
        """Return NumPy chunks of equal shape as one array, whose iteration is faster; None if that takes a copy."""
        starts = self.starts
        if type(starts) is not range or not starts:
            return None
        shape, axis, dropped, packed = self.cut
        base, first, count = self.base, starts.start, len(starts)
        size = self.stops[0] - first
        stop = first + count * size
        if stop > shape[axis] or (count > 1 and starts.step != size):
            return None
        if axis == 0 and base.flags.c_contiguous:
            part = base if stop - first == shape[0] else base[first:stop]
            if not dropped:
                return part.reshape((count, size) + shape[1:])
            # An iteration over an array of rank 1 yields scalars.
            return part if len(shape) > 1 else None
        if packed:
            step = self.cut.step
            return base[first * step : stop * step].reshape((count, *self.cut.chunk_shape(size)))
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return Run, (self.base, self.cut, self.starts, self.stops)

    def _bounds(self, index: int) -> tuple[int, int]:
        starts, stops = self.starts, self.stops
        if isinstance(starts, range) and isinstance(stops, range):  # not indexed, see `fixed`
            start, stop = starts.start + index * starts.step, stops.start + index * stops.step
            return start, min(stop, self.cut.shape[self.cut.axis])
        start, stop = starts[index], stops[index]
        if isinstance(stops, list):  # which does not exceed the length, and may hold symbolic integers
            return start, stop
        return int(start), min(int(stop), self.cut.shape[self.cut.axis])

    def _between(self, start: int, stop: int) -> Array:
        return self.base[(slice(None),) * self.cut.axis + (slice(start, stop), ...)]

    def size_of(self, index: int) -> int:
        """Return the length of a chunk along the axis, without creating a view."""
        start, stop = self._bounds(index)
        return stop - start

    def around(self, base: Array) -> Run:
        """Return the same chunks of another array."""
        return Run(base, self.cut, self.starts, self.stops)

    def part(self, which: slice) -> Run:
        """Return some of the chunks, without creating a view."""
        return Run(self.base, self.cut, fixed(self.starts)[which], fixed(self.stops)[which])

    def taken(self, places: Sequence[int]) -> Run:
        """Return the chunks at some places, in any order, without creating a view."""
        bounds = [self._bounds(place) for place in places]
        starts, stops = zip(*bounds, strict=True)
        return Run(self.base, self.cut, _as_short_column(starts), _as_short_column(stops))

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the chunks; reading them creates no view."""
        if isinstance(self.starts, range) or self.cut.dropped:
            return self._each(lambda index: self.cut.chunk_shape(self.size_of(index)))
        shape, axis = self.cut.shape, self.cut.axis
        before, after = tuple(shape[:axis]), tuple(shape[axis + 1 :])
        return [(*before, size, *after) for size in self._sizes()]

    def sizes(self, axis: int) -> list[int]:
        """Return the lengths of the chunks along one of their axes, counted from the front."""
        if axis == self.cut.axis and not self.cut.dropped:
            return self._sizes()
        return [self.first_shape[axis]] * len(self)

    @property
    def first_shape(self) -> Shape:
        """The shape of the first chunk; reading it creates no view."""
        return self.cut.chunk_shape(self.size_of(0))

    def settled(self) -> tuple[Any, ...]:
        """Return blocks of the same chunks, for which the base stands in whatever has been done to them."""
        return (self,)

    def continues(self, other: Run) -> bool:
        """Return whether `other` contains chunks of the same split."""
        return self.base is other.base and self.cut == other.cut

    def is_gapless(self) -> bool:
        """Return whether every chunk starts at the stop of the one before it."""
        starts, stops = fixed(self.starts), fixed(self.stops)
        if isinstance(starts, range):
            return len(starts) == 1 or starts.step == stops[0] - starts[0]
        if isinstance(starts, list):
            return bool(starts[1:] == stops[:-1])
        return bool((starts[1:] == stops[:-1]).all())

    def rejoined(self) -> Array | None:
        """Return the chunks joined along the axis of the split, as a view; None if that takes a copy."""
        if self.cut.packed or len(self) == 0 or not self.is_gapless():
            return None
        start, stop = self._bounds(0)[0], self._bounds(len(self) - 1)[1]
        if start == 0 and stop == self.cut.shape[self.cut.axis]:
            return self.base
        return self._between(start, stop)

    def lengths(self, axis: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the lengths of the chunks along one of their axes, as an array."""
        if axis != self.cut.axis or self.cut.dropped:
            return np.full(len(self), self.first_shape[axis])
        return np.minimum(as_column(self.stops), self.cut.shape[axis]) - as_column(self.starts)

    def offsets(self) -> np.ndarray[Any, np.dtype[np.int64]] | None:
        """Return the bounds of the chunks joined along the axis of the split, from 0 on; None if that takes a sum."""
        if len(self) == 0 or self.cut.dropped or not self.is_gapless():
            return None
        starts = as_column(self.starts)
        return np.append(starts, self._bounds(len(self) - 1)[1]) - starts[0]

    @property
    def size(self) -> int:
        """The number of items of all chunks."""
        return sum(self._sizes()) * self.cut.step

    def trimmed(self) -> Run | None:
        """Return the same chunks of a base without other items; None if that takes a copy."""
        if len(self) == 0 or not self.is_gapless():
            return None
        start, stop = self._bounds(0)[0], self._bounds(len(self) - 1)[1]
        shape, axis, dropped, packed = self.cut
        if packed:
            step = self.cut.step
            base = self.base[start * step : stop * step]
        else:
            base = self._between(start, stop)
        cut = Cut((*shape[:axis], stop - start, *shape[axis + 1 :]), axis, dropped, packed)
        return Run(base, cut, _moved(self.starts, -start), _moved(self.stops, -start))


class PackedRun:
    """Arrays of any shapes, stored one after the other, each row-major, in one 1-D base.

    Parts of a run share its columns, and differ in which of the places they contain.
    """

    __slots__ = ("_chunk_shapes", "_places", "_starts", "base")

    def __init__(self, base: Array, starts: Column, chunk_shapes: Sequence[Shape], places: range | None = None) -> None:
        self.base = base
        self._starts = starts
        self._chunk_shapes = chunk_shapes
        self._places = range(len(starts)) if places is None else places

    @classmethod
    def of_shapes(cls, base: Array, chunk_shapes: Sequence[Shape]) -> PackedRun:
        """Return arrays of these shapes, the first at the start of the base."""
        counts = [0, *map(prod, chunk_shapes)][: len(chunk_shapes)]
        starts = as_column(counts).cumsum() if len(counts) > LONG_COLUMN else list(accumulate(counts))
        return cls(base, starts, chunk_shapes)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Array:
        place = self._places[index]
        start, shape = int(self._starts[place]), self._chunk_shapes[place]
        return reshaped(self.base[start : start + prod(shape)], shape)

    def __iter__(self) -> Iterator[Array]:
        base = self.base
        if type(base) is not np.ndarray:
            return map(self.__getitem__, range(len(self)))
        return _unpacked(base, as_column(self.starts).tolist(), self.shapes)

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedRun, (self.base, self.starts, self.shapes)

    @property
    def starts(self) -> Column:
        """The places in the base at which the arrays start."""
        return at_places(self._starts, self._places)

    def around(self, base: Array) -> PackedRun:
        """Return the same chunks of another array."""
        return PackedRun(base, self._starts, self._chunk_shapes, self._places)

    def part(self, which: slice) -> PackedRun:
        """Return some of the arrays, without creating a view or copying a column."""
        return PackedRun(self.base, self._starts, self._chunk_shapes, self._places[which])

    def taken(self, places: Sequence[int]) -> PackedRun:
        """Return the arrays at some places, in any order, without creating a view."""
        inside = [self._places[place] for place in places]
        starts = _as_short_column([int(self._starts[place]) for place in inside])
        return PackedRun(self.base, starts, [self._chunk_shapes[place] for place in inside])

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the arrays; reading them creates no view."""
        return list(at_places(self._chunk_shapes, self._places))

    @property
    def first_shape(self) -> Shape:
        """The shape of the first array; reading it creates no view."""
        return self._chunk_shapes[self._places[0]]

    @property
    def size(self) -> int:
        """The number of items of all arrays."""
        return sum(map(prod, self.shapes))

    def rejoined(self, axis: int) -> Array | None:
        """Return the arrays, which can be joined along this axis, so joined, as a view; None if that takes a copy."""
        shapes = self.shapes
        first = shapes[0]
        run = self.trimmed()
        if run is None or prod(first[:axis]) != 1:
            return None
        total = sum(shape[axis] for shape in shapes)
        return reshaped(run.base, (*first[:axis], total, *first[axis + 1 :]))

    def lengths(self, axis: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the lengths of the arrays along an axis that all of them have."""
        return np.asarray([shape[axis] for shape in self.shapes], dtype=np.int64)

    def trimmed(self) -> PackedRun | None:
        """Return the same arrays in a base without other items; None if that takes a copy."""
        if len(self) == 0:
            return None
        shapes, starts = self.shapes, as_column(self.starts)
        stops = starts + as_column(list(map(prod, shapes)))
        if (starts[1:] != stops[:-1]).any():
            return None
        start, stop = int(starts[0]), int(stops[-1])
        return PackedRun(self.base[start:stop], _moved(self.starts, -start), shapes)


def _unpacked(base: Array, starts: Sequence[int], shapes: Sequence[Shape]) -> Iterator[Array]:
    """Return an iterator over NumPy arrays of these shapes that lie in a base."""
    return (base[start : start + prod(shape)].reshape(shape) for start, shape in zip(starts, shapes, strict=True))


def at_places(column: Column, places: range) -> Column:
    """Return the items of a column, or of a list, at some places; itself if these are all."""
    column, places = fixed(column), fixed(places)
    if len(places) == len(column) and places.step == 1:
        return column
    stop = places.stop if places.stop >= 0 else None
    return column[places.start : stop : places.step]


def reshaped(array: Array, shape: Shape) -> Array:
    """Return an array in another shape."""
    return array.reshape(shape) if type(array) is np.ndarray else library_of(array).reshaped(array, shape)


AnyRun = Run | PackedRun


def _moved(column: Column, by: int) -> Column:
    if isinstance(column, range):
        return range(column.start + by, column.stop + by, column.step)
    if isinstance(column, list):
        return [value + by for value in column]
    return column + by


def _as_short_column(values: Sequence[int]) -> Column:
    """Return host integers in the form of a column: an array if there are many."""
    return as_column(values) if len(values) > LONG_COLUMN else list(values)


def as_column(column: Column) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return host integers as an int64 array."""
    if isinstance(column, range):
        return np.arange(column.start, column.stop, column.step)
    return np.asarray(column, dtype=np.int64)
