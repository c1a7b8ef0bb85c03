"""Joining, splitting and copying the memory of arrays: arrays and blocks in, arrays and blocks out.

`standard` works on every namespace and gives every right answer alone; another engine computes the same results faster
for one array library, whose class names it (`Library.engine_module`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from seqarray._arguments import Column
from seqarray._blocks import Blocks
from seqarray._engines import numpy, standard
from seqarray._engines.pool import host_pool
from seqarray._engines.segments import Segments
from seqarray._engines.threads import get_num_threads, set_num_threads
from seqarray._kind import Kind
from seqarray._libraries import NUMPY, Array, import_engines
from seqarray._views import Cut

__all__ = ["Engine", "engine_for", "get_num_threads", "host_pool", "set_num_threads", "standard"]


class Engine(Protocol):
    """The interface of every engine.  Axes are counted from the front and in range, and sizes add up."""

    #: Whether `join` refuses dtypes and devices that differ, so that those of a list need not be compared before.
    compares_elements: bool

    def join(self, blocks: Blocks, axis: int, stack: bool, kind: Kind, out: Any = None) -> Array:
        """Join elements along an axis that they have or, with `stack`, along a new one.

        Shapes that do not fit, and dtypes that are not of the kind's element type, are refused with a ValueError or
        TypeError before anything large is allocated.
        """

    def duplicate(self, array: Array, kind: Kind) -> Array:
        """Copy one array, in the dtype of `kind`."""

    def split(self, array: Array, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
        """Copy the chunks of an array, of which there is at least one."""

    def pack(self, arrays: Sequence[Array], kind: Kind) -> Blocks:
        """Copy arrays of any shapes."""

    def gather(self, sources: Sequence[tuple[Array, Segments]], count: int, kind: Kind, fill: Any = None) -> Array:
        """Copy ranges of the rows of arrays into a new array of `count` rows, in the dtype of `kind`.

        Rows are what the first axis counts, and of one shape in all arrays.  Without `fill`, the ranges cover the new
        array.  With it, a 0-d NumPy array of the element type, it is in the rows that no range covers, and those of
        each source lie there without gaps, in any order.
        """


def engine_for(kind: Kind, operator: str) -> Engine:
    """Return the engine for arrays of a kind; raise a TypeError if the elements are not arrays."""
    if kind.library is None:
        raise TypeError(f"{operator}: the elements of the sequence are not arrays")
    engine: Engine = kind.library.engine
    return engine


# The registry gives every other library its engine when it is met; NumPy is met before there are engines.
NUMPY.engine = numpy
import_engines()
