"""Dask: lazy arrays around those of NumPy or CuPy, whose lengths may be unknown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from math import isnan
from typing import Any

import numpy as np

from seqarray._libraries.base import Array, Device, HostArray, Library, NumPyDtypes


class Dask(NumPyDtypes):
    """Dask's arrays; the namespace is array-api-compat's for `dask.array`."""

    name = "dask"
    is_writable = False

    def own_view(self, array: Array) -> Array:
        """Return another array object, since an assignment to an array changes what that object computes."""
        return array.copy()

    def copy_of(self, array: Array) -> Array:
        return array.copy()

    def is_lazy(self, array: Array) -> bool:
        return True

    def memory_of(self, array: Array) -> Iterator[tuple[int, int]]:
        yield from ()

    def join_options(self, arrays: Sequence[Array]) -> dict[str, Any]:
        """Return the option that lets arrays of unknown lengths be joined: dask writes these as nan."""
        unknown = any(isinstance(length, float) and isnan(length) for array in arrays for length in array.shape)
        return {"allow_unknown_chunksizes": True} if unknown else {}

    def task_graph(self, arrays: Sequence[Array]) -> Any:
        return sys.modules["dask.highlevelgraph"].HighLevelGraph.merge(*[array.dask for array in arrays])

    def filled(self, shape: tuple[int, ...], fill: HostArray, dtype: Any, device: Device) -> Array:
        return self.namespace.from_array(np.full(shape, fill, dtype), chunks=-1, name=False)

    def reshaped(self, array: Array, shape: tuple[int, ...]) -> Array:
        return array.rechunk(-1).reshape(shape)  # no other chunks can be given every shape

    def taken(self, array: Array, rows: HostArray, device: Device) -> Array:
        return self.namespace.take(array, rows, axis=0)  # dask plans with the values of an index

    def wraps(self, other: Library) -> bool:
        return other.name in ("numpy", "cupy")

    def check_known(self, arrays: Sequence[Array], *, operator: str) -> None:
        """Check nothing: `to_host` computes the values."""

    def to_host(self, arrays: Sequence[Array], *, copy: bool | None, operator: str) -> list[HostArray]:
        """Return the values of all arrays, in one computation; dask gives scalars for arrays of rank 0."""
        computed = sys.modules["dask"].compute(*arrays)
        return [self._as_ndarray(value, array.dtype, operator) for value, array in zip(computed, arrays, strict=True)]

    def _as_ndarray(self, value: Any, dtype: Any, operator: str) -> HostArray:
        masked = sys.modules.get("numpy.ma")
        if masked is not None and isinstance(value, masked.MaskedArray) and masked.is_masked(value):
            raise TypeError(
                f"{operator}: an array of dask has masked values, and NumPy arrays have no masks; fill them"
            )
        return np.asarray(value.get() if hasattr(value, "get") else value, dtype=dtype)

    def from_host(
        self, arrays: Sequence[Any], dtype: Any, device: Device, *, copy: bool | None, operator: str
    ) -> list[Array]:
        """Return lazy arrays around arrays, of one chunk each."""
        from_array = self.namespace.from_array
        return [from_array(array, chunks=-1, name=False, asarray=False) for array in arrays]
