"""The command ``seqarray lower``, which rewrites a model without sequences."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import onnx

from seqarray.onnx._load.model import load
from seqarray.onnx._load.type_protos import value_type
from seqarray.onnx._lower.lowering import lower
from seqarray.onnx._run.feeds import GraphInput
from seqarray.onnx._test_data import check_inputs, model_file, read_folder, read_npz

DESCRIPTION = "Rewrite an ONNX model without sequences and optionals, for inputs of fixed shapes."
EPILOG = "Exit status: 2 if the model cannot be lowered, or something is wrong with what was given."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to a parser."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="the model, or a folder with model.onnx")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT.onnx", required=True, help="where to write the new one"
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=2,3",
        help="the shape of an input; of a sequence, those of its elements: NAME=2,3;4,3 (may be given repeatedly)",
    )
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="FOLDER|FILE.npz",
        help="examples of the inputs, as for the command run: they give the shapes, and the values of positions, "
        "lengths and conditions, which become constants",
    )
    parser.add_argument(
        "--keepdims-with-split",
        choices=("ignore", "apply"),
        default="ignore",
        help="what SplitToSequence does with keepdims=0 beside a size; default ignore, as the standard says",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status.

    Returns
    -------
    int
        0 on success, 2 after an error, which is printed in one line.
    """
    try:
        options.model = model_file(options.model)
        lowered = lower(options.model, _given(options), keepdims_with_split=options.keepdims_with_split)
        onnx.save(lowered, options.output)
        for kind, values in (("input", lowered.graph.input), ("output", lowered.graph.output)):
            for value in values:
                print(f"{kind} {value.name}: {value_type(value.type, value.name)}")
    except BrokenPipeError:  # the standard output is closed
        raise
    except (IndexError, MemoryError, OSError, TypeError, ValueError) as error:
        print("error: " + " ".join(str(error).split() or ["out of memory"]), file=sys.stderr)
        return 2
    return 0


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the command line gives of the inputs."""
    graph = load(options.model).graph
    defaults = {tensor.name for tensor in graph.initializer}
    declared = [
        GraphInput(value.name, value_type(value.type, f"input {value.name!r}"), 0, value.name in defaults)
        for value in graph.input
    ]
    given: dict[str, Any] = {}
    if options.inputs is not None:
        check_inputs(options.inputs)
    if options.inputs is not None and options.inputs.is_file():
        given = read_npz(options.inputs, declared)
    elif options.inputs is not None:
        values = read_folder(options.inputs, "input", declared) or []
        given = dict(zip((value.name for value in declared), values, strict=False))
    types = {value.name: value.type for value in declared}
    for text in options.shape:
        name, equals, shape = text.rpartition("=")
        if not equals or name not in types:
            raise ValueError(
                f"--shape {text}: expected NAME=2,3 with the name of an input: {', '.join(types) or 'none'}"
            )
        shapes = [_shape(part, text) for part in shape.split(";")] if shape else []
        given[name] = shapes if types[name].sequence else (shapes or [()])[0]
    return given


def _shape(text: str, option: str) -> tuple[int, ...]:
    """Return a shape of the command line."""
    lengths = [length.strip() for length in text.split(",") if length.strip()]
    if not all(length.isdecimal() for length in lengths):
        raise ValueError(f"--shape {option}: {text!r} is no shape")
    return tuple(map(int, lengths))
