"""
Memory of views and of copies
=============================

Chunks of one array keep all of it alive. ``nbytes`` counts the elements, ``nbytes_held`` what is kept for them.
"""

import matplotlib.pyplot as plt
import numpy as np

import seqarray as sa

MEGABYTE = 1_000_000
chunks = sa.split_to_sequence(np.zeros(8 * MEGABYTE, dtype=np.uint8), MEGABYTE, copy=None)

# %%
# Half of the chunks are dropped. The rest are still views of the whole:

half = chunks[::2]
print(half.nbytes / MEGABYTE, half.nbytes_held / MEGABYTE)

# %%
# A copy holds its own elements and nothing else, and so does a pickle that has been read.

copied = sa.sequence_construct(*half, copy=True)
print(copied.nbytes / MEGABYTE, copied.nbytes_held / MEGABYTE)

# %%
# What is inserted beside the views is counted once, whatever sequences share it.

longer = sa.sequence_insert(half, np.zeros(MEGABYTE, dtype=np.uint8))

sequences = {
    "the whole split": chunks,
    "half of it": half,
    "half of it, copied": copied,
    "half of it, and one more": longer,
}
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
places = np.arange(len(sequences))
held = [sequence.nbytes_held / MEGABYTE for sequence in sequences.values()]
used = [sequence.nbytes / MEGABYTE for sequence in sequences.values()]
axes.barh(places, held, color="#c7cdd4", label="kept in memory (nbytes_held)")
axes.barh(places, used, height=0.45, color="#0072b2", label="of elements (nbytes)")
axes.set(yticks=places, yticklabels=list(sequences), xlabel="megabytes", title="A few views hold all of their array")
axes.invert_yaxis()
axes.set_xlim(0, 11)
figure.legend(loc="outside lower center", ncols=2, frameon=False)
plt.show()
