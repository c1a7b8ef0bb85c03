"""Split, map and join more than fits into memory: one function, on one array, on a GPU, and on a cluster.

    python docs/examples/beyond_one_machine.py [--on numpy|cupy|cluster] [--megabytes 800] [--memory-limit 300]

The rows of an array belong to recordings of different lengths, one after the other.  The script takes every recording
relative to its first row, joins them again and sums.  On the cluster, two worker processes share the work; the data are
more than both may hold together, nothing goes to disk, and a worker that exceeds its memory limit is killed.
"""

import argparse
import importlib
import os
import re
import sys
import time
from pathlib import Path

import seqarray as sa

COLUMNS = 1000
ROWS_PER_CHUNK = 1000  # 8 MB

CLUSTER_SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.scheduler.allowed-failures": 0,
    # Fused with the pieces that are cut out of it, a chunk is no longer known for what it is, a place to begin, and the
    # scheduler begins all of them at once.
    "optimization.fuse.active": False,
}


def total_rise(x, lengths):
    """How far all rows together lie above the first row of their recording.  The same for every array library."""
    recordings = sa.split_to_sequence(x, lengths, copy=None)
    rises = sa.sequence_map(recordings, body=lambda recording: recording - recording[:1, :])
    return rises.namespace.sum(sa.concat_from_sequence(rises, axis=0))


def numbered_rows(xp, rows, **chunks):
    """A float64 array of a NumPy-like library, in which every row holds its own number."""
    return xp.arange(rows, dtype="float64", **chunks)[:, None] * xp.ones((1, COLUMNS))


def lengths_of_recordings(rows):
    """Lengths that sum to `rows`; where a recording ends and where a chunk ends have nothing to do with each other."""
    lengths = [700, 1900, 3400] * (rows // 6000)
    return [*lengths, rows - sum(lengths)]


def expected_total(rows):
    """What `total_rise` has to be: in a recording, row number k lies k above the first, in every column."""
    return float(COLUMNS * sum(length * (length - 1) // 2 for length in lengths_of_recordings(rows)))


def run_on_cluster(rows, memory_limit):
    """The total, what it took, and the most memory (in bytes) that each of 2 worker processes had at any time."""
    import dask.array  # noqa: PLC0415
    import distributed  # noqa: PLC0415

    size = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": memory_limit}
    with (
        dask.config.set(CLUSTER_SETTINGS),
        distributed.LocalCluster(**size, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        processes = client.run(os.getpid)
        began = time.perf_counter()
        x = numbered_rows(dask.array, rows, chunks=ROWS_PER_CHUNK)
        total = total_rise(x, lengths_of_recordings(rows))
        written = time.perf_counter()  # up to here, nothing has been computed
        return {
            "total": float(total.compute()),
            "tasks": len(total.__dask_graph__()),
            "graph_seconds": written - began,
            "compute_seconds": time.perf_counter() - written,
            "killed": len(processes.items() - client.run(os.getpid).items()),
            "peak_bytes": sorted(client.run(peak_memory).values()),
        }


def peak_memory():
    """The most memory that this process has had at any time; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


def main(arguments=None):
    """The exit status: 0 if the total is right, 1 or what is missing if not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=["numpy", "cupy", "cluster"], default="cluster", help="default cluster")
    parser.add_argument("--megabytes", type=int, default=800, help="how much data; default 800")
    parser.add_argument("--memory-limit", type=int, default=300, help="megabytes for each of 2 workers; default 300")
    options = parser.parse_args(arguments)
    needed = ["dask.array", "distributed"] if options.on == "cluster" else [options.on]
    try:
        xp, *_ = map(importlib.import_module, needed)
    except ImportError as error:
        return f"--on {options.on} needs {' and '.join(needed)}: {error}"
    if options.on == "cupy" and not xp.cuda.is_available():
        return "--on cupy needs a GPU that CuPy can use"

    rows = options.megabytes * 1_000_000 // (8 * COLUMNS)
    print(f"{options.megabytes} MB in {len(lengths_of_recordings(rows))} recordings, on {options.on}")
    if options.on == "cluster":
        result = run_on_cluster(rows, options.memory_limit * 1_000_000)
        total = result["total"]
        peaks = " and ".join(f"{peak / 1e6:.0f}" for peak in result["peak_bytes"])
        print(f"a graph of {result['tasks']} tasks, written in {result['graph_seconds']:.1f} s")
        print(f"computed in {result['compute_seconds']:.1f} s by 2 workers of at most {options.memory_limit} MB each")
        print(f"which took {peaks} MB; killed: {result['killed']}")
    else:
        total = float(total_rise(numbered_rows(xp, rows), lengths_of_recordings(rows)))
    right = total == expected_total(rows)
    print(f"total {total:.0f}: {'right' if right else f'WRONG, expected {expected_total(rows):.0f}'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
