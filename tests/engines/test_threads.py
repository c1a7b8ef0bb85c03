"""Threads that share the copies of large NumPy arrays: how many, what they run, and that nothing gets lost."""

import ctypes
import gc
import os
import random
import re
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray._engines import threads as hostthreads
from tests import processes

#: Seconds after which a test fails instead of waiting for ever.
PATIENCE = 30

run_python = partial(processes.run_python, patience=PATIENCE)
output_of = partial(processes.output_of, patience=PATIENCE)

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot place threads")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """The workers, none at first."""
    started: dict[int, Any] = {}
    monkeypatch.setattr(hostthreads, "_workers", started)
    return started


@pytest.fixture
def threads_before() -> Iterator[int]:
    """The number of threads, which is set again after the test."""
    before = sa.get_num_threads()
    yield before
    sa.set_num_threads(before)


def wait_for(event: threading.Event) -> None:
    assert event.wait(PATIENCE)


def meet(barrier: threading.Barrier) -> int:
    """Wait for the jobs in all other threads; the thread in which that was."""
    barrier.wait(PATIENCE)
    return threading.get_native_id()


def threads_of(count: int) -> list[int]:
    """Have as many jobs run at the same time; the threads that they ran in."""
    barrier, threads = threading.Barrier(count), [0] * count

    def job(index: int) -> None:
        threads[index] = meet(barrier)

    hostthreads.share([partial(job, index) for index in range(count)])
    return threads


@pytest.fixture
def keep_busy() -> Iterator[Callable[[int], None]]:
    """Makes the first workers busy until the test ends."""
    release, callers = threading.Event(), []

    def keep_busy(count: int) -> None:
        begun = threading.Barrier(count + 1)

        def job() -> None:
            meet(begun)
            wait_for(release)

        caller = threading.Thread(target=hostthreads.share, args=([begun_by_caller(begun)] + [job] * count,))
        caller.start()
        callers.append(caller)
        # The job of this caller has ended, so all others have begun.
        wait_for(idle)

    idle = threading.Event()

    def begun_by_caller(begun: threading.Barrier) -> Callable[[], None]:
        def job() -> None:
            meet(begun)
            idle.set()

        return job

    yield keep_busy
    release.set()
    for caller in callers:
        caller.join(PATIENCE)
        assert not caller.is_alive()


# How many threads.


@pytest.fixture
def threads_by_default(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None, str | None], int]:
    """How many threads a process uses that may run on so many processors, of which its control group says this.

    None: the system does not tell.
    """

    def threads_by_default(processors: int | None, quota: str | None) -> int:
        def read(path: Path, *arguments: Any, **keywords: Any) -> str:
            if str(path) != "/sys/fs/cgroup/cpu.max" or quota is None:
                raise FileNotFoundError(path)
            return quota

        with monkeypatch.context() as patched:
            patched.delenv("SEQARRAY_NUM_THREADS", raising=False)
            patched.setattr(Path, "read_text", read)
            if processors is None:
                patched.delattr(os, "sched_getaffinity", raising=False)
                patched.setattr(os, "cpu_count", lambda: None)
            else:
                allowed = set(range(10, 10 + processors))
                patched.setattr(os, "sched_getaffinity", lambda process: allowed, raising=False)
            return hostthreads._default_threads()

    return threads_by_default


@pytest.mark.parametrize(
    ("processors", "quota", "expected"),
    [
        (1, "max 100000\n", 1),
        (2, "max 100000\n", 2),
        (3, "max 100000\n", 3),
        (64, "max 100000\n", 4),
        (64, "200000 100000\n", 2),
        (64, "100000 100000\n", 1),
        (64, "10000 100000\n", 1),
        (64, "10000000 100000\n", 4),
        (2, "300000 100000\n", 2),
    ],
)
def test_the_default_respects_affinity_and_quota(threads_by_default, processors, quota, expected):
    assert threads_by_default(processors, quota) == expected


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000\n", 4), ("200000 100000\n", 2), ("50000 100000\n", 1), ("unreadable", 4), (None, 4)],
)
def test_the_quota_is_that_of_the_control_group(threads_by_default, quota, expected):
    assert threads_by_default(64, quota) == expected


def test_a_system_that_does_not_know_its_processors_uses_one_thread(threads_by_default):
    assert threads_by_default(None, None) == 1


@needs_affinity
def test_a_process_on_one_processor_uses_one_thread():
    script = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import seqarray as sa
print(sa.get_num_threads())
"""
    assert output_of(script) == "1"


def test_the_environment_sets_the_number():
    # More than the processors and more than the default would ever be: it is what the user said.
    script = "import seqarray as sa; print(sa.get_num_threads())"
    assert output_of(script, SEQARRAY_NUM_THREADS="17") == "17"


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "²"])
def test_a_number_in_the_environment_that_is_none_is_refused(monkeypatch, value):
    monkeypatch.setenv("SEQARRAY_NUM_THREADS", value)
    message = f"SEQARRAY_NUM_THREADS is {value!r}; expected a number of threads"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        hostthreads._default_threads()


def test_the_package_cannot_be_imported_with_such_a_number():
    done = run_python("import seqarray", SEQARRAY_NUM_THREADS="two")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ValueError: SEQARRAY_NUM_THREADS is 'two'")


def test_the_number_can_be_set(threads_before):
    for count in (1, 2, 100):
        sa.set_num_threads(count)
        assert sa.get_num_threads() == count
        assert hostthreads.usable_threads() == count


@pytest.mark.parametrize(
    ("count", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (1.0, TypeError),
        ("2", TypeError),
        (None, TypeError),
        (True, TypeError),
        (np.timedelta64(1, "s"), TypeError),
    ],
    ids=repr,
)
def test_a_number_that_is_none_is_refused(threads_before, count, error):
    with pytest.raises(error, match=r"^set_num_threads: n is "):
        sa.set_num_threads(count)
    assert sa.get_num_threads() == threads_before


@pytest.mark.parametrize(
    "name", ["Dask-Default-Threads-1-2", "0-Dask-Default-Threads-4743-0", "ThreadPoolExecutor-0_0"]
)
def test_in_a_thread_of_a_pool_one_thread_is_used(threads_before, name):
    sa.set_num_threads(3)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(hostthreads.usable_threads()), name=name)
    thread.start()
    thread.join(PATIENCE)
    assert seen == [1]
    assert hostthreads.usable_threads() == 3


def test_pools_name_their_threads_so(threads_before):
    sa.set_num_threads(3)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(hostthreads.usable_threads).result(PATIENCE) == 1


def test_dask_names_its_threads_so(threads_before):
    dask = pytest.importorskip("dask")
    sa.set_num_threads(3)
    usable = dask.delayed(hostthreads.usable_threads)
    assert dask.compute(*(usable() for _ in range(4)), scheduler="threads", num_workers=2) == (1, 1, 1, 1)


def test_an_ordinary_thread_may_use_all(threads_before):
    sa.set_num_threads(3)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(hostthreads.usable_threads()))
    thread.start()
    thread.join(PATIENCE)
    assert seen == [3]


# Sharing.


def refuse_to_start(*_: Any) -> int:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_every_job_runs_once(workers, count):
    ran: list[int] = []
    for _ in range(20):
        hostthreads.share([partial(ran.append, index) for index in range(count)])
    assert sorted(ran) == sorted(list(range(count)) * 20)


def test_one_job_needs_no_worker(workers):
    ran: list[int] = []
    hostthreads.share([lambda: ran.append(threading.get_ident())])
    assert ran == [threading.get_ident()]
    assert workers == {}


@pytest.mark.parametrize("count", [2, 3, 5])
def test_jobs_run_at_the_same_time_in_threads_of_their_own(workers, count):
    threads = threads_of(count)
    assert threads[0] == threading.get_native_id()
    assert len(set(threads)) == count
    assert set(threads[1:]) == {worker.native_id for worker in workers.values()}


def test_workers_are_used_again(workers):
    first, second = set(threads_of(3)), set(threads_of(3))
    assert first == second
    assert len(workers) == 2


@pytest.mark.parametrize("count", [2, 3])
def test_the_caller_runs_what_no_worker_has_begun(workers, keep_busy, count):
    keep_busy(count - 1)
    ran: list[int] = []
    hostthreads.share([lambda: ran.append(threading.get_ident())] * count)
    assert ran == [threading.get_ident()] * count


def test_a_worker_lets_go_of_a_job_that_the_caller_has_run(workers):
    release, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        wait_for(release)

    holder = threading.Thread(target=hostthreads.share, args=([partial(wait_for, begun), hold],))
    holder.start()
    wait_for(begun)
    ran: list[str] = []
    hostthreads.share([partial(ran.append, "first"), partial(ran.append, "second")])
    release.set()
    holder.join(PATIENCE)
    # The worker finds the job gone, does not run it again, and takes the next one.
    assert len(set(threads_of(2))) == 2
    assert ran == ["first", "second"]


def test_jobs_are_not_kept(workers):
    class Job:
        def __call__(self) -> None:
            meet(barrier)

    barrier = threading.Barrier(2)
    jobs = [Job(), Job()]
    alive = weakref.WeakSet(jobs)
    hostthreads.share(jobs)
    jobs.clear()
    # A worker reports before it lets go; after another job it has.
    threads_of(2)
    assert len(alive) == 0


def test_more_jobs_than_workers_run_in_the_caller(workers, monkeypatch):
    start = hostthreads._start_thread

    def start_two(*arguments: Any) -> int:
        return refuse_to_start() if len(workers) == 2 else start(*arguments)

    monkeypatch.setattr(hostthreads, "_start_thread", start_two)
    barrier, ran = threading.Barrier(3), []

    def met(index: int) -> None:
        ran.append((index, meet(barrier)))

    def alone(index: int) -> None:
        ran.append((index, threading.get_native_id()))

    hostthreads.share([*(partial(met, index) for index in range(3)), *(partial(alone, index) for index in range(3, 8))])
    threads = dict(ran)
    assert sorted(index for index, _ in ran) == list(range(8))
    assert {threads[index] for index in (0, *range(3, 8))} == {threading.get_native_id()}
    assert len(set(threads.values())) == 3


def test_where_no_thread_can_be_started_the_caller_runs_all(workers, monkeypatch):
    monkeypatch.setattr(hostthreads, "_start_thread", refuse_to_start)
    ran: list[int] = []
    hostthreads.share([lambda: ran.append(threading.get_ident())] * 4)
    assert ran == [threading.get_ident()] * 4
    assert workers == {}


def test_workers_start_once_there_are_threads_again(workers, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(hostthreads, "_start_thread", refuse_to_start)
        hostthreads.share([int, int])
    assert len(set(threads_of(2))) == 2


def test_many_callers_at_once(workers):
    ran: list[tuple[int, int, int]] = []

    def call(caller: int) -> None:
        for turn in range(40):
            hostthreads.share([partial(ran.append, (caller, turn, index)) for index in range(3)])

    callers = [threading.Thread(target=call, args=(caller,)) for caller in range(12)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
        assert not caller.is_alive()
    assert sorted(ran) == [(caller, turn, index) for caller in range(12) for turn in range(40) for index in range(3)]
    assert len(workers) == 2


def test_a_call_returns_after_its_own_jobs_have_ended(workers):
    failures: list[str] = []

    def call() -> None:
        for _ in range(40):
            ended: list[int] = []
            hostthreads.share([partial(ended.append, index) for index in range(3)])
            if sorted(ended) != [0, 1, 2]:
                failures.append(f"{ended} had ended")

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
        assert not caller.is_alive()
    assert failures == []


def test_a_job_may_share_jobs_of_its_own(workers):
    ran: list[int] = []

    def nested() -> None:
        hostthreads.share([partial(ran.append, index) for index in range(3)])

    hostthreads.share([nested, nested])
    assert sorted(ran) == [0, 0, 1, 1, 2, 2]


# Exceptions.


class Failure(BaseException):
    """Not an Exception: whatever is raised has to reach the caller."""


def fail(*_: Any) -> None:
    raise Failure


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_exception_reaches_the_caller_after_all_jobs_have_ended(workers, failing):
    barrier, ended = threading.Barrier(3), []

    def job(index: int) -> None:
        meet(barrier)
        if index == failing:
            raise Failure
        time.sleep(0.02)
        ended.append(index)

    with pytest.raises(Failure):
        hostthreads.share([partial(job, index) for index in range(3)])
    assert sorted(ended) == [index for index in range(3) if index != failing]


@pytest.mark.parametrize("failing", [0, 1])
def test_an_exception_in_a_job_that_the_caller_claims_reaches_it(workers, keep_busy, failing):
    keep_busy(1)
    ran: list[int] = []
    jobs: list[Any] = [partial(ran.append, 0), partial(ran.append, 1)]
    jobs[failing] = fail
    with pytest.raises(Failure):
        hostthreads.share(jobs)
    assert ran == [1 - failing]


def test_an_exception_in_a_job_without_a_worker_reaches_the_caller(workers, monkeypatch):
    monkeypatch.setattr(hostthreads, "_start_thread", refuse_to_start)
    ran: list[int] = []
    with pytest.raises(Failure):
        hostthreads.share([partial(ran.append, 0), fail, partial(ran.append, 2)])
    assert ran == [0, 2]


def test_of_many_exceptions_one_is_raised(workers):
    barrier = threading.Barrier(3)

    def job() -> None:
        meet(barrier)
        raise Failure

    with pytest.raises(Failure):
        hostthreads.share([job] * 3)


def test_workers_survive_exceptions(workers):
    before = threads_of(3)
    barrier = threading.Barrier(3)

    def job() -> None:
        meet(barrier)
        raise Failure

    for _ in range(5):
        with pytest.raises(Failure):
            hostthreads.share([job] * 3)
    assert set(threads_of(3)) == set(before)
    assert len(workers) == 2


def test_a_finished_call_that_failed_keeps_nothing(workers):
    class Held:
        pass

    def job(held: Held) -> None:
        raise Failure

    held = Held()
    alive = weakref.ref(held)
    gc.disable()
    try:
        with pytest.raises(Failure):
            hostthreads.share([job, job], held)
        del held
        threads_of(2)
        assert alive() is None
    finally:
        gc.enable()


# Signals, finalizers and threads that end.


def interrupt(worker: Any) -> None:
    """Raise SystemExit in a worker, as tools that stop threads do, and wait until it has ended."""
    (ident,) = (ident for ident, frame in sys._current_frames().items() if worker in find_self(frame))
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    assert raise_in(ctypes.c_ulong(ident), ctypes.py_object(SystemExit)) == 1
    worker.inbox.put(hostthreads._Sent(int, (), []))
    deadline = time.monotonic() + PATIENCE
    while worker.place in worker.workers and time.monotonic() < deadline:
        time.sleep(0.001)
    assert worker.place not in worker.workers


def find_self(frame: Any) -> list[Any]:
    found = []
    while frame is not None:
        found.append(frame.f_locals.get("self"))
        frame = frame.f_back
    return found


def test_a_worker_that_has_ended_is_replaced(workers):
    before = threads_of(3)
    ended = workers[1]
    interrupt(ended)
    after = threads_of(3)
    assert (after[1], after[2] == before[2]) == (before[1], False)
    assert ended not in workers.values()


def test_what_was_sent_to_a_worker_that_has_ended_runs_and_is_not_kept(workers):
    class Held:
        pass

    threads_of(2)
    ended = workers[0]
    interrupt(ended)
    workers[0] = ended  # as a caller sees it that has looked before
    held = Held()
    alive, ran = weakref.ref(held), []
    hostthreads.share([lambda held: ran.append(1), lambda held: ran.append(2)], held)
    del held
    assert ran == [1, 2]
    assert alive() is None


def test_callers_start_a_worker_together_and_one_of_them_stays(workers, monkeypatch):
    start, barrier = hostthreads._start_thread, threading.Barrier(4)

    def start_together(*arguments: Any) -> int:
        barrier.wait(PATIENCE)
        return start(*arguments)

    monkeypatch.setattr(hostthreads, "_start_thread", start_together)
    ran: list[int] = []
    callers = [
        threading.Thread(target=hostthreads.share, args=([partial(ran.append, 1), partial(ran.append, 2)],))
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
        assert not caller.is_alive()
    assert sorted(ran) == [1] * 4 + [2] * 4
    assert list(workers) == [0]
    monkeypatch.undo()
    assert len(set(threads_of(2))) == 2


@pytest.fixture
def on_alarm() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Has a function called by the handler of a signal, which `signal.setitimer` sends."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("this system has no timers")
    before = signal.getsignal(signal.SIGALRM)

    def on_alarm(call: Callable[[], None]) -> None:
        signal.signal(signal.SIGALRM, lambda *_: call())

    yield on_alarm
    # A signal that has come already needs a handler of Python until it has been handled.
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    time.sleep(1e-3)
    signal.signal(signal.SIGALRM, before)


def test_a_signal_handler_may_share_while_workers_are_started(workers, monkeypatch, on_alarm):
    start, depth, ran = hostthreads._start_thread, [0], []

    def share() -> None:
        hostthreads.share([partial(ran.append, index) for index in range(3)])

    def start_interrupted(*arguments: Any) -> int:
        depth[0] += 1
        if depth[0] < 4:
            signal.raise_signal(signal.SIGALRM)
        started = start(*arguments)
        if depth[0] < 8:
            depth[0] += 1
            signal.raise_signal(signal.SIGALRM)
        return started

    on_alarm(share)
    monkeypatch.setattr(hostthreads, "_start_thread", start_interrupted)
    share()
    assert len(ran) % 3 == 0
    assert len(ran) > 9
    assert sorted(workers) == [0, 1]
    assert len(set(threads_of(3))) == 3


def test_signal_handlers_may_share_at_any_point(workers, on_alarm):
    calls = [0, 0]

    def share(which: int) -> None:
        ran: list[int] = []
        hostthreads.share([partial(ran.append, index) for index in range(4)])
        assert sorted(ran) == [0, 1, 2, 3]
        calls[which] += 1

    on_alarm(partial(share, 1))
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        workers.clear()
        share(0)
    assert min(calls) > 10


def test_an_exception_of_a_signal_handler_is_raised_after_all_jobs_have_ended(workers, on_alarm):
    """At any point: none runs or begins afterwards."""

    class Timeout(BaseException):
        pass

    def time_out() -> None:
        raise Timeout

    on_alarm(time_out)
    chance, interrupted = random.Random(1), 0
    for _ in range(300):
        running: list[int] = []

        def job(running: list[int]) -> None:
            running.append(1)
            time.sleep(5e-4)
            running.append(-1)

        if chance.random() < 0.1:
            workers.clear()
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 1e-3))
            hostthreads.share([job] * 3, running)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Timeout:
            interrupted += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            seen = running.copy()
            time.sleep(1e-3)
            assert running == seen
        # A job of the caller may have been interrupted itself.
        assert sum(running) <= 1
    assert interrupted > 50


@needs_fork
def test_a_child_that_a_signal_handler_forks_has_the_jobs_done():
    script = f"""
import os, signal, threading, time, warnings
from seqarray._engines import threads as hostthreads
warnings.simplefilter("ignore", DeprecationWarning)
begun, children, parent = threading.Event(), [], os.getpid()
def fork(*_):
    children.append(os.fork())
signal.signal(signal.SIGUSR1, fork)
ran = []
def first():
    begun.wait({PATIENCE})
    os.kill(os.getpid(), signal.SIGUSR1)
def second():
    begun.set()
    time.sleep(0.2)
    ran.append(os.getpid())
hostthreads.share([first, second])
assert ran == [os.getpid()]
if os.getpid() != parent:
    os._exit(0)
print(os.waitpid(children[0], 0)[1])
"""
    assert output_of(script) == "0"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_a_result_is_not_written_after_the_call_has_raised():
    script = """
import random, signal, time
import numpy as np
import seqarray as sa
class Timeout(Exception): pass
def time_out(*_): raise Timeout
signal.signal(signal.SIGALRM, time_out)
sa.set_num_threads(2)
n = 4 << 20
parts = [np.ones(n, np.uint8) for _ in range(8)]
out = np.zeros(8 * n, np.uint8)
start = time.perf_counter()
sa.concat_from_sequence(parts, axis=0, out=out)
taken = time.perf_counter() - start
chance, late = random.Random(1), 0
for _ in range(60):
    out[:] = 0
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(taken / 10, taken))
        sa.concat_from_sequence(parts, axis=0, out=out)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Timeout:
        out[:] = 7
        time.sleep(0.01)
        late += bool((out != 7).any())
print(late)
"""
    assert output_of(script) == "0"


# Where threads run.


@needs_affinity
def test_the_affinity_of_the_caller_never_changes(workers):
    allowed = os.sched_getaffinity(0)
    seen = []

    def call() -> None:
        for processor in sorted(allowed):
            # Wherever the caller runs, workers are sent elsewhere.
            os.sched_setaffinity(0, {processor})
            hostthreads.share([int, int, int])
            seen.append(os.sched_getaffinity(0) == {processor})

    caller = threading.Thread(target=call)
    caller.start()
    caller.join(PATIENCE)
    assert seen == [True] * len(allowed)
    hostthreads.share([int, int])
    assert os.sched_getaffinity(0) == allowed


@needs_affinity
def test_workers_stay_on_processors_of_this_process(workers):
    threads_of(3)
    for worker in workers.values():
        assert os.sched_getaffinity(worker.native_id) <= os.sched_getaffinity(0)


@needs_affinity
def test_a_system_that_refuses_to_place_threads_shares_all_the_same(workers, monkeypatch):
    def refuse(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert len(set(threads_of(3))) == 3


def test_a_system_that_cannot_place_threads_shares_all_the_same():
    script = f"""
import os, pathlib, threading
for name in ("sched_setaffinity", "sched_getaffinity"):
    os.__dict__.pop(name, None)
os.cpu_count = lambda: 3
def read(path, *arguments, **keywords):
    raise FileNotFoundError(path)
pathlib.Path.read_text = read
import seqarray as sa
from seqarray._engines import threads as engine_threads
barrier, seen = threading.Barrier(3), set()
def job():
    barrier.wait({PATIENCE})
    seen.add(threading.get_ident())
engine_threads.share([job] * 3)
print(sa.get_num_threads(), len(seen))
"""
    assert output_of(script) == "3 3"
