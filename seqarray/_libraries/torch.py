"""PyTorch: dtypes that it holds but does not list, gradients, lazy conjugates, views of whole storages."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from seqarray._dtypes import ONNX_TYPES, element_type_of, extension_dtype, native
from seqarray._libraries.base import Array, Device, HostArray, Library, PytreeNode

#: Element types whose dtypes torch and NumPy exchange; other types are exchanged as integers of their bits.
_EXCHANGED = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)

#: In lists up to this length, one loop over the tensors is faster than a pass for each property.
_LOOK_AT_EACH = 16

#: Element types for which torch has dtypes, but no functions, not even a copy.
_NAMES_ONLY = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8))

#: Element types that `pickle` cannot restore tensors of.
_WITHOUT_STORAGES = frozenset(
    "uint16 uint32 uint64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu".split()
)


class Torch(Library):
    """PyTorch, on every device that it has."""

    name = "torch"
    engine_module = "seqarray._engines.torch"
    has_negative_steps = False
    takes_out = True

    def __init__(self, namespace: Any) -> None:
        super().__init__(namespace)
        #: The module torch; the namespace is array-api-compat's wrapper of it.
        self._torch = torch = sys.modules["torch"]
        self._strided = torch.strided
        self._names_only = {getattr(torch, name) for name in _NAMES_ONLY if hasattr(torch, name)}

    @classmethod
    def register_pytree(cls, node: PytreeNode) -> bool:
        if "torch" not in sys.modules:
            return False
        pytree = importlib.import_module("torch.utils._pytree")
        pytree.register_pytree_node(
            node.node_type,
            node.flatten,
            node.unflatten,
            serialized_type_name=node.name,
            to_dumpable_context=node.dump,
            from_dumpable_context=node.restore,
            flatten_with_keys_fn=partial(node.flatten_with_keys, pytree.SequenceKey),
        )
        return True

    # Arrays.

    def kind_key(self, array: Array) -> Any:
        # Most are on the CPU, where the object for the device takes longer than the rest.
        return array.dtype if array.is_cpu else (array.dtype, array.device)

    def common_key(self, arrays: Sequence[Array], to_join: bool = False) -> Any:
        """Return what fixes the kind of tensors of one type, dtype, device and layout.

        The engine compares devices and layouts itself.
        """
        first, count = arrays[0], len(arrays)
        dtype, tensor_type = first.dtype, type(first)
        if count <= _LOOK_AT_EACH:
            for array in arrays[1:]:
                if type(array) is not tensor_type or array.dtype is not dtype:
                    return None
        elif (
            list(map(type, arrays)).count(tensor_type) != count
            or [array.dtype for array in arrays].count(dtype) != count
        ):
            return None
        if first.layout is not self._strided or first.is_nested or dtype in self._names_only:
            return None
        compared_by_join = to_join and self.engine.compares_elements
        if compared_by_join or (
            [array.layout for array in arrays].count(self._strided) == count
            and True not in [array.is_nested for array in arrays]
            and self._are_on_one_device(arrays)
        ):
            return dtype if first.is_cpu else self.kind_key(first)
        return None

    def _are_on_one_device(self, arrays: Sequence[Array]) -> bool:
        # Every tensor makes an object for its device.
        if arrays[0].is_cpu:
            return False not in [array.is_cpu for array in arrays]
        return [array.device for array in arrays].count(arrays[0].device) == len(arrays)

    def can_slice_at_once(self, array: Array) -> bool:
        # Those of a tensor that requires a gradient could not be written into.
        return not array.requires_grad and not self._torch.compiler.is_compiling()

    def slices(self, array: Array, axis: int, sizes: Sequence[int], dropped: bool) -> Sequence[Array]:
        views: Sequence[Array] = array.unbind(axis) if dropped else self._torch.split(array, sizes, axis)
        return views

    def why_refused(self, array: Array) -> str:
        """Return why a tensor cannot be an element: sparse and nested ones share their class with dense ones."""
        if array.is_nested:
            return "a nested tensor is not supported; pass a dense tensor"
        if array.layout is not self._strided:
            return f"a tensor of layout {array.layout} is not supported; pass a dense tensor"
        if array.dtype in self._names_only:
            return f"torch can neither copy nor join tensors of {array.dtype}"
        return ""

    def own_view(self, array: Array) -> Array:
        # Chunks are cut when they are asked for, where gradients may be on again.
        if array.requires_grad and not self._torch.is_grad_enabled():
            return array.detach()
        return array[...]

    def copy_of(self, array: Array) -> Array:
        return array.clone()

    def is_lazy(self, array: Array) -> bool:
        return bool(array.device.type == "meta")

    def check_known(self, arrays: Sequence[Array], *, operator: str) -> None:
        if any(map(self.is_lazy, arrays)):
            raise TypeError(f"{operator}: tensors on torch's meta device have no values to move")

    def memory_of(self, array: Array) -> Iterator[tuple[int, int]]:
        storage = array.untyped_storage()
        yield storage.data_ptr(), storage.data_ptr() + storage.nbytes()

    def held_memory(self, array: Array) -> tuple[Any, int]:
        if self.is_lazy(array) or not hasattr(array, "untyped_storage"):
            return super().held_memory(array)
        storage = array.untyped_storage()
        return storage.data_ptr() or id(array), int(storage.nbytes())

    def is_part_of_larger(self, array: Array) -> bool:
        """Return whether a tensor is a view of a larger storage, all of which torch would pickle."""
        return hasattr(array, "untyped_storage") and array.untyped_storage().nbytes() > array.nbytes

    def is_only_values(self, array: Array) -> bool:
        return not array.requires_grad and type(array) is self._torch.Tensor

    def alone(self, array: Array) -> Array:
        return array.detach().clone().requires_grad_(array.requires_grad) if array.is_leaf else array.clone()

    def to_pickle(self, array: Array) -> Any:
        plain = type(array) is self._torch.Tensor
        return _Pickled(array) if plain and element_type_of(array.dtype) in _WITHOUT_STORAGES else array

    def has_repeated_items(self, array: Array) -> bool:
        return any(stride == 0 and length > 1 for stride, length in zip(array.stride(), array.shape, strict=True))

    def join_into(self, out: Array, arrays: Sequence[Array], axis: int, stack: bool) -> Array:
        torch = self._torch
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*arrays, out)):
            raise ValueError("concat_from_sequence: out= does not go with tensors that require a gradient")
        join = torch.stack if stack else torch.cat
        # Under torch.compile, tensors have no addresses to compare.
        if (
            torch.compiler.is_compiling()
            or any(_storage(tensor) == _storage(out) for tensor in arrays)
            or _is_misread(out)
        ):
            return out.copy_(join(arrays, dim=axis))
        return join(arrays, dim=axis, out=out)

    def taken(self, array: Array, rows: HostArray, device: Device) -> Array:
        # torch selects from arrays of rank 1 for fewer dtypes.
        taken = super().taken(array[:, None] if array.ndim == 1 else array, rows, device)
        return taken[:, 0] if array.ndim == 1 else taken

    def reshaped(self, array: Array, shape: tuple[int, ...]) -> Array:
        return array.reshape(shape)

    def reshaped_result(self, array: Array, shape: tuple[int, ...]) -> Array:
        # Autograd restricts writes into views, so a result is none.
        if self._torch.compiler.is_compiling():
            return array.reshape(shape)
        return self._torch.ops.aten._unsafe_view.default(array, shape)

    # Devices.

    def device_of(self, array: Array) -> Device:
        return array.device

    def _as_device(self, device: Device) -> Device:
        # Make a tensor: torch accepts names of missing devices; and the tensor's device is "cuda:0" for "cuda".
        return self._torch.empty(0, device=device).device

    def device_name(self, device: Device) -> Any:
        return None if device is None else str(device)

    def devices(self) -> list[Device]:
        return ["cpu", *(f"cuda:{index}" for index in range(self._torch.cuda.device_count()))]

    def default_device(self, cuda_index: int | None, *, operator: str) -> Device:
        return "cpu" if cuda_index is None else f"cuda:{cuda_index}"

    def cuda_index(self, device: Device) -> int | None:
        return int(device.index) if device.type == "cuda" else None

    def finish(self, device: Device) -> None:
        if self.cuda_index(device) is not None:
            self._torch.cuda.current_stream(device).synchronize()

    # Dtypes.

    def can_hold(self, element_type: str, device: Device = None) -> bool:
        # torch does not list these types, since it has few functions for them; it can hold, join and split them.
        if element_type in ("uint16", "uint32", "uint64"):
            return True
        return element_type not in _NAMES_ONLY and super().can_hold(element_type, device)

    # To and from the host, and between devices.

    def is_on_host(self, device: Device) -> bool:
        return bool(device.type in ("cpu", "meta"))

    def is_viewed_by_host(self, device: Device) -> bool:
        return device is None or bool(device.type == "cpu")

    def views_host(self, device: Device) -> bool:
        return device is None or bool(device.type == "cpu")

    def is_row_major(self, array: Array) -> bool:
        return bool(array.is_contiguous())

    def why_not_movable(self, array: Array, copy: bool | None) -> str:
        if array.requires_grad:
            return "requires a gradient, which would be lost; move its detach() instead"
        if copy is False and (array.is_conj() or array.is_neg()):
            return "is conjugated or negated lazily, so moving it takes a copy; pass copy=None"
        return ""

    def is_differentiated(self, array: Array) -> bool:
        return bool(array.requires_grad and self._torch.is_grad_enabled())

    def resolved(self, array: Array) -> Array:
        """Return a tensor that is not conjugated or negated lazily."""
        return array.resolve_conj().resolve_neg()

    def to_host(self, arrays: Sequence[Array], *, copy: bool | None, operator: str) -> list[HostArray]:
        return [self._as_ndarray(array, copy, operator) for array in arrays]

    def _as_ndarray(self, tensor: Array, copy: bool | None, operator: str) -> HostArray:
        tensor = self.resolved(tensor.detach().cpu())
        bits = _bits(tensor.dtype)
        try:
            array: HostArray = tensor.numpy() if bits is None else tensor.view(getattr(self._torch, bits)).numpy()
        except RuntimeError as error:  # a tensor of `vmap`, a fake one, or one of a subclass with rules of its own
            raise TypeError(f"{operator}: the values of a {type(tensor).__name__} cannot be read: {error}") from error
        if bits is not None:
            name = element_type_of(tensor.dtype)
            dtype = extension_dtype(name)
            if dtype is None:
                raise TypeError(f"{operator}: numpy cannot hold {name}; install ml_dtypes")
            array = array.view(dtype)
        return array.copy() if copy is True else array

    def from_host(
        self, arrays: Sequence[HostArray], dtype: Any, device: Device, *, copy: bool | None, operator: str
    ) -> list[Array]:
        return [self._as_tensor(array, dtype, copy, operator).to(device) for array in arrays]

    def _as_tensor(self, array: HostArray, dtype: Any, copy: bool | None, operator: str) -> Array:
        reason = _why_no_tensor(array)
        if reason and copy is False:
            raise ValueError(f"{operator}: an array {reason}, so torch needs a copy; pass copy=None or copy=True")
        if reason or copy is True:
            array = np.array(array, dtype=native(array.dtype), order="C")
        bits = _bits(array.dtype)
        if bits is None:
            return self._torch.from_numpy(array)
        return self._torch.from_numpy(array.view(bits)).view(dtype)

    def pinned(self, arrays: Sequence[Array], *, operator: str) -> list[Array]:
        try:
            return [array.pin_memory() if array.device.type == "cpu" else array for array in arrays]
        except RuntimeError as error:
            raise ValueError(f"{operator}: torch cannot lock memory here: {error}") from error

    def to_device(self, arrays: Sequence[Array], device: Device) -> list[Array]:
        return [array.to(device) for array in arrays]


def _storage(tensor: Array) -> int:
    """Return the address of the storage of a tensor."""
    return int(tensor.untyped_storage().data_ptr())


def _is_misread(out: Array) -> bool:
    """Return whether torch.cat may write nothing into a tensor: it takes the strides of axes of length 1 seriously."""
    step, others = 1, False
    for length, stride in zip(reversed(out.shape), reversed(out.stride()), strict=True):
        others = others or stride != step
        step *= length
    return others and 1 in out.shape


class _Pickled:
    """A tensor in a pickle, where torch leaves out the dtype of those that have no class of storages."""

    def __init__(self, tensor: Array) -> None:
        self.tensor = tensor

    def __reduce__(self) -> tuple[Any, ...]:
        tensor = self.tensor
        bits = tensor.detach().view(getattr(sys.modules["torch"], f"int{8 * tensor.itemsize}"))
        return _from_bits, (bits, tensor.dtype, tensor.requires_grad)


def _from_bits(bits: Array, dtype: Any, requires_grad: bool) -> Array:
    tensor = bits.view(dtype)
    return tensor.requires_grad_() if requires_grad else tensor


def _bits(dtype: Any) -> str | None:
    """Return the integer type of the same size for a dtype that is not exchanged, such as bfloat16; None for others."""
    name = element_type_of(dtype)
    return None if name in _EXCHANGED or name not in ONNX_TYPES else f"int{8 * ONNX_TYPES[name].itemsize}"


def _why_no_tensor(array: HostArray) -> str:
    """Return why torch cannot share the memory of a NumPy array; "" if it can."""
    if not array.flags.writeable:
        return "is read-only"
    if not array.dtype.isnative:
        return f"has byte order {array.dtype.str!r}"
    if not array.flags.aligned or any(stride % array.itemsize for stride in array.strides):
        return "is not aligned"
    if any(stride < 0 for stride in array.strides):
        return "has negative strides"
    return ""
