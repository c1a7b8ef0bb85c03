"""awkward, and scikit-hep's ragged, which is built on it."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.libraries.base import Library, Work, not_done


class Awkward(Library):
    """awkward: values and offsets in a ListOffsetArray."""

    name, module, pip = "awkward", "awkward", "awkward"
    packages = ("awkward",)
    beside = ("numpy",)
    note = "awkward, in pad: pad_none and to_numpy, which give a masked array of NumPy."

    def made(self, values: np.ndarray, offsets: np.ndarray) -> Any:
        """Return the rows as awkward's array, without a copy."""
        ak = importlib.import_module("awkward")
        index, content = ak.index.Index64(offsets), ak.contents.NumpyArray(values)
        return ak.Array(ak.contents.ListOffsetArray(index, content))

    def pad(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        ak, rows, longest = importlib.import_module("awkward"), self.made(values, offsets), int(np.diff(offsets).max())
        return lambda: ak.to_numpy(ak.pad_none(rows, longest, clip=True))

    def unpack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        return lambda: self.made(values, offsets)

    def pack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        ak, rows = importlib.import_module("awkward"), self.made(values, offsets)
        return lambda: (ak.to_numpy(ak.flatten(rows)), _offsets(ak.to_numpy(ak.num(rows))))

    def host(self, result: Any) -> Any:
        if isinstance(result, np.ma.MaskedArray):
            return result.filled(0)
        if isinstance(result, tuple):
            return list(result)
        ak = importlib.import_module("awkward")
        return np.split(ak.to_numpy(ak.flatten(result)), np.cumsum(ak.to_numpy(ak.num(result)))[:-1])


class Ragged(Awkward):
    """scikit-hep's ragged: arrays in the manner of the standard."""

    name, module, pip = "ragged", "ragged", "ragged"
    packages = ("ragged",)

    def unpack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        ragged = importlib.import_module("ragged")
        return lambda: ragged.array(self.made(values, offsets))

    def host(self, result: Any) -> Any:
        return super().host(result._impl)

    pad = pack = not_done  # it gives no values without their rows, and no offsets


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])


LIBRARIES = [Awkward(), Ragged()]
