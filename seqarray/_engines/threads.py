"""Sharing the copies of large NumPy arrays among a few threads.

Copying one array, NumPy releases the GIL, so two threads copy twice as much.  What decides whether that is a gain is
where the second one runs: inside a virtual machine, a thread that is woken often lands on the processor of the one that
woke it, and waits behind it.  So workers are kept off the caller's processor, where the system lets them.
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

#: More threads than this saturate the memory of ordinary machines.
MOST_THREADS = 4
#: And no machine has use for more than this.
ALLOWED_THREADS = 256


#: A job on its way, and where what it raises is put.  Whoever acquires the first lock runs it, the worker or the caller
#: who would have to wait; the second is released when the worker has done with it.
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
    """What tells the processor that the caller runs on; -1 where workers cannot be kept off it."""
    with suppress(AttributeError, OSError, TypeError):
        if hasattr(os, "sched_setaffinity"):
            function: Callable[[], int] = ctypes.PyDLL(None).sched_getcpu
            return function
    return lambda: -1


def _allowed_processors() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _quota() -> float:
    """How many processors the control group may use."""
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


#: The names of threads of pools.  A worker of dask puts its own name first: "0-Dask-Default-Threads-4743-0".
_POOL_THREAD = re.compile(r"ThreadPoolExecutor|(.*-)?Dask")

_current_processor = _current_processor_function()
_num_threads = _default_threads()
_workers: list[_Worker] = []
_starting = threading.Lock()
_here = threading.local()
_forked = False


def set_num_threads(n: int) -> None:
    """Set how many threads share the copies of large NumPy arrays.

    Parameters
    ----------
    n : int
        1 to 256; 1 starts no thread.  Default: the processors that this process may use, 4 at most, or what the
        environment variable ``SEQARRAY_NUM_THREADS`` says.

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
    """How many threads share the copies of large NumPy arrays.

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
    """How many threads a call may use here and now.

    One in a thread of a pool, as dask has them: the others of the pool are at work too.  One for the first call after a
    fork, which many a child does not outlive.
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
    """Call jobs with the arguments at the same time: the first one here, each other one in a thread of its own.

    An exception in any of them is raised here, after all have ended.  Copies have thrown Python out of the processor's
    caches when this runs, so every step counts.
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
    """Workers, as many as wanted or as the system gives."""
    # A thread that is started while the interpreter goes down never runs, and its starter would wait for it.
    if not sys.is_finalizing():
        with _starting, suppress(RuntimeError):  # no thread can be started while the interpreter shuts down
            while len(_workers) < count:
                _workers.append(_Worker())
    return _workers


def _after_fork() -> None:
    """A child has none of its parent's threads, and perhaps a lock that one of them held."""
    global _workers, _starting, _forked
    _workers, _starting, _forked = [], threading.Lock(), True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

__all__ = ["get_num_threads", "set_num_threads", "share", "usable_threads"]
