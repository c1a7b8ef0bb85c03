"""Runs a fuzzer for long: `python -m tests.fuzz NAME [--backend numpy] [--cases 100000] [--seed 0]`.

The names are arguments, operators, edits, pickles, threads, forks, files and memory.  A case is one operation, or a
damaged file that is loaded.  Exit status 1 if one is wrong.  Damaged models have a command of their own,
`python -m tests.onnx.fuzz`.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from conftest import BACKENDS, CUPY_HOST, Backend, namespace_of
from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.memory import growth

#: Cases of one seed; histories begin anew with every seed.
BATCH = 3000


def backend_of(name: str) -> Backend:
    """Return a backend with its default device."""
    if name == CUPY_HOST:
        from tests.cupy_host import entry_points

        entry_points.start()
        name = "cupy"
    return Backend(name, namespace_of(BACKENDS[name]), None)


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 if every case is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*FUZZERS, "memory"])
    parser.add_argument("--backend", default="numpy", choices=[*BACKENDS, CUPY_HOST])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    backend, start = backend_of(options.backend), time.perf_counter()
    if options.name == "memory":
        print(f"{options.backend}: {growth(backend, options.cases)} in {time.perf_counter() - start:.0f} s")
        return 0
    for number in range(-(-options.cases // BATCH)):
        try:
            FUZZERS[options.name](backend, options.seed + number, min(BATCH, options.cases - number * BATCH))
        except Exception:
            traceback.print_exc()
            print(f"{options.name} on {options.backend}: seed {options.seed + number} is wrong")
            return 1
    print(f"{options.name} on {options.backend}: {options.cases} cases in {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
