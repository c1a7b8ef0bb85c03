"""Sharing the copies of large NumPy arrays among a few threads.

NumPy releases the GIL while it copies an array, so threads copy in parallel if they run on different processors.  In a
virtual machine, a woken thread is often scheduled on the processor of the thread that woke it, and waits until that one
has finished.  So the affinity of workers excludes the processor of the caller, where the system supports that.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from seqarray._arguments import is_integer
from seqarray._engines import limits

Job = Callable[..., object]

_new_lock = _thread.allocate_lock
_start_thread = _thread.start_new_thread
_native_id = getattr(threading, "get_native_id", int)

#: The default maximum: this many threads saturate the memory bandwidth of most machines.
MOST_THREADS = 4
#: The largest number that `set_num_threads` accepts.
ALLOWED_THREADS = 256
#: Seconds after which a caller that waits for a worker looks whether it is in a forked child, which has none.
_LOOK_FOR_FORK = 1.0


class _Sent:
    """A job sent to a worker.  Worker and caller both try to claim it, and the one who succeeds runs it.

    Everything here can be repeated after an exception at any point, such as one that a signal handler raises.
    """

    __slots__ = ("arguments", "claims", "done", "errors", "finished", "job")

    def __init__(self, job: Job, arguments: tuple[Any, ...], errors: list[BaseException]) -> None:
        self.job = job
        self.arguments = arguments
        self.errors = errors
        self.claims: dict[str, bool] = {}
        self.finished = False
        self.done = _new_lock()
        self.done.acquire()

    def is_claimed(self, by_worker: bool) -> bool:
        """Claim the job if it is unclaimed; return whether the caller's side, worker or not, has claimed it."""
        return self.claims.setdefault("by worker", by_worker) is by_worker

    def run(self) -> None:
        try:
            self.job(*self.arguments)
        except BaseException as error:
            self.errors.append(error)

    def wait(self, workers: dict[int, _Worker]) -> None:
        """Wait until the job has ended, or claim it, so that it never begins; then let go of all that it uses."""
        while not (self.is_claimed(by_worker=False) or self.finished):
            if not self.done.acquire(True, _LOOK_FOR_FORK) and workers is not _workers:
                self.run()  # a signal handler has forked this process, and the worker runs in its parent
                break
        # It may stay in the queue of a worker that is busy.
        self.job, self.arguments, self.errors = int, (), []


class _Worker:
    """A thread that runs jobs for callers, at a place among the others.

    The thread enters itself as well as the caller that starts it, and leaves when it ends, for whatever reason.  So a
    worker that is entered runs, without a lock that a signal handler could find locked by the code it interrupts; for
    the same reason the thread is none of `threading`, which has such a lock.
    """

    __slots__ = ("avoided", "inbox", "native_id", "place", "workers")

    def __init__(self, place: int, workers: dict[int, _Worker], processor: int) -> None:
        self.place = place
        self.workers = workers
        self.inbox: SimpleQueue[_Sent] = SimpleQueue()
        self.avoided = processor
        self.native_id = 0

    def work(self) -> None:
        """Run jobs until something ends the thread, or not at all if another worker has the place."""
        try:
            self.native_id = _native_id()
            self._keep_away()
            _here.pooled = False
            while self.workers.setdefault(self.place, self) is self:
                self._work_once()
        finally:
            if self.workers.get(self.place) is self:
                self.workers.pop(self.place, None)

    def _work_once(self) -> None:
        sent = self.inbox.get()
        claimed = sent.is_claimed(by_worker=True)
        try:
            if claimed:
                sent.run()
        finally:
            if claimed:
                done, sent.finished = sent.done, True
                del sent
                done.release()

    def send(self, sent: _Sent, processor: int) -> None:
        """Send a job to the worker, and the worker away from a processor."""
        if processor != self.avoided:
            self.avoided = processor
            self._keep_away()
        self.inbox.put(sent)

    def _keep_away(self) -> None:
        if self.avoided >= 0 and self.native_id:
            with suppress(OSError):
                os.sched_setaffinity(self.native_id, _allowed_processors() - {self.avoided})


def _current_processor_function() -> Callable[[], int]:
    """Return the function for the number of the caller's processor; it returns -1 if affinities cannot be set."""
    with suppress(AttributeError, OSError, TypeError):
        if hasattr(os, "sched_setaffinity"):
            function: Callable[[], int] = ctypes.PyDLL(None).sched_getcpu
            return function
    return lambda: -1


def _allowed_processors() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _default_threads() -> int:
    given = os.environ.get("SEQARRAY_NUM_THREADS")
    if given is not None:
        if not (given.isascii() and given.isdigit() and int(given) > 0):
            raise ValueError(f"SEQARRAY_NUM_THREADS is {given!r}; expected a number of threads")
        return int(given)
    return max(1, int(min(len(_allowed_processors()), limits.processor_quota(), MOST_THREADS) + 0.5))


#: Names of threads of pools.  Those of a worker of dask begin with its name: "0-Dask-Default-Threads-4743-0".
_POOL_THREAD = re.compile(r"ThreadPoolExecutor|(.*-)?Dask")

_current_processor = _current_processor_function()
_num_threads = _default_threads()
#: The workers that run, by their place.
_workers: dict[int, _Worker] = {}
_here = threading.local()
_forked = False


def set_num_threads(n: int) -> None:
    """Set the number of threads that copy large NumPy arrays.

    Parameters
    ----------
    n : int
        1 to 256; 1 starts no thread.  Default: the number of processors that this process may use, 4 at most, or the
        value of the environment variable ``SEQARRAY_NUM_THREADS``.

    Raises
    ------
    TypeError, ValueError
        If it is not an integer, or not in that range.

    Examples
    --------
    >>> import seqarray as sa
    >>> before = sa.get_num_threads()
    >>> sa.set_num_threads(1)
    >>> sa.get_num_threads()
    1
    >>> sa.set_num_threads(before)
    """
    global _num_threads  # noqa: PLW0603
    if not is_integer(n):
        raise TypeError(f"set_num_threads: n is {n!r}; expected an integer")
    if not 1 <= n <= ALLOWED_THREADS:
        raise ValueError(f"set_num_threads: n is {n}; it must lie in [1, {ALLOWED_THREADS}]")
    _num_threads = int(n)


def get_num_threads() -> int:
    """Return the number of threads that copy large NumPy arrays.

    Returns
    -------
    int

    Examples
    --------
    >>> import seqarray as sa
    >>> sa.get_num_threads() >= 1
    True
    """
    return _num_threads


def usable_threads() -> int:
    """Return the number of threads that a call from this thread may use.

    It is 1 in a thread of a pool, such as dask's, since the other threads of the pool are busy; and 1 for the first
    call after a fork, since many child processes make only one.
    """
    global _forked  # noqa: PLW0603
    if _forked:
        _forked = False
        return 1
    try:
        pooled = _here.pooled
    except AttributeError:
        pooled = _here.pooled = _POOL_THREAD.match(threading.current_thread().name) is not None
    return 1 if pooled else _num_threads


def share(jobs: Sequence[Job], *arguments: Any) -> None:
    """Call jobs with the arguments in parallel: the first in the calling thread, each other one in a worker.

    An exception in any of them, or in the handler of a signal, is raised after all have ended.  Large copies have
    evicted the interpreter from the caches of the processor when this runs, so it takes few steps.
    """
    if len(jobs) == 1:
        jobs[0](*arguments)
        return
    errors: list[BaseException] = []
    sent: list[_Sent] = []
    workers = _workers
    try:
        _send(sent, jobs, arguments, errors, workers)
        for one in sent:
            if one.is_claimed(by_worker=False):
                one.run()
    except BaseException as error:
        errors += (error,)
    all_ended = False
    while not all_ended:
        try:
            # The handler of a signal may raise at the end of each round, so the loop is inside.
            while sent:
                sent[-1].wait(workers)
                sent.pop()
            all_ended = True
        except BaseException as error:
            errors += (error,)
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # the traceback refers to this frame, which would keep the result


def _send(
    sent: list[_Sent],
    jobs: Sequence[Job],
    arguments: tuple[Any, ...],
    errors: list[BaseException],
    workers: dict[int, _Worker],
) -> None:
    """Send all jobs but the first to workers, and run the first; those for which there is no worker, too."""
    processor = _current_processor()
    for place, job in enumerate(jobs[1:]):
        worker = workers.get(place) or _started(place, workers, processor)
        one = _Sent(job, arguments, errors)
        sent.append(one)
        if worker is not None:
            worker.send(one, processor)
    first = _Sent(jobs[0], arguments, errors)
    first.run()


def _started(place: int, workers: dict[int, _Worker], processor: int) -> _Worker | None:
    """Start the worker of a place; None if the system starts no more threads."""
    # A thread started while the interpreter shuts down never runs.
    if not sys.is_finalizing():
        with suppress(RuntimeError):
            worker = _Worker(place, workers, processor)
            _start_thread(worker.work, ())
            return workers.setdefault(place, worker)
    return None


def _after_fork() -> None:
    """Discard the workers in a child process: threads do not survive a fork."""
    global _workers, _forked
    _workers, _forked = {}, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

__all__ = ["get_num_threads", "set_num_threads", "share", "usable_threads"]
