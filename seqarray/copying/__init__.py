"""How bytes are joined, split and duplicated: arrays and blocks in, arrays and blocks out.

`standard` works on every namespace and alone gives every right answer; an engine is a faster way to the same result for
one array library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from seqarray.arguments import Column
from seqarray.blocks import Blocks, Cut, Run
from seqarray.copying import host, standard
from seqarray.copying.facts import Facts
from seqarray.copying.hostpool import host_pool
from seqarray.copying.hostthreads import get_num_threads, set_num_threads
from seqarray.elementtypes import Kind
from seqarray.namespaces import Array


class Engine(Protocol):
    """What `standard` and every engine can do.  Axes are counted from the front, sizes are right."""

    #: Whether `join` finds out by itself, before it allocates, that shapes do not fit.
    checks_shapes: bool

    def join(self, arrays: Sequence[Array], axis: int, kind: Kind, *, stack: bool, out: Any = None) -> Array:
        """The arrays along one axis, an existing one or (with `stack`) a new one.  ValueError if shapes do not fit."""

    def learn(self, blocks: Blocks, kind: Kind) -> Facts:
        """What `join_small` needs to know about the elements of a sequence."""

    def join_small(self, arrays: Sequence[Array], axis: int, stack: int, facts: Facts) -> Array:
        """As `join`, for elements whose facts say that they are small; ValueError sends the caller to `join`."""

    def rejoin(self, run: Run, kind: Kind) -> Array | None:
        """The packed chunks of one split joined again along the axis they came from; None leaves it to `join`."""

    def duplicate(self, array: Array, kind: Kind) -> Array:
        """A copy of one array, in the dtype of `kind`."""

    def split(self, array: Array, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
        """Copies of the chunks of an array."""

    def pack(self, arrays: Sequence[Array], kind: Kind) -> Blocks:
        """Copies of arrays of any shapes."""


__all__ = ["ENGINES", "Engine", "engine_for", "get_num_threads", "host_pool", "join_list", "set_num_threads"]

_LISTS = (list, tuple)

#: The engine for each array library that has one.
ENGINES: dict[str, Any] = {"numpy": host}


def engine_for(kind: Kind, operator: str) -> Engine:
    """The engine that works on arrays of this kind."""
    if kind.engine is None:
        if kind.namespace is None:
            raise TypeError(f"{operator}: the elements of the sequence are not arrays")
        kind.engine = ENGINES.get(kind.library, standard)
    engine: Engine = kind.engine
    return engine


def join_list(arrays: Sequence[Any], axis: int, stack: int) -> Array | None:
    """Join a list of small arrays without a look at more than is needed; None leaves it to the general case."""
    if type(arrays) not in _LISTS or not arrays or type(arrays[0]) is not np.ndarray or "numpy" not in ENGINES:
        return None
    return host.join_list(arrays, axis, stack)
