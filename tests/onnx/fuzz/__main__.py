"""Runs damaged ONNX models in processes of their own: each has to give a result or one of the errors we name.

    python -m tests.onnx.fuzz [--count 5000] [--first 0] [--seed 17 ...]
    python -m tests.onnx.fuzz --keep 17 "what went wrong"

Every seed is one damaged model and inputs for it, always the same ones: bytes changed anywhere in a model's file, or
fields of it set to odd values, other names, or parts of other models.  A process that crashes, hangs, takes memory
without bounds or raises anything else is reported with the seed.  Exit status 1 if there is such a seed.

Seeds give other cases once a model is added here or to the conformance cases.  So what was once wrong is kept as it is,
with --keep, in kept_cases.json; seeds -1, -2 and so on are these cases, and every run begins with them.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter

from tests.onnx.fuzz.cases import keep, kept_cases
from tests.onnx.fuzz.watchdog import Finding, watch_several
from tests.onnx.fuzz.worker import NAMED_ERRORS, work

HARMLESS = {"result", *(error.__name__ for error in NAMED_ERRORS)}


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 if every seed gives a result or one of the errors we name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="how many seeds; default 300")
    parser.add_argument("--first", type=int, default=0, help="the first of them; default 0")
    parser.add_argument("--seed", type=int, action="append", help="this seed only (may be given repeatedly)")
    parser.add_argument("--keep", nargs=2, metavar=("SEED", "REASON"), help="add a seed to those that are run always")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        work()
        return 0
    if options.keep:
        keep(int(options.keep[0]), options.keep[1])
        return 0

    kept = range(-1, -len(kept_cases()) - 1, -1)
    seeds = options.seed or [*kept, *range(options.first, options.first + options.count)]
    outcomes: Counter[str] = Counter()
    lock = threading.Lock()

    def report(finding: Finding) -> None:
        with lock:
            outcomes[finding.outcome] += 1
            if finding.outcome not in HARMLESS:
                print(f"seed {finding.seed}: {finding.outcome}: {finding.note}", flush=True)

    watch_several(seeds, report)
    findings = sum(count for outcome, count in outcomes.items() if outcome not in HARMLESS)
    print(f"{sum(outcomes.values())} seeds: {dict(outcomes.most_common())}; {findings} findings")
    return 1 if findings or sum(outcomes.values()) != len(seeds) else 0


if __name__ == "__main__":
    sys.exit(main())
