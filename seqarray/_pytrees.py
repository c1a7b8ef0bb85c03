"""`ArraySequence` as a pytree of jax and torch: its leaves are its elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from seqarray._libraries import LIBRARIES, Library, on_new_library
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
    for name, library in LIBRARIES.items():
        if name not in _registered and library.register_pytree(ArraySequence, _flatten, _unflatten):
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
    return list(sequence), _context(sequence)


def _unflatten(elements: Iterable[Any], context: Context) -> ArraySequence[Any]:
    return rebuilt(*context, tuple(elements))


def _register_for(library: Library) -> None:
    del library
    register_pytrees()


on_new_library.append(_register_for)
register_pytrees()
