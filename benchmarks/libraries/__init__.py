"""What the benchmarks time: seqarray on a backend, and the libraries beside it.

To add a library, add a module to this folder, with a subclass of `base.Library` and a list ``LIBRARIES`` of one
instance of each class; it is found by itself.  `base` documents the interface.  `seqarray` has the ways in which
seqarray is called, `memcpy` the machine's limits.
"""

from __future__ import annotations

import importlib
import pkgutil

import seqarray as sa
from benchmarks.libraries.base import Library


def find() -> list[Library]:
    """Import the modules of this folder, and return the libraries that they declare."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return [library for module in modules for library in getattr(module, "LIBRARIES", ())]


#: Every library but seqarray itself and the machine's limits.
ALL: list[Library] = find()

#: Backends by name: array libraries on whose arrays seqarray is timed.
BACKENDS: dict[str, Library] = {library.name: library for library in ALL if library.backend}

#: What is timed beside seqarray on each backend, by the name under which it is chosen; the backend's own comes first.
PEERS: dict[str, dict[str, Library]] = {
    name: {peer.chosen_as or peer.name: peer for peer in [own, *ALL] if name in peer.beside}
    for name, own in BACKENDS.items()
}


def use_threads(count: int) -> None:
    """Set the number of threads of seqarray and of each library that is here and lets itself be told."""
    sa.set_num_threads(count)
    for library in ALL:
        if not library.missing():
            library.use_threads(count)


def thread_counts() -> dict[str, int]:
    """Return the number of threads of each library that has been imported and has any."""
    counts = {library.name: library.threads() for library in ALL}
    return {name: count for name, count in counts.items() if count is not None}


def packages() -> list[str]:
    """Return the distributions whose versions belong to a result."""
    return list(dict.fromkeys(package for library in ALL for package in library.packages))
