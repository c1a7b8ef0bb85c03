"""The command ``seqarray run``, which runs a model from a file on inputs from files."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqarray._dtypes import element_type_of, onnx_name
from seqarray._files import save
from seqarray._libraries import LIBRARIES, resolve_library
from seqarray._sequence import ArraySequence
from seqarray.onnx._load.names import plain
from seqarray.onnx._program import Program, prepare
from seqarray.onnx._run.placement import download_value
from seqarray.onnx._test_data import check_inputs, find_data_sets, model_file, read_folder, read_npz, write_value

DESCRIPTION = "Run an ONNX model, print the type and shape of each output, and compare it with the stored one."
EPILOG = "Exit status: 1 if an output differs from the stored one, 2 if something is wrong with what was given."

#: Tolerances for floating-point outputs, those of onnx's own tests.
TOLERANCE = {"rtol": 1e-3, "atol": 1e-7}

#: Limits of `prepare`: the default of the command, and what they count.
DEFAULT_LIMITS = {
    "max_bytes": (1 << 32, "bytes of all values that are alive"),
    "max_trip_count": (1_000_000, "iterations of all loops of a run together"),
    "max_seconds": (600, "seconds that preparing, and each run, may take"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to a parser."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="the model, or a folder with model.onnx")
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="FOLDER|FILE.npz",
        help="a folder with input_0.pb, input_1.pb, ..., or an .npz file with values by name, as seqarray.save or "
        "numpy.savez writes it (of which elements of a sequence: NAME.0, NAME.1, ...); default: every test_data_set_N "
        "beside the model",
    )
    parser.add_argument(
        "--backend",
        default="numpy",
        metavar="LIBRARY",
        help="the array library, any that is installed: numpy, torch, jax, dask, cupy, ...; default numpy",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PATH",
        help="where to write the outputs: an .npz file, a .pb file if there is one, or a folder for output_0.pb, ...",
    )
    parser.add_argument(
        "--fallback",
        choices=("onnxruntime", "reference", "error"),
        help="what runs the operators that seqarray does not implement; default: the first of these that is installed",
    )
    parser.add_argument(
        "--keepdims-with-split",
        choices=("ignore", "apply"),
        help="what SplitToSequence does with keepdims=0 beside a size; default: ignore, as the standard says, and warn",
    )
    parser.add_argument("--profile", action="store_true", help="print what each step took, in all runs together")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    for name, (default, unit) in DEFAULT_LIMITS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=_limit,
            default=default,
            metavar="N|none",
            help=f"the maximum {unit}; default {default}",
        )


def _limit(text: str) -> float | None:
    """Return a limit of the command line: a number, which may be written as 4e9, or None for "none"."""
    if text == "none":
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number that is not negative, or none, got {text!r}")
    return int(number) if number.is_integer() else number


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status.

    Returns
    -------
    int
        0 on success, 1 if an output differs from the stored one, 2 after an error, which is printed in one line.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
            warnings.simplefilter("always", UserWarning)
            return _run(options)
    except BrokenPipeError:  # the standard output is closed
        raise
    except (ImportError, IndexError, MemoryError, OSError, TypeError, ValueError) as error:
        print("error: " + " ".join(str(error).split() or ["out of memory"]), file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    """Run the model on every data set; return 1 if an output differs from the stored one, else 0."""
    model = model_file(options.model)
    if options.inputs is not None:
        check_inputs(options.inputs)
    _check_backend(options.backend)
    program = prepare(
        model,
        xp=options.backend,
        fallback=options.fallback,
        keepdims_with_split=options.keepdims_with_split,
        **{name: getattr(options, name) for name in DEFAULT_LIMITS},
    )
    sources = _sources(options, model, program)
    records: list[dict[str, Any]] = []
    with program.profile() if options.profile else nullcontext() as profile:
        for source in sources:
            if source is not None and len(sources) > 1 and not options.json:
                print(f"{source.name}:")
            outputs = []
            for output in _run_on(program, source, options.output):
                outputs.append(output)
                if not options.json:
                    print(output.text)
            records.append({"inputs": source and str(source), "outputs": [output.record for output in outputs]})
    if options.json:
        steps = {"steps": [asdict(step) for step in profile.steps]} if profile is not None else {}
        document = {"model": str(model), "backend": options.backend, "runs": records, **steps}
        print(json.dumps(document, indent=2))
    elif profile is not None:
        print(profile)
    return int(any(output["equal"] is False for record in records for output in record["outputs"]))


def _check_backend(name: str) -> None:
    """Raise a ValueError if a library cannot be used here."""
    try:
        library = resolve_library(name, operator=f"--backend {name}")
    except Exception as error:  # broken drivers raise errors of many types
        known = [known for known in LIBRARIES if find_spec(known) is not None]
        raise ValueError(f"{error}; installed are {', '.join(known)}") from error
    assert library is not None
    if reason := library.why_unusable():
        raise ValueError(f"--backend {name}: there is no usable GPU ({reason})")


def _sources(options: argparse.Namespace, model: Path, program: Program) -> list[Path | None]:
    """Return where the inputs of each run come from; None for a model that takes none."""
    if options.inputs is not None:
        return [options.inputs]
    sources: list[Path | None] = [*find_data_sets(model)]
    if options.output is not None and len(sources) > 1:
        raise ValueError(f"there are {len(sources)} data sets beside the model; name one with --inputs to use --output")
    if not sources:
        needed = [value.name for value in program.inputs if not value.has_default]
        if needed:
            raise ValueError(
                f"the model takes {', '.join(needed)}, and there is no test_data_set_0 beside it; give --inputs"
            )
    return sources or [None]


class _Output(NamedTuple):
    """An output of a run, as a line of text, and as data."""

    text: str
    record: dict[str, Any]


def _run_on(program: Program, source: Path | None, target: Path | None) -> list[_Output]:
    """Run a program on one data set, write the outputs to the target if there is one, and return them."""
    inputs: Any = []
    expected = None
    if source is not None and source.is_file():
        inputs = read_npz(source, program.inputs)
    elif source is not None:
        given = [value for value in program.inputs if not value.has_default]
        inputs = read_folder(source, "input", program.inputs if _has_all_inputs(source, program) else given) or []
        expected = read_folder(source, "output", program.outputs)
    outputs = [_on_host(output) for output in program.run(inputs)]
    if target is not None:
        _write(target, program, outputs)
    described = []
    for index, (output, declared) in enumerate(zip(map(download_value, outputs), program.outputs, strict=True)):
        is_compared = expected is not None and index < len(expected)
        difference = _difference(output, expected[index]) if expected is not None and is_compared else None
        described.append(_described(declared, output, is_compared, difference))
    return described


def _described(declared: Any, output: Any, is_compared: bool, difference: str | None) -> _Output:
    """Return what is told of an output."""
    comparison = ": equal to the stored output" if difference is None else f": DIFFERENT: {difference}"
    record = {
        "name": declared.name,
        "type": str(declared.type),
        "shape": output.shape if isinstance(output, np.ndarray) else None,
        "shapes": [element.shape for element in output] if isinstance(output, list) else None,
        "equal": difference is None if is_compared else None,
        "difference": difference,
    }
    return _Output(f"{plain(declared.name)}: {_describe(output)}{comparison if is_compared else ''}", record)


def _on_host(output: Any) -> Any:
    """Return an output as a NumPy array, a sequence of them, which keeps its type if it is empty, or None."""
    return output.to(xp="numpy") if isinstance(output, ArraySequence) else download_value(output)


def _has_all_inputs(source: Path, program: Program) -> bool:
    """Return whether a folder has a value for every input, including those with a default."""
    return len(list(source.glob("input_*.pb"))) == len(program.inputs)


def _describe(output: Any) -> str:
    """Return the type and the shape of an output as text."""
    if output is None:
        return "absent"
    if not isinstance(output, list):
        return f"{onnx_name(element_type_of(output.dtype))} {output.shape}"
    shapes = ", ".join(str(element.shape) for element in output[:6]) + (", ..." if len(output) > 6 else "")
    element_type = f" {onnx_name(element_type_of(output[0].dtype))}" if output else ""
    return f"sequence of {len(output)}{element_type}{f': {shapes}' if output else ''}"


def _difference(output: Any, stored: Any) -> str | None:
    """Describe the first difference between an output and the stored one; return None if there is none."""
    if output is None or stored is None:
        return None if output is stored else f"got {_describe(output)}, stored is {_describe(stored)}"
    if isinstance(output, list) != isinstance(stored, list):
        return f"got {_describe(output)}, stored is {_describe(stored)}"
    if isinstance(output, list):
        if len(output) != len(stored):
            return f"got {len(output)} elements, stored are {len(stored)}"
        for index, (element, expected) in enumerate(zip(output, stored, strict=True)):
            difference = _difference(element, expected)
            if difference is not None:
                return f"element {index}: {difference}"
        return None
    if element_type_of(output.dtype) != element_type_of(stored.dtype) or output.shape != stored.shape:
        return f"got {_describe(output)}, stored is {_describe(stored)}"
    return _difference_of_values(output, stored)


def _difference_of_values(output: np.ndarray[Any, Any], stored: np.ndarray[Any, Any]) -> str | None:
    """Describe the first difference between the values of two arrays of one type and shape."""
    if output.dtype.kind in "fc":
        agree = np.isclose(output, stored, equal_nan=True, **TOLERANCE)
    elif output.dtype.kind == "V":
        # NumPy has no isclose for bfloat16 and float8; float32 holds all their values.
        agree = np.isclose(output.astype(np.float32), stored.astype(np.float32), equal_nan=True, **TOLERANCE)
    else:
        agree = np.asarray(output == stored)
    if agree.all():
        return None
    position = tuple(int(index) for index in np.argwhere(~agree)[0])
    return (
        f"{int((~agree).sum())} of {agree.size} values, the first at {position}: got {output[position]}, "
        f"stored is {stored[position]}"
    )


def _write(target: Path, program: Program, outputs: Sequence[Any]) -> None:
    """Write the outputs to an .npz file, a .pb file, or a folder."""
    if target.suffix == ".npz":
        save(target, **dict(zip((value.name for value in program.outputs), outputs, strict=True)))
        return
    if target.suffix == ".pb":
        if len(outputs) != 1:
            raise ValueError(f"--output {target}: the model has {len(outputs)} outputs; name an .npz file or a folder")
        paths = [target]
    else:
        if target.suffix and not target.is_dir():
            raise ValueError(f"--output {target}: expected a name that ends in .npz or .pb, or a folder")
        target.mkdir(exist_ok=True)
        paths = [target / f"output_{index}.pb" for index in range(len(outputs))]
    for path, value, output in zip(paths, program.outputs, outputs, strict=True):
        write_value(path, value.name, output, value.type)
