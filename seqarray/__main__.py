"""``python -m seqarray``: which array libraries are usable here; with ``run`` or ``lower``, what to do with a model."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Any

from seqarray import __version__
from seqarray._libraries import LIBRARIES, resolve_library

_COLUMNS = ("string", "bfloat16", "float8_e4m3fn", "int64")
_HEADINGS = ("library", "version", "device", "string", "bfloat16", "float8", "int64")


def main(arguments: Sequence[str] = ()) -> int:
    """Print the table, or run or lower a model.

    Parameters
    ----------
    arguments : sequence of str
        The command line.

    Returns
    -------
    int
        The exit status: 0; 1 if an output of a model differs from the one stored with it; 2 if the arguments, or the
        files that they name, are not valid.
    """
    if list(arguments[:1]) in (["run"], ["lower"]):
        return _with_model(arguments[0], arguments[1:])
    argparse.ArgumentParser(
        prog="python -m seqarray",
        description="Show which array libraries and devices are usable here, and what each can hold.",
        epilog="python -m seqarray run MODEL.onnx runs an ONNX model, python -m seqarray lower MODEL.onnx -o OUT.onnx "
        "rewrites it without sequences; --help after run or lower says more.",
    ).parse_args(arguments)
    print(f"seqarray {__version__}, Python {sys.version.split()[0]}")
    rows = [_HEADINGS, *(row for library in LIBRARIES for row in _rows(library))]
    widths = [max(map(len, column)) for column in zip(*(row for row in rows if len(row) > 3), strict=True)]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip())
    return 0


def _with_model(name: str, arguments: Sequence[str]) -> int:
    try:
        command: Any = importlib.import_module("seqarray.onnx._cli" if name == "run" else "seqarray.onnx._lower.cli")
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(
        prog=f"python -m seqarray {name}", description=command.DESCRIPTION, epilog=command.EPILOG
    )
    command.add_arguments(parser)
    status: int = command.run(parser.parse_args(arguments))
    return status


def _rows(name: str) -> list[tuple[str, ...]]:
    """Return one row for every device of a library, or one with the reason why there is none."""
    version = "-"
    try:
        importlib.import_module(name)
        version = _version(name)
        return _usable_rows(name, version)
    except ModuleNotFoundError as error:
        if error.name == name:
            return [(name, "-", "not installed")]
        return [(name, version, _reason(error))]
    except Exception as error:  # broken drivers raise errors of many types; the other rows are printed anyway
        return [(name, version, _reason(error))]


def _usable_rows(name: str, version: str) -> list[tuple[str, ...]]:
    library = resolve_library(name, operator="python -m seqarray")
    assert library is not None
    if reason := library.why_unusable():
        return [(name, version, f"no usable GPU ({reason})")]
    return [
        (name, version, str(device), *("yes" if library.can_hold(t, device) else "no" for t in _COLUMNS))
        for device in library.devices()
    ]


def _reason(error: Exception) -> str:
    return f"cannot be imported ({type(error).__name__}: {error})".splitlines()[0]


def _version(name: str) -> str:
    """Return the version of a library, "-" if it does not tell."""
    try:
        version: Any = importlib.metadata.version(name)  # None for a package whose metadata is damaged
    except importlib.metadata.PackageNotFoundError:
        version = getattr(importlib.import_module(name), "__version__", None)
    return "-" if version is None else str(version)


def command() -> int:
    """Run the command line, and return the exit status; end quietly when whoever reads the output has gone."""
    try:
        try:
            return main(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter writes what is still buffered when it exits, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as shells report a program that was ended by the signal of a broken pipe


if __name__ == "__main__":
    sys.exit(command())
