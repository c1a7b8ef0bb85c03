"""What a graph takes and gives, and how values come in and go out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from seqarray._dtypes import can_hold
from seqarray._libraries import device_of, library_of, namespace_of
from seqarray._sequence import ArraySequence, empty
from seqarray.onnx._load.tensor_protos import NUMPY
from seqarray.onnx._load.type_protos import ValueType, checked
from seqarray.onnx._run.executor import Run
from seqarray.onnx._run.placement import FEW_VALUES, dtype_for_host


class GraphValue:
    """An input or an output of a graph.

    Attributes
    ----------
    name : str
        Its name.
    type : ValueType
        The type that the model declares.
    slot : int
        Where it is during a run.
    has_default : bool
        Whether an input may be left out.
    """

    __slots__ = ("_dtype", "_rank", "has_default", "name", "slot", "type")

    def __init__(self, name: str, declared: ValueType, slot: int, has_default: bool = False) -> None:
        self.name = name
        self.type = declared
        self.slot = slot
        self.has_default = has_default
        # A tensor of plain numbers all of whose lengths are open is recognised by these two.
        self._dtype: Any = None
        self._rank = -1
        element_type = declared.element_type
        if not declared.sequence and declared.shape is not None and not declared.lengths and element_type is not None:
            if element_type != "string" and can_hold(NUMPY, element_type):
                self._dtype, self._rank = dtype_for_host(element_type), len(declared.shape)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type}>"

    def checked(self, value: Any) -> Any:
        """A value that was given for it, if it is of its type."""
        if type(value) is np.ndarray and value.ndim == self._rank and value.dtype == self._dtype:
            return value
        return checked(value, self.type, f"input {self.name!r}")

    def arrived(self, value: Any, run: Run) -> Any:
        """A value where the program computes; what may be a position, a size or a condition is left on the host."""
        if value is None or (type(value) is np.ndarray and not run.moves):
            return value
        place, label = run.place, f"input {self.name!r}"
        if type(value) is ArraySequence:
            if value.namespace is None or (not value and value.namespace is NUMPY):
                return empty(value.element_type, place.namespace, place.device, operator=label)
            if run.moves and value.namespace is NUMPY:
                run.to_device += len(value)
                return value.to(xp=place.namespace, device=place.device, copy=True)
            namespace, device = value.namespace, value.device
        else:
            namespace, device = namespace_of(value), device_of(value)
        if namespace is NUMPY and run.moves:
            return value if value.dtype.kind in "biu" and value.size <= FEW_VALUES else run.on_device(value)
        if namespace is not place.namespace:
            raise TypeError(
                f"{label} is of {library_of(namespace)}; the program is on {place}, "
                "and nothing is moved between array libraries"
            )
        if not place.holds(namespace, device):
            raise ValueError(f"{label} is on {device}; the program is on {place}, and nothing is moved between devices")
        return value


Given = list[tuple[GraphValue, Any]]


def given_by_name(inputs: Mapping[str, Any], declared: Sequence[GraphValue]) -> Given:
    """The inputs that a mapping gives, checked."""
    given = []
    for wanted in declared:
        if wanted.name in inputs:
            given.append((wanted, wanted.checked(inputs[wanted.name])))
        elif not wanted.has_default:
            raise ValueError(f"run: input {wanted.name!r} is missing; expected {wanted.type}")
    if len(given) < len(inputs):
        known = [value.name for value in declared]
        unknown = next(name for name in inputs if name not in known)
        raise ValueError(f"run: the model has no input {unknown!r}; it has {', '.join(known) or 'none'}")
    return given


def given_in_order(inputs: Sequence[Any], declared: Sequence[GraphValue]) -> Given:
    """The inputs that a list gives, checked; those that have a default are all given, or none of them."""
    if len(inputs) != len(declared):
        required = [value for value in declared if not value.has_default]
        if len(inputs) != len(required):
            names = ", ".join(value.name for value in required) or "none"
            raise ValueError(f"run: got {len(inputs)} inputs; the model takes {len(required)} ({names})")
        declared = required
    return [(wanted, wanted.checked(value)) for wanted, value in zip(declared, inputs, strict=True)]


def library_in_use(given: Given) -> tuple[Any, Any]:
    """The namespace and the device of the inputs: those of the first that is not on NumPy."""
    for _, value in given:
        if type(value) is ArraySequence:
            if value.namespace is not None and value.namespace is not NUMPY:
                return value.namespace, value.device
        elif value is not None and type(value) is not np.ndarray and namespace_of(value) is not NUMPY:
            return namespace_of(value), device_of(value)
    return NUMPY, None


def named(names: Iterable[str], declared: Sequence[GraphValue]) -> list[GraphValue]:
    """The outputs of some names."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise TypeError(f"run: outputs is {names!r}; expected a list of names")
    known = {value.name: value for value in declared}
    for name in names:
        if name not in known:
            raise ValueError(f"run: the model has no output {name!r}; it has {', '.join(known)}")
    return [known[name] for name in names]
