"""The inputs of operators as tensors of the right kind, and shapes that go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqarray._arguments import host_values
from seqarray._dtypes import element_type_of
from seqarray._libraries import Array, device_of, entering
from seqarray._sequence import ArraySequence
from seqarray.onnx._run.executor import described


def tensor(value: Any, index: int) -> Array:
    """An input that has to be a tensor."""
    if value is None or type(value) is ArraySequence:
        raise TypeError(f"input {index} is {described(value)}; expected a tensor")
    return value


def tensors(values: Sequence[Any], allowed: frozenset[str]) -> Sequence[Array]:
    """Inputs that have to be tensors of one element type out of those allowed."""
    first = element_type_of(tensor(values[0], 0).dtype)
    for index, value in enumerate(values):
        element_type = element_type_of(tensor(value, index).dtype)
        if element_type not in allowed:
            raise TypeError(f"input {index} is {described(value)}; allowed are {', '.join(sorted(allowed))}")
        if element_type != first:
            raise TypeError(f"input {index} is {described(value)}; input 0 is a tensor of {first}")
    return values


def integers(value: Any, what: str) -> list[int]:
    """The values of an input that holds axes or lengths."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or value.ndim > 1:
        raise TypeError(f"{what} is {described(value)}; expected a 1-D tensor of integers")
    return [int(number) for number in host_values(value.reshape(-1), int)]


def plain(array: Any) -> Array:
    """A result as an array: NumPy gives scalars for what has no axes."""
    return np.asarray(array) if isinstance(array, np.generic) else array


def number(xp: Any, value: float, like: Array) -> Array:
    """A number as an array beside another."""
    with entering(xp, device_of(like)):
        return xp.asarray(value, dtype=like.dtype, device=device_of(like))


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The shape that arrays have together."""
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
    """Whether an array holds integers; `isdtype` of the standard knows no bfloat16."""
    return element_type_of(array.dtype).startswith(("int", "uint"))
