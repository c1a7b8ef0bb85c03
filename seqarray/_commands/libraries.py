"""Which array libraries are usable here, and why others are not."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from seqarray._libraries import LIBRARIES, Library, resolve_library

#: The number of columns into which everything that is printed fits.
COLUMNS = 100

#: The problem of a library that is not there, unlike one that is broken.
NOT_INSTALLED = "not installed"


class Found(NamedTuple):
    """A library that seqarray knows, and whether it is usable.

    Attributes
    ----------
    name : str
        The name of its module.
    version : str
        Its version; "-" if it does not tell.
    library : Library or None
        None if nothing can be computed with it.
    problem : str
        Why; "" for a library that is usable.
    """

    name: str
    version: str
    library: Library | None
    problem: str


def find_all() -> list[Found]:
    """Import every library that seqarray knows."""
    return [find(name) for name in LIBRARIES]


def find(name: str) -> Found:
    """Import a library, and return whether it is usable."""
    version = "-"
    try:
        importlib.import_module(name)
        version = _version(name)
        library = resolve_library(name, operator="seqarray")
        assert library is not None
        reason = library.why_unusable()
    except ModuleNotFoundError as error:
        return Found(name, version, None, NOT_INSTALLED if error.name == name else _reason(error))
    except Exception as error:  # broken drivers raise errors of many types; the other libraries are shown anyway
        return Found(name, version, None, _reason(error))
    return Found(name, version, None, f"no usable GPU ({reason})") if reason else Found(name, version, library, "")


def _reason(error: Exception) -> str:
    kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
    return f"cannot be imported: {kind}{error}".splitlines()[0]


def _version(name: str) -> str:
    """Return the version of a library, "-" if it does not tell."""
    try:
        version: Any = importlib.metadata.version(name)  # None for a package whose metadata is damaged
    except importlib.metadata.PackageNotFoundError:
        version = getattr(importlib.import_module(name), "__version__", None)
    return "-" if version is None else str(version)


def in_columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines whose cells are aligned; the last cell of a row may be of any length."""
    rows = list(rows)
    full = max(map(len, rows))
    widths = [max(map(len, column)) for column in zip(*(row for row in rows if len(row) == full), strict=True)]
    return [shortened("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))) for row in rows]


def shortened(line: str) -> str:
    """Return a line without what is beyond the last column."""
    line = line.rstrip()
    return line if len(line) <= COLUMNS else f"{line[: COLUMNS - 3]}..."
