"""Runs of cases, with made-up libraries and a made-up clock."""

import gc
import json
import re
from dataclasses import replace
from itertools import chain, repeat

import numpy as np
import pytest

from benchmarks import machine, measure, running
from benchmarks.cases import CASES, Case
from tests.benchmarks.helpers import ALL, PLAN, Made, modes_of, rows, tasks_of


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
    # 18 of 26 rounds are the first one's: of 20 s but for the pauses it gets 13.7, of which 70 % are for the calls of
    # turns without a pause.
    pauses = 5 * (0.002 + 0.050)
    assert spent[3] == pytest.approx(0.7 * (20 - pauses) * 18 / 26, abs=0.1)


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


def one_element_more(chunks):
    chunks[700] = np.append(chunks[700], chunks[700])


def another_value(chunks):
    chunks[700] = chunks[700] + 1


def another_dtype(chunks):
    chunks[700] = chunks[700].astype(np.float64)


@pytest.mark.parametrize("change", [None, list.pop, one_element_more, another_value, another_dtype])
def test_many_chunks_are_checked_like_few(clock, run_with, change):
    x = np.arange(2 * running.MOST_COMPARED_SINGLY, dtype=np.float32)
    case = Case("cut", "", "split", {"1": lambda rng: (x, [1] * len(x), 0)}, {"1": (len(x), x.nbytes)})
    chunks = np.split(x, len(x))
    if change is not None:
        change(chunks)
    result, _ = run_with([Made("split", clock, answer=lambda *_: chunks)], [running.Task(case, "1", "numpy")])
    assert ("error" in result["results"][0]["contenders"]["split"]) == (change is not None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_case_takes_a_wrong_answer(clock, run_with, case):
    wrong = Made("wrong", clock)
    for work in ALL:
        setattr(wrong, work, lambda *_: lambda: np.asarray([-1], np.float32))
    result, _ = run_with([wrong], [running.Task(case, next(iter(case.sizes)), "numpy")])
    assert "wrong answer" in result["results"][0]["contenders"]["wrong"].get("error", "")


def failing_from(call):
    """Make an answer that joins arrays, but raises from a call on."""
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
    assert result["machine"]["command"] == ["a", "command"]


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
    modes = ["rotating", "hot", "pause 2 ms", "pause 50 ms"]
    for timed in result["results"][0]["contenders"].values():
        assert modes_of(timed) == (modes if threads and pauses else modes[:2])
        if threads and pauses:
            assert timed["pause 50 ms"] == [0.001] * 5


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


@pytest.mark.parametrize(("work", "recycled"), [("concat", True), ("concat_out", False)])
def test_results_in_memory_that_was_given_are_not_called_recycled(clock, run_with, work, recycled):
    made = Made("ours", clock)
    made.recycles = True
    made.concat_out = made.concat
    task = replace(tasks_of(3)[0].case, work=work)
    result, _ = run_with([made], [running.Task(task, "3 rows", "numpy")])
    assert result["results"][0]["contenders"]["ours"]["recycled"] is recycled
