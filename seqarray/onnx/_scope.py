"""The names that the nodes of a graph or of a function can refer to while it is compiled."""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto


class Scope:
    """The names of one graph or of one call of a function.

    Attributes
    ----------
    opsets : dict
        Domain to version of the operator sets.
    parent : Scope or None
        The scope of the outer graph.
    attributes : dict or None
        The attributes of the call of a function, by name; None outside of functions.
    prefix : str
        What the labels of nodes begin with.
    depth : int
        How many graphs this one is nested in.
    callers : tuple
        The functions that are being inlined, outermost first.
    slots : dict
        Name to slot.
    is_standard : bool
        Whether this is inside a function by which the standard defines an operator: functions of the model do not
        stand for operators there.
    """

    def __init__(
        self,
        opsets: dict[str, int],
        *,
        parent: Scope | None = None,
        attributes: dict[str, AttributeProto] | None = None,
        prefix: str = "",
        depth: int = 0,
        callers: tuple[Any, ...] = (),
        is_standard: bool = False,
    ) -> None:
        self.opsets = opsets
        self.parent = parent
        self.attributes = attributes
        self.prefix = prefix
        self.depth = depth
        self.callers = callers
        self.is_standard = is_standard
        self.slots: dict[str, int] = {}

    def inner(self) -> Scope:
        """Return a new scope for a graph in an attribute of a node of this one."""
        return Scope(
            self.opsets,
            parent=self,
            attributes=self.attributes,
            depth=self.depth + 1,
            callers=self.callers,
            is_standard=self.is_standard,
        )

    def find(self, name: str) -> int | None:
        """Return the slot of a name in this scope or an outer one; None if there is none."""
        scope: Scope | None = self
        while scope is not None:
            slot = scope.slots.get(name)
            if slot is not None:
                return slot
            scope = scope.parent
        return None
