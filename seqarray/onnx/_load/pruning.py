"""What of a graph is needed for some of its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import onnx

from seqarray.onnx._load.model import graphs_of


class Needed(NamedTuple):
    """What of a graph is needed: the places of its nodes, and all names that are read."""

    nodes: frozenset[int]
    names: frozenset[str]


def needed_for(graph: onnx.GraphProto, names: Iterable[str]) -> Needed:
    """Return what is needed for the values with some names."""
    producers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    nodes: set[int] = set()
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        index = producers.get(name)
        if index is not None and index not in nodes:
            nodes.add(index)
            waiting += names_read(graph.node[index])
    return Needed(frozenset(nodes), frozenset(seen))


def values_of(graph: onnx.GraphProto) -> set[str]:
    """Return the names of all values of a graph, but not of those in the graphs of its nodes."""
    names = {value.name for value in (*graph.input, *graph.initializer)}
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    names.update(name for node in graph.node for name in node.output if name)
    return names


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, also those that its graphs take from the graph around them."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in graphs_of(attribute):
            yield from captured_names(graph)


def captured_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names that a graph, or a graph in it, reads and does not define."""
    defined = {value.name for value in (*graph.input, *graph.initializer)}
    defined.update(sparse.values.name for sparse in graph.sparse_initializer)
    captured: set[str] = set()
    for node in graph.node:
        captured.update(name for name in names_read(node) if name not in defined)
        defined.update(node.output)
    captured.update(output.name for output in graph.output if output.name not in defined)
    return captured
