"""The command line: ``seqarray``, or ``python -m seqarray``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from seqarray import __version__


class _Command(NamedTuple):
    module: str  # has DESCRIPTION, EPILOG, add_arguments and run
    help: str


#: The subcommands. Their modules are imported when they are asked for: those for models need onnx.
_COMMANDS = {
    "info": _Command("seqarray._commands.info", "which array libraries and devices are usable here (the default)"),
    "demo": _Command("seqarray._commands.demo", "a ragged batch of text on every array library that is installed"),
    "run": _Command("seqarray.onnx._cli", "run an ONNX model on values in files"),
    "lower": _Command("seqarray.onnx._lower.cli", "rewrite an ONNX model without sequences"),
}


def main(arguments: Sequence[str] = ()) -> int:
    """Run a subcommand.

    Parameters
    ----------
    arguments : sequence of str
        The command line.

    Returns
    -------
    int
        The exit status: 0; 1 if a result is not the expected one; 2 if the arguments, or the files that they name, are
        not valid, or a package is missing.
    """
    arguments = list(arguments)
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")):
        arguments.insert(0, "info")
    parser = argparse.ArgumentParser(
        prog="seqarray",
        description="Ragged batches for any array library, and ONNX models that hold sequences.",
        epilog="seqarray COMMAND --help tells more about one.",
    )
    parser.add_argument("--version", action="version", version=f"seqarray {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, text) in _COMMANDS.items():
        if name != arguments[0]:
            subparsers.add_parser(name, help=text)
            continue
        try:
            command: Any = importlib.import_module(module)
        except ImportError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        subparser = subparsers.add_parser(name, help=text, description=command.DESCRIPTION, epilog=command.EPILOG)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status


def command() -> int:
    """Run the command line, and return the exit status; end quietly when whoever reads the output has gone."""
    try:
        try:
            return main(sys.argv[1:])
        finally:
            if sys.stdout is not None:  # as where it is closed from the beginning
                sys.stdout.flush()
    except OSError as error:
        # The interpreter writes what is still buffered when it exits, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return 141  # as shells report a program that was ended by the signal of a broken pipe
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130  # as shells report a program that was ended by Ctrl-C


if __name__ == "__main__":
    sys.exit(command())
