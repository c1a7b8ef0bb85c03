"""NumPy: arrays in host memory, between which and other libraries arrays are converted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from seqarray._libraries.base import NO_KEY, Array, Device, HostArray, NumPyDtypes

_ndarray = np.ndarray

#: In lists up to this length, one loop over the arrays is faster than a pass for each property.
_LOOK_AT_EACH = 32


class NumPy(NumPyDtypes):
    """NumPy."""

    name = "numpy"
    engine_module = "seqarray._engines.numpy"
    takes_out = True

    def common_key(self, arrays: Sequence[Array], to_join: bool = False) -> Any:
        """Return the dtype of plain NumPy arrays; np.concatenate compares dtypes of numbers itself.

        A subclass may have rules of its own, so types are compared with `numpy.ndarray`.
        """
        dtype, count = arrays[0].dtype, len(arrays)
        if count <= _LOOK_AT_EACH:
            for array in arrays:
                if type(array) is not _ndarray or array.dtype is not dtype:
                    return None
            return dtype
        if list(map(type, arrays)).count(_ndarray) != count:
            return None
        compared_by_join = to_join and self.engine.compares_elements and dtype.kind in "biufc" and dtype.isnative
        return dtype if compared_by_join or [array.dtype for array in arrays].count(dtype) == count else None

    def kind_key(self, array: Array) -> Any:
        dtype = array.dtype
        return dtype if type(array) is _ndarray and dtype.kind in "biufc" and dtype.metadata is None else NO_KEY

    def device_of(self, array: Array) -> Device:
        return "cpu"

    def own_view(self, array: Array) -> Array:
        return array.view()

    def is_read_only(self, array: Array) -> bool:
        return not array.flags.writeable

    def is_viewed_by_host(self, device: Device) -> bool:
        return True

    def is_row_major(self, array: Array) -> bool:
        return bool(array.flags.c_contiguous)

    def memory_of(self, array: Array) -> Iterator[tuple[int, int]]:
        yield np.lib.array_utils.byte_bounds(array)

    def held_memory(self, array: Array) -> tuple[Any, int]:
        """Return the object that owns the memory of an array, and its size.

        The base of an array is another array, or what the last one was made of: a buffer, or an owner that does not
        tell its size but is seen as a whole by that last array.
        """
        owner: Any = array
        while isinstance(owner, _ndarray) and owner.base is not None:
            array, owner = owner, owner.base
        if isinstance(owner, _ndarray):
            return id(owner), owner.nbytes
        try:
            with memoryview(owner) as memory:
                return id(owner), memory.nbytes
        except (TypeError, ValueError):
            return id(owner), int(array.nbytes)

    def to_host(self, arrays: Sequence[Array], *, copy: bool | None, operator: str) -> list[HostArray]:
        return [array.copy() for array in arrays] if copy is True else list(arrays)

    def from_host(
        self, arrays: Sequence[HostArray], dtype: Any, device: Device, *, copy: bool | None, operator: str
    ) -> list[Array]:
        return self.to_host(arrays, copy=copy, operator=operator)
