"""The cases.  To add one, add an entry: a name, what it does, and its inputs at each size.

A function of a NumPy random generator makes each input.  The arguments of each piece of work are those of the method of
the same name in `libraries.base.Library`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import machine, models

Generator = np.random.Generator
Arguments = tuple[Any, ...]

MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """One kind of work at several sizes.

    Attributes
    ----------
    name, title : str
        Its name on the command line, and its heading in tables.
    work : str
        The method of `libraries.base.Library` that does it.
    sizes : dict
        From the name of a size to a function that makes the arguments of `work`.  From small to large.
    amounts : dict
        From the name of a size to (pieces, bytes of new memory in the result), known without making it.
    threads : bool
        Whether a library may use threads for it, so that contenders wait for each other's threads to come to rest.
    paused : bool
        Whether single calls after a pause are timed too, where a library may use threads.
    single_calls : bool
        Whether a table of its own has the ratios of single calls after a pause.
    quick : tuple of str
        The sizes that ``--quick`` keeps.
    backends : tuple of str
        Backends on which it makes sense; empty for all.
    gpu_sizes : tuple of str
        Sizes for a GPU only.
    plot_by : str
        The plot it takes part in: over "bytes", over "pieces", or as "growth".
    """

    name: str
    title: str
    work: str
    sizes: dict[str, Callable[[Generator], Arguments]]
    amounts: dict[str, tuple[int, int]]
    threads: bool = False
    paused: bool = True
    single_calls: bool = False
    quick: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    gpu_sizes: tuple[str, ...] = ()
    plot_by: str = ""

    def runs_on(self, backend: str) -> bool:
        """Return whether it makes sense on a backend."""
        return not self.backends or backend in self.backends


def floats(rng: Generator, *shape: int) -> np.ndarray:
    """Draw random float32 of a shape."""
    values = machine.filled(shape, 0, np.float32)
    rng.random(out=values, dtype=np.float32)
    return values


def _squares(axis: int) -> dict[str, Any]:
    lengths = (64, 256, 1024, 2048) if axis == 0 else (1024,)
    return {
        "sizes": {f"3 x ({n}, {n})": lambda rng, n=n: ([floats(rng, n, n) for _ in range(3)], axis) for n in lengths},
        "amounts": {f"3 x ({n}, {n})": (3, 3 * n * n * 4) for n in lengths},
        "threads": True,
        "quick": ("3 x (1024, 1024)",),
        "plot_by": "bytes" if axis == 0 else "",
    }


def _rows_of_64(axis: int) -> dict[str, Any]:
    counts = (10, 100, 1_000, 10_000)
    return {
        "sizes": {f"{n} x (64,)": lambda rng, n=n: ([floats(rng, 64) for _ in range(n)], axis) for n in counts},
        "amounts": {f"{n} x (64,)": (n, n * 256) for n in counts},
        "quick": ("100 x (64,)",),
        "plot_by": "pieces",
    }


def _ragged(rng: Generator, total: int) -> list[np.ndarray]:
    """Draw 128 rows of uneven lengths that make up `total` bytes."""
    weights = rng.random(128) + 0.5
    lengths = np.floor(weights / weights.sum() * (total // 4)).astype(int)
    lengths[-1] += total // 4 - lengths.sum()
    return [floats(rng, n) for n in lengths]


def _columns(rng: Generator, count: int) -> list[np.ndarray]:
    """Draw columns (4096, k) with k in 1..63, as a table of features is made of."""
    return [floats(rng, 4096, int(k)) for k in np.random.default_rng(1).integers(1, 64, count)]


def _columns_bytes(count: int) -> int:
    return int(np.random.default_rng(1).integers(1, 64, count).sum()) * 4096 * 4


def _row_lengths(count: int) -> np.ndarray:
    return np.random.default_rng(2).integers(1, 256, count)


def _ragged_rows(*mebibytes: int) -> dict[str, Any]:
    return {
        "sizes": {f"{m} MiB": lambda rng, m=m: (_ragged(rng, m * MIB), 0) for m in mebibytes},
        "amounts": {f"{m} MiB": (128, m * MIB) for m in mebibytes},
        "threads": True,
        "quick": ("16 MiB",),
    }


def _three_arrays(*megabytes: int) -> dict[str, Any]:
    return {
        "sizes": {
            f"{m} MB": lambda rng, m=m: ([floats(rng, m * 1_000_000 // 12) for _ in range(3)], 0) for m in megabytes
        },
        "amounts": {f"{m} MB": (3, m * 1_000_000) for m in megabytes},
        "threads": True,
        "single_calls": True,
        "quick": (f"{megabytes[0]} MB",),
    }


def _rejoined(nbytes: int) -> dict[str, Any]:
    counts = (100, 10_000)
    return {
        "sizes": {f"{n} chunks": lambda rng, n=n: (floats(rng, 10_000, 64), 10_000 // n, 0) for n in counts},
        "amounts": {f"{n} chunks": (n, nbytes) for n in counts},
        "quick": ("100 chunks",),
        "backends": ("numpy", "cupy", "torch"),
    }


def _uneven_sizes(length: int, count: int) -> list[int]:
    """Return sizes that make up a length."""
    cuts = np.sort(np.random.default_rng(4).integers(0, length + 1, count - 1))
    sizes: list[int] = np.diff(cuts, prepend=0, append=length).tolist()
    return sizes


#: Rows of a ragged batch, and the longest of them.
_BATCHES = (1_000, 200_000)
_LONGEST = 19


def _lengths_in_batch(count: int) -> np.ndarray:
    lengths = np.random.default_rng(3).integers(0, _LONGEST + 1, count)
    lengths[0] = _LONGEST
    return lengths


def _batch(rng: Generator, count: int) -> Arguments:
    """Draw the values (total, 4) of a ragged batch of rows, and their offsets."""
    offsets = np.concatenate([[0], np.cumsum(_lengths_in_batch(count))])
    return floats(rng, int(offsets[-1]), 4), offsets


def _padded(rng: Generator, count: int) -> Arguments:
    """Draw a padded batch (count, longest, 4), and the lengths of its rows."""
    return floats(rng, count, _LONGEST, 4), _lengths_in_batch(count)


def _batches(make: Callable[[Generator, int], Arguments], nbytes: Callable[[int], int] = lambda _: 0) -> dict[str, Any]:
    return {
        "sizes": {f"{n} rows": lambda rng, n=n: make(rng, n) for n in _BATCHES},
        "amounts": {f"{n} rows": (n, nbytes(n)) for n in _BATCHES},
        "quick": ("1000 rows",),
        "backends": ("numpy", "torch"),
    }


def _loop(rng: Generator, count: int) -> Arguments:
    element = floats(rng, 3)
    return np.tile(element, count), models.LOOP, {"count": np.asarray(count), "element": element}


def _graph(rng: Generator, name: str) -> Arguments:
    x, other = floats(rng, 4, 3), floats(rng, 2, 3)
    inputs = {"x": x, "other": other, "sizes": np.asarray([1, 2, 1])}
    inputs |= {"last": np.asarray(-1), "second": np.asarray(1)}
    answer, text = np.concatenate([x, other, other]) if name.startswith("construct") else x, models.GRAPHS[name]
    return answer, text, {key: value for key, value in inputs.items() if re.search(rf"\b{key}\b", text)}


#: What the cases are asked about, in the order of reports, and the patterns of their names.
QUESTIONS: dict[str, tuple[str, ...]] = {
    "the overhead of a call": ("*-tiny*", "at"),
    "joining many small arrays": ("*-many*", "rejoin", "first-concat"),
    "joining large arrays": ("concat-*",),
    "splits and joins without a copy": ("*-view", "*-views"),
    "splitting": ("split-*", "round-trip"),
    "ragged batches in and out": ("pack", "unpack"),
    "padding ragged batches": ("pad", "unpad"),
    "changing a sequence": ("append", "push-pop", "window"),
    "to the device": ("upload",),
    "ONNX models": ("model-*",),
}


def question_of(name: str) -> str:
    """Return the first question with a pattern that fits the name of a case; "others" for cases of older results."""
    fitting = (
        question
        for question, patterns in QUESTIONS.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    )
    return next(fitting, "others")


_TINY = "3 x (2, 3)"
#: The sizes of 10 000 rows, as they may be given.
_ROWS: dict[str, Any] = {
    "by size": 1,
    "by an array of sizes": np.ones(10_000, dtype=np.int64),
    "by a list of sizes": [1] * 10_000,
}
_APPENDS = (1_000, 4_000, 8_000, 32_000, 64_000)

CASES = [
    Case(
        "concat-tiny",
        "join of 3 tiny arrays: the overhead of a call",
        "concat",
        {_TINY: lambda rng: ([floats(rng, 2, 3) for _ in range(3)], 0)},
        {_TINY: (3, 72)},
        quick=(_TINY,),
    ),
    Case(
        "stack-tiny",
        "stack of 3 tiny arrays: the overhead of a call",
        "stack",
        {_TINY: lambda rng: ([floats(rng, 2, 3) for _ in range(3)], 0)},
        {_TINY: (3, 72)},
        quick=(_TINY,),
    ),
    Case(
        "split-tiny",
        "split of a tiny array into rows: the overhead of a call",
        "split",
        {
            "(2, 3) into 2": lambda rng: (floats(rng, 2, 3), None, 0),
            "(2, 3) by a list of sizes": lambda rng: (floats(rng, 2, 3), [1, 1], 0),
        },
        dict.fromkeys(("(2, 3) into 2", "(2, 3) by a list of sizes"), (2, 24)),
        quick=("(2, 3) into 2",),
    ),
    Case("concat-axis0", "join of 3 squares on axis 0", "concat", **_squares(0)),
    Case("concat-axis1", "join of 3 squares on axis 1", "concat", **_squares(1)),
    Case(
        "concat-middle",
        "join of 3 arrays: to about as much as single calls need for threads to help",
        "concat",
        **_three_arrays(6, 12, 24),
        backends=("numpy",),
    ),
    Case("concat-many", "join of many short rows", "concat", **_rows_of_64(0)),
    Case("stack-many", "stack of many short rows", "stack", **_rows_of_64(0)),
    Case(
        "first-concat",
        "first join of rows of uneven lengths: by a library that has compiled nothing yet",
        "first_concat",
        {f"{n} rows": lambda rng, n=n: ([floats(rng, int(k)) for k in _row_lengths(n)], 0) for n in (100, 1_000)},
        {f"{n} rows": (n, int(_row_lengths(n).sum()) * 4) for n in (100, 1_000)},
        quick=("100 rows",),
        backends=("jax",),
    ),
    Case(
        "concat-ragged",
        "join of 128 ragged rows",
        "concat",
        **_ragged_rows(16, 256, 1024),
        gpu_sizes=("1024 MiB",),
    ),
    Case(
        "concat-out",
        "join of 128 ragged rows into an array that is there (out=)",
        "concat_out",
        **_ragged_rows(16, 256),
        backends=("numpy",),
    ),
    Case(
        "concat-columns",
        "join of narrow columns on axis 1: (4096, k), k in 1..63",
        "concat",
        {f"{n} columns": lambda rng, n=n: (_columns(rng, n), 1) for n in (16, 96)},
        {f"{n} columns": (n, _columns_bytes(n)) for n in (16, 96)},
        threads=True,
        quick=("16 columns",),
    ),
    Case(
        "split-wide",
        "split of a square on axis 1 into 64",
        "split",
        {f"({n}, {n})": lambda rng, n=n: (floats(rng, n, n), n // 64, 1) for n in (512, 4096)},
        {f"({n}, {n})": (64, n * n * 4) for n in (512, 4096)},
        threads=True,
        quick=("(512, 512)",),
    ),
    Case(
        "split-long",
        "split of (100 000, 16) on axis 0",
        "split",
        {f"into {n}": lambda rng, n=n: (floats(rng, 100_000, 16), 100_000 // n, 0) for n in (1_000, 10_000)},
        {f"into {n}": (n, 100_000 * 64) for n in (1_000, 10_000)},
        threads=True,
        quick=("into 1000",),
    ),
    Case(
        "split-uneven",
        "split of (100 000, 16) on axis 0 by a list of uneven sizes",
        "split",
        {"into 10000": lambda rng: (floats(rng, 100_000, 16), _uneven_sizes(100_000, 10_000), 0)},
        {"into 10000": (10_000, 100_000 * 64)},
        threads=True,
        quick=("into 10000",),
        backends=("numpy", "cupy", "torch"),
    ),
    Case(
        "split-views",
        "split of (10 000, 64) into 10 000 without a copy",
        "split_views",
        {name: lambda rng, rows=rows: (floats(rng, 10_000, 64), rows, 0) for name, rows in _ROWS.items()},
        dict.fromkeys(_ROWS, (10_000, 0)),
        quick=("by size",),
        backends=("numpy", "cupy", "torch"),
    ),
    Case("rejoin", "join of the chunks of one split of (10 000, 64)", "rejoin", **_rejoined(10_000 * 256)),
    Case(
        "rejoin-view",
        "join of such chunks with copy=None: seqarray gives a view of what was split, and no bytes move",
        "rejoin_view",
        **_rejoined(0),
    ),
    Case(
        "round-trip",
        "split of (100 000, 16) on axis 0, and join of the chunks",
        "round_trip",
        {f"into {n}": lambda rng, n=n: (floats(rng, 100_000, 16), 100_000 // n, 0) for n in (1_000, 10_000)},
        {f"into {n}": (n, 100_000 * 64) for n in (1_000, 10_000)},
        threads=True,
        quick=("into 1000",),
        backends=("numpy", "cupy", "torch"),
    ),
    Case(
        "unpack",
        "ragged rows from values and offsets: (k, 4), k in 0..19",
        "unpack",
        **_batches(_batch),
    ),
    Case("pack", "ragged rows to values and offsets", "pack", **_batches(_batch)),
    Case(
        "pad",
        "ragged rows padded to the longest",
        "pad",
        **_batches(_batch, lambda n: n * _LONGEST * 16),
        threads=True,
        paused=False,
    ),
    Case(
        "unpad",
        "padded rows back to values",
        "unpad",
        **_batches(_padded, lambda n: int(_lengths_in_batch(n).sum()) * 16),
        threads=True,
        paused=False,
    ),
    Case(
        "append",
        "repeated insert at the end, and one join",
        "append",
        {f"{n} inserts": lambda rng, n=n: (n, floats(rng, 3)) for n in _APPENDS},
        {f"{n} inserts": (n, n * 12) for n in _APPENDS},
        quick=("1000 inserts",),
        backends=("numpy", "cupy"),
        plot_by="growth",
    ),
    Case(
        "push-pop",
        "500 inserts and 500 erases at the end of a long sequence",
        "push_and_pop",
        {f"n = {n}": lambda rng, n=n: (n, floats(rng, 3)) for n in (1_000, 64_000, 1_000_000)},
        {f"n = {n}": (n, 0) for n in (1_000, 64_000, 1_000_000)},
        quick=("n = 1000",),
        backends=("numpy",),
    ),
    Case(
        "window",
        "1 000 steps of a window, in at the end and out at the front",
        "window",
        {"of 1000": lambda rng: (1_000, floats(rng, 3))},
        {"of 1000": (1_000, 0)},
        quick=("of 1000",),
        backends=("numpy",),
    ),
    Case(
        "at",
        "a copy of one element",
        "at",
        {"of 16 x (2, 3)": lambda rng: ([floats(rng, 2, 3) for _ in range(16)],)},
        {"of 16 x (2, 3)": (1, 24)},
        quick=("of 16 x (2, 3)",),
    ),
    Case(
        "upload",
        "a ragged list of rows to the device",
        "upload",
        {f"{n} rows": lambda rng, n=n: ([floats(rng, int(k)) for k in _row_lengths(n)],) for n in (300, 10_000)},
        {f"{n} rows": (n, int(_row_lengths(n).sum()) * 4) for n in (300, 10_000)},
        quick=("300 rows",),
        backends=("cupy",),
    ),
    Case(
        "model-loop",
        "an ONNX model that appends in a loop: SequenceInsert, and ConcatFromSequence",
        "model",
        {f"{n} inserts": lambda rng, n=n: _loop(rng, n) for n in (1_000, 4_000, 8_000)},
        {f"{n} inserts": (n, n * 12) for n in (1_000, 4_000, 8_000)},
        quick=("1000 inserts",),
        backends=("numpy",),
        plot_by="growth",
    ),
    *(
        Case(
            f"model-graph-{number}",
            f"an ONNX model on tiny inputs: {name}",
            "model",
            {"5 nodes": lambda rng, name=name: _graph(rng, name)},
            {"5 nodes": (5, 96 if name.startswith("construct") else 48)},
            quick=("5 nodes",),
            backends=("numpy",),
        )
        for number, name in enumerate(models.GRAPHS, 1)
    ),
]
