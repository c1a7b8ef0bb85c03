"""The elements of a sequence in blocks, as engines get them.

A block is a tuple of at most `BLOCK_LENGTH` arrays, or a run: the chunks of one array, whose views are created on
demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from seqarray._arguments import Shape, axis_in_range, integer, length_along
from seqarray._libraries import Array, is_compiling
from seqarray._views import AnyRun, Run

#: The maximum length of a block of arrays, which is copied by each change in it.
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
    if len(blocks) == 1 and not isinstance(blocks[0], tuple):
        return blocks[0].shapes
    shapes: list[Shape] = []
    for block in blocks:
        shapes += [tuple(array.shape) for array in block] if isinstance(block, tuple) else block.shapes
    return shapes


def sizes_of(blocks: Blocks, axis: int, *, operator: str) -> list[Any]:
    """Return the length of every element along an axis, whether known or not, without creating a view."""
    axis = axis if type(axis) is int else integer(axis, operator=operator, name="axis")
    sizes: list[Any] = []
    for block in blocks:
        if isinstance(block, Run):
            sizes += block.sizes(
                axis_in_range(axis, len(block.first_shape), operator=operator, of=f"element {len(sizes)}")
            )
        else:
            sizes += _sizes_of_shapes(shapes_of((block,)), axis, len(sizes), operator)
    return sizes


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


def bounds_of(blocks: Blocks, axis: Any) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Return the bounds of the elements joined along an axis, from 0 on; None where that takes a sum of lengths."""
    run = blocks[0] if len(blocks) == 1 else None
    if type(axis) is not int or not isinstance(run, Run):
        return None
    return run.offsets() if axis in (run.cut.axis, run.cut.axis - len(run.cut.shape)) else None


def _lengths_of_shapes(
    shapes: Sequence[Shape], axis: int, begin: int, operator: str
) -> np.ndarray[Any, np.dtype[np.int64]]:
    lengths = _sizes_of_shapes(shapes, axis, begin, operator)
    for index, length in enumerate(lengths):
        if type(length) is not int:
            length_along(shapes[index], axis, operator=operator, of=f"element {begin + index}")
    return np.asarray(lengths, dtype=np.int64)


def _sizes_of_shapes(shapes: Sequence[Shape], axis: int, begin: int, operator: str) -> list[Any]:
    rank = len(shapes[0])
    if -rank <= axis < rank and {*map(len, shapes)} == {rank}:
        return [shape[axis] for shape in shapes]
    return [
        shape[axis_in_range(axis, len(shape), operator=operator, of=f"element {begin + i}")]
        for i, shape in enumerate(shapes)
    ]


def count_items(blocks: Blocks) -> int:
    """Return the number of items of all elements, without creating a view."""
    return sum(
        sum([prod(array.shape) for array in block]) if isinstance(block, tuple) else block.size for block in blocks
    )
