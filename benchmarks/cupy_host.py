"""The time that the host spends on joins and splits of CuPy arrays, beside CuPy's own, without a device.

    python -m benchmarks.cupy_host [--markdown PATH]

Runs CuPy on the host (tests/cupy_host): CuPy's own code with nothing launched and nothing copied.  So it says what a
call costs before a device has anything to do, without what the CUDA driver adds for every launch; about a device it
says nothing.
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
    """By name, what seqarray does and what CuPy does instead."""

    def arrays(count: int, rows: Callable[[int], int] = lambda _: 4) -> list[Any]:
        return [cupy.zeros((rows(i), 4), "float32") for i in range(count)]

    def joins(elements: list[Any], theirs: list[Any] | None = None, *, stack: int = 0) -> tuple[Pair, Pair]:
        sequence, function = sa.ArraySequence(elements), cupy.stack if stack else cupy.concatenate
        other = theirs or elements
        return (
            (lambda: sa.concat_from_sequence(elements, axis=0, new_axis=stack), lambda: function(other)),
            (lambda: sa.concat_from_sequence(sequence, axis=0, new_axis=stack), lambda: function(other)),
        )

    named: dict[str, Pair] = {}
    for name, elements, stack in (
        ("concat of 3", arrays(3), 0),
        ("concat of 16, ragged", arrays(16, lambda i: i % 5 + 1), 0),
        ("concat of 64", arrays(64), 0),
        ("concat of 128, equal", arrays(128), 0),
        ("concat of 300, ragged", arrays(300, lambda i: i % 5 + 1), 0),
        ("stack of 3", arrays(3), 1),
        ("stack of 10 000", arrays(10_000), 1),
        ("concat of 10 000", arrays(10_000), 0),
    ):
        from_list, again = joins(elements, stack=stack)
        named[f"{name}, from a list"], named[f"{name}, from a sequence again"] = from_list, again

    base = cupy.zeros((8, 10_000), "float32")
    chunks = sa.split_to_sequence(base, axis=1)
    sizes = np.random.default_rng(0).multinomial(20_000, np.full(10_000, 1e-4)) + 1
    uneven = sa.split_to_sequence(cupy.zeros((8, int(sizes.sum())), "float32"), sizes, axis=1)
    for name, run in (("10 000 chunks of one split", chunks), ("10 000 uneven chunks of one split", uneven)):
        views = list(run)
        # A slice knows nothing yet, so that the join is worked out each time.
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
    """Both, in turn."""
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
    """Print the table, and write it to a file if asked to."""
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
        "nothing copied, and without what the CUDA driver adds for every launch, allocation and transfer.  It says",
        "nothing about a device.  Medians of rounds in turn; the ratio is seqarray's time by CuPy's.  A list is looked",
        "through each time; a sequence knows its elements from the first join on.",
        "",
    ]


if __name__ == "__main__":
    sys.exit(main())
