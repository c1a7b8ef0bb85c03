"""Moving the elements of a sequence to another array library or device.

Where bytes have to cross into another memory they are packed first and cross at once, however many elements there are.
Where two libraries can look at the same memory, no byte moves.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np

from seqarray.arguments import check_readable
from seqarray.blocks import AnyRun, Block, Blocks, PackedRun, Run, held_arrays, to_arrays
from seqarray.copying import engine_for, host, hostpool
from seqarray.elementtypes import ONNX_TYPES, Kind, dtype_for, element_type_of, kind_of
from seqarray.namespaces import (
    Array,
    Device,
    as_device,
    current_device,
    library_of,
    loaded,
    resolve_namespace,
    same_device,
)

OPERATOR = "ArraySequence.to"

Convert = Callable[[Array], Array]


class Target(NamedTuple):
    """Where elements are to go."""

    namespace: Any
    library: str
    device: Device
    dtype: Any
    copy: bool | None


def move(blocks: Blocks, kind: Kind, namespace: Any, device: Device, copy: bool | None) -> Blocks:
    """The elements as arrays of a namespace on a device, in its form; None is the one they are on or its default.

    Raises
    ------
    TypeError
        If the target cannot hold the element type, or values are not known yet.
    ValueError
        If ``copy=False`` and a copy is needed, or a tensor would lose its gradient.
    """
    library = library_of(namespace)
    if library == kind.library and same_device(device, kind.device):
        return engine_for(kind, OPERATOR).pack(to_arrays(blocks), kind) if copy is True else blocks
    target = Target(namespace, library, device, _dtype(kind, namespace, device), copy)
    if library == kind.library:
        _refuse_views(kind, target)
        return _to_device(blocks, kind, target)
    route = _ROUTES.get((kind.library, library))
    if route is None:
        route = _by_asarray if library == "numpy" else _from_numpy if kind.library == "numpy" else _by_way_of_numpy
    return route(blocks, kind, target)


def target_device(kind: Kind, namespace: Any, device: Device) -> Device:
    """The device that elements go to: as it was given, or else the one they are on, or else the default."""
    library = library_of(namespace)
    if device is None:
        if library == kind.library:
            return kind.device
        if library in ("numpy", "dask"):
            device = "cpu"
        elif library == "torch":
            device = f"cuda:{kind.device.id}" if kind.library == "cupy" else "cpu"
        elif library == "cupy":
            on_gpu = kind.library == "torch" and kind.device.type == "cuda"
            device = kind.device.index if on_gpu else current_device(namespace, operator=OPERATOR)
    return as_device(namespace, device, operator=OPERATOR)


def _dtype(kind: Kind, namespace: Any, device: Device) -> Any:
    """The dtype in which the target holds the elements; a TypeError if it has none."""
    if {kind.library, library_of(namespace)} <= {"numpy", "dask"}:
        return kind.dtype  # whatever one of them holds, the other does
    return dtype_for(namespace, kind.element_type, device, operator=OPERATOR)


def _refuse_views(kind: Kind, target: Target) -> None:
    if target.copy is False:
        where = target.library if target.device is None else f"{target.library} on {target.device}"
        raise ValueError(
            f"{OPERATOR}: moving from {kind.library} on {kind.device} to {where} takes a copy; "
            "pass copy=None or copy=True"
        )


def _by_way_of_numpy(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    """Every library can be turned into NumPy, and made from it."""
    _refuse_views(kind, target)
    host_blocks = move(blocks, kind, resolve_namespace("numpy", operator=OPERATOR), "cpu", None)
    return move(host_blocks, kind_of_blocks(host_blocks), target.namespace, target.device, target.copy)


def kind_of_blocks(blocks: Blocks) -> Kind:
    """The kind of elements that all have the dtype of the first."""
    return kind_of(next(held_arrays(blocks)))


# Bytes that cross into another memory: one base, and what makes the blocks again around it.


def _with_base(block: AnyRun, base: Array) -> AnyRun:
    if isinstance(block, Run):
        return Run(base, block.cut, block.starts, block.stops)
    return PackedRun(base, block.starts, block.chunk_shapes)


def _one_run(blocks: Blocks, kind: Kind, memory: Callable[[tuple[int, ...], Any], Array]) -> AnyRun:
    """The elements around one base that is row-major and holds nothing else; NumPy's are packed into given memory."""
    if len(blocks) == 1 and not isinstance(blocks[0], tuple):
        around = blocks[0].trimmed()
        if around is not None:
            base = around.base
            if kind.library == "numpy":
                base = memory(base.shape, kind.dtype)
                base[...] = around.base
            elif not _is_row_major(base, kind):
                base = engine_for(kind, OPERATOR).duplicate(base, kind)
            return _with_base(around, base)
    arrays = to_arrays(blocks)
    if kind.library == "numpy":
        return host.packed(arrays, kind.dtype, memory)
    if kind.library == "cupy":
        run: AnyRun = cuda().packed(arrays, kind)
        return run
    xp, shapes = kind.namespace, [tuple(array.shape) for array in arrays]
    starts = list(accumulate(map(prod, shapes), initial=0))
    flat = xp.concat([xp.reshape(array, (-1,)) for array in arrays])
    return PackedRun(flat, starts[:-1], shapes)


def _is_row_major(array: Array, kind: Kind) -> bool:
    if kind.library == "torch":
        return bool(array.is_contiguous())
    return kind.library != "cupy" or bool(array.flags.c_contiguous)


def cuda() -> Any:
    """The module that imports CuPy, which is there already wherever this is called."""
    return importlib.import_module("seqarray.copying.cuda")


def _upload(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    """NumPy to CuPy: packed in pinned memory, one copy on the current stream."""
    _refuse_views(kind, target)
    run = _one_run(blocks, kind, cuda().pinned_empty)
    return (_with_base(run, cuda().upload(run.base, target.device)),)


def _download(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    """CuPy to NumPy: packed in one launch, one copy from the device."""
    _refuse_views(kind, target)
    run = _one_run(blocks, kind, hostpool.empty)
    return (_with_base(run, cuda().download(run.base)),)


def _to_device(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    """To another device of the same library."""
    device = target.device
    if kind.library == "jax":
        jax = loaded("jax")
        assert jax is not None
        return _each(blocks, lambda array: jax.device_put(array, device))
    if kind.library == "array_api_strict":
        return _each(blocks, lambda array: array.to_device(device))
    run = _one_run(blocks, kind, hostpool.empty)
    moved = run.base.to(device) if kind.library == "torch" else cuda().to_device(run.base, device)
    return (_with_base(run, moved),)


# Memory that both libraries look at, element by element; of a run, its base.


def _each(blocks: Blocks, convert: Convert) -> Blocks:
    return tuple(_each_of(block, convert) for block in blocks)


def _each_of(block: Block, convert: Convert) -> Block:
    if isinstance(block, tuple):
        return tuple(map(convert, block))
    return _with_base(block, convert(block.base))


def _bits(dtype: Any) -> Any:
    """The integers that stand for a dtype that the libraries do not exchange, such as bfloat16; None for others."""
    name = element_type_of(dtype)
    if name == "bfloat16" or (name not in _EXCHANGED and name in ONNX_TYPES):
        return f"int{8 * ONNX_TYPES[name].itemsize}"
    return None


_EXCHANGED = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)


def _why_no_tensor(array: Any) -> str:
    """What keeps torch from looking at the memory of a NumPy array; "" if nothing does."""
    if not array.flags.writeable:
        return "is read-only"
    if not array.dtype.isnative:
        return f"has byte order {array.dtype.str!r}"
    if not array.flags.aligned or any(stride % array.itemsize for stride in array.strides):
        return "is not aligned"
    if any(stride < 0 for stride in array.strides):
        return "has negative strides"
    return ""


def _numpy_to_torch(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    torch: Any = loaded("torch")
    if target.device.type != "cpu":
        _refuse_views(kind, target)
        run = _one_run(blocks, kind, hostpool.empty)
        return (_with_base(run, _as_tensor(run.base, torch, target._replace(copy=None)).to(target.device)),)
    return _each(blocks, lambda array: _as_tensor(array, torch, target))


def _as_tensor(array: Any, torch: Any, target: Target) -> Array:
    reason = _why_no_tensor(array)
    if reason and target.copy is False:
        raise ValueError(f"{OPERATOR}: an array {reason}, so torch needs a copy; pass copy=None or copy=True")
    if reason or target.copy is True:
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    bits = _bits(array.dtype)
    if bits is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(bits)).view(target.dtype)


def _torch_to_numpy(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    torch: Any = loaded("torch")
    for index, tensor in enumerate(to_arrays(blocks) if _may_be_special(blocks) else ()):
        if tensor.requires_grad:
            raise ValueError(
                f"{OPERATOR}: element {index} requires a gradient, which NumPy cannot hold; move its detach() instead"
            )
        if target.copy is False and (tensor.is_conj() or tensor.is_neg()):
            raise ValueError(
                f"{OPERATOR}: element {index} is conjugated or negated lazily, so NumPy needs a copy; pass copy=None"
            )
    if kind.device.type == "meta":
        raise TypeError(f"{OPERATOR}: tensors on torch's meta device have no values to move")
    if kind.device.type != "cpu":
        _refuse_views(kind, target)
        run = _one_run(blocks, kind, hostpool.empty)
        return (_with_base(run, _as_ndarray(run.base.cpu(), torch, target._replace(copy=None))),)
    return _each(blocks, lambda tensor: _as_ndarray(tensor, torch, target))


def _may_be_special(blocks: Blocks) -> bool:
    return any(tensor.requires_grad or tensor.is_conj() or tensor.is_neg() for tensor in held_arrays(blocks))


def _as_ndarray(tensor: Array, torch: Any, target: Target) -> Any:
    tensor = tensor.resolve_conj().resolve_neg()
    bits = _bits(tensor.dtype)
    array = tensor.numpy() if bits is None else tensor.view(getattr(torch, bits)).numpy().view(target.dtype)
    return array.copy() if target.copy is True else array


def _jax_to_numpy(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    _check_known(blocks)
    if kind.device is not None and kind.device.platform != "cpu":
        _refuse_views(kind, target)
    # jax's memory must not be written to, and NumPy's view of it says so.
    if target.copy is False:
        return _each(blocks, np.asarray)
    return _each(blocks, np.array)


def _numpy_to_jax(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    _refuse_views(kind, target)
    jax: Any = loaded("jax")

    # jax may hold on to memory that it is given, which its owner could still write to.
    def convert(array: Any) -> Array:
        return jax.numpy.array(array, dtype=target.dtype, copy=True, device=target.device)

    moved = _each(blocks, convert)
    # jax may still be reading when it returns, and its source may be written to from now on.
    jax.block_until_ready(list(held_arrays(moved)))
    return moved


def _to_dask(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    _refuse_views(kind, target)  # dask copies what it is made from
    from_array = target.namespace.from_array

    def convert(array: Array) -> Array:
        if target.copy is True:
            array = engine_for(kind, OPERATOR).duplicate(array, kind)
        return from_array(array, chunks=-1, name=False, asarray=False)

    return _each(blocks, convert)


def _dask_to_numpy(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    """All elements in one computation."""
    _refuse_views(kind, target)
    dask: Any = loaded("dask")
    computed = iter(dask.compute(*held_arrays(blocks)))
    moved = _each(blocks, lambda _: next(computed))
    return move(moved, kind_of_blocks(moved), target.namespace, target.device, target.copy)


def _by_asarray(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    _refuse_views(kind, target)
    _check_known(blocks)
    if kind.library == "array_api_strict":
        cpu = kind.namespace.Device("CPU_DEVICE")
        return _each(blocks, lambda array: np.array(array.to_device(cpu)))
    return _each(blocks, np.array)


def _from_numpy(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    _refuse_views(kind, target)

    def convert(array: Any) -> Array:
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        return target.namespace.asarray(array, device=target.device, copy=True)

    return _each(blocks, convert)


def _cupy_to_torch(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    if target.device.type != "cuda" or target.device.index != kind.device.id:
        return _by_way_of_numpy(blocks, kind, target)
    return _by_dlpack(blocks, kind, target)


def _torch_to_cupy(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    if kind.device.type != "cuda" or kind.device.index != target.device.id:
        return _by_way_of_numpy(blocks, kind, target)
    return _by_dlpack(blocks, kind, target)


def _by_dlpack(blocks: Blocks, kind: Kind, target: Target) -> Blocks:
    """On one CUDA device, CuPy and torch look at the same memory."""

    def convert(array: Array) -> Array:
        array = engine_for(kind, OPERATOR).duplicate(array, kind) if target.copy is True else array
        return target.namespace.from_dlpack(array)

    return _each(blocks, convert)


def _check_known(blocks: Blocks) -> None:
    for array in held_arrays(blocks):
        check_readable(array, operator=OPERATOR, name="an element")


_ROUTES: dict[tuple[str, str], Callable[[Blocks, Kind, Target], Blocks]] = {
    ("numpy", "cupy"): _upload,
    ("cupy", "numpy"): _download,
    ("cupy", "torch"): _cupy_to_torch,
    ("torch", "cupy"): _torch_to_cupy,
    ("numpy", "torch"): _numpy_to_torch,
    ("torch", "numpy"): _torch_to_numpy,
    ("jax", "numpy"): _jax_to_numpy,
    ("numpy", "jax"): _numpy_to_jax,
    ("numpy", "dask"): _to_dask,
    ("cupy", "dask"): _to_dask,
    ("dask", "numpy"): _dask_to_numpy,
}
