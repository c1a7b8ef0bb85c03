"""The benchmarks: statistics, the order of measuring, what goes wrong and is said, reports, cases.

Nothing here looks at a real time: either the clock is made up, or what is asserted holds whatever the time.
"""

import datetime
import gc
import io
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from itertools import chain, cycle, pairwise, repeat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import seqarray as sa
from benchmarks import libraries, machine, measure, reporting, running
from benchmarks.__main__ import main
from benchmarks.cases import CASES, Case, floats
from benchmarks.comparing import Change, changes
from benchmarks.measure import Contender

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results"

#: Every piece of work that a library may do.
ALL = {
    *("concat", "stack", "concat_out", "split", "split_views", "rejoin", "rejoin_view", "round_trip"),
    *("append", "push_and_pop", "window", "at", "upload", "model"),
}
#: Work of which every library's result is the sequence that it began with.
SAME_SEQUENCE = {"push_and_pop", "window"}


class Clock:
    """Time that passes only when somebody lets it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


# Statistics


@pytest.mark.parametrize(
    ("values", "expected"),
    [([5, 1, 4, 2, 3], (2, 3, 4)), ([1, 2], (1.25, 1.5, 1.75)), ([7], (7, 7, 7)), ([3, 3, 3, 3], (3, 3, 3))],
)
def test_quartiles(values, expected):
    assert measure.quartiles(values) == expected


def test_ratios_are_of_the_same_round_as_far_as_both_went():
    assert measure.ratios([2.0, 4.0, 9.0], [1.0, 8.0]) == [2.0, 0.5]


def test_a_drift_of_the_machine_cancels_in_ratios():
    drift = [1.0, 10.0, 2.0, 50.0]
    assert measure.ratios(drift, [2 * seconds for seconds in drift]) == [0.5] * 4


@pytest.mark.parametrize(
    ("history", "work", "expected"),
    [
        pytest.param([], 100, 0.0, id="nothing-known"),
        pytest.param([(10, 2.0)], 30, 6.0, id="one-is-taken-as-linear"),
        pytest.param([(10, 1.0), (20, 2.0)], 80, 8.0, id="linear"),
        pytest.param([(10, 1.0), (20, 4.0)], 40, 16.0, id="quadratic"),
        pytest.param([(1, 100.0), (10, 1.0), (20, 4.0)], 40, 16.0, id="the-last-two-count"),
        pytest.param([(10, 2.0), (20, 2.0)], 40, 4.0, id="never-less-than-linear"),
        pytest.param([(10, 1.0), (20, 100.0)], 40, 400.0, id="never-more-than-quadratic"),
        pytest.param([(10, 1.0), (10, 3.0)], 20, 6.0, id="twice-the-same-work"),
    ],
)
def test_prediction(history, work, expected):
    assert measure.predicted(history, work) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seconds", "one_call", "expected"), [(0.1, 0.001, 100), (0.1, 5.0, 1), (1.0, 1e-7, 100_000), (0.0, 0.0, 1)]
)
def test_calls_of_a_round(seconds, one_call, expected):
    assert measure.calls_for(seconds, one_call) == expected


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        pytest.param((0.9, 1.0, 1.1), (1.2, 1.3, 1.4), "slower", id="slower"),
        pytest.param((1.2, 1.3, 1.4), (0.9, 1.0, 1.1), "faster", id="faster"),
        pytest.param((0.9, 1.0, 1.25), (1.2, 1.3, 1.4), "same", id="slower-but-ranges-overlap"),
        pytest.param((1.2, 1.3, 1.4), (0.9, 1.0, 1.25), "same", id="faster-but-ranges-overlap"),
        pytest.param((0.9, 1.0, 1.2), (1.2, 1.3, 1.4), "same", id="ranges-touch"),
        pytest.param((0.99, 1.0, 1.01), (1.03, 1.04, 1.05), "same", id="apart-but-4-percent-slower"),
        pytest.param((0.99, 1.0, 1.01), (0.95, 0.96, 0.97), "same", id="apart-but-4-percent-faster"),
        pytest.param((0.99, 1.0, 1.01), (1.05, 1.06, 1.07), "slower", id="apart-and-6-percent-slower"),
    ],
)
def test_verdict(old, new, verdict):
    assert Change("case", "size", "numpy", "numpy", old, new).verdict == verdict


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-5, "45.6 us"), (7.8e-8, "78 ns"), (59.0, "59 s")],
)
def test_time_has_a_unit_that_suits_it(seconds, text):
    assert reporting.time_text(seconds) == text


@pytest.mark.parametrize("seconds", [0.9996, 9.996e-4, 9.996e-7])
def test_time_just_below_a_unit_has_no_exponent(seconds):
    assert "e" not in reporting.time_text(seconds)


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
    """Rows of the Markdown table below a heading, as dictionaries from column to cell."""
    table = text.split(f"{heading}\n\n", 1)[1].partition("\n\n")[0].strip()
    headings, _, *rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in table.splitlines()
    ]
    return [dict(zip(headings, row, strict=True)) for row in rows]


def shown(result, **options):
    """What `reporting.show` prints on a wide terminal."""
    console = pytest.importorskip("rich.console", reason="rich is not installed")
    file = io.StringIO()
    reporting.show(result, console.Console(file=file, width=250), **options)
    return file.getvalue()


def test_best_peer_is_neither_seqarray_nor_the_limit_of_the_machine():
    contenders = {
        "seqarray": record(2.0),
        "seqarray, list": record(0.1),
        "seqarray, all taken": record(0.2),
        "memcpy, 1 thread, fresh memory": record(0.01),
        "numpy": record(3.0, 1.0, 3.0),
        "torch": record(2.5, 2.5, 9.0),
        "onnxruntime": {"recycled": True, "error": "ValueError: wrong answer"},
        "onnx-reference": {"recycled": False, "left_out": "predicted to take 41 s"},
    }
    assert reporting.best_peer({"contenders": contenders}) == "torch"


def test_nobody_is_best_where_no_peer_was_timed():
    assert reporting.best_peer({"contenders": {"seqarray": record(1.0), "memcpy, 1 thread": record(1.0)}}) is None


def test_summary_has_the_worst_ratio_first():
    slow = {"seqarray": record(9.0, 9.0), "numpy": record(3.0, 3.0)}
    rows = reporting.summary_rows(result_of(entry("fast"), entry("slow", contenders=slow)))
    assert [(row[0], row[4]) for row in rows] == [("slow", "numpy"), ("fast", "numpy")]
    assert rows[0][3] == "9 s"
    assert rows[0][-1] == "3 (3 to 3)"
    assert rows[1][-1] == "0.5 (0.5 to 0.75)"


def test_compare_uses_the_fastest_peer_of_the_old_result():
    (change,) = changes(result_of(entry()), result_of(entry()))
    assert (change.case, change.size, change.backend) == ("concat-axis0", "3 x (64, 64)", "numpy")
    assert (change.peer, change.old, change.new, change.verdict) == (
        "numpy",
        (0.5, 0.5, 0.75),
        (0.5, 0.5, 0.75),
        "same",
    )


@pytest.mark.parametrize(
    "numpy_now", [None, {"recycled": False, "error": "MemoryError: "}, {"recycled": False, "left_out": "predicted"}]
)
def test_compare_uses_a_peer_that_both_results_timed(numpy_now):
    now = {"seqarray": record(3.0, 3.0, 3.0), "torch": record(4.0, 4.0, 4.0)}
    if numpy_now is not None:
        now["numpy"] = numpy_now
    found = changes(result_of(entry()), result_of(entry(contenders=now)))
    assert [(change.peer, change.new) for change in found] == [("torch", (0.75, 0.75, 0.75))]


def test_compare_looks_at_cases_of_one_size_and_backend_only():
    old = result_of(entry(size="small"), entry(backend="torch"))
    assert changes(old, result_of(entry(size="large"), entry(backend="numpy"))) == []


# Inputs


@pytest.mark.parametrize(
    "nbytes", [0, 8, machine.OWN_MEMORY_FROM - 8, machine.OWN_MEMORY_FROM, machine.HUGE_PAGES_FROM]
)
def test_large_inputs_lie_in_memory_of_their_own(nbytes):
    array = machine.filled((2, nbytes // 8), 3, np.float32)
    assert (array.shape, array.dtype) == ((2, nbytes // 8), np.float32)
    assert (array == 3).all()
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert (array.base is not None) == (nbytes >= machine.OWN_MEMORY_FROM)


def test_inputs_are_random():
    rng = np.random.default_rng(0)
    for shape in ((5,), (1024, 1024)):
        drawn = floats(rng, *shape)
        assert (drawn.shape, drawn.dtype) == (shape, np.float32)
        assert len(np.unique(drawn[:5])) >= 5


# The order of measuring


def noting(name, events, sets=None):
    """A contender that notes its name and the input set at every call."""
    works = [partial(events.append, (name, index)) for index in range(4)]
    return Contender(name, works, sets=repeat(0) if sets is None else sets)


def order(events):
    return "".join(name for name, _ in events)


def test_all_contenders_run_in_every_round_and_the_beginner_moves_on():
    events = []
    contenders = [noting(name, events) for name in "abc"]
    times = measure.interleaved(contenders, dict.fromkeys("abc", 1), dict.fromkeys("abc", 4))
    assert order(events) == "abc bca cab abc".replace(" ", "")
    assert {name: len(values) for name, values in times.items()} == dict.fromkeys("abc", 4)


def test_a_contender_with_fewer_rounds_drops_out():
    events = []
    contenders = [noting(name, events) for name in "abc"]
    times = measure.interleaved(contenders, dict.fromkeys("abc", 1), {"a": 1, "b": 4, "c": 2})
    assert order(events) == "abc bc b b".replace(" ", "")
    assert {name: len(values) for name, values in times.items()} == {"a": 1, "b": 4, "c": 2}


def test_a_turn_is_as_many_calls_as_were_calibrated():
    events = []
    measure.interleaved([noting(name, events) for name in "ab"], {"a": 3, "b": 1}, {"a": 2, "b": 2})
    assert order(events) == "aaab baaa".replace(" ", "")


def test_a_round_gives_the_mean_time_of_its_calls():
    clock = Clock()
    durations = iter([1.0, 3.0, 5.0, 7.0])
    contender = Contender("a", [lambda: clock.advance(next(durations))])
    assert measure.interleaved([contender], {"a": 2}, {"a": 2}, clock=clock) == {"a": [2.0, 6.0]}


def test_results_are_waited_for_before_the_clock_is_read():
    events = []
    works = [lambda: "result 0", lambda: "result 1"]
    contender = Contender("a", works, lambda result: events.append(f"waited for {result}"), sets=iter(range(2)))
    measure.seconds_per_call(contender, 2, hot=False, clock=lambda: events.append("clock") or 0.0)
    assert events == ["clock", "waited for result 0", "waited for result 1", "clock"]


def test_no_contender_reads_what_another_one_has_just_read():
    events, sets = [], cycle(range(4))
    contenders = [noting("a", events, sets), noting("b", events, sets)]
    measure.interleaved(contenders, {"a": 2, "b": 1}, {"a": 2, "b": 2})
    # The second round begins with b.
    assert events == [("a", 0), ("a", 1), ("b", 2), ("b", 3), ("a", 0), ("a", 1)]


def test_hot_is_always_the_first_set():
    events = []
    contender = noting("a", events, cycle(range(3)))
    contender.once()
    measure.interleaved([contender], {"a": 2}, {"a": 2}, hot=True)
    contender.once()
    # Each of the two turns begins with calls that are not timed.
    assert [index for _, index in events] == [0] * (1 + 2 * (measure.WARM_CALLS + 2)) + [1]


@pytest.mark.parametrize(
    ("seconds", "calls"), [(0.0001, measure.WARM_CALLS), (measure.WARM_SECONDS * 0.6, 2), (10.0, 1)]
)
def test_a_contender_warms_up_for_some_calls_or_some_time(seconds, calls):
    clock, events = Clock(), []

    def work():
        events.append("")
        clock.advance(seconds)

    Contender("a", [work]).warm_up(clock)
    assert len(events) == calls
    assert clock.now <= 1.2 * measure.warm_up_seconds(seconds)


def test_every_single_call_comes_after_a_pause_that_is_not_timed():
    clock, events = Clock(), []

    def sleep(seconds):
        events.append(("-", seconds))
        clock.advance(seconds)

    def contender(name, seconds):
        def work(index):
            events.append((name, index))
            clock.advance(seconds)

        return Contender(name, [partial(work, 0), partial(work, 1)], sets=cycle(range(2)))

    contenders = [contender("a", 0.5), contender("b", 0.25)]
    times = measure.after_pauses(contenders, 0.125, {"a": 3, "b": 1}, clock=clock, sleep=sleep)
    # One call that is not timed is enough where it is as long as these; the pause, and the call that is timed.
    assert order(events) == "a-a b-b a-a a-a".replace(" ", "")
    assert {seconds for name, seconds in events if name == "-"} == {0.125}
    assert {index for _, index in events if index != 0.125} == {0}
    assert times == {"a": [0.5] * 3, "b": [0.25]}


# Threads of other libraries that still spin


def events_of(function, spins, *, rounds=1, **options):
    """What happens while contenders, named by letters, take turns: waits, calls by their letters, readings of time."""
    events, names = [], list(spins)

    def clock():
        events.append("|")
        return 0.0

    contenders = [Contender(name, [partial(events.append, name)], spins=spins[name]) for name in names]
    counts = dict.fromkeys(names, rounds)
    given = (
        (contenders, dict.fromkeys(names, 2), counts) if function is measure.interleaved else (contenders, 0.5, counts)
    )
    times = function(*given, clock=clock, sleep=lambda seconds: events.append(f"({seconds})"), **options)
    assert {name: len(values) for name, values in times.items()} == counts
    return "".join(events)


REST = f"({measure.SETTLE_SECONDS})"


@pytest.mark.parametrize(
    ("spins", "expected"),
    [
        pytest.param({"a": "", "b": ""}, "a|aa| b|bb|", id="nobody-spins"),
        pytest.param({"a": "x", "b": "x"}, "a|aa| b|bb|", id="threads-of-the-same-library"),
        pytest.param({"a": "x", "b": ""}, f"a|aa| {REST}b|bb|", id="the-next-waits"),
        pytest.param({"a": "x", "b": "", "c": ""}, f"a|aa| {REST}b|bb| c|cc|", id="only-the-next-waits"),
        pytest.param({"a": "x", "b": "y"}, f"{REST}a|aa| {REST}b|bb|", id="both-spin"),
        pytest.param({"a": "", "b": "x"}, f"{REST}a|aa| b|bb|", id="what-ran-before-the-first-is-not-known"),
    ],
)
def test_nobody_runs_beside_threads_of_another_library(spins, expected):
    assert events_of(measure.interleaved, spins, settle=True) == expected.replace(" ", "")


def test_waiting_goes_on_from_round_to_round():
    # The second round begins with b; a comes last, behind c, which leaves nothing.
    expected = f"{REST}a|aa| b|bb| {REST}c|cc|   b|bb| {REST}c|cc| a|aa|"
    assert events_of(measure.interleaved, {"a": "", "b": "x", "c": ""}, rounds=2, settle=True) == expected.replace(
        " ", ""
    )


def test_a_pause_comes_behind_the_wait_and_calls_that_are_not_timed():
    events = events_of(measure.after_pauses, {"a": "x", "b": ""}, rounds=2, settle=True)
    a, b = (f"|{f'{name}|' * measure.WARM_CALLS}(0.5)|{name}|" for name in "ab")
    assert events == f"{a}{REST}{b}{a}{REST}{b}"


@pytest.mark.parametrize("function", [measure.interleaved, measure.after_pauses])
def test_nobody_waits_where_it_is_not_asked_for(function):
    assert REST not in events_of(function, {"a": "x", "b": "y"}, rounds=3)


@pytest.mark.parametrize(("hot", "sets"), [(False, [0, 1, 2]), (True, [0] * (measure.WARM_CALLS + 2))])
def test_calls_that_are_not_timed_use_inputs_as_the_others_do(hot, sets):
    events = []
    contenders = [Contender("a", [lambda: None], spins="x"), noting("b", events, cycle(range(3)))]
    measure.interleaved(contenders, {"a": 1, "b": 2}, {"a": 1, "b": 1}, hot=hot, settle=True, sleep=lambda _: None)
    assert [index for _, index in events] == sets


@pytest.mark.parametrize(
    ("spins", "waiting"),
    [([], []), ([""], []), (["x"], []), (["x", "x"], []), (["", "x", "y", ""], [2, 3]), (["", "", "x"], [0])],
    ids=str,
)
def test_who_waits_in_each_round_is_known_before(spins, waiting):
    assert measure.settling(spins) == waiting


def test_it_is_known_whose_threads_spin():
    spins = {name: libraries.SeqArray(backend).spins for name, backend in libraries.BACKENDS.items()}
    assert spins == {"numpy": "", "cupy": "", "torch": "torch", "jax": "", "dask": ""}
    spins = {name: peer.spins for peers in libraries.PEERS.values() for name, peer in peers.items() if peer.spins}
    assert spins == {"torch": "torch", "onnxruntime": "onnxruntime"}
    assert libraries.PEERS["cupy"]["torch"].spins == ""


def test_work_on_jax_arrays_is_waited_for_to_the_last_chunk(count_calls):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    waited = count_calls(jax, "block_until_ready")
    library = libraries.SeqArray(libraries.BACKENDS["jax"])
    library.finish(library.split(np.arange(6, dtype=np.float32), [2, 2, 2], 0)())
    ((chunks,),) = waited
    assert [chunk.tolist() for chunk in chunks] == [[0, 1], [2, 3], [4, 5]]


def test_work_on_dask_arrays_is_computed_to_the_last_chunk():
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    computed = []

    def noted(block):
        computed.append(len(block))
        return block

    x = da.from_array(np.arange(6), chunks=2).map_blocks(noted, dtype=int, meta=np.arange(0))
    library = libraries.SeqArray(libraries.BACKENDS["dask"])
    library.finish(sa.split_to_sequence(x, 2))
    assert computed == [2, 2, 2]


# Running, with made-up libraries and a made-up clock


class Made(libraries.Library):
    """A library that answers what it is told to, in the time it is told."""

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


@pytest.fixture
def clock(monkeypatch):
    """The clock by which everything is measured, pauses included."""
    clock = Clock()
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=clock, perf_counter=clock))
    for function in (measure.seconds_per_call, measure.interleaved, measure.after_pauses):
        monkeypatch.setitem(function.__kwdefaults__, "clock", clock)
    for function in (measure.interleaved, measure.after_pauses):
        monkeypatch.setitem(function.__kwdefaults__, "sleep", clock.advance)
    return clock


class Listener(running.Reporter):
    """Notes what a run tells."""

    def __init__(self):
        self.events, self.said = [], []

    def start(self, tasks):
        self.events.append(tasks)

    def task(self, task):
        self.events.append(task.size)

    def done(self):
        self.events.append("done")

    def say(self, text):
        self.said.append(text)


PLAN = running.Plan(seconds=1.0, rounds=5, hot_rounds=3, pauses=False, once=2.0, rotation=0)


def rows(count):
    """Inputs of `count` rows, each of 8 bytes, for concat on axis 0."""
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


@pytest.fixture
def run_with(monkeypatch):
    """Runs tasks with made-up libraries; gives the result and what was told meanwhile."""

    def run(made, tasks=None, plan=PLAN):
        monkeypatch.setattr(running, "libraries_for", lambda task, peers: iter(made))
        monkeypatch.setattr(machine, "description", lambda command: {"command": command})
        listener = Listener()
        return running.run(tasks or tasks_of(3), [], plan, ["a", "command"], listener), listener

    return run


def modes_of(record):
    return [mode for mode in reporting.MODES if mode in record]


def test_every_contender_is_timed_in_rotation_and_hot(clock, run_with):
    result, listener = run_with([Made("ours", clock, 0.001), Made("theirs", clock, 0.004)])
    (found,) = result["results"]
    assert {key: found[key] for key in ("case", "size", "backend", "pieces", "bytes")} == {
        "case": "made",
        "size": "3 rows",
        "backend": "numpy",
        "pieces": 3,
        "bytes": 24,
    }
    for name, seconds in (("ours", 0.001), ("theirs", 0.004)):
        timed = found["contenders"][name]
        assert timed["first_call"] == pytest.approx(seconds)
        assert (timed["rotating"], timed["hot"]) == ([seconds] * 5, [seconds] * 3)
        assert modes_of(timed) == ["rotating", "hot"]
        assert not {"once", "error", "left_out", "device"} & set(timed)
    assert result["interrupted"] is False
    assert (listener.events, listener.said) == ([1, "3 rows", "done"], [])
    assert json.loads(json.dumps(result)) == result


def test_short_calls_are_never_timed_one_by_one(clock, run_with):
    ours = Made("ours", clock, 1e-5)
    run_with([ours], plan=replace(PLAN, seconds=0.0))
    assert len(ours.durations) >= 8 * 100


@pytest.mark.parametrize("spins", ["", "theirs"])
def test_a_run_keeps_to_its_time(clock, run_with, spins):
    plan = replace(PLAN, seconds=30.0, pauses=True)
    made = [Made("ours", clock, 0.01), Made("theirs", clock, 0.02, spins=spins)]
    run_with(made, tasks_of(3, 4, 5, threads=True), plan)
    assert 15.0 < clock.now < 30.0


@pytest.mark.parametrize("threads", [True, False])
def test_threads_come_to_rest_in_cases_that_may_use_them(clock, run_with, monkeypatch, threads):
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        clock.advance(seconds)

    for function in (measure.interleaved, measure.after_pauses):
        monkeypatch.setitem(function.__kwdefaults__, "sleep", sleep)
    made = [Made("ours", clock), Made("theirs", clock, spins="theirs")]
    result, _ = run_with(made, tasks_of(3, threads=threads), replace(PLAN, pauses=True))
    for timed in result["results"][0]["contenders"].values():
        assert (timed["rotating"], timed["hot"]) == ([0.001] * 5, [0.001] * 3)
    assert (measure.SETTLE_SECONDS in waits) == threads


def test_a_case_that_is_timed_in_more_ways_has_more_of_the_time(clock, run_with):
    spent = {3: 0.0, 4: 0.0}

    def seconds(count):
        spent[count] += 0.001
        return 0.001

    tasks = [*tasks_of(3, threads=True), *tasks_of(4)]
    run_with([Made("ours", clock, seconds)], tasks, replace(PLAN, seconds=20.0, pauses=True))
    # 18 of 26 rounds are the first one's: of 20 s it gets 13.8, of which 70 % are for calls that need no pause.
    assert spent[3] == pytest.approx(0.7 * 20 * 18 / 26, abs=0.1)


@pytest.mark.parametrize("answer", [np.concatenate, lambda *_: 1 / 0], ids=["works", "fails"])
def test_the_collector_is_left_as_it_was(clock, run_with, answer):
    run_with([Made("ours", clock, answer=answer)])
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda arrays, axis: np.concatenate(arrays, axis) + 1, id="values"),
        pytest.param(lambda arrays, axis: np.concatenate(arrays, axis).astype(np.float64), id="dtype"),
        pytest.param(lambda arrays, axis: np.concatenate(arrays, axis)[None], id="shape"),
        pytest.param(lambda arrays, axis: np.concatenate(arrays, axis)[:-1], id="length"),
        pytest.param(lambda arrays, axis: arrays, id="not-joined"),
        pytest.param(lambda arrays, axis: None, id="nothing"),
    ],
)
def test_a_wrong_answer_is_an_error_and_not_timed(clock, run_with, answer):
    wrong, right = Made("wrong", clock, answer=answer), Made("right", clock)
    result, listener = run_with([wrong, right])
    contenders = result["results"][0]["contenders"]
    assert contenders["wrong"]["error"]
    assert modes_of(contenders["wrong"]) == []
    assert len(wrong.durations) == 1
    assert modes_of(contenders["right"]) == ["rotating", "hot"]
    (told,) = listener.said
    assert "wrong" in told
    assert contenders["wrong"]["error"] in told


@pytest.mark.parametrize(
    ("actual", "same"),
    [
        ([[1.0, 2.0], [3.0]], True),
        ([[1.0, 2.0]], False),
        ([[1.0, 2.0], [3.0], []], False),
        ([[1.0], [2.0, 3.0]], False),
        ([[1.0, 2.0], [4.0]], False),
    ],
)
def test_chunks_are_checked_in_number_and_values(clock, run_with, actual, same):
    x = np.asarray([1, 2, 3], np.float32)
    case = Case("cut", "", "split", {"3": lambda rng: (x, [2, 1], 0)}, {"3": (2, 12)})
    made = Made("split", clock, answer=lambda *_: [np.asarray(chunk, np.float32) for chunk in actual])
    result, _ = run_with([made], [running.Task(case, "3", "numpy")])
    assert ("error" not in result["results"][0]["contenders"]["split"]) == same


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_case_takes_a_wrong_answer(clock, run_with, case):
    wrong = Made("wrong", clock)
    for work in ALL:
        setattr(wrong, work, lambda *_: lambda: np.asarray([-1], np.float32))
    result, _ = run_with([wrong], [running.Task(case, next(iter(case.sizes)), "numpy")])
    assert "wrong answer" in result["results"][0]["contenders"]["wrong"].get("error", "")


def failing_from(call):
    """Joins arrays, but raises from a call on."""
    calls = []

    def answer(arrays, axis):
        calls.append(None)
        if len(calls) >= call:
            raise RuntimeError("no more\nand a second line")
        return np.concatenate(arrays, axis)

    return answer


@pytest.mark.parametrize("call", [1, 2, 3, 30])
def test_an_exception_in_one_contender_does_not_end_the_others(clock, run_with, call):
    made = [Made("before", clock), Made("fails", clock, answer=failing_from(call)), Made("behind", clock)]
    result, listener = run_with(made, tasks_of(3, 4))
    for found in result["results"]:
        contenders = found["contenders"]
        assert contenders["fails"]["error"] == "RuntimeError: no more"
        assert "rotating" not in contenders["fails"]
        for name in ("before", "behind"):
            assert (contenders[name]["rotating"], contenders[name]["hot"]) == ([0.001] * 5, [0.001] * 3)
    assert result["interrupted"] is False
    assert [("fails" in line, "no more" in line) for line in listener.said] == [(True, True)] * 2


def test_an_exception_while_inputs_are_brought_over_does_not_end_the_others(clock, run_with, monkeypatch):
    fails = Made("fails", clock)

    def concat(arrays, axis):
        raise MemoryError("the device is full")

    monkeypatch.setattr(fails, "concat", concat)
    result, _ = run_with([fails, Made("works", clock)])
    contenders = result["results"][0]["contenders"]
    assert contenders["fails"]["error"] == "MemoryError: the device is full"
    assert contenders["works"]["rotating"] == [0.001] * 5


def test_a_library_that_cannot_do_the_work_is_not_in_the_result(clock, run_with, monkeypatch):
    cannot = Made("cannot", clock)
    monkeypatch.setattr(cannot, "concat", lambda arrays, axis: None)
    result, listener = run_with([cannot, Made("can", clock)])
    assert list(result["results"][0]["contenders"]) == ["can"]
    assert listener.said == []


def interrupting(arrays, axis):
    if len(arrays) == 4:
        raise KeyboardInterrupt
    return np.concatenate(arrays, axis)


def test_ctrl_c_keeps_what_was_measured(clock, run_with):
    made = [Made("ours", clock), Made("theirs", clock, answer=interrupting)]
    result, listener = run_with(made, tasks_of(3, 4, 5))
    assert result["interrupted"] is True
    assert result["results"][0]["size"] == "3 rows"
    assert result["results"][0]["contenders"]["theirs"]["rotating"] == [0.001] * 5
    assert "5 rows" not in [found["size"] for found in result["results"]]
    assert "5 rows" not in listener.events
    assert result["machine"] == {"command": ["a", "command"]}


def test_a_case_that_does_not_fit_in_memory_is_skipped_with_the_reason(clock, run_with, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 64 << 20)
    small, large = tasks_of(3, 16 << 20)  # the large result alone would take 128 MiB

    def never(rng):
        raise AssertionError("the inputs were made")

    monkeypatch.setitem(large.case.sizes, large.size, never)
    result, listener = run_with([Made("ours", clock)], [small, large])
    timed, skipped = result["results"]
    assert "skipped" not in timed
    assert skipped["contenders"] == {}
    assert re.search(r"needs about \d+ MiB.* 64 MiB", skipped["skipped"])
    assert listener.said == [f"made {large.size}: {skipped['skipped']}"]
    assert listener.events == [2, small.size, "done", large.size, "done"]


def test_a_contender_over_2_s_is_called_once_and_marked(clock, run_with):
    slow, fast = Made("slow", clock, 2.5), Made("fast", clock)
    result, _ = run_with([slow, fast])
    contenders = result["results"][0]["contenders"]
    assert slow.durations == [2.5]
    assert (contenders["slow"]["once"], contenders["slow"]["rotating"]) == (True, [2.5])
    assert modes_of(contenders["slow"]) == ["rotating"]
    assert "once" not in contenders["fast"]
    assert contenders["fast"]["hot"] == [0.001] * 3


def test_what_a_first_call_compiles_is_not_counted(clock, run_with):
    durations = chain([3.0], repeat(0.001))
    ours = Made("ours", clock, lambda _: next(durations), compiles=True)
    timed = run_with([ours])[0]["results"][0]["contenders"]["ours"]
    assert timed["first_call"] == 3.0
    assert "once" not in timed
    assert (timed["rotating"], timed["hot"]) == ([0.001] * 5, [0.001] * 3)


def test_a_contender_below_2_s_is_not_marked(clock, run_with):
    result, _ = run_with([Made("ours", clock, 1.9)])
    timed = result["results"][0]["contenders"]["ours"]
    assert "once" not in timed
    assert len(timed["rotating"]) == 3


def test_a_call_that_does_not_take_long_has_more_rounds_even_where_time_is_short(clock, run_with):
    result, _ = run_with([Made("ours", clock, 0.2)], plan=replace(PLAN, rounds=11, least_rounds=4))
    assert len(result["results"][0]["contenders"]["ours"]["rotating"]) == 4


def test_a_contender_predicted_over_10_s_is_left_out_and_named(clock, run_with):
    # As the Loop of onnxruntime grows: 41 s for 64 000 inserts.
    quadratic = Made("quadratic", clock, lambda n: 41 * (n / 64_000) ** 2)
    linear = Made("linear", clock, lambda n: n * 1e-6)
    result, listener = run_with([quadratic, linear], running.tasks("append", ["numpy"], quick=False))
    by_size = {found["size"]: found["contenders"] for found in result["results"]}
    left_out = [size for size, contenders in by_size.items() if "left_out" in contenders["quadratic"]]
    assert max(quadratic.durations) < 10
    assert left_out == ["32000 inserts", "64000 inserts"]
    assert by_size["16000 inserts"]["quadratic"]["once"] is True
    for size in left_out:
        assert modes_of(by_size[size]["quadratic"]) == []
        assert any(size in line and "quadratic" in line for line in listener.said)
    assert all("rotating" in contenders["linear"] for contenders in by_size.values())


def test_what_is_predicted_is_the_time_of_one_call(clock, run_with):
    ours = Made("ours", clock, lambda n: 1.0 * n)
    result, _ = run_with([ours], tasks_of(1, 6))
    last = result["results"][1]["contenders"]["ours"]
    assert (last.get("once"), last.get("rotating")) == (True, [6.0])


def test_a_third_size_of_the_same_amount_of_work_does_no_harm(clock, run_with):
    case = Case(
        "same",
        "",
        "concat",
        {name: rows(4) for name in ("first", "second", "third")},
        dict.fromkeys(("first", "second", "third"), (4, 32)),
    )
    result, _ = run_with([Made("ours", clock)], [running.Task(case, size, "numpy") for size in case.sizes])
    assert [found["contenders"]["ours"]["rotating"] for found in result["results"]] == [[0.001] * 5] * 3


@pytest.mark.parametrize(("threads", "pauses"), [(True, True), (True, False), (False, True)])
def test_pauses_are_for_cases_that_may_use_threads(clock, run_with, threads, pauses):
    plan = replace(PLAN, pauses=pauses)
    result, _ = run_with([Made("ours", clock), Made("theirs", clock)], tasks_of(3, threads=threads), plan)
    modes = ["rotating", "hot", "pause 2 ms", "pause 10 ms"]
    for timed in result["results"][0]["contenders"].values():
        assert modes_of(timed) == (modes if threads and pauses else modes[:2])
        if threads and pauses:
            assert timed["pause 10 ms"] == [0.001] * 5


@pytest.mark.parametrize(
    ("rotation", "memory", "sets"),
    [
        pytest.param(100, 1 << 30, 5, id="more-than-the-cache"),
        pytest.param(100, 500, 2, id="as-memory-allows"),
        pytest.param(0, 1 << 30, 1, id="one-at-least"),
    ],
)
def test_inputs_rotate_through_more_than_the_cache_where_memory_allows(
    clock, run_with, monkeypatch, rotation, memory, sets
):
    monkeypatch.setattr(machine, "available_memory", lambda: memory)
    ours = Made("ours", clock)
    run_with([ours], plan=replace(PLAN, rotation=rotation))
    assert len(set(ours.inputs)) == sets
    # First call, calibration by three, then five rounds of equal length over all sets in turn, and three on one set,
    # each with a call before it.
    firsts = list(dict.fromkeys(ours.inputs))
    timed = ours.inputs[4:]
    calls = (len(timed) - 3) // 8
    assert timed[: 2 * sets] == (firsts * 2)[: 2 * sets]
    assert set(timed[5 * calls :]) == {firsts[0]}


def test_time_by_the_device_is_kept_beside_the_time_of_the_clock(clock, run_with):
    result, _ = run_with([Made("on a device", clock, busy=0.25), Made("on the host", clock)])
    contenders = result["results"][0]["contenders"]
    assert contenders["on a device"]["device"] == 0.25
    assert contenders["on a device"]["rotating"] == [0.001] * 5
    assert "device" not in contenders["on the host"]


# Which contenders there are


def without(monkeypatch, *names):
    """Makes libraries look as though they were not installed."""
    everything = [*libraries.BACKENDS.values(), *(p for peers in libraries.PEERS.values() for p in peers.values())]
    for library in everything:
        if library.name in names:
            text = f"not installed (pip install {library.pip})"
            monkeypatch.setattr(library, "missing", lambda text=text: text)
    assert set(names) <= {library.name for library in everything}


def contenders_of(case, size, backend="numpy", peers=()):
    (case,) = [one for one in CASES if one.name == case]
    return [library.name for library in running.libraries_for(running.Task(case, size, backend), peers)]


def test_a_missing_peer_is_no_contender(monkeypatch):
    without(monkeypatch, "torch", "onnxruntime")
    for backend in ("numpy", "torch"):
        names = contenders_of("concat-tiny", "3 x (2, 3)", backend, peers=["torch", "onnxruntime"])
        assert {"torch", "onnxruntime"}.isdisjoint(names)


def test_peers_are_those_that_were_asked_for(monkeypatch):
    for peer in libraries.PEERS["numpy"].values():
        monkeypatch.setattr(peer, "missing", str)
    ours = ["seqarray", "seqarray, list", "seqarray, all taken"]
    assert contenders_of("concat-tiny", "3 x (2, 3)", peers=["onnxruntime"]) == [*ours, "numpy", "onnxruntime"]


def test_the_limit_of_the_machine_is_a_contender_where_it_can_be_measured():
    limits = [name for name in contenders_of("concat-axis0", "3 x (1024, 1024)") if name.startswith("memcpy")]
    assert len(limits) == (2 if machine.cpu_count() == 1 else 4)
    assert sum("fresh" in name for name in limits) == sum("reused" in name for name in limits) == len(limits) / 2
    for case, size, backend in (("concat-tiny", "3 x (2, 3)", "numpy"), ("concat-axis0", "3 x (1024, 1024)", "torch")):
        assert not any(name.startswith("memcpy") for name in contenders_of(case, size, backend))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "lengths", [[1 << 18] * 3, [700_000], [1_000] * 300, [99, 300_000, 5, 70_000], [16_384] * 17], ids=str
)
def test_memcpy_copies_every_byte(threads, lengths):
    arrays = [np.ones(length, np.float32) for length in lengths]
    reused = libraries.Memcpy(threads, fresh=False)
    result = reused.concat(arrays, 0)()
    assert result.nbytes == sum(array.nbytes for array in arrays)
    assert result.all()  # the memory was zero before


def test_memcpy_into_fresh_memory_gives_new_memory_each_time():
    work = libraries.Memcpy(1, fresh=True).concat([np.ones(1 << 18, np.float32)] * 2, 0)
    assert not np.shares_memory(work(), work())


def test_memcpy_into_reused_memory_gives_the_same_memory_whatever_the_input_set():
    limit = libraries.Memcpy(1, fresh=False)
    arrays = [np.ones(1 << 18, np.float32)] * 2
    first, second = limit.concat(arrays, 0), limit.concat(arrays, 0)
    assert np.shares_memory(first(), first())
    assert np.shares_memory(first(), second())


def test_the_limits_of_one_case_share_what_they_copy_from():
    sources = {}
    given = [np.ones(1 << 18, np.float32)] * 2
    for fresh in (True, False):
        libraries.Memcpy(1, fresh=fresh, sources=sources).concat(given, 0)
    (source,) = sources.values()
    assert source.nbytes == 2 << 20


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no processor affinity")
def test_threads_of_memcpy_have_a_processor_each():
    threads = max(2, machine.cpu_count())
    limit = libraries.Memcpy(threads, fresh=True)
    together = threading.Barrier(threads, timeout=10)

    def processors(_):
        together.wait()  # so that every thread takes one
        return sorted(os.sched_getaffinity(0))

    allowed = sorted(os.sched_getaffinity(0))
    expected = [[allowed[index % len(allowed)]] for index in range(threads)]
    assert sorted(limit.pool.map(processors, range(threads))) == sorted(expected)


@pytest.mark.parametrize("error", ["ImportError", "RuntimeError", "OSError"])
def test_a_library_that_is_broken_is_missing_and_no_error(tmp_path, monkeypatch, error):
    (tmp_path / f"broken_by_{error}.py").write_text(f"raise {error}('the driver is too old')")
    monkeypatch.syspath_prepend(tmp_path)
    broken = libraries.Library()
    broken.module, broken.pip = f"broken_by_{error}", "broken"
    assert broken.missing()


def test_results_in_memory_of_a_caching_allocator_are_called_recycled():
    for peer in libraries.PEERS["cupy"].values():
        assert peer.recycles
    assert libraries.SeqArray(libraries.BACKENDS["cupy"]).recycles
    assert libraries.PEERS["numpy"]["onnxruntime"].recycles
    assert not libraries.PEERS["numpy"]["numpy"].recycles


@pytest.mark.engine
def test_large_results_of_seqarray_are_called_recycled_and_their_first_call_was_in_fresh_memory(monkeypatch):
    case = Case("large", "", "concat", {"": lambda rng: ([rng.random(9 << 20, np.float32)], 0)}, {"": (1, 36 << 20)})
    monkeypatch.setattr(running, "libraries_for", lambda task, peers: ours)
    ours = [make(libraries.BACKENDS["numpy"]) for make in (libraries.SeqArray, libraries.SeqArrayList)]
    idle, concat = {}, sa.concat_from_sequence

    def noted(sequence, **options):
        idle.setdefault(type(sequence), []).append(sa.host_pool.total_bytes() - sa.host_pool.used_bytes())
        return concat(sequence, **options)

    monkeypatch.setattr(sa, "concat_from_sequence", noted)
    plan = replace(PLAN, seconds=0.1, rounds=3)
    (found,) = running.run([running.Task(case, "", "numpy")], [], plan, [], Listener())["results"]
    assert [found["contenders"][library.name]["recycled"] for library in ours] == [True, True]
    for first, *others in idle.values():
        assert first == 0
        assert max(others) > 0
    sa.host_pool.free_all_blocks()


@pytest.mark.parametrize(("work", "recycled"), [("concat", True), ("concat_out", False)])
def test_results_in_memory_that_was_given_are_not_called_recycled(clock, run_with, work, recycled):
    made = Made("ours", clock)
    made.recycles = True
    made.concat_out = made.concat
    task = replace(tasks_of(3)[0].case, work=work)
    result, _ = run_with([made], [running.Task(task, "3 rows", "numpy")])
    assert result["results"][0]["contenders"]["ours"]["recycled"] is recycled


# Reports


def everything_in_one_result():
    """A result with all that a report may have to tell."""
    contenders = {
        "seqarray": record(0.002, 0.002, 0.004, hot=[0.001]),
        "seqarray, list": record(0.003, 0.003, 0.003, hot=[0.001]),
        "numpy": record(0.004, 0.004, 0.004, hot=[0.003], first_call=0.0625),
        "onnxruntime": record(0.008, 0.008, 0.008, recycled=True, first_call=0.125, hot=[0.004]),
        "torch": {"recycled": False, "first_call": 0.5, "error": "ValueError: wrong answer"},
        "onnx-reference": {"recycled": False, "left_out": "predicted to take 41 s"},
        "slow": record(2.5, once=True),
        "memcpy, 1 thread, reused memory": record(0.001, 0.001, 0.001, recycled=True),
    }
    return result_of(
        entry(contenders=contenders),
        entry("concat-ragged", "256 MiB", contenders={}, skipped="needs about 3072 MiB of memory; 100 MiB are free"),
        interrupted=True,
    )


def test_markdown_tells_everything():
    text = reporting.markdown(everything_in_one_result())
    rows = {row["contender"]: row for row in table_below(text, "### 3 x (64, 64), numpy arrays")}
    assert rows["seqarray"]["time"] == "2 ms"
    assert rows["numpy"]["time"] == "4 ms"
    assert (rows["seqarray"]["hot"], rows["numpy"]["hot"]) == ("1 ms", "3 ms (0.333)")
    assert rows["numpy"]["first call"] == "62.5 ms"
    assert rows["numpy"]["GB/s"] == f"{(3 << 20) / 0.004 / 1e9:.3g}"
    assert rows["numpy"]["seqarray's time / this (quartiles)"] == "0.5 (0.5 to 0.75)"
    assert rows["seqarray"]["seqarray's time / this (quartiles)"] == ""
    assert rows["seqarray, list"]["seqarray's time / this (quartiles)"] == "0.667 (0.667 to 1)"
    assert [rows[name]["list / this"] for name in ("seqarray", "seqarray, list", "numpy")] == [
        *("", "", "0.75 (0.75 to 0.75)")
    ]
    assert rows["torch"]["time"] == "ValueError: wrong answer"
    assert rows["onnx-reference"]["time"] == "predicted to take 41 s"
    assert rows["slow"]["time"] == "2.5 s (one call)"
    assert "skipped: needs about 3072 MiB of memory; 100 MiB are free" in text
    assert "interrupted" in text
    (best,) = table_below(text, "worst first")
    assert (best["case"], best["best other"], best["ratio (quartiles)"]) == (
        "concat-axis0",
        "numpy",
        "0.5 (0.5 to 0.75)",
    )


def test_splits_with_every_chunk_taken_have_a_ratio_of_their_own():
    contenders = {"seqarray": record(1.0), "seqarray, all taken": record(3.0), "numpy": record(2.0)}
    rows = table_below(reporting.markdown(result_of(entry(contenders=contenders))), "### 3 x (64, 64), numpy arrays")
    assert [row["all taken / this"] for row in rows] == ["", "", "1.5 (1.5 to 1.5)"]
    assert "list / this" not in rows[0]


def test_growth_is_told_between_sizes_of_8_times_the_work():
    entries = [
        entry("append", f"{n} inserts", backend, pieces=n, contenders={"seqarray": record(seconds), "slow": slow})
        for backend in ("numpy", "cupy")
        for n, seconds, slow in [
            (1_000, 1.0, record(1.0)),
            (4_000, 3.0, {"recycled": False, "left_out": "predicted"}),
            (8_000, 9.0, record(64.0)),
            (32_000, 30.0, record(1.0)),
        ]
    ]
    text = reporting.markdown(result_of(*entries, entry("at", pieces=8_000)))
    rows = table_below(text, f"## {reporting.GROWTH_TITLE}")
    assert [(row["contender"], row["sizes"], row["time"]) for row in rows if row["arrays"] == "numpy"] == [
        ("seqarray", "1000 inserts -> 8000 inserts", "9 x"),
        ("slow", "1000 inserts -> 8000 inserts", "64 x"),
        ("seqarray", "4000 inserts -> 32000 inserts", "10 x"),
    ]
    assert len(rows) == 6
    assert reporting.GROWTH_TITLE in shown(result_of(*entries))
    assert reporting.GROWTH_TITLE not in reporting.markdown(result_of(entry()))


def test_a_report_says_that_threads_came_to_rest():
    for text in (reporting.markdown(result_of(entry())), shown(result_of(entry()))):
        assert "50 ms" in " ".join(text.split())


def test_results_in_recycled_memory_are_labelled_with_the_first_call_beside_them():
    text = reporting.markdown(everything_in_one_result())
    rows = table_below(text, "### 3 x (64, 64), numpy arrays")
    (recycled,) = [row for row in rows if "recycled" in row["contender"]]
    assert recycled["contender"] == "onnxruntime (recycled memory)"
    assert (recycled["time"], recycled["first call"]) == ("8 ms", "125 ms")


def test_markdown_of_a_whole_run_says_nothing_of_an_interruption():
    assert "interrupted" not in reporting.markdown(result_of(entry()))


def test_columns_that_say_nothing_are_left_out():
    text = reporting.markdown(result_of(entry()))
    assert list(table_below(text, "### 3 x (64, 64), numpy arrays")[0]) == [
        "contender",
        "time",
        "GB/s",
        "seqarray's time / this (quartiles)",
        "first call",
    ]
    for silent in ("after 2 ms", "after 10 ms", "device", "hot"):
        assert f"┃ {silent} " not in shown(result_of(entry()))
    busy = {"seqarray": record(1.0, device=0.5, **{"pause 2 ms": [3.0], "pause 10 ms": [4.0]}), "numpy": record(1.0)}
    row, _ = table_below(reporting.markdown(result_of(entry(contenders=busy))), "### 3 x (64, 64), numpy arrays")
    assert [row[column] for column in ("after 2 ms", "after 10 ms", "device")] == ["3 s", "4 s", "500 ms"]


def test_single_calls_after_a_pause_have_ratios_of_their_own():
    def paused(*seconds):
        return record(1.0, **{"pause 2 ms": list(seconds), "pause 10 ms": [seconds[0]]})

    contenders = {"seqarray": paused(1.0, 3.0, 2.0), "numpy": paused(4.0, 4.0, 4.0), "torch": paused(0.5, 1.0, 1.0)}
    rows = table_below(reporting.markdown(result_of(entry(contenders=contenders))), "### 3 x (64, 64), numpy arrays")
    assert [row["after 2 ms"] for row in rows] == ["2 s", "4 s (0.5)", "1 s (2)"]
    assert [row["after 10 ms"] for row in rows] == ["1 s", "4 s (0.25)", "500 ms (2)"]


def test_small_results_have_no_bandwidth():
    text = reporting.markdown(result_of(entry(bytes=72)))
    assert "GB/s" not in table_below(text, "### 3 x (64, 64), numpy arrays")[0]


def test_markdown_of_nothing_measured():
    text = reporting.markdown(result_of(interrupted=True))
    assert "interrupted" in text


def test_a_report_says_where_and_with_what_it_was_made():
    text = reporting.markdown(result_of(entry(), gpu="A Device"))
    for told in ("2026-01-02", "0123456789ab", "A Processor", "A Device", "numpy 2.4.6", "torch 2", "3.11.7"):
        assert told in text
    assert "`python -m benchmarks run`" in text
    assert "no GPU" in reporting.markdown(result_of(entry()))


def test_a_report_says_that_files_differed_from_the_commit():
    assert re.search(r"0123456789ab\w*\+", reporting.markdown(result_of(entry(), commit="0123456789ab" * 3 + "0123+")))


def test_a_pipe_in_an_error_does_not_break_the_table():
    contenders = {"seqarray": record(1.0), "torch": {"recycled": False, "error": "TypeError: expected int | float"}}
    text = reporting.markdown(result_of(entry(contenders=contenders)))
    _, row = table_below(text, "### 3 x (64, 64), numpy arrays")
    assert row["time"].replace("\\", "") == "TypeError: expected int | float"


def test_a_terminal_is_shown_the_same():
    result = everything_in_one_result()
    text = shown(result)
    for row in reporting.detail_rows(result["results"][0]):
        line = next(line for line in text.splitlines() if f"│ {row[0]} " in line)
        assert [cell.strip() for cell in line.strip("│").split("│") if cell.strip()] == [cell for cell in row if cell]
    for told in ("0.5 (0.5 to 0.75)", "skipped: needs about 3072 MiB", "interrupted"):
        assert told in text


def test_a_terminal_can_be_shown_the_summary_alone():
    text = shown(everything_in_one_result(), details=False)
    assert "0.5 (0.5 to 0.75)" in text
    assert "predicted to take 41 s" not in text


def test_square_brackets_are_shown_as_they_are():
    problem = "ValueError: [float] and [/usr] are no shapes [2, 3]"
    contenders = {"seqarray": record(1.0), "torch": {"recycled": False, "error": problem}}
    command = "python -m benchmarks run --cases '[a-s]*'"
    skipped = entry("other", contenders={}, skipped="for [no] reason")
    text = shown(result_of(entry(contenders=contenders), skipped, command=command))
    for told in (problem, command, "for [no] reason"):
        assert told in text


# Pictures


def entries_to_plot(backend="numpy"):
    """Several sizes of the cases that are plotted."""

    def contenders(seconds, **more):
        theirs = {name: record(*[seconds * factor] * 3) for name, factor in more.items()}
        return {"seqarray": record(*[seconds] * 3), **theirs}

    for case in CASES:
        if case.plot_by:
            for seconds, (size, (pieces, nbytes)) in enumerate(case.amounts.items(), 1):
                peers = {"numpy": 2, "torch": 3, "onnxruntime": 4, "onnx-reference": 5, "seqarray, list": 1.5}
                limits = {
                    f"memcpy, {n} thread{'s' * (n > 1)}, {m} memory": 0.5 for n in (1, 2) for m in ("fresh", "reused")
                }
                found = contenders(float(seconds), **peers, **(limits if nbytes >= 1 << 20 else {}))
                yield entry(case.name, size, backend, pieces=pieces, bytes=nbytes, contenders=found)
    yield entry("concat-axis0", "too large", backend, contenders={}, skipped="needs about 1 MiB of memory")


def plotted(result, path):
    """The text of a picture, written as .svg with its words kept as words."""
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from benchmarks import plotting

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        plotting.save(result, path)
    return path.read_text()


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    """Everything that is plotted of NumPy arrays."""
    return plotted(result_of(*entries_to_plot()), tmp_path_factory.mktemp("picture") / "plots.svg")


def test_plots_name_everything_they_show(picture):
    assert "<svg" in picture
    for words in ("A Processor", "2026-01-02", "numpy arrays", "onnxruntime", "memcpy, 2 threads, reused memory"):
        assert words in picture
    for found in entries_to_plot():
        assert f"{found['case']}, {found['size']}" in picture or "skipped" in found


def test_plots_are_readable_without_colour(picture):
    colours = re.findall(r"(?:stroke|fill): #(\w\w)(\w\w)(\w\w)", picture)
    assert colours
    assert all(red == green == blue for red, green, blue in colours)


def test_plots_are_saved_as_png_too(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from benchmarks import plotting

    plotting.save(result_of(entry()), tmp_path / "plots.png")
    assert (tmp_path / "plots.png").read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    "entries", [[], [entry("at", "of 16 x (2, 3)", contenders={"seqarray": record(1.0)})]], ids=len
)
def test_plots_of_little_or_nothing(tmp_path, entries):
    assert "<svg" in plotted(result_of(*entries), tmp_path / "plots.svg")


def test_plots_are_of_the_arrays_that_were_timed(tmp_path):
    text = plotted(result_of(*entries_to_plot("torch")), tmp_path / "plots.svg")
    assert "torch arrays" in text
    assert "concat-axis0, 3 x" in text


# The command line


@pytest.fixture
def command(capsys, monkeypatch):
    """Runs a command in this process; gives its exit status and everything it said."""
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


QUICK = ("run", "--quick", "--backends", "numpy", "--peers", "numpy", "--cases", "concat-tiny")


@pytest.fixture
def saved(tmp_path):
    """Writes results to files."""

    def save(name, *entries, **described):
        path = tmp_path / name
        path.write_text(json.dumps(result_of(*entries, **described)))
        return path

    return save


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), ["list", "run", "report", "compare"]),
        (("list",), []),
        (("run",), ["--backends", "--peers", "--cases", "--quick", "--json"]),
        (("report",), ["JSON", "--markdown", "--plot", ".png", ".svg"]),
        (("compare",), ["OLD.json", "NEW.json", "exit status", " 5 %"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_help(command, arguments, told):
    status, text = command(*arguments, "--help")
    text = " ".join(text.split())
    assert status == 0
    for words in told:
        assert words in text
    assert "%%" not in text


def test_list_tells_cases_and_what_is_missing_here(command, monkeypatch):
    without(monkeypatch, "dask", "onnxruntime")
    status, text = command("list")
    assert status == 0
    for case in CASES:
        assert f"│ {case.name} " in text
    for name in (*libraries.BACKENDS, *libraries.PEERS["numpy"]):
        assert f"│ {name} " in text
    assert "pip install 'dask[array]'" in text
    assert "pip install onnxruntime onnx" in text


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--backends", "numpy,nump", ["nump", "numpy", "cupy", "torch", "jax", "dask"]),
        ("--peers", "onnxruntim", ["onnxruntim", "onnxruntime", "onnx-reference"]),
        ("--cases", "concat-tinny", ["concat-tinny", "list"]),
        ("--cases", "concat-tiny,appendd", ["appendd"]),
    ],
)
def test_unknown_names_are_refused_with_what_is_known(command, monkeypatch, tmp_path, option, value, told):
    monkeypatch.setattr(running, "run", lambda *_: pytest.fail("something was measured"))
    status, text = command(*QUICK, option, value, "--json", tmp_path / "x.json")
    assert status != 0
    for words in told:
        assert words in text


def test_case_patterns_may_have_spaces_behind_the_commas(command, tmp_path):
    path = tmp_path / "x.json"
    status, text = command(*QUICK, "--cases", "concat-tiny, stack-t*", "--json", path)
    assert status == 0, text
    assert [found["case"] for found in json.loads(path.read_text())["results"]] == ["concat-tiny", "stack-tiny"]


def test_a_backend_that_is_missing_is_said_to_be_the_reason(command, monkeypatch):
    without(monkeypatch, "torch")
    status, text = command("run", "--backends", "torch", "--quick")
    assert status != 0
    assert "pip install torch" in text
    assert "No case matches" not in text


def test_run_writes_json_and_markdown_and_tells_where(command, tmp_path):
    path = tmp_path / "folder" / "x.json"
    status, text = command(*QUICK, "--json", path)
    assert status == 0
    assert str(path) in text
    result = json.loads(path.read_text())
    assert path.with_suffix(".md").read_text() == reporting.markdown(result)
    (found,) = result["results"]
    assert list(found["contenders"]) == ["seqarray", "seqarray, list", "numpy"]
    for timed in found["contenders"].values():
        assert len(timed["rotating"]) >= 3
        assert len(timed["hot"]) >= 3


def test_run_without_a_path_writes_below_build(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, text = command(*QUICK)
    (written,) = (tmp_path / "build").rglob("*.json")
    assert status == 0
    assert written.name in text
    assert written.with_suffix(".md").is_file()


def test_run_never_has_a_figure_for_a_missing_peer_and_names_it(command, tmp_path, monkeypatch):
    without(monkeypatch, "torch", "onnxruntime")
    path = tmp_path / "x.json"
    status, text = command(*QUICK, "--peers", "torch,onnxruntime", "--json", path)
    assert status == 0
    (found,) = json.loads(path.read_text())["results"]
    assert list(found["contenders"]) == ["seqarray", "seqarray, list", "numpy"]
    for line in ("peer torch is left out", "pip install torch", "peer onnxruntime is left out"):
        assert line in text


@pytest.mark.parametrize(
    ("error", "told"),
    [(None, "wrong answer"), (RuntimeError("no [float] in [/here]"), "RuntimeError: no [float] in [/here]")],
    ids=["wrong-answer", "exception"],
)
def test_run_fails_where_a_contender_computed_something_else(command, tmp_path, monkeypatch, error, told):
    def concat(self, arrays, axis):
        def work():
            if error:
                raise error
            return arrays[0]

        return work

    monkeypatch.setattr(libraries.SeqArrayList, "concat", concat)
    path = tmp_path / "x.json"
    status, text = command(*QUICK, "--json", path)
    assert status == 1
    assert "seqarray, list" in text
    assert told in text
    contenders = json.loads(path.read_text())["results"][0]["contenders"]
    assert told in contenders["seqarray, list"]["error"]
    assert "rotating" in contenders["numpy"]


def test_run_tells_of_ctrl_c_and_keeps_what_was_measured(command, tmp_path, monkeypatch):
    def stack(self, arrays, axis):
        raise KeyboardInterrupt

    monkeypatch.setattr(libraries.NumPy, "stack", stack)
    path = tmp_path / "x.json"
    _, text = command(*QUICK, "--cases", "concat-tiny,stack-tiny,split-tiny", "--json", path)
    assert "Interrupted" in text
    assert "1 of 3" in text
    result = json.loads(path.read_text())
    assert result["interrupted"] is True
    assert [found["case"] for found in result["results"]] == ["concat-tiny"]
    assert "interrupted" in path.with_suffix(".md").read_text()


@pytest.mark.parametrize("name", ["folder", "x.md"])
def test_a_path_at_which_no_json_can_be_kept_is_refused_before_anything_is_measured(
    command, tmp_path, monkeypatch, name
):
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(running, "run", lambda *_: pytest.fail("something was measured"))
    status, text = command(*QUICK, "--json", tmp_path / name)
    assert status != 0
    assert name in text


def test_rich_is_asked_for_where_it_is_missing(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["list"]) == 2
    assert 'pip install -e ".[bench]"' in capsys.readouterr().err


def test_matplotlib_is_asked_for_where_it_is_missing(command, saved, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path = saved("x.json", entry())
    status, text = command("report", path, "--plot", path.with_name("plots.png"))
    assert status != 0
    assert 'pip install -e ".[bench]"' in text


def test_report_shows_tables(command, saved):
    status, text = command("report", saved("x.json", entry()))
    assert status == 0
    assert "seqarray against the fastest other library" in text
    assert "what concat-axis0 does" in text
    assert "0.5 (0.5 to 0.75)" in text


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_report_writes_what_it_is_asked_for(command, saved, tmp_path, suffix):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    path, written, picture = saved("x.json", entry()), tmp_path / "written.md", tmp_path / f"plots.{suffix}"
    status, text = command("report", path, "--markdown", written, "--plot", picture)
    assert status == 0
    assert written.read_text() == reporting.markdown(json.loads(path.read_text()))
    assert picture.stat().st_size > 10_000
    assert str(written) in text.replace("\n", "")
    assert str(picture) in text.replace("\n", "")


def test_a_plot_of_another_kind_is_refused(command, saved, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    status, text = command("report", saved("x.json", entry()), "--plot", tmp_path / "plots.txt")
    assert status != 0
    assert "plots.txt" in text
    assert ".png" in text


def ratio_of(*rounds):
    """Contenders of which seqarray takes this many times as long as numpy."""
    return {"seqarray": record(*rounds), "numpy": record(*[1.0] * len(rounds))}


def test_compare_with_itself_is_0(command, saved):
    path = saved("x.json", entry(), entry("other"))
    status, text = command("compare", path, path)
    assert status == 0
    assert "0 of 2" in text
    assert text.count(" same ") == 2


@pytest.mark.parametrize(
    ("now", "status", "verdict"),
    [
        ((1.5, 1.6, 1.7), 1, "slower"),
        ((0.5, 0.6, 0.7), 0, "faster"),
        ((0.5, 1.5, 2.5), 0, "same"),
    ],
)
def test_compare_is_1_where_something_became_slower(command, saved, now, status, verdict):
    old = saved("old.json", entry(contenders=ratio_of(0.9, 1.0, 1.1)), entry("steady"))
    new = saved("new.json", entry(contenders=ratio_of(*now)), entry("steady"))
    ended, text = command("compare", old, new)
    assert ended == status
    (line,) = [line for line in text.splitlines() if "concat-axis0" in line]
    assert verdict in line
    assert f"{status} of 2" in text


def test_compare_of_nothing_in_common_is_2(command, saved):
    old, new = saved("old.json", entry("one")), saved("new.json", entry("another"))
    status, text = command("compare", old, new)
    assert status == 2
    assert "no case in common" in text


def test_compare_does_not_pass_over_a_case_that_no_longer_works(command, saved):
    broken = {**ratio_of(1.0, 1.0), "seqarray": {"recycled": False, "error": "ValueError: wrong answer"}}
    old = saved("old.json", entry("broken", contenders=ratio_of(1.0, 1.0)), entry("steady"))
    new = saved("new.json", entry("broken", contenders=broken), entry("steady"))
    status, text = command("compare", old, new)
    assert status != 0
    assert "broken" in text


@pytest.mark.parametrize("content", [None, "not JSON", '{"something": "else"}'], ids=["missing", "broken", "other"])
def test_a_file_that_is_no_result_is_named(command, saved, tmp_path, content):
    good, bad = saved("good.json", entry()), tmp_path / "bad.json"
    if content is not None:
        bad.write_text(content)
    for arguments in (("report", bad), ("compare", bad, good), ("compare", good, bad)):
        status, text = command(*arguments)
        assert status not in (0, 1)  # 1 would say that something has become slower
        assert "bad.json" in text


def test_a_quick_run_in_a_process_of_its_own(tmp_path):
    pytest.importorskip("rich", reason="rich is not installed")
    path = tmp_path / "a folder" / "x.json"
    arguments = ["-m", "benchmarks", "run", "--backends", "numpy", "--cases", "concat-tiny", "--quick", "--json"]
    done = subprocess.run(
        [sys.executable, *arguments, str(path)], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert path.with_suffix(".md").read_text().startswith("# Benchmark of seqarray\n")
    result = json.loads(path.read_text())
    assert (result["interrupted"], len(result["results"])) == (False, 1)
    (found,) = result["results"]
    for name in ("seqarray", "seqarray, list", "numpy"):
        assert found["contenders"][name]["rotating"]
    described = result["machine"]
    assert described["versions"]["numpy"] == np.__version__
    assert described["versions"]["seqarray"] == sa.__version__
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=PROJECT, capture_output=True, text=True, check=False
    ).stdout.strip()
    assert described["commit"].rstrip("+") == commit
    assert described["cpu"]
    assert described["cpus"] == machine.cpu_count()
    assert described["threads"]["seqarray"] == sa.get_num_threads()
    assert datetime.datetime.fromisoformat(described["date"]).tzinfo is not None
    assert shlex.split(described["command"]) == ["python", *arguments, str(path)]


# The cases

#: The least of a case's bytes that is not made here: it would take long, and more memory than a small machine has.
LARGE = 100 << 20


def made(case, size):
    return case.sizes[size](np.random.default_rng(0))


def amount_of(work, arguments):
    """Pieces of some work's inputs, and bytes of new memory in its result."""
    match work:
        case "concat" | "stack" | "concat_out":
            arrays, _ = arguments
            return len(arrays), sum(array.nbytes for array in arrays)
        case "upload":
            (arrays,) = arguments
            return len(arrays), sum(array.nbytes for array in arrays)
        case "split" | "split_views" | "rejoin" | "rejoin_view" | "round_trip":
            x, sizes, axis = arguments
            nbytes = 0 if "view" in work else x.nbytes
            if sizes is None or isinstance(sizes, int):
                chunks, rest = divmod(x.shape[axis], sizes or 1)
                assert rest == 0
                return chunks, nbytes
            assert sum(sizes) == x.shape[axis]
            return len(sizes), nbytes
        case "append":
            count, element = arguments
            return count, count * element.nbytes
        case "push_and_pop" | "window":
            return arguments[0], 0
        case "at":
            (arrays,) = arguments
            return 1, arrays[len(arrays) // 2].nbytes
        case "model":
            answer, _, inputs = arguments
            return int(inputs.get("count", 5)), answer.nbytes
    raise AssertionError(f"what is the amount of {work}?")


SMALLER = [(case, size) for case in CASES for size in case.sizes if case.amounts[size][1] < LARGE]


@pytest.mark.parametrize(("case", "size"), SMALLER, ids=[f"{case.name}-{size}" for case, size in SMALLER])
def test_amounts_are_those_of_the_real_inputs(case, size):
    assert case.amounts[size] == amount_of(case.work, made(case, size))


def test_names_of_cases_are_unique_and_can_be_typed():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z0-9-]+", name) for name in names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_declared_without_slips(case):
    assert case.title
    assert hasattr(libraries.Library, case.work)
    assert list(case.amounts) == list(case.sizes)
    assert case.quick
    assert set(case.quick) <= set(case.sizes)
    assert set(case.gpu_sizes) <= set(case.sizes) - set(case.quick)
    assert set(case.backends) <= set(libraries.BACKENDS)
    assert case.plot_by in ("", "bytes", "pieces", "growth")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_work_grows_with_the_sizes(case):
    work = [running.Task(case, size, "numpy").work for size in case.sizes]
    # Some have several forms of an argument as their sizes.
    same_amounts = len(set(case.amounts.values())) == 1
    assert all(smaller < larger or same_amounts for smaller, larger in pairwise(work))


def test_quick_has_every_case_that_a_backend_can_do():
    chosen = running.tasks("*", ["numpy"], quick=True)
    assert {task.case.name for task in chosen} == {case.name for case in CASES if "numpy" in case.backends}
    assert all(task.size in task.case.quick for task in chosen)


def test_tasks_are_those_that_match():
    names = {task.case.name for task in running.tasks("concat-a*,at", ["numpy", "torch"], quick=False)}
    assert names == {"concat-axis0", "concat-axis1", "at"}
    assert running.tasks("nothing", ["numpy"], quick=False) == []
    (upload,) = running.tasks("upload", ["numpy", "cupy"], quick=True)
    assert upload.backend == "cupy"


def test_sizes_for_a_gpu_are_left_to_it():
    on_the_cpu = running.tasks("concat-ragged", ["numpy"], quick=False)
    on_a_gpu = running.tasks("concat-ragged", ["cupy"], quick=False)
    assert [task.size for task in on_the_cpu] == ["16 MiB", "256 MiB"]
    assert [task.size for task in on_a_gpu] == ["16 MiB", "256 MiB", "1024 MiB"]


# What the contenders compute

#: The work that each contender does, by backend and name.
DOES = {("numpy", "numpy"): ALL - {"upload", "model"}}
for _backend in libraries.BACKENDS:
    DOES[_backend, "seqarray"] = ALL
    DOES[_backend, "seqarray, list"] = {"concat", "stack", "concat_out"}
    DOES[_backend, "seqarray, all taken"] = {"split", "split_views"}
for _backend, _peer in (("numpy", "torch"), ("torch", "torch"), ("cupy", "torch (CUDA)")):
    DOES[_backend, _peer] = ALL - {"append", "push_and_pop", "window", "upload", "model"}
for _peer in ("onnxruntime", "onnx-reference"):
    DOES["numpy", _peer] = {"concat", "stack", "split", "round_trip", "append", "at", "model"}
DOES["cupy", "cupy"] = {"concat", "stack", "split", "split_views", "rejoin", "rejoin_view", "at", "upload"}
DOES["cupy", "cupy slices"] = {"concat", "stack"}
DOES["jax", "jax"] = {"concat", "stack", "split", "at"}
DOES["dask", "dask"] = {"concat", "stack", "split"}


def contender_named(backend, name):
    """A contender; skips the test where it cannot be used."""
    library = libraries.BACKENDS[backend]
    ours = [libraries.SeqArray(library), libraries.SeqArrayList(library), libraries.SeqArrayTaken(library)]
    (found,) = [one for one in (*ours, *libraries.PEERS[backend].values()) if one.name == name]
    for needed in (library, found):
        if missing := needed.missing():
            pytest.skip("cupy has no usable GPU here" if "GPU" in missing else f"{needed.name} is not installed")
    return found


def expected_of(work, arguments):
    """What NumPy makes of it, written down once more."""
    match work:
        case "concat" | "concat_out":
            return np.concatenate(*arguments)
        case "stack":
            return np.stack(*arguments)
        case "split" | "split_views":
            x, sizes, axis = arguments
            if sizes is None or isinstance(sizes, int):
                return np.split(x, range(sizes or 1, x.shape[axis], sizes or 1), axis)
            return np.split(x, np.cumsum(sizes)[:-1], axis)
        case "rejoin" | "rejoin_view" | "round_trip":
            return arguments[0]
        case "append":
            count, element = arguments
            return np.tile(element, count)
        case "at":
            return arguments[0][len(arguments[0]) // 2]
        case "upload" | "model":
            return arguments[0]
    raise AssertionError(f"what is the answer of {work}?")


def assert_answers(actual, expected):
    assert isinstance(actual, list) == isinstance(expected, list)
    if not isinstance(expected, list):
        np.testing.assert_array_equal(actual, expected, strict=True)
        return
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


ANSWERS = [
    pytest.param(backend, name, case, id=f"{backend}-{name}-{case.name}")
    for backend, name in DOES
    for case in CASES
    if backend in case.backends
    and case.work in DOES[backend, name]
    and case.work not in SAME_SEQUENCE
    and next(iter(case.amounts.values()))[0] <= min(libraries.BACKENDS[backend].most_pieces, 10_000)
    and not (name == "jax" and case.work == "split" and next(iter(case.amounts.values()))[0] > 100)
]


@pytest.mark.parametrize(("backend", "name", "case"), ANSWERS)
def test_every_contender_gives_the_answer_of_numpy(backend, name, case):
    library = contender_named(backend, name)
    arguments = made(case, next(iter(case.sizes)))
    result = getattr(library, case.work)(*arguments)()
    library.finish(result)
    assert_answers(library.host(result), expected_of(case.work, arguments))


FORMS_OF_SIZES = [None, 1, 2, 4, [2, 1, 0, 3], np.asarray([1, 5])]


@pytest.mark.parametrize(("backend", "name"), DOES, ids=lambda value: value)
def test_every_form_of_sizes_gives_the_answer_of_numpy(backend, name):
    library = contender_named(backend, name)
    inputs = [(np.arange(12, dtype=np.float32).reshape(6, 2), 0), (np.arange(12, dtype=np.float32).reshape(2, 6, 1), 1)]
    for work in sorted(DOES[backend, name] & {"split", "split_views", "rejoin", "rejoin_view", "round_trip"}):
        for x, axis in inputs:
            for sizes in FORMS_OF_SIZES:
                result = getattr(library, work)(x, sizes, axis)()
                library.finish(result)
                assert_answers(library.host(result), expected_of(work, (x, sizes, axis)))


@pytest.mark.parametrize(("backend", "name"), DOES, ids=lambda value: value)
def test_a_contender_does_not_claim_work_that_it_cannot_do(backend, name):
    library = contender_named(backend, name)
    for work in ALL - DOES[backend, name]:
        (case, *_) = [case for case in CASES if case.work == work]
        arguments = made(case, next(iter(case.sizes)))
        assert getattr(library, work)(*arguments) is None


def test_uploading_in_one_piece_gives_every_row():
    (case,) = [case for case in CASES if case.name == "upload"]
    (arrays,) = made(case, "300 rows")
    library = libraries.SeqArray(libraries.BACKENDS["numpy"])
    assert_answers(library.host(library.upload(arrays)()), arrays)


@pytest.mark.parametrize("name", ["numpy", "seqarray"])
def test_pushing_and_popping_can_be_repeated(name, count_calls):
    library = contender_named("numpy", name)
    inserted, erased = (count_calls(sa, function) for function in ("sequence_insert", "sequence_erase"))
    work = library.push_and_pop(10, np.ones(3, np.float32))
    work()
    work()
    assert (len(inserted), len(erased)) == ((1_000, 1_000) if name == "seqarray" else (0, 0))


@pytest.mark.parametrize("name", ["numpy", "seqarray"])
def test_the_window_can_be_moved_again(name, count_calls):
    library = contender_named("numpy", name)
    inserted, erased = (count_calls(sa, function) for function in ("sequence_insert", "sequence_erase"))
    work = library.window(10, np.ones(3, np.float32))
    assert len(work()) == len(work()) == 10
    assert (len(inserted), len(erased)) == ((2_000, 2_000) if name == "seqarray" else (0, 0))


@pytest.mark.parametrize("work", ["split_views", "rejoin_view"])
def test_what_is_said_to_copy_nothing_is_in_the_memory_of_the_input(work):
    x = np.ones((6, 2), np.float32)
    result = getattr(contender_named("numpy", "seqarray"), work)(x, 2, 0)()
    assert all(np.shares_memory(array, x) for array in result)


@pytest.mark.parametrize("name", ["seqarray", "seqarray, list", "numpy", "torch"])
def test_a_result_with_out_is_written_each_time_into_memory_of_its_own(name):
    library, arrays = contender_named("numpy", name), [np.ones((2, 3), np.float32)] * 2
    first, second = library.concat_out(arrays, 0), library.concat_out(arrays, 0)
    result = first()
    assert np.shares_memory(np.asarray(result), np.asarray(first()))
    assert not np.shares_memory(np.asarray(result), np.asarray(second()))
    result[:] = 0
    np.testing.assert_array_equal(np.asarray(first()), np.ones((4, 3), np.float32))


@pytest.mark.parametrize("work", sorted(ALL - SAME_SEQUENCE - {"split_views", "rejoin_view", "upload"}))
def test_no_contender_gets_the_same_memory_twice(work):
    # With copy=None a split or an element would cost nothing, and the comparison would be none.
    case = next(case for case in CASES if case.work == work)
    arguments = made(case, next(iter(case.sizes)))
    inputs = arguments[0] if isinstance(arguments[0], list) else [a for a in arguments if isinstance(a, np.ndarray)]
    for name in ("seqarray", "numpy"):
        if work not in DOES["numpy", name]:
            continue
        result = getattr(contender_named("numpy", name), work)(*arguments)()
        for array in result if isinstance(result, (list, sa.ArraySequence)) else [result]:
            assert not any(np.shares_memory(array, given) for given in inputs)


# The results that are shown


def committed():
    return sorted(RESULTS.glob("[cg]pu*.json"))


def test_a_full_run_on_a_cpu_is_committed():
    assert any(not reporting.load(path)["machine"]["gpu"] for path in committed())


@pytest.mark.parametrize("path", committed(), ids=lambda path: path.name)
class TestCommittedResult:
    """What must hold for each result that is kept with the project."""

    def test_it_is_whole_and_names_its_commit(self, path):
        result = reporting.load(path)
        assert result["interrupted"] is False
        assert re.fullmatch("[0-9a-f]{40}", result["machine"]["commit"])  # with a plus sign, files differed from it
        assert "--quick" not in result["machine"]["command"]
        for found in result["results"]:
            assert not [timed for timed in found["contenders"].values() if "error" in timed]

    def test_its_tables_are_those_of_its_json(self, path):
        assert path.with_suffix(".md").read_text() == reporting.markdown(reporting.load(path))

    def test_it_has_the_cases_of_today(self, path):
        result = reporting.load(path)
        on_numpy = {(found["case"], found["size"]) for found in result["results"] if found["backend"] == "numpy"}
        if on_numpy:
            assert on_numpy == {(task.case.name, task.size) for task in running.tasks("*", ["numpy"], quick=False)}

    def test_report_and_compare_work_on_it(self, path, command, tmp_path):
        pytest.importorskip("matplotlib", reason="matplotlib is not installed")
        assert command("report", path)[0] == 0
        assert command("report", path, "--plot", tmp_path / "plots.svg", "--markdown", tmp_path / "x.md")[0] == 0
        assert command("compare", path, path)[0] == 0

    def test_a_picture_of_it_is_there(self, path):
        assert list(path.parent.glob(f"{path.stem}*.png")) or list(path.parent.glob(f"{path.stem}*.svg"))
