"""How bytes are joined, split and duplicated: arrays and blocks in, arrays and blocks out.

`standard` works on every namespace and alone gives every right answer; an engine is a faster way to the same result for
one array library.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from seqarray.arguments import Column
from seqarray.blocks import Blocks, Cut
from seqarray.copying import standard
from seqarray.copying.facts import Facts
from seqarray.copying.hostpool import host_pool
from seqarray.copying.hostthreads import get_num_threads, set_num_threads
from seqarray.elementtypes import Kind
from seqarray.namespaces import Array


class Engine(Protocol):
    """What `standard` and every engine can do.  Axes are counted from the front, sizes are right.

    Engines also have `ARRAY_TYPE`, the type of their arrays, and ``join_list(arrays, axis, stack)``: as `join`, for a
    list of which only the type of the first array is known; None leaves it to the others.
    """

    #: Whether `join` finds out by itself, before it allocates, that shapes do not fit.
    checks_shapes: bool

    def join(self, blocks: Blocks, axis: int, kind: Kind, *, stack: bool, out: Any = None) -> Array:
        """The elements along one axis, an existing one or (with `stack`) a new one.  ValueError: shapes differ."""

    def learn(self, blocks: Blocks, kind: Kind) -> Facts:
        """What `join_known` needs to know about the elements of a sequence."""

    def join_known(self, blocks: Blocks, axis: int, stack: int, facts: Facts) -> Array:
        """As `join`, for elements whose facts suffice; ValueError sends the caller to `join`."""

    def duplicate(self, array: Array, kind: Kind) -> Array:
        """A copy of one array, in the dtype of `kind`."""

    def split(self, array: Array, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
        """Copies of the chunks of an array, one at least."""

    def pack(self, arrays: Sequence[Array], kind: Kind) -> Blocks:
        """Copies of arrays of any shapes."""


__all__ = ["ENGINES", "Engine", "engine_for", "get_num_threads", "host_pool", "join_list", "set_num_threads"]

#: The module of the engine for each array library that has one.  It is imported when it is needed.
ENGINES = {"numpy": "seqarray.copying.host", "cupy": "seqarray.copying.cuda"}

#: The engines that are in use, by the type of their arrays.
_engine_by_type: dict[type, Any] = {}


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
        _engine_by_type[engine.ARRAY_TYPE] = engine
    chosen: Engine = engine
    return chosen


def join_list(arrays: Sequence[Any], axis: int, stack: int) -> Array | None:
    """Join a list of arrays without a look at more than is needed; None leaves it to the general case."""
    if (type(arrays) is list or type(arrays) is tuple) and arrays:
        engine = _engine_by_type.get(type(arrays[0]))
        if engine is not None:
            joined: Array | None = engine.join_list(arrays, axis, stack)
            return joined
    return None
