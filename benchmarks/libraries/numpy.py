"""NumPy."""

from __future__ import annotations

import numpy as np

from benchmarks.libraries.base import Library, Sizes, Work, cuts_of, place_for


class NumPy(Library):
    """NumPy's own functions."""

    name, module, pip = "numpy", "numpy", "numpy"
    packages = ("numpy",)
    backend, beside = True, ("numpy",)
    threaded_copies = True

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        return lambda: np.concatenate(arrays, axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        return lambda: np.stack(arrays, axis)

    def concat_out(self, arrays: list[np.ndarray], axis: int) -> Work:
        out = place_for(arrays, axis)
        return lambda: np.concatenate(arrays, axis, out)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cuts = cuts_of(x, sizes, axis)
        return lambda: [chunk.copy() for chunk in np.split(x, cuts, axis)]

    def split_views(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cuts = cuts_of(x, sizes, axis)
        return lambda: np.split(x, cuts, axis)

    def rejoin(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        return self.concat(np.split(x, cuts_of(x, sizes, axis), axis), axis)

    rejoin_view = rejoin

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cuts = cuts_of(x, sizes, axis)
        return lambda: np.concatenate([chunk.copy() for chunk in np.split(x, cuts, axis)], axis)

    def append(self, count: int, element: np.ndarray) -> Work:
        def work() -> np.ndarray:
            items = []
            for _ in range(count):
                items.append(element)  # noqa: PERF401
            return np.concatenate(items)

        return work

    def push_and_pop(self, count: int, element: np.ndarray) -> Work:
        items = [element] * count

        def work() -> list[np.ndarray]:
            for _ in range(500):
                items.append(element)
            for _ in range(500):
                items.pop()
            return list(items)

        return work

    def window(self, count: int, element: np.ndarray) -> Work:
        items = [element] * count

        def work() -> list[np.ndarray]:
            for _ in range(1_000):
                items.append(element)
                items.pop(0)
            return list(items)

        return work

    def at(self, arrays: list[np.ndarray]) -> Work:
        return arrays[len(arrays) // 2].copy


LIBRARIES = [NumPy()]
