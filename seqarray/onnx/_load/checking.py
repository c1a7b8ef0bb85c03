"""The check of a model by `onnx.checker`, on an outline of the model that leaves out its data."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import onnx
import onnx.checker
import onnx.defs

from seqarray.onnx._load.tensor_protos import is_external, nbytes_of

#: Tensors of more bytes are without values in the outline.
_SMALL_NBYTES = 1024

#: The first version of the format in which initializers need not be inputs.
_FREE_INITIALIZERS_SINCE = 4


def check(proto: onnx.ModelProto, source: str) -> str:
    """Raise a ValueError if a model is not valid or its opset is newer than the onnx package; return a digest of it.

    The checker sees an outline.  It would look for data in other files in the working directory, cannot take a model of
    2 GB, and refuses what the standard allows or leaves open, and what other runtimes accept: values without a shape,
    outputs without a type, graphs without a name, initializers that are no inputs in a format in which they had to be,
    and functions that import another version of an operator set than the model.

    The digest is that of the outline: it tells whether a model has changed, but not the values of large tensors.
    """
    newest = onnx.defs.onnx_opset_version()
    for opset in proto.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            raise ValueError(
                f"prepare: {source} is of opset {opset.version}; "
                f"the newest that onnx {onnx.__version__} knows is {newest}"
            )
    try:
        outline = _outline_of(proto).SerializeToString(deterministic=True)
        onnx.checker.check_model(outline, skip_opset_compatibility_check=True)
    except Exception as error:  # ValidationError, and errors of protobuf
        raise ValueError(f"prepare: {source} is not valid: {error}") from error
    return sha256(outline).hexdigest()


def _outline_of(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without the values of large tensors, and with what the checker alone demands."""
    outline = onnx.ModelProto()
    _outline_fields(proto, outline)
    if outline.ir_version == _FREE_INITIALIZERS_SINCE - 1:
        outline.ir_version = _FREE_INITIALIZERS_SINCE
    for scope in (outline, *outline.functions):
        for opset in scope.opset_import:
            opset.domain = _domain(opset.domain)
    return outline


def _domain(name: str) -> str:
    """Return a domain as the checker knows it: ONNX's own has two names."""
    return "" if name == "ai.onnx" else name


def _outline_fields(source: Any, target: Any) -> None:
    """Copy the fields of a message; parts that may hold tensors as outlines."""
    for field, value in source.ListFields():
        outline = _OUTLINES.get(field.message_type.name) if field.message_type is not None else None
        if outline is None:
            _copy_field(field.name, value, target)
        elif isinstance(value, Iterable):
            for item in value:
                outline(item, getattr(target, field.name).add())
        else:
            getattr(target, field.name).SetInParent()
            outline(value, getattr(target, field.name))


def _copy_field(name: str, value: Any, target: Any) -> None:
    """Copy a field without tensors: a message, a number, a text, or several of one of these."""
    if isinstance(value, (int, float, str, bytes)):
        setattr(target, name, value)
    elif isinstance(value, Iterable):
        getattr(target, name).extend(value)
    else:
        getattr(target, name).CopyFrom(value)


def _outline_graph(source: onnx.GraphProto, target: onnx.GraphProto) -> None:
    """Copy a graph as an outline; each gets a name, and what has no shape, or as an output no type, gets some."""
    _outline_fields(source, target)
    target.name = target.name or "graph"
    for value in target.output:
        if value.type.WhichOneof("value") in (None, "tensor_type") and not value.type.tensor_type.elem_type:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for value in (*target.input, *target.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()


def _outline_function(source: onnx.FunctionProto, target: onnx.FunctionProto) -> None:
    """Copy a function as an outline."""
    _outline_fields(source, target)
    target.domain = _domain(target.domain)


def _outline_node(source: onnx.NodeProto, target: onnx.NodeProto) -> None:
    """Copy a node as an outline."""
    if any(a.HasField("t") or a.HasField("g") or len(a.tensors) or len(a.graphs) for a in source.attribute):
        _outline_fields(source, target)
    else:
        target.CopyFrom(source)
    if target.domain:
        target.domain = _domain(target.domain)


def _outline_tensor(source: onnx.TensorProto, target: onnx.TensorProto) -> None:
    """Copy a small tensor; of others the name and the type, as a tensor without values."""
    if is_external(source) or nbytes_of(source) > _SMALL_NBYTES:
        target.name, target.data_type = source.name, source.data_type
        target.dims.append(0)
    else:
        target.CopyFrom(source)


#: Messages that may hold tensors, and how an outline of them is made.  The checker compares the values of a sparse
#: tensor with its indices, so these are whole.
_OUTLINES = {
    "AttributeProto": _outline_fields,
    "FunctionProto": _outline_function,
    "GraphProto": _outline_graph,
    "NodeProto": _outline_node,
    "TensorProto": _outline_tensor,
    "TrainingInfoProto": _outline_fields,
}
