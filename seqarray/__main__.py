"""``python -m seqarray``: which array libraries are usable here; ``python -m seqarray run``: runs an ONNX model."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from seqarray import __version__
from seqarray._dtypes import can_hold
from seqarray._libraries import namespace_of, resolve_namespace

_LIBRARIES = ("numpy", "cupy", "torch", "jax", "dask", "array_api_strict")
_COLUMNS = ("string", "bfloat16", "float8_e4m3fn", "int64")
_HEADINGS = ("library", "version", "device", "string", "bfloat16", "float8", "int64")


def main(arguments: Sequence[str] = ()) -> int:
    """Print the table, or run a model.

    Parameters
    ----------
    arguments : sequence of str
        The command line.

    Returns
    -------
    int
        The exit status: 0; 1 if a model's output differs from the one that is stored with it; 2 if something is wrong
        with the arguments, or with the files that they name.
    """
    if list(arguments[:1]) == ["run"]:
        return _run_model(arguments[1:])
    argparse.ArgumentParser(
        prog="python -m seqarray",
        description="Show which array libraries and devices are usable here, and what each can hold.",
        epilog="python -m seqarray run MODEL.onnx runs an ONNX model; python -m seqarray run --help says more.",
    ).parse_args(arguments)
    print(f"seqarray {__version__}, Python {sys.version.split()[0]}")
    rows = [_HEADINGS, *(row for library in _LIBRARIES for row in _rows(library))]
    widths = [max(map(len, column)) for column in zip(*(row for row in rows if len(row) > 3), strict=True)]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip())
    return 0


def _run_model(arguments: Sequence[str]) -> int:
    try:
        command: Any = importlib.import_module("seqarray.onnx._cli")
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(
        prog="python -m seqarray run",
        description="Run an ONNX model, print the type and shape of each output, and compare it with the stored one.",
        epilog="Exit status: 1 if an output differs from the stored one, 2 if something is wrong with what was given.",
    )
    command.add_arguments(parser)
    status: int = command.run(parser.parse_args(arguments))
    return status


def _rows(library: str) -> Iterator[tuple[str, ...]]:
    """One row for every device of a library, or one that says why there is none."""
    try:
        importlib.import_module(library)
    except ModuleNotFoundError:
        yield library, "-", "not installed"
        return
    except Exception as error:  # a broken driver can raise anything, and the other rows are still wanted
        yield library, "-", f"cannot be imported ({_first_line(error)})"
        return
    version = _version(library)
    if library == "cupy":
        reason = _why_no_gpu()
        if reason:
            yield library, version, f"no usable GPU ({reason})"
            return
    xp = resolve_namespace(library, operator="python -m seqarray")
    for device in _devices(library, xp):
        yield library, version, str(device), *("yes" if can_hold(xp, t, device) else "no" for t in _COLUMNS)


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return str(importlib.import_module(library).__version__)


def _why_no_gpu() -> str:
    """Why CuPy cannot compute here, or "": an import succeeds without a GPU, so a kernel has to run."""
    cupy: Any = importlib.import_module("cupy")
    try:
        if not cupy.cuda.is_available():
            return "no CUDA driver or device"
        np.testing.assert_equal((cupy.arange(2) + 1).get(), [1, 2])
    except Exception as error:  # whatever a driver, a compiler or a device can raise, the table is to be printed
        return _first_line(error)
    return ""


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _devices(library: str, xp: Any) -> list[Any]:
    if library == "jax":
        return list(importlib.import_module("jax").devices())
    if library == "cupy":
        return [xp.cuda.Device(i) for i in range(xp.cuda.runtime.getDeviceCount())]
    if library == "torch":
        torch = importlib.import_module("torch")
        return ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if library == "dask":
        return ["cpu"]
    devices: list[Any] = namespace_of(xp.zeros(1)).__array_namespace_info__().devices()
    return devices


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
