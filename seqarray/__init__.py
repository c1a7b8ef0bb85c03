"""The ONNX sequence operators on every array library of the Python array API standard."""

from seqarray import opset, testing
from seqarray.copying import get_num_threads, host_pool, set_num_threads
from seqarray.operators import (
    concat_from_sequence,
    sequence_at,
    sequence_construct,
    sequence_empty,
    sequence_erase,
    sequence_insert,
    sequence_length,
    sequence_map,
    split,
    split_to_sequence,
)
from seqarray.pytrees import register_pytrees
from seqarray.sequence import ArraySequence

__version__ = "0.1.0"

__all__ = [
    "ArraySequence",
    "concat_from_sequence",
    "get_num_threads",
    "host_pool",
    "opset",
    "register_pytrees",
    "sequence_at",
    "sequence_construct",
    "sequence_empty",
    "sequence_erase",
    "sequence_insert",
    "sequence_length",
    "sequence_map",
    "set_num_threads",
    "split",
    "split_to_sequence",
    "testing",
]
