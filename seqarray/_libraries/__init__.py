"""Which array library an array belongs to, and where it lives.

This is the only module that imports array-api-compat.  torch, jax and dask are never imported from here: an array of
theirs cannot exist before its user has imported them, so `sys.modules` is enough to recognise it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import array_api_compat
import numpy as np

Array = Any
Device = Any

_COMPAT_NAMES = {
    "numpy": "array_api_compat.numpy",
    "cupy": "array_api_compat.cupy",
    "torch": "array_api_compat.torch",
    "dask": "array_api_compat.dask.array",
    "dask.array": "array_api_compat.dask.array",
    "jax": "jax.numpy",
}

# Plain dictionaries: what functools caches, torch.compile follows with a warning only.
_namespace_by_type: dict[type, Any] = {}
_library_by_name: dict[str, str] = {}

#: Called with a namespace's library whenever the first array of some class has been seen.
on_new_array_type: list[Callable[[str], None]] = []


def namespace_of(array: Array) -> Any:
    """The array API namespace of an array, looked up once per type.

    Raises
    ------
    TypeError
        For anything that is not an array, and for masked arrays, matrices and sparse arrays, which have no plain
        rectangular memory to join or to cut.
    """
    try:
        return _namespace_by_type[type(array)]
    except KeyError:
        pass
    array_type = type(array)
    if is_compiling() and issubclass(array_type, sys.modules["torch"].Tensor):
        # torch.compile follows neither the look-up below nor what it notifies: left to the first tensor outside.
        from array_api_compat import torch as namespace  # noqa: PLC0415

        return namespace
    if issubclass(array_type, (np.ma.MaskedArray, np.matrix)) or array_api_compat.is_pydata_sparse_array(array):
        raise TypeError(f"{array_type.__name__} is not supported; pass a plain dense array")
    if not array_api_compat.is_array_api_obj(array):
        raise TypeError(f"{array_type.__module__}.{array_type.__qualname__} is not an array")
    namespace = array_api_compat.array_namespace(array)
    _namespace_by_type[array_type] = namespace
    for notify in on_new_array_type:
        notify(library_of(namespace))
    return namespace


def refuse_sparse(array: Array, namespace: Any) -> None:
    """Sparse and nested torch tensors share their class with dense ones, so only the instance can tell."""
    if library_of(namespace) == "torch" and (array.is_nested or str(array.layout) != "torch.strided"):
        form = "a nested tensor" if array.is_nested else f"a tensor of layout {array.layout}"
        raise TypeError(f"{form} is not supported; pass a dense tensor")


def library_of(namespace: Any) -> str:
    """The short name of a namespace's library: "numpy", "cupy", "torch", "jax", "dask", "array_api_strict", ..."""
    name: str = getattr(namespace, "__name__", type(namespace).__name__)
    try:
        return _library_by_name[name]
    except KeyError:
        pass
    library = _library_by_name[name] = name.removeprefix("array_api_compat.").partition(".")[0]
    return library


def resolve_namespace(xp: Any, *, operator: str) -> Any:
    """The namespace that `xp` stands for: a module, its compat module, or the name of either."""
    if xp is None:
        return None
    name = xp if isinstance(xp, str) else getattr(xp, "__name__", None)
    namespace = xp
    if isinstance(xp, str) or name in _COMPAT_NAMES:
        try:
            module = _COMPAT_NAMES.get(str(name), str(name))
            # torch.compile does not follow import_module.
            namespace = sys.modules.get(module) or importlib.import_module(module)
        except (ImportError, ValueError) as error:
            raise ImportError(f"{operator}: xp is {xp!r}, which cannot be imported: {error}") from None
    if not all(hasattr(namespace, needed) for needed in ("asarray", "concat", "stack")):
        raise TypeError(
            f"{operator}: xp is {xp!r}; expected an array namespace or the name of one, such as 'numpy' or 'torch'"
        )
    return namespace


def namespace_name(namespace: Any) -> str:
    """The importable name of a namespace, the form in which it is pickled."""
    return str(namespace.__name__)


def device_of(array: Array) -> Device:
    """The device of an array; None while it is being traced."""
    if library_of(namespace_of(array)) == "torch":
        return array.device
    return array_api_compat.device(array)


def same_device(a: Device, b: Device) -> bool:
    """Whether two devices are one; an unknown device (of a traced array) agrees with every other.

    Compared one by one because CuPy's devices cannot be hashed.
    """
    return a is b or a is None or b is None or bool(a == b)


def as_device(namespace: Any, device: Device, *, operator: str) -> Device:
    """`device` in the form that arrays of `namespace` report, from any form in which users write it."""
    if device is None:
        return None
    try:
        return _as_device(namespace, library_of(namespace), device)
    except Exception as error:  # each library has errors of its own for a device that is not there
        raise ValueError(f"{operator}: {library_of(namespace)} has no device {device!r}: {error}") from None


def _as_device(namespace: Any, library: str, device: Device) -> Device:
    if library in ("numpy", "dask"):
        if device != "cpu":
            raise ValueError("it has the device 'cpu' only")
        return "cpu"
    if library == "torch":
        # A tensor is made, since a device can be named that is not there; and "cuda" then becomes "cuda:0".
        return sys.modules["torch"].empty(0, device=device).device
    if library == "cupy":
        if isinstance(device, str):
            platform, _, number = device.partition(":")
            if platform != "cuda" or not (number or "0").isdecimal():
                raise ValueError("expected a number, 'cuda' or 'cuda:0'")
            device = int(number or 0)
        index: Any = getattr(device, "id", device)
        count = namespace.cuda.runtime.getDeviceCount()
        if not 0 <= index < count:
            raise ValueError(f"there {'is' if count == 1 else 'are'} {count}")
        return namespace.cuda.Device(index)
    if library == "jax":
        return _as_jax_device(device)
    if library == "array_api_strict" and isinstance(device, str):
        return namespace.Device(device)
    return device


def _as_jax_device(device: Device) -> Device:
    jax = sys.modules["jax"]
    if isinstance(device, str):
        platform, _, number = device.partition(":")
        return jax.devices(platform)[int(number or 0)]
    if isinstance(device, int):
        devices = jax.devices()
        if not 0 <= device < len(devices):
            raise ValueError(f"it has {len(devices)}")
        return devices[device]
    if not isinstance(device, (jax.Device, jax.sharding.Sharding)):
        raise ValueError("expected a device, a number or a name such as 'cpu:0'")
    return device


def current_device(namespace: Any, *, operator: str) -> Device:
    """The device on which CuPy allocates."""
    try:
        return namespace.cuda.Device()
    except Exception as error:  # whatever a missing driver or device raises
        raise ValueError(f"{operator}: {library_of(namespace)} has no usable device: {error}") from None


def device_name(namespace: Any, device: Device) -> Any:
    """`device` in a form that can be pickled and hashed, and that `as_device` takes."""
    library = library_of(namespace)
    if library == "jax":
        return f"{device.platform}:{device.id}" if hasattr(device, "platform") else None
    if library == "cupy":
        return None if device is None else device.id
    return str(device) if library == "torch" and device is not None else device


def entering(namespace: Any, device: Device) -> AbstractContextManager[Any]:
    """A context in which results are allocated on `device`.

    CuPy allocates on the current device, whatever the inputs' device is and whatever `device=` says; every other
    library follows its inputs.
    """
    if library_of(namespace) == "cupy" and device is not None:
        entered: AbstractContextManager[Any] = device
        return entered
    return nullcontext()


def own_view(array: Array) -> Array:
    """The same values as another array object, so that nobody else can change its shape, nor what dask computes."""
    if type(array) is np.ndarray:
        return array.view()
    library = library_of(namespace_of(array))
    if library in ("numpy", "cupy"):
        return array.view()
    if library == "torch":
        return array[...]
    return array.copy() if library == "dask" else array


def is_lazy(array: Array) -> bool:
    """Whether values cannot be read now: of a dask array, a traced array, a tensor on torch's meta device."""
    library = library_of(namespace_of(array))
    if library == "jax":
        return isinstance(array, sys.modules["jax"].core.Tracer)
    if library == "torch":
        return bool(array.device.type == "meta")
    return library == "dask"


def is_compiling() -> bool:
    """Whether torch.compile is following the program, which it can do through plain Python, but not through NumPy."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def loaded(name: str) -> ModuleType | None:
    """A module if the user's program has imported it already."""
    return sys.modules.get(name)
