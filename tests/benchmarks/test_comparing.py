"""The comparison of two results."""

import pytest

from benchmarks.comparing import Change, changes, warnings
from tests.benchmarks.helpers import entry, record, result_of


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        pytest.param((0.9, 1.0, 1.1), (1.2, 1.3, 1.4), "slower", id="slower"),
        pytest.param((0.9, 1.0, 9.0), (1.2, 8.27, 9.4), "unclear", id="8-times-slower-but-ranges-overlap"),
        pytest.param((1.2, 1.3, 1.4), (0.9, 1.0, 1.1), "faster", id="faster"),
        pytest.param((0.9, 1.0, 1.25), (1.2, 1.3, 1.4), "unclear", id="slower-but-ranges-overlap"),
        pytest.param((1.2, 1.3, 1.4), (0.9, 1.0, 1.25), "unclear", id="faster-but-ranges-overlap"),
        pytest.param((0.9, 1.0, 1.2), (1.2, 1.3, 1.4), "unclear", id="ranges-touch"),
        pytest.param((0.99, 1.0, 1.01), (1.03, 1.04, 1.05), "same", id="apart-but-4-percent-slower"),
        pytest.param((0.99, 1.0, 1.01), (0.95, 0.96, 0.97), "same", id="apart-but-4-percent-faster"),
        pytest.param((0.99, 1.0, 1.01), (1.05, 1.06, 1.07), "slower", id="apart-and-6-percent-slower"),
    ],
)
def test_verdict(old, new, verdict):
    assert Change("case", "size", "numpy", "numpy", old, new).verdict() == verdict


@pytest.mark.parametrize(("threshold", "verdict"), [(0.25, "slower"), (0.35, "same")])
def test_verdict_with_another_threshold(threshold, verdict):
    change = Change("case", "size", "numpy", "numpy", (0.9, 1.0, 1.1), (1.2, 1.3, 1.4))
    assert change.verdict(threshold) == verdict


def test_compare_uses_the_fastest_peer_of_the_old_result():
    (change,) = changes(result_of(entry()), result_of(entry()))
    assert (change.case, change.size, change.backend) == ("concat-axis0", "3 x (64, 64)", "numpy")
    assert (change.peer, change.old, change.new, change.verdict()) == (
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


def test_compare_names_what_only_one_of_the_results_has():
    join = {"seqarray": record(1.0), "seqarray, list": record(1.0), "numpy": record(2.0)}
    old = result_of(entry("concat", contenders=join), entry("at"))
    now = {"seqarray, list": record(1.0), "seqarray, construct + join": record(1.0), "numpy": record(2.0)}
    new = result_of(entry("concat", contenders=now), entry("window"))
    assert warnings(old, new)[-2:] == [
        "gone, only the old result has them: concat (seqarray), at (seqarray)",
        "new, only the new result has them: concat (seqarray, construct + join), window (seqarray)",
    ]
    assert [change.case for change in changes(old, new)] == ["concat, list"]
    assert warnings(new, new) == []


def ratio_of(*rounds):
    """Make contenders of which seqarray takes this many times as long as numpy."""
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
        ((0.5, 1.5, 2.5), 0, "unclear"),
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


def test_compare_takes_a_threshold_in_percent(command, saved):
    old = saved("old.json", entry(contenders=ratio_of(0.9, 1.0, 1.1)))
    new = saved("new.json", entry(contenders=ratio_of(1.5, 1.6, 1.7)))
    assert command("compare", old, new, "--threshold", "59")[0] == 1
    assert command("compare", old, new, "--threshold", "61")[0] == 0
    for wrong in ("0", "-5", "nan", "inf", "much"):
        status, text = command("compare", old, new, "--threshold", wrong)
        assert status == 2
        assert "--threshold" in text


@pytest.mark.parametrize(
    ("commands", "told"),
    [(("run", "run"), []), (("run --quick", "run"), ["one of the runs was quick"]), (("run --quick",) * 2, ["both"])],
    ids=["none", "one", "both"],
)
def test_compare_says_which_runs_were_quick(commands, told):
    old, new = (result_of(entry(), command=f"python -m benchmarks {command}") for command in commands)
    found = warnings(old, new)
    assert len(found) == len(told)
    assert all(words in text for words, text in zip(told, found, strict=True))


def test_compare_says_where_the_machine_was_busy():
    idle, busy = (result_of(entry(), load_average=load) for load in (0.4, 9.8))
    assert warnings(idle, idle) == []
    assert warnings(idle, busy) == ["the new run began at a load average of 9.8 on 2 processors"]


def test_compare_of_nothing_in_common_is_2(command, saved):
    old, new = saved("old.json", entry("one")), saved("new.json", entry("another"))
    status, text = command("compare", old, new)
    assert status == 2
    assert "no case in common" in text


@pytest.mark.parametrize("ours", ["seqarray", "seqarray, list"])
def test_compare_does_not_pass_over_a_case_that_no_longer_works(command, saved, ours):
    broken = {**ratio_of(1.0, 1.0), ours: {"recycled": False, "error": "ValueError: wrong answer"}}
    old = saved("old.json", entry("broken", contenders=ratio_of(1.0, 1.0)), entry("steady"))
    new = saved("new.json", entry("broken", contenders=broken), entry("steady"))
    status, text = command("compare", old, new)
    assert status != 0
    assert f"broken, 3 x (64, 64): {ours} fails: ValueError: wrong answer" in text
