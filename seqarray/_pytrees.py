"""`ArraySequence` as a pytree of jax and torch: its leaves are its elements."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from seqarray._libraries import Library, loaded, on_new_library
from seqarray._sequence import ArraySequence, rebuilt

_registered: set[str] = set()

Context = tuple[str, str | None, Any]


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
    if loaded("jax") is not None and "jax" not in _registered:
        _registered.add("jax")
        tree_util = importlib.import_module("jax.tree_util")
        tree_util.register_pytree_with_keys(
            ArraySequence,
            lambda s: ([(tree_util.SequenceKey(i), element) for i, element in enumerate(s)], _context(s)),
            lambda context, elements: _unflatten(elements, context),
            _flatten,
        )
    if loaded("torch") is not None and "torch" not in _registered:
        _registered.add("torch")
        importlib.import_module("torch.utils._pytree").register_pytree_node(
            ArraySequence, _flatten, _unflatten, serialized_type_name="seqarray.ArraySequence"
        )


def _context(sequence: ArraySequence[Any]) -> Context:
    # With the element type in it, trees that differ only in dtypes would differ in structure.
    if len(sequence):
        return "", None, None
    library = sequence._kind.library
    if library is None:
        return sequence.element_type, None, sequence.device
    return sequence.element_type, str(library.namespace.__name__), library.device_name(sequence.device)


def _flatten(sequence: ArraySequence[Any]) -> tuple[list[Any], Context]:
    return list(sequence), _context(sequence)


def _unflatten(elements: Iterable[Any], context: Context) -> ArraySequence[Any]:
    return rebuilt(*context, tuple(elements))


def _register_for(library: Library) -> None:
    del library
    register_pytrees()


on_new_library.append(_register_for)
register_pytrees()
