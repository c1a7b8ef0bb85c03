"""Checks and conversions of the inputs of kernels that several operators share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqarray._arguments import host_values
from seqarray._dtypes import element_type_of
from seqarray._libraries import Array, library_of
from seqarray._sequence import ArraySequence
from seqarray.onnx._run.values import describe_value


def tensor(value: Any, index: int) -> Array:
    """Return an input that is a tensor; raise a TypeError if it is a sequence or missing."""
    if value is None or type(value) is ArraySequence:
        raise TypeError(f"input {index} is {describe_value(value)}; expected a tensor")
    return value


def tensors(values: Sequence[Any], allowed: frozenset[str]) -> Sequence[Array]:
    """Return inputs that are tensors of one allowed element type; raise a TypeError otherwise."""
    first = element_type_of(tensor(values[0], 0).dtype)
    for index, value in enumerate(values):
        element_type = element_type_of(tensor(value, index).dtype)
        if element_type not in allowed:
            raise TypeError(f"input {index} is {describe_value(value)}; allowed are {', '.join(sorted(allowed))}")
        if element_type != first:
            raise TypeError(f"input {index} is {describe_value(value)}; input 0 is a tensor of {first}")
    return values


def integers(value: Any, name: str) -> list[int]:
    """Return the integers of an input on the host that holds axes or lengths."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or value.ndim > 1:
        raise TypeError(f"{name} is {describe_value(value)}; expected a 1-D tensor of integers")
    return [int(number) for number in host_values(value.reshape(-1), int, operator="run", name=name)]


def single_bool(value: Any, name: str) -> bool:
    """Return the bool of a tensor on the host with one element, such as a condition."""
    return bool(_single(value, "b", name, "bool"))


def single_integer(value: Any, name: str) -> int:
    """Return the integer of a tensor on the host with one element, such as a trip count."""
    return int(_single(value, "iu", name, "int64"))


def _single(value: Any, kinds: str, name: str, expected: str) -> Any:
    """Return the only element of a NumPy array whose dtype is of one of the given kinds."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        raise TypeError(f"{name} is {describe_value(value)}; expected a tensor of one {expected}")
    if value.size != 1:
        raise ValueError(f"{name} is {describe_value(value)}; expected one element")
    return value.item()


def as_result(result: Any) -> Array:
    """Return a result as an array: NumPy's functions return scalars for 0-d arrays."""
    return np.asarray(result) if isinstance(result, np.generic) else result


def scalar_like(xp: Any, value: float, array: Array) -> Array:
    """Return a number as a 0-d array with the dtype and device of another array."""
    library = library_of(array)
    device = library.device_of(array)
    with library.on_device(device):
        return xp.asarray(value, dtype=array.dtype, **library.creation_options(device))


def broadcast_shapes(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the shape to which arrays of some shapes are broadcast."""
    rank = max(map(len, shapes))
    padded = [(*[1] * (rank - len(shape)), *shape) for shape in shapes]
    lengths = []
    for axis, column in enumerate(zip(*padded, strict=True)):
        others = {length for length in column if length != 1} or {1}
        if len(others) > 1:
            raise ValueError(
                f"the inputs have shapes {', '.join(str(tuple(s)) for s in shapes)}; they differ in axis {axis}"
            )
        lengths.append(others.pop())
    return tuple(lengths)


def is_integral(array: Array) -> bool:
    """Return whether an array holds integers; unlike `isdtype` of the standard, for bfloat16 too."""
    return element_type_of(array.dtype).startswith(("int", "uint"))
