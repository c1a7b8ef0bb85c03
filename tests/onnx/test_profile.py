"""What each step of a program takes: times, bytes and numbers of runs."""

import json
import threading
import time

import pytest

import seqarray.onnx
from seqarray.onnx._run import profile as recording
from tests.onnx.helpers import floats, integer, on_all, placed, refuses, text_model

LOOP = """agraph (int64 n, float[N] x) => (seq(float[]) s, float[K] y) {
    empty = SequenceEmpty()
    [grow] s = Loop(n, "", empty)<body = body (int64 i, bool c, seq(float[]) a) => (bool c2, seq(float[]) b) {
        c2 = Identity(c) [twice] v = Add(x, x) b = SequenceInsert(a, v) }>
    y = ConcatFromSequence<axis = 0>(s) }"""


@on_all
def test_steps_and_bytes_are_counted(backend):
    program = seqarray.onnx.prepare(text_model(LOOP), xp=backend.xp, device=backend.device)
    inputs = [integer(3), placed(floats(1, 2), backend)]
    program.run(inputs)
    with program.profile() as profile:
        program.run(inputs)
        program.run(inputs)
    program.run(inputs)
    counts = {taken.operator: (taken.count, taken.nbytes) for taken in profile.steps}
    assert counts == {
        "SequenceEmpty-11": (2, 0),
        "Loop-16": (2, 2 * 3 * 8),
        "Identity-16": (6, 6),
        "Add-14": (6, 6 * 8),
        "SequenceInsert-11": (6, 2 * (1 + 2 + 3) * 8),
        "ConcatFromSequence-11": (2, 2 * 3 * 8),
    }


def test_the_time_of_a_loop_is_that_of_its_steps_and_its_own():
    program = seqarray.onnx.prepare(text_model(LOOP))
    with program.profile() as profile:
        program.run([integer(50), floats(1)])
    steps = {taken.operator: taken for taken in profile.steps}
    loop = steps.pop("Loop-16")
    inner = [steps[name] for name in ("Identity-16", "Add-14", "SequenceInsert-11")]
    assert loop.total_seconds == pytest.approx(loop.seconds + sum(step.total_seconds for step in inner))
    assert all(step.seconds == step.total_seconds > 0 for step in inner)
    assert [step.seconds for step in profile.steps] == sorted((step.seconds for step in profile.steps), reverse=True)


def test_counting_bytes_is_no_part_of_a_step(monkeypatch):
    """That of a sequence that grows would take more and more of the time of the loop around."""
    counted = []

    def slow(value):
        counted.append(value)
        time.sleep(0.005)
        return 1

    monkeypatch.setattr(recording, "_nbytes_of", slow)
    program = seqarray.onnx.prepare(text_model(LOOP))
    with program.profile() as profile:
        program.run([integer(20), floats(1)])
    (loop,) = (taken for taken in profile.steps if taken.operator == "Loop-16")
    assert len(counted) > 60
    assert loop.seconds < loop.total_seconds < 0.005 * 30 < 0.005 * len(counted)
    assert loop.total_seconds == pytest.approx(
        loop.seconds
        + sum(
            taken.total_seconds
            for taken in profile.steps
            if taken.operator in ("Identity-16", "Add-14", "SequenceInsert-11")
        )
    )


def test_a_profile_as_text_and_as_a_trace(tmp_path):
    program = seqarray.onnx.prepare(text_model(LOOP))
    with program.profile() as profile:
        program.run([integer(2), floats(1)])
    assert "node 1 (Loop-16 'grow')" in str(profile)
    profile.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == 1 + 1 + 3 * 2 + 1
    assert {event["args"]["label"] for event in events} >= {"node 1 (Loop-16 'grow'): node 1 (Add-14 'twice')"}
    (loop,) = (event for event in events if event["name"] == "Loop-16")
    inner = [event for event in events if event["name"] == "Add-14"]
    assert all(loop["ts"] <= event["ts"] and event["ts"] + event["dur"] <= loop["ts"] + loop["dur"] for event in inner)


def test_steps_are_labelled_as_in_the_program():
    program = seqarray.onnx.prepare(text_model(LOOP))
    with program.profile() as profile:
        program.run([integer(2), floats(1)])
        program.run([integer(2), floats(1)], outputs=[program.outputs[0].name])
    labels = [taken.label for taken in profile.steps]
    assert {*labels} == {step.label for step in program.steps}
    assert all(f"  {label}\n" in f"{profile}\n" for label in labels)


def test_runs_of_several_threads_are_recorded():
    program = seqarray.onnx.prepare(text_model(LOOP))
    with program.profile() as profile:
        threads = [threading.Thread(target=program.run, args=([integer(20), floats(1)],)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {taken.operator: taken.count for taken in profile.steps}["Add-14"] == 80


def test_one_profile_at_a_time():
    program = seqarray.onnx.prepare(text_model(LOOP))
    with program.profile():
        refuses(ValueError, lambda: program.profile().__enter__(), "already")
    with program.profile() as profile:
        refuses(ValueError, lambda: program.run([integer(0), floats(1)]), "ConcatFromSequence")
    assert {taken.operator for taken in profile.steps} == {"SequenceEmpty-11", "Loop-16"}
