"""Made-up clocks, libraries and results for the tests of the benchmarks.

No test looks at a real time: either the clock is made up, or the assertions hold whatever the time.
"""

import io
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import libraries, reporting, running
from benchmarks.cases import Case
from benchmarks.libraries.base import Library

PROJECT = Path(__file__).parents[2]
RESULTS = PROJECT / "benchmarks" / "results"

#: Work on ragged batches.
RAGGED = ("unpack", "pack", "pad", "unpad")
#: Every piece of work that a library may do.
ALL = {
    *("concat", "stack", "concat_out", "first_concat", "split", "split_views", "rejoin", "rejoin_view", "round_trip"),
    *("append", "push_and_pop", "window", "at", "upload", "model", *RAGGED),
}
#: Work of which every library's result is the sequence that it began with.
SAME_SEQUENCE = {"push_and_pop", "window"}


class Clock:
    """Time that passes only by `advance`."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


# Results to report on: made up, and small


def record(*rotating, **more):
    return {"recycled": False, "first_call": 0.5, "rotating": list(rotating), **more}


def entry(case="concat-axis0", size="3 x (64, 64)", backend="numpy", **more):
    contenders = {"seqarray": record(1.0, 1.0, 2.0), "numpy": record(2.0, 2.0, 2.0), "torch": record(4.0, 4.0, 4.0)}
    return {
        "case": case,
        "title": f"what {case} does",
        "size": size,
        "backend": backend,
        "pieces": 3,
        "bytes": 3 << 20,
        "contenders": contenders,
        **more,
    }


def result_of(*entries, interrupted=False, **described):
    description = {
        "date": "2026-01-02T03:04:05+00:00",
        "command": "python -m benchmarks run",
        "commit": "0123456789abcdef" * 2 + "01234567",
        "python": "3.11.7",
        "platform": "Linux",
        "cpu": "A Processor",
        "cpus": 2,
        "gpu": "",
        "last_level_cache_bytes": 32 << 20,
        "versions": {"numpy": "2.4.6"},
        "threads": {"torch": 2},
    }
    return {"machine": {**description, **described}, "interrupted": interrupted, "results": list(entries)}


def table_below(text, heading):
    """Read the rows of the Markdown table below a heading, as dictionaries from column to cell."""
    table = text.split(f"{heading}\n\n", 1)[1].partition("\n\n")[0].strip()
    headings, _, *rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in table.splitlines()
    ]
    return [dict(zip(headings, row, strict=True)) for row in rows]


def shown(result, **options):
    """Return what `reporting.show` prints on a wide terminal."""
    console = pytest.importorskip("rich.console", reason="rich is not installed")
    file = io.StringIO()
    reporting.show(result, console.Console(file=file, width=250), **options)
    return file.getvalue()


# Runs with made-up libraries


class Made(Library):
    """A library with given answers, in a given time."""

    def __init__(self, name, clock, seconds=0.001, answer=np.concatenate, *, busy=None, spins="", compiles=False):
        self.name, self.clock, self.answer, self.busy, self.spins = name, clock, answer, busy, spins
        self.compiles = compiles
        self.seconds = seconds if callable(seconds) else lambda _: seconds
        self.durations = []
        self.inputs = []

    def _work(self, count, answer, inputs):
        def work():
            self.inputs.append(id(inputs))
            self.durations.append(self.seconds(count))
            self.clock.advance(self.durations[-1])
            return answer()

        return work

    def concat(self, arrays, axis):
        return self._work(len(arrays), lambda: self.answer(arrays, axis), arrays)

    def append(self, count, element):
        return self._work(count, lambda: np.tile(element, count), element)

    def split(self, x, sizes, axis):
        return self._work(len(sizes), lambda: self.answer(x, sizes, axis), x)

    def device_seconds(self, work):
        return self.busy


class Listener(running.Reporter):
    """Collects the events and messages of a run."""

    def __init__(self):
        self.events, self.said = [], []

    def start(self, tasks):
        self.events.append(tasks)

    def task(self, task):
        self.events.append(task.size)

    def done(self):
        self.events.append("done")

    def message(self, text):
        self.said.append(text)


PLAN = running.Plan(seconds=1.0, rounds=5, hot_rounds=3, pauses=False, once=2.0, rotation=0)


def rows(count):
    """Make inputs of `count` rows, each of 8 bytes, for concat on axis 0."""
    return lambda rng: ([rng.random(2, dtype=np.float32) for _ in range(count)], 0)


def tasks_of(*counts, **options):
    case = Case(
        "made",
        "a case that is made up",
        "concat",
        {f"{n} rows": rows(n) for n in counts},
        {f"{n} rows": (n, n * 8) for n in counts},
        plot_by="pieces",
        **options,
    )
    return [running.Task(case, size, "numpy") for size in case.sizes]


def modes_of(record):
    return [mode for mode in reporting.MODES if mode in record]


def without(monkeypatch, *names):
    """Make libraries look as though they were not installed."""
    everything = [*libraries.BACKENDS.values(), *(p for peers in libraries.PEERS.values() for p in peers.values())]
    for library in everything:
        if library.name in names:
            text = f"not installed (pip install {library.pip})"
            monkeypatch.setattr(library, "missing", lambda text=text: text)
    assert set(names) <= {library.name for library in everything}


def made(case, size):
    """Make the inputs of a case."""
    return case.sizes[size](np.random.default_rng(0))
