"""ONNX models that hold sequences, run on every array library of the Python array API standard.

This package needs onnx, which ``pip install onnx`` installs.
"""

try:
    import onnx as _onnx
except ImportError as error:
    raise ImportError("seqarray.onnx needs the onnx package: pip install onnx") from error

from seqarray.onnx import backend
from seqarray.onnx._load.value_protos import from_proto, to_proto
from seqarray.onnx._lower.lowering import lower
from seqarray.onnx._program import Program, prepare

del _onnx

__all__ = ["Program", "backend", "from_proto", "lower", "prepare", "to_proto"]


def __dir__() -> list[str]:
    """Return the public names, without the submodules that importing them has loaded."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
