"""The elements of a sequence, as an immutable tree whose leaves are blocks.

A sequence that fits into one block is that block.  Otherwise branches lie above the blocks, which are all equally deep.
A change makes one block and the branches above it anew and shares the rest: it takes about as long at any length, every
earlier version stays valid without a lock, and an element is freed with the last version that contains it.  What is
appended lies in a block on top of the tree, which becomes a part of it when it is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from seqarray import _blocks
from seqarray._arguments import Column
from seqarray._blocks import BLOCK_LENGTH, Block, Blocks
from seqarray._libraries import Array, is_compiling
from seqarray._views import AnyRun, Run, as_column

#: The maximum number of children of a branch.
WIDTH = 32

#: The maximum number of chunks of a run that smaller ones are merged into, since that copies their columns.
MERGED_LENGTH = 1024


class Branch:
    """Trees of one height, and the number of elements of each and of all of them.

    The lists are never changed once the branch is made.
    """

    __slots__ = ("children", "length", "lengths")

    def __init__(self, children: list[Tree], lengths: list[int], length: int) -> None:
        self.children = children
        self.lengths = lengths
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Array:
        block, place = _leaf(self, index)
        return block[place]

    def __iter__(self) -> Iterator[Array]:
        return chain.from_iterable(self.children)

    def find(self, index: int) -> tuple[int, int]:
        """Return the number of the child with the element at `index`, and the place in it."""
        lengths = self.lengths
        # Counted from the nearer end: sums of the lengths would be found sooner, but made anew with every change.
        if 2 * index < self.length:
            number = 0
            while index >= lengths[number]:
                index -= lengths[number]
                number += 1
            return number, index
        index -= self.length
        number = len(lengths)
        while index < 0:
            number -= 1
            index += lengths[number]
        return number, index

    def find_gap(self, index: int) -> tuple[int, int]:
        """Return where to insert an element before the one at `index`: rather after arrays than before a run."""
        number, place = self.find(index)
        if place == 0 and number and not isinstance(self.children[number], (tuple, Branch)):
            number -= 1
            place = len(self.children[number])
        return number, place

    def replaced(self, number: int, changed: tuple[Tree, ...], by: int) -> tuple[Branch, ...]:
        """Return the branches that replace this one once trees, longer by so many elements, have replaced a child."""
        children, lengths = self.children.copy(), self.lengths.copy()
        last = number == len(children) - 1
        if len(changed) == 1:
            children[number] = changed[0]
            lengths[number] += by
        else:
            children[number : number + 1] = changed
            lengths[number : number + 1] = map(len, changed)
        if len(children) <= WIDTH:
            return (Branch(children, lengths, self.length + by),) if children else ()
        if not isinstance(children[0], Branch):
            children = [*_merged(children)]
        if len(children) <= WIDTH // 2:
            return (_branch(children),)
        # What grows at its end shall have full branches.
        half = len(children) - 1 if last else len(children) // 2
        return _branch(children[:half]), _branch(children[half:])


#: Trees that have a height.
Tree = Block | Branch


class Stack:
    """A tree, and the last block apart from it, so that a change at the end leaves the tree as it is."""

    __slots__ = ("begin", "below", "top")

    def __init__(self, below: Tree, begin: int, top: Block) -> None:
        self.below = below
        #: The number of elements below.
        self.begin = begin
        self.top = top

    def __len__(self) -> int:
        return self.begin + len(self.top)

    def __getitem__(self, index: int) -> Array:
        return self.below[index] if index < self.begin else self.top[index - self.begin]

    def __iter__(self) -> Iterator[Array]:
        return chain(self.below, self.top)

    def whole(self) -> Tree:
        """Return a tree of the same elements."""
        return tree_of(_with_block(self.below, self.top))


Elements = Tree | Stack


def _branch(children: Sequence[Tree]) -> Branch:
    lengths = list(map(len, children))
    return Branch(list(children), lengths, sum(lengths))


def of_arrays(arrays: Sequence[Array]) -> Tree:
    """Return the tree of these arrays."""
    return tuple(arrays) if len(arrays) <= BLOCK_LENGTH else tree_of(_blocks.from_arrays(arrays))


def of_blocks(blocks: Sequence[Block]) -> Tree:
    """Return the tree of blocks that come from other sequences, of which many may be short."""
    return tree_of(blocks if len(blocks) <= WIDTH else _merged(blocks))


def tree_of(trees: Sequence[Tree]) -> Tree:
    """Return the tree over blocks, or other trees of one height; a branch on top has two children or more."""
    while len(trees) > 1:
        trees = [_branch(trees[i : i + WIDTH]) for i in range(0, len(trees), WIDTH)]
    return _lowered(trees[0]) if trees else ()


def blocks_of(elements: Elements) -> Blocks:
    """Return the blocks in order."""
    if isinstance(elements, Stack):
        return (*blocks_of(elements.below), elements.top)
    if not isinstance(elements, Branch):
        return (elements,) if len(elements) else ()
    level: Any = elements.children
    while isinstance(level[0], Branch):
        level = list(chain.from_iterable([branch.children for branch in level]))
    return tuple(level)


def append(elements: Elements, array: Array) -> Elements:
    """Return the elements and one more at the end."""
    if isinstance(elements, tuple) and len(elements) < BLOCK_LENGTH:
        return elements + (array,)
    if isinstance(elements, Stack):
        top = elements.top
        if isinstance(top, tuple) and len(top) < BLOCK_LENGTH:
            return Stack(elements.below, elements.begin, top + (array,))
        elements = elements.whole()
    return Stack(elements, len(elements), (array,))


def _with_block(tree: Tree, block: Block) -> tuple[Tree, ...]:
    """Return the trees of the same height that replace one once a block has been put at its end."""
    if isinstance(tree, Branch):
        return tree.replaced(len(tree.children) - 1, _with_block(tree.children[-1], block), len(block))
    return tree, block


def erase_last(elements: Elements) -> Elements:
    """Return the elements without the last one."""
    if isinstance(elements, Branch):
        rest, top = _without_last_block(elements)
        elements = Stack(tree_of(rest), elements.length - len(top), top)
    if isinstance(elements, Stack):
        below, begin, top = elements.below, elements.begin, elements.top
        return Stack(below, begin, _part(top, slice(-1))) if len(top) > 1 else below
    return _part(elements, slice(-1)) if len(elements) > 1 else ()


def _without_last_block(tree: Tree) -> tuple[tuple[Tree, ...], Block]:
    """Return the trees of the same height that replace one without its last block, and that block."""
    if not isinstance(tree, Branch):
        return (), tree
    rest, block = _without_last_block(tree.children[-1])
    return tree.replaced(len(tree.children) - 1, rest, -len(block)), block


def insert(elements: Elements, index: int, array: Array) -> Elements:
    """Return the elements and one more before the one at `index`, which exists."""
    if isinstance(elements, Stack):
        if index < elements.begin:
            return Stack(tree_of(_inserted(elements.below, index, array)), elements.begin + 1, elements.top)
        elements = elements.whole()
    return tree_of(_inserted(elements, index, array))


def _inserted(tree: Tree, index: int, array: Array) -> tuple[Tree, ...]:
    """Return the trees of the same height that replace one."""
    if isinstance(tree, Branch):
        number, place = tree.find_gap(index)
        return tree.replaced(number, _inserted(tree.children[number], place, array), 1)
    if not isinstance(tree, tuple):
        before, behind = _cut(tree, index, index)
        return (*before, (array,), *behind)
    grown = tree[:index] + (array,) + tree[index:]
    half = len(grown) // 2
    return (grown,) if len(grown) <= BLOCK_LENGTH else (grown[:half], grown[half:])


def erase(elements: Elements, index: int) -> Elements:
    """Return the elements without the one at `index`."""
    if isinstance(elements, Stack):
        if index < elements.begin > 1:
            return Stack(_without(elements.below, index), elements.begin - 1, elements.top)
        elements = elements.whole()
    return _without(elements, index)


def _without(tree: Tree, index: int) -> Tree:
    if index == 0 and not isinstance(tree, Branch):
        return _part(tree, slice(1, None))
    return tree_of(_erased(tree, index))


def _erased(tree: Tree, index: int) -> tuple[Tree, ...]:
    """Return the trees of the same height that replace one, none if it has become empty."""
    if isinstance(tree, Branch):
        number, place = tree.find(index)
        return tree.replaced(number, _erased(tree.children[number], place), -1)
    if isinstance(tree, tuple):
        rest = tree[:index] + tree[index + 1 :]
        return (rest,) if rest else ()
    before, behind = _cut(tree, index, index + 1)
    return before + behind


def _cut(run: AnyRun, stop: int, start: int) -> tuple[tuple[AnyRun, ...], tuple[AnyRun, ...]]:
    """Return the chunks of a run up to one place and from another one on, as one run or none each."""
    before = (run.part(slice(stop)),) if stop else ()
    behind = (run.part(slice(start, None)),) if start < len(run) else ()
    return before, behind


def _lowered(tree: Tree) -> Tree:
    """Return a tree without branches on top that have but one child."""
    while isinstance(tree, Branch) and len(tree.children) == 1:
        tree = tree.children[0]
    return tree


def select(elements: Elements, indices: range) -> Tree:
    """Return the tree of the elements at `indices`, without creating a view."""
    if not indices:
        return ()
    first, last = sorted((indices[0], indices[-1]))
    tree = elements.whole() if isinstance(elements, Stack) else elements
    between = tree_of([_between(tree, first, last + 1)])
    return between if indices.step == 1 else tree_of(_strided(blocks_of(between), indices.step))


def _between(tree: Tree, start: int, stop: int) -> Tree:
    """Return the tree of the same height of the elements from `start` up to `stop`, of which there is at least one."""
    if start == 0 and stop == len(tree):
        return tree
    if not isinstance(tree, Branch):
        return _part(tree, slice(start, stop))
    (first, start), (last, end) = tree.find(start), tree.find(stop - 1)
    if first == last:
        return _branch([_between(tree.children[first], start, end + 1)])
    begin, *middle, rest = tree.children[first : last + 1]
    return _branch([_between(begin, start, len(begin)), *middle, _between(rest, 0, end + 1)])


def _strided(blocks: Blocks, step: int) -> list[Block]:
    """Return the blocks of each `step`-th element from the first one on; from the last one if `step` is negative."""
    if step < 0:
        blocks, step = tuple([_part(block, slice(None, None, -1)) for block in reversed(blocks)]), -step
    chosen: list[Block] = []
    skipped = 0
    for block in blocks:
        if skipped < len(block):
            chosen.append(_part(block, slice(skipped, None, step)))
        skipped = (skipped - len(block)) % step
    return chosen


def take(elements: Elements, places: Sequence[int]) -> Tree:
    """Return the tree of the elements at some places, in any order, without copying an element."""
    tree = elements.whole() if isinstance(elements, Stack) else elements
    runs: list[tuple[Block, list[int]]] = []
    for place in places:
        block, inside = _leaf(tree, place)
        if runs and runs[-1][0] is block:
            runs[-1][1].append(inside)
        else:
            runs.append((block, [inside]))
    taken: list[Block] = []
    for block, chosen in runs:
        taken += _blocks.from_arrays([block[n] for n in chosen]) if isinstance(block, tuple) else (block.taken(chosen),)
    return of_blocks(taken)


def _leaf(tree: Tree, index: int) -> tuple[Block, int]:
    """Return the block with the element at `index`, and the place in that block."""
    while isinstance(tree, Branch):
        number, index = tree.find(index)
        tree = tree.children[number]
    return tree, index


def _part(block: Block, which: slice) -> Block:
    return block[which] if isinstance(block, tuple) else block.part(which)


def _merged(blocks: Sequence[Any]) -> Sequence[Any]:
    """Merge small neighbours: runs of one split become a run, without creating a view; others become a tuple."""
    if is_compiling():
        return blocks
    runs = [_one_run(group) if len(group) > 1 else group[0] for group in _grouped(blocks, MERGED_LENGTH, _continues)]
    groups = _grouped(runs, BLOCK_LENGTH, lambda *_: True)
    return [tuple(chain.from_iterable(group)) if len(group) > 1 else group[0] for group in groups]


def _grouped(blocks: Sequence[Any], most: int, belong: Callable[[Any, Any], bool]) -> list[list[Any]]:
    """Return neighbours that belong together, in groups of at most so many elements."""
    groups: list[list[Any]] = []
    length = 0
    for block in blocks:
        length += len(block)
        if groups and length <= most and belong(groups[-1][-1], block):
            groups[-1].append(block)
        else:
            groups.append([block])
            length = len(block)
    return groups


def _continues(block: Block, other: Block) -> bool:
    return isinstance(block, Run) and isinstance(other, Run) and block.continues(other)


def _one_run(runs: Sequence[Run]) -> Run:
    def column(name: str) -> Column:
        return np.concatenate([as_column(getattr(run, name)) for run in runs])

    return Run(runs[0].base, runs[0].cut, column("starts"), column("stops"))
