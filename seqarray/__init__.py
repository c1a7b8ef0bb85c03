"""The ONNX sequence operators on every array library of the Python array API standard."""

import typing as _t

from seqarray import opset, testing
from seqarray._engines import get_num_threads, host_pool, set_num_threads
from seqarray._files import load, save
from seqarray._operators import (
    concat_each,
    concat_from_sequence,
    pack,
    pad_sequence,
    sequence_at,
    sequence_construct,
    sequence_empty,
    sequence_erase,
    sequence_insert,
    sequence_length,
    sequence_map,
    sequence_mask,
    split,
    split_to_sequence,
    unpack,
    unpad_sequence,
)
from seqarray._pytrees import register_pytrees
from seqarray._sequence import ArraySequence

if _t.TYPE_CHECKING:
    from seqarray import onnx as onnx

__version__ = "0.1.0"

__all__ = [
    "ArraySequence",
    "concat_each",
    "concat_from_sequence",
    "get_num_threads",
    "host_pool",
    "load",
    "opset",
    "pack",
    "pad_sequence",
    "register_pytrees",
    "save",
    "sequence_at",
    "sequence_construct",
    "sequence_empty",
    "sequence_erase",
    "sequence_insert",
    "sequence_length",
    "sequence_map",
    "sequence_mask",
    "set_num_threads",
    "split",
    "split_to_sequence",
    "testing",
    "unpack",
    "unpad_sequence",
]


def __dir__() -> list[str]:
    # Not in __all__, since it needs the onnx package.
    return [*(name for name in globals() if name.startswith("__")), *__all__, "onnx"]


if not _t.TYPE_CHECKING:

    def __getattr__(name: str) -> _t.Any:
        """Import `seqarray.onnx` when it is first used: it needs the onnx package."""
        if name == "onnx":
            import importlib  # noqa: PLC0415

            return importlib.import_module("seqarray.onnx")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
