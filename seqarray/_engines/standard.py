"""Joining and splitting on any array API namespace.  Keeps gradients, stays lazy, traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqarray._arguments import Column, is_unknown
from seqarray._blocks import Blocks, Cut, Run, from_arrays, to_pieces
from seqarray._dtypes import Kind
from seqarray._engines.facts import Facts
from seqarray._libraries import Array, entering, is_compiling

checks_shapes = False


def join(blocks: Blocks, axis: int, kind: Kind, *, stack: bool, out: Any = None) -> Array:
    """The elements along one axis, an existing one or (with `stack`) a new one."""
    arrays = to_pieces(blocks, axis, stack)
    xp = kind.namespace
    with entering(xp, kind.device):
        if not kind.exact:
            arrays = [xp.astype(array, kind.dtype, copy=False) for array in arrays]
        if out is not None and kind.library == "torch":
            return _torch_join(arrays, axis, xp, stack, out)
        options = {}
        if kind.library == "dask" and any(is_unknown(length) for array in arrays for length in array.shape):
            options["allow_unknown_chunksizes"] = True
        if stack:
            # The standard wants an axis of the inputs; counted from the back, a new last axis is one everywhere.
            joined = xp.stack(arrays, axis=-1 if axis == len(arrays[0].shape) else axis, **options)
        else:
            joined = xp.concat(arrays, axis=axis, **options)
            # Where all others are empty, dask returns the one that is not.
            if any(joined is array for array in arrays):
                joined = duplicate(joined, kind)
        if out is not None:
            out[...] = joined
            return out
        return joined


def _torch_join(arrays: Sequence[Array], axis: int, xp: Any, stack: bool, out: Array) -> Array:
    """Tensors joined into one that is there."""
    if xp.is_grad_enabled() and any(tensor.requires_grad for tensor in (*arrays, out)):
        raise ValueError("out= does not go with tensors that require a gradient")
    join = xp.stack if stack else xp.cat
    # torch.compile has no addresses to compare.
    if is_compiling() or any(_storage(tensor) == _storage(out) for tensor in arrays):
        return out.copy_(join(arrays, dim=axis))
    return join(arrays, dim=axis, out=out)


def _storage(tensor: Array) -> int:
    """Where the memory begins in which a tensor has its values."""
    return int(tensor.untyped_storage().data_ptr())


def learn(blocks: Blocks, kind: Kind) -> Facts:
    """Nothing: `join` looks at everything each time."""
    del blocks, kind
    return Facts()


def duplicate(array: Array, kind: Kind) -> Array:
    """A copy of one array, in the dtype of `kind`.  On dask a new lazy array: no byte moves."""
    xp = kind.namespace
    with entering(xp, kind.device):
        if array.dtype != kind.dtype:
            return xp.astype(array, kind.dtype)
        if kind.library == "torch":
            return array.clone()
        if kind.library == "dask":
            return array.copy()
        return xp.asarray(array, copy=True)


def split(array: Array, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
    """Copies of the chunks of an array."""
    chunks = list(Run(array, cut, starts, stops))
    if kind.library == "jax":
        # A slice is fresh memory already, unless it is the whole array.
        return from_arrays([duplicate(chunk, kind) if chunk is array else chunk for chunk in chunks])
    return from_arrays([duplicate(chunk, kind) for chunk in chunks])


def pack(arrays: Sequence[Array], kind: Kind) -> Blocks:
    """Copies of arrays of any shapes."""
    return from_arrays([duplicate(array, kind) for array in arrays])
