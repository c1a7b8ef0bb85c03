"""
Boxes of detections on images
=============================

A detector finds a different number of boxes in every image, none at all included. Here three synthetic images have
bright rectangles, whose noisy boxes are thinned out image by image and joined again, as a training loop wants them.
"""

import matplotlib.pyplot as plt
import numpy as np

import seqarray as sa

random = np.random.default_rng(1)
objects = sa.ArraySequence(
    [
        np.asarray([[8, 8, 30, 26], [34, 30, 58, 56]]),
        np.empty((0, 4), dtype=np.int64),  # nothing is there
        np.asarray([[20, 6, 52, 22], [6, 28, 24, 58], [36, 34, 56, 54]]),
    ]
)


def image_of(boxes):
    """A dark image with noise, and with what is in the boxes (left, top, right, bottom)."""
    image = random.normal(0.15, 0.05, size=(64, 64))
    for left, top, right, bottom in boxes:
        image[top:bottom, left:right] += 0.5
    return image


images = sa.sequence_map(objects, body=image_of)

# %%
# A stand-in for the detector: it sees every object four times, a little beside where it is, with a score each time.
# Boxes and scores are two sequences of the same lengths.

found = sa.sequence_map(
    objects, body=lambda boxes: boxes.repeat(4, axis=0) + random.normal(0, 1.5, (len(boxes) * 4, 4))
)
scores = sa.sequence_map(found, body=lambda boxes: random.uniform(0.3, 1, len(boxes)))
print(found.sizes(), scores.sizes())

# %%
# The best box of every object stays. The function gets one image's boxes and scores, and returns two arrays; so
# ``sequence_map`` returns two sequences.


def overlaps(box, others):
    """The areas that a box shares with others, by those that they cover together."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=1)
    areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], axis=1)
    return shared / (sum(areas) - shared)


def best(boxes, scores):
    """Keep the boxes that no better one covers by half."""
    order = np.argsort(-scores)
    kept = []
    while len(order):
        first, order = order[0], order[1:]
        kept.append(first)
        order = order[overlaps(boxes[first], boxes[order]) < 0.5]
    kept = np.asarray(kept, dtype=np.int64)
    return boxes[kept], scores[kept]


kept, kept_scores = sa.sequence_map(found, scores, body=best)
print(kept.sizes())

# %%
# Joined, with the number of the image that each box belongs to:

print(sa.concat_from_sequence(kept, axis=0).round().astype(int))
print(kept.segment_ids())

figure, axes = plt.subplots(1, 3, figsize=(8, 3.2), layout="constrained")
for panel, image, before, after in zip(axes, images, found, kept, strict=True):
    panel.imshow(image, cmap="gray", vmin=0, vmax=1)
    for boxes, style in ((before, {"color": "#e69f00", "lw": 0.8}), (after, {"color": "#56b4e9", "lw": 2.5})):
        for left, top, right, bottom in boxes:
            panel.add_patch(plt.Rectangle((left, top), right - left, bottom - top, fill=False, **style))
    panel.set(title=f"{len(before)} boxes, {len(after)} kept", xticks=[], yticks=[])
plt.show()
