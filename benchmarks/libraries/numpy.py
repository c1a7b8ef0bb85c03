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
    note = "numpy, in pad and unpad: by hand, with one index for rows and one for columns."

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        return lambda: np.concatenate(arrays, axis)

    first_concat = concat  # the answer that those who compile are checked by

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

    def pad(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        def work() -> np.ndarray:
            lengths = np.diff(offsets)
            padded = np.zeros((len(lengths), int(lengths.max()), *values.shape[1:]), values.dtype)
            padded[_places(lengths)] = values
            return padded

        return work

    def unpad(self, padded: np.ndarray, lengths: np.ndarray) -> Work:
        return lambda: padded[_places(lengths)]

    def unpack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        return lambda: np.split(values, offsets[1:-1])

    def pack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        rows = np.split(values, offsets[1:-1])
        return lambda: (np.concatenate(rows), np.cumsum([0, *map(len, rows)]))

    def at(self, arrays: list[np.ndarray]) -> Work:
        return arrays[len(arrays) // 2].copy


def _places(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of every value in the padded array."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.cumsum(lengths) - lengths
    return rows, np.arange(len(rows)) - np.repeat(starts, lengths)


LIBRARIES = [NumPy()]
