"""What may differ between array libraries; the defaults follow the array API standard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from seqarray._dtypes import ONNX_TYPES, STANDARD_TYPES, extension_dtype, itemsize_of, native

Array = Any
Device = Any
HostArray = np.ndarray[Any, Any]


#: What users give in place of a device.
_LIBRARY_NAMES = ("array_api_strict", "cupy", "dask", "jax", "numpy", "torch")


class PytreeNode(NamedTuple):
    """A container that takes part in pytrees, as it is registered.

    Attributes
    ----------
    node_type : type
        The container.
    flatten, unflatten : callable
        To its leaves and a context that can be hashed, and from these to another one.
    dump, restore : callable
        From a context to text, for files of exported programs, and back.
    """

    node_type: type
    flatten: Callable[[Any], tuple[list[Any], Any]]
    unflatten: Callable[[Iterable[Any], Any], Any]
    dump: Callable[[Any], str]
    restore: Callable[[str], Any]

    @property
    def name(self) -> str:
        """What files of exported programs call it."""
        return f"seqarray.{self.node_type.__name__}"

    def flatten_with_keys(self, key: Callable[[int], Any], node: Any) -> tuple[list[tuple[Any, Any]], Any]:
        """Return the leaves, each with a key that is made of its place, and the context."""
        leaves, context = self.flatten(node)
        return [(key(place), leaf) for place, leaf in enumerate(leaves)], context


#: In place of a key: the kind of such an array is made anew each time.
NO_KEY = object()


class Library:
    """One array library.

    A library that deviates overrides what is different, in a file of its own, and is entered in `registry.LIBRARIES`.
    One that is not entered there needs no class: `other.Other` serves it.

    Attributes
    ----------
    namespace : module
        Its array API namespace.
    name : str
        What error messages call it.
    """

    name: str = ""
    #: The module that joins and splits its arrays, see `seqarray._engines`.
    engine_module = "seqarray._engines.standard"
    #: That module, once the library has been met.
    engine: Any = None
    #: Whether its dtypes are NumPy's.
    has_numpy_dtypes = False
    #: Whether a slice of an array is an array with memory of its own.
    slices_are_copies = False
    #: Whether a slice of an array may be no array of the library, see `is_own`.
    may_slice_into_others = False
    #: Whether arrays can be written into by whoever holds them.
    is_writable = True
    #: Whether arrays can be sliced with negative steps.
    has_negative_steps = True
    #: Whether `concat_from_sequence` can write its result into an array that is there.
    takes_out = False
    #: Whether its engine packs arrays of any shapes into one, see `Engine.pack`.
    has_packing_engine = False
    #: Whether arrays are pickled as NumPy arrays and unpickled on the device that they were on.
    pickles_on_host = False

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace
        #: Kinds that are made once, by `kind_key`, see `seqarray._kind`.
        self.kinds: dict[Any, Any] = {}
        self.name = self.name or name_of(namespace)

    def __repr__(self) -> str:
        return f"<Library {self.name}>"

    @classmethod
    def register_pytree(cls, node: PytreeNode) -> bool:
        """Register a container with the library's pytrees, if it has any and is imported; return whether it was."""
        return False

    # Arrays.

    def kind_key(self, array: Array) -> Any:
        """Return what fixes the kind of an array and has few values; `NO_KEY` if the kind is to be made anew."""
        return NO_KEY

    def why_refused(self, array: Array) -> str:
        """Return why an array cannot be an element, though its type can; "" if it can."""
        return ""

    def common_key(self, arrays: Sequence[Array], to_join: bool = False) -> Any:
        """Return the `kind_key` of arrays that agree in type, dtype and device at one quick look; None if they may not.

        With `to_join`, a library may leave out what its engine compares while it joins.
        """
        first, count = arrays[0], len(arrays)
        alike = (
            list(map(type, arrays)).count(type(first)) == count
            and [array.dtype for array in arrays].count(first.dtype) == count
            and not any(map(self.why_refused, arrays))
            and all(same_device(self.device_of(first), self.device_of(array)) for array in arrays)
        )
        return self.kind_key(first) if alike else None

    def own_view(self, array: Array) -> Array:
        """Return the same values as another array object, whose shape cannot be changed through the first."""
        return array

    def within_trace_of(self, array: Array) -> AbstractContextManager[Any]:
        """Return a context in which views of a traced array are traced with it, also after the traced function."""
        return nullcontext()

    def is_own(self, value: Any) -> bool:
        """Return whether a slice of an array is an array of this library."""
        return True

    def can_slice_at_once(self, array: Array) -> bool:
        """Return whether `slices` makes views of an array."""
        return False

    def slices(self, array: Array, axis: int, sizes: Sequence[int], dropped: bool) -> Sequence[Array]:
        """Return views of all of an array, consecutive along an axis, which they lack if it is `dropped`."""
        raise NotImplementedError

    def copy_of(self, array: Array) -> Array:
        """Return a copy of an array or a slice of one, on its device, which is current."""
        return self.namespace.asarray(array, copy=True)

    def converted(self, array: Array, dtype: Any) -> Array:
        """Return a copy of an array in another dtype."""
        return self.namespace.astype(array, dtype)

    def is_lazy(self, array: Array) -> bool:
        """Return whether the values of an array cannot be read now."""
        return False

    def has_masked_values(self, array: Array) -> bool:
        """Return whether values of an array are masked, which neither NumPy arrays nor Python numbers can be."""
        return False

    def memory_of(self, array: Array) -> Iterator[tuple[int, int]]:
        """Yield the intervals of addresses in which the values of an array lie, or the memory that they are part of.

        Nothing, if no other array can be changed through that memory.
        """
        yield np.lib.array_utils.byte_bounds(np.from_dlpack(array))

    def held_memory(self, array: Array) -> tuple[Any, int]:
        """Return the memory that an array keeps alive, as a key that identifies it, and its size in bytes."""
        return id(array), prod(array.shape) * itemsize_of(array.dtype)

    def is_part_of_larger(self, array: Array) -> bool:
        """Return whether a pickle of an array would contain more than its own values."""
        return False

    def is_only_values(self, array: Array) -> bool:
        """Return whether an array that is pickled as a part of another one is what it was."""
        return True

    def alone(self, array: Array) -> Array:
        """Return the like of an array that is a part of a larger one, with memory of its own."""
        return self.copy_of(array)

    def to_pickle(self, array: Array) -> Any:
        """Return what is pickled in place of an array, and is that array once it is unpickled."""
        return array

    def join_options(self, arrays: Sequence[Array]) -> dict[str, Any]:
        """Return what `concat` and `stack` of the namespace need besides the arrays and the axis."""
        return {}

    def join_into(self, out: Array, arrays: Sequence[Array], axis: int, stack: bool) -> Array:
        """Join arrays into one that is there."""
        out[...] = (self.namespace.stack if stack else self.namespace.concat)(arrays, axis=axis)
        return out

    def is_read_only(self, array: Array) -> bool:
        """Return whether an array, of a library that takes `out`, must not be written into."""
        return False

    def has_repeated_items(self, array: Array) -> bool:
        """Return whether several items of an array share their memory, as in broadcast ones."""
        return any(stride == 0 and length > 1 for stride, length in zip(array.strides, array.shape, strict=True))

    def filled(self, shape: tuple[int, ...], fill: HostArray, dtype: Any, device: Device) -> Array:
        """Return a new array that holds one value, given as a 0-d NumPy array."""
        return self.namespace.full(shape, fill.item(), dtype=dtype, **self.creation_options(device))

    def reshaped(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Return an array in another shape."""
        return self.namespace.reshape(array, shape)

    def reshaped_result(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Return a new row-major array, which is not used any more, in another shape."""
        return self.reshaped(array, shape)

    def taken(self, array: Array, rows: HostArray, device: Device) -> Array:
        """Return a new array of the rows of one on a device, whose numbers are given as a NumPy array."""
        numbers = self.namespace.asarray(rows, **self.creation_options(device))
        return self.namespace.take(array, numbers, axis=0)

    # Devices.

    def device_of(self, array: Array) -> Device:
        """Return the device of an array; None while it is being traced."""
        return array_api_compat.device(array)

    def is_on(self, array: Array, device: Device) -> bool:
        """Return whether an array is as moving it to a device would make it."""
        return same_device(self.device_of(array), device)

    def device_of_scalars(self, device: Device) -> Device:
        """Return where arrays of rank 0 go that belong to arrays on a device."""
        return device

    def as_device(self, device: Device, *, operator: str) -> Device:
        """Return a device in the form that arrays report, from any form in which users write it."""
        if device is None:
            return None
        try:
            return self._as_device(device)
        except Exception as error:  # each library has errors of its own for a device that is not there
            hint = (
                f"; a library is given by xp={device!r}" if isinstance(device, str) and device in _LIBRARY_NAMES else ""
            )
            raise ValueError(f"{operator}: {self.name} has no device {device!r}: {error}{hint}") from None

    def _as_device(self, device: Device) -> Device:
        return device

    def device_name(self, device: Device) -> Any:
        """Return a device in a form that can be pickled and hashed, and that `as_device` takes."""
        return device

    def devices(self) -> list[Device]:
        """Return the devices that can be used."""
        devices: list[Device] = self.namespace.__array_namespace_info__().devices()
        return devices

    def why_unusable(self) -> str:
        """Return why nothing can be computed though the library can be imported; "" if it can."""
        return ""

    def default_device(self, cuda_index: int | None, *, operator: str) -> Device:
        """Return where arrays go that are moved to this library, from a CUDA device if `cuda_index` is given."""
        return None

    def cuda_index(self, device: Device) -> int | None:
        """Return the number of a CUDA device; None for another one."""
        return None

    def creation_options(self, device: Device) -> dict[str, Any]:
        """Return what functions that create arrays are given, for arrays on a device."""
        return {} if device is None else {"device": device}

    def on_device(self, device: Device) -> AbstractContextManager[Any]:
        """Return a context in which results are allocated on a device; most libraries follow the inputs."""
        return nullcontext()

    def finish(self, device: Device) -> None:
        """Wait until a device has done what was launched on it, where that does not wait for itself."""

    # Dtypes.

    def can_hold(self, element_type: str, device: Device = None) -> bool:
        """Return whether arrays, on one of the devices, can be of an element type."""
        if element_type == "string":
            return False
        if element_type in STANDARD_TYPES:
            return element_type in self.namespace.__array_namespace_info__().dtypes(device=device, kind=None)
        return hasattr(self.namespace, element_type)

    def dtype_for(self, element_type: str, device: Device = None, *, operator: str) -> Any:
        """Return the dtype of an element type; raise a TypeError that names both where there is none."""
        if not self.can_hold(element_type, device):
            where = self.name + (f" on {device}" if device is not None else "")
            raise TypeError(f"{operator}: {where} cannot hold {element_type}{self._hint_for(element_type)}")
        return self._dtype_for(element_type)

    def _hint_for(self, element_type: str) -> str:
        return "; strings live on the CPU, in NumPy arrays" if element_type == "string" else ""

    def _dtype_for(self, element_type: str) -> Any:
        dtype = getattr(self.namespace, element_type)
        return np.dtype(dtype) if isinstance(dtype, type) else dtype

    def widest_integer(self, device: Device) -> Any:
        """Return int64, or int32 where a device holds nothing wider."""
        return self._dtype_for("int64" if self.can_hold("int64", device) else "int32")

    # To and from the host, and between devices.

    def is_on_host(self, device: Device) -> bool:
        """Return whether arrays on a device lie in the host's memory; others cross packed, in one transfer."""
        return True

    def is_viewed_by_host(self, device: Device) -> bool:
        """Return whether NumPy arrays can look at the memory of arrays on a device."""
        return False

    def views_host(self, device: Device) -> bool:
        """Return whether arrays on a device can look at the memory of NumPy arrays."""
        return False

    def is_row_major(self, array: Array) -> bool:
        """Return whether an array that crosses into another memory lies without gaps in row-major order."""
        return True

    def wraps(self, other: Library) -> bool:
        """Return whether arrays of this library can be made around those of another, wherever they lie."""
        return False

    def why_not_movable(self, array: Array, copy: bool | None) -> str:
        """Return what keeps another library from having the values of an array, "" if nothing does."""
        return ""

    def is_differentiated(self, array: Array) -> bool:
        """Return whether what is computed of an array now gets a gradient."""
        return False

    def resolved(self, array: Array) -> Array:
        """Return an array whose memory holds its values as they are."""
        return array

    def to_host(self, arrays: Sequence[Array], *, copy: bool | None, operator: str) -> list[HostArray]:
        """Return NumPy arrays with the values of arrays, in the NumPy dtypes of the same element types."""
        return [np.array(array) for array in arrays]

    def from_host(
        self, arrays: Sequence[HostArray], dtype: Any, device: Device, *, copy: bool | None, operator: str
    ) -> list[Array]:
        """Return arrays of a dtype on a device with the values of NumPy arrays."""
        asarray, options = self.namespace.asarray, self.creation_options(device)
        return [
            asarray(array.astype(native(array.dtype), copy=False), dtype=dtype, copy=True, **options)
            for array in arrays
        ]

    def to_device(self, arrays: Sequence[Array], device: Device) -> list[Array]:
        """Return copies of arrays on another device."""
        return [array_api_compat.to_device(array, device) for array in arrays]

    def pinned(self, arrays: Sequence[Array], *, operator: str) -> list[Array]:
        """Return the arrays in page-locked host memory if the library has such arrays; or else as they are."""
        return list(arrays)

    def task_graph(self, arrays: Sequence[Array]) -> Any:
        """Return the graph in dask's form whose tasks compute arrays; None if their values are there."""
        return None

    def check_known(self, arrays: Sequence[Array], *, operator: str) -> None:
        """Check that the values of arrays can be read now."""
        for array in arrays:
            if self.is_lazy(array):
                raise TypeError(
                    f"{operator}: an element is of type {type(array).__name__}, whose values are not known yet"
                )

    def staging_memory(self, shape: tuple[int, ...], dtype: Any) -> HostArray | None:
        """Return uninitialised host memory from which arrays cross best; None for ordinary memory."""
        return None


class NumPyDtypes(Library):
    """A library whose dtypes are NumPy's, text and what ml_dtypes brings included."""

    has_numpy_dtypes = True

    def can_hold(self, element_type: str, device: Device = None) -> bool:
        return (
            element_type in ("string", "float16")
            or element_type in STANDARD_TYPES
            or extension_dtype(element_type) is not None
        )

    def _hint_for(self, element_type: str) -> str:
        return "; install ml_dtypes" if element_type in ONNX_TYPES else ""

    def _dtype_for(self, element_type: str) -> Any:
        if element_type == "string":
            return np.dtype(object)
        if element_type in STANDARD_TYPES or element_type == "float16":
            return np.dtype(element_type)
        return extension_dtype(element_type)

    def _as_device(self, device: Device) -> Device:
        if device != "cpu":
            raise ValueError("it has the device 'cpu' only")
        return "cpu"

    def devices(self) -> list[Device]:
        return ["cpu"]

    def default_device(self, cuda_index: int | None, *, operator: str) -> Device:
        return "cpu"


def name_of(namespace: Any) -> str:
    """Return the name of a namespace's module, which array-api-compat's wrapper of it has too."""
    name: str = getattr(namespace, "__name__", type(namespace).__name__)
    return name.removeprefix("array_api_compat.")


def same_device(a: Device, b: Device) -> bool:
    """Return whether two devices are one; an unknown device (of a traced array) agrees with every other.

    CuPy's devices cannot be hashed, so devices are compared one by one.  Arrays of jax that lie on several devices
    report how they are distributed; what decides is over which devices.
    """
    if a is b or a is None or b is None or a == b:
        return True
    return hasattr(a, "device_set") and hasattr(b, "device_set") and bool(a.device_set == b.device_set)
