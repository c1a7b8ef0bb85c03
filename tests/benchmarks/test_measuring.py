"""The order of measuring: turns, pauses, and waits for threads of other libraries."""

from functools import partial
from itertools import cycle, repeat

import pytest

from benchmarks import measure
from benchmarks.measure import Contender
from tests.benchmarks.helpers import Clock


def noting(name, events, sets=None):
    """Make a contender that notes its name and the input set at every call."""
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


def events_of(function, spins, *, rounds=1, **options):
    """Record what happens while contenders take turns: waits, calls by the letters of contenders, readings of time."""
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
