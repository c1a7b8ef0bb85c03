"""Where a sequence keeps its elements.

The elements of a sequence lie in an immutable tuple of blocks.  A block is a tuple of at most `BLOCK_LENGTH` arrays, or
a `Run`: the chunks that one split made, whose views are made when they are asked for.  A change rebuilds one block and
the outer tuple and shares the rest, so every earlier version stays valid without a lock, and an element dies with the
last version that shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from math import prod
from typing import Any, NamedTuple

import numpy as np

from seqarray.arguments import Column, Shape
from seqarray.namespaces import Array, is_compiling, namespace_of

#: An insert at the end copies the last block and the tuple of blocks.  Shorter blocks make 8 000 of them cheaper,
#: longer ones 64 000; measured, this is within a twentieth of the best for both.
BLOCK_LENGTH = 160


class Cut(NamedTuple):
    """How the chunks of a run lie in its base."""

    #: Shape of the array that was split.
    shape: Shape
    #: The axis along which it was split.
    axis: int
    #: The axis is gone from the chunks, each of which is one long (keepdims=0).
    dropped: bool = False
    #: The base is 1-D and the chunks, each row-major, follow one another in it.  Otherwise the base has `shape`.
    packed: bool = False

    @property
    def step(self) -> int:
        """Items of a packed base for every step along the axis."""
        return prod(self.shape[: self.axis]) * prod(self.shape[self.axis + 1 :])

    def chunk_shape(self, size: int) -> Shape:
        before, after = tuple(self.shape[: self.axis]), tuple(self.shape[self.axis + 1 :])
        return before + after if self.dropped else (*before, size, *after)


class Run:
    """Chunks of one array along one axis.

    `starts` and `stops` bound them on that axis.  Both are ranges for chunks of equal size, so that a run of any length
    costs the same; the last stop may then lie beyond the axis.
    """

    __slots__ = ("base", "cut", "starts", "stops")

    def __init__(self, base: Array, cut: Cut, starts: Column, stops: Column) -> None:
        self.base = base
        self.cut = cut
        self.starts = starts
        self.stops = stops

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Array:
        start, stop = self._bounds(index)
        _, axis, dropped, packed = self.cut
        if packed:
            step = self.cut.step
            return _reshaped(self.base[start * step : stop * step], self.cut.chunk_shape(stop - start))
        # array-api-strict takes an index for every axis, or an ellipsis.
        return self.base[(slice(None),) * axis + (start if dropped else slice(start, stop), ...)]

    def __iter__(self) -> Iterator[Array]:
        if type(self.base) is np.ndarray:
            stacked = self._stacked()
            if stacked is not None:
                return iter(stacked)
        return map(self.__getitem__, range(len(self)))

    def _stacked(self) -> Array | None:
        """NumPy chunks of equal shape as one array of them, which gives them out faster; None where that is a copy."""
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
            # Out of an array of rank 1, NumPy gives scalars.
            return part if len(shape) > 1 else None
        if packed:
            step = self.cut.step
            return base[first * step : stop * step].reshape((count, *self.cut.chunk_shape(size)))
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return Run, (self.base, self.cut, self.starts, self.stops)

    def _bounds(self, index: int) -> tuple[int, int]:
        return int(self.starts[index]), min(int(self.stops[index]), self.cut.shape[self.cut.axis])

    def _between(self, start: int, stop: int) -> Array:
        return self.base[(slice(None),) * self.cut.axis + (slice(start, stop), ...)]

    def size_of(self, index: int) -> int:
        """The length of a chunk along the axis; no view is made."""
        start, stop = self._bounds(index)
        return stop - start

    def part(self, which: slice) -> Run:
        """Some of the chunks; no view is made."""
        return Run(self.base, self.cut, self.starts[which], self.stops[which])

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the chunks; no view is made."""
        bounds = map(self._bounds, range(len(self)))
        return [self.cut.chunk_shape(stop - start) for start, stop in bounds]

    def continues(self, other: Run) -> bool:
        """Whether `other` holds chunks that the same split made."""
        return self.base is other.base and self.cut == other.cut

    def is_gapless(self) -> bool:
        """Whether every chunk starts where the one before it stops."""
        starts, stops = self.starts, self.stops
        if isinstance(starts, range):
            return len(starts) == 1 or starts.step == stops[0] - starts[0]
        if isinstance(starts, list):
            return bool(starts[1:] == stops[:-1])
        return bool((starts[1:] == stops[:-1]).all())

    def rejoined(self) -> Array | None:
        """The chunks joined again along the axis they came from, as a view; None where that takes a copy."""
        if self.cut.packed or len(self) == 0 or not self.is_gapless():
            return None
        start, stop = self._bounds(0)[0], self._bounds(len(self) - 1)[1]
        if start == 0 and stop == self.cut.shape[self.cut.axis]:
            return self.base
        return self._between(start, stop)

    def trimmed(self) -> Run | None:
        """The same chunks around a base that holds nothing else; None where that takes a copy."""
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
    """Arrays of any shapes that follow one another, each row-major, in one 1-D base."""

    __slots__ = ("base", "chunk_shapes", "starts")

    def __init__(self, base: Array, starts: Column, chunk_shapes: Sequence[Shape]) -> None:
        self.base = base
        self.starts = starts
        self.chunk_shapes = chunk_shapes

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Array:
        start, shape = int(self.starts[index]), self.chunk_shapes[index]
        return _reshaped(self.base[start : start + prod(shape)], shape)

    def __iter__(self) -> Iterator[Array]:
        return map(self.__getitem__, range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedRun, (self.base, self.starts, self.chunk_shapes)

    def part(self, which: slice) -> PackedRun:
        """Some of the arrays; no view is made."""
        return PackedRun(self.base, self.starts[which], self.chunk_shapes[which])

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the arrays; no view is made."""
        return list(self.chunk_shapes)

    def trimmed(self) -> PackedRun | None:
        """The same arrays around a base that holds nothing else; None where that takes a copy."""
        counts = list(map(prod, self.chunk_shapes))
        stops = [int(start) + count for start, count in zip(self.starts, counts, strict=True)]
        if len(self) == 0 or any(int(start) != stop for start, stop in zip(self.starts[1:], stops, strict=False)):
            return None
        start = int(self.starts[0])
        return PackedRun(self.base[start : stops[-1]], _moved(self.starts, -start), self.chunk_shapes)


def _reshaped(array: Array, shape: Shape) -> Array:
    try:
        return array.reshape(shape)
    except AttributeError:  # the standard has a function only
        return namespace_of(array).reshape(array, shape)


AnyRun = Run | PackedRun
Block = tuple[Array, ...] | AnyRun
Blocks = tuple[Block, ...]


def _moved(column: Column, by: int) -> Column:
    if isinstance(column, range):
        return range(column.start + by, column.stop + by, column.step)
    if isinstance(column, list):
        return [value + by for value in column]
    return column + by


def from_arrays(arrays: Sequence[Array]) -> Blocks:
    """Blocks that hold these arrays."""
    if len(arrays) <= BLOCK_LENGTH:
        return (tuple(arrays),) if arrays else ()
    return tuple(tuple(arrays[i : i + BLOCK_LENGTH]) for i in range(0, len(arrays), BLOCK_LENGTH))


def to_arrays(blocks: Blocks) -> Sequence[Array]:
    """All elements; the views of runs are made."""
    if len(blocks) == 1 and type(blocks[0]) is tuple:
        return blocks[0]
    return list(chain.from_iterable(blocks))


def trimmed(blocks: Blocks) -> Blocks:
    """Blocks of the same elements whose runs hold nothing else; a run with gaps becomes its chunks."""
    return tuple(chain.from_iterable(map(_trimmed, blocks)))


def _trimmed(block: Block) -> Blocks:
    if isinstance(block, tuple):
        return (block,)
    run = block.trimmed()
    return from_arrays(tuple(block)) if run is None else (run,)


def held_arrays(blocks: Blocks) -> Iterator[Array]:
    """The arrays that blocks hold: of chunks of one array, just that one."""
    for block in blocks:
        if isinstance(block, tuple):
            yield from block
        else:
            yield block.base


def to_pieces(blocks: Blocks, axis: int, stack: bool) -> Sequence[Array]:
    """Arrays that, joined along an axis, give what all elements give: neighbours that one split made are one piece."""
    if stack or all(isinstance(block, tuple) for block in blocks):
        return to_arrays(blocks)
    return list(chain.from_iterable(as_one_piece(block, axis) for block in blocks))


def as_one_piece(block: Block, axis: int) -> Block:
    """What, joined along an axis, gives the same as a block: the view that its chunks are of one array, if they are."""
    if isinstance(block, Run) and block.cut.axis == axis and not block.cut.dropped:
        part = block.rejoined()
        if part is not None:
            return (part,)
    return block


def shapes_of(blocks: Blocks) -> list[Shape]:
    """The shapes of all elements; no view is made."""
    shapes: list[Shape] = []
    for block in blocks:
        shapes += [tuple(array.shape) for array in block] if isinstance(block, tuple) else block.shapes
    return shapes


def first_shape(blocks: Blocks) -> Shape:
    """The shape of the first element; no view is made."""
    block = blocks[0]
    return tuple(block[0].shape) if isinstance(block, tuple) else block.part(slice(1)).shapes[0]


def ends_of(blocks: Blocks) -> list[int]:
    """How many elements there are up to the end of each block."""
    return list(accumulate(map(len, blocks)))


def find(ends: Sequence[int], blocks: Blocks, index: int) -> tuple[int, int]:
    """The block that holds the element at `index`, and the place in it."""
    # As bisect_right does it, into which torch.compile cannot look.
    number, beyond = 0, len(ends)
    while number < beyond:
        middle = (number + beyond) // 2
        if index < ends[middle]:
            beyond = middle
        else:
            number = middle + 1
    return number, index - (ends[number] - len(blocks[number]))


def append(blocks: Blocks, array: Array) -> Blocks:
    """The blocks with one more element at the end."""
    if blocks:
        last = blocks[-1]
        if type(last) is tuple and len(last) < BLOCK_LENGTH:
            return blocks[:-1] + (last + (array,),)
    return blocks + ((array,),)


def insert(blocks: Blocks, ends: Sequence[int], index: int, array: Array) -> Blocks:
    """The blocks with one more element before the one at `index`, which exists."""
    number, place = find(ends, blocks, index)
    block = blocks[number]
    if type(block) is tuple:
        grown = (*block[:place], array, *block[place:])
        half = len(grown) // 2
        changed: Blocks = (grown,) if len(grown) <= BLOCK_LENGTH else (grown[:half], grown[half:])
    elif place == 0:
        changed = (*append(blocks[:number], array), block)
        return _tidied((*changed, *blocks[number + 1 :]), ends[-1])
    else:
        assert not isinstance(block, tuple)
        changed = (block.part(slice(place)), (array,), block.part(slice(place, None)))
    return _tidied((*blocks[:number], *changed, *blocks[number + 1 :]), ends[-1])


def erase(blocks: Blocks, ends: Sequence[int], index: int) -> Blocks:
    """The blocks without the element at `index`."""
    number, place = find(ends, blocks, index)
    block = blocks[number]
    if isinstance(block, tuple):
        kept: Iterable[Block] = ((*block[:place], *block[place + 1 :]),)
    else:
        kept = (block.part(slice(place)), block.part(slice(place + 1, None)))
    return _tidied((*blocks[:number], *filter(len, kept), *blocks[number + 1 :]), ends[-1])


def erase_first(blocks: Blocks) -> Blocks:
    """The blocks without their first element."""
    rest = _part(blocks[0], slice(1, None))
    return (rest,) + blocks[1:] if len(rest) else blocks[1:]


def erase_last(blocks: Blocks) -> Blocks:
    """The blocks without their last element."""
    rest = _part(blocks[-1], slice(-1))
    return blocks[:-1] + (rest,) if len(rest) else blocks[:-1]


def select(blocks: Blocks, indices: range) -> Blocks:
    """The blocks of the elements at `indices`; no view is made."""
    if not indices:
        return ()
    if indices.step < 0:
        forwards = select(blocks, indices[::-1])
        return tuple(_part(block, slice(None, None, -1)) for block in reversed(forwards))
    chosen: list[Block] = []
    end = 0
    for block in blocks:
        begin, end = end, end + len(block)
        skipped = max(0, -(-(begin - indices.start) // indices.step))
        first = indices.start + skipped * indices.step
        if first < min(end, indices.stop):
            chosen.append(_part(block, slice(first - begin, min(end, indices.stop) - begin, indices.step)))
    return tuple(chosen)


def _part(block: Block, which: slice) -> Block:
    return block[which] if isinstance(block, tuple) else block.part(which)


def _tidied(blocks: Blocks, length: int) -> Blocks:
    """The same elements in fewer blocks, once there are many for their number.

    Chunks of one split become one run again, without a view; other small neighbours become one tuple.  The threshold
    lies far above what is left after tidying, so that the work is spread over the changes that made it necessary.
    """
    if len(blocks) <= 32 + length // 32 or is_compiling():
        return blocks
    splits: list[list[Block]] = []
    for block in blocks:
        if splits and isinstance(block, Run) and isinstance(splits[-1][0], Run) and splits[-1][0].continues(block):
            splits[-1].append(block)
        else:
            splits.append([block])
    tidied: list[list[Block]] = []
    room = 0
    for block in (_one_run(runs) if len(runs) > 1 else runs[0] for runs in splits):
        if len(block) <= room:
            tidied[-1].append(block)
        else:
            tidied.append([block])
            room = BLOCK_LENGTH
        room -= len(block)
    return tuple(tuple(chain.from_iterable(group)) if len(group) > 1 else group[0] for group in tidied)


def as_column(column: Column) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Host integers as an int64 array."""
    if isinstance(column, range):
        return np.arange(column.start, column.stop, column.step)
    return np.asarray(column, dtype=np.int64)


def _one_run(runs: Sequence[Any]) -> Run:
    def column(name: str) -> Column:
        return np.concatenate([as_column(getattr(run, name)) for run in runs])

    return Run(runs[0].base, runs[0].cut, column("starts"), column("stops"))
