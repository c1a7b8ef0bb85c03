"""Joining and splitting NumPy arrays: one allocation, and the fewest Python steps around one NumPy call."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from seqarray.arguments import Column
from seqarray.blocks import Blocks, Cut, PackedRun, Run
from seqarray.elementtypes import Kind

NumPyArray = np.ndarray[Any, Any]

checks_shapes = True


def join(
    arrays: Sequence[NumPyArray], axis: int, kind: Kind, *, stack: bool, out: NumPyArray | None = None
) -> NumPyArray:
    """The arrays along one axis, an existing one or (with `stack`) a new one."""
    if out is not None:
        return _join_into(out, arrays, axis, stack=stack)
    if not stack:
        return _concatenate(arrays, axis, kind)
    first = arrays[0].shape
    if [array.shape for array in arrays].count(first) != len(arrays):
        # Left to the join below, lengths that differ but add up would pass.
        raise ValueError("shapes differ")
    if axis == len(first):
        return _concatenate([array[..., np.newaxis] for array in arrays], axis, kind)
    # np.stack makes a view of every input.  Joined along an axis that is there, they only lack one in the shape.
    return _concatenate(arrays, axis, kind).reshape(first[:axis] + (len(arrays),) + first[axis:])


def _concatenate(arrays: Sequence[NumPyArray], axis: int, kind: Kind) -> NumPyArray:
    if kind.exact:
        return np.concatenate(arrays, axis)
    return np.concatenate(arrays, axis, dtype=kind.dtype, casting="safe")


def _join_into(out: NumPyArray, arrays: Sequence[NumPyArray], axis: int, *, stack: bool) -> NumPyArray:
    function = np.stack if stack else np.concatenate
    if any(np.may_share_memory(array, out) for array in arrays):
        out[...] = function(arrays, axis)
    else:
        function(arrays, axis, out=out)
    return out


def duplicate(array: NumPyArray, kind: Kind) -> NumPyArray:
    """A copy of one array, in the dtype of `kind`, row-major."""
    if kind.exact and type(array) is np.ndarray:
        return array.copy()
    return np.array(array, dtype=kind.dtype, order="C")


def split(array: NumPyArray, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
    """Copies of the chunks of an array, packed in one allocation."""
    if not len(starts):
        return ()
    shape, axis = cut.shape, cut.axis
    rows = prod(shape[:axis])
    if rows == 1:
        # Along the first axis, the chunks of a row-major copy follow one another already.
        return (Run(duplicate(array, kind), cut, starts, stops),)
    base = np.empty(prod(shape), dtype=kind.dtype)
    packed = Run(base, cut._replace(packed=True), starts, stops)
    if isinstance(starts, range) and stops[-1] == shape[axis] and array.flags.c_contiguous:
        # Chunks of one size lie in both as rows of a matrix of rows; one call copies them all.
        width = array.size // (rows * len(starts)) if rows else 0
        source = array.reshape(rows, len(starts), width).swapaxes(0, 1)
        base.reshape(len(starts), rows, width)[...] = source
        return (packed,)
    for target, source in zip(packed, Run(array, cut, starts, stops), strict=True):
        target[...] = source
    return (packed,)


def pack(arrays: Sequence[NumPyArray], kind: Kind) -> Blocks:
    """Copies of arrays of any shapes, packed in one allocation."""
    shapes = [array.shape for array in arrays]
    ends = list(accumulate(map(prod, shapes), initial=0))
    packed = PackedRun(np.empty(ends[-1], dtype=kind.dtype), ends[:-1], shapes)
    for target, source in zip(packed, arrays, strict=True):
        target[...] = source
    return (packed,)
