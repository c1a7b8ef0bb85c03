"""The elements of a sequence, as an immutable tuple of blocks.

A block is a tuple of at most `BLOCK_LENGTH` arrays, or a run: the chunks of one array, whose views are created on
demand.  A change rebuilds one block and the outer tuple and shares the rest, so every earlier version stays valid
without a lock, and an element is freed with the last version that contains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import Any

import numpy as np

from seqarray._arguments import Column, Shape, axis_in_range, integer, length_along
from seqarray._libraries import Array, is_compiling
from seqarray._views import AnyRun, Run, as_column

#: The maximum length of a block of arrays.  An insert at the end copies the last block and the tuple of blocks: shorter
#: blocks are better for 8 000 inserts, longer ones for 64 000, and this is within 5 % of the best for both.
BLOCK_LENGTH = 160


Block = tuple[Array, ...] | AnyRun
Blocks = tuple[Block, ...]


def from_arrays(arrays: Sequence[Array]) -> Blocks:
    """Return blocks that hold these arrays."""
    if len(arrays) <= BLOCK_LENGTH:
        return (tuple(arrays),) if arrays else ()
    return tuple(tuple(arrays[i : i + BLOCK_LENGTH]) for i in range(0, len(arrays), BLOCK_LENGTH))


def to_arrays(blocks: Blocks) -> Sequence[Array]:
    """Return all elements; this creates the views of runs."""
    if len(blocks) == 1 and type(blocks[0]) is tuple:
        return blocks[0]
    return list(chain.from_iterable(blocks))


def trimmed(blocks: Blocks) -> Blocks:
    """Return blocks of the same elements whose runs hold nothing else; a run with gaps becomes its chunks."""
    return tuple(chain.from_iterable(map(_trimmed, blocks)))


def _trimmed(block: Block) -> Blocks:
    if isinstance(block, tuple):
        return (block,)
    run = block.trimmed()
    return from_arrays(tuple(block)) if run is None else (run,)


def settled(blocks: Blocks) -> Blocks:
    """Return blocks of the same elements, of which the arrays that they hold tell everything."""
    if not any(isinstance(block, Run) for block in blocks):
        return blocks
    return tuple(chain.from_iterable(block.settled() if isinstance(block, Run) else (block,) for block in blocks))


def held_arrays(blocks: Blocks) -> Iterator[Array]:
    """Yield the arrays that blocks hold; of a run, its base."""
    for block in blocks:
        if isinstance(block, tuple):
            yield from block
        else:
            yield block.base


def to_pieces(blocks: Blocks, axis: int, stack: bool) -> Sequence[Array]:
    """Return arrays whose join along an axis is that of all elements; a run without gaps is one of them."""
    if stack or all(isinstance(block, tuple) for block in blocks):
        return to_arrays(blocks)
    return list(chain.from_iterable(as_one_piece(block, axis) for block in blocks))


def as_one_piece(block: Block, axis: int) -> Block:
    """Return the view that the chunks of a run form along its own axis, as one piece; or else the block itself."""
    # A program that torch.compile traces would be one for the lengths at which the chunks adjoin.
    if isinstance(block, Run) and block.cut.axis == axis and not block.cut.dropped and not is_compiling():
        part = block.rejoined()
        if part is not None:
            return (part,)
    return block


def shapes_of(blocks: Blocks) -> list[Shape]:
    """Return the shapes of all elements, without creating a view."""
    shapes: list[Shape] = []
    for block in blocks:
        shapes += [tuple(array.shape) for array in block] if isinstance(block, tuple) else block.shapes
    return shapes


def lengths_of(blocks: Blocks, axis: int, *, operator: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the length of every element along an axis, without creating a view."""
    axis = axis if type(axis) is int else integer(axis, operator=operator, name="axis")
    columns = [np.zeros(0, dtype=np.int64)]
    begin = 0
    for block in blocks:
        if isinstance(block, Run):
            place = axis_in_range(axis, len(block.first_shape), operator=operator, of=f"element {begin}")
            columns.append(block.lengths(place))
        else:
            columns.append(_lengths_of_shapes(shapes_of((block,)), axis, begin, operator))
        begin += len(block)
    return columns[1] if len(columns) == 2 else np.concatenate(columns)


def _lengths_of_shapes(
    shapes: Sequence[Shape], axis: int, begin: int, operator: str
) -> np.ndarray[Any, np.dtype[np.int64]]:
    rank = len(shapes[0])
    if any(len(shape) != rank for shape in shapes) or not -rank <= axis < rank:
        axes = [
            axis_in_range(axis, len(shape), operator=operator, of=f"element {begin + i}")
            for i, shape in enumerate(shapes)
        ]
        lengths = [shape[place] for shape, place in zip(shapes, axes, strict=True)]
    else:
        lengths = [shape[axis] for shape in shapes]
    for index, length in enumerate(lengths):
        if type(length) is not int:
            length_along(shapes[index], axis, operator=operator, of=f"element {begin + index}")
    return np.asarray(lengths, dtype=np.int64)


def ends_of(blocks: Blocks) -> list[int]:
    """Return the number of elements up to the end of each block."""
    return list(accumulate(map(len, blocks)))


def find(ends: Sequence[int], blocks: Blocks, index: int) -> tuple[int, int]:
    """Return the number of the block that contains the element at `index`, and the place in that block."""
    # Written out, since torch.compile cannot trace bisect_right.
    number, beyond = 0, len(ends)
    while number < beyond:
        middle = (number + beyond) // 2
        if index < ends[middle]:
            beyond = middle
        else:
            number = middle + 1
    return number, index - (ends[number] - len(blocks[number]))


def append(blocks: Blocks, array: Array) -> Blocks:
    """Return the blocks with one more element at the end."""
    if blocks:
        last = blocks[-1]
        if type(last) is tuple and len(last) < BLOCK_LENGTH:
            return blocks[:-1] + (last + (array,),)
    return blocks + ((array,),)


def insert(blocks: Blocks, ends: Sequence[int], index: int, array: Array) -> Blocks:
    """Return the blocks with one more element before the one at `index`, which exists."""
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
    """Return the blocks without the element at `index`."""
    number, place = find(ends, blocks, index)
    block = blocks[number]
    if isinstance(block, tuple):
        kept: Iterable[Block] = ((*block[:place], *block[place + 1 :]),)
    else:
        kept = (block.part(slice(place)), block.part(slice(place + 1, None)))
    return _tidied((*blocks[:number], *filter(len, kept), *blocks[number + 1 :]), ends[-1])


def erase_first(blocks: Blocks) -> Blocks:
    """Return the blocks without their first element."""
    rest = _part(blocks[0], slice(1, None))
    return (rest,) + blocks[1:] if len(rest) else blocks[1:]


def erase_last(blocks: Blocks) -> Blocks:
    """Return the blocks without their last element."""
    rest = _part(blocks[-1], slice(-1))
    return blocks[:-1] + (rest,) if len(rest) else blocks[:-1]


def select(blocks: Blocks, indices: range) -> Blocks:
    """Return the blocks of the elements at `indices`, without creating a view."""
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


def take(blocks: Blocks, ends: Sequence[int], places: Sequence[int]) -> Blocks:
    """Return the blocks of the elements at some places, in any order, without copying an element."""
    taken: list[Block] = []
    for number, found in groupby([find(ends, blocks, place) for place in places], key=itemgetter(0)):
        block, inside = blocks[number], [place for _, place in found]
        taken += from_arrays([block[place] for place in inside]) if isinstance(block, tuple) else [block.taken(inside)]
    return _tidied(tuple(taken), len(places))


def _part(block: Block, which: slice) -> Block:
    return block[which] if isinstance(block, tuple) else block.part(which)


def _tidied(blocks: Blocks, length: int) -> Blocks:
    """Merge blocks if there are many for the number of elements.

    Neighbouring runs of one split become one run, without creating a view; other small neighbours become one tuple.
    The threshold lies far above the number of blocks after merging, so the cost is amortized over many changes.
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


def _one_run(runs: Sequence[Any]) -> Run:
    def column(name: str) -> Column:
        return np.concatenate([as_column(getattr(run, name)) for run in runs])

    return Run(runs[0].base, runs[0].cut, column("starts"), column("stops"))
