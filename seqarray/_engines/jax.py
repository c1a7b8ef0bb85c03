"""Joining and splitting jax arrays in few calls, each of a program that is compiled once for its shapes.

The more pieces a program has, the longer it is compiled, for seconds and minutes: at most `MOST` go into one, and on
the CPU NumPy copies what would take many programs.  Traced arrays, and arrays on several devices, go the standard way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from seqarray._arguments import Column, check_joinable
from seqarray._blocks import Blocks, from_arrays, shapes_of, to_pieces
from seqarray._engines import numpy, standard
from seqarray._kind import Kind, kind_of
from seqarray._views import Cut

JAXArray = Any

#: The maximum number of pieces in one program.
MOST = 16

#: The maximum number of different sizes of chunks for each of which a program is compiled.
MOST_SIZES = 8

#: Programs count in int32 where jax has no 64-bit types.
_LONGEST = 2**31 - 1

#: jax promotes dtypes, see `Engine`.
compares_elements = False

pack, gather = standard.pack, standard.gather


def join(blocks: Blocks, axis: int, stack: bool, kind: Kind, out: JAXArray = None) -> JAXArray:
    """Join elements along an axis that they have or, with `stack`, along a new one."""
    arrays = to_pieces(blocks, axis, stack)
    if out is not None or len(arrays) == 1 or not _are_plain(arrays, kind):
        return standard.join(blocks, axis, stack, kind, out)
    shapes = shapes_of(blocks)
    check_joinable(shapes, axis, operator="concat_from_sequence", stack=stack)
    # A join of arrays of one shape takes a few programs, whatever their number, and of others one for each group.
    if len(arrays) > MOST and shapes.count(shapes[0]) != len(shapes) and _are_copied_by_numpy(arrays, kind):
        hosted = tuple(map(np.asarray, arrays))
        return _from_numpy([numpy.join((hosted,), axis, stack, kind_of(hosted[0]))], arrays, kind)[0]
    join_group = _stacked if stack else _concatenated
    with jax.default_device(kind.device):
        while True:
            arrays = [join_group(group, axis) for group in _in_groups(arrays)]
            if len(arrays) == 1:
                return arrays[0]
            join_group = _concatenated


def duplicate(array: JAXArray, kind: Kind) -> JAXArray:
    """Copy one array, in the dtype of `kind`."""
    return array.copy() if _are_plain((array,), kind) else standard.duplicate(array, kind)


def split(array: JAXArray, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
    """Copy the chunks of an array."""
    axis, dropped = cut.axis, cut.dropped
    count, length = len(starts), cut.shape[axis]
    if count == 1 or length > _LONGEST or not _are_plain((array,), kind):
        return standard.split(array, cut, starts, stops, kind)
    firsts = list(map(int, starts))
    sizes = [min(int(stop), length) - first for first, stop in zip(firsts, stops, strict=True)]
    different = len(set(sizes))
    if count > MOST and different > MOST_SIZES and _are_copied_by_numpy((array,), kind):
        hosted = np.asarray(array)
        before = (slice(None),) * axis
        slices = [hosted[(*before, slice(first, first + size))] for first, size in zip(firsts, sizes, strict=True)]
        return from_arrays(_from_numpy([chunk.copy() for chunk in slices], (array,), kind))
    # Chunks of one size, but for the last, are cut by the same program, so many at a time.
    at_once = MOST if count <= MOST or sizes.count(sizes[0]) >= count - 1 else 1
    with jax.default_device(kind.device):
        groups = [
            _cut_out(array, firsts[i], tuple(sizes[i : i + at_once]), axis, dropped) for i in range(0, count, at_once)
        ]
    return from_arrays([chunk for group in groups for chunk in group])


# Which arrays these programs are for.


def _are_plain(arrays: Sequence[JAXArray], kind: Kind) -> bool:
    """Return whether arrays have values, of a dtype of NumPy's, on one device."""
    array_type = type(arrays[0])
    return (
        kind.exact
        and isinstance(kind.device, jax.Device)
        and isinstance(kind.dtype, np.dtype)
        and not issubclass(array_type, jax.core.Tracer)
        and list(map(type, arrays)).count(array_type) == len(arrays)
    )


def _are_copied_by_numpy(arrays: Sequence[JAXArray], kind: Kind) -> bool:
    """Return whether arrays lie in host memory, and are the same when they come back from NumPy.

    Weak types, and 64-bit types where jax has been told to do without, would be lost.
    """
    return (
        kind.device.platform == "cpu"
        and jax.dtypes.canonicalize_dtype(kind.dtype) == kind.dtype
        and not any(array.weak_type for array in arrays)
    )


def _from_numpy(arrays: list[Any], sources: Sequence[JAXArray], kind: Kind) -> list[JAXArray]:
    """Return NumPy arrays that nobody else holds as jax's, on the device of others, and committed to it if these are.

    jax may use their memory.
    """
    moved: list[JAXArray]
    if any(source.committed for source in sources):
        moved = jax.device_put(arrays, kind.device)
    else:
        with jax.default_device(kind.device):
            moved = jax.device_put(arrays)
    return moved


# Programs.


def _in_groups(arrays: Sequence[JAXArray]) -> Iterator[list[JAXArray]]:
    for i in range(0, len(arrays), MOST):
        yield list(arrays[i : i + MOST])


@partial(jax.jit, static_argnums=1)
def _concatenated(arrays: list[JAXArray], axis: int) -> JAXArray:
    return lax.concatenate(arrays, axis)


@partial(jax.jit, static_argnums=1)
def _stacked(arrays: list[JAXArray], axis: int) -> JAXArray:
    return lax.concatenate([lax.expand_dims(array, (axis,)) for array in arrays], axis)


@partial(jax.jit, static_argnums=(2, 3, 4))
def _cut_out(array: JAXArray, start: int, sizes: tuple[int, ...], axis: int, dropped: bool) -> list[JAXArray]:
    """Return consecutive chunks of an array; the program is one for all starts."""
    part = lax.dynamic_slice_in_dim(array, start, sum(sizes), axis)
    chunks = lax.split(part, sizes, axis) if len(sizes) > 1 else [part]
    return [lax.squeeze(chunk, (axis,)) if dropped else chunk for chunk in chunks]
