"""array-api-strict: devices that are objects, made from their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from seqarray._libraries.base import Array, Device, HostArray, Library


class ArrayAPIStrict(Library):
    """array-api-strict."""

    name = "array_api_strict"

    def _as_device(self, device: Device) -> Device:
        if isinstance(device, str):
            return self.namespace.Device(device)
        if not isinstance(device, self.namespace.Device):
            raise ValueError("expected a Device, or its name")
        return device

    def memory_of(self, array: Array) -> Iterator[tuple[int, int]]:
        yield np.lib.array_utils.byte_bounds(np.from_dlpack(self._on_cpu(array)))

    def to_host(self, arrays: Sequence[Array], *, copy: bool | None, operator: str) -> list[HostArray]:
        return [np.array(self._on_cpu(array)) for array in arrays]

    def _on_cpu(self, array: Array) -> Array:
        return array.to_device(self.namespace.Device("CPU_DEVICE"))
