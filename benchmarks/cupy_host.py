"""The time that the host spends on joins and splits of CuPy arrays, beside CuPy's own, without a device.

    python -m benchmarks.cupy_host [--markdown PATH]

Runs CuPy on the host (tests/cupy_host): CuPy's own code with nothing launched and nothing copied.  So the times are of
a call until a device has anything to do, without the part that the CUDA driver adds for every launch.  They are no
measure of a device.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import seqarray as sa
from benchmarks import machine, measure
from benchmarks.measure import Contender

#: Rounds, and seconds of each.
ROUNDS, SECONDS = 15, 0.02

Pair = tuple[Callable[[], Any], Callable[[], Any]]


def pairs(cupy: Any) -> dict[str, Pair]:
    """Return by name what seqarray does and what CuPy does instead."""

    def arrays(count: int, rows: Callable[[int], int] = lambda _: 4) -> list[Any]:
        return [cupy.zeros((rows(i), 4), "float32") for i in range(count)]

    def joins(elements: list[Any], *, stack: int) -> tuple[Pair, Pair]:
        function = cupy.stack if stack else cupy.concatenate

        def construct_and_join() -> Any:
            return sa.concat_from_sequence(sa.sequence_construct(*elements), axis=0, new_axis=stack)

        return (
            (lambda: sa.concat_from_sequence(elements, axis=0, new_axis=stack), lambda: function(elements)),
            (construct_and_join, lambda: function(elements)),
        )

    named: dict[str, Pair] = {}
    for name, elements, stack in (
        ("concat of 3", arrays(3), 0),
        ("concat of 16, ragged", arrays(16, lambda i: i % 5 + 1), 0),
        ("concat of 64", arrays(64), 0),
        ("concat of 128, equal", arrays(128), 0),
        ("concat of 300, ragged", arrays(300, lambda i: i % 5 + 1), 0),
        ("stack of 3", arrays(3), 1),
        ("stack of 16", arrays(16), 1),
        ("stack of 128", arrays(128), 1),
        ("stack of 10 000", arrays(10_000), 1),
        ("concat of 10 000", arrays(10_000), 0),
    ):
        named[f"{name}, from a list"], named[f"{name}, construct + join"] = joins(elements, stack=stack)

    base = cupy.zeros((8, 10_000), "float32")
    chunks = sa.split_to_sequence(base, axis=1)
    sizes = np.random.default_rng(0).multinomial(20_000, np.full(10_000, 1e-4)) + 1
    uneven = sa.split_to_sequence(cupy.zeros((8, int(sizes.sum())), "float32"), sizes, axis=1)
    for name, run in (("10 000 chunks of one split", chunks), ("10 000 uneven chunks of one split", uneven)):
        views = list(run)
        # A slice is a new sequence, so that every join is the first one of its sequence.
        named[f"concat of {name}"] = (
            lambda run=run: sa.concat_from_sequence(run[:], axis=1),
            lambda views=views: cupy.concatenate(views, axis=1),
        )
    named["split into 10 000"] = (
        lambda: sa.split_to_sequence(base, axis=1),
        lambda: cupy.split(base, 10_000, axis=1),
    )
    named["split into 10 000, copy=None"] = (
        lambda: sa.split_to_sequence(base, axis=1, copy=None),
        lambda: cupy.split(base, 10_000, axis=1),
    )
    rows = [np.zeros((i % 5 + 1, 4), np.float32) for i in range(10_000)]
    on_host = sa.ArraySequence(rows)
    named["10 000 rows to the device"] = (lambda: on_host.to(xp="cupy"), lambda: [cupy.asarray(row) for row in rows])
    one = sa.ArraySequence(arrays(16))
    named["at, a copy of one element"] = (lambda: sa.sequence_at(one, 3), one[3].copy)
    return named


def timed(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, Any]:
    """Time both in turn."""
    contenders = [Contender("seqarray", [ours]), Contender("cupy", [theirs])]
    for contender in contenders:
        contender.once()
    calls = {one.name: measure.calls_for(SECONDS, measure.seconds_per_call(one, 3, hot=True)) for one in contenders}
    times = measure.interleaved(contenders, calls, dict.fromkeys(calls, ROUNDS), hot=True)
    ratios = measure.ratios(times["seqarray"], times["cupy"])
    return {
        "seqarray": statistics.median(times["seqarray"]),
        "cupy": statistics.median(times["cupy"]),
        "ratio": measure.quartiles(ratios),
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and write it to a file if one is given."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cupy_host", description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="write the table here too")
    options = parser.parse_args(arguments)

    from tests.cupy_host import entry_points, toolchain

    if reason := toolchain.missing():
        print(f"CuPy on the host: {reason}", file=sys.stderr)
        return 1
    entry_points.start()
    import cupy

    from tests.cupy_host.counting import without_device_work

    lines = ["| work | seqarray | cupy | ratio (quartiles) |", "| --- | --- | --- | --- |"]
    print(*lines, sep="\n")
    for name, (ours, theirs) in pairs(cupy).items():
        ours(), theirs()  # compiles what it launches
        with without_device_work():
            found = timed(ours, theirs)
        lower, middle, upper = found["ratio"]
        lines.append(
            f"| {name} | {found['seqarray'] * 1e6:.1f} us | {found['cupy'] * 1e6:.1f} us "
            f"| {middle:.3g} ({lower:.3g} to {upper:.3g}) |"
        )
        print(lines[-1], flush=True)
    if options.markdown:
        about = machine.description(["python", "-m", "benchmarks.cupy_host", *arguments])
        options.markdown.write_text("\n".join([*_heading(about), *lines]) + "\n")
    return 0


def _heading(about: dict[str, Any]) -> list[str]:
    return [
        "# Host time of joins and splits of CuPy arrays",
        "",
        f"{about['date']}, commit {about['commit'][:12]}, {about['cpu']}, no GPU; `{about['command']}`",
        "",
        "The time that the host spends on a call, on CuPy on the host: CuPy's own code with nothing launched and",
        "nothing copied, and without the time that the CUDA driver adds for every launch, allocation and transfer.",
        "This is no measure of a device.  Medians of rounds in turn; the ratio is seqarray's time by CuPy's.",
        "Construct + join: a sequence is made of the arrays and joined, and both calls are timed.  Chunks of one split",
        "are joined as the sequence that the split made.",
        "",
    ]


if __name__ == "__main__":
    sys.exit(main())
