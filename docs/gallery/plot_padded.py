"""
A padded batch and its mask
===========================

Models want one rectangular array. A batch of sentences becomes one, together with the mask that says where its values
are, goes through a layer, and comes back without the padding.
"""

import matplotlib.pyplot as plt
import numpy as np

import seqarray as sa

sentences = ["a ragged batch", "is arrays of", "different lengths", "and", "nothing more than that"]
batch = sa.ArraySequence([np.frombuffer(text.encode(), dtype=np.uint8) for text in sentences])
print(batch)

# %%
# Each row is filled up to the longest one, here with zeros.

padded = sa.pad_sequence(batch)
mask = sa.sequence_mask(batch.lengths())
print(padded.shape, mask.shape)

# %%
# The layer, a table with four numbers for each letter, sees the rectangle. What it makes of the padding is dropped.

table = np.random.default_rng(0).normal(size=(128, 4))
result = sa.unpad_sequence(table[padded], batch.lengths())
print(result.shapes)

figure, (above, below) = plt.subplots(2, 1, figsize=(7, 4), layout="constrained")
above.imshow(np.where(mask, padded, np.nan), aspect="auto", cmap="Blues", vmin=32, vmax=200, interpolation="nearest")
above.set(title="The padded batch: a row for each sentence, a column for each letter")
for (row, column), letter in np.ndenumerate(padded):
    above.text(column, row, chr(letter) if letter else "", ha="center", va="center", fontsize=9)
below.imshow(mask, aspect="auto", cmap="gray", vmin=-0.5, vmax=1.5, interpolation="nearest")
below.set(title="Its mask: light where there are values", xlabel="letter")
for axes in (above, below):
    axes.set(ylabel="sentence", xticks=range(0, padded.shape[1], 5), yticks=range(len(sentences)))
plt.show()
