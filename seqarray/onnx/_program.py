"""Programs: models that are compiled once and run many times."""

from __future__ import annotations

import importlib
import math
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from seqarray._arguments import describe, integer
from seqarray._dtypes import element_type_of
from seqarray._libraries import NUMPY, Library, resolve_library
from seqarray.onnx._compiler import Compiler
from seqarray.onnx._load.model import load
from seqarray.onnx._load.names import plain
from seqarray.onnx._load.pruning import values_of
from seqarray.onnx._load.type_protos import ValueType, output_type, value_type
from seqarray.onnx._ops.closures import Binding, Closure, Elements, NotBoundError, arrays_in, sequence_of, usual
from seqarray.onnx._run.aliasing import AliasTracker, own
from seqarray.onnx._run.budget import Budget, Clock, Limits
from seqarray.onnx._run.executor import Execution, execute
from seqarray.onnx._run.feeds import (
    Feeds,
    GraphInput,
    GraphValue,
    feeds_by_name,
    feeds_in_order,
    library_and_device_of,
)
from seqarray.onnx._run.placement import Target, upload
from seqarray.onnx._run.profile import Profile
from seqarray.onnx._run.sessions import SessionMaker
from seqarray.onnx._run.steps import Step, Subgraph, slots_read
from seqarray.onnx._run.values import conforms, describe_value


class Transfers(NamedTuple):
    """The numbers of arrays moved between the host and the device; each element of a sequence counts."""

    to_host: int = 0
    to_device: int = 0


_NO_TRANSFERS = Transfers()


class ProgramStep(NamedTuple):
    """A node of a program, and where it runs.

    Attributes
    ----------
    label : str
        The node as error messages name it, after the labels of those whose graphs contain it.
    name : str
        Its name; "" for none.
    domain : str
        Its domain, "" for ONNX's own.
    op_type : str
        Its operator.
    version : int
        The version of the operator.
    engine : str
        What runs it: "seqarray", "onnxruntime" or "onnx.reference".
    fallback : bool
        Whether seqarray does not implement it.
    region : int or None
        The number of the region that onnxruntime runs at once; None for other engines.
    """

    label: str
    name: str
    domain: str
    op_type: str
    version: int
    engine: str
    fallback: bool
    region: int | None


class _PreparedTarget(NamedTuple):
    """A target, and the values of all slots before a run there: the constants, else None."""

    target: Target
    values: list[Any]
    constants: AliasTracker


def prepare(
    model: Any,
    *,
    xp: ModuleType | str | None = None,
    device: Any = None,
    fallback: str | None = None,
    max_trip_count: int | None = None,
    max_bytes: int | None = None,
    max_seconds: float | None = None,
    keepdims_with_split: str | None = None,
    providers: Sequence[Any] | None = None,
    session_options: Any = None,
) -> Program:
    """Check an ONNX model and compile it to a program.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        The model.  Data in other files is read from below its folder, so such a model must be given as a path.
    xp : module or str, optional
        The array API namespace to compute on.  Default: that of the inputs of each run; NumPy if there are none.
    device : optional
        The device.  Default: that of the inputs; the default device if there are none.
    fallback : {"onnxruntime", "reference", "error"}, optional
        What runs the operators that seqarray does not implement.  "onnxruntime", the default where it is installed,
        runs them and whatever is around them that touches no sequence; NumPy arrays and torch's tensors on the CPU are
        not copied for it, others are moved to the host and back.  "reference", else the default, is onnx's reference
        implementation on NumPy.  It also runs what onnxruntime does not.  "error" raises.
    max_trip_count : int, optional
        The maximum number of iterations of all loops in a run together, inner ones included: of Loop, Scan and
        SequenceMap.  Default: no limit.
    max_bytes : int, optional
        The maximum number of bytes of all values that are alive at one time; views count as copies do.  Default: no
        limit.
    max_seconds : float, optional
        The maximum number of seconds that preparing may take, and that each run may take.  It is compared between
        operators: one that has begun is not interrupted.  Default: no limit.
    keepdims_with_split : {"ignore", "apply"}, optional
        What SplitToSequence does with ``keepdims=0`` where a size is given too.  "ignore" is what the standard says,
        and the default, with a warning that names such nodes.  "apply" removes the axis, as torch means it when it
        exports ``unbind``, and as onnxruntime does; the size must be a scalar 1 then, and several sizes keep the axis.
    providers : sequence, optional
        The execution providers of onnxruntime, as `onnxruntime.InferenceSession` takes them.  Default: that of the CPU.
    session_options : onnxruntime.SessionOptions, optional
        The options of the sessions of onnxruntime.  Default: those of onnxruntime itself.

    Returns
    -------
    Program
        The compiled model.

    Raises
    ------
    ValueError
        If the model is not valid, an operator is unknown, or ``fallback="error"`` and one is not implemented.
    TypeError
        If an argument is of the wrong kind.

    Warns
    -----
    UserWarning
        If steps fall back to NumPy while the namespace is another; the message counts them by operator.  If a
        SplitToSequence has ``keepdims=0`` and a size, and `keepdims_with_split` is not given.

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
    _check_engine(fallback, providers, session_options)
    library = resolve_library(xp, operator="prepare")
    limits = _checked_limits(max_trip_count, max_bytes, max_seconds)
    if keepdims_with_split not in (None, "ignore", "apply"):
        raise ValueError(f"prepare: keepdims_with_split is {keepdims_with_split!r}; expected 'ignore' or 'apply'")
    clock = Clock(limits.max_seconds, "prepare")
    return Program(
        load(model),
        library,
        device,
        fallback,
        *limits,
        clock=clock,
        keepdims_with_split=keepdims_with_split,
        providers=providers,
        session_options=session_options,
    )


def _check_engine(fallback: str | None, providers: Any, session_options: Any) -> None:
    """Raise if there is no such fallback, if it is not installed, or what is for onnxruntime is not of its types."""
    if fallback not in (None, "onnxruntime", "reference", "error"):
        raise ValueError(
            f"prepare: fallback is {fallback!r}; expected 'onnxruntime', 'reference' or 'error', or None for the "
            "first of them that is installed"
        )
    if fallback == "onnxruntime" and not SessionMaker.is_installed():
        raise ValueError("prepare: fallback is 'onnxruntime', which is not installed: pip install onnxruntime")
    if not _uses_sessions(fallback) and (providers is not None or session_options is not None):
        raise ValueError("prepare: providers and session_options go with fallback='onnxruntime' only")
    if providers is not None and not (
        isinstance(providers, (list, tuple)) and all(isinstance(provider, (str, tuple)) for provider in providers)
    ):
        raise TypeError(
            f"prepare: providers is {describe(providers)}; expected a list of names, or of tuples of a name and options"
        )
    if session_options is not None:
        expected = importlib.import_module("onnxruntime").SessionOptions
        if not isinstance(session_options, expected):
            raise TypeError(
                f"prepare: session_options is {describe(session_options)}; expected an onnxruntime.SessionOptions"
            )


def _uses_sessions(fallback: str | None) -> bool:
    """Return whether onnxruntime is the fallback."""
    return fallback == "onnxruntime" or (fallback is None and SessionMaker.is_installed())


def _checked_limits(max_trip_count: Any, max_bytes: Any, max_seconds: Any) -> Limits:
    """Return the limits, if they are numbers that are not negative; raise otherwise."""
    trips, nbytes = (
        None if limit is None else integer(limit, operator="prepare", name=name)
        for name, limit in (("max_trip_count", max_trip_count), ("max_bytes", max_bytes))
    )
    if max_seconds is not None and (isinstance(max_seconds, bool) or not isinstance(max_seconds, (int, float))):
        raise TypeError(f"prepare: max_seconds is a {type(max_seconds).__name__}; expected a number")
    limits = Limits(trips, nbytes, max_seconds)
    for name, limit in limits._asdict().items():
        if limit is not None and (math.isnan(limit) or limit < 0):
            raise ValueError(f"prepare: {name} is {limit}; it must not be negative")
    return limits


class Program:
    """A compiled model; `prepare` makes one.

    ``print(program)`` shows its steps, and what runs those that seqarray does not.

    Attributes
    ----------
    inputs, outputs : tuple
        The inputs and outputs of the graph: objects with a `name` and a `type`.
    transfers : Transfers
        How many arrays the last run moved, `to_host` and `to_device`: for the fallback, to read positions, sizes and
        conditions, and to combine values on the host with arrays on the device.  Constants, which are moved once, and
        outputs that were on the host are not counted.
    """

    def __init__(
        self,
        model: Any,
        library: Library | None,
        device: Any,
        fallback: str | None = None,
        max_trip_count: int | None = None,
        max_bytes: int | None = None,
        max_seconds: float | None = None,
        clock: Clock | None = None,
        keepdims_with_split: str | None = None,
        providers: Sequence[Any] | None = None,
        session_options: Any = None,
        outputs: Sequence[str] | None = None,
        initializers: Mapping[str, Any] | None = None,
    ) -> None:
        self._limits = Limits(max_trip_count, max_bytes, max_seconds)
        self._is_limited = any(limit is not None for limit in self._limits)
        clock = clock or Clock(max_seconds, "prepare")
        self._options = {
            "fallback": fallback,
            "keepdims_with_split": keepdims_with_split,
            "providers": providers,
            "session_options": session_options,
            **self._limits._asdict(),
        }
        device = device if library is None else library.as_device(device, operator="prepare")
        maker = SessionMaker(providers, session_options) if _uses_sessions(fallback) else None
        compiler = Compiler(
            model,
            self._limits,
            clock,
            maker,
            target=None if library is None else Target(library, device),
            applies_keepdims=keepdims_with_split == "apply",
            initializers=initializers,
        )
        declared = {value.name: output_type(value.type, f"output {value.name!r}") for value in model.graph.output}
        names = [value.name for value in model.graph.output] if outputs is None else list(outputs)
        given = [name for name in names if not declared.get(name, ValueType(None)).unsupported]
        self._graph = compiler.compile(None if outputs is None and given == names else given)
        self._slots = compiler.scope.slots
        self._is_selection = outputs is not None
        if compiler.ambiguous and keepdims_with_split is None and not self._is_selection:
            _warn_of_keepdims(compiler.ambiguous)
        self._name = model.graph.name
        self._source = model.source
        self._names = values_of(model.graph)
        self._constants = compiler.constants
        self._maker = maker
        self._n_slots = compiler.n_slots
        self._library = library
        self._device = device
        self.inputs = tuple(
            GraphInput(value.name, value_type(value.type, f"input {value.name!r}"), slot, slot in compiler.constants)
            for value, slot in zip(model.graph.input, self._graph.inputs, strict=True)
        )
        self.outputs = tuple(
            GraphValue(name, declared.get(name, ValueType(None)), self._slots[name] if name in given else 0)
            for name in names
        )
        self._computes = any(step.computes for step in _steps(self._graph))
        self._fallbacks = [step for step in _steps(self._graph) if step.fallback]
        if self._fallbacks and fallback == "error":
            raise ValueError(
                f"prepare: fallback is 'error', and seqarray does not implement {_counted(self._fallbacks)}; "
                f"the first is {self._fallbacks[0].label}"
            )
        #: The target NumPy, once it is prepared.
        self._on_numpy: _PreparedTarget | None = None
        #: Key, slot, dtype, rank and input, for inputs in order and by name.
        self._places = [(place, value.slot, *value.usual, value) for place, value in enumerate(self.inputs)]
        self._places_by_name = [(value.name, value.slot, *value.usual, value) for value in self.inputs]
        self._closures = self._bound(compiler.constants)
        self._prepared: list[_PreparedTarget] = []
        #: Held while a target or a selection is being prepared: the first runs may be several at the same time.
        self._preparing = threading.Lock()
        #: Names of values to the program that gives them, and computes nothing else.
        self._selections: dict[tuple[str, ...], Program] = {}
        self._profile: Profile | None = None
        self._warned: set[str] = set()
        self.transfers = Transfers()
        if library is not None:
            self._warn_of_fallbacks(Target(library, self._device), stacklevel=4)
            if self._device is not None:
                self._prepare_target(library, self._device)
        if self._closures is not None and self._on_numpy is None:
            self._prepare_target(NUMPY, None)

    def run(self, inputs: Any = (), *, outputs: Sequence[str] | None = None) -> list[Any]:
        """Run the model.

        Parameters
        ----------
        inputs : dict, list or tuple
            The inputs by name, or in order: arrays of the program's namespace, sequences of them (ArraySequence, list
            or tuple), and None for an empty optional.  NumPy arrays are accepted on every namespace: those that may be
            lengths, positions or conditions stay on the host, others are moved and counted.  The protobuf messages of
            ONNX are accepted as the NumPy arrays that they hold.
            Inputs that have a default may be left out.
        outputs : sequence of str, optional
            The names of the values to return: outputs, or others of the main graph, which `print` shows.  Nothing is
            computed that they do not need.  What that is, is found out when they are first asked for, from the model,
            which must be as it was.  Default: all outputs.

        Returns
        -------
        list
            The outputs in order: an array, an ArraySequence, or None for an empty optional.

        Raises
        ------
        ValueError, TypeError, IndexError
            If an input is missing, unknown, or not of the declared type; if a node fails, with its label in the
            message; or if a limit is exceeded.

        Notes
        -----
        No output shares memory with an input or with a constant of the model, and every item has memory of its own: a
        broadcast result is copied.  An output holds little more than its values: at most 4 KiB, or a 128th of them, so
        that keeping a row keeps no table.  Two outputs may share memory with each other, when one is a view of the
        other or both are chunks of one array.
        """
        if self._closures is not None and outputs is None and self._profile is None:
            if type(inputs) is dict or type(inputs) is list or type(inputs) is tuple:
                found = self._run_closures(inputs)
                if found is not None:
                    return found
        if isinstance(inputs, Mapping):
            feeds = feeds_by_name(inputs, self.inputs)
        elif isinstance(inputs, (list, tuple)):
            feeds = feeds_in_order(inputs, self.inputs)
        else:
            raise TypeError(f"run: inputs is a {type(inputs).__name__}; expected a dict, or a list or tuple of inputs")
        if outputs is not None:
            program = self._selection_of(outputs)
            if program is not self:
                own = {graph_input.name: graph_input for graph_input in program.inputs}
                results = program._run([(own[fed.name], value) for fed, value in feeds], self._profile)
                self.transfers = program.transfers
                return results
        return self._run(feeds, self._profile)

    def _run(self, feeds: Feeds, profile: Profile | None) -> list[Any]:
        """Run the program on checked feeds."""
        if profile is not None:
            profile.labels.update(_labels_of(self._graph))
        for output in self.outputs:
            if output.type.unsupported:
                raise ValueError(
                    f"run: output {output.name!r} is a {output.type}, which is not supported; name others in outputs="
                )
        prepared = self._target_for(feeds)
        target = prepared.target
        if target.is_numpy and not self._computes:
            return self._execute(feeds, prepared, profile)
        # CuPy allocates on the current device.  NumPy warns of overflows and divisions by zero, other libraries do not.
        with target.library.on_device(target.device), np.errstate(all="ignore"):
            return self._execute(feeds, prepared, profile)

    def _bound(self, constants: Mapping[int, Any]) -> list[Closure] | None:
        """Return the closures of the steps; None if there is none for one of them, or the program is not for them."""
        if self._is_limited or self._library not in (None, NUMPY) or any(o.type.unsupported for o in self.outputs):
            return None
        if self._library is None and self._device is not None:
            return None  # The library of the inputs tells whether it has such a device.
        sequences = dict.fromkeys(constants, False)
        sequences |= {value.slot: value.type.sequence for value in self.inputs if not value.type.optional}
        binding = Binding(sequences)
        try:
            closures = binding.bind(self._graph.steps, self._graph.outputs)
        except NotBoundError:
            return None
        self._fresh, self._uses_execution = binding.fresh, binding.uses_execution
        return closures

    def _run_closures(self, inputs: Any) -> list[Any] | None:
        """Run the program on NumPy arrays; return None if something is not as usual, which the steps explain."""
        prepared, places = self._on_numpy, self._places_by_name if type(inputs) is dict else self._places
        if prepared is None or len(inputs) != len(places):
            return None
        values = prepared.values.copy()
        try:
            for key, slot, dtype, rank, graph_input in places:
                value = inputs[key]
                if type(value) is not np.ndarray or value.dtype is not dtype or value.ndim != rank:
                    value = usual(graph_input.check(value))
                values[slot] = value
            execution = Execution(values, prepared.target, None) if self._uses_execution else None
            if self._computes:
                with np.errstate(all="ignore"):
                    for closure in self._closures or ():
                        closure(values, execution)
            else:
                for closure in self._closures or ():
                    closure(values, execution)
        except Exception:  # whatever it is, the steps raise it again, with the label of the node
            return None
        self.transfers = _NO_TRANSFERS
        results = []
        for output in self.outputs:
            value = values[output.slot]
            if type(value) is Elements:
                value = sequence_of(value)
            if not conforms(value, output.type):
                return None
            if output.slot not in self._fresh:
                fed = arrays_in([values[graph_input.slot] for graph_input in self.inputs])
                value = own(value, AliasTracker(fed, prepared.constants))
            results.append(value)
        return results

    def _execute(self, feeds: Feeds, prepared: _PreparedTarget, profile: Profile | None) -> list[Any]:
        """Execute the steps on a target and return the outputs."""
        values = prepared.values.copy()
        execution = Execution(values, prepared.target, Budget(self._limits) if self._is_limited else None, profile)
        callers_values = []
        for graph_input, value in feeds:
            values[graph_input.slot] = moved = graph_input.move_to_target(value, execution)
            if moved is value:
                callers_values.append(value)
        if execution.budget is not None:
            execution.budget.update(values, range(self._n_slots))
        execute(self._graph.steps, execution)
        self.transfers = Transfers(execution.to_host, execution.to_device)
        tracker = AliasTracker(callers_values, prepared.constants)
        results = []
        for output in self.outputs:
            value = values[output.slot]
            if not conforms(value, output.type):
                raise TypeError(f"output {output.name!r} is {describe_value(value)}; the model declares {output.type}")
            if execution.moves and type(value) is np.ndarray:
                element_type: Any = element_type_of(value.dtype)
                prepared.target.library.dtype_for(
                    element_type, prepared.target.device, operator=f"output {output.name!r}"
                )
                results.append(upload(value, prepared.target))
            else:
                results.append(own(value, tracker, execution.budget))
        return results

    @property
    def steps(self) -> tuple[ProgramStep, ...]:
        """The nodes that run, in order, those in graphs after the node that has these; and what runs each."""
        return tuple(_shown(self._graph))

    @contextmanager
    def profile(self) -> Iterator[Profile]:
        """Record what each step takes in the runs of a ``with`` block, in all threads.

        Yields
        ------
        Profile
            Its `steps` are the seconds, the bytes of the results and the number of runs of each step, the longest
            first; ``print`` shows them as a table, and ``export_chrome_trace(path)`` writes every run of a step.

        Examples
        --------
        >>> import numpy as np
        >>> import onnx.parser
        >>> import seqarray as sa
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 8, opset_import: ["": 17]>
        ...     last (seq(float[N]) s) => (float[M] y) {
        ...         end = Constant<value_int=-1>()
        ...         y = SequenceAt(s, end)
        ...     }''')
        >>> program = sa.onnx.prepare(model)
        >>> with program.profile() as profile:
        ...     outputs = program.run([[np.zeros(4, dtype=np.float32)]])
        >>> [(taken.operator, taken.count, taken.nbytes) for taken in profile.steps]
        [('SequenceAt-11', 1, 16)]
        """
        if self._profile is not None:
            raise ValueError("profile: the program is being profiled already")
        self._profile = profile = Profile()
        try:
            yield profile
        finally:
            self._profile = None

    def _selection_of(self, names: Sequence[str]) -> Program:
        """Return the program that gives some values, and computes what they need."""
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise TypeError(f"run: outputs is {names!r}; expected a list of names")
        wanted = tuple(names)
        if wanted == tuple(output.name for output in self.outputs):
            return self
        for name in wanted:
            if name not in self._names:
                known = ", ".join(output.name for output in self.outputs)
                raise ValueError(f"run: the model has no value {name!r}; its outputs are {known}")
        with self._preparing:
            found = self._selections.get(wanted)
            if found is None:
                constants = {
                    name: self._constants[slot] for name, slot in self._slots.items() if slot in self._constants
                }
                found = Program(
                    self._source.load(),
                    self._library,
                    self._device,
                    **self._options,
                    outputs=wanted,
                    initializers=constants,
                )
                self._selections[wanted] = found
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the model as bytes, and the arguments of `prepare`; in a copy, it is prepared again."""
        if self._options["session_options"] is not None:
            raise TypeError("a program with session_options cannot be pickled or copied: onnxruntime's options cannot")
        device = self._device if self._library is None else self._library.device_name(self._device)
        xp = None if self._library is None else self._library.namespace.__name__
        return _prepared_again, (self._source.to_bytes(), xp, device, self._options)

    def _target_for(self, feeds: Feeds) -> _PreparedTarget:
        """Return the target of a run: that of `prepare`, or of the feeds where `prepare` was not given one."""
        library, device = self._library, self._device
        if library is None or (device is None and library is not NUMPY):
            fed_library, fed_device = library_and_device_of(feeds)
            library = library or fed_library
            if device is None and fed_library is library:
                device = fed_device
            device = library.as_device(device, operator="run")
        found = self._find_target(library, device)
        if found is None:
            with self._preparing:
                found = self._find_target(library, device) or self._prepare_target(library, device)
        return found

    def _find_target(self, library: Library, device: Any) -> _PreparedTarget | None:
        """Return the target for a library and a device, if it has been prepared."""
        for prepared in self._prepared:
            target = prepared.target
            if (target.device is None) is (device is None) and target.matches(library, device):
                return prepared
        return None

    def _prepare_target(self, library: Library, device: Any) -> _PreparedTarget:
        """Add a target, and move the constants to it."""
        target = Target(library, device)
        values: list[Any] = [None] * self._n_slots
        with target.library.on_device(target.device):
            # Those that only sessions read are theirs, and not moved.
            read = slots_read(self._graph)
            for slot, array in self._constants.items():
                if slot in read:
                    values[slot] = target.place_constant(array)
        prepared = _PreparedTarget(target, values, AliasTracker(values))
        self._prepared.append(prepared)
        if target.is_numpy:
            self._on_numpy = prepared
        self._warn_of_fallbacks(target, stacklevel=5)
        return prepared

    def _warn_of_fallbacks(self, target: Target, stacklevel: int) -> None:
        """Warn of the steps whose values move to NumPy and back, once for each other array library."""
        if self._is_selection:
            return  # the program that it was selected from has warned
        moved = [
            step
            for step in self._fallbacks
            if step.engine != "onnxruntime" or self._maker is None or not self._maker.is_direct(target)
        ]
        if moved and not target.is_numpy and target.library.name not in self._warned:
            self._warned.add(target.library.name)
            warnings.warn(
                "some steps fall back to NumPy on the host, since seqarray does not implement on "
                f"{target.library.name} (fallback='error' refuses that): {_counted(moved)}; "
                "print(program) marks these steps",
                UserWarning,
                stacklevel=stacklevel,
            )

    def __str__(self) -> str:
        lines = [f"program {self._name!r}: {len(self._graph.steps)} steps"]
        lines += [f"  input {plain(value.name)}: {value.type}" for value in self.inputs]
        lines += _lines_of(self._graph, "  ")
        lines += [f"  output {plain(value.name)}: {value.type}" for value in self.outputs]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Program {self._name!r} of {len(self._graph.steps)} steps>"


def _prepared_again(content: bytes, xp: str | None, device: Any, options: dict[str, Any]) -> Program:
    """Return the program that has been pickled."""
    return prepare(content, xp=xp, device=device, **options)


def _warn_of_keepdims(labels: Sequence[str]) -> None:
    """Warn of nodes whose attribute `keepdims` the standard ignores."""
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    warnings.warn(
        f"{', '.join(labels[:3])}{more}: keepdims=0 is ignored where a size is given, as the standard says; torch and "
        "onnxruntime remove the axis.  Choose by keepdims_with_split='ignore' or 'apply'",
        UserWarning,
        stacklevel=4,
    )


def _counted(steps: Iterable[Step]) -> str:
    """Return how often each operator comes, the most frequent first."""
    counts = Counter(step.operator for step in steps)
    return ", ".join(label if count == 1 else f"{label} ({count} times)" for label, count in counts.most_common())


def _steps(subgraph: Subgraph) -> Iterator[Step]:
    """Yield all steps of a subgraph, at any depth."""
    for step in subgraph.steps:
        yield step
        for inner in step.subgraphs:
            yield from _steps(inner)


def _shown(subgraph: Subgraph, prefix: str = "", regions: Iterator[int] | None = None) -> Iterator[ProgramStep]:
    """Yield the nodes of a subgraph and of those in it; `regions` numbers the regions."""
    regions = regions or count()
    for step in subgraph.steps:
        region = next(regions) if step.engine == "onnxruntime" else None
        for info in step.nodes:
            engine = step.engine or "seqarray"
            yield ProgramStep(
                prefix + info.label, info.name, info.domain, info.op_type, info.version, engine, info.fallback, region
            )
        # The steps by which a region would run otherwise are not shown.
        for inner in () if step.engine else step.subgraphs:
            yield from _shown(inner, f"{prefix}{step.label}: " if step.nodes else prefix, regions)


def _labels_of(subgraph: Subgraph, prefix: str = "") -> Iterator[tuple[Step, str]]:
    """Yield the steps of a subgraph and of those in it, each with its label behind those of the steps around it."""
    for step in subgraph.steps:
        yield step, prefix + step.label
        for inner in step.subgraphs:
            # The steps that run a region in place of its session name its nodes.
            yield from _labels_of(inner, f"{prefix}{step.label}: " if step.nodes and not step.engine else prefix)


def _lines_of(subgraph: Subgraph, indent: str) -> Iterator[str]:
    """Yield the lines of a printed subgraph."""
    for step in subgraph.steps:
        mark = "fallback: onnx.reference on NumPy" if step.engine == "onnx.reference" else step.engine
        yield from (f"{indent}{info.text}{f'   # {mark}' if mark else ''}" for info in step.nodes)
        for inner in () if step.engine else step.subgraphs:
            if not step.nodes:
                yield from _lines_of(inner, indent)
                continue
            yield f"{indent}  {inner.name}:"
            yield from _lines_of(inner, indent + "    ")
