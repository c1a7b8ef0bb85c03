"""Moving the elements of a sequence to another array library, device or element type.

Between different memories, the elements are packed and moved in one transfer.  Libraries that can share memory do: no
byte is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from seqarray._blocks import Block, Blocks, held_arrays, settled, to_arrays, trimmed
from seqarray._engines import engine_for, numpy_copies, pool
from seqarray._kind import Kind, kind_of
from seqarray._libraries import NUMPY, Array, Device, Library
from seqarray._views import AnyRun, PackedRun, Run

OPERATOR = "ArraySequence.to"


def move(blocks: Blocks, kind: Kind, library: Library, device: Device, copy: bool | None) -> Blocks:
    """Return the elements as arrays of a library on a device, in the form that its arrays report.

    Raises
    ------
    TypeError
        If the target cannot hold the element type, or values are not known yet.
    ValueError
        If ``copy=False`` and a copy is needed, or a tensor would lose its gradient.
    """
    source = kind.library
    assert source is not None
    if source is library and (
        device is kind.device or all(source.is_on(array, device) for array in held_arrays(blocks))
    ):
        return _copied(blocks, kind, OPERATOR) if copy is True else blocks
    blocks = settled(blocks)
    if source.has_numpy_dtypes and library.has_numpy_dtypes:
        dtype = kind.dtype  # also text and other types without an ONNX name
    else:
        dtype = library.dtype_for(kind.element_type, device, operator=OPERATOR)
    if source is library:
        _refuse_copy_false(kind, library, device, copy)
        return _to_device(blocks, kind, device)
    index = source.cuda_index(kind.device)
    if index is not None and index == library.cuda_index(device):
        return _by_dlpack(blocks, kind, library, copy)
    if library is NUMPY:
        return _to_host(blocks, kind, copy)
    if source is NUMPY or library.wraps(source):
        return _from_host(blocks, kind, library, dtype, device, copy)
    _refuse_copy_false(kind, library, device, copy)
    on_host = _to_host(blocks, kind, None)
    return move(on_host, kind_of_blocks(on_host), library, device, copy)


def to_host(blocks: Blocks, kind: Kind, *, operator: str) -> Blocks:
    """Return the elements as NumPy arrays that are to be read only; gradients are left behind."""
    source = kind.library
    assert source is not None
    if source is NUMPY:
        return blocks
    blocks = settled(blocks)
    source.check_known(list(held_arrays(blocks)), operator=operator)
    return _downloaded(blocks, kind, copy=False, operator=operator)


def cast(blocks: Blocks, kind: Kind, element_type: str, *, operator: str) -> Blocks:
    """Return the elements in another element type; raise a TypeError where values would be lost."""
    library: Any = kind.library
    if element_type == kind.element_type:
        return _copied(blocks, kind, operator)
    if "string" in (element_type, kind.element_type):
        raise TypeError(f"{operator}: {kind.element_type} is not converted to {element_type}; text is no number")
    if kind.element_type.startswith("complex") and not element_type.startswith("complex"):
        raise TypeError(
            f"{operator}: {kind.element_type} to {element_type} would lose the imaginary parts; "
            "take the real ones before"
        )
    dtype = library.dtype_for(element_type, kind.device, operator=operator)
    with library.on_device(kind.device):
        return _converted(trimmed(settled(blocks)), lambda arrays: [library.converted(one, dtype) for one in arrays])


def pinned(blocks: Blocks, kind: Kind) -> Blocks:
    """Return the elements in page-locked memory, where their library has such memory and they lie outside it."""
    library: Any = kind.library
    held = settled(blocks)
    arrays = list(held_arrays(held))
    locked = library.pinned(arrays, operator="ArraySequence.pin_memory")
    if all(new is old for new, old in zip(locked, arrays, strict=True)):
        return blocks
    return _converted(held, lambda _: locked)


def target_device(kind: Kind, library: Library, device: Device) -> Device:
    """Return the target device: the given one, or that of the elements, or the library's default."""
    source = kind.library
    assert source is not None
    if device is None:
        if library is source:
            return kind.device
        device = library.default_device(source.cuda_index(kind.device), operator=OPERATOR)
    return library.as_device(device, operator=OPERATOR)


def kind_of_blocks(blocks: Blocks) -> Kind:
    """Return the kind of elements that all have the dtype of the first."""
    return kind_of(next(held_arrays(blocks)))


def _refuse_copy_false(kind: Kind, library: Library, device: Device, copy: bool | None) -> None:
    if copy is False:
        source: Any = kind.library
        where = library.name if device is None else f"{library.name} on {device}"
        raise ValueError(
            f"{OPERATOR}: moving from {source.name} on {kind.device} to {where} takes a copy; "
            "pass copy=None or copy=True"
        )


def _check_movable(blocks: Blocks, source: Library, copy: bool | None) -> None:
    """Check that nothing, such as a gradient, would be lost on the way to another library."""
    if any(source.why_not_movable(array, copy) for array in held_arrays(blocks)):
        for index, array in enumerate(to_arrays(blocks)):
            if reason := source.why_not_movable(array, copy):
                raise ValueError(f"{OPERATOR}: element {index} {reason}")


def _to_host(blocks: Blocks, kind: Kind, copy: bool | None) -> Blocks:
    source: Any = kind.library
    source.check_known(list(held_arrays(blocks)), operator=OPERATOR)
    if not source.is_viewed_by_host(kind.device):
        _refuse_copy_false(kind, NUMPY, "cpu", copy)
    _check_movable(blocks, source, copy)
    return _downloaded(blocks, kind, copy=copy, operator=OPERATOR)


def _downloaded(blocks: Blocks, kind: Kind, *, copy: bool | None, operator: str) -> Blocks:
    source: Any = kind.library

    def convert(arrays: Sequence[Array]) -> list[Array]:
        return list(source.to_host(arrays, copy=copy, operator=operator))

    return _converted(blocks, convert) if source.is_on_host(kind.device) else _crossed(blocks, kind, convert)


def _from_host(blocks: Blocks, kind: Kind, library: Library, dtype: Any, device: Device, copy: bool | None) -> Blocks:
    if not library.views_host(device):
        _refuse_copy_false(kind, library, device, copy)

    convert = partial(library.from_host, dtype=dtype, device=device, operator=OPERATOR)
    convert_packed = partial(convert, copy=None)  # packing copies
    if library.is_on_host(device):
        if copy is True and (library.views_host(device) or library.wraps(NUMPY)):
            return _converted(_copied(blocks, kind, OPERATOR), convert_packed)
        return _converted(blocks, partial(convert, copy=copy))

    def staging_memory(shape: tuple[int, ...], dtype: Any) -> Array:
        memory = library.staging_memory(shape, dtype)
        return pool.empty(shape, dtype) if memory is None else memory

    return _crossed(blocks, kind, convert_packed, staging_memory)


def _to_device(blocks: Blocks, kind: Kind, device: Device) -> Blocks:
    """Move to another device of the same library."""
    library: Any = kind.library

    def convert(arrays: Sequence[Array]) -> list[Array]:
        return list(library.to_device(arrays, device))

    on_host = library.is_on_host(kind.device) and library.is_on_host(device)
    return _converted(blocks, convert) if on_host else _crossed(blocks, kind, convert)


def _by_dlpack(blocks: Blocks, kind: Kind, library: Library, copy: bool | None) -> Blocks:
    """Return arrays of another library that share the memory, on the same CUDA device."""
    source: Any = kind.library
    _check_movable(blocks, source, copy)
    if copy is True:
        blocks = _copied(blocks, kind, OPERATOR)
    from_dlpack = library.namespace.from_dlpack
    return _converted(blocks, lambda arrays: [from_dlpack(source.resolved(array)) for array in arrays])


def _copied(blocks: Blocks, kind: Kind, operator: str) -> Blocks:
    """Return copies of the elements: chunks of one array are copied together."""
    engine, library = engine_for(kind, operator), kind.library
    assert library is not None
    parts = trimmed(settled(blocks))
    if any(isinstance(part, tuple) for part in parts):
        return engine.pack(to_arrays(blocks), kind)
    copies: list[Block] = []
    for run in parts:
        assert not isinstance(run, tuple)
        if library.slices_are_copies or not isinstance(run, Run) or run.cut.packed:
            copies.append(run.around(engine.duplicate(run.base, kind)))
        else:
            copies += engine.split(run.base, run.cut, run.starts, run.stops, kind)
    return tuple(copies)


def _converted(blocks: Blocks, convert: Callable[[Sequence[Array]], list[Array]]) -> Blocks:
    """Return the blocks with every held array converted; of a run, that is its base."""
    arrays = iter(convert(list(held_arrays(blocks))))

    def replaced(block: Block) -> Block:
        if isinstance(block, tuple):
            return tuple([next(arrays) for _ in block])
        return block.around(next(arrays))

    return tuple(map(replaced, blocks))


def _crossed(
    blocks: Blocks,
    kind: Kind,
    convert: Callable[[Sequence[Array]], list[Array]],
    memory: Callable[[tuple[int, ...], Any], Array] = pool.empty,
) -> Blocks:
    """Pack the elements, move them into another memory, and return them as chunks of one array there."""
    run = packed(blocks, kind, memory)
    (base,) = convert([run.base])
    return (run.around(base),)


def packed(blocks: Blocks, kind: Kind, memory: Callable[[tuple[int, ...], Any], Array] = pool.empty) -> AnyRun:
    """Return the elements packed in one row-major array; those of NumPy arrays in memory that `memory` allocates."""
    library: Any = kind.library
    trimmed = blocks[0].trimmed() if len(blocks) == 1 and not isinstance(blocks[0], tuple) else None
    if trimmed is not None:
        base = trimmed.base
        if library is NUMPY:
            base = memory(base.shape, kind.dtype)
            base[...] = trimmed.base
        elif not library.is_row_major(base):
            base = engine_for(kind, OPERATOR).duplicate(base, kind)
        return trimmed.around(base)
    arrays = to_arrays(blocks)
    if library is NUMPY:
        return numpy_copies.packed(arrays, kind.dtype, memory)
    if library.has_packing_engine:
        (run,) = engine_for(kind, OPERATOR).pack(arrays, kind)
        assert isinstance(run, PackedRun)
        return run
    xp, shapes = library.namespace, [tuple(array.shape) for array in arrays]
    return PackedRun.of_shapes(xp.concat([xp.reshape(array, (-1,)) for array in arrays]), shapes)
