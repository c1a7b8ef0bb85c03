"""NumPy arrays of every kind and layout, and what NumPy makes of them, for tests of the NumPy engine."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

import seqarray as sa
from seqarray.testing import assert_arrays_equal

Array = np.ndarray[Any, Any]

#: Dtypes that may be together in one sequence.
NUMBERS: dict[str, list[np.dtype[Any]]] = {
    "float32": [np.dtype("<f4")],
    "float64, big-endian": [np.dtype(">f8")],
    "int16 of both byte orders": [np.dtype("<i2"), np.dtype(">i2")],
    "uint8": [np.dtype("u1")],
    "bool": [np.dtype(bool)],
    "complex64": [np.dtype("c8")],
    "complex128 of both byte orders": [np.dtype(">c16"), np.dtype("<c16")],
    "bfloat16": [np.dtype(ml_dtypes.bfloat16)],
}
FAMILIES = NUMBERS | {
    "float8": [np.dtype(ml_dtypes.float8_e4m3fn)],
    "datetime64": [np.dtype("M8[s]")],
    "structure": [np.dtype([("number", ">i4"), ("object", object)])],
    "bytes": [np.dtype("S2"), np.dtype("S5")],
    "object": [np.dtype(object)],
    "str_": [np.dtype("U5")],
    "str_ of all widths": [np.dtype("<U5"), np.dtype("<U9"), np.dtype(">U6")],
    "StringDType": [np.dtypes.StringDType()],
    "text of all kinds": [np.dtype("U5"), np.dtypes.StringDType(), np.dtype(object)],
}


def filled(shape: tuple[int, ...], dtype: np.dtype[Any], start: int = 0) -> Array:
    """An array of different values; texts are too long to be stored in place, and objects are new ones."""
    numbers = range(start, start + prod(shape))
    values = np.empty(shape, object)
    if dtype.kind in "UTSO":
        long = "a text that StringDType keeps elsewhere " if dtype.kind == "T" else "t"
        values.flat = [f"{long}{n}" for n in numbers]
    elif dtype.names:
        return np.array([(n, f"text {n}") for n in numbers], dtype).reshape(shape)
    elif dtype.kind == "c":
        values.flat = [complex(n, -n) for n in numbers]
    elif dtype.kind == "b":
        values.flat = [n % 3 == 0 for n in numbers]
    elif dtype.kind == "V":
        return np.array([n % 200 for n in numbers], np.float32).reshape(shape).astype(dtype)
    else:
        values.flat = [n % 120 for n in numbers]
    return values.astype(dtype)


def laid_out(array: Array, layout: str) -> Array:
    """The same values in memory of another layout."""
    match layout:
        case "Fortran":
            return np.asfortranarray(array)
        case "strided":
            wider = np.empty((*array.shape, 2), dtype=array.dtype)
            wider[..., 1] = array
            return wider[..., 1]
        case "backwards":
            return np.flip(np.flip(array).copy())
        case "unaligned" if not array.dtype.hasobject:
            memory = np.empty(array.nbytes + 1, np.uint8)[1:]
            unaligned: Array = np.ndarray(array.shape, array.dtype, buffer=memory)
            unaligned[...] = array
            return unaligned
        case "repeated":
            repeated: Array = np.broadcast_to(array[(*(slice(1),) * array.ndim, ...)], array.shape)
            return repeated
        case "read-only":
            array.flags.writeable = False
    return array


LAYOUTS = ["row-major", "Fortran", "strided", "backwards", "unaligned", "repeated", "read-only"]


def assert_same(actual: Array, expected: Array, *, converted: bool = False) -> None:
    """Equal in all that counts, where texts have the same dtype too; objects that are not converted are the same."""
    assert type(actual) is np.ndarray
    assert actual.dtype == expected.dtype
    assert actual.dtype.isnative
    assert actual.flags.writeable
    assert_arrays_equal(actual, expected)
    if actual.dtype == object and not converted:
        assert all(a is b for a, b in zip(actual.flat, expected.flat, strict=True))


def assert_all_same(actual: Any, expected: Any, *, converted: bool = False) -> None:
    actual, expected = list(actual), list(expected)
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert_same(a, b, converted=converted)


def tiny(count: int, shape: tuple[int, ...] = (2, 3), dtype: Any = np.float32) -> list[Array]:
    return [filled(shape, np.dtype(dtype), 100 * index) for index in range(count)]


def in_native_order(array: Array) -> Array:
    """Copy an array in the byte order of this machine."""
    return array.astype(array.dtype if array.dtype.isnative else array.dtype.newbyteorder("="))


def joined_by_numpy(arrays: Any, axis: int, stack: bool) -> Array:
    """Join arrays by NumPy, in the dtype that holds all of them."""
    arrays = list(arrays)
    dtype = sa.ArraySequence(arrays).dtype
    natives = [np.asarray(array).astype(dtype, copy=False) for array in arrays]
    return np.stack(natives, axis) if stack else np.concatenate(natives, axis)


def is_converted(arrays: Any) -> bool:
    """Return whether joining the arrays changes the dtype of any, so that objects are new ones."""
    dtype = sa.ArraySequence(list(arrays)).dtype
    return any(array.dtype != dtype for array in arrays)


@st.composite
def settings_of_large(draw: Any) -> dict[str, int]:
    return {
        "threads": draw(st.sampled_from([2, 3, 1])),
        "wide_row": draw(st.sampled_from([1, 8, 1 << 30])),
        "head_start": draw(st.sampled_from([0, 16, 1 << 10])),
        "block": draw(st.sampled_from([1, 64, 1 << 20])),
    }


#: Lengths before and after the axis.  Arrays of 64 rows and more may be cut across.
AROUND = [(2,), (), (64,), (3, 2), (65,), (1,), (0,)]
AFTER = [(3,), (), (2, 2), (1,), (0,)]


class Drawn:
    """Arrays that can be joined along an axis."""

    def __init__(self, arrays: list[Array], axis: int, stack: bool) -> None:
        self.arrays = arrays
        self.axis = axis
        self.stack = stack
        self.converted = is_converted(arrays)

    def __repr__(self) -> str:
        shapes = [(array.shape, str(array.dtype)) for array in self.arrays]
        return f"Drawn({shapes}, axis={self.axis}, stack={self.stack})"


@st.composite
def joinable(draw: Any, families: Any = tuple(FAMILIES), layouts: Any = tuple(LAYOUTS)) -> Drawn:
    dtypes = FAMILIES[draw(st.sampled_from(families))]
    before, after = draw(st.sampled_from(AROUND)), draw(st.sampled_from(AFTER))
    stack = draw(st.booleans())
    lengths = draw(st.lists(st.sampled_from([1, 2, 0, 5, 9]), min_size=1, max_size=5))
    arrays = []
    for index, length in enumerate(lengths):
        shape = (*before, *after) if stack else (*before, length, *after)
        array = filled(shape, draw(st.sampled_from(dtypes)), 1000 * index)
        arrays.append(laid_out(array, draw(st.sampled_from(layouts))))
    return Drawn(arrays, len(before), stack)


class Chunks:
    """An array, and the chunks to split it into.

    Attributes
    ----------
    split : int, list, array or None
        The sizes, as `split_to_sequence` takes them.
    starts, stops : list of int
        Where the chunks begin and end.
    keepdims : bool
        Whether the chunks keep the axis.
    """

    def __init__(self, array: Array, axis: int, split: Any, bounds: list[int], keepdims: bool) -> None:
        self.array = array
        self.axis = axis
        self.split = split
        self.starts, self.stops = bounds[:-1], bounds[1:]
        self.keepdims = keepdims

    def __repr__(self) -> str:
        return f"Chunks({self.array.dtype}, {self.array.shape}, {self.axis}, {self.split!r}, keepdims={self.keepdims})"

    def to_sequence(self, *, copy: bool | None = True) -> sa.ArraySequence[Any]:
        """Split the array."""
        return sa.split_to_sequence(self.array, self.split, axis=self.axis, keepdims=self.keepdims, copy=copy)

    def by_numpy(self) -> list[Array]:
        """Return what the chunks are, in the byte order of this machine."""
        native = in_native_order(self.array)
        before = (slice(None),) * self.axis
        chunks = [native[(*before, slice(*bounds))] for bounds in zip(self.starts, self.stops, strict=True)]
        return chunks if self.keepdims else [chunk.squeeze(self.axis) for chunk in chunks]


@st.composite
def splittable(draw: Any) -> Chunks:
    before, after = draw(st.sampled_from(AROUND)), draw(st.sampled_from(AFTER))
    length = draw(st.sampled_from([12, 1, 7, 70]))
    dtype = draw(st.sampled_from([dtype for dtypes in FAMILIES.values() for dtype in dtypes]))
    array = laid_out(filled((*before, length, *after), dtype), draw(st.sampled_from(LAYOUTS)))
    axis, keepdims = len(before), True
    split: Any
    if draw(st.booleans()):
        split = draw(st.sampled_from([1, 2, 3, 5, 100]))
        bounds = [*range(0, length, split), length]
        if split == 1 and draw(st.booleans()):
            split, keepdims = None, False
    else:
        bounds = [0, *sorted(draw(st.lists(st.integers(0, length), max_size=4))), length]
        split = [stop - start for start, stop in pairwise(bounds)]
        if draw(st.booleans()):
            split = np.asarray(split)
    return Chunks(array, axis, split, bounds, keepdims)
