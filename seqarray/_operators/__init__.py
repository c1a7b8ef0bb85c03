"""The ONNX sequence operators, written once for every array namespace."""

from seqarray._operators.elements import (
    sequence_at,
    sequence_construct,
    sequence_empty,
    sequence_erase,
    sequence_insert,
    sequence_length,
)
from seqarray._operators.joining import concat_from_sequence
from seqarray._operators.mapping import sequence_map
from seqarray._operators.splitting import split, split_to_sequence

__all__ = [
    "concat_from_sequence",
    "sequence_at",
    "sequence_construct",
    "sequence_empty",
    "sequence_erase",
    "sequence_insert",
    "sequence_length",
    "sequence_map",
    "split",
    "split_to_sequence",
]
