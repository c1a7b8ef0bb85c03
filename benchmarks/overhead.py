"""What a call costs on tiny arrays, and how the cost of building a sequence grows: ``python benchmarks/overhead.py``.

Both sides of a ratio run in turn, round by round, in one process: shared machines drift, and a drift then hits both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import seqarray as sa

ROUNDS = 15


def seconds(function: Callable[[], object], calls: int) -> float:
    """Time of one call, as the mean over `calls`."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def compare(
    ours: Callable[[], object], theirs: Callable[[], object], calls: int, rounds: int
) -> tuple[float, float, float]:
    """Medians over interleaved rounds: of our time, of theirs, and of the ratio within a round."""
    ours(), theirs()
    pairs = [(seconds(ours, calls), seconds(theirs, calls)) for _ in range(rounds)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def report(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    calls: int,
    unit: float = 1.0,
    rounds: int = ROUNDS,
) -> None:
    """Print one line; `unit` divides the times, to give those of one step."""
    a, b, ratio = compare(ours, theirs, calls, rounds)
    print(f"{name:<72} {a / unit * 1e6:>11.2f} us {b / unit * 1e6:>11.2f} us {ratio:>8.3f}")


ELEMENT = np.ones(3, dtype=np.float32)


def appended(count: int) -> sa.ArraySequence:
    """A sequence built by `count` inserts at the end."""
    sequence = sa.sequence_empty("float32")
    for _ in range(count):
        sequence = sa.sequence_insert(sequence, ELEMENT)
    return sequence


def push_and_pop(sequence: sa.ArraySequence, steps: int) -> None:
    """Insert elements at the end, then erase as many."""
    for _ in range(steps):
        sequence = sa.sequence_insert(sequence, ELEMENT)
    for _ in range(steps):
        sequence = sa.sequence_erase(sequence)


def slide(sequence: sa.ArraySequence, steps: int) -> None:
    """Insert at the end and erase at the front, which keeps the length."""
    for _ in range(steps):
        sequence = sa.sequence_erase(sa.sequence_insert(sequence, ELEMENT), 0)


def onnxruntime_appends() -> Callable[[int], object] | None:
    """The same inserts as a Loop in onnxruntime; None where it is not installed."""
    try:
        import onnx.parser
        import onnxruntime
    except ImportError:
        return None
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        appends (int64 count, float[3] element) => (seq(float[]) result) {
            start = SequenceEmpty <dtype = 1> ()
            condition = Constant <value = bool {1}> ()
            result = Loop (count, condition, start) <body = step
                (int64 i, bool go_on, seq(float[]) before) => (bool still, seq(float[]) after) {
                    still = Identity (go_on)
                    after = SequenceInsert (before, element)
                }>
        }""")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda count: session.run(None, {"count": np.asarray(count), "element": ELEMENT})


def main() -> None:
    """Print all figures."""
    arrays = [np.full((2, 3), i, dtype=np.float32) for i in range(3)]
    sequence = sa.ArraySequence(arrays)
    x = arrays[0]

    print(f"numpy {np.__version__}; medians of {ROUNDS} interleaved rounds\n")
    print(f"{'':<72} {'seqarray':>14} {'other':>14} {'ratio':>8}")
    calls = 10_000
    report(
        "concat 3 x (2, 3) from a sequence / np.concatenate of the list",
        lambda: sa.concat_from_sequence(sequence, axis=0),
        lambda: np.concatenate(arrays, axis=0),
        calls,
    )
    report(
        "concat 3 x (2, 3) from a list / np.concatenate of the list",
        lambda: sa.concat_from_sequence(arrays, axis=0),
        lambda: np.concatenate(arrays, axis=0),
        calls,
    )
    report(
        "stack 3 x (2, 3) from a sequence / np.stack",
        lambda: sa.concat_from_sequence(sequence, axis=0, new_axis=1),
        lambda: np.stack(arrays, axis=0),
        calls,
    )
    report(
        "split (2, 3) into rows / [c.copy() for c in np.split(x, 2)]",
        lambda: sa.split_to_sequence(x),
        lambda: [chunk.copy() for chunk in np.split(x, 2)],
        calls,
    )
    report(
        "... every row taken / the same",
        lambda: list(sa.split_to_sequence(x)),
        lambda: [chunk.copy() for chunk in np.split(x, 2)],
        calls,
    )
    report("sequence_at / x.copy()", lambda: sa.sequence_at(sequence, 1), x.copy, calls)

    print(f"\n{'growth':<72} {'long':>14} {'short':>14} {'ratio':>8}")
    report("32 000 appends / 4 000 appends, whole", lambda: appended(32_000), lambda: appended(4_000), 1)
    long, short, steps = appended(64_000), appended(1_000), 500
    report(
        "push and pop, per step, n = 64 000 / n = 1 000",
        lambda: push_and_pop(long, steps),
        lambda: push_and_pop(short, steps),
        4,
        unit=2 * steps,
    )
    report(
        "a step of a sliding window of 1 000 / a list's append and pop(0)",
        lambda: slide(short, steps),
        lambda: slide_list([ELEMENT] * 1_000, steps),
        4,
        unit=steps,
    )
    loop = onnxruntime_appends()
    if loop is None:
        print("onnxruntime is not installed: its Loop is not timed")
        return
    report("4 000 appends / onnxruntime's Loop", lambda: appended(4_000), lambda: loop(4_000), 1)
    report("onnxruntime alone: 16 000 appends / 4 000", lambda: loop(16_000), lambda: loop(4_000), 1, rounds=3)


def slide_list(items: list[np.ndarray], steps: int) -> None:
    """What `slide` does, on a list that may be changed."""
    for _ in range(steps):
        items.append(ELEMENT)
        items.pop(0)


if __name__ == "__main__":
    main()
