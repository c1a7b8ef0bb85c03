"""Joining and splitting torch tensors: one call of torch for a join, one storage for the copied chunks of a split.

torch.cat is called after one look at each tensor.  Chunks are cut from a copy of the tensor by torch.unsafe_split: they
lie in one storage, gradients flow through them, and each has a version counter of its own, so a write into one chunk
does not disturb what autograd has saved of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from seqarray._arguments import Column, Shape
from seqarray._blocks import Block, Blocks, from_arrays, to_pieces
from seqarray._engines import numpy, numpy_copies, standard
from seqarray._engines.segments import Segments
from seqarray._engines.settings import settings
from seqarray._kind import Kind, kind_of
from seqarray._views import Cut, Run, at_places, fixed

Tensor = Any

# Looked up once: in tiny work every step counts.
_Tensor, _strided = torch.Tensor, torch.strided
_PLAIN_TYPES = frozenset([torch.Tensor, torch.nn.Parameter])
_cat, _stack = torch.cat, torch.stack
_is_compiling = torch.compiler.is_dynamo_compiling
#: Autograd takes the result for no view: it can be written into, and has a version counter of its own.
_unsafe_view = torch.ops.aten._unsafe_view.default

#: Tensors inside torch.func are of this class too, but not all functions are defined for them.
_is_in_transform = torch._C._functorch.is_functorch_wrapped_tensor

#: Dtypes that NumPy has under the same name; bfloat16 goes by its bits.
_BY_NUMPY = frozenset(
    getattr(torch, name)
    for name in "bool int8 int16 int32 int64 uint8 float16 float32 float64 complex64 complex128 bfloat16".split()
)

#: `join` compares devices and layouts, see `Engine`.
compares_elements = True


def join(blocks: Blocks, axis: int, stack: bool, kind: Kind, out: Tensor = None) -> Tensor:
    """Join elements along an axis that they have or, with `stack`, along a new one."""
    if out is not None or _is_compiling():
        return standard.join(blocks, axis, stack, kind, out)
    block, alone = blocks[0], len(blocks) == 1
    tensors = block if alone and type(block) is tuple else to_pieces(blocks, axis, stack)
    count = len(tensors)
    if count > 16:
        nbytes = _bytes_of(tensors, count)
    else:  # in tiny work every step counts
        first, last = tensors[0], tensors[-1]
        nbytes = count * (first.nbytes + last.nbytes) if type(first) is type(last) is _Tensor else 0
    if (
        nbytes >= settings.tensors_from
        and (nbytes >= count * settings.piece_from or nbytes >= settings.pool_from)
        and all(map(_is_plain, tensors))
    ):
        return _joined_by_numpy(tensors, axis, stack, kind)
    if stack:
        return _stack(tensors, axis)
    joined = _cat(tensors, axis) if axis else _cat(tensors)  # torch takes longer to read an axis than to join on it
    rank = joined.dim()
    # torch.cat leaves out empty tensors of rank 1, whatever the others are.
    if rank != 1 and (tensors is block or not (alone and isinstance(block, Run))):
        for tensor in tensors:
            if tensor.dim() != rank:
                raise ValueError("shapes differ")
    return joined


def duplicate(array: Tensor, kind: Kind) -> Tensor:
    """Copy one tensor; all that agree in element type agree in dtype."""
    is_large = not _is_compiling() and type(array) is _Tensor and array.nbytes >= settings.tensors_from
    if is_large and array.is_contiguous() and _is_plain(array):
        hosted = _as_ndarray(array)
        return _as_tensor(numpy_copies.duplicate(hosted, hosted.dtype), kind.dtype)
    return array.clone()


pack = standard.pack


def gather(
    sources: Sequence[tuple[Tensor, Segments]], count: int, kind: Kind, fill: np.ndarray[Any, Any] | None = None
) -> Tensor:
    """Copy ranges of the rows of tensors into a new one of `count` rows."""
    if _is_compiling() or not all(_is_plain(tensor) for tensor, _ in sources):
        return standard.gather(sources, count, kind, fill)
    hosted = [(_as_ndarray(tensor), segments) for tensor, segments in sources]
    if fill is not None:
        fill = _as_ndarray(torch.full((), fill.item(), dtype=kind.dtype))
    return _as_tensor(numpy.gather(hosted, count, kind_of(hosted[0][0]), fill), kind.dtype)


# Large work.


def _bytes_of(tensors: Sequence[Tensor], count: int) -> int:
    """Return the bytes of all tensors, as a guess from some; 0 if these are not plain."""
    some = tensors[:: count // 4]
    if list(map(type, some)).count(_Tensor) != len(some):
        return 0
    nbytes: int = count * max([tensor.nbytes for tensor in some])
    return nbytes


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is nothing but values in host memory, which NumPy has too.

    A NumPy array of a tensor with a tangent would silently lose that.
    """
    return (
        type(tensor) is _Tensor
        and tensor.is_cpu
        and tensor.dtype in _BY_NUMPY
        and tensor.layout is _strided
        and not tensor.requires_grad
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not _is_in_transform(tensor)
        and forward_ad.unpack_dual(tensor).tangent is None
        and not _is_recording()
    )


def _is_recording() -> bool:
    """Return whether something records what torch does, and would take what NumPy does for constants."""
    return torch.jit.is_tracing() or torch._C._len_torch_dispatch_stack() > 0


def _as_ndarray(tensor: Tensor) -> Any:
    return (tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor).numpy()


def _as_tensor(array: Any, dtype: Any) -> Tensor:
    tensor = torch.from_numpy(array)
    return _unsafe_view(tensor.view(dtype), tensor.shape) if dtype is torch.bfloat16 else tensor


def _joined_by_numpy(tensors: Sequence[Tensor], axis: int, stack: bool, kind: Kind) -> Tensor:
    arrays = [_as_ndarray(tensor) for tensor in tensors]
    return _as_tensor(numpy_copies.join(arrays, axis, stack, arrays[0].dtype, "equiv"), kind.dtype)


# Splitting.


class Chunks:
    """The copied chunks of one split, which lie in one tensor, as tensors that autograd takes for independent ones.

    They are made once: two tensors around one chunk would have two version counters, and autograd would not see that
    what it has saved of one is changed through the other.
    """

    __slots__ = ("base", "cut", "starts", "stops", "tensors")

    def __init__(self, base: Tensor, cut: Cut, starts: Column, stops: Column) -> None:
        self.base = base
        self.cut = cut
        self.starts = starts
        self.stops = stops
        self.tensors = _cut_up(base, cut, starts, stops)

    def __reduce__(self) -> tuple[Any, ...]:
        return Chunks, (self.base, self.cut, self.starts, self.stops)


class ChunkRun(Run):
    """Some of the chunks of one split."""

    __slots__ = ("chunks", "places")

    def __init__(self, chunks: Chunks, places: range | list[int]) -> None:
        whole = Run(chunks.base, chunks.cut, chunks.starts, chunks.stops)
        if isinstance(places, list):
            whole = whole.taken(places)
        elif len(fixed(places)) < len(whole) or places.step < 0:
            whole = Run(whole.base, whole.cut, at_places(whole.starts, places), at_places(whole.stops, places))
        super().__init__(whole.base, whole.cut, whole.starts, whole.stops)
        self.chunks = chunks
        self.places = places

    def __len__(self) -> int:
        return len(fixed(self.places))

    def __getitem__(self, index: int) -> Tensor:
        return self.chunks.tensors[fixed(self.places)[index]]

    def __iter__(self) -> Iterator[Tensor]:
        tensors, places = self.chunks.tensors, fixed(self.places)
        return map(tensors.__getitem__, places) if isinstance(places, list) else iter(at_places(tensors, places))

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkRun, (self.chunks, self.places)

    def part(self, which: slice) -> Run:
        return ChunkRun(self.chunks, fixed(self.places)[which])

    def taken(self, inside: Sequence[int]) -> Run:
        places = fixed(self.places)
        return ChunkRun(self.chunks, [places[place] for place in inside])

    def continues(self, other: Run) -> bool:
        del other
        return False

    def rejoined(self) -> None:
        """Return None: what has been done to the chunks, autograd knows only of their own tensors."""

    def settled(self) -> tuple[Block, ...]:
        tensors = tuple(self)
        memory = self.base.untyped_storage().data_ptr()
        if any(tensor.requires_grad or tensor.untyped_storage().data_ptr() != memory for tensor in tensors):
            return from_arrays(tensors)
        return (self,)


def split(array: Tensor, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
    """Copy the chunks of a tensor, packed in one storage."""
    if (
        type(array) not in _PLAIN_TYPES
        or _is_compiling()
        or _is_in_transform(array)
        or _has_tangent(array)  # which may be one of a batch, that torch.unsafe_split has no rule for
        or not array.numel()
    ):
        return standard.split(array, cut, starts, stops, kind)
    base, cut = _packed(array, cut, starts, stops)
    if base.requires_grad:
        return from_arrays(_cut_up(base, cut, starts, stops))
    return (ChunkRun(Chunks(base, cut, starts, stops), range(len(starts))),)


def _has_tangent(tensor: Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None


def _packed(array: Tensor, cut: Cut, starts: Column, stops: Column) -> tuple[Tensor, Cut]:
    """Return a tensor in which the chunks lie one after the other, and their layout in it."""
    shape, axis, dropped, _ = cut
    in_order = axis == 0 or prod(shape[:axis]) == 1
    if (not in_order or array.nbytes >= settings.tensors_from) and _is_plain(array):
        hosted = _as_ndarray(array)
        (run,) = numpy.split(hosted, cut, starts, stops, kind_of(hosted))
        assert isinstance(run, Run)
        return _as_tensor(run.base, array.dtype), run.cut
    if in_order:
        # Along the first axis, the chunks of a row-major copy follow one another already.
        return array.clone() if array.is_contiguous() else array.clone(memory_format=torch.contiguous_format), cut
    cut = Cut(shape, axis, dropped, True)
    if isinstance(starts, range) and stops[-1] == shape[axis]:
        equal = array.unflatten(axis, (len(starts), -1)).movedim(axis, 0)
        return equal.clone(memory_format=torch.contiguous_format).view(-1), cut
    sizes = _sizes(cut, starts, stops)
    if array.requires_grad and torch.is_grad_enabled():
        return _cat([piece.reshape(-1) for piece in torch.split(array, sizes, axis)]), cut
    base = array.new_empty(array.numel())
    flat = torch.split(base, [size * cut.step for size in sizes])
    out = [part.view(cut.chunk_shape(size)) for part, size in zip(flat, sizes, strict=True)]
    torch.split_with_sizes_copy(array.detach(), sizes, axis, out=out)
    return base, cut


def _sizes(cut: Cut, starts: Column, stops: Column) -> list[int]:
    length = cut.shape[cut.axis]
    return [min(int(stop), length) - int(start) for start, stop in zip(starts, stops, strict=True)]


def _cut_up(base: Tensor, cut: Cut, starts: Column, stops: Column) -> tuple[Tensor, ...]:
    """Return the chunks of a tensor in which they lie one after the other, each with its own version counter."""
    shape, axis, dropped, packed = cut
    size = min(stops[0] - starts[0], shape[axis])
    if isinstance(starts, range) and stops[-1] == shape[axis]:
        return _cut_equally(base, cut.chunk_shape(size), len(starts))
    if not packed and isinstance(starts, range):
        return tuple(torch.unsafe_split(base, size, axis))
    if not packed:
        chunks = torch.unsafe_split_with_sizes(base, _sizes(cut, starts, stops), axis)
        return tuple([_unsafe_view(chunk, cut.chunk_shape(1)) for chunk in chunks] if dropped else chunks)
    sizes = _sizes(cut, starts, stops)
    parts = torch.unsafe_split_with_sizes(base, [size * cut.step for size in sizes])
    return tuple([_unsafe_view(part, cut.chunk_shape(size)) for part, size in zip(parts, sizes, strict=True)])


def _cut_equally(base: Tensor, chunk_shape: Shape, count: int) -> tuple[Tensor, ...]:
    if not chunk_shape:
        return tuple([_unsafe_view(part, ()) for part in torch.unsafe_split(base.view(count), 1)])
    # The chunks are rows of a tensor of their rank, which is cut without another step for each.
    rows = base.view(count * chunk_shape[0], *chunk_shape[1:])
    return tuple(torch.unsafe_split(rows, chunk_shape[0]))
