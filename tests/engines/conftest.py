"""The NumPy engine with all work large, a pool of one's own, and counts of what threads share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import seqarray as sa
from seqarray._engines import pool as hostpool
from seqarray._engines import threads as hostthreads
from seqarray._engines.settings import settings
from tests.engines.pool_arrays import HostPool


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes all work large: it is shared among so many threads, in recycled memory."""
    for name in ("pool_from", "threads_from", "tensors_from", "piece_from", "items_from"):
        monkeypatch.setattr(settings, name, 1)
    before = sa.get_num_threads()

    def large(threads: int, *, wide_row: int = 8, head_start: int = 0, block: int = 64) -> None:
        sa.set_num_threads(threads)
        monkeypatch.setattr(settings, "wide_row", wide_row)
        monkeypatch.setattr(settings, "head_start", head_start)
        monkeypatch.setattr(settings, "block", block)

    large(2)
    yield large
    sa.set_num_threads(before)
    sa.host_pool.free_all_blocks()


@pytest.fixture
def shares(count_calls) -> Callable[[], list[int]]:
    """How many jobs have been shared in each call since the last question."""
    calls = count_calls(hostthreads, "share")

    def shares() -> list[int]:
        counts = [len(jobs) for jobs, *_ in calls]
        calls.clear()
        return counts

    return shares


@pytest.fixture
def pool() -> HostPool:
    """A pool of its own, from which even small arrays may be asked for."""
    return HostPool(limit=1 << 30)


@pytest.fixture
def results_pool(pool: HostPool, monkeypatch: pytest.MonkeyPatch) -> HostPool:
    """A pool of its own, from which large results come."""
    monkeypatch.setattr(hostpool, "host_pool", pool)
    return pool


@pytest.fixture
def small_pool(results_pool: HostPool, monkeypatch: pytest.MonkeyPatch) -> HostPool:
    """The pool of all results, from few bytes on."""
    monkeypatch.setattr(settings, "pool_from", 1024)
    monkeypatch.setattr(settings, "threads_from", 1024)
    monkeypatch.setattr(settings, "tensors_from", 1024)
    return results_pool


@pytest.fixture(scope="session")
def kept_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a folder that is kept from one run to the next, or for this run where pytest keeps nothing."""
    cache = getattr(request.config, "cache", None)

    def kept_folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name) if cache is None else cache.mkdir(name)

    return kept_folder
