"""Every library without a class of its own, whose arrays and namespace may lack what the standard leaves optional."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import pairwise, product
from math import isnan
from typing import Any

import array_api_compat
import numpy as np

from seqarray._dtypes import STANDARD_TYPES, element_type_of, native
from seqarray._libraries.base import Array, Device, HostArray, Library

#: What libraries and NumPy raise where arrays cannot be exported or converted.
_REFUSALS = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)
#: The number of the CPU among DLPack's device types.
_DLPACK_CPU = 1
_ALL_MEMORY = (0, 1 << 64)


class Other(Library):
    """A library that follows the standard as far as it does; what it lacks is told from its arrays and functions."""

    may_slice_into_others = True

    def __init__(self, namespace: Any) -> None:
        super().__init__(namespace)
        self._takes_copy, self._takes_device = (_takes(namespace.asarray, name) for name in ("copy", "device"))

    # Arrays.

    def is_own(self, value: Any) -> bool:
        return bool(
            array_api_compat.is_array_api_obj(value) and array_api_compat.array_namespace(value) is self.namespace
        )

    def copy_of(self, array: Array) -> Array:
        return self._copied(array)

    def _copied(self, values: Any, **options: Any) -> Array:
        """Return values as a new array."""
        if self._takes_copy:
            return self.namespace.asarray(values, copy=True, **options)
        return self.namespace.asarray(deepcopy(values), **options)

    def converted(self, array: Array, dtype: Any) -> Array:
        if hasattr(self.namespace, "astype"):
            return super().converted(array, dtype)
        return self._copied(array, dtype=dtype)

    def filled(self, shape: tuple[int, ...], fill: HostArray, dtype: Any, device: Device) -> Array:
        return self._copied(np.full(shape, fill), dtype=dtype, **self.creation_options(device))

    def taken(self, array: Array, rows: HostArray, device: Device) -> Array:
        """Return rows of an array; of lazy ones by slices: cubed takes as many as there are in their own order."""
        if hasattr(self.namespace, "take") and not self.is_lazy(array):
            return super().taken(array, rows, device)
        bounds = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        pieces = [array[int(rows[start]) : int(rows[stop - 1]) + 1, ...] for start, stop in pairwise(bounds) if stop]
        if len(pieces) < 2:
            return self._copied(pieces[0] if pieces else array[:0, ...])
        return self.namespace.concat([self.namespace.asarray(piece) for piece in pieces], axis=0)

    def is_lazy(self, array: Array) -> bool:
        """Return whether an array has to be computed, for which lazy libraries have a method."""
        return hasattr(array, "compute")

    def has_masked_values(self, array: Array) -> bool:
        mask = getattr(array, "mask", None)
        return array_api_compat.is_array_api_obj(mask) and bool(_host_copy(mask).any())

    def memory_of(self, array: Array) -> Iterator[tuple[int, int]]:
        """Yield where an array lies; all memory, if it does not tell."""
        try:
            yield np.lib.array_utils.byte_bounds(np.from_dlpack(array))
        except _REFUSALS:
            yield _ALL_MEMORY

    # Devices.

    def device_of(self, array: Array) -> Device:
        """Return the device of an array; None if it has no such attribute."""
        return super().device_of(array) if hasattr(array, "device") else None

    def creation_options(self, device: Device) -> dict[str, Any]:
        return super().creation_options(device) if self._takes_device else {}

    def _as_device(self, device: Device) -> Device:
        if not self._takes_device:
            raise ValueError("its asarray takes no device")
        return device

    # Dtypes.

    def can_hold(self, element_type: str, device: Device = None) -> bool:
        if hasattr(self.namespace, "__array_namespace_info__") or element_type not in STANDARD_TYPES:
            return super().can_hold(element_type, device)
        return self._dtype_for(element_type) is not None

    def _dtype_for(self, element_type: str) -> Any:
        """Return a dtype of the namespace, or of the package that it is part of; None if neither has it."""
        package = sys.modules.get(self.name.partition(".")[0])
        names = ("bool", "bool_") if element_type == "bool" else (element_type,)
        for module, name in product((self.namespace, package), names):
            if hasattr(module, name):
                dtype = getattr(module, name)
                return np.dtype(dtype) if isinstance(dtype, type) else dtype
        return None

    # To and from the host.

    def check_known(self, arrays: Sequence[Array], *, operator: str) -> None:
        """Check nothing: `to_host` computes the values, or says why they cannot be read."""

    def to_host(self, arrays: Sequence[Array], *, copy: bool | None, operator: str) -> list[HostArray]:
        if any(map(self.has_masked_values, arrays)):
            raise TypeError(
                f"{operator}: an array of {self.name} has masked values, and NumPy arrays have no masks; "
                f"fill them first, with a function of {self.name}"
            )
        try:
            return list(map(_host_copy, arrays))
        except TypeError as error:
            raise TypeError(
                f"{operator}: NumPy cannot read arrays of {self.name}: {error}; "
                f"convert them first, with a function of {self.name}"
            ) from error

    def from_host(
        self, arrays: Sequence[HostArray], dtype: Any, device: Device, *, copy: bool | None, operator: str
    ) -> list[Array]:
        options = self.creation_options(device)
        return [self._copied(array.astype(native(array.dtype), copy=False), dtype=dtype, **options) for array in arrays]


def _takes(function: Any, name: str) -> bool:
    """Return whether a function has a parameter; True if it does not tell its parameters."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _host_copy(array: Array) -> HostArray:
    """Return the values of an array; raise a TypeError if NumPy reads anything else from it, or nothing."""
    reasons = []
    for read in (_by_dlpack, np.asarray) if hasattr(array, "__dlpack__") else (np.asarray,):
        try:
            values = read(array)
        except _REFUSALS as error:
            reasons.append(f"{error}")
            continue
        if _is_like(values, array):
            return np.array(values)
        reasons.append(f"{read.__name__.strip('_')} gives shape {values.shape} and dtype {values.dtype}")
    raise TypeError(f"{type(array).__name__} of shape {tuple(array.shape)}, {array.dtype}: {'; '.join(reasons)}")


def _by_dlpack(array: Array) -> HostArray:
    """Return the values of an array that exports them, as NumPy sees them or on other devices as a copy."""
    on_cpu = array.__dlpack_device__()[0] == _DLPACK_CPU
    return np.from_dlpack(array if on_cpu else _ToHost(array))


class _ToHost:
    """An array that exports its values to the CPU; NumPy 2.0 does not ask for a device."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**(options | {"dl_device": (_DLPACK_CPU, 0)}))

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CPU, 0


def _is_like(values: HostArray, array: Array) -> bool:
    """Return whether values have the element type and the shape of an array, as far as the shape is known."""
    shape = tuple(array.shape)
    return (
        element_type_of(values.dtype) == element_type_of(array.dtype)
        and len(values.shape) == len(shape)
        and all(known is None or isnan(known) or n == known for n, known in zip(values.shape, shape, strict=True))
    )
