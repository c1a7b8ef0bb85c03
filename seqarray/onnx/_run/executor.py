"""The execution of the steps of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqarray._arguments import check_readable
from seqarray._libraries import Array
from seqarray._sequence import ArraySequence
from seqarray.onnx._run.budget import Budget, counted_items
from seqarray.onnx._run.placement import Placement, Target, download, dtype_for_host, upload
from seqarray.onnx._run.profile import Profile
from seqarray.onnx._run.steps import Step

# Members of an Enum are slower to look up on the class.
_DEVICE, _HOST, _FOLLOW = Placement.DEVICE, Placement.HOST, Placement.FOLLOW


class Execution:
    """The state of one execution of a program.

    Attributes
    ----------
    values : list
        The values of all slots.
    target : Target
        Where the program runs.
    moves : bool
        Whether values may have to be moved: the target is not NumPy.
    budget : Budget or None
        What the run may take, if anything is limited.
    profile : Profile or None
        Where the times of the steps are recorded, if they are.
    to_host, to_device : int
        How many arrays have been moved.
    """

    __slots__ = ("budget", "moves", "profile", "target", "to_device", "to_host", "values")

    def __init__(
        self, values: list[Any], target: Target, budget: Budget | None, profile: Profile | None = None
    ) -> None:
        self.values = values
        self.target = target
        self.moves = not target.is_numpy
        self.budget = budget
        self.profile = profile
        self.to_host = 0
        self.to_device = 0

    def move_to_device(self, value: Any) -> Any:
        """Return a value on the device: NumPy arrays are moved, and counted unless they are constants."""
        if self.moves and isinstance(value, np.ndarray):
            value, moved = self.target.to_device(value)
            self.to_device += moved
        return value

    def move_to_host(self, value: Array) -> np.ndarray[Any, Any]:
        """Return an array as a NumPy array; arrays from the device are counted."""
        if isinstance(value, np.ndarray):
            return value
        self.to_host += 1
        return download(value)

    def read(self, value: Any, index: int = 0) -> Any:
        """Return an input that is needed on the host; sequences and None are left as they are."""
        if self.moves and value is not None and type(value) is not ArraySequence and not isinstance(value, np.ndarray):
            check_readable(value, operator=f"input {index}", name="the value")
            return self.move_to_host(value)
        return value

    def place_arguments(self, arguments: list[Any], placements: Sequence[Placement]) -> list[Any]:
        """Move the arguments of a step, in place, to where its function reads them."""
        follow_to_host = _FOLLOW not in placements or all(
            isinstance(value, np.ndarray)
            for value, placement in zip(arguments, placements, strict=True)
            if placement is _FOLLOW
        )
        for index, (value, placement) in enumerate(zip(arguments, placements, strict=True)):
            if value is None or type(value) is ArraySequence:
                continue
            if placement is _DEVICE or (placement is _FOLLOW and not follow_to_host):
                arguments[index] = self.move_to_device(value)
            elif placement is _HOST:
                arguments[index] = self.read(value, index)
        return arguments

    def make_empty(self, shape: tuple[int, ...], element_type: str) -> Array:
        """Return an array without elements on the device."""
        return upload(np.empty(shape, dtype=dtype_for_host(element_type)), self.target)

    def reserve(self, shape: Sequence[int], itemsize: int) -> None:
        """Raise a ValueError if a result of this shape would exceed the limit on bytes."""
        if self.budget is not None:
            self.budget.reserve(counted_items(shape) * itemsize)


def execute(steps: list[Step], execution: Execution) -> None:
    """Run steps in order; raise their errors with the label of the node in front."""
    values, moves, budget, profile = execution.values, execution.moves, execution.budget, execution.profile
    step: Any = None
    arguments: list[Any]
    results: Sequence[Any]
    is_named = False
    try:
        for step in steps:
            is_named = step.names_itself
            begun = None if profile is None else profile.begin()
            if step.subgraphs:
                # References left here would keep values alive while the subgraphs run.
                arguments, results = [], ()
                results = step.function(execution, step)
            else:
                arguments = [values[slot] for slot in step.inputs]
                if moves:
                    arguments = execution.place_arguments(arguments, step.placements)
                results = step.function(execution, *arguments)
            is_named = False
            if profile is not None and begun is not None:
                profile.end(step, begun, results)
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
        if is_named:
            raise
        raise with_label(error, step.label) from error


def with_label(error: Exception, label: str) -> Exception:
    """Return an error with a label in front of its message, as one of the classes that `Program.run` documents."""
    text = f"{label}: {error}" if str(error) else f"{label}: {type(error).__name__}"
    for kind in (np.exceptions.AxisError, IndexError, TypeError):
        # A KeyError comes from a lookup inside an operator, not from a position that the caller gave.
        if isinstance(error, kind):
            return kind(text)
    if isinstance(error, MemoryError):
        return ValueError(f"{label}: there is not enough memory: {str(error) or 'MemoryError'}")
    return ValueError(text)
