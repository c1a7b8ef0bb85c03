"""The process that prepares and runs damaged models, within limits."""

from __future__ import annotations

import json
import re
import resource
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import seqarray.onnx
from tests.onnx.fuzz.cases import Case, case_of
from tests.onnx.fuzz.models import entries

#: The limits that a program gets, and within which a process has to stay.
MAX_TRIP_COUNT = 30
MAX_BYTES = 1 << 20
MAX_RUN_SECONDS = 1
MAX_GROWTH = 64 << 20
MAX_ADDRESSES = 3 << 30

NAMED_ERRORS = (ValueError, TypeError, IndexError, np.exceptions.AxisError)
#: How Python words errors of its own.
ACCIDENT = re.compile(
    r"^'[^']*' object |object has no attribute|object is not|cannot be interpreted|(list|tuple) index out of range"
    r"|unhashable|unsupported operand|(positional|keyword) argument|values to unpack|zip\(\) arg|not supported between"
)
PACKAGE = Path(seqarray.__file__).parent


def outcome_of(case: Case, folder: Path) -> tuple[str, str]:
    """What becomes of a case: "result" or the class of the error, and more about it."""
    model: Any = case.content
    try:
        if case.form == "model":
            model = onnx.ModelProto.FromString(case.content)
        elif case.form == "path":
            model = folder / "model.onnx"
            model.write_bytes(case.content)
        stage = "preparing"
        program = seqarray.onnx.prepare(
            model, max_trip_count=MAX_TRIP_COUNT, max_bytes=MAX_BYTES, max_seconds=MAX_RUN_SECONDS
        )
        stage = "running"
        outputs = program.run(case.inputs)
        assert type(outputs) is list
    except MemoryError as error:
        return "MemoryError", repr(error)
    except Exception as error:
        if "enough memory" in str(error):  # the limit has to be there first
            return "MemoryError", repr(error)
        accident = accident_in(error)
        return ("accident" if accident else type(error).__name__), f"{stage}: {error!r}{accident}"
    return "result", ""


def accident_in(error: BaseException) -> str:
    """What was raised in seqarray by no `raise` of it, and where; "" if it was raised on purpose, or by others."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    if type(error).__module__ != "builtins" or not frames or not Path(frames[-1].filename).is_relative_to(PACKAGE):
        return ""
    if isinstance(error, NAMED_ERRORS) and not ACCIDENT.search(str(error)):
        return ""
    return f" from {error!r} at {frames[-1].filename}:{frames[-1].lineno}"


def work() -> None:
    """Run the seeds that come in, one a line, and say what becomes of each."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    originals = entries()
    for entry in originals[:40]:  # what is imported and cached at the first use of it is not growth
        outcome_of(Case("bytes", entry.model.SerializeToString(), entry.inputs), Path())
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 (no file that pathlib would open better)
        addresses = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (addresses + MAX_ADDRESSES,) * 2)
    before = peak_memory()
    with tempfile.TemporaryDirectory() as folder:
        print("ready", flush=True)
        for line in sys.stdin:
            seed = int(line)
            outcome, note = outcome_of(case_of(seed, originals), Path(folder))
            growth = peak_memory() - before
            if growth > MAX_GROWTH:
                outcome, note = "memory", f"{growth} bytes more than before; {outcome} {note}"
            print(json.dumps({"seed": seed, "outcome": outcome, "note": note[:2000]}), flush=True)
            if outcome == "memory":
                return  # the peak would be counted against every seed that follows


def peak_memory() -> int:
    """The largest number of bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
