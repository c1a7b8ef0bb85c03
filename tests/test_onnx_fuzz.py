"""Damaged models give results or named errors; and the watchdog that says so sees what is wrong."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import onnx_fuzz

SCRIPT = Path(onnx_fuzz.__file__)


def test_damaged_models_give_results_or_named_errors():
    command = [sys.executable, SCRIPT, "--count", "300"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    total, results = re.search(r"^(\d+) seeds: .*'result': (\d+)", run.stdout, re.MULTILINE).groups()
    assert int(total) == 300 + len(onnx_fuzz.kept_cases())
    assert int(results) >= 30  # the damage is not so bad that nothing runs


def test_a_seed_is_always_the_same_case():
    originals = onnx_fuzz.entries()
    assert len(originals) > 250
    for seed in range(40):
        first, second = (onnx_fuzz.case_of(seed, originals) for _ in range(2))
        assert (first.form, first.content) == (second.form, second.content)


def test_a_case_that_is_kept_stays_what_it_was(tmp_path, monkeypatch):
    originals = onnx_fuzz.entries()
    monkeypatch.setattr(onnx_fuzz, "KEPT", tmp_path / "cases.json")
    onnx_fuzz.KEPT.write_text("[]", encoding="utf-8")
    for seed in range(20):
        onnx_fuzz.keep(seed, "a reason")
    for seed in range(20):
        case, kept = onnx_fuzz.case_of(seed, originals), onnx_fuzz.case_of(-seed - 1, originals)
        assert (case.form, case.content) == (kept.form, kept.content)
        np.testing.assert_equal(kept.inputs, case.inputs)


@pytest.mark.parametrize(
    ("code", "place", "expected"),
    [
        ("None.shape", onnx_fuzz.PACKAGE, True),
        ("{}[1]", onnx_fuzz.PACKAGE, True),
        ("[][1]", onnx_fuzz.PACKAGE, True),
        ("None + 1", onnx_fuzz.PACKAGE, True),
        ("raise ValueError('axis is 2')", onnx_fuzz.PACKAGE, False),
        ("raise IndexError('position is 2')", onnx_fuzz.PACKAGE, False),
        ("None.shape", onnx_fuzz.ROOT, False),
    ],
)
def test_errors_that_nobody_raised_on_purpose_are_told_from_others(code, place, expected):
    try:
        exec(compile(code, place / "some_module.py", "exec"), {})
    except Exception as cause:
        error = ValueError("node 1: something is wrong")
        error.__cause__ = cause
    assert bool(onnx_fuzz.accident_in(error)) == expected


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
    return list(onnx_fuzz.watch(range(14), [sys.executable, "-c", WORKER], seconds=2.0, batch=4))


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
        list(onnx_fuzz.watch([1], [sys.executable, "-c", "raise SystemExit('no')"]))
