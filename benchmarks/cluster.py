"""More data than the workers of a cluster have memory for: ``python -m benchmarks.cluster``.

Runs docs/examples/beyond_one_machine.py on 4 GB and two workers of 1 GB, and writes times and memory to a JSON file and
a Markdown file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import machine

PROJECT = Path(__file__).parents[1]
SCRIPT = PROJECT / "docs" / "examples" / "beyond_one_machine.py"
RESULTS = PROJECT / "benchmarks" / "results" / "cluster.json"


def script() -> Any:
    """Import the worked example as a module."""
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(megabytes: int, memory_limit: int) -> dict[str, Any]:
    """Run the job; return its times and memory, and whether its total is right.  The limit is in megabytes."""
    example = script()
    rows = megabytes * 1_000_000 // (8 * example.COLUMNS)
    result = example.run_on_cluster(rows, memory_limit * 1_000_000)
    return {
        "data_bytes": rows * 8 * example.COLUMNS,
        "recordings": len(example.lengths_of_recordings(rows)),
        "chunks": -(-rows // example.ROWS_PER_CHUNK),
        "workers": 2,
        "memory_limit_bytes": memory_limit * 1_000_000,
        "right": result["total"] == example.expected_total(rows),
        **result,
    }


def report(machine_facts: dict[str, Any], job: dict[str, Any]) -> str:
    """Write the result as Markdown."""
    peaks = " and ".join(f"{peak / 1e6:.0f} MB" for peak in job["peak_bytes"])
    cells = {
        "data": f"{job['data_bytes'] / 1e9:.1f} GB in {job['chunks']} chunks and {job['recordings']} recordings",
        "workers": f"{job['workers']} processes of {job['memory_limit_bytes'] / 1e6:.0f} MB, nothing to disk",
        "total": "right" if job["right"] else f"WRONG: {job['total']:.0f}",
        "workers killed": job["killed"],
        "most memory of each worker": peaks,
        "writing the graph": f"{job['tasks']} tasks in {job['graph_seconds']:.2f} s",
        "computing": f"{job['compute_seconds']:.1f} s, {job['data_bytes'] / job['compute_seconds'] / 1e9:.2f} GB/s",
    }
    versions = ", ".join(f"{name} {version}" for name, version in machine_facts["versions"].items())
    made_with = (
        f"{machine_facts['date']}, commit {machine_facts['commit'][:12]}, {machine_facts['cpu']} with "
        f"{machine_facts['cpus']} processors; Python {machine_facts['python']}, {versions}; "
        f"`{machine_facts['command']}`"
    )
    explanation = (
        "The job is [docs/examples/beyond_one_machine.py](../../docs/examples/beyond_one_machine.py): split into "
        "recordings, take each relative to its first row, join, sum. A worker that exceeds its limit is killed, and "
        "then the job has failed."
    )
    lines = [
        "# More data than the workers have memory for",
        "",
        made_with,
        "",
        explanation,
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in cells.items()),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the job, and return the exit status: 0 if the total is right and no worker was killed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=4000, help="how much data; default 4000")
    parser.add_argument("--memory-limit", type=int, default=1000, help="megabytes of each worker; default 1000")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where to write; a .md is written beside it")
    options = parser.parse_args(arguments)
    try:
        job = measure(options.megabytes, options.memory_limit)
    except ImportError as error:
        print(f"error: this needs dask and distributed: {error}", file=sys.stderr)
        return 2
    command = ["python", "-m", "benchmarks.cluster", *(sys.argv[1:] if arguments is None else arguments)]
    facts = machine.description(command)
    facts["versions"] = {name: version(name) for name in ("seqarray", "numpy", "dask", "distributed")}
    text = report(facts, job)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": facts, "job": job}, indent=1) + "\n", encoding="utf-8")
    options.json.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    return 0 if job["right"] and not job["killed"] else 1


if __name__ == "__main__":
    sys.exit(main())
