"""Compiled nodes and graphs, which the compiler makes and the executor runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from seqarray.onnx._run.placement import Placement


class NodeInfo(NamedTuple):
    """What is known of a node for those who look at a program.

    Attributes
    ----------
    label : str
        The node as error messages name it.
    name : str
        Its name; "" for none.
    domain : str
        Its domain, "" for ONNX's own.
    op_type : str
        Its operator.
    version : int
        The version of the operator.
    text : str
        The node as `print(program)` shows it.
    fallback : bool
        Whether seqarray has no kernel for the operator.
    """

    label: str
    name: str
    domain: str
    op_type: str
    version: int
    text: str
    fallback: bool = False

    @property
    def operator(self) -> str:
        """The operator with its version, and its domain unless that is ONNX's own."""
        return f"{f'{self.domain}.' if self.domain else ''}{self.op_type}-{self.version}"


@dataclass(slots=True, eq=False)
class Step:
    """A compiled node: its names resolved to slots, its operator to a function.

    Attributes
    ----------
    label : str
        The node as error messages name it.
    function : callable
        Called as ``function(execution, *arguments)``, or as ``function(execution, step)`` if there are subgraphs;
        returns the outputs in order.
    placements : tuple of Placement
        Where the function reads each of the inputs.
    inputs, outputs : tuple of int
        Slots.  Slot 0 holds None, for inputs that are left out.
    dead : tuple of int
        Slots that no later step reads, which are emptied after this one.
    captured : frozenset of int
        Slots of outer graphs that the subgraphs read.
    computes : bool
        Whether the step computes numbers, so that NumPy could warn of overflows and divisions by zero.
    fallback : bool
        Whether seqarray has no kernel for the operator, so that something else runs it.
    engine : str
        What runs the step, if it is not seqarray: "onnxruntime" or "onnx.reference".
    subgraphs : tuple of Subgraph
        The graphs among the attributes of the node; for a region, its nodes as steps of their own.
    binder : Binder or None
        How a closure is made of the step; None if there is none.
    nodes : tuple of NodeInfo
        The node, or those of a region; none if the steps in its subgraphs are shown in its place.
    names_itself : bool
        Whether the errors of the function begin with a label already.
    """

    label: str
    function: Callable[..., Sequence[Any]]
    placements: tuple[Placement, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dead: tuple[int, ...] = ()
    captured: frozenset[int] = frozenset()
    computes: bool = False
    fallback: bool = False
    engine: str = ""
    subgraphs: tuple[Subgraph, ...] = ()
    binder: Any = None
    nodes: tuple[NodeInfo, ...] = ()
    names_itself: bool = False

    @property
    def operator(self) -> str:
        """The operator and its version, such as "SplitToSequence-11"; of a region, the number of its nodes."""
        return self.nodes[0].operator if len(self.nodes) == 1 else f"{len(self.nodes)} nodes"


@dataclass(slots=True, eq=False)
class Subgraph:
    """A compiled graph: the main graph of a model, or one in an attribute of a node.

    Attributes
    ----------
    name : str
        The name of the graph.
    inputs, outputs : tuple of int
        Slots.
    steps : list of Step
        The compiled nodes in order.
    captured : frozenset of int
        Slots of outer graphs that the steps or the outputs read.
    local_slots : tuple of int
        Slots of inputs and outputs that belong to no outer graph; emptied after each execution.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: list[Step]
    captured: frozenset[int]
    local_slots: tuple[int, ...]


def slots_read(subgraph: Subgraph) -> set[int]:
    """Return the slots that the steps of a subgraph read and that it gives; of a region, what its session is given."""
    read = set(subgraph.outputs)
    for step in subgraph.steps:
        read.update(step.inputs)
        if step.engine != "onnxruntime":
            for inner in step.subgraphs:
                read |= slots_read(inner)
    return read


def make_subgraph(
    name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], steps: list[Step], constants: dict[int, Any]
) -> Subgraph:
    """Make a subgraph of its steps, and set the slots that are dead after each of them."""
    local = set(inputs).union(*(step.outputs for step in steps)) - constants.keys()
    needed = set(outputs)
    used: set[int] = set(outputs)
    for step in reversed(steps):
        read = {*step.inputs, *step.captured}
        step.dead = tuple(((read | set(step.outputs)) & local) - needed)
        needed |= read
        used |= read
    captured = frozenset(used - local - constants.keys() - {0})
    return Subgraph(name, inputs, outputs, steps, captured, tuple(local & {*inputs, *outputs}))
