"""What dask takes for the size of a sequence, by which its schedulers decide where to compute and what to keep."""

from __future__ import annotations

import sys
from typing import Any

from seqarray._blocks import held_arrays
from seqarray._libraries import LIBRARIES, Library, on_new_library
from seqarray._sequence import ArraySequence

_registered: set[str] = set()


def nbytes_of(sequence: ArraySequence[Any]) -> int:
    """Return the bytes of the elements, with all that they keep alive, and of the objects that hold them."""
    objects = sum(map(sys.getsizeof, held_arrays(sequence._blocks)))
    library = sequence._kind.library
    is_in_memory = library is not None and library.task_graph(()) is None
    return objects + (sequence.nbytes_held if is_in_memory else 0)


def _register() -> None:
    for name, library in LIBRARIES.items():
        if name not in _registered and library.register_sizes(ArraySequence, nbytes_of):
            _registered.add(name)


def _register_for(library: Library) -> None:
    del library
    _register()


on_new_library.append(_register_for)
_register()
