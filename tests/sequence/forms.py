"""Every form in which a sequence keeps its elements, and the backends to make them on."""

from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal

#: The backends whose arrays can be read without computing them.
EAGER = ["numpy", "array-api-strict", "torch", "jax", "jax-x64", "cupy"]
#: One backend of every library, for what does not depend on the types that it can hold.
each_library = pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")
#: Those whose arrays can be written into.
MUTABLE = ["numpy", "array-api-strict", "torch", "cupy"]

MATRIX = np.arange(12, dtype=np.float32).reshape(2, 6)
MATRIX.flags.writeable = False
SIZES = [1, 0, 3, 2]
CHUNKS = [MATRIX[:, :1], MATRIX[:, 1:1], MATRIX[:, 1:4], MATRIX[:, 4:]]


def matrix(backend):
    return backend.array(MATRIX.copy())


def held(backend):
    return sa.ArraySequence([backend.array(chunk.copy()) for chunk in CHUNKS]), CHUNKS


def copied(backend):
    return sa.sequence_construct(*map(backend.array, CHUNKS), copy=True), CHUNKS


def split_into_copies(backend):
    return sa.split_to_sequence(matrix(backend), SIZES, axis=1), CHUNKS


def split_into_views(backend):
    return sa.split_to_sequence(matrix(backend), SIZES, axis=1, copy=None), CHUNKS


def split_evenly(backend):
    return sa.split_to_sequence(matrix(backend), 4, axis=1, copy=None), [MATRIX[:, :4], MATRIX[:, 4:]]


def split_and_dropped(backend):
    sequence = sa.split_to_sequence(matrix(backend), axis=1, keepdims=0, copy=None)
    return sequence, [MATRIX[:, i] for i in range(6)]


def copies_dropped(backend):
    return sa.split_to_sequence(matrix(backend), axis=1, keepdims=0), [MATRIX[:, i] for i in range(6)]


def mended(backend):
    sequence, chunks = split_into_views(backend)
    new = np.full((3, 1), 7, dtype=np.float32)
    sequence = sa.sequence_insert(sa.sequence_erase(sequence, 1), backend.array(new), 2)
    return sequence, [chunks[0], chunks[2], new, chunks[3]]


def empty(backend):
    return sa.sequence_erase([matrix(backend)]), []


#: Every form in which a sequence keeps its elements.
FORMS = [
    held,
    copied,
    split_into_copies,
    split_into_views,
    split_evenly,
    split_and_dropped,
    copies_dropped,
    mended,
    empty,
]


#: The modules by which a program makes arrays of each library.
MODULES = {
    "numpy": "numpy",
    "array_api_strict": "array_api_strict",
    "torch": "torch",
    "jax": "jax.numpy",
    "dask": "dask.array",
}


def library_of(backend: Any) -> str:
    """The name of the backend's library in messages."""
    return backend.name.removesuffix("-x64").replace("-", "_")


def assert_holds(sequence: Any, expected: list[Any], backend: Any) -> None:
    """`sequence` has these NumPy arrays as its elements, as arrays of the backend."""
    assert len(sequence) == len(expected)
    for element, wanted in zip(sequence, expected, strict=True):
        assert_arrays_equal(element, backend.array(wanted))
