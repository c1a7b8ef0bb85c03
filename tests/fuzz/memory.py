"""What memory and objects many operations leave behind."""

from __future__ import annotations

import gc
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import seqarray as sa


class Growth(NamedTuple):
    """What is there after many operations and was not there after the first ones."""

    objects: int
    mib: float


def growth(backend: Any, operations: int) -> Growth:
    """Run operations of every kind, and return what they leave behind, after a tenth of them as warm-up."""
    some_operations(backend, max(20, operations // 10))
    before = _used()
    some_operations(backend, operations)
    after = _used()
    return Growth(after.objects - before.objects, round(after.mib - before.mib, 2))


def some_operations(backend: Any, count: int) -> None:
    x = backend.array(np.arange(60, dtype=np.float32).reshape(5, 12))
    s = sa.sequence_empty("float32")
    for number in range(count // 10):
        chunks = sa.split_to_sequence(x, [1 + number % 3, 4 - number % 3], copy=True if number % 2 else None)
        s = sa.sequence_insert(s if len(s) < 400 else s[-5:], chunks[0], 0)
        s = sa.sequence_insert(s, sa.sequence_at(chunks, 1))
        s = sa.sequence_erase(s, len(s) // 2)
        sa.concat_from_sequence(chunks, axis=0)
        packed = sa.sequence_construct(x, *chunks, copy=True)
        sa.sequence_erase(packed, 0)
        sa.split(x, num_outputs=3, axis=1)
        sa.sequence_map(chunks, body=lambda a: a[:1, ...])
        if number % 100 == 0:
            pickle.loads(pickle.dumps(packed))
        with suppress(ValueError):
            sa.concat_from_sequence([x, x[:, :3, ...]], axis=0)


def _used() -> Growth:
    gc.collect()
    status = Path("/proc/self/statm")
    pages = int(status.read_text().split()[1]) if status.exists() else 0
    return Growth(len(gc.get_objects()), pages * 4096 / 2**20)
