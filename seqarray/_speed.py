"""Timing of one function on several libraries in turns."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from seqarray._arguments import describe, integer
from seqarray._kind import as_array
from seqarray._libraries import Array, library_of
from seqarray._sequence import ArraySequence

_OPERATOR = "compare_speed"


@dataclass(frozen=True)
class Speeds:
    """The times of a function on several inputs.

    Attributes
    ----------
    seconds : dict
        From the names to the seconds of a call in each round.
    """

    seconds: dict[str, list[float]]

    def quartiles(self, name: str) -> tuple[float, float, float]:
        """Return the first quartile, the median and the third quartile of the seconds of a call."""
        return _quartiles(self.seconds[name])

    def ratios(self, name: str) -> tuple[float, float, float]:
        """Return the quartiles of a name's time over the first name's, round by round; below 1 it is faster."""
        first = next(iter(self.seconds.values()))
        return _quartiles([own / base for own, base in zip(self.seconds[name], first, strict=True)])

    def to_json(self) -> str:
        """Return the seconds of all rounds as JSON."""
        return json.dumps({"seconds": self.seconds})

    def plot(self, axes: Any) -> None:
        """Draw medians and quartiles on axes of matplotlib."""
        names = list(self.seconds)
        for row, name in enumerate(names):
            lower, middle, upper = self.quartiles(name)
            axes.errorbar(middle, row, xerr=[[middle - lower], [upper - middle]], fmt="o", color="#0072B2")
        axes.set_yticks(range(len(names)), names)
        axes.set_xscale("log")
        axes.set_xlabel("seconds of a call: median and quartiles")

    def __str__(self) -> str:
        width = max(map(len, self.seconds))
        lines = [f"{'':{width}}  {'median':>10}  {'quartiles':>24}  {'/ ' + next(iter(self.seconds)):>12}"]
        for name in self.seconds:
            lower, middle, upper = self.quartiles(name)
            spread = f"{lower * 1e6:.4g} to {upper * 1e6:.4g} us"
            lines.append(f"{name:{width}}  {middle * 1e6:>7.4g} us  {spread:>24}  {self.ratios(name)[1]:>12.3g}")
        return "\n".join(lines)


def compare_speed(
    function: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    inputs: Mapping[str, Sequence[Any]],
    /,
    *,
    rounds: int = 11,
    seconds: float = 1.0,
    rtol: float = 0.0,
    wait: Callable[[Any], object] | None = None,
) -> Speeds:
    """Time a function on several inputs in turns, after a check that the results are equal.

    Parameters
    ----------
    function : callable or mapping of callables
        What is timed: one function, or one for every name in `inputs`.
    inputs : mapping
        From a name, such as that of a library, to the arguments of a call: ``[batch]`` for a function of one.
    rounds : int, default 11
        How often every name has its turn.
    seconds : float, default 1.0
        About how long to measure; longer where a call for each name in each round takes longer.
    rtol : float, default 0.0
        How far results of floating point may differ, relative to those of the first name.
    wait : callable, optional
        Waits for a result, within the time.  Needed where a library returns before the result is there, as on a GPU,
        for lazy arrays and for jax: ``jax.block_until_ready``, ``dask.compute`` or a function that calls
        ``torch.cuda.synchronize()``.

    Returns
    -------
    Speeds
        The times: `print` shows a table, and there are `quartiles`, `ratios`, `to_json` and `plot`.

    Raises
    ------
    AssertionError
        If the results of a name differ from those of the first.
    TypeError
        If `inputs` is no mapping to lists or tuples, or results are no arrays, sequences, lists or tuples of arrays.
    ValueError
        If names differ, `rounds`, `seconds` or `rtol` are out of range, or results need `wait` and it is missing.

    Notes
    -----
    Machines drift within seconds, so the names take turns within every round, each round begins with another name, and
    ratios are taken within a round.  No garbage is collected meanwhile.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> rows = [np.ones(3), np.ones(2)]
    >>> speeds = sa.testing.compare_speed(
    ...     {"numpy": np.concatenate, "seqarray": lambda rows: sa.concat_from_sequence(rows, axis=0)},
    ...     {"numpy": [rows], "seqarray": [rows]},
    ...     seconds=0.01,
    ... )
    >>> list(speeds.seconds)
    ['numpy', 'seqarray']
    """
    rounds = integer(rounds, operator=_OPERATOR, name="rounds")
    if rounds < 1:
        raise ValueError(f"{_OPERATOR}: rounds is {rounds}; expected at least 1")
    if not (isfinite(seconds) and seconds > 0):
        raise ValueError(f"{_OPERATOR}: seconds is {seconds!r}; expected a number above 0")
    if not (isfinite(rtol) and rtol >= 0):
        raise ValueError(f"{_OPERATOR}: rtol is {rtol!r}; expected a number of at least 0")
    if not isinstance(inputs, Mapping):
        raise TypeError(f"{_OPERATOR}: inputs is {describe(inputs)}; expected a dict of names to lists of arguments")
    for name, arguments in inputs.items():
        if not isinstance(arguments, (list, tuple)):
            raise TypeError(
                f"{_OPERATOR}: inputs[{name!r}] is {describe(arguments)}; expected the arguments of a call in a list: "
                "[batch] for a function of one"
            )
    if not inputs:
        raise ValueError(f"{_OPERATOR}: inputs is empty")
    functions = dict(function) if isinstance(function, Mapping) else dict.fromkeys(inputs, function)
    if functions.keys() != inputs.keys():
        raise ValueError(f"{_OPERATOR}: functions are named {list(functions)}, and inputs {list(inputs)}")

    def call(name: str) -> Any:
        result = functions[name](*inputs[name])
        if wait is not None:
            wait(result)
        return result

    _check(call, {name: len(arguments) for name, arguments in inputs.items()}, rtol, waits=wait is not None)
    calls = {name: _calls(call, name, seconds / rounds / len(inputs)) for name in inputs}
    return Speeds(_in_turns(call, calls, rounds))


def _calls(call: Callable[[str], Any], name: str, share: float) -> int:
    """Return how many calls fill a turn."""
    start = time.perf_counter()
    call(name)
    return max(1, min(100_000, int(share / max(time.perf_counter() - start, 1e-7))))


def _in_turns(call: Callable[[str], Any], calls: dict[str, int], rounds: int) -> dict[str, list[float]]:
    names = list(calls)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    collects = gc.isenabled()
    gc.disable()
    try:
        for number in range(rounds):
            shift = number % len(names)
            for name in (*names[shift:], *names[:shift]):
                start = time.perf_counter()
                for _ in range(calls[name]):
                    call(name)
                seconds[name].append((time.perf_counter() - start) / calls[name])
    finally:
        if collects:
            gc.enable()
    return seconds


def _check(call: Callable[[str], Any], counts: dict[str, int], rtol: float, *, waits: bool) -> None:
    """Compare the results of every name with those of the first; `counts` are the numbers of arguments."""
    expected: list[Any] = []
    names = list(counts)
    for name in names:
        try:
            result = call(name)
        except Exception as error:
            error.add_note(f"{_OPERATOR}: in the call for {name!r}, with {counts[name]} arguments")
            raise
        arrays = list(_arrays(result, name))
        if not waits and any(map(_comes_later, arrays)):
            raise ValueError(f"{_OPERATOR}: results of {name!r} may not be there when the call returns; pass wait=")
        values = []
        for array in arrays:
            library = library_of(array)
            library.check_known([array], operator=_OPERATOR)
            values += library.to_host([array], copy=None, operator=_OPERATOR)
        expected = expected or values
        if len(values) != len(expected):
            raise AssertionError(f"{name!r} gives {len(values)} arrays, and {names[0]!r} {len(expected)}")
        for value, wanted in zip(values, expected, strict=True):
            told = f"results of {name!r} and {names[0]!r}"
            if value.dtype.kind in "fc":
                told += f"; rtol={rtol} is how far they may differ"
            if rtol and value.dtype.kind in "fc":
                np.testing.assert_allclose(value, wanted, rtol=rtol, err_msg=told, strict=True)
            else:
                np.testing.assert_array_equal(value, wanted, err_msg=told, strict=True)


def _arrays(result: Any, name: str) -> Iterator[Array]:
    if isinstance(result, (list, tuple, ArraySequence)):
        for item in result:
            yield from _arrays(item, name)
    else:
        yield as_array(result, operator=_OPERATOR, label=f"a result of {name!r}")


def _comes_later(array: Array) -> bool:
    """Return whether a call may return before an array is there."""
    library = library_of(array)
    asynchronous = hasattr(array, "block_until_ready") or not library.is_on_host(library.device_of(array))
    return asynchronous or library.is_lazy(array)


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return lower, middle, upper
