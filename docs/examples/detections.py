"""What follows an object detector: of each image's boxes the best are kept, and those of all images are joined.

    python docs/examples/detections.py

Images have different numbers of boxes, and some have none.
"""

import sys

import numpy as np

import seqarray as sa

LEAST_SCORE = 0.5
LARGEST_OVERLAP = 0.5


def best_boxes(boxes, scores):
    """Of one image's boxes (n, 4) and scores (n,) those that count, the best first: non-maximum suppression."""
    candidates = np.argsort(-scores, kind="stable")
    candidates = candidates[scores[candidates] >= LEAST_SCORE]
    kept = []
    while len(candidates):
        best, candidates = candidates[0], candidates[1:]
        kept.append(best)
        candidates = candidates[overlap(boxes[best], boxes[candidates]) <= LARGEST_OVERLAP]
    kept = np.asarray(kept, dtype=np.int64)
    return boxes[kept], scores[kept]


def overlap(box, others):
    """Intersection over union of a box (4,) with others (n, 4); a box is left, top, right, bottom."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=-1)
    return shared / (area(box) + area(others) - shared)


def area(boxes):
    """Of each box."""
    return np.prod(boxes[..., 2:] - boxes[..., :2], axis=-1)


def detected(boxes, scores):
    """From a sequence of boxes and one of scores, three arrays: image number, box and score of every detection."""
    boxes, scores = sa.sequence_map(boxes, scores, body=best_boxes)
    images = np.repeat(np.arange(len(boxes)), boxes.sizes())
    return images, sa.concat_from_sequence(boxes, axis=0), sa.concat_from_sequence(scores, axis=0)


def example_images():
    """Boxes and scores of four images: two objects seen several times, nothing, nothing certain, one object."""
    boxes = [
        [[10, 10, 50, 50], [12, 11, 52, 50], [60, 20, 90, 80], [61, 22, 90, 78], [11, 9, 49, 52]],
        np.empty((0, 4)),
        [[0, 0, 5, 5], [70, 70, 75, 75]],
        [[30, 30, 40, 40]],
    ]
    scores = [[0.8, 0.9, 0.6, 0.7, 0.55], [], [0.2, 0.4], [0.95]]
    return (sa.ArraySequence([np.asarray(x, dtype=np.float32) for x in values]) for values in (boxes, scores))


def main():
    """Print what is detected in the example images."""
    boxes, scores = example_images()
    print(f"boxes of {len(boxes)} images: {boxes.sizes()}")
    images, boxes, scores = detected(boxes, scores)
    for image, box, score in zip(images, boxes, scores, strict=True):
        print(f"image {image}: box {box.astype(int).tolist()}, score {score:.2f}")
    print(f"{len(images)} detections, in arrays of shapes {boxes.shape} and {scores.shape}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
