"""What many tests ask of arrays and sequences, and the only place where they look at how a sequence is kept."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import seqarray as sa
from seqarray import _blocks, _tree
from seqarray._blocks import BLOCK_LENGTH

__all__ = [
    "BLOCK_LENGTH",
    "assert_tree_is_sound",
    "blocks_of",
    "children_of",
    "library_of",
    "on_device_of",
    "same_device",
    "shrink_blocks",
    "tree_of",
    "watch_tidying",
]

Blocks = tuple[Any, ...]


def blocks_of(sequence: sa.ArraySequence[Any]) -> Blocks:
    """Return the blocks of a sequence: tuples of arrays, and runs of chunks of which no view has been made."""
    blocks: Blocks = sequence._blocks
    return blocks


def tree_of(sequence: sa.ArraySequence[Any]) -> Any:
    """Return what a sequence keeps its elements in."""
    return sequence._elements


def children_of(tree: Any) -> tuple[Any, ...]:
    """Return the trees that make up a tree; none of a block."""
    match tree:
        case _tree.Branch():
            return tuple(tree.children)
        case _tree.Stack():
            return tree.below, tree.top
    return ()


def shrink_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have short sequences lie in as many blocks and branches as long ones."""
    monkeypatch.setattr(_blocks, "BLOCK_LENGTH", 6)
    monkeypatch.setattr(_tree, "BLOCK_LENGTH", 6)
    monkeypatch.setattr(_tree, "WIDTH", 4)
    monkeypatch.setattr(_tree, "MERGED_LENGTH", 12)


def assert_tree_is_sound(sequence: sa.ArraySequence[Any]) -> int:
    """Check the lengths and heights of all blocks and branches; return the height."""
    elements = sequence._elements
    assert len(elements) == len(sequence)
    if isinstance(elements, _tree.Stack):
        assert len(elements.below) == elements.begin > 0
        assert len(elements.top) > 0
        _height(elements.top)
        elements = elements.below
    assert not isinstance(elements, _tree.Branch) or len(elements.children) > 1
    return _height(elements)


def _height(tree: Any) -> int:
    if not isinstance(tree, _tree.Branch):
        assert not isinstance(tree, tuple) or len(tree) <= _blocks.BLOCK_LENGTH
        return 0
    assert 0 < len(tree.children) <= _tree.WIDTH
    assert list(map(len, tree.children)) == tree.lengths
    assert sum(tree.lengths) == tree.length
    assert min(tree.lengths) > 0
    (height,) = set(map(_height, tree.children))
    return height + 1


def watch_tidying(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Blocks, Blocks]]:
    """Have a list get the blocks of a branch, before and after small ones were merged."""
    merged, seen = _tree._merged, []

    def watched(before: Blocks) -> Blocks:
        seen.append((before, merged(before)))
        return seen[-1][1]

    monkeypatch.setattr(_tree, "_merged", watched)
    return seen


def library_of(namespace: Any) -> str:
    """Return the short name of a namespace's library: "numpy", "torch", "jax", "dask", "array_api_strict" or "cupy"."""
    name: str = namespace.__name__
    return name.removeprefix("array_api_compat.").partition(".")[0]


def same_device(a: Any, b: Any) -> bool:
    """Return whether two devices are one; an unknown one agrees with every other."""
    return a is None or b is None or bool(a == b)


def on_device_of(array: Any) -> AbstractContextManager[Any]:
    """Return a context in which expressions of an array may be computed: CuPy does so on the current device only."""
    on_cupy = library_of(sa.ArraySequence([array]).namespace) == "cupy"
    context: AbstractContextManager[Any] = array.device if on_cupy else nullcontext()
    return context
