"""The inputs and outputs of a program, and the feeds: values that a caller passes for the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqarray._dtypes import native
from seqarray._libraries import NUMPY, Library, library_of
from seqarray._sequence import ArraySequence, empty_kind, make
from seqarray.onnx._load.names import plain
from seqarray.onnx._load.type_protos import ValueType
from seqarray.onnx._load.value_protos import is_proto, value_of
from seqarray.onnx._run.executor import Execution
from seqarray.onnx._run.placement import FEW_VALUES, dtype_for_host
from seqarray.onnx._run.values import check_value


class GraphValue:
    """An input or an output of the main graph.

    Attributes
    ----------
    name : str
        Its name.
    type : ValueType
        The type that the model declares.
    slot : int
        The slot that holds its value during an execution.
    """

    __slots__ = ("name", "slot", "type")

    def __init__(self, name: str, declared: ValueType, slot: int) -> None:
        self.name = name
        self.type = declared
        self.slot = slot

    def __repr__(self) -> str:
        return f"<{plain(self.name)}: {self.type}>"


class GraphInput(GraphValue):
    """An input of the main graph.

    Attributes
    ----------
    has_default : bool
        Whether an initializer gives its value if it is left out.
    """

    __slots__ = ("_dtype", "_rank", "has_default")

    def __init__(self, name: str, declared: ValueType, slot: int, has_default: bool) -> None:
        super().__init__(name, declared, slot)
        self.has_default = has_default
        # For a tensor of numbers without fixed lengths, comparing dtype and rank is the whole check.
        self._dtype: Any = None
        self._rank = -1
        element_type = declared.element_type
        if not declared.sequence and declared.shape is not None and not declared.lengths and element_type is not None:
            if element_type != "string" and NUMPY.can_hold(element_type):
                self._dtype, self._rank = dtype_for_host(element_type), len(declared.shape)

    @property
    def usual(self) -> tuple[Any, int]:
        """The dtype and the rank of which comparing is the whole check of a NumPy array; None if there are none."""
        return self._dtype, self._rank

    def check(self, value: Any) -> Any:
        """Return a value as an array, an ArraySequence or None if it has the declared type; raise otherwise."""
        if type(value) is np.ndarray and value.ndim == self._rank and value.dtype == self._dtype:
            return value
        label = f"input {self.name!r}"
        if is_proto(value):
            try:
                value = value_of(value)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{label} cannot be read: {error}") from error
        return check_value(value, self.type, label)

    def move_to_target(self, value: Any, execution: Execution) -> Any:
        """Return a checked value on the target; small NumPy arrays of integers or bools stay on the host.

        Raises
        ------
        TypeError
            If the value is of an array library other than the target's or NumPy.
        ValueError
            If it is on another device.
        """
        if type(value) is np.ndarray and not value.dtype.isnative:
            value = value.astype(native(value.dtype))  # as all that is computed of it shall be
        if value is None or (type(value) is np.ndarray and not execution.moves):
            return value
        target, label = execution.target, f"input {self.name!r}"
        if type(value) is ArraySequence:
            library, device = value._kind.library, value.device
            if library is None or (not value and library is NUMPY):
                return make(empty_kind(value.element_type, target.library, target.device, operator=label), (), 0)
            if execution.moves and library is NUMPY:
                execution.to_device += len(value)
                return value.to(xp=target.library.namespace, device=target.device, copy=True)
        else:
            library = library_of(value)
            device = library.device_of(value)
        if library is NUMPY and execution.moves:
            # It may be a position, a size or a condition.
            if value.dtype.kind in "biu" and value.size <= FEW_VALUES:
                return value
            return execution.move_to_device(value)
        if library is not target.library:
            raise TypeError(
                f"{label} is of {library.name}; the program is on {target}, "
                "and nothing is moved between array libraries"
            )
        if not target.matches(library, device):
            raise ValueError(
                f"{label} is on {device}; the program is on {target}, and nothing is moved between devices"
            )
        return value


Feeds = list[tuple[GraphInput, Any]]


def feeds_by_name(inputs: Mapping[str, Any], declared: Sequence[GraphInput]) -> Feeds:
    """Return the checked feeds of a mapping from names to values."""
    feeds = []
    for graph_input in declared:
        if graph_input.name in inputs:
            feeds.append((graph_input, graph_input.check(inputs[graph_input.name])))
        elif not graph_input.has_default:
            raise ValueError(f"run: input {graph_input.name!r} is missing; expected {graph_input.type}")
    if len(feeds) < len(inputs):
        known = [graph_input.name for graph_input in declared]
        unknown = next(name for name in inputs if name not in known)
        raise ValueError(f"run: the model has no input {unknown!r}; it has {', '.join(known) or 'none'}")
    return feeds


def feeds_in_order(inputs: Sequence[Any], declared: Sequence[GraphInput]) -> Feeds:
    """Return the checked feeds of a list of values for all inputs, or for all inputs without a default."""
    if len(inputs) != len(declared):
        required = [graph_input for graph_input in declared if not graph_input.has_default]
        if len(inputs) != len(required):
            names = ", ".join(graph_input.name for graph_input in required) or "none"
            raise ValueError(f"run: got {len(inputs)} inputs; the model takes {len(required)} ({names})")
        declared = required
    return [(graph_input, graph_input.check(value)) for graph_input, value in zip(declared, inputs, strict=True)]


def library_and_device_of(feeds: Feeds) -> tuple[Library, Any]:
    """Return the library and device of the first feed that is not NumPy's; NumPy's if there is none."""
    for _, value in feeds:
        if type(value) is ArraySequence:
            library = value._kind.library
            if library is not None and library is not NUMPY:
                return library, value.device
        elif value is not None and type(value) is not np.ndarray:
            library = library_of(value)
            if library is not NUMPY:
                return library, library.device_of(value)
    return NUMPY, None
