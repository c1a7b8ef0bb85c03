"""Joining and splitting with functions of the array API standard, which can be differentiated, deferred and traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqarray._arguments import Column, check_joinable
from seqarray._blocks import Blocks, from_arrays, shapes_of, to_pieces
from seqarray._engines.segments import Segments
from seqarray._kind import Kind
from seqarray._libraries import Array
from seqarray._views import Cut, Run

#: A namespace may promote dtypes, see `Engine`.
compares_elements = False


def join(blocks: Blocks, axis: int, stack: bool, kind: Kind, out: Any = None) -> Array:
    """Join elements along an axis that they have or, with `stack`, along a new one."""
    # Some libraries accept shapes that do not fit, or refuse them after allocating the result.
    check_joinable(shapes_of(blocks), axis, operator="concat_from_sequence", stack=stack)
    arrays = to_pieces(blocks, axis, stack)
    library: Any = kind.library
    xp = library.namespace
    with library.on_device(kind.device):
        if not kind.exact:
            arrays = [a if a.dtype == kind.dtype else library.converted(a, kind.dtype) for a in arrays]
        if out is not None:
            return library.join_into(out, arrays, axis, stack)
        options = library.join_options(arrays)
        try:
            if stack:
                # The standard allows axes below the rank of the inputs; -1 is the new last axis in every library.
                return xp.stack(arrays, axis=-1 if axis == len(arrays[0].shape) else axis, **options)
            joined = xp.concat(arrays, axis=axis, **options)
        except ValueError as error:  # such as dask's about unknown chunk sizes
            raise ValueError(f"concat_from_sequence: {error}") from error
        # Some libraries return the only array, or the only one that is not empty.
        return duplicate(joined, kind) if any(joined is array for array in arrays) else joined


def duplicate(array: Array, kind: Kind) -> Array:
    """Copy one array, in the dtype of `kind`.  A lazy array is copied as another lazy array, without its values."""
    library: Any = kind.library
    with library.on_device(kind.device):
        if not kind.exact and array.dtype != kind.dtype:
            return library.converted(array, kind.dtype)
        return library.copy_of(array)


def split(array: Array, cut: Cut, starts: Column, stops: Column, kind: Kind) -> Blocks:
    """Copy the chunks of an array."""
    library: Any = kind.library
    chunks = Run(array, cut, starts, stops)
    if library.slices_are_copies:
        return from_arrays([duplicate(chunk, kind) if chunk is array else chunk for chunk in chunks])
    return from_arrays([duplicate(chunk, kind) for chunk in chunks])


def pack(arrays: Sequence[Array], kind: Kind) -> Blocks:
    """Copy arrays of any shapes."""
    return from_arrays([duplicate(array, kind) for array in arrays])


def gather(sources: Sequence[tuple[Array, Segments]], count: int, kind: Kind, fill: Any = None) -> Array:
    """Copy ranges of the rows of arrays into a new array of `count` rows, by one index for each row."""
    library: Any = kind.library
    xp = library.namespace
    with library.on_device(kind.device):
        arrays = [array if array.dtype == kind.dtype else library.converted(array, kind.dtype) for array, _ in sources]
        if fill is not None:
            row = (1, *arrays[0].shape[1:])
            arrays.append(library.filled(row, fill, kind.dtype, kind.device))
        bounds = np.cumsum([0, *(array.shape[0] for array in arrays)])
        rows = np.full(count, bounds[-1] - 1)
        for begin, (_, segments) in zip(bounds, sources, strict=False):
            rows[segments.target_rows()] = segments.source_rows() + begin
        joined = arrays[0] if len(arrays) == 1 else xp.concat(arrays, axis=0, **library.join_options(arrays))
        return library.taken(joined, rows, kind.device)
