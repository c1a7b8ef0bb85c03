"""What the steps of a program take: seconds, and bytes of results."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from math import prod
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from seqarray._dtypes import itemsize_of
from seqarray._sequence import ArraySequence
from seqarray.onnx._run.steps import Step


@dataclass(frozen=True)
class StepProfile:
    """What a step took in all runs that were profiled.

    Attributes
    ----------
    label : str
        The node, as `Program.steps` and error messages name it.
    operator : str
        Its operator and version.
    count : int
        How often it ran.
    seconds : float
        How long it took in all, without the steps of its graphs.
    total_seconds : float
        How long it took in all, with the steps of its graphs.
    nbytes : int
        The bytes of its results in all; views count as copies do.
    """

    label: str
    operator: str
    count: int
    seconds: float
    total_seconds: float
    nbytes: int


class Profile:
    """The times and the bytes of the steps that ran in a ``with program.profile()`` block.

    ``print(profile)`` shows a table, the step that took longest first.  The times are those of the host: a device may
    work on while the next step is being launched.
    """

    def __init__(self) -> None:
        #: Step, start in nanoseconds, duration, duration without records inside and then without inner steps, bytes,
        #: thread.  Lists append atomically.
        self._events: list[tuple[Step, int, int, int, int, int, int]] = []
        self._inner = threading.local()
        #: The labels of steps with those of the nodes whose graphs they are in.
        self.labels: dict[Step, str] = {}

    def begin(self) -> tuple[int, int, int]:
        """Return the start of a step, and what steps and records inside the one around it have taken until now."""
        around = getattr(self._inner, "nanoseconds", 0), getattr(self._inner, "recording", 0)
        self._inner.nanoseconds = self._inner.recording = 0
        return perf_counter_ns(), *around

    def end(self, step: Step, begun: tuple[int, int, int], results: Any) -> None:
        """Record a step that has ended."""
        ended, inner = perf_counter_ns(), self._inner
        start, around, recording = begun
        duration = ended - start - inner.recording
        nbytes = sum(map(_nbytes_of, results))
        own = duration - inner.nanoseconds
        self._events.append((step, start, ended - start, duration, own, nbytes, threading.get_ident()))
        inner.nanoseconds = around + duration
        # To count the bytes of a long sequence takes long, and is no part of the step around.
        inner.recording += recording + perf_counter_ns() - ended

    @property
    def steps(self) -> list[StepProfile]:
        """What each step took, the one that took longest first."""
        totals: dict[int, StepProfile] = {}
        for step, _, _, duration, own, nbytes, _ in list(self._events):
            known = totals.get(id(step), StepProfile("", step.operator, 0, 0.0, 0.0, 0))
            totals[id(step)] = StepProfile(
                self.labels[step],
                step.operator,
                known.count + 1,
                known.seconds + own / 1e9,
                known.total_seconds + duration / 1e9,
                known.nbytes + nbytes,
            )
        return sorted(totals.values(), key=lambda taken: -taken.seconds)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write all steps as a trace that chrome://tracing and Perfetto show, as torch and onnxruntime write them."""
        events = [
            {
                "name": step.operator,
                "cat": "Node",
                "ph": "X",
                "ts": start / 1e3,
                "dur": duration / 1e3,
                "pid": os.getpid(),
                "tid": thread,
                "args": {"label": self.labels[step], "nbytes": nbytes},
            }
            for step, start, duration, _, _, nbytes, thread in list(self._events)
        ]
        Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")

    def __str__(self) -> str:
        heading = f"{'seconds':>10} {'with inner':>10} {'count':>8} {'bytes':>14}  step"
        rows = (
            f"{taken.seconds:10.6f} {taken.total_seconds:10.6f} {taken.count:8} {taken.nbytes:14}  {taken.label}"
            for taken in self.steps
        )
        return "\n".join([heading, *rows])


def _nbytes_of(value: Any) -> int:
    """Return the bytes of a result; lengths that are not known count as 0."""
    if value is None:
        return 0
    if type(value) is ArraySequence:
        nbytes = value.nbytes
        return nbytes if isinstance(nbytes, int) else sum(map(_nbytes_of, value))
    count = prod(value.shape)
    return count * itemsize_of(value.dtype) if isinstance(count, int) else 0
