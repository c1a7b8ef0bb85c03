"""The value of a Constant node, which the compiler reads once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from seqarray.onnx._load.tensor_protos import array_of, dense_array_of, dense_nbytes_of, nbytes_of
from seqarray.onnx._ops.node import Node
from seqarray.onnx._run.placement import dtype_for_host


def constant_value(node: Node, reserve: Callable[[int, str], None]) -> np.ndarray[Any, Any]:
    """Return the value of a Constant from whichever attribute holds it.

    Parameters
    ----------
    node : Node
        The node.
    reserve : callable
        Called with the bytes of a tensor and a label before it is read; raises if they exceed a limit.
    """
    if len(node.attributes) != 1 or node.n_outputs != 1:
        raise ValueError(f"{node.label}: it has attributes {sorted(node.attributes)}; expected exactly one")
    ((name, value),) = node.attributes.items()
    if name == "value":
        reserve(nbytes_of(value), node.label)
        return array_of(value, node.folder)
    if name == "sparse_value":
        reserve(dense_nbytes_of(value), node.label)
        return dense_array_of(value, node.folder)
    element_types = {"float": "float32", "int": "int64", "string": "string"}
    element_type = element_types.get(name.removeprefix("value_").removesuffix("s"))
    if element_type is None:
        raise ValueError(f"{node.label}: attribute {name!r} is not known")
    reserve(len(value) * 8 if isinstance(value, list) else 8, node.label)
    return np.asarray(value, dtype=dtype_for_host(element_type))
