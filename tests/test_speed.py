"""The timing of one function on several libraries: turns, counts and refusals, and no real time."""

import gc
import json
from types import SimpleNamespace

import numpy as np
import pytest

import seqarray as sa
from seqarray import _speed
from seqarray.testing import compare_speed

X = np.asarray([1.0, 2.0], np.float32)


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by one that only `passes` moves."""
    clock = SimpleNamespace(now=0.0)
    clock.passes = lambda seconds: setattr(clock, "now", clock.now + seconds)
    monkeypatch.setattr(_speed, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_names_take_turns_and_each_round_begins_with_another(clock):
    calls = []

    def function(name, duration):
        calls.append((name, gc.isenabled()))
        clock.passes(duration)
        return X

    speeds = compare_speed(function, {"a": ["a", 1.0], "b": ["b", 3.0]}, rounds=3, seconds=0.1)
    order = "".join(name for name, _ in calls)
    assert order == "ab" + "ab" + "ab" + "ba" + "ab"  # a check, a first time, and three rounds
    assert not any(collects for _, collects in calls[4:])
    assert gc.isenabled()
    assert speeds.seconds == {"a": [1.0] * 3, "b": [3.0] * 3}
    assert speeds.quartiles("b") == (3.0, 3.0, 3.0)
    assert speeds.ratios("b") == (3.0, 3.0, 3.0)
    assert json.loads(speeds.to_json()) == {"seconds": speeds.seconds}
    heading, first, second = str(speeds).splitlines()
    assert heading.split() == ["median", "quartiles", "/", "a"]
    assert (first.split()[0], second.split()[0], second.split()[-1]) == ("a", "b", "3")


def test_short_calls_fill_their_turn(clock):
    durations = []

    def function():
        durations.append(0.001)
        clock.passes(0.001)
        return X

    speeds = compare_speed(function, {"a": []}, rounds=2, seconds=1.0)
    assert len(durations) == pytest.approx(2 + 1000, abs=4)
    assert speeds.seconds["a"] == pytest.approx([0.001] * 2)


def test_every_library(backend):
    waited = []
    rows = [backend.array(X.copy()), backend.array(X[:1].copy())]
    speeds = compare_speed(
        lambda rows: sa.concat_from_sequence(rows, axis=0),
        {"numpy": [[X, X[:1]]], "another": [rows]},
        rounds=1,
        seconds=1e-6,
        wait=waited.append,
    )
    assert list(speeds.seconds) == ["numpy", "another"]
    assert len(waited) == 6


@pytest.mark.parametrize(
    ("other", "rtol"),
    [
        (X + 1, 0.0),
        (X + np.float32(1e-6), 0.0),
        (X * 1.5, 0.1),
        (X.astype(np.float64), 0.1),
        (X[:1], 0.1),
        ([X, X], 0.0),
        (sa.ArraySequence([X, X]), 0.0),
    ],
)
def test_other_results_are_not_timed(other, rtol):
    with pytest.raises(AssertionError, match="'b'"):
        compare_speed(lambda x: x, {"a": [X], "b": [other]}, rtol=rtol)


def test_results_may_differ_by_a_tolerance():
    assert compare_speed(lambda x: x, {"a": [X], "b": [X + np.float32(1e-6)]}, rtol=1e-5, rounds=1, seconds=1e-6)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"seconds": -1.0}, "seconds is -1.0"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"rtol": -0.1}, "rtol is -0.1"),
    ],
)
def test_numbers_out_of_range_are_refused(given, told):
    with pytest.raises(ValueError, match=f"compare_speed: {told}"):
        compare_speed(lambda: pytest.fail("it was called"), {"a": []}, **given)


def test_names_have_to_be_the_same():
    with pytest.raises(ValueError, match=r"compare_speed: functions are named \['a'\], and inputs \['b'\]"):
        compare_speed({"a": abs}, {"b": [X]})
    with pytest.raises(ValueError, match="compare_speed: inputs is empty"):
        compare_speed(abs, {})


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ([X], r"inputs is .*list\)?; expected a dict"),
        ({"a": X}, r"inputs\['a'\] is of type numpy.ndarray; expected the arguments of a call in a list: \[batch\]"),
        ({"a": sa.ArraySequence([X])}, r"inputs\['a'\] is of type .*ArraySequence; expected the arguments"),
    ],
)
def test_inputs_that_are_no_lists_of_arguments_are_refused(inputs, told):
    with pytest.raises(TypeError, match=f"compare_speed: {told}"):
        compare_speed(lambda: pytest.fail("it was called"), inputs)


def test_what_a_function_raises_tells_for_which_name():
    with pytest.raises(TypeError, match="positional") as caught:
        compare_speed(lambda x: x, {"a": [X], "b": [X, X, X]})
    assert caught.value.__notes__ == ["compare_speed: in the call for 'b', with 3 arguments"]


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match="compare_speed: a result of 'a'"):
        compare_speed(lambda: "text", {"a": []})


def test_results_that_come_later_have_to_be_waited_for():
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    with pytest.raises(ValueError, match=r"compare_speed: results of 'dask' may not be there .* pass wait="):
        compare_speed(lambda x: x, {"dask": [da.from_array(X)]})


def test_a_plot_has_a_row_for_every_name():
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed").Figure()
    axes = figure.subplots()
    sa.testing.Speeds({"a": [1.0, 2.0, 3.0], "b": [4.0]}).plot(axes)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert len(axes.containers) == 2
