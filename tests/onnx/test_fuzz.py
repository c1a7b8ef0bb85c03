"""Damaged models give results or named errors; and the watchdog that says so sees what is wrong."""

import re
import subprocess
import sys

import numpy as np
import pytest

from tests.onnx.fuzz import cases, watchdog, worker
from tests.onnx.fuzz.models import entries


def test_damaged_models_give_results_or_named_errors(thorough):
    count = 300 if thorough else 50
    command = [sys.executable, "-m", "tests.onnx.fuzz", "--count", str(count)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=watchdog.ROOT)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    total, results = re.search(r"^(\d+) seeds: .*'result': (\d+)", run.stdout, re.MULTILINE).groups()
    assert int(total) == count + len(cases.kept_cases())
    assert int(results) >= count // 10  # the damage is not so bad that nothing runs


def test_a_seed_is_always_the_same_case():
    originals = entries()
    assert len(originals) > 250
    for seed in range(40):
        first, second = (cases.case_of(seed, originals) for _ in range(2))
        assert (first.form, first.content) == (second.form, second.content)


def test_a_case_that_is_kept_stays_what_it_was(tmp_path, monkeypatch):
    originals = entries()
    monkeypatch.setattr(cases, "KEPT", tmp_path / "cases.json")
    cases.KEPT.write_text("[]", encoding="utf-8")
    for seed in range(20):
        cases.keep(seed, "a reason")
    for seed in range(20):
        case, kept = cases.case_of(seed, originals), cases.case_of(-seed - 1, originals)
        assert (case.form, case.content) == (kept.form, kept.content)
        np.testing.assert_equal(kept.inputs, case.inputs)


@pytest.mark.parametrize(
    ("code", "place", "expected"),
    [
        ("None.shape", worker.PACKAGE, True),
        ("{}[1]", worker.PACKAGE, True),
        ("[][1]", worker.PACKAGE, True),
        ("None + 1", worker.PACKAGE, True),
        ("raise ValueError('axis is 2')", worker.PACKAGE, False),
        ("raise IndexError('position is 2')", worker.PACKAGE, False),
        ("None.shape", watchdog.ROOT, False),
    ],
)
def test_errors_that_nobody_raised_on_purpose_are_told_from_others(code, place, expected):
    try:
        exec(compile(code, place / "some_module.py", "exec"), {})
    except Exception as cause:
        error = ValueError("node 1: something is wrong")
        error.__cause__ = cause
    assert bool(worker.accident_in(error)) == expected


# The watchdog, with a process that does what it is told


WORKER = """
import json, os, signal, sys, time
print("ready", flush=True)
for line in sys.stdin:
    seed = int(line)
    if seed == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if seed == 5:
        time.sleep(600)
    if seed == 7:
        sys.exit("it left")
    outcome = {8: "KeyError", 9: "memory"}.get(seed, "result")
    print(json.dumps({"seed": seed, "outcome": outcome, "note": str(os.getpid())}), flush=True)
    if seed == 9:
        break
"""


@pytest.fixture(scope="module")
def findings():
    return list(watchdog.watch(range(14), [sys.executable, "-c", WORKER], seconds=2.0, batch=4))


def test_crashes_and_hangs_are_told_of_the_seed_that_did_it(findings):
    assert [finding.seed for finding in findings] == list(range(14))
    outcomes = {finding.seed: finding.outcome for finding in findings if finding.outcome != "result"}
    assert outcomes == {3: "crash", 5: "hang", 7: "crash", 8: "KeyError", 9: "memory"}
    assert "exit status -11" in findings[3].note
    assert "it left" in findings[7].note


def test_processes_are_replaced_after_a_batch(findings):
    processes = [finding.note for finding in findings[10:]]
    assert len(set(processes)) == 1
    assert len({finding.note for finding in findings if finding.outcome == "result"}) == 4


def test_a_process_that_does_not_start_is_an_error():
    with pytest.raises(RuntimeError, match="did not start"):
        list(watchdog.watch([1], [sys.executable, "-c", "raise SystemExit('no')"]))
