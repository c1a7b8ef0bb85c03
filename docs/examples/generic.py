"""One function for every array library: a softmax within the segments of an array.

    python docs/examples/generic.py

It is called with an array of each library that is installed, and gives an array of that library, on the same device.
"""

import importlib
import sys

import numpy as np

import seqarray as sa

LIBRARIES = ["numpy", "torch", "jax.numpy", "dask.array", "cupy", "array_api_strict"]

LENGTHS = [3, 1, 4]
SCORES = np.asarray([0.5, 2.0, 1.0, -3.0, 1.0, 1.0, 0.0, 4.0], dtype=np.float32)


def segment_softmax(scores, lengths):
    """The softmax of each segment of a vector, in place of the segment; `lengths` are those of the segments."""
    segments = sa.split_to_sequence(scores, lengths)
    xp = segments.namespace

    def softmax(segment):
        powers = xp.exp(segment - xp.max(segment))
        return powers / xp.sum(powers)

    return sa.concat_from_sequence(sa.sequence_map(segments, body=softmax), axis=0)


def usable_libraries():
    """The libraries that are installed and have a device to work on, by name."""
    usable = {}
    for name in LIBRARIES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            print(f"{name}: not installed")
            continue
        if name == "cupy" and not module.cuda.is_available():
            print("cupy: no usable GPU")
            continue
        usable[name] = module
    return usable


def main():
    """The exit status: 0 if all libraries give the same."""
    expected = np.concatenate([np.exp(part) / np.exp(part).sum() for part in np.split(SCORES, [3, 4])])
    different = 0
    for name, module in usable_libraries().items():
        result = segment_softmax(module.asarray(SCORES), LENGTHS)
        values = sa.testing.to_numpy(result)  # to be shown; this computes what is lazy
        agrees = np.allclose(values, expected)
        different += not agrees
        kind = f"{type(result).__module__}.{type(result).__name__}"
        shown = " ".join(f"{value:.2f}" for value in values)
        print(f"{name}: {kind}, {shown}{'' if agrees else ' DIFFERENT'}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
