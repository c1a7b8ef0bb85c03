"""ONNX models that hold sequences, run on every array library of the Python array API standard.

This package needs onnx, which ``pip install "seqarray[onnx]"`` brings.
"""

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError('seqarray.onnx needs the onnx package: pip install "seqarray[onnx]"') from error

from seqarray.onnx._program import Program, prepare
from seqarray.onnx.backend import SeqarrayBackend as backend  # noqa: N813

__all__ = ["Program", "backend", "prepare"]
