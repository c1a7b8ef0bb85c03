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
from seqarray._operators.ragged import concat_each, pack, pad_sequence, sequence_mask, unpack, unpad_sequence
from seqarray._operators.splitting import split, split_to_sequence

__all__ = [
    "concat_each",
    "concat_from_sequence",
    "pack",
    "pad_sequence",
    "sequence_at",
    "sequence_construct",
    "sequence_empty",
    "sequence_erase",
    "sequence_insert",
    "sequence_length",
    "sequence_map",
    "sequence_mask",
    "split",
    "split_to_sequence",
    "unpack",
    "unpad_sequence",
]
