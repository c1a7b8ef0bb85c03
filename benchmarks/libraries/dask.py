"""dask."""

from __future__ import annotations

import importlib
from itertools import accumulate
from typing import Any

import numpy as np

import seqarray as sa
from benchmarks.libraries.base import Library, Sizes, Work, lengths_of


class Dask(Library):
    """dask.array's functions, computed."""

    name, module, pip = "dask", "dask.array", "'dask[array]'"
    packages = ("dask",)
    backend, beside = True, ("dask",)
    rotates = False
    most_pieces = 100
    note = "dask: the time to build the graph and to compute it."

    def array(self, host: np.ndarray) -> Any:
        return importlib.import_module("dask.array").from_array(host, chunks=-1)

    def finish(self, result: Any) -> None:
        # It looks into lists, and not into sequences.
        result = list(result) if isinstance(result, sa.ArraySequence) else result
        importlib.import_module("dask").compute(result)

    def host(self, result: Any) -> Any:
        # All at once: one by one, each would walk the whole graph.
        result = list(result) if isinstance(result, sa.ArraySequence) else result
        return importlib.import_module("dask").compute(result)[0]

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        da, own = importlib.import_module("dask.array"), [self.array(a) for a in arrays]
        return lambda: da.concatenate(own, axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        da, own = importlib.import_module("dask.array"), [self.array(a) for a in arrays]
        return lambda: da.stack(own, axis)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        own, lengths = self.array(x), lengths_of(x, sizes, axis)
        ends = list(accumulate(lengths))
        before = (slice(None),) * axis
        return lambda: [own[(*before, slice(b - n, b))] for b, n in zip(ends, lengths, strict=True)]


LIBRARIES = [Dask()]
