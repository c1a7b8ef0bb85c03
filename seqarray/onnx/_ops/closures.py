"""Programs on NumPy as closures over slots: what usual values need, without checks that only errors need.

Where a value is not as usual, a closure raises, and the program runs again by its steps, which explain what is wrong or
do it another way.  No closure changes an input or a constant, so running twice is safe.  Sequences are lists of arrays
of one dtype here, and one that dies with a step is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from seqarray._dtypes import ELEMENT_TYPE_BY_CODE, STANDARD_TYPES
from seqarray._operators import concat_from_sequence
from seqarray._sequence import ArraySequence
from seqarray.onnx._ops.node import Node
from seqarray.onnx._run.steps import Step, Subgraph

_ndarray = np.ndarray
_concatenate: Callable[..., Any] = np.concatenate
_stack: Callable[..., Any] = np.stack

_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)
_INT32 = np.dtype(np.int32)
_TRUE = np.asarray(True)

#: Joins of more bytes are left to the engine, which has threads and recycled memory.
_LARGE_NBYTES = 1 << 20

#: Splits into more chunks are left to the steps, which make no array for each.
_MANY_CHUNKS = 10_000


class UnusualError(Exception):
    """A value is not as usual."""


class NotBoundError(Exception):
    """A graph has a step for which there is no closure."""


class Elements(list[Any]):
    """The elements of a sequence; `dtype` is that of all of them."""

    __slots__ = ("dtype",)

    dtype: np.dtype[Any]


#: Called with the values of all slots, and an execution if there are steps without sequences.
Closure = Callable[[list[Any], Any], None]

#: Makes the closure of a step of its inputs, its output, and whether the first input may be changed in place.
Maker = Callable[[tuple[int, ...], int, bool], Closure]


@dataclass(frozen=True, eq=False)
class Binder:
    """How the closure of a step is made.

    Attributes
    ----------
    make : callable or None
        Makes it for an operator on a sequence.
    gives_sequence : bool
        Whether its output is a sequence.
    takes_sequence : bool
        Whether its first input is a sequence.
    gives_fresh : bool
        Whether its output shares memory with nothing.
    kind : str
        For other steps what they are: "tensors" for one without sequences, "identity", "if" or "loop".
    subgraphs : tuple of Subgraph
        The branches of an If, the first for true; the body of a Loop.
    """

    make: Maker | None = None
    gives_sequence: bool = False
    takes_sequence: bool = True
    gives_fresh: bool = False
    kind: str = ""
    subgraphs: tuple[Subgraph, ...] = ()


#: For steps that neither read nor give a sequence.
TENSORS = Binder(kind="tensors")

#: For sessions, whose outputs share memory with nothing, not even where a node passes an input or a constant on.
SESSION = Binder(kind="tensors", gives_fresh=True)


def _copied(elements: Elements) -> Elements:
    """Return a list that may be changed."""
    copy = Elements(elements)
    copy.dtype = elements.dtype
    return copy


def _integer(array: Any) -> int:
    """Return a position or a size."""
    if array.size != 1 or array.ndim > 1 or (array.dtype is not _INT64 and array.dtype is not _INT32):
        raise UnusualError
    number: int = array.item()
    return number


def _bind_construct(node: Node) -> Maker:
    allowed = _dtypes(node)

    def make(inputs: tuple[int, ...], output: int, in_place: bool) -> Closure:
        def construct(values: list[Any], execution: Any) -> None:
            elements = Elements([values[slot] for slot in inputs])
            elements.dtype = dtype = elements[0].dtype
            for array in elements:
                if array.dtype is not dtype:
                    raise UnusualError
            if dtype not in allowed:
                raise UnusualError
            values[output] = elements

        return construct

    return make


def _bind_empty(node: Node) -> Maker | None:
    element_type = ELEMENT_TYPE_BY_CODE.get(node.attribute("dtype", int, 1))
    if element_type not in STANDARD_TYPES:
        return None  # The kernel explains.
    dtype = np.dtype(element_type)

    def make(inputs: tuple[int, ...], output: int, in_place: bool) -> Closure:
        def empty(values: list[Any], execution: Any) -> None:
            values[output] = elements = Elements()
            elements.dtype = dtype

        return empty

    return make


def _bind_at(node: Node) -> Maker:
    def make(inputs: tuple[int, ...], output: int, in_place: bool) -> Closure:
        sequence, position = inputs

        def at(values: list[Any], execution: Any) -> None:
            values[output] = values[sequence][_integer(values[position])]

        return at

    return make


def _bind_insert(node: Node) -> Maker:
    def make(inputs: tuple[int, ...], output: int, in_place: bool) -> Closure:
        sequence, tensor, position = (*inputs, 0)[:3]

        def insert(values: list[Any], execution: Any) -> None:
            elements, array = values[sequence], values[tensor]
            if array.dtype is not elements.dtype:
                raise UnusualError
            if not in_place:
                elements = _copied(elements)
            if position:
                place, length = _integer(values[position]), len(elements)
                if not -length <= place <= length:
                    raise UnusualError
                elements.insert(place, array)
            else:
                elements.append(array)
            values[output] = elements

        return insert

    return make


def _bind_erase(node: Node) -> Maker:
    def make(inputs: tuple[int, ...], output: int, in_place: bool) -> Closure:
        sequence, position = (*inputs, 0)[:2]

        def erase(values: list[Any], execution: Any) -> None:
            elements = values[sequence]
            if not in_place:
                elements = _copied(elements)
            del elements[_integer(values[position]) if position else -1]
            values[output] = elements

        return erase

    return make


def _bind_length(node: Node) -> Maker:
    def make(inputs: tuple[int, ...], output: int, in_place: bool) -> Closure:
        (sequence,) = inputs

        def length(values: list[Any], execution: Any) -> None:
            values[output] = np.asarray(len(values[sequence]))

        return length

    return make


def _bind_concat(node: Node) -> Maker | None:
    axis, new_axis = node.attribute("axis", int), node.attribute("new_axis", int, 0)
    if new_axis not in (0, 1):
        return None
    join = _concatenate if not new_axis else _stack_first if axis == 0 else _stack

    def make(inputs: tuple[int, ...], output: int, in_place: bool) -> Closure:
        (sequence,) = inputs

        def concat(values: list[Any], execution: Any) -> None:
            elements = values[sequence]
            if not elements:
                raise UnusualError
            if len(elements) * elements[0].nbytes > _LARGE_NBYTES:
                values[output] = concat_from_sequence(elements, axis=axis, new_axis=new_axis)
            else:
                values[output] = join(elements, axis)

        return concat

    return make


def _stack_first(elements: Elements, axis: int) -> Any:
    """Return arrays along a new first axis; NumPy's own function makes a view of each before."""
    shape = elements[0].shape
    for array in elements:
        if array.shape != shape or not shape:
            raise UnusualError
    return _concatenate(elements).reshape((len(elements), *shape))


def _bind_split(node: Node) -> Maker:
    axis, keepdims = node.attribute("axis", int, 0), node.attribute("keepdims", int, 1)
    allowed, drops_axis = _dtypes(node), node.applies_keepdims and not keepdims

    def make(inputs: tuple[int, ...], output: int, in_place: bool) -> Closure:
        tensor, split = (*inputs, 0)[:2]

        def split_rows(values: list[Any], execution: Any) -> None:
            x, sizes = values[tensor], values[split]
            if (
                sizes.ndim != 1
                or sizes.size > _MANY_CHUNKS
                or (sizes.dtype is not _INT64 and sizes.dtype is not _INT32)
            ):
                split_to_sequence(values, execution)
                return
            elements, stop = Elements(), 0
            elements.dtype = x.dtype
            if elements.dtype not in allowed:
                raise UnusualError
            for size in sizes.tolist():
                if size < 0:
                    raise UnusualError
                start = stop
                stop += size
                elements.append(x[start:stop])
            if stop != x.shape[0]:
                raise UnusualError
            values[output] = elements

        def split_to_sequence(values: list[Any], execution: Any) -> None:
            x = values[tensor]
            dtype, length = x.dtype, x.shape[axis]
            if dtype not in allowed or not -x.ndim <= axis < x.ndim:
                raise UnusualError
            before, sizes = (slice(None),) * (axis % x.ndim), values[split] if split else None
            if drops_axis and sizes is not None and sizes.ndim == 0:
                if sizes != 1:
                    raise UnusualError
                sizes = None
            if sizes is None and not keepdims:
                if length > _MANY_CHUNKS:
                    raise UnusualError
                elements = Elements([x[(*before, place, ...)] for place in range(length)])
            else:
                bounds = _bounds(sizes, length)
                if before:
                    elements = Elements([x[(*before, slice(start, stop))] for start, stop in bounds])
                else:
                    elements = Elements([x[start:stop] for start, stop in bounds])
            elements.dtype = dtype
            values[output] = elements

        def split_into_rows(values: list[Any], execution: Any) -> None:
            x = values[tensor]
            length = x.shape[0]
            if x.dtype not in allowed or length > _MANY_CHUNKS:
                raise UnusualError
            elements = Elements([x[place : place + 1] for place in range(length)])
            elements.dtype = x.dtype
            values[output] = elements

        if axis:
            return split_to_sequence
        return split_rows if split else split_into_rows if keepdims else split_to_sequence

    return make


def _bounds(split: Any, length: int) -> Iterable[tuple[int, int]]:
    """Return the starts and stops of all chunks."""
    if split is not None and split.ndim == 1:
        if split.size > _MANY_CHUNKS or (split.dtype is not _INT64 and split.dtype is not _INT32):
            raise UnusualError
        stops = list(accumulate(split.tolist()))
        starts = [0, *stops[:-1]]
        if (stops[-1] if stops else 0) != length or any(
            stop < start for start, stop in zip(starts, stops, strict=True)
        ):
            raise UnusualError
        return zip(starts, stops, strict=True)
    size = 1 if split is None else _integer(split)
    if size < 1 or length > size * _MANY_CHUNKS:
        raise UnusualError
    return [(start, min(start + size, length)) for start in range(0, length, size)]


def _dtypes(node: Node) -> frozenset[np.dtype[Any]]:
    """Return the dtypes of NumPy's own numbers that a node takes."""
    return frozenset(np.dtype(name) for name in node.element_types(0) & STANDARD_TYPES)


#: op_type -> how its closure is made, whether its first input is a sequence, and its output
_SEQUENCE_BINDERS: dict[str, tuple[Callable[[Node], Maker | None], bool, bool]] = {
    "ConcatFromSequence": (_bind_concat, True, False),
    "SequenceAt": (_bind_at, True, False),
    "SequenceConstruct": (_bind_construct, False, True),
    "SequenceEmpty": (_bind_empty, False, True),
    "SequenceErase": (_bind_erase, True, True),
    "SequenceInsert": (_bind_insert, True, True),
    "SequenceLength": (_bind_length, True, False),
    "SplitToSequence": (_bind_split, False, True),
}


def binder_of(node: Node, *, is_tensors: bool) -> Binder | None:
    """Return how the closure of a node is made; None if it has none.

    Parameters
    ----------
    node : Node
        The node.
    is_tensors : bool
        Whether its kernel neither takes nor gives a sequence or an optional.
    """
    if is_tensors:
        return TENSORS
    if node.domain or any(not name for name in node.proto.output):
        return None
    op_type = node.proto.op_type
    if op_type == "Identity":
        return Binder(kind="identity")
    if op_type == "If":
        return Binder(kind="if", subgraphs=(node.subgraphs["then_branch"], node.subgraphs["else_branch"]))
    if op_type == "Loop":
        return Binder(kind="loop", subgraphs=(node.subgraphs["body"],))
    if op_type in _SEQUENCE_BINDERS:
        bind, takes_sequence, gives_sequence = _SEQUENCE_BINDERS[op_type]
        make = bind(node)
        if make is not None:
            return Binder(make, gives_sequence, takes_sequence, gives_fresh=op_type == "ConcatFromSequence")
    return None


@dataclass(eq=False)
class Binding:
    """What is known of the slots while the closures of a graph are made.

    Attributes
    ----------
    sequences : dict
        Slot to whether it holds a sequence.
    owned : set of int
        Slots with lists that nothing else holds.
    fresh : set of int
        Slots with arrays that share memory with nothing.
    origins : dict
        Slot to those whose list it may be.
    uses_execution : bool
        Whether a closure needs the execution that it is called with.
    """

    sequences: dict[int, bool]
    owned: set[int] = field(default_factory=set)
    fresh: set[int] = field(default_factory=set)
    origins: dict[int, set[int]] = field(default_factory=dict)
    uses_execution: bool = False

    def bind(self, steps: Sequence[Step], outputs: Iterable[int], dying: Iterable[int] = ()) -> list[Closure]:
        """Return the closures of steps, after which some slots are read; slots of outer graphs may be dying.

        Raises
        ------
        NotBoundError
            If there is none for a step.
        """
        later, needed = [], set(outputs)
        for step in reversed(steps):
            later.append(frozenset(needed))
            needed |= {*step.inputs, *step.captured}
        local = set(dying)
        closures: list[Closure] = []
        for step, read_later in zip(steps, reversed(later), strict=True):
            local.update(step.outputs)
            closures.append(self._bind_step(step, read_later))
            dead = tuple((({*step.inputs, *step.captured, *step.outputs} & local) - read_later) - {0})
            if dead and step is not steps[-1]:
                closures.append(_clear(dead))
        return closures

    def _bind_step(self, step: Step, later: frozenset[int]) -> Closure:
        """Return the closure of a step, after which some slots are read."""
        binder: Binder | None = step.binder
        if binder is None:
            raise NotBoundError
        if binder.kind == "tensors":
            if any(self._holds_sequence(slot) for slot in {*step.inputs, *step.captured} if slot):
                raise NotBoundError
            self.sequences.update(dict.fromkeys(step.outputs, False))
            if binder.gives_fresh:
                self.fresh.update(step.outputs)
            self.uses_execution = True
            return _tensors(step)
        if binder.kind == "identity":
            return self._bind_identity(step, later)
        if binder.kind == "if":
            return self._bind_if(step, later, *binder.subgraphs)
        if binder.kind == "loop":
            return self._bind_loop(step, later, *binder.subgraphs)
        return self._bind_operator(step, later, binder)

    def _holds_sequence(self, slot: int) -> bool:
        """Return whether a slot holds a sequence; raise if that is not known."""
        if slot not in self.sequences:
            raise NotBoundError
        return self.sequences[slot]

    def _bind_operator(self, step: Step, later: frozenset[int], binder: Binder) -> Closure:
        """Return the closure of an operator on a sequence."""
        assert binder.make is not None
        inputs, in_place = step.inputs, False
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        expected = (binder.takes_sequence, *[False] * len(inputs))
        if any(self._holds_sequence(slot) != expected[place] for place, slot in enumerate(inputs)):
            raise NotBoundError
        (output,) = step.outputs
        if binder.takes_sequence and binder.gives_sequence:
            in_place = inputs[0] in self.owned and inputs[0] not in later
            if in_place:
                self.owned.discard(inputs[0])
        self.sequences[output] = binder.gives_sequence
        if binder.gives_sequence:
            self.owned.add(output)
        elif binder.gives_fresh:
            self.fresh.add(output)
        return binder.make(inputs, output, in_place)

    def _bind_identity(self, step: Step, later: frozenset[int]) -> Closure:
        """Return the closure of an Identity; a list has two names afterwards, unless the first one dies."""
        (source,), (target,) = step.inputs, step.outputs
        self.sequences[target] = self._holds_sequence(source)
        self.origins[target] = self._origins_of(source)
        if source in self.owned:
            self.owned.discard(source)
            if source not in later:
                self.owned.add(target)
        return _moves(((source, target),))

    def _origins_of(self, slot: int) -> set[int]:
        """Return the slots whose list the one in a slot may be, itself among them."""
        return {slot} | self.origins.get(slot, set())

    def _bind_if(self, step: Step, later: frozenset[int], *branches: Subgraph) -> Closure:
        """Return the closure of an If."""
        (condition,) = step.inputs
        if self._holds_sequence(condition):
            raise NotBoundError
        bound, owned, kinds = [], [], []
        origins: list[set[int]] = [set() for _ in step.outputs]
        for branch in branches:
            dying = {slot for slot in branch.captured if slot in self.owned and slot not in later}
            inner = Binding(dict(self.sequences), self.owned & dying)
            closures = inner.bind(branch.steps, branch.outputs, dying)
            self.uses_execution |= inner.uses_execution
            kinds.append([inner._holds_sequence(slot) for slot in branch.outputs])
            owned.append([slot in inner.owned and branch.outputs.count(slot) == 1 for slot in branch.outputs])
            for found, slot in zip(origins, branch.outputs, strict=True):
                found |= inner._origins_of(slot)
            bound.append([*closures, _moves(tuple(zip(branch.outputs, step.outputs, strict=True)))])
        if kinds[0] != kinds[1]:
            raise NotBoundError
        # A list of the graph around that a branch gives has two names afterwards, unless the first one dies.
        self.owned = (self.owned & later) - set().union(*origins)
        for place, slot in enumerate(step.outputs):
            self.sequences[slot], self.origins[slot] = kinds[0][place], origins[place]
            if kinds[0][place] and owned[0][place] and owned[1][place]:
                self.owned.add(slot)
        then_closures, else_closures = bound

        def run_if(values: list[Any], execution: Any) -> None:
            for closure in then_closures if _is_true(values[condition]) else else_closures:
                closure(values, execution)

        return run_if

    def _bind_loop(self, step: Step, later: frozenset[int], body: Subgraph) -> Closure:
        """Return the closure of a Loop."""
        trips, condition, *initial = (*step.inputs, 0, 0)[: max(2, len(step.inputs))]
        number_slot, condition_slot, *carried = body.inputs
        condition_out, *outs = body.outputs
        scans = outs[len(carried) :]
        inner = Binding(dict(self.sequences) | {number_slot: False, condition_slot: False})
        copied = []
        for source, target in zip(initial, carried, strict=True):
            inner.sequences[target] = self._holds_sequence(source)
            if inner.sequences[target]:
                inner.owned.add(target)
                sole = initial.count(source) == 1 and source not in step.captured and source not in later
                if not (sole and source in self.owned):
                    copied.append(target)
        steps, outputs = body.steps, body.outputs
        passes = [s for s in steps if s.inputs == (condition_slot,) and s.outputs == (condition_out,)]
        stays = condition_out == condition_slot or (len(passes) == 1 and passes[0].operator.startswith("Identity-"))
        if stays and condition_out not in outs and not any(condition_out in {*s.inputs, *s.captured} for s in steps):
            # The condition is what it was, and nothing else reads it.
            steps = [s for s in steps if s not in passes]
            outputs = (condition_slot, *outs)
        closures = inner.bind(steps, outputs, {number_slot, *carried})
        self.uses_execution |= inner.uses_execution
        for target, out in zip(carried, outs, strict=False):
            is_sequence = inner._holds_sequence(out)
            if is_sequence != inner.sequences[target] or (is_sequence and out not in inner.owned):
                raise NotBoundError
            if is_sequence and outs.count(out) > 1:
                raise NotBoundError
        if any(inner._holds_sequence(slot) for slot in (*scans, outputs[0])):
            raise NotBoundError
        self.owned -= {slot for slot in initial if slot not in later}
        results = step.outputs
        for slot, target in zip(results, (*carried, *scans), strict=False):
            self.sequences[slot] = inner.sequences[target]
            if inner.sequences[target]:
                self.owned.add(slot)
        local = tuple({*body.inputs, *(slot for s in body.steps for slot in s.outputs)})
        loop = _Loop(
            _moves(tuple(zip(initial, carried, strict=True))),
            tuple(copied),
            closures,
            _moves(tuple(zip(outs, carried, strict=False))),
            tuple(scans),
            _moves(tuple(zip(carried, results, strict=False))),
            results[len(carried) :],
        )
        reads_number = any(number_slot in {*s.inputs, *s.captured} for s in body.steps) or number_slot in body.outputs

        def run_loop(values: list[Any], execution: Any) -> None:
            stop = _integer(values[trips]) if trips else None
            goes_on = not condition or _is_true(values[condition])
            loop.enter(values, execution)
            values[condition_slot] = _TRUE
            items: list[list[Any]] = [[] for _ in scans]
            number = 0
            while goes_on and (stop is None or number < stop):
                if reads_number:
                    values[number_slot] = np.asarray(number)
                for closure in closures:
                    closure(values, execution)
                if not stays:
                    goes_on = _is_true(values[condition_out])
                for scan, slot in zip(items, scans, strict=True):
                    scan.append(values[slot])
                loop.carry(values, execution)
                number += 1
            loop.leave(values, execution, items)
            for slot in local:
                values[slot] = None

        return run_loop


@dataclass(frozen=True, eq=False)
class _Loop:
    """The parts of a Loop around its iterations."""

    begin: Closure
    copied: tuple[int, ...]
    closures: list[Closure]
    carry: Closure
    scans: tuple[int, ...]
    end: Closure
    scan_results: tuple[int, ...]

    def enter(self, values: list[Any], execution: Any) -> None:
        """Set the values that are carried."""
        self.begin(values, execution)
        for slot in self.copied:
            values[slot] = _copied(values[slot])

    def leave(self, values: list[Any], execution: Any, items: list[list[Any]]) -> None:
        """Set the outputs of the loop."""
        self.end(values, execution)
        for slot, scan in zip(self.scan_results, items, strict=False):
            if not scan or any(array.dtype is not scan[0].dtype for array in scan):
                raise UnusualError
            values[slot] = concat_from_sequence(scan, axis=0, new_axis=1)


def _is_true(array: Any) -> bool:
    """Return whether a condition holds."""
    if array.dtype is not _BOOL or array.size != 1:
        raise UnusualError
    return bool(array.item())


def _moves(pairs: tuple[tuple[int, int], ...]) -> Closure:
    """Return the closure that copies slots to others at once."""
    if len(pairs) == 1:
        ((source, target),) = pairs

        def move_one(values: list[Any], execution: Any) -> None:
            values[target] = values[source]

        return move_one

    def move(values: list[Any], execution: Any) -> None:
        for (_, target), value in zip(pairs, [values[source] for source, _ in pairs], strict=True):
            values[target] = value

    return move


def _clear(slots: tuple[int, ...]) -> Closure:
    """Return the closure that empties slots."""
    if len(slots) == 1:
        (slot,) = slots

        def clear_one(values: list[Any], execution: Any) -> None:
            values[slot] = None

        return clear_one

    def clear(values: list[Any], execution: Any) -> None:
        for slot in slots:
            values[slot] = None

    return clear


def _tensors(step: Step) -> Closure:
    """Return the closure of a step without sequences."""
    function, inputs, outputs = step.function, step.inputs, step.outputs

    def run_step(values: list[Any], execution: Any) -> None:
        if step.subgraphs:
            results = function(execution, step)
        else:
            results = function(execution, *[values[slot] for slot in inputs])
        for slot, value in zip(outputs, results, strict=True):
            values[slot] = value

    return run_step


def usual(value: Any) -> Any:
    """Return a checked input as closures take it: a NumPy array, or a list of some of one dtype for a sequence."""
    if type(value) is _ndarray:
        return value
    if type(value) is not ArraySequence or not value:
        raise UnusualError
    arrays = Elements(value)
    arrays.dtype = dtype = arrays[0].dtype
    if dtype.kind not in "biufc" or any(type(array) is not _ndarray or array.dtype is not dtype for array in arrays):
        raise UnusualError
    return arrays


def arrays_in(values: Iterable[Any]) -> list[Any]:
    """Return all arrays of values, also those of lists."""
    return [array for value in values for array in (value if type(value) is Elements else (value,))]


def sequence_of(elements: Elements) -> ArraySequence[Any]:
    """Return a list as a sequence."""
    return ArraySequence(elements) if elements else ArraySequence((), dtype=elements.dtype, xp="numpy")
