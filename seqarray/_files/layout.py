"""What a file holds: its index, and how the dtypes are written that .npz does not know.

The index is a JSON object of the `VERSION` and of `values`, which maps each name, in order, to null for None, or to an
object with

* `kind`: "array" or "sequence";
* `values`: the entry of the array, or of all elements of the sequence;
* `dtype`: what the entry does not tell: the name of an extension type, whose bits the entry holds, or of the kind of
  text, whose UTF-8 it holds;
* `ends`: for text, the entry with the place in the UTF-8 at which each string ends, in the shape of the array;
* `axis` and `offsets`: for elements that differ along one axis only, which `values` holds joined, that axis and the
  entry with the n + 1 bounds;
* `shapes`: for other elements, which `values` holds one after the other, the entry with a row for each, which is filled
  with -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqarray._dtypes import ONNX_TYPES, STANDARD_TYPES

INDEX = "seqarray.json"
VERSION = 1

#: The ending of the entries of arrays.
ENDING = ".npy"

#: Text that is more than str_, whose entries `numpy.load` reads, by the name that a file has for it.
TEXT_DTYPES: dict[str, Any] = {"object": np.dtype(object), "StringDType": np.dtypes.StringDType()}

#: Strings may hold halves of surrogate pairs, which UTF-8 does not have.
SURROGATES = "surrogatepass"

#: Element types that .npy does not have.
EXTENSIONS = frozenset(ONNX_TYPES) - STANDARD_TYPES - {"float16", "string"}

#: The maximum length of the description of a dtype, beyond which `numpy.load` refuses it, too.
MAX_HEADER = 10_000


def bits_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of integers as which the bits of an extension type are stored."""
    return np.dtype(f"<u{dtype.itemsize}")
