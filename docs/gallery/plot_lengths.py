"""
Lengths before and after
========================

Recordings of different lengths are cut to at most 60 steps. Their lengths are known at every moment, and no element is
made to ask for them.
"""

import matplotlib.pyplot as plt
import numpy as np

import seqarray as sa

random = np.random.default_rng(0)
sizes = random.integers(10, 120, 24)
recordings = sa.split_to_sequence(random.normal(size=(sizes.sum(), 3)), sizes)

# %%
# The function gets one recording at a time, as an array. What it returns may have another length.

shortened = sa.sequence_map(recordings, body=lambda recording: recording[:60])
print(shortened)

# %%
# Both sequences tell their lengths as an array.

before, after = recordings.lengths(), shortened.lengths()
print(f"{before.sum()} steps before, {after.sum()} after")

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
places = np.arange(len(recordings))
axes.bar(places, before, color="#c7cdd4", label="before")
axes.bar(places, after, color="#0072b2", label="after")
axes.set(xlabel="recording", ylabel="steps", title="No recording is longer than 60 steps any more")
axes.legend(frameon=False, ncols=2)
plt.show()
