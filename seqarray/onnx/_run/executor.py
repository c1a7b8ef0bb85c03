"""Running the steps of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from seqarray._arguments import check_readable
from seqarray._dtypes import element_type_of, itemsize_of
from seqarray._libraries import Array
from seqarray._sequence import ArraySequence
from seqarray.onnx._run.placement import Place, download, dtype_for_host


@dataclass(slots=True, eq=False)
class Step:
    """One node, with its names resolved to slots and its operator to a function.

    Attributes
    ----------
    label : str
        The node, as error messages name it.
    function : callable
        Called as ``function(run, *arguments)``, or as ``function(run, step)`` if there are blocks; returns the outputs
        in order.
    roles : str
        Where each input has to be, the last one's for all further inputs: "d" on the device, "h" on the host, "s" on
        the host if all of them are there and else on the device, "." anywhere.
    inputs, outputs : tuple of int
        Slots.  Slot 0 is None, for inputs left out.
    dead : tuple of int
        Slots whose values nobody needs after this step.
    captured : frozenset of int
        Slots of outer graphs that graphs in this step read.
    computes : bool
        Whether numbers are computed, so that there may be overflows and divisions by zero.
    fallback : bool
        Whether this is onnx's reference implementation on NumPy.
    blocks : tuple of Block
        The graphs in this step.
    text : str
        The step as it is printed.
    """

    label: str
    function: Callable[..., Sequence[Any]]
    roles: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dead: tuple[int, ...] = ()
    captured: frozenset[int] = frozenset()
    computes: bool = False
    fallback: bool = False
    blocks: tuple[Block, ...] = ()
    text: str = ""


@dataclass(slots=True, eq=False)
class Block:
    """The steps of a graph.

    Attributes
    ----------
    name : str
        The name of the graph.
    inputs, outputs : tuple of int
        Slots.
    steps : list of Step
        In order.
    captured : frozenset of int
        Slots of outer graphs that it reads.
    own : tuple of int
        Slots of its inputs and outputs that are not of an outer graph: to be emptied when it is left.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: list[Step]
    captured: frozenset[int]
    own: tuple[int, ...]


class Run:
    """The state of one run of a program."""

    __slots__ = ("budget", "max_trip_count", "moves", "place", "to_device", "to_host", "values")

    def __init__(self, values: list[Any], place: Place, max_trip_count: int | None, max_bytes: int | None) -> None:
        self.values = values
        self.place = place
        self.moves = not place.is_numpy
        self.max_trip_count = max_trip_count
        self.budget = None if max_bytes is None else Budget(max_bytes)
        self.to_host = 0
        self.to_device = 0

    def on_device(self, value: Any) -> Any:
        """An array where the program computes."""
        if self.moves and isinstance(value, np.ndarray):
            constant = self.place.constant_on_device(value)
            if constant is not None:
                return constant
            self.to_device += 1
            return self.place.upload(value)
        return value

    def on_host(self, value: Array) -> np.ndarray[Any, Any]:
        """An array as a NumPy array."""
        if isinstance(value, np.ndarray):
            return value
        self.to_host += 1
        return download(value)

    def read(self, value: Any) -> Any:
        """An input that is needed on the host."""
        return self.placed([value], "h")[0] if self.moves else value

    def placed(self, arguments: list[Any], roles: str) -> list[Any]:
        """The arguments of a step where they have to be."""
        last = len(roles) - 1
        together = all(isinstance(v, np.ndarray) for i, v in enumerate(arguments) if roles[min(i, last)] == "s")
        for index, value in enumerate(arguments):
            if value is None or type(value) is ArraySequence:
                continue
            role = roles[min(index, last)]
            if role == "d" or (role == "s" and not together):
                arguments[index] = self.on_device(value)
            elif role == "h" and not isinstance(value, np.ndarray):
                check_readable(value, operator=f"input {index}", name="the value")
                arguments[index] = self.on_host(value)
        return arguments

    def empty(self, shape: tuple[int, ...], element_type: str) -> Array:
        """An array without elements."""
        return self.place.upload(np.empty(shape, dtype=dtype_for_host(element_type)))

    def reserve(self, shape: Sequence[int], itemsize: int) -> None:
        """Refuse a result of a shape before it is made, if it would pass the limit."""
        if self.budget is not None:
            self.budget.reserve(prod(shape) * itemsize)


class Budget:
    """The bytes that the values of a run take, each value counted once and as if its memory were its own."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._slots: dict[int, int] = {}
        self._sizes: dict[int, list[int]] = {}
        self._sequences: WeakKeyDictionary[ArraySequence[Any], int] = WeakKeyDictionary()

    def update(self, values: list[Any], slots: Sequence[int]) -> None:
        """Take note of what some slots hold now."""
        # All are forgotten first: a new value may have the identity of one that died.
        for slot in slots:
            self._forget(slot)
        for slot in slots:
            value = values[slot]
            if value is not None and slot not in self._slots:
                entry = self._sizes.get(id(value))
                if entry is None:
                    entry = self._sizes[id(value)] = [0, self.size_of(value)]
                    self.held += entry[1]
                entry[0] += 1
                self._slots[slot] = id(value)
        if self.held > self.limit:
            self._recount(values)
            self.reserve(0)

    def reserve(self, nbytes: int) -> None:
        """Refuse a value that would pass the limit."""
        if self.held + nbytes > self.limit:
            raise ValueError(
                f"the values of the program would take {self.held + nbytes} bytes; max_bytes is {self.limit}"
            )

    def derive(self, sequence: ArraySequence[Any], origin: ArraySequence[Any], added: Array | None = None) -> None:
        """Take note of a sequence that another became, without a look at every element."""
        self._sequences[sequence] = self.size_of(origin) + (0 if added is None else self.size_of(added))

    def size_of(self, value: Any) -> int:
        """Bytes of an array or a sequence; of a sequence that has lost elements, perhaps more than it takes."""
        if value is None:
            return 0
        if type(value) is not ArraySequence:
            return int(prod(value.shape)) * itemsize_of(value.dtype)
        size = self._sequences.get(value)
        if size is None:
            size = self._sequences[value] = value.nbytes
        return size

    def _forget(self, slot: int) -> None:
        key = self._slots.pop(slot, None)
        if key is not None:
            entry = self._sizes[key]
            entry[0] -= 1
            if entry[0] == 0:
                self.held -= entry[1]
                del self._sizes[key]

    def _recount(self, values: list[Any]) -> None:
        self._sequences.clear()
        for slot, key in self._slots.items():
            value = values[slot]
            if value is None:
                continue  # emptied, which will be noted soon
            size = self.size_of(value)
            self.held += size - self._sizes[key][1]
            self._sizes[key][1] = size


def execute(steps: list[Step], run: Run) -> None:
    """Run steps in order; what goes wrong is raised in the name of the node."""
    values, moves, budget = run.values, run.moves, run.budget
    step: Any = None
    arguments: list[Any]
    results: Sequence[Any]
    try:
        for step in steps:
            if step.blocks:
                # What nobody needs any more is not kept alive by a reference here.
                arguments, results = [], ()
                results = step.function(run, step)
            else:
                arguments = [values[slot] for slot in step.inputs]
                if moves:
                    arguments = run.placed(arguments, step.roles)
                results = step.function(run, *arguments)
            if len(step.outputs) == 1:
                (values[step.outputs[0]],) = results
            else:
                for slot, value in zip(step.outputs, results, strict=True):
                    values[slot] = value
            for slot in step.dead:
                values[slot] = None
            if budget is not None:
                budget.update(values, step.outputs + step.dead)
    except Exception as error:
        raise located(error, step.label) from error


def located(error: Exception, label: str) -> Exception:
    """The error with the node in front of its message, as one of the classes that a caller has to expect."""
    text = str(error) or type(error).__name__
    name, colon, rest = text.partition(": ")
    function = name.replace("_", "").isalpha() and name.islower() and " " not in name
    if colon and (function or label.endswith(f"({name})")):
        text = rest  # the name of the function, or of the operator, where the node says more
    for kind in (np.exceptions.AxisError, IndexError, TypeError):
        # KeyError and others that are lookups of something inside are none of the caller's.
        if isinstance(error, kind):
            return kind(f"{label}: {text}")
    if isinstance(error, MemoryError):
        return ValueError(f"{label}: there is not enough memory: {text}")
    return ValueError(f"{label}: {text}")


def condition_of(value: Any, what: str) -> bool:
    """A tensor of one bool."""
    return bool(_single(value, "b", what, "bool"))


def count_of(value: Any, what: str) -> int:
    """A tensor of one integer."""
    return int(_single(value, "iu", what, "int64"))


def _single(value: Any, kinds: str, what: str, wanted: str) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        raise TypeError(f"{what} is {described(value)}; expected a tensor of one {wanted}")
    if value.size != 1:
        raise ValueError(f"{what} is {described(value)}; expected one element")
    return value.item()


def described(value: Any) -> str:
    """What kind of value it is, for a message."""
    if value is None:
        return "an empty optional"
    if type(value) is ArraySequence:
        return f"a sequence of {value.element_type}"
    return f"a tensor of {element_type_of(value.dtype)} and shape {tuple(value.shape)}"
