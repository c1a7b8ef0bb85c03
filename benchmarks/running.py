"""Running of the cases: which contenders, in what order, for how long, and what is kept."""

from __future__ import annotations

import fnmatch
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

import seqarray as sa
from benchmarks import libraries, machine, measure
from benchmarks.cases import CASES, Case
from benchmarks.libraries import BACKENDS, PEERS
from benchmarks.libraries.base import Library
from benchmarks.libraries.memcpy import limits
from benchmarks.libraries.numpy import NumPy
from benchmarks.libraries.seqarray import ways
from benchmarks.measure import Contender

#: Input sets of a case, at most: more would only take longer to make.
MOST_SETS = 64
MOST_PIECES = 40_000

#: Above this size of a result, the cost of waking a thread is too small a part of the time to show.
PAUSED_BELOW = 64 << 20

#: From this size of a result on, the machine's limit is measured: below it, the calls would be and not the copies.
LIMITS_FROM = 1 << 20

#: Bytes of a result for every second of a call, as a guess before it is known.
SLOW = 4e9

#: More arrays than this of the same shapes are joined and compared at once, which is quicker.
MOST_COMPARED_SINGLY = 1_000

#: A program does something else between two calls, and threads and processors go to sleep meanwhile.
PAUSES = {"pause 2 ms": 0.002, "pause 50 ms": 0.050}


@dataclass(frozen=True)
class Plan:
    """How much time there is, and how it is used."""

    seconds: float = 420.0
    rounds: int = 11
    hot_rounds: int = 7
    #: Even where time is short; 3 where a call takes over a quarter of a second.
    least_rounds: int = 5
    pauses: bool = True
    #: No task takes longer, even if there is time.
    task_seconds: float = 15.0
    #: A single call longer than this is measured once.
    once: float = measure.ONCE_SECONDS
    #: Bytes of inputs to rotate through.
    rotation: int = machine.last_level_cache() * 5 // 4

    def pauses_for(self, task: Task) -> dict[str, float]:
        """Return the pauses after which a task is timed too."""
        threads = task.case.threads and BACKENDS[task.backend].threaded_copies
        paused = self.pauses and task.case.paused and threads and task.amounts[1] < PAUSED_BELOW
        return PAUSES if paused else {}

    def rounds_of(self, task: Task) -> int:
        """Count the rounds of a task, all ways of timing it together."""
        return self.rounds * (1 + len(self.pauses_for(task))) + self.hot_rounds

    def untimed_seconds(self, task: Task, spins: Sequence[str], one_calls: Sequence[float]) -> float:
        """Return the time of pauses, waits and untimed calls, from the time of one call of each contender."""
        pauses = self.pauses_for(task)
        warm_rounds = self.rounds * len(pauses) + self.hot_rounds
        seconds = sum(map(measure.warm_up_seconds, one_calls)) * warm_rounds
        seconds += sum(pauses.values()) * self.rounds * len(one_calls)
        if task.case.threads:
            seconds += len(measure.settling(spins)) * measure.SETTLE_SECONDS * self.rounds_of(task)
            seconds += sum(one_calls) * self.rounds
        return seconds


QUICK = Plan(
    seconds=14.0, rounds=5, hot_rounds=3, least_rounds=3, pauses=False, task_seconds=1.0, once=0.3, rotation=64 << 20
)


@dataclass(frozen=True)
class Task:
    """One case at one size on one backend."""

    case: Case
    size: str
    backend: str
    dtype: str = "float32"

    @property
    def amounts(self) -> tuple[int, int]:
        """Return pieces, and bytes of new memory in the result."""
        pieces, nbytes = self.case.amounts[self.size]
        return pieces, nbytes * np.dtype(self.dtype).itemsize // 4

    def arguments(self, rng: np.random.Generator) -> tuple[Any, ...]:
        """Make inputs; the float32 of the cases become what was asked for."""
        return tuple(_cast(argument, self.dtype) for argument in self.case.sizes[self.size](rng))

    @property
    def work(self) -> int:
        """Return what time grows with: bytes, or pieces where all sizes have the same bytes or hardly any."""
        pieces, nbytes = self.case.amounts[self.size]
        same_bytes = len({size for _, size in self.case.amounts.values()}) == 1
        return pieces if same_bytes else max(nbytes, pieces)


class Reporter:
    """Receives the events of a run; the command line shows them as a progress bar."""

    def start(self, tasks: int) -> None:
        """Receive the number of tasks."""

    def task(self, task: Task) -> None:
        """Receive a task that begins."""

    def done(self) -> None:
        """Receive the end of a task."""

    def message(self, text: str) -> None:
        """Receive a line for the user."""


def _cast(argument: Any, dtype: str) -> Any:
    if isinstance(argument, list):
        return [_cast(item, dtype) for item in argument]
    floats = isinstance(argument, np.ndarray) and argument.dtype == np.float32 and dtype != "float32"
    return (argument * 100).astype(dtype) if floats else argument


def tasks(pattern: str, backends: Sequence[str], *, quick: bool, dtype: str = "float32") -> list[Task]:
    """Return the tasks of the cases that match a pattern, on arrays that can be of a dtype."""
    chosen = []
    if dtype != "float32":
        backends = [name for name in backends if BACKENDS[name].holds(np.dtype(dtype))]
    for case in CASES:
        if case.work == "model" and dtype != "float32":
            continue  # the models declare it
        if not any(fnmatch.fnmatch(case.name, one.strip()) for one in pattern.split(",")):
            continue
        for size in case.sizes:
            if quick and size not in case.quick:
                continue
            for backend in backends:
                on_gpu_only = size in case.gpu_sizes and backend != "cupy"
                if case.runs_on(backend) and not on_gpu_only:
                    chosen.append(Task(case, size, backend, dtype))
    return chosen


def run(
    chosen: Sequence[Task], peers: Sequence[str], plan: Plan, command: list[str], reporter: Reporter
) -> dict[str, Any]:
    """Run all tasks.  Ctrl-C ends the run; what was measured is kept.

    Returns
    -------
    dict
        What the JSON file holds: a description of the machine, and one entry for every task.
    """
    results: list[dict[str, Any]] = []
    history: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    interrupted = False
    load = machine.load_average()
    reporter.start(len(chosen))
    end = time.monotonic() + plan.seconds
    try:
        gc.freeze()  # all that was imported: each collection would walk through it
        needs = [_needs(task, peers, plan) for task in chosen]
        for number, task in enumerate(chosen):
            reporter.task(task)
            waiting, shares = (sum(column) for column in zip(*needs[number:], strict=True))
            wait, share = needs[number]
            own = (end - time.monotonic() - waiting) * share / shares
            results.append(_entry(task, peers, plan, wait + min(plan.task_seconds, max(0.1, own)), history, reporter))
            reporter.done()
            gc.collect()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        gc.unfreeze()
    described = machine.description(command, libraries.packages(), libraries.thread_counts())
    described["load_average"] = load
    return {"machine": described, "interrupted": interrupted, "results": results}


def _needs(task: Task, peers: Sequence[str], plan: Plan) -> tuple[float, float]:
    """Return the seconds of a task that are not timed, and its share of the rest: turns of contenders and inputs."""
    able = [library for library in libraries_for(task, peers) if library.does(task.case.work)]
    one_call = task.amounts[1] / SLOW
    untimed = plan.untimed_seconds(task, [library.spins for library in able], [one_call] * len(able))
    return untimed, (1 + len(able)) * plan.rounds_of(task)


def _entry(
    task: Task,
    peers: Sequence[str],
    plan: Plan,
    budget: float,
    history: dict[tuple[str, str, str], list[tuple[float, float]]],
    reporter: Reporter,
) -> dict[str, Any]:
    pieces, nbytes = task.amounts
    entry: dict[str, Any] = {
        "case": task.case.name,
        "title": task.case.title,
        "size": task.size,
        "backend": task.backend,
        "pieces": pieces,
        "bytes": nbytes,
        "contenders": {},
    }
    # Inputs, a result of every contender, and the same again to compare them.
    need = 12 * nbytes
    if need > machine.available_memory():
        entry["skipped"] = f"needs about {need >> 20} MiB of memory; {machine.available_memory() >> 20} MiB are free"
        reporter.message(f"{task.case.name} {task.size}: {entry['skipped']}")
        return entry
    most = BACKENDS[task.backend].most_pieces
    if pieces > most:
        entry["skipped"] = f"more than {most} pieces take {task.backend} minutes to prepare"
        return entry
    measured = _Task(task, entry, budget, plan)
    measured.prepare(libraries_for(task, peers), history, reporter)
    measured.time()
    for contender in measured.contenders:
        key = (task.case.name, task.backend, contender.name)
        history.setdefault(key, []).append((task.work, measured.one_call[contender.name]))
    return entry


def libraries_for(task: Task, peers: Sequence[str]) -> Iterator[Library]:
    """Make everything that may be timed on a task, seqarray first."""
    yield from ways(BACKENDS[task.backend])
    for name, peer in PEERS[task.backend].items():
        if (name not in peers and name != task.backend) or peer.missing():
            continue
        if task.dtype == "float32" or peer.holds(np.dtype(task.dtype)):
            yield peer
    if task.amounts[1] >= LIMITS_FROM:
        yield from limits(task.backend)


class _Task:
    """The contenders of one task, checked and timed."""

    def __init__(self, task: Task, entry: dict[str, Any], budget: float, plan: Plan) -> None:
        self.task = task
        self.entry = entry
        self.plan = plan
        self.deadline = time.monotonic() + budget
        self.contenders: list[Contender] = []
        self.one_call: dict[str, float] = {}

    def prepare(
        self,
        candidates: Iterator[Library],
        history: dict[tuple[str, str, str], list[tuple[float, float]]],
        reporter: Reporter,
    ) -> None:
        """Make the inputs; keep the contenders that give the right answer in time."""
        task, self.reporter = self.task, reporter
        rng = np.random.default_rng(0)
        arguments = [task.arguments(rng) for _ in range(self._set_count())]
        work = getattr(NumPy(), task.case.work)(*arguments[0])
        expected = NumPy().host(work()) if work is not None else arguments[0][0]
        sets = cycle(range(len(arguments)))
        # These results lie in memory that is given, or in that of the input.
        makes_memory = task.case.work not in ("concat_out", "split_views", "unpack", "pack")
        for library in candidates:
            recycled = makes_memory and library.recycles_at(task.amounts[1])
            record: dict[str, Any] = {"recycled": recycled}
            estimate = measure.predicted(history.get((task.case.name, task.backend, library.name), []), task.work)
            if estimate > measure.LEFT_OUT_SECONDS:
                record["left_out"] = f"predicted to take {estimate:.0f} s a call"
                self.entry["contenders"][library.name] = record
                reporter.message(f"{task.case.name} {task.size}: {library.name} is left out: {record['left_out']}")
                continue
            try:
                works = [getattr(library, task.case.work)(*one) for one in arguments]
                if works[0] is None:
                    continue
                finish = library.finish if library.asynchronous else None
                contender = Contender(library.name, works, finish, sets, library.device_seconds, library.spins)
                self._check(contender, library, expected, record)
            except measure.ContenderError as failed:
                record["error"] = failed.text
                reporter.message(f"{task.case.name} {task.size}: {library.name}: {record['error']}")
            except Exception as error:  # one contender that fails must not end the others
                record["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
                reporter.message(f"{task.case.name} {task.size}: {library.name}: {record['error']}")
            else:
                self.contenders.append(contender)
            self.entry["contenders"][library.name] = record

    def _set_count(self) -> int:
        """Count the input sets that are together larger than the last-level cache, where memory allows."""
        if not BACKENDS[self.task.backend].rotates:
            return 1
        pieces, nbytes = self.task.amounts
        wanted = -(-self.plan.rotation // max(nbytes, 1))
        # One set is shared by all libraries, one by the machine's limits; results of some lie in memory of their own.
        allowed = machine.available_memory() // max(nbytes, 1) // 8
        return max(1, min(wanted, allowed, MOST_SETS, MOST_PIECES // pieces))

    def _check(self, contender: Contender, library: Library, expected: Any, record: dict[str, Any]) -> None:
        """Make the first call: its time is kept, and its answer must be right."""
        sa.host_pool.free_all_blocks()
        start = time.perf_counter()
        result = contender.works[0]()
        library.finish(result)
        record["first_call"] = time.perf_counter() - start
        if not library.limit and not _same(library.host(result), expected):
            raise ValueError("wrong answer")
        one_call = record["first_call"]
        # It may have compiled, and threads may have had to wake.
        for _ in range(3 if one_call < 0.1 else one_call < measure.ONCE_SECONDS or library.compiles):
            one_call = min(one_call, measure.seconds_per_call(contender, 1, hot=True))
        self.one_call[contender.name] = one_call

    def time(self) -> None:
        """Time the contenders in turn, as long as the budget lasts."""
        contenders, records = self.contenders, self.entry["contenders"]
        for contender in [c for c in contenders if self.one_call[c.name] > self.plan.once]:
            records[contender.name].update(once=True, rotating=[_rounded(self.one_call[contender.name])])
            contenders = [c for c in contenders if c is not contender]
        if not contenders:
            return
        plan, settle = self.plan, self.task.case.threads
        pauses = plan.pauses_for(self.task)
        one_calls = [self.one_call[c.name] for c in contenders]
        untimed = plan.untimed_seconds(self.task, [c.spins for c in contenders], one_calls)
        left = max(0.0, self.deadline - time.monotonic() - untimed)
        per_round = left * (0.7 if pauses else 0.9) / (plan.rounds + plan.hot_rounds) / len(contenders)
        turn = max(per_round, measure.TURN_SECONDS)
        calls = {c.name: measure.calls_for(turn, self.one_call[c.name]) for c in contenders}
        hot_turn = max(turn, measure.HOT_TURN_SECONDS) if settle else turn
        hot_calls = {c.name: measure.calls_for(hot_turn, self.one_call[c.name]) for c in contenders}
        rounds = {
            c.name: max(
                plan.least_rounds if self.one_call[c.name] <= 0.25 else 3,
                min(plan.rounds, int(per_round * plan.rounds / self.one_call[c.name])),
            )
            for c in contenders
        }
        hot_rounds = {name: min(count, plan.hot_rounds) for name, count in rounds.items()}
        phases: dict[str, Callable[[], dict[str, list[float]]]] = {
            "rotating": lambda: measure.interleaved(contenders, calls, rounds, settle=settle),
            "hot": lambda: measure.interleaved(contenders, hot_calls, hot_rounds, hot=True, settle=settle),
        }
        for name, pause in pauses.items():
            phases[name] = partial(lambda pause: measure.after_pauses(contenders, pause, rounds, settle=settle), pause)
        for mode, phase in phases.items():
            while contenders:
                try:
                    self._keep(mode, phase())
                    break
                except measure.ContenderError as failed:
                    record = records[failed.name]
                    for kept in phases:
                        record.pop(kept, None)
                    record["error"] = failed.text
                    self.reporter.message(f"{self.task.case.name} {self.task.size}: {failed.name}: {failed.text}")
                    contenders = [c for c in contenders if c.name != failed.name]
        for contender in contenders:
            if contender.device_seconds is not None:
                busy = contender.device_seconds(contender.works[0])
                if busy is not None:
                    records[contender.name]["device"] = _rounded(busy)

    def _keep(self, mode: str, times: dict[str, list[float]]) -> None:
        for name, values in times.items():
            self.entry["contenders"][name][mode] = [_rounded(value) for value in values]


def _same(actual: Any, expected: Any) -> bool:
    """Compare number, shape, dtype and every value."""
    if isinstance(expected, list):
        if len(actual) != len(expected):
            return False
        shapes = [[(a.shape, a.dtype) for a in arrays] for arrays in (actual, expected)]
        if len(expected) > MOST_COMPARED_SINGLY and shapes[0] == shapes[1]:
            return _same(*(np.concatenate([a.reshape(-1) for a in arrays]) for arrays in (actual, expected)))
        return all(map(_same, actual, expected))
    return bool(actual.dtype == expected.dtype and np.array_equal(actual, expected))


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.5g}")
