"""Fixtures of the tests of the benchmarks."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from benchmarks import machine, measure, running
from benchmarks.__main__ import main
from tests.benchmarks.helpers import (
    PLAN,
    Clock,
    Listener,
    result_of,
    tasks_of,
)


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by which everything is measured, pauses included."""
    clock = Clock()
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=clock, perf_counter=clock))
    for function in (measure.seconds_per_call, measure.interleaved, measure.after_pauses):
        monkeypatch.setitem(function.__kwdefaults__, "clock", clock)
    for function in (measure.interleaved, measure.after_pauses):
        monkeypatch.setitem(function.__kwdefaults__, "sleep", clock.advance)
    return clock


@pytest.fixture
def run_with(monkeypatch):
    """Return a function that runs tasks with made-up libraries; it returns the result and what a listener got."""

    def run(made, tasks=None, plan=PLAN):
        monkeypatch.setattr(running, "libraries_for", lambda task, peers: iter(made))
        monkeypatch.setattr(machine, "description", lambda command, *_: {"command": command})
        listener = Listener()
        return running.run(tasks or tasks_of(3), [], plan, ["a", "command"], listener), listener

    return run


@pytest.fixture
def command(capsys, monkeypatch):
    """Return a function that runs a command in this process; it returns the exit status and all output."""
    pytest.importorskip("rich", reason="rich is not installed")
    monkeypatch.setattr(running, "QUICK", replace(running.QUICK, seconds=0.2, once=60.0, rotation=0))

    def run(*arguments):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:
            # As the interpreter does it: a text is printed, and the status is 1.
            status = 1 if isinstance(end.code, str) else end.code or 0
            print(end.code if isinstance(end.code, str) else "")
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


@pytest.fixture
def saved(tmp_path):
    """Return a function that writes results to files."""

    def save(name, *entries, **described):
        path = tmp_path / name
        path.write_text(json.dumps(result_of(*entries, **described)))
        return path

    return save
