"""A model, compiled once and run many times."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqarray._arguments import integer
from seqarray._libraries import as_device, entering, library_of, resolve_namespace
from seqarray.onnx._compiler import Compiler
from seqarray.onnx._load.model import load
from seqarray.onnx._load.tensor_protos import NUMPY
from seqarray.onnx._load.type_protos import declares, value_type
from seqarray.onnx._run.aliasing import Memory, detached
from seqarray.onnx._run.executor import Block, Run, described, execute
from seqarray.onnx._run.feeds import Given, GraphValue, given_by_name, given_in_order, library_in_use, named
from seqarray.onnx._run.placement import Place


class Transfers(NamedTuple):
    """How many arrays moved between the host and the device; elements of a sequence count one by one."""

    to_host: int = 0
    to_device: int = 0


class _Home(NamedTuple):
    """A place, and what the slots of a program hold there before a run."""

    place: Place
    values: list[Any]
    constants: Memory


def prepare(
    model: Any,
    *,
    xp: Any = None,
    device: Any = None,
    fallback: str = "reference",
    max_trip_count: int | None = None,
    max_bytes: int | None = None,
) -> Program:
    """Check an ONNX model and compile it to a program.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        The model.  Data in other files is read from below its folder, so such a model must be given as a path.
    xp : module or str, optional
        The array API namespace to compute on.  Default: that of the inputs of each run; NumPy if there are none.
    device : optional
        The device.  Default: that of the inputs, and the default device for what has none.
    fallback : {"reference", "error"}, default "reference"
        What to do about operators that seqarray does not implement: run onnx's reference implementation of each on
        NumPy, moving its inputs and outputs, or raise.
    max_trip_count : int, optional
        How many iterations a Loop may have, each time it runs.  Default: no limit.
    max_bytes : int, optional
        How many bytes the values that are alive at any time may take together, each counted as if its memory were its
        own.  Default: no limit.

    Returns
    -------
    Program
        What runs the model.

    Raises
    ------
    ValueError
        If the model is not valid, an operator is unknown, or ``fallback="error"`` and one is not implemented.
    TypeError
        If an argument is of the wrong kind.

    Warns
    -----
    UserWarning
        If steps fall back to NumPy while the namespace is another.  It names them.

    Examples
    --------
    >>> import numpy as np
    >>> import onnx.parser
    >>> import seqarray as sa
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     halves (float[N] x) => (seq(float[M]) parts) {
    ...         size = Constant<value_int=2>()
    ...         parts = SplitToSequence(x, size)
    ...     }''')
    >>> program = sa.onnx.prepare(model)
    >>> program.run([np.zeros(4, dtype=np.float32)])
    [<ArraySequence of 2 float32 arrays, numpy on cpu: (2,), (2,)>]
    """
    if fallback not in ("reference", "error"):
        raise ValueError(f"prepare: fallback is {fallback!r}; expected 'reference' or 'error'")
    namespace = resolve_namespace(xp, operator="prepare")
    limits = tuple(
        None if limit is None else integer(limit, operator="prepare", name=name)
        for name, limit in (("max_trip_count", max_trip_count), ("max_bytes", max_bytes))
    )
    for name, limit in zip(("max_trip_count", "max_bytes"), limits, strict=True):
        if limit is not None and limit < 0:
            raise ValueError(f"prepare: {name} is {limit}; it must not be negative")
    return Program(load(model), namespace, device, fallback, *limits)


class Program:
    """A compiled model; `prepare` makes one.

    ``print(program)`` shows its steps, and which of them run on NumPy through onnx.reference.

    Attributes
    ----------
    inputs, outputs : tuple
        What the graph takes and gives: objects with a `name` and a `type`.
    transfers : Transfers
        How many arrays the last run moved, `to_host` and `to_device`: for the fallback, to read what is needed on the
        host, and where a value on the host meets arrays on the device.  Constants, which move once, and outputs that
        were on the host are not counted.
    """

    def __init__(
        self,
        model: Any,
        namespace: Any,
        device: Any,
        fallback: str = "reference",
        max_trip_count: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        compiler = Compiler(model, max_bytes=max_bytes)
        self._block = compiler.program()
        self._name = model.graph.name
        self._constants = compiler.constants
        self._n_slots = compiler.n_slots
        self._limits = max_trip_count, max_bytes
        self._namespace = namespace
        self._device = device if namespace is None else as_device(namespace, device, operator="prepare")
        self.inputs = tuple(
            GraphValue(value.name, value_type(value.type, f"input {value.name!r}"), slot, slot in compiler.constants)
            for value, slot in zip(model.graph.input, self._block.inputs, strict=True)
        )
        self.outputs = tuple(
            GraphValue(value.name, value_type(value.type, f"output {value.name!r}"), slot)
            for value, slot in zip(model.graph.output, self._block.outputs, strict=True)
        )
        self._computes = any(step.computes for step in _steps(self._block))
        self._fallbacks = [step.label for step in _steps(self._block) if step.fallback]
        if self._fallbacks and fallback == "error":
            raise ValueError(
                "prepare: fallback is 'error', and seqarray does not implement the operators of "
                + ", ".join(self._fallbacks)
            )
        self._homes: list[_Home] = []
        self._warned: set[str] = set()
        self.transfers = Transfers()
        if namespace is not None:
            self._warn(namespace, stacklevel=4)
            if self._device is not None:
                self._settled(namespace, self._device)

    def run(self, inputs: Any = (), *, outputs: Sequence[str] | None = None) -> list[Any]:
        """Run the model.

        Parameters
        ----------
        inputs : dict, list or tuple
            The inputs by name, or in order: arrays of the program's namespace, sequences of them (ArraySequence, list
            or tuple), and None for an optional that is absent.  NumPy arrays are welcome on every namespace: lengths,
            positions and conditions stay on the host, everything else is moved, and counted.
            Inputs that have a default may be left out.
        outputs : sequence of str, optional
            The names of the outputs that are wanted.  Default: all.

        Returns
        -------
        list
            The outputs in order: an array, an ArraySequence, or None for an optional that is absent.

        Raises
        ------
        ValueError, TypeError, IndexError
            If an input is missing, unknown, or not what the model declares; if a node fails, with its name; or if a
            limit is passed.

        Notes
        -----
        Outputs are the caller's: none shares memory with an input or with a constant of the model.  Two outputs may
        share memory with one another, when one is a view of the other or both are chunks of one array.
        """
        if isinstance(inputs, Mapping):
            given = given_by_name(inputs, self.inputs)
        elif isinstance(inputs, (list, tuple)):
            given = given_in_order(inputs, self.inputs)
        else:
            raise TypeError(f"run: inputs is a {type(inputs).__name__}; expected a dict, or a list or tuple of inputs")
        wanted = self.outputs if outputs is None else named(outputs, self.outputs)
        home = self._home_of(given)
        if home.place.is_numpy and not self._computes:
            return self._executed(given, home, wanted)
        # CuPy allocates on the current device.  Numbers follow IEEE 754 without a word, as on every other library.
        with entering(home.place.namespace, home.place.device), np.errstate(all="ignore"):
            return self._executed(given, home, wanted)

    def _executed(self, given: Given, home: _Home, wanted: Sequence[GraphValue]) -> list[Any]:
        """The outputs of one run."""
        values = home.values.copy()
        run = Run(values, home.place, *self._limits)
        borrowed = []
        for graph_input, value in given:
            values[graph_input.slot] = arrived = graph_input.arrived(value, run)
            if arrived is value:
                borrowed.append(value)
        if run.budget is not None:
            run.budget.update(values, range(self._n_slots))
        execute(self._block.steps, run)
        self.transfers = Transfers(run.to_host, run.to_device)
        shared = Memory(borrowed, home.constants)
        results = []
        for output in wanted:
            value = values[output.slot]
            if not declares(output.type, value):
                raise TypeError(f"output {output.name!r} is {described(value)}; the model declares {output.type}")
            if run.moves and type(value) is np.ndarray:
                results.append(home.place.upload(value))
            else:
                results.append(detached(value, shared))
        return results

    def _home_of(self, given: Given) -> _Home:
        """Where to run: where the program was prepared for; what has been left open, the inputs say."""
        namespace, device = self._namespace, self._device
        if namespace is None or (device is None and namespace is not NUMPY):
            used, found = library_in_use(given)
            namespace = namespace or used
            if device is None and used is namespace:
                device = found
            device = as_device(namespace, device, operator="run")
        for home in self._homes:
            place = home.place
            if (place.device is None) is (device is None) and place.holds(namespace, device):
                return home
        return self._settled(namespace, device)

    def _settled(self, namespace: Any, device: Any) -> _Home:
        """A new place for the program, with its constants."""
        place = Place(namespace, device)
        values: list[Any] = [None] * self._n_slots
        with entering(place.namespace, place.device):
            for slot, array in self._constants.items():
                values[slot] = place.constant(array)
        home = _Home(place, values, Memory(values))
        self._homes.append(home)
        self._warn(namespace, stacklevel=5)
        return home

    def _warn(self, namespace: Any, stacklevel: int) -> None:
        """Name the steps that fall back, once for every array library but NumPy."""
        library = library_of(namespace)
        if self._fallbacks and library != "numpy" and library not in self._warned:
            self._warned.add(library)
            warnings.warn(
                "some steps fall back to onnx.reference on NumPy, since seqarray does not implement their operators "
                f"on {library} (fallback='error' refuses that): {', '.join(self._fallbacks)}",
                UserWarning,
                stacklevel=stacklevel,
            )

    def __str__(self) -> str:
        lines = [f"program {self._name!r}: {len(self._block.steps)} steps"]
        lines += [f"  input {value.name}: {value.type}" for value in self.inputs]
        lines += _printed(self._block, "  ")
        lines += [f"  output {value.name}: {value.type}" for value in self.outputs]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Program {self._name!r} of {len(self._block.steps)} steps>"


def _steps(block: Block) -> Iterator[Any]:
    for step in block.steps:
        yield step
        for inner in step.blocks:
            yield from _steps(inner)


def _printed(block: Block, indent: str) -> Iterator[str]:
    for step in block.steps:
        yield f"{indent}{step.text}{'   # fallback: onnx.reference on NumPy' if step.fallback else ''}"
        for inner in step.blocks:
            yield f"{indent}  {inner.name}:"
            yield from _printed(inner, indent + "    ")
