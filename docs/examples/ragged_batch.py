"""A ragged batch: matrices of different lengths go to a device as one, are worked on as one, and come apart again.

    python docs/examples/ragged_batch.py [--xp torch] [--device cpu] [FILE.py ...]

The texts are files of Python's standard library.  Of each file the tokenizer makes a matrix, a row for every token.
"""

import argparse
import importlib.util
import itertools
import sys
import sysconfig
import tokenize
from pathlib import Path

import numpy as np

import seqarray as sa

STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
FILES = [STANDARD_LIBRARY / name for name in ("this.py", "bisect.py", "colorsys.py", "keyword.py", "statistics.py")]


def token_features(path):
    """A float32 matrix of a row for every token: its kind, its length, its line and its column."""
    with path.open("rb") as file:
        tokens = [(t.type, len(t.string), *t.start) for t in tokenize.tokenize(file.readline)]
    return np.asarray(tokens, dtype=np.float32)


def scaled(texts, xp, device):
    """Every matrix divided by each column's largest value in the whole batch; and where in the batch it began."""
    batch = texts.to(xp=xp, device=device)  # one transfer, however many texts there are
    joined = sa.concat_from_sequence(batch, axis=0)
    joined = joined / batch.namespace.max(joined, axis=0)
    lengths = batch.sizes()  # known on the host; nothing is read from the device
    offsets = list(itertools.accumulate(lengths, initial=0))[:-1]
    return sa.split_to_sequence(joined, lengths).to(xp="numpy", device="cpu"), offsets


def main(arguments=None):
    """The exit status: 0 if every text is what it is when worked on alone, 1 or what is missing if not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xp", default="numpy", help="the array library, such as torch or cupy; default numpy")
    parser.add_argument("--device", help='such as "cpu" or "cuda:0"; default that of the array library')
    parser.add_argument("files", metavar="FILE.py", nargs="*", type=Path, default=FILES, help="texts to use instead")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec(options.xp) is None:
        return f"--xp {options.xp}: it is not installed"

    try:
        texts = sa.ArraySequence([token_features(path) for path in options.files])
        results, offsets = scaled(texts, options.xp, options.device)
    except (OSError, SyntaxError, ValueError) as error:
        return str(error)
    print(f"{sum(texts.sizes())} tokens of {len(texts)} texts, worked on by {options.xp}")
    largest = np.max([np.max(text, axis=0) for text in texts], axis=0)
    right = True
    for path, text, result, offset in zip(options.files, texts, results, offsets, strict=True):
        right = right and result.dtype == np.float32 and np.allclose(result, text / largest, rtol=1e-6)
        print(f"{path.name}: {len(result)} tokens from row {offset}; mean column {result[:, 3].mean():.3f}")
    print("as when each is worked on alone" if right else "DIFFERENT from when each is worked on alone")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
