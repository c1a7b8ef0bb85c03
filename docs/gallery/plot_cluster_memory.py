"""
Memory of a job on a cluster
============================

More data than the workers have memory for: split into recordings, changed, joined and summed with the same function
as on one array. Here it runs on threads of this process and 40 MB; the picture shows the stored result of the job with
4 GB.
"""

import json
from pathlib import Path

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import seqarray as sa


def total_rise(x, lengths):
    """How far all rows together lie above the first row of their recording. The same for every array library."""
    recordings = sa.split_to_sequence(x, lengths, copy=None)
    rises = sa.sequence_map(recordings, body=lambda recording: recording - recording[:1, :])
    return rises.namespace.sum(sa.concat_from_sequence(rises, axis=0))


rows, lengths = 5000, [700, 1900, 2400]
lazy = da.arange(rows, chunks=1000, dtype="float64")[:, None] * da.ones((1, 1000))
total = total_rise(lazy, lengths)
print(total)

# %%
# Nothing has been computed so far. On NumPy, the same function computes at once:

print(float(total.compute()) == total_rise(np.arange(float(rows))[:, None] * np.ones((1, 1000)), lengths))

# %%
# ``python -m benchmarks.cluster`` runs it with 4 GB on two workers, which are killed when they exceed their limit.

here = Path.cwd()
project = next(folder for folder in (here, *here.parents) if (folder / "benchmarks" / "results").is_dir())
stored = json.loads((project / "benchmarks" / "results" / "cluster.json").read_text(encoding="utf-8"))
job = stored["job"]

peaks = [peak / 1e6 for peak in job["peak_bytes"]]
names = ["all data", "limit of a worker", *(f"worker {number}, at most" for number in range(1, len(peaks) + 1))]
megabytes = [job["data_bytes"] / 1e6, job["memory_limit_bytes"] / 1e6, *peaks]

figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
bars = axes.barh(names, megabytes, color=["#c7cdd4", "#e69f00", *["#0072b2"] * len(peaks)])
axes.bar_label(bars, [f"{value:,.0f} MB" for value in megabytes], padding=4)
axes.set(xlabel="megabytes", xlim=(0, max(megabytes) * 1.18), title="Each worker held a small part of the data")
axes.invert_yaxis()
plt.show()
