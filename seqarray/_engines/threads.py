"""Sharing the copies of large NumPy arrays among a few threads.

NumPy releases the GIL while it copies an array, so threads copy in parallel if they run on different processors.  In a
virtual machine, a woken thread is often scheduled on the processor of the thread that woke it, and waits until that one
has finished.  So the affinity of workers excludes the processor of the caller, where the system supports that.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from seqarray._arguments import is_integer

Job = Callable[..., object]

_new_lock = threading.Lock

#: The default maximum: this many threads saturate the memory bandwidth of most machines.
MOST_THREADS = 4
#: The largest number that `set_num_threads` accepts.
ALLOWED_THREADS = 256


#: A job for a worker, and the list for its exceptions.  The thread that acquires the first lock runs the job: the
#: worker, or the caller if the worker has not begun.  The worker releases the second lock when it has finished.
_Sent = tuple[threading.Lock, threading.Lock, Job, tuple[Any, ...], list[BaseException]]


def _run(job: Job, arguments: tuple[Any, ...], errors: list[BaseException]) -> None:
    try:
        job(*arguments)
    except BaseException as error:
        errors.append(error)


class _Worker:
    """A thread that runs jobs for callers."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[_Sent] = SimpleQueue()
        self.avoided = -1
        self.thread = threading.Thread(target=self._work, name="seqarray", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while True:
            claim, done, job, arguments, errors = self.inbox.get()
            if claim.acquire(False):
                _run(job, arguments, errors)
            del claim, job, arguments, errors
            done.release()
            del done

    def send(self, job: Job, arguments: tuple[Any, ...], errors: list[BaseException], processor: int) -> _Sent:
        if processor != self.avoided and processor >= 0:
            self.avoided = processor
            with suppress(OSError):
                os.sched_setaffinity(self.thread.native_id or 0, _allowed_processors() - {processor})
        claim, done = _new_lock(), _new_lock()
        done.acquire()
        sent = claim, done, job, arguments, errors
        self.inbox.put(sent)
        return sent


def _current_processor_function() -> Callable[[], int]:
    """Return the function for the number of the caller's processor; it returns -1 if affinities cannot be set."""
    with suppress(AttributeError, OSError, TypeError):
        if hasattr(os, "sched_setaffinity"):
            function: Callable[[], int] = ctypes.PyDLL(None).sched_getcpu
            return function
    return lambda: -1


def _allowed_processors() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _quota() -> float:
    """Return the number of processors that the control group may use."""
    with suppress(OSError, ValueError):
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if limit != "max":
            return int(limit) / int(period)
    return float("inf")


def _default_threads() -> int:
    given = os.environ.get("SEQARRAY_NUM_THREADS")
    if given is not None:
        if not (given.isascii() and given.isdigit() and int(given) > 0):
            raise ValueError(f"SEQARRAY_NUM_THREADS is {given!r}; expected a number of threads")
        return int(given)
    return max(1, int(min(len(_allowed_processors()), _quota(), MOST_THREADS) + 0.5))


#: Names of threads of pools.  Those of a worker of dask begin with its name: "0-Dask-Default-Threads-4743-0".
_POOL_THREAD = re.compile(r"ThreadPoolExecutor|(.*-)?Dask")

_current_processor = _current_processor_function()
_num_threads = _default_threads()
_workers: list[_Worker] = []
_starting = threading.Lock()
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

    An exception in any of them is raised after all have ended.  Large copies have evicted the interpreter from the
    caches of the processor when this runs, so it takes few steps.
    """
    errors: list[BaseException] = []
    sent = []
    count = len(jobs) - 1
    if count:
        workers = _workers if len(_workers) >= count else _more_workers(count)
        processor = _current_processor()
        for worker, job in zip(workers, jobs[1:], strict=False):
            sent.append(worker.send(job, arguments, errors, processor))
    _run(jobs[0], arguments, errors)
    for job in jobs[1 + len(sent) :]:
        _run(job, arguments, errors)
    for claim, done, job, *_ in sent:
        if claim.acquire(False):
            _run(job, arguments, errors)
        else:
            done.acquire()
    if errors:
        raise errors[0]


def _more_workers(count: int) -> list[_Worker]:
    """Start workers until there are `count`, or the system starts no more; return them all."""
    # A thread started while the interpreter shuts down never runs, and the caller would wait for it forever.
    if not sys.is_finalizing():
        with _starting, suppress(RuntimeError):  # no thread can be started while the interpreter shuts down
            while len(_workers) < count:
                _workers.append(_Worker())
    return _workers


def _after_fork() -> None:
    """Discard workers and lock in a child process: threads do not survive a fork, and the lock may have been held."""
    global _workers, _starting, _forked
    _workers, _starting, _forked = [], threading.Lock(), True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

__all__ = ["get_num_threads", "set_num_threads", "share", "usable_threads"]
