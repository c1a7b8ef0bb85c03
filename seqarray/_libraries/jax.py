"""JAX: immutable arrays, traced ones without values, slices that are copies, and 64-bit types on demand."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from seqarray._dtypes import STANDARD_TYPES
from seqarray._libraries.base import NO_KEY, Array, Device, HostArray, Library, PytreeNode


class JAX(Library):
    """JAX; its namespace is `jax.numpy`."""

    name = "jax"
    engine_module = "seqarray._engines.jax"
    slices_are_copies = True
    is_writable = False

    @property
    def _jax(self) -> Any:
        """The module jax."""
        return sys.modules["jax"]

    @classmethod
    def register_pytree(cls, node: PytreeNode) -> bool:
        if "jax" not in sys.modules:
            return False
        tree_util = importlib.import_module("jax.tree_util")
        importlib.import_module("jax.extend.core")
        tree_util.register_pytree_with_keys(
            node.node_type,
            partial(node.flatten_with_keys, tree_util.SequenceKey),
            lambda context, leaves: node.unflatten(leaves, context),
            node.flatten,
        )
        export: Any = sys.modules.get("jax.export")
        if hasattr(export, "register_pytree_node_serialization"):  # since jax 0.4.35
            export.register_pytree_node_serialization(
                node.node_type,
                serialized_name=node.name,
                serialize_auxdata=lambda context: node.dump(context).encode(),
                deserialize_auxdata=lambda data: node.restore(data.decode()),
            )
        return True

    def kind_key(self, array: Array) -> Any:
        if self.is_lazy(array) or len(array.sharding.device_set) > 1:
            return NO_KEY
        return array.dtype, array.device

    def common_key(self, arrays: Sequence[Array], to_join: bool = False) -> Any:
        """Return what fixes the kind of arrays of one type, dtype and set of devices, which their shardings tell."""
        first, count = arrays[0], len(arrays)
        if self.is_lazy(first) or list(map(type, arrays)).count(type(first)) != count:
            return super().common_key(arrays, to_join)
        if [array.dtype for array in arrays].count(first.dtype) != count:
            return None
        devices = first.sharding.device_set
        alike = all(sharding.device_set == devices for sharding in {array.sharding for array in arrays})
        return self.kind_key(first) if alike else None

    def is_lazy(self, array: Array) -> bool:
        return isinstance(array, self._jax.core.Tracer)

    def within_trace_of(self, array: Array) -> AbstractContextManager[Any]:
        # jax.jvp takes results apart when the trace that they belong to is no longer the current one.
        core, trace = self._jax.extend.core, getattr(array, "_trace", None)
        return core.set_current_trace(trace) if trace is not None else nullcontext()

    def memory_of(self, array: Array) -> Iterator[tuple[int, int]]:
        yield from ()

    # Devices.

    def _as_device(self, device: Device) -> Device:
        jax = self._jax
        if isinstance(device, str):
            platform, _, number = device.partition(":")
            return jax.devices(platform)[int(number or 0)]
        if isinstance(device, int):
            devices = jax.devices()
            if not 0 <= device < len(devices):
                raise ValueError(f"it has {len(devices)}")
            return devices[device]
        if isinstance(device, jax.sharding.Sharding):
            # Arrays on one device report the device.
            return device if len(device.device_set) > 1 else next(iter(device.device_set))
        if not isinstance(device, jax.Device):
            raise ValueError("expected a device, a sharding, a number or a name such as 'cpu:0'")
        return device

    def is_on(self, array: Array, device: Device) -> bool:
        if isinstance(device, self._jax.sharding.Sharding):
            return bool(array.sharding.is_equivalent_to(device, array.ndim))
        return super().is_on(array, device)

    def device_of_scalars(self, device: Device) -> Device:
        """Return a device; all of the devices of a sharding, which has axes that a scalar lacks."""
        sharding = self._jax.sharding
        if not isinstance(device, sharding.Sharding):
            return device
        devices = np.asarray(sorted(device.device_set, key=lambda one: one.id))
        mesh = device.mesh if isinstance(device, sharding.NamedSharding) else sharding.Mesh(devices, ("devices",))
        return sharding.NamedSharding(mesh, sharding.PartitionSpec())

    def device_name(self, device: Device) -> Any:
        return f"{device.platform}:{device.id}" if hasattr(device, "platform") else None

    def devices(self) -> list[Device]:
        return list(self._jax.devices())

    def on_device(self, device: Device) -> AbstractContextManager[Any]:
        """Return a context in which arrays that are not committed to a device give results on theirs."""
        jax = self._jax
        return jax.default_device(device) if isinstance(device, jax.Device) else nullcontext()

    # Dtypes.

    def _hint_for(self, element_type: str) -> str:
        return "; set jax_enable_x64" if element_type in STANDARD_TYPES else super()._hint_for(element_type)

    # To and from the host, and between devices.

    def is_viewed_by_host(self, device: Device) -> bool:
        # An array on several devices has no memory of its own for all of its values.
        return device is None or getattr(device, "platform", None) == "cpu"

    def to_host(self, arrays: Sequence[Array], *, copy: bool | None, operator: str) -> list[HostArray]:
        """Return copies, or with ``copy=False`` read-only views: jax's memory must not be written to."""
        return [np.asarray(array) if copy is False else np.array(array) for array in arrays]

    def from_host(
        self, arrays: Sequence[HostArray], dtype: Any, device: Device, *, copy: bool | None, operator: str
    ) -> list[Array]:
        make = self._jax.numpy.array
        # jax may alias the memory of a NumPy array, and reads it asynchronously: the array is copied, and the copy is
        # finished before its owner can write to it.
        moved = [make(array, dtype=dtype, copy=True, device=device) for array in arrays]
        return list(self._jax.block_until_ready(moved))

    def to_device(self, arrays: Sequence[Array], device: Device) -> list[Array]:
        return [self._jax.device_put(array, device) for array in arrays]
