"""Loading a model, and checking it once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import onnx
import onnx.checker
import onnx.defs

#: How deep graphs and functions may be nested in one another.
MAX_NESTING = 32


class Model:
    """A checked model.

    Attributes
    ----------
    graph : onnx.GraphProto
        Its graph.
    functions : dict
        Its own functions by domain and name.
    opsets : dict
        The versions of the operator sets it uses, by domain.
    folder : Path or None
        Where its other files have to be; None for a model that is not a file.
    """

    def __init__(self, proto: onnx.ModelProto, folder: Path | None) -> None:
        self.proto = proto
        self.graph = proto.graph
        self.functions = {
            (domain_of(function), function.name, getattr(function, "overload", "")): function
            for function in proto.functions
        }
        self.opsets = opsets_of(proto)
        self.folder = folder


def load(model: Any) -> Model:
    """A model from a path, from bytes or from a `ModelProto`.

    Raises
    ------
    ValueError
        If it is no ONNX model, or onnx finds something wrong with it.
    TypeError
        If `model` is of another kind.
    """
    folder, source = None, "the model"
    if isinstance(model, onnx.ModelProto):
        proto = model
    elif isinstance(model, (bytes, bytearray, memoryview)):
        proto = _parsed(bytes(model), source)
    elif isinstance(model, (str, os.PathLike)):
        path = Path(model)
        folder, source = path.parent, str(path)
        proto = _parsed(path.read_bytes(), source)
    else:
        raise TypeError(f"prepare: model is a {type(model).__name__}; expected a path, bytes or an onnx.ModelProto")
    if any(node.domain == "ai.onnx" for node in _nodes(proto)) or "ai.onnx" in _domains(proto):
        proto = _with_one_name(proto)
    _check(proto, source)
    return Model(proto, folder)


def _parsed(content: bytes, source: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:  # protobuf's DecodeError, which has moved between its versions
        raise ValueError(f"prepare: {source} cannot be read as an ONNX model: {error}") from error
    return proto


def _domains(proto: onnx.ModelProto) -> Iterator[str]:
    for scope in (proto, *proto.functions):
        yield from (opset.domain for opset in scope.opset_import)
    yield from (function.domain for function in proto.functions)


def _with_one_name(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which ONNX's own domain is "" everywhere, as onnx's checker wants it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for named in (
        *_nodes(copy),
        *copy.functions,
        *(opset for scope in (copy, *copy.functions) for opset in scope.opset_import),
    ):
        named.domain = domain_of(named)
    return copy


def _check(proto: onnx.ModelProto, source: str) -> None:
    checked = proto
    if any(map(_is_external, _tensors(proto))):
        # The checker would look for the files, in the working directory.  They are read, and checked, later.
        checked = onnx.ModelProto()
        checked.CopyFrom(proto)
        for tensor in filter(_is_external, _tensors(checked)):
            tensor.ClearField("data_location")
            tensor.ClearField("external_data")
            tensor.ClearField("dims")
            tensor.dims.append(0)
    newest = onnx.defs.onnx_opset_version()
    for opset in proto.opset_import:
        if opset.domain == "" and opset.version > newest:
            raise ValueError(
                f"prepare: {source} is of opset {opset.version}; "
                f"the newest that onnx {onnx.__version__} knows is {newest}"
            )
    try:
        onnx.checker.check_model(checked)
    except Exception as error:  # ValidationError, and what protobuf raises
        raise ValueError(f"prepare: {source} is not valid: {error}") from error


def _is_external(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Every graph of a model, that of a function as one that has nodes only."""
    waiting = [(proto.graph, 0), *((function, 0) for function in proto.functions)]
    while waiting:
        graph, depth = waiting.pop()
        if depth > MAX_NESTING:
            raise ValueError(f"prepare: graphs are nested deeper than {MAX_NESTING} levels")
        yield graph
        waiting += [
            (inner, depth + 1) for node in graph.node for attribute in node.attribute for inner in graphs_of(attribute)
        ]


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    return chain.from_iterable(graph.node for graph in _graphs(proto))


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model that may lie in another file."""
    for graph in _graphs(proto):
        if isinstance(graph, onnx.GraphProto):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                yield from attribute.tensors
                if attribute.HasField("t"):
                    yield attribute.t
                if attribute.HasField("sparse_tensor"):
                    yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)


def graphs_of(attribute: onnx.AttributeProto) -> tuple[onnx.GraphProto, ...]:
    """The graphs that an attribute holds."""
    return (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs)


def domain_of(proto: Any) -> str:
    """The domain of a node or function; ONNX's own has two names."""
    return "" if proto.domain == "ai.onnx" else str(proto.domain)


def opsets_of(proto: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """The versions of the operator sets that a model or a function uses, by domain."""
    return {domain_of(opset): opset.version for opset in proto.opset_import}
