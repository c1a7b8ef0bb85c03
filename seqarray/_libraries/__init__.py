"""What differs between array libraries: one class for each, over a base that follows the array API standard.

Outside this package and the engines, no code depends on the name of a library; it uses the library's object.
"""

from seqarray._libraries.base import NO_KEY, Array, Device, HostArray, Library, PytreeNode, same_device
from seqarray._libraries.registry import (
    LIBRARIES,
    NUMPY,
    import_engines,
    is_compiling,
    is_symbolic,
    library_for,
    library_of,
    library_of_type,
    loaded,
    on_new_library,
    resolve_library,
)

__all__ = [
    "LIBRARIES",
    "NO_KEY",
    "NUMPY",
    "Array",
    "Device",
    "HostArray",
    "Library",
    "PytreeNode",
    "import_engines",
    "is_compiling",
    "is_symbolic",
    "library_for",
    "library_of",
    "library_of_type",
    "loaded",
    "on_new_library",
    "resolve_library",
    "same_device",
]
