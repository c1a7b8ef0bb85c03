"""The model of ``seqarray demo``."""

from __future__ import annotations

import onnx.parser

from seqarray.onnx._program import Program, prepare

#: Splits a text into words, takes each code of each word from a table, and joins the words.
_MODEL = """<ir_version: 8, opset_import: ["": 17]>
decode (int32[N] text, int64[M] lengths, int32[K] table) => (int32[L] decoded) {
    words = SplitToSequence (text, lengths)
    plain = SequenceMap (words, table) <
        body = decode_word (int32[A] word, int32[B] codes) => (int32[C] taken) { taken = Gather (codes, word) }
    >
    decoded = ConcatFromSequence <axis = 0> (plain)
}"""


def make_program(xp: str) -> Program:
    """Return a program whose inputs are the codes of a text, the lengths of its words, and a table of codes."""
    return prepare(onnx.parser.parse_model(_MODEL), xp=xp)
