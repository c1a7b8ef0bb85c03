"""The machine's limits: plain copies of the same bytes, on the host and within a device."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.libraries.base import Library, Sizes, Work, lengths_of, not_done
from benchmarks.libraries.cupy import CuPy


class DeviceCopy(CuPy):
    """The device's limit: the same bytes copied within it at once."""

    name = "memcpy, device"
    backend, limit = False, True
    note = "memcpy, device: a plain copy of the same bytes within the device."

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        del axis
        return self._copy(sum(a.nbytes for a in arrays))

    stack = concat

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        del sizes, axis
        return self._copy(x.nbytes)

    rejoin = split

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        work = self.split(x, sizes, axis)
        return lambda: (work(), work())[0]

    split_views = rejoin_view = at = upload = not_done

    def host(self, _: Any) -> Any:
        return None

    def _copy(self, nbytes: int) -> Work:
        cuda = self.cupy.cuda
        target, source = cuda.alloc(nbytes), cuda.alloc(nbytes)
        return lambda: target.copy_from_device_async(source, nbytes, cuda.get_current_stream())


class Memcpy(Library):
    """The machine's limit: the same bytes copied in pieces of the same sizes, and nothing else.

    Pieces below 64 KiB are joined to that size, since the calls would be measured and not the copies.
    """

    module, pip = "numpy", "numpy"
    limit = True
    note = "memcpy: a plain copy of the same bytes, cut into the same pieces (of at least 64 KiB)."

    def __init__(self, threads: int, *, fresh: bool, sources: dict[int, np.ndarray] | None = None) -> None:
        """Copy from `sources`: limits that get one dictionary share what is in it, as libraries share inputs."""
        self.threads, self.fresh = threads, fresh
        self.sources = {} if sources is None else sources
        memory = "fresh" if fresh else "reused"
        self.name = f"memcpy, {threads} thread{'s' if threads > 1 else ''}, {memory} memory"
        self.recycles = not fresh
        # Each thread on a processor of its own: left alone, a woken one often waits behind the one that woke it.
        self.processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.target = np.zeros(0, dtype=np.uint8)

    @cached_property
    def pool(self) -> ThreadPoolExecutor | None:
        """Make the threads when they are first needed."""
        if self.threads == 1:
            return None
        pool = ThreadPoolExecutor(self.threads)
        if self.processors:
            together = threading.Barrier(self.threads)
            list(pool.map(self._pin, range(self.threads), [together] * self.threads))
        return pool

    def _pin(self, index: int, together: threading.Barrier) -> None:
        together.wait()  # so that each thread gets one of these jobs
        os.sched_setaffinity(0, {self.processors[index % len(self.processors)]})

    def concat(self, arrays: list[np.ndarray], _: int) -> Work | None:
        return self._copy(arrays, [a.nbytes for a in arrays])

    stack = concat

    def concat_out(self, arrays: list[np.ndarray], axis: int) -> Work | None:
        return None if self.fresh else self.concat(arrays, axis)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work | None:
        return self._copy(x, [x.nbytes * length // x.shape[axis] for length in lengths_of(x, sizes, axis)])

    rejoin = split

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work | None:
        work = self.split(x, sizes, axis)
        return None if work is None else lambda: (work(), work())[0]

    def host(self, _: Any) -> Any:
        return None

    def _copy(self, given: object, nbytes: list[int]) -> Work | None:
        total = sum(nbytes)
        if total < 1 << 20:
            return None
        bounds = [0]
        for end in accumulate(nbytes):
            if end - bounds[-1] >= 1 << 16 or end == total:
                bounds.append(end)
        if id(given) not in self.sources:
            self.sources[id(given)] = machine.filled((total,), 1, np.uint8)
        source = self.sources[id(given)]
        if not self.fresh and self.target.size != total:
            self.target = machine.filled((total,), 0, np.uint8)  # one for all input sets
        reused = None if self.fresh else self.target
        halves = [bounds]
        if self.threads > 1:
            share = -(-(len(bounds) - 1) // self.threads)
            halves = [bounds[i : i + share + 1] for i in range(0, len(bounds) - 1, share)]
            if len(bounds) - 1 < self.threads * 2:
                step = total // self.threads
                halves = [[i * step, (i + 1) * step if i + 1 < self.threads else total] for i in range(self.threads)]

        def copy(target: np.ndarray, cuts: list[int]) -> None:
            for start, stop in pairwise(cuts):
                np.copyto(target[start:stop], source[start:stop])

        def work() -> np.ndarray:
            target = np.empty(total, dtype=np.uint8) if reused is None else reused
            if self.pool is None:
                copy(target, bounds)
            else:
                list(self.pool.map(copy, [target] * len(halves), halves))
            return target

        return work


def limits(backend: str) -> Iterator[Library]:
    """Make the limits for a case on arrays of a backend."""
    if backend == "cupy":
        yield DeviceCopy()
    if backend == "numpy":
        sources: dict[int, np.ndarray] = {}
        for fresh in (True, False):
            for threads in sorted({1, machine.cpu_count()}):
                yield Memcpy(threads, fresh=fresh, sources=sources)
