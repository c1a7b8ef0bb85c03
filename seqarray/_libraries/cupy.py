"""CuPy: it allocates and computes on the current device only, and its devices are not hashable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import numpy as np

from seqarray._dtypes import extension_dtype
from seqarray._libraries.base import NO_KEY, Array, Device, HostArray, Library


class CuPy(Library):
    """CuPy."""

    name = "cupy"
    engine_module = "seqarray._engines.cupy"
    takes_out = True
    has_packing_engine = True
    pickles_on_host = True

    def kind_key(self, array: Array) -> Any:
        dtype = array.dtype
        # Structured dtypes are without number, and equal ones may differ in their metadata.
        return NO_KEY if dtype.type is np.void or dtype.metadata is not None else (dtype, array.data.device_id)

    def common_key(self, arrays: Sequence[Array], to_join: bool = False) -> Any:
        """Return what fixes the kind of arrays of one type, dtype and device; the engine itself compares devices."""
        first, count = arrays[0], len(arrays)
        alike = (
            list(map(type, arrays)).count(type(first)) == count
            and [array.dtype for array in arrays].count(first.dtype) == count
            and (
                (to_join and self.engine.compares_elements)
                or [array.data.device_id for array in arrays].count(first.data.device_id) == count
            )
        )
        return self.kind_key(first) if alike else None

    def own_view(self, array: Array) -> Array:
        return array.view()

    def memory_of(self, array: Array) -> Iterator[tuple[int, int]]:
        memory = array.data.mem
        yield memory.ptr, memory.ptr + memory.size

    def held_memory(self, array: Array) -> tuple[Any, int]:
        memory = array.data.mem
        return (memory.device_id, memory.ptr or id(array)), int(memory.size)

    def reshaped(self, array: Array, shape: tuple[int, ...]) -> Array:
        return array.reshape(shape)

    # Devices.

    def device_of(self, array: Array) -> Device:
        return array.device

    def _as_device(self, device: Device) -> Device:
        if isinstance(device, str):
            platform, _, number = device.partition(":")
            if platform != "cuda" or not (number or "0").isdecimal():
                raise ValueError("expected a number, 'cuda' or 'cuda:0'")
            device = int(number or 0)
        index: Any = getattr(device, "id", device)
        count = self.namespace.cuda.runtime.getDeviceCount()
        if not 0 <= index < count:
            raise ValueError(f"there {'is' if count == 1 else 'are'} {count}")
        return self.namespace.cuda.Device(index)

    def device_name(self, device: Device) -> Any:
        return None if device is None else device.id

    def devices(self) -> list[Device]:
        return [self.namespace.cuda.Device(index) for index in range(self.namespace.cuda.runtime.getDeviceCount())]

    def why_unusable(self) -> str:
        """Return why nothing can be computed; run a kernel to find out, since CuPy can be imported without a GPU."""
        try:
            if not self.namespace.cuda.is_available():
                return "no CUDA driver or device"
            np.testing.assert_equal((self.namespace.arange(2) + 1).get(), [1, 2])
        except Exception as error:  # drivers, compilers and devices raise errors of many types
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return ""

    def default_device(self, cuda_index: int | None, *, operator: str) -> Device:
        if cuda_index is not None:
            return cuda_index
        try:
            return self.namespace.cuda.Device()
        except Exception as error:  # a missing driver or device raises errors of many types
            raise ValueError(f"{operator}: {self.name} has no usable device: {error}") from None

    def cuda_index(self, device: Device) -> int | None:
        return None if device is None else int(device.id)

    def on_device(self, device: Device) -> AbstractContextManager[Any]:
        """Return a context in which a device is current: CuPy allocates there, whatever `device=` or the inputs are."""
        if device is None:
            return nullcontext()
        entered: AbstractContextManager[Any] = device
        return entered

    # Dtypes.

    def can_hold(self, element_type: str, device: Device = None) -> bool:
        if element_type == "bfloat16":
            return extension_dtype(element_type) is not None
        return super().can_hold(element_type, device)

    def _dtype_for(self, element_type: str) -> Any:
        if element_type == "bfloat16":
            return extension_dtype(element_type)
        return super()._dtype_for(element_type)

    def finish(self, device: Device) -> None:
        with device:
            self.namespace.cuda.get_current_stream().synchronize()

    # To and from the host, and between devices: in the order of the current streams.

    def is_on_host(self, device: Device) -> bool:
        return False

    def is_row_major(self, array: Array) -> bool:
        return bool(array.flags.c_contiguous)

    def staging_memory(self, shape: tuple[int, ...], dtype: Any) -> HostArray:
        """Return pinned memory, from which a device can read at any time."""
        count = prod(shape)
        memory = self.namespace.cuda.alloc_pinned_memory(count * dtype.itemsize)
        return np.frombuffer(memory, dtype, count).reshape(shape)

    def to_host(self, arrays: Sequence[Array], *, copy: bool | None, operator: str) -> list[HostArray]:
        return [self._downloaded(array) for array in arrays]

    def _downloaded(self, array: Array) -> HostArray:
        with array.device:
            host: HostArray = array.get()
        return host

    def from_host(
        self, arrays: Sequence[HostArray], dtype: Any, device: Device, *, copy: bool | None, operator: str
    ) -> list[Array]:
        with device:
            return [self._uploaded(array) for array in arrays]

    def _uploaded(self, pinned: HostArray) -> Array:
        """Return a copy of a row-major array in staging memory."""
        result = self._empty(pinned)
        if pinned.size:
            cuda = self.namespace.cuda
            stream = cuda.get_current_stream()
            result.data.copy_from_host_async(pinned.ctypes.data, pinned.nbytes, stream)
            # CuPy's pool must not reuse the memory before it has been read.
            cuda.pinned_memory._add_to_watch_list(stream.record(), pinned)
        return result

    def _empty(self, like: Array) -> Array:
        """Return an uninitialised array on the current device: `cupy.empty` refuses dtypes such as float8."""
        return self.namespace.ndarray(like.shape, like.dtype, self.namespace.cuda.alloc(like.nbytes))

    def to_device(self, arrays: Sequence[Array], device: Device) -> list[Array]:
        return [self._sent(array, device) for array in arrays]

    def _sent(self, array: Array, device: Device) -> Array:
        """Return a copy of a row-major array on another device."""
        current_stream = self.namespace.cuda.get_current_stream
        with device:
            result, stream = self._empty(array), current_stream()
            ready = stream.record()
        with array.device:
            own = current_stream()
            own.wait_event(ready)
            if array.size:
                result.data.copy_from_device_async(array.data, array.nbytes, own)
            copied = own.record()
        with device:
            stream.wait_event(copied)
        return result
