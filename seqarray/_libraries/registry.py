"""Finding the library of an array, once for each type of arrays.

torch, jax, dask and CuPy are not imported here: their arrays cannot exist before the program has imported them.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np

from seqarray._libraries.array_api_strict import ArrayAPIStrict
from seqarray._libraries.base import Array, Library, name_of
from seqarray._libraries.cupy import CuPy
from seqarray._libraries.dask import Dask
from seqarray._libraries.jax import JAX
from seqarray._libraries.numpy import NumPy
from seqarray._libraries.other import Other
from seqarray._libraries.torch import Torch

#: The libraries with a class of their own, by the names of their modules.
LIBRARIES: dict[str, type[Library]] = {
    library.name: library for library in (NumPy, CuPy, Torch, JAX, Dask, ArrayAPIStrict)
}

#: The namespaces that stand for a name or a module which is given as `xp`.
_NAMESPACES = {
    "numpy": "array_api_compat.numpy",
    "cupy": "array_api_compat.cupy",
    "torch": "array_api_compat.torch",
    "dask": "array_api_compat.dask.array",
    "dask.array": "array_api_compat.dask.array",
    "jax": "jax.numpy",
}

#: The same libraries by the names of their namespaces; others of a package, like `torch._numpy`, are other libraries.
_CLASSES = {
    _NAMESPACES.get(name, name).removeprefix("array_api_compat."): library for name, library in LIBRARIES.items()
}

NUMPY: Library = NumPy(array_api_compat.numpy)

_libraries: list[Library] = [NUMPY]
_unannounced: list[Library] = []
#: Two threads that meet a library at once must get one object for it; a signal handler may meet one in between.
_adding = threading.RLock()
_by_type: dict[type, Library] = {np.ndarray: NUMPY}
#: Programs can make classes and namespaces without end; beyond this many, those that were met first are forgotten.
_MOST_TYPES = 1024
_MOST_LIBRARIES = 256
#: Namespaces that users name, and the library of the arrays that they make.
_others: list[tuple[Any, Library]] = []

#: The module torch, once it has been seen: torch.compile looks at every entry of `sys.modules` to trace its use, and
#: fails if another thread imports something meanwhile.
_seen: dict[str, Any] = {"torch": sys.modules.get("torch")}

#: The library of arrays of exactly a type; None for types that are not arrays or have not been met.
library_of_type = _by_type.get

#: Called with every library that is met for the first time.
on_new_library: list[Callable[[Library], None]] = []


def library_of(array: Array) -> Library:
    """Return the library of an array, looked up once for each type.

    Raises
    ------
    TypeError
        For anything that is not an array; for masked arrays, matrices and sparse arrays, which have no plain
        rectangular memory to join or to cut; and for NumPy arrays of classes with rules of their own.
    """
    try:
        return _by_type[type(array)]
    except KeyError:
        return _found(array)


def _found(array: Array) -> Library:
    array_type = type(array)
    if is_compiling() and issubclass(array_type, sys.modules["torch"].Tensor):
        # torch.compile cannot trace the lookups of array-api-compat.
        from array_api_compat import torch as namespace  # noqa: PLC0415

        return library_for(namespace)
    masked = loaded("numpy.ma")
    if (
        issubclass(array_type, np.matrix)
        or (masked is not None and issubclass(array_type, masked.MaskedArray))
        or array_api_compat.is_pydata_sparse_array(array)
    ):
        raise TypeError(f"{array_type.__name__} is not supported; pass a plain dense array")
    if issubclass(array_type, np.ndarray) and array_type.__array_function__ is not np.ndarray.__array_function__:
        raise TypeError(
            f"{array_type.__module__}.{array_type.__qualname__} has rules of its own for joining and splitting "
            "(__array_function__), which would be lost, and with them units or masks; pass a plain array"
        )
    if not array_api_compat.is_array_api_obj(array):
        raise TypeError(f"{array_type.__module__}.{array_type.__qualname__} is not an array")
    # array_namespace imports even what has been imported, which fails while the interpreter exits.
    of_numpy = issubclass(array_type, (np.ndarray, np.generic))
    library = NUMPY if of_numpy else library_for(array_api_compat.array_namespace(array))
    if _unannounced:
        with _adding:
            _announce()
    if not issubclass(array_type, np.generic):
        with _adding:
            if len(_by_type) >= _MOST_TYPES:
                del _by_type[next(known for known in _by_type if known is not np.ndarray)]
            _by_type[array_type] = library
    return library


def library_for(namespace: Any) -> Library:
    """Return the library whose array API namespace this is."""
    found = _met(namespace)
    if found is not None:
        return found
    if is_compiling():
        return _add(namespace)
    with _adding:
        library = _met(namespace) or _add(namespace)
        _announce()
    return library


def _met(namespace: Any) -> Library | None:
    return next((library for library in _libraries if library.namespace is namespace), None)


def _add(namespace: Any) -> Library:
    library = _CLASSES.get(name_of(namespace), Other)(namespace)
    # torch.compile does not trace import_module; where it is tracing, all engines do the same.
    library.engine = loaded(library.engine_module) or loaded(Library.engine_module)
    if len(_libraries) >= _MOST_LIBRARIES:
        _forget(next(met for met in _libraries if isinstance(met, Other)))
    _libraries.append(library)
    _unannounced.append(library)
    return library


def _forget(library: Library) -> None:
    _libraries.remove(library)
    _others[:] = [other for other in _others if other[1] is not library]
    for array_type in [known for known, met in _by_type.items() if met is library]:
        del _by_type[array_type]


def _announce() -> None:
    """Give new libraries their engines and call `on_new_library`; not under torch.compile, which cannot trace that."""
    while _unannounced:
        library = _unannounced.pop()
        library.engine = importlib.import_module(library.engine_module)
        for notify in on_new_library:
            notify(library)


def import_namespaces() -> None:
    """Import the namespaces of the libraries that the program has imported by now.

    Otherwise it is done in the call that meets their first array; a child process that another thread forks meanwhile
    would wait for the import for ever.
    """
    for name, namespace in _NAMESPACES.items():
        if name in sys.modules and name != "dask":  # which does not import dask.array
            with suppress(ImportError, AttributeError):  # a module that is being imported itself
                importlib.import_module(namespace)


def import_engines() -> None:
    """Import the engines of those libraries, for the same reason."""
    for name, library in LIBRARIES.items():
        if name in sys.modules:
            with suppress(ImportError, AttributeError):
                importlib.import_module(library.engine_module)


import_namespaces()


def resolve_library(xp: Any, *, operator: str) -> Library | None:
    """Return the library that `xp` stands for: a namespace, its compat module, or the name of either."""
    if xp is None:
        return None
    name = xp if isinstance(xp, str) else getattr(xp, "__name__", None)
    namespace = xp
    if isinstance(xp, str) or name in _NAMESPACES:
        try:
            module = _NAMESPACES.get(str(name), str(name))
            # torch.compile does not trace import_module.
            namespace = _known(module) or sys.modules.get(module) or importlib.import_module(module)
        except (ImportError, ValueError) as error:
            raise ImportError(f"{operator}: xp is {xp!r}, which cannot be imported: {error}") from None
    if not all(hasattr(namespace, needed) for needed in ("asarray", "concat", "stack")):
        raise TypeError(
            f"{operator}: xp is {xp!r}; expected an array namespace or the name of one, such as 'numpy' or 'torch'"
        )
    return _library_named(namespace, operator)


def _library_named(namespace: Any, operator: str) -> Library:
    """Return the library of the arrays that a namespace makes, which may name another namespace as theirs."""
    found = _met(namespace) or next((library for other, library in _others if other is namespace), None)
    if found is not None:
        return found
    if name_of(namespace) in _CLASSES or not hasattr(namespace, "zeros"):
        return library_for(namespace)
    try:
        library = library_of(namespace.zeros((1,)))
    except Exception as error:  # each library has errors of its own, such as for a missing device
        raise TypeError(f"{operator}: {name_of(namespace)} cannot make arrays here: {error}") from error
    if library.namespace is not namespace:
        _others.append((namespace, library))
    return library


def _known(name: str) -> Any:
    """Return the namespace of this name if a library has it: the interpreter forgets its modules when it exits."""
    for library in _libraries:
        if getattr(library.namespace, "__name__", None) == name:
            return library.namespace
    return None


def is_compiling() -> bool:
    """Return whether torch.compile is tracing the program; it can trace plain Python, but not NumPy."""
    torch = _seen["torch"] or _look_for_torch()
    return torch is not None and bool(torch.compiler.is_compiling())


def is_symbolic(value: Any) -> bool:
    """Return whether a length or a size is a symbol in a program that torch is tracing, for any value of it.

    To ask for its value would make the program one for this value alone.  torch.compile shows symbols as plain ints, so
    there every int may be one.
    """
    if type(value) is int:
        return is_compiling()
    torch = _seen["torch"] or _look_for_torch()
    return torch is not None and isinstance(value, torch.SymInt)


def _look_for_torch() -> Any:
    _seen["torch"] = loaded("torch")
    return _seen["torch"]


def loaded(name: str) -> ModuleType | None:
    """Return a module if the program has imported it already."""
    return sys.modules.get(name)
