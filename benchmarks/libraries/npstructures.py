"""npstructures: rows of different lengths for NumPy."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.libraries.base import Library, Work


class NpStructures(Library):
    """npstructures' RaggedArray.  It pads rows of numbers, and not those of more axes."""

    name, module, pip = "npstructures", "npstructures", "npstructures"
    packages = ("npstructures",)
    beside = ("numpy",)

    def unpack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        make = importlib.import_module("npstructures").RaggedArray
        return lambda: make(values, np.diff(offsets))

    def pack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        rows = self.unpack(values, offsets)()
        return lambda: (rows.ravel(), np.concatenate([[0], np.cumsum(rows.lengths)]))

    def host(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return list(result)
        return np.split(result.ravel(), np.cumsum(result.lengths)[:-1])


LIBRARIES = [NpStructures()]
