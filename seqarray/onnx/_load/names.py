"""The names of a model as messages and texts show them."""

from __future__ import annotations

#: Of longer names, messages and texts show the beginning: a name is repeated for every call of a function.
_MAX_NAME = 64


def short(name: str) -> str:
    """Return a name, or the beginning of a very long one."""
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."


def plain(name: str) -> str:
    """Return a short name in one line: a model may come from a stranger, and control the terminal with a name."""
    return short(name if name.isprintable() else repr(name)[1:-1])
