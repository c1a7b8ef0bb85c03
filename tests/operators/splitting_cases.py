"""What the tests of splitting share."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_sequences_equal

INTEGER_TYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()

#: One backend of every library, for what does not depend on the types that it can hold.
each_library = pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")
#: jax compiles for every type anew; its own tests take some types.
each_library_but_jax = pytest.mark.backends("numpy", "array-api-strict", "torch", "dask", "cupy")
#: Those whose arrays can be read without computing them.
each_eager = pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "jax-x64", "cupy")

#: Both operators with sizes, giving an ArraySequence or a tuple.
WITH_SIZES: dict[str, Callable[..., Any]] = {
    "split": sa.split,
    "split_to_sequence": sa.split_to_sequence,
}


def values(*shape: int) -> Any:
    """A float32 array whose items are all different."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def parts_of(x: Any, sizes: Any, axis: int = 0) -> list[Any]:
    """The chunks of a NumPy array, cut one by one."""
    stops = np.cumsum([0, *sizes]).tolist()
    return [np.take(x, range(start, stop), axis) for start, stop in pairwise(stops)]


def assert_chunks(actual: Any, expected: list[Any], backend: Any) -> None:
    """A tuple or a sequence of arrays equals these NumPy arrays."""
    assert isinstance(actual, (tuple, sa.ArraySequence))
    assert_sequences_equal(sa.ArraySequence(actual), [backend.array(array) for array in expected])
