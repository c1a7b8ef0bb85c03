"""What many tests ask of arrays and sequences, and the only place where they look at how a sequence is kept."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import seqarray as sa
from seqarray import _blocks
from seqarray._blocks import BLOCK_LENGTH

__all__ = ["BLOCK_LENGTH", "blocks_of", "library_of", "on_device_of", "same_device", "watch_tidying"]

Blocks = tuple[Any, ...]


def blocks_of(sequence: sa.ArraySequence[Any]) -> Blocks:
    """Return the blocks of a sequence: tuples of arrays, and runs of chunks of which no view has been made."""
    blocks: Blocks = sequence._blocks
    return blocks


def watch_tidying(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Blocks, Blocks]]:
    """Have a list get the blocks of every changed sequence, before and after many small ones were merged."""
    tidied, seen = _blocks._tidied, []

    def watched(before: Blocks, length: int) -> Blocks:
        seen.append((before, tidied(before, length)))
        return seen[-1][1]

    monkeypatch.setattr(_blocks, "_tidied", watched)
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
