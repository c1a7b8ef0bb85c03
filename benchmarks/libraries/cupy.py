"""CuPy: its own functions, and slices of an empty array."""

from __future__ import annotations

import importlib
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from benchmarks.libraries.base import Library, Sizes, Work, cuts_of, not_done


class CuPy(Library):
    """cupy.concatenate, cupy.stack, and copies of what cupy.split gives."""

    name, module, pip = "cupy", "cupy", "cupy-cuda13x"
    packages = ("cupy",)
    backend, beside = True, ("cupy",)
    recycles = True

    @property
    def cupy(self) -> Any:
        """Import CuPy."""
        return importlib.import_module("cupy")

    def missing(self) -> str:
        return super().missing() or ("" if self.cupy.cuda.is_available() else "no usable GPU")

    def use_device(self, device: str) -> None:
        if device != "cuda":
            raise ValueError("its arrays lie on the device cuda")

    def array(self, host: np.ndarray) -> Any:
        return self.cupy.asarray(host)

    def finish(self, _: Any) -> None:
        self.cupy.cuda.get_current_stream().synchronize()

    def device_seconds(self, work: Work) -> float:
        cuda = self.cupy.cuda
        begin, end = cuda.Event(), cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        return float(cuda.get_elapsed_time(begin, end)) / 1e3

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        cupy, own = self.cupy, [self.array(a) for a in arrays]
        return lambda: cupy.concatenate(own, axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        cupy, own = self.cupy, [self.array(a) for a in arrays]
        return lambda: cupy.stack(own, axis)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cupy, own, cuts = self.cupy, self.array(x), cuts_of(x, sizes, axis)
        return lambda: [chunk.copy() for chunk in cupy.split(own, cuts, axis)]

    def split_views(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cupy, own, cuts = self.cupy, self.array(x), cuts_of(x, sizes, axis)
        return lambda: cupy.split(own, cuts, axis)

    def rejoin(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cupy, chunks = self.cupy, self.cupy.split(self.array(x), cuts_of(x, sizes, axis), axis)
        return lambda: cupy.concatenate(chunks, axis)

    rejoin_view = rejoin

    def at(self, arrays: list[np.ndarray]) -> Work:
        own = [self.array(a) for a in arrays]
        return own[len(own) // 2].copy

    def upload(self, arrays: list[np.ndarray]) -> Work:
        cupy = self.cupy
        return lambda: [cupy.asarray(a) for a in arrays]


class CuPySlices(CuPy):
    """Slices of an empty array that are filled one by one, a launch for each."""

    name = "cupy slices"
    backend = False

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        cupy, own = self.cupy, [self.array(a) for a in arrays]
        bounds = list(accumulate([a.shape[axis] for a in arrays], initial=0))
        shape = (*arrays[0].shape[:axis], bounds[-1], *arrays[0].shape[axis + 1 :])
        places = [(slice(None),) * axis + (slice(*pair),) for pair in pairwise(bounds)]
        return lambda: self._filled(cupy.empty(shape, own[0].dtype), places, own)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        cupy, own = self.cupy, [self.array(a) for a in arrays]
        shape = (*arrays[0].shape[:axis], len(arrays), *arrays[0].shape[axis:])
        places = [(*(slice(None),) * axis, index) for index in range(len(arrays))]
        return lambda: self._filled(cupy.empty(shape, own[0].dtype), places, own)

    def _filled(self, out: Any, places: list[Any], arrays: list[Any]) -> Any:
        for place, array in zip(places, arrays, strict=True):
            out[place] = array
        return out

    split = split_views = rejoin = rejoin_view = at = upload = not_done


LIBRARIES = [CuPy(), CuPySlices()]
