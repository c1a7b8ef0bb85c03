"""How bytes are joined, split and duplicated: arrays and blocks in, arrays and blocks out.

`standard` works on every namespace and alone gives every right answer; an engine is a faster way to the same result for
one array library.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from seqarray._arguments import Column
from seqarray._blocks import Blocks, Cut
from seqarray._dtypes import Kind
from seqarray._engines import standard
from seqarray._engines.facts import Facts
from seqarray._engines.pool import host_pool
from seqarray._engines.threads import get_num_threads, set_num_threads
from seqarray._libraries import Array


class Engine(Protocol):
    """What `standard` and every engine can do.  Axes are counted from the front, sizes are right.

    Engines also have `ARRAY_TYPE`, the type of their arrays, and ``join_list(arrays, axis, stack)``: as `join`, for a
    list of which only the type of the first array is known; None leaves it to `join`.
    """

    #: Whether `join` finds out by itself, before it allocates, that shapes do not fit.
    checks_shapes: bool

    def join(self, blocks: Blocks, axis: int, kind: Kind, *, stack: bool, out: Any = None) -> Array:
        """The elements along one axis, an existing one or (with `stack`) a new one.  ValueError: shapes differ."""

    def learn(self, blocks: Blocks, kind: Kind) -> Facts:
        """What joining needs to know about the elements of a sequence, and the quickest way to join them."""

    def duplicate(self, array: Array, kind: Kind) -> Array:
        """A copy of one array, in the dtype of `kind`."""

    def split(self, array: Array, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
        """Copies of the chunks of an array, one at least."""

    def pack(self, arrays: Sequence[Array], kind: Kind) -> Blocks:
        """Copies of arrays of any shapes."""


__all__ = ["ENGINES", "Engine", "engine_for", "get_num_threads", "host_pool", "list_joins", "set_num_threads"]

#: The module of the engine for each array library that has one.  It is imported when it is needed.
ENGINES = {"numpy": "seqarray._engines.numpy", "cupy": "seqarray._engines.cupy"}

#: `join_list` of the engines that are in use, by the type of their arrays.
list_joins: dict[type, Callable[[Sequence[Any], int, int], Array | None]] = {}


def engine_for(kind: Kind, operator: str) -> Engine:
    """The engine that works on arrays of this kind."""
    if kind.engine is None:
        if kind.namespace is None:
            raise TypeError(f"{operator}: the elements of the sequence are not arrays")
        kind.engine = _engine_of(kind.library)
    engine: Engine = kind.engine
    return engine


def _engine_of(library: str) -> Engine:
    engine: Any = standard
    if library in ENGINES:
        engine = importlib.import_module(ENGINES[library])
        list_joins[engine.ARRAY_TYPE] = engine.join_list
    chosen: Engine = engine
    return chosen
