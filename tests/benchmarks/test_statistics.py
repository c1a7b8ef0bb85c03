"""Statistics of times: quartiles, ratios, predictions."""

import pytest

from benchmarks import measure


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
