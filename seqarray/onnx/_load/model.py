"""Models read from files, bytes or protos, and checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import onnx

from seqarray.onnx._load.checking import check
from seqarray.onnx._load.tensor_protos import DataFolder, check_external, embed_external, is_external

#: Domain, name and overload of a function.
FunctionKey = tuple[str, str, str]

#: How many levels deep graphs and functions may be nested.
MAX_NESTING = 32


class Model:
    """A checked model.

    Attributes
    ----------
    graph : onnx.GraphProto
        The main graph.
    functions : dict
        The functions that the model defines, by domain, name and overload.
    opsets : dict
        Domain to version of the operator sets that it imports.
    folder : DataFolder or None
        Where its external data lies; None for a model that is not a file.
    source : Source
        What it was made of.
    """

    def __init__(self, proto: onnx.ModelProto, folder: DataFolder | None, source: Source | None = None) -> None:
        self.proto = proto
        self.graph = proto.graph
        self.functions = {function_key(function): function for function in proto.functions}
        self.opsets = opsets_of(proto)
        self.folder = folder
        self.source = source or Source(proto, "")


class Source(NamedTuple):
    """What a model was made of: a path, bytes or a `ModelProto`; and the digest of the model."""

    given: Any
    digest: str

    def load(self) -> Model:
        """Read the model again.

        Raises
        ------
        ValueError
            If it has changed since.
        """
        model = load(self.given)
        if self.digest not in ("", model.source.digest):
            raise ValueError("the model has changed since it was prepared")
        return model

    def to_bytes(self) -> bytes:
        """Return the model as the bytes of one file, with the data that lies in other files.

        Raises
        ------
        ValueError
            If it has changed since it was read, or has more than 2 GB.
        """
        model = self.load()
        external = list(filter(is_external, _tensors(model.proto)))
        if isinstance(self.given, bytes) and not external:
            return self.given
        for tensor in external:
            embed_external(tensor, model.folder)
        try:
            return bytes(model.proto.SerializeToString())
        except Exception as error:  # protobuf's EncodeError, or a ValueError
            raise ValueError(f"the model cannot be written as one file: {error}") from error


def load(model: Any) -> Model:
    """Read a model from a path, from bytes or from a `ModelProto`, and check it.

    Raises
    ------
    ValueError
        If it is no ONNX model, or not a valid one according to `onnx.checker`.
    TypeError
        If `model` is of another kind.
    """
    folder, source = None, "the model"
    if isinstance(model, onnx.ModelProto):
        proto = model
    elif isinstance(model, (bytes, bytearray, memoryview)):
        model = bytes(model)
        proto = _parse(model, source)
    elif isinstance(model, (str, os.PathLike)):
        model = path = Path(model).absolute()
        folder, source = DataFolder(path.parent, path.resolve().parent), str(path)
        proto = _parse(path.read_bytes(), source)
    else:
        raise TypeError(f"prepare: model is a {type(model).__name__}; expected a path, bytes or an onnx.ModelProto")
    # Nothing else, onnx's checker included, sees a tensor whose data is where the model may not read.
    for tensor in filter(is_external, _tensors(proto)):
        check_external(tensor, folder)
    # The checker compares the values of a sparse tensor with its indices.
    for tensor in filter(is_external, _sparse_parts(proto)):
        embed_external(tensor, folder)
    return Model(proto, folder, Source(model, check(proto, source)))


def _parse(content: bytes, source: str) -> onnx.ModelProto:
    """Parse the bytes of a file."""
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:  # protobuf's DecodeError, which has moved between its versions
        raise ValueError(f"prepare: {source} cannot be read as an ONNX model: {error}") from error
    return proto


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield every graph of a model; a function as a graph without inputs and initializers."""
    training = chain.from_iterable((info.initialization, info.algorithm) for info in proto.training_info)
    waiting: list[tuple[Any, int]] = [(graph, 0) for graph in (proto.graph, *proto.functions, *training)]
    while waiting:
        graph, depth = waiting.pop()
        if depth > MAX_NESTING:
            raise ValueError(f"prepare: graphs are nested deeper than {MAX_NESTING} levels")
        yield graph
        waiting += [(inner, depth + 1) for attribute in _attributes(graph) for inner in graphs_of(attribute)]


def _attributes(graph: Any) -> Iterator[onnx.AttributeProto]:
    """Yield the attributes of the nodes of a graph or a function, and the defaults of those of a function."""
    yield from chain.from_iterable(node.attribute for node in graph.node)
    yield from getattr(graph, "attribute_proto", ())


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of a model, at any depth."""
    for graph in _graphs(proto):
        yield from getattr(graph, "initializer", ())
        yield from tensors_of(_attributes(graph))
    yield from _sparse_parts(proto)


def _sparse_parts(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the values and the indices of every sparse tensor of a model, at any depth."""
    for graph in _graphs(proto):
        yield from _parts_of(getattr(graph, "sparse_initializer", ()))
        for attribute in _attributes(graph):
            yield from _parts_of(attribute.sparse_tensors)
            if attribute.HasField("sparse_tensor"):
                yield from _parts_of([attribute.sparse_tensor])


def _parts_of(tensors: Iterable[onnx.SparseTensorProto]) -> Iterator[onnx.TensorProto]:
    """Yield the values and the indices of sparse tensors."""
    for sparse in tensors:
        yield from (sparse.values, sparse.indices)


def tensors_of(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    """Yield the tensors that attributes contain, except sparse ones and those in graphs."""
    for attribute in attributes:
        yield from attribute.tensors
        if attribute.HasField("t"):
            yield attribute.t


def graphs_of(attribute: onnx.AttributeProto) -> tuple[onnx.GraphProto, ...]:
    """Return the graphs that an attribute contains."""
    return (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs)


def domain_of(proto: Any) -> str:
    """Return the domain of a node or function, "" for both names of ONNX's own."""
    return "" if proto.domain == "ai.onnx" else str(proto.domain)


def function_key(proto: onnx.FunctionProto | onnx.NodeProto) -> FunctionKey:
    """Return what identifies a function: domain, name and overload; of a node, those of the function that it calls."""
    name = proto.name if isinstance(proto, onnx.FunctionProto) else proto.op_type
    return domain_of(proto), name, getattr(proto, "overload", "")


def opsets_of(proto: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """Return the versions of the operator sets that a model or a function imports, by domain."""
    return {domain_of(opset): opset.version for opset in proto.opset_import}
