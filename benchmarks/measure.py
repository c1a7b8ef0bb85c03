"""Timing of contenders against each other in one process, and its statistics.

Shared machines drift, by a factor of two within seconds.  So all contenders of a case take turns, round by round, and
what is compared are ratios within a round: a drift hits both sides of them.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from math import log
from typing import Any

Clock = Callable[[], float]
Work = Callable[[], Any]

#: A single call longer than this is measured once.
ONCE_SECONDS = 2.0
#: A call that is predicted to take longer than this is left out.
LEFT_OUT_SECONDS = 10.0
#: A turn lasts this long at least, however little time there is: one short call depends on what ran before it.
TURN_SECONDS = 0.001
#: The same for a turn on one input by work that threads share: the first calls of a turn wake them.
HOT_TURN_SECONDS = 0.015
#: Threads of another library are given this long to end their spinning: measured after a call of 1 ms on two
#: processors, torch's (libgomp) spin for 6 ms and onnxruntime's for 30 ms.
SETTLE_SECONDS = 0.05
#: Calls, and about how long, until inputs and results of some 50 MB are back in a last-level cache that the others have
#: filled: measured there, the first call takes 2.4 times as long as later ones, the fourth 1.5 times.
WARM_CALLS, WARM_SECONDS = 5, 0.015


class ContenderError(Exception):
    """The error of a contender, with its name."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(name)
        self.name = name
        self.text = f"{type(error).__name__}: {error}".splitlines()[0]


@dataclass
class Contender:
    """One way to do the work of a case.

    Attributes
    ----------
    name : str
        What the tables call it.
    works : sequence of callable
        For each input set, what does the work on it and returns the result.
    finish : callable or None
        Waits until a result is there; None where there is nothing to wait for.
    sets : iterator of int
        The input sets in turn.  Contenders share it: what one of them has just brought into the cache is not what the
        next one reads.
    device_seconds : callable or None
        Time that a device was busy with a call of a function, for contenders that run on one.
    spins : str
        The library whose threads spin for a while after a call, and keep a processor busy; "" if none do.
    """

    name: str
    works: Sequence[Work]
    finish: Callable[[Any], None] | None = None
    sets: Iterator[int] = field(default_factory=lambda: repeat(0))
    device_seconds: Callable[[Callable[[], Any]], float] | None = None
    spins: str = ""

    def once(self, *, hot: bool = False) -> None:
        """Do the work and wait for it: on the next input set in turn, or always on the first one."""
        self.run([self.works[0 if hot else next(self.sets)]])

    def run(self, works: Iterable[Work]) -> None:
        """Call all of these, with as little around them as timeit has."""
        finish = self.finish
        try:
            if finish is None:
                for work in works:
                    work()
            else:
                for work in works:
                    finish(work())
        except Exception as error:
            raise ContenderError(self.name, error) from error

    def warm_up(self, clock: Clock) -> None:
        """Call it until its caches and threads are what they are in a program of its own; nothing is timed."""
        end = clock() + WARM_SECONDS
        for _ in range(WARM_CALLS):
            self.once(hot=True)
            if clock() > end:
                break


def seconds_per_call(contender: Contender, calls: int, *, hot: bool, clock: Clock = time.perf_counter) -> float:
    """Return the mean time of one call in one round of `calls` calls.

    As in timeit, no garbage is collected meanwhile: what that takes depends on all that other libraries have made.
    """
    collects = gc.isenabled()
    works = [contender.works[0 if hot else next(contender.sets)] for _ in range(calls)]
    gc.disable()
    try:
        start = clock()
        contender.run(works)
        return (clock() - start) / calls
    finally:
        if collects:
            gc.enable()


def warm_up_seconds(one_call: float) -> float:
    """Estimate how long a contender takes to warm up."""
    return min(WARM_CALLS * one_call, WARM_SECONDS + one_call)


def calls_for(seconds: float, one_call: float) -> int:
    """Return the number of calls that make a round of about `seconds`."""
    return max(1, min(100_000, round(seconds / max(one_call, 1e-9))))


def interleaved(
    contenders: Sequence[Contender],
    calls: dict[str, int],
    rounds: dict[str, int],
    *,
    hot: bool = False,
    settle: bool = False,
    clock: Clock = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, list[float]]:
    """Time every contender, and return its time per call in each of its rounds.

    Within a round all contenders take turns; the first one is another in each round, so that none always runs after
    the same neighbour.  With `hot`, every turn begins with calls that are not timed.  With `settle`, none runs beside
    threads of another library that still spin, and every turn begins with a call that is not timed: whether memory that
    is used again is in the cache depends on which contender ran before.
    """
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    settler = _Settler(contenders if settle else (), sleep)
    for number in range(max(rounds.values())):
        shift = number % len(contenders)
        for contender in (*contenders[shift:], *contenders[:shift]):
            if number >= rounds[contender.name]:
                continue
            settler.wait_before(contender)
            if hot:
                contender.warm_up(clock)
            elif settle:
                contender.once()
            times[contender.name].append(seconds_per_call(contender, calls[contender.name], hot=hot, clock=clock))
    return times


def after_pauses(
    contenders: Sequence[Contender],
    pause: float,
    rounds: dict[str, int],
    *,
    settle: bool = False,
    clock: Clock = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, list[float]]:
    """Time single calls on one input, each after a pause: a hot loop hides the cost of waking a thread."""
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    settler = _Settler(contenders if settle else (), sleep)
    for number in range(max(rounds.values())):
        for contender in contenders:
            if number >= rounds[contender.name]:
                continue
            settler.wait_before(contender)
            contender.warm_up(clock)  # so that the caches hold what its own calls have left before the pause
            sleep(pause)
            times[contender.name].append(seconds_per_call(contender, 1, hot=True, clock=clock))
    return times


class _Settler:
    """Waits before the turn of a contender until threads of other libraries have come to rest."""

    def __init__(self, contenders: Sequence[Contender], sleep: Callable[[float], None]) -> None:
        self.sleep = sleep
        self.settles = bool(contenders)
        # Any of them may have run before the first turn.
        self.spinning = {contender.spins for contender in contenders} - {""}

    def wait_before(self, contender: Contender) -> None:
        """Wait if need be."""
        if self.settles and self.spinning - {contender.spins}:
            self.sleep(SETTLE_SECONDS)
        self.spinning = {contender.spins} - {""}


def settling(spins: Sequence[str]) -> list[int]:
    """Return which contenders wait for another library's threads in each round, given whose threads spin after each."""
    return [i for i, own in enumerate(spins) if spins[i - 1] not in ("", own)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return first quartile, median and third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    lower, middle, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, middle, upper


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Divide our time by theirs, round by round, as far as both went; below 1 we are faster."""
    return [a / b for a, b in zip(ours, theirs, strict=False)]


def predicted(history: Sequence[tuple[float, float]], work: float) -> float:
    """Predict the time of a call at an amount of work, from (work, seconds) of smaller ones.

    The last two give the power by which time grows, from linear to quadratic: one call that a busy machine has held up
    must not look like more.  One alone is taken as linear.
    """
    if not history:
        return 0.0
    (last_work, last), *_ = reversed(history)
    power = 1.0
    if len(history) > 1:
        before_work, before = history[-2]
        if last_work != before_work:
            power = min(2.0, max(1.0, log(last / before) / log(last_work / before_work)))
    return last * (work / last_work) ** power
