"""The operator that maps a function over sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, overload

from seqarray._arguments import integer
from seqarray._dtypes import as_element_type
from seqarray._kind import as_array
from seqarray._libraries import is_compiling
from seqarray._sequence import ArraySequence, as_sequence, empty_kind, make
from seqarray._typing import ArrayT, ResultT


@overload
def sequence_map(
    sequence: Sequence[ArrayT],
    body: Callable[..., tuple[ResultT, ...]],
    /,
    *additional: Any,
    n_outputs: int | None = None,
    dtypes: Sequence[Any] | None = None,
) -> tuple[ArraySequence[ResultT], ...]: ...
@overload
def sequence_map(
    sequence: Sequence[ArrayT],
    body: Callable[..., ResultT],
    /,
    *additional: Any,
    n_outputs: int | None = None,
    dtypes: Sequence[Any] | None = None,
) -> ArraySequence[ResultT]: ...
@overload
def sequence_map(
    sequence: Sequence[ArrayT],
    /,
    *additional: Any,
    body: Callable[..., tuple[ResultT, ...]],
    n_outputs: int | None = None,
    dtypes: Sequence[Any] | None = None,
) -> tuple[ArraySequence[ResultT], ...]: ...
@overload
def sequence_map(
    sequence: Sequence[ArrayT],
    /,
    *additional: Any,
    body: Callable[..., ResultT],
    n_outputs: int | None = None,
    dtypes: Sequence[Any] | None = None,
) -> ArraySequence[ResultT]: ...
def sequence_map(
    sequence: Any,
    /,
    *additional: Any,
    body: Callable[..., Any] | None = None,
    n_outputs: int | None = None,
    dtypes: Sequence[Any] | None = None,
) -> ArraySequence[Any] | tuple[ArraySequence[Any], ...]:
    """Call a function for every element of a sequence, and return its results as sequences.

    Parameters
    ----------
    sequence : ArraySequence, or list or tuple of arrays
        The sequence whose elements are the first argument of `body`.
    *additional : ArraySequence, list or tuple of arrays, or array
        The further arguments of `body`: of a sequence, which must be as long as the first, the element at the same
        position; an array as it is.
    body : callable
        Called as ``body(element, *others)``; returns an array, or a tuple of arrays, as many in each call.  It may also
        be the second argument: ``sequence_map(sequence, body)``.
    n_outputs : int, optional
        How many arrays `body` returns.  Only needed where it may be called for no element.  Default: what it returns,
        and 1 if it is never called.
    dtypes : sequence of str or dtype, optional
        The element types of the results, one for each output.  Default: what `body` returns; if it is never called,
        the element type of the first sequence.

    Returns
    -------
    ArraySequence or tuple of ArraySequence
        One sequence if `body` returns an array, a tuple of sequences if it returns a tuple.  Over an empty sequence,
        one sequence if `n_outputs` is 1.

    Raises
    ------
    ValueError
        If the lengths of the sequences differ, before the first call; if `body` returns another number of arrays.
    TypeError
        If `body` returns something else, or results of one output have different element types.

    See Also
    --------
    pack : The joined values, for what is the same for every value.

    Notes
    -----
    ONNX operator SequenceMap, since opset 17.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> s = sa.split_to_sequence(np.arange(4), 2)
    >>> list(sa.sequence_map(s, np.asarray(10), body=lambda x, y: x + y))
    [array([10, 11]), array([12, 13])]
    """
    if body is None and additional and callable(additional[0]):
        body, additional = additional[0], additional[1:]
    if not callable(body):
        raise TypeError(f"sequence_map: body is a {type(body).__name__}; expected a function")
    sequence = as_sequence(sequence, operator="sequence_map")
    length = len(sequence)
    others: list[Any] = []
    for index, other in enumerate(additional, start=1):
        if isinstance(other, (ArraySequence, list, tuple)):
            other = as_sequence(other, operator=f"sequence_map: input {index}")
            if len(other) != length:
                raise ValueError(
                    f"sequence_map: input {index} has {len(other)} elements; input 0 has {length}, "
                    "and all sequences must have the same length"
                )
            others.append(other)
        else:
            array = as_array(other, operator="sequence_map", label=f"input {index}")
            others.append([array] * length)
    if n_outputs is not None:
        n_outputs = integer(n_outputs, operator="sequence_map", name="n_outputs")
        if n_outputs < 1:
            raise ValueError(f"sequence_map: n_outputs is {n_outputs}; it must be at least 1")
    if dtypes is not None and not isinstance(dtypes, (list, tuple)):
        raise TypeError(f"sequence_map: dtypes is {dtypes!r}; expected a list or tuple of them, one for each output")
    types = None if dtypes is None else [as_element_type(dtype, operator="sequence_map") for dtype in dtypes]

    kind = sequence._kind
    # The device of the elements is current in the body: some libraries compute on the current device only.
    with nullcontext() if kind.library is None else kind.library.on_device(kind.device):
        results = _called(body, zip(sequence, *others, strict=True))
    is_tuple = any(isinstance(result, tuple) for result in results) or (not results and (n_outputs or 1) > 1)
    count = _count(results, n_outputs, is_tuple)
    if types is not None and len(types) != count:
        raise ValueError(f"sequence_map: dtypes has {len(types)} entries for {count} outputs")
    outputs: list[ArraySequence[Any]]
    if not results:
        kinds = [kind] * count
        if dtypes is not None:
            kinds = [empty_kind(dtype, kind.library, kind.device, operator="sequence_map") for dtype in dtypes]
        outputs = [make(kind, (), 0) for kind in kinds]
    else:
        outputs = [
            _collected([result[i] if is_tuple else result for result in results], i, types) for i in range(count)
        ]
    return tuple(outputs) if is_tuple else outputs[0]


def _called(body: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the results of the body; an exception of it gets a note that names the element."""
    # torch.compile cannot leave a graph, and come back to it, within a try statement.
    if is_compiling():
        return [body(*arguments) for arguments in calls]
    results: list[Any] = []
    try:
        for arguments in calls:
            results.append(body(*arguments))
    except Exception as error:
        shape = tuple(arguments[0].shape)
        error.add_note(f"sequence_map: raised by body for element {len(results)}, which has shape {shape}")
        raise
    return results


def _count(results: list[Any], n_outputs: int | None, is_tuple: bool) -> int:
    """Return the number of outputs; check that every result of the body has it."""
    count = n_outputs or 1
    for index, result in enumerate(results):
        if isinstance(result, tuple) != is_tuple:
            raise TypeError(f"sequence_map: body returned a tuple for some elements, but not for element {index}")
        number = len(result) if is_tuple else 1
        if index == 0 and n_outputs is None:
            count = number
        if number == 0:
            raise ValueError(f"sequence_map: body returned an empty tuple for element {index}; it must return an array")
        if number != count:
            raise ValueError(f"sequence_map: body returned {number} arrays for element {index}; expected {count}")
    return count


def _collected(arrays: list[Any], output: int, types: list[str] | None) -> ArraySequence[Any]:
    """Return one output of all calls as a sequence."""
    for index, array in enumerate(arrays):
        as_array(array, operator="sequence_map", label=f"output {output} of body for element {index}")
    collected = as_sequence(arrays, operator=f"sequence_map: output {output}")
    if types is not None and collected.element_type != types[output]:
        raise TypeError(
            f"sequence_map: output {output} of body has element type {collected.element_type}; "
            f"dtypes says {types[output]}"
        )
    return collected
