"""`ArraySequence` as a pytree of jax and torch: its leaves are its elements."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from seqarray._libraries import LIBRARIES, Library, PytreeNode, library_of, on_new_library
from seqarray._pickling import declared_type
from seqarray._sequence import ArraySequence, rebuilt

_registered: set[str] = set()

Context = tuple[Any, str | None, Any]


def register_pytrees() -> None:
    """Register `ArraySequence` with the pytrees of jax and torch, if the program has imported them.

    seqarray registers it automatically when it first meets a jax or torch array.  Call this function to pass a sequence
    of NumPy arrays to ``jax.jit`` before that.

    Notes
    -----
    The leaves are the elements, so a traced function is called with a sequence of traced arrays.  The length is part of
    the structure: a sequence of another length is traced again.

    Examples
    --------
    >>> import seqarray as sa
    >>> sa.register_pytrees()
    """
    node = PytreeNode(ArraySequence, _flatten, _unflatten, _dump, _restore)
    for name, library in LIBRARIES.items():
        if name not in _registered and library.register_pytree(node):
            _registered.add(name)


def _context(sequence: ArraySequence[Any]) -> Context:
    # With the element type in it, trees that differ only in dtypes would differ in structure.
    if len(sequence):
        return "", None, None
    library = sequence._kind.library
    if library is None:
        return sequence.element_type, None, sequence.device
    return declared_type(sequence._kind), str(library.namespace.__name__), library.device_name(sequence.device)


def _flatten(sequence: ArraySequence[Any]) -> tuple[list[Any], Context]:
    elements: list[Any] = []
    for block in sequence._blocks:
        if isinstance(block, tuple):
            elements += block
        else:
            with library_of(block.base).within_trace_of(block.base):
                elements += block
    return elements, _context(sequence)


def _unflatten(elements: Iterable[Any], context: Context) -> ArraySequence[Any]:
    return rebuilt(*context, tuple(elements))


def _dump(context: Context) -> str:
    """Return a context as text for files of exported programs.

    Raises
    ------
    TypeError
        If an empty sequence has a dtype or a device that is not known from its name.
    """
    declared, xp, device = context
    is_dtype = isinstance(declared, np.dtype)
    if is_dtype and (declared.names or declared.kind == "T"):
        raise TypeError(f"ArraySequence: an empty sequence of dtype {declared} cannot be exported")
    if not isinstance(device, (str, int, type(None))):
        raise TypeError(f"ArraySequence: an empty sequence on {device!r} cannot be exported; give the device by name")
    return json.dumps([declared.str if is_dtype else declared, is_dtype, xp, device])


def _restore(text: str) -> Context:
    declared, is_dtype, xp, device = json.loads(text)
    return np.dtype(declared) if is_dtype else declared, xp, device


def _register_for(library: Library) -> None:
    del library
    register_pytrees()


on_new_library.append(_register_for)
register_pytrees()
