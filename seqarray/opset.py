"""ONNX operators by name and opset version, each version with its own rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from seqarray._arguments import check_readable, check_text, describe, host_values, integer, length_along
from seqarray._dtypes import ELEMENT_TYPE_BY_CODE, element_type_of, onnx_name
from seqarray._kind import as_array
from seqarray._operators import (
    concat_from_sequence,
    sequence_at,
    sequence_construct,
    sequence_empty,
    sequence_erase,
    sequence_insert,
    sequence_length,
    split,
    split_to_sequence,
)
from seqarray._sequence import ArraySequence, as_sequence

#: The newest opset whose operators are known; none of this family has changed since its newest version here.
NEWEST_OPSET = 28

_FLOATS = ("float16", "float32", "float64")
_TENSORS = (
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *(*_FLOATS, "string", "bool", "complex64", "complex128"),
)
# The text lists bfloat16 for SplitToSequence-24 but for no operator that takes its result.
_SEQUENCES = (*_TENSORS, "bfloat16")
_INDICES = ("int32", "int64")

_REQUIRED = object()
_FLAGS = ("keepdims", "new_axis")


class Input(NamedTuple):
    """One input of an operator: its name, its element types, and whether it is a sequence or may be left out."""

    name: str
    types: tuple[str, ...]
    sequence: bool = False
    optional: bool = False


class Call(NamedTuple):
    """Checked arguments of one call."""

    inputs: list[Any]
    attributes: dict[str, Any]
    n_outputs: int
    copy: bool | None
    xp: ModuleType | str | None
    device: Any


class Version(NamedTuple):
    """One version of an operator."""

    inputs: tuple[Input, ...]
    #: Name to default; a list where the attribute holds several integers, `_REQUIRED` where there is no default.
    attributes: dict[str, Any]
    run: Callable[[Call], tuple[Any, ...]]
    #: The last input may be given any number of times, but at least once.
    variadic: bool = False
    #: The operator has as many outputs as the node declares.
    several_outputs: bool = False


def run(
    op_type: str,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any] | None = None,
    *,
    opset: int,
    n_outputs: int = 1,
    copy: bool | None = True,
    xp: ModuleType | str | None = None,
    device: Any = None,
) -> tuple[Any, ...]:
    """Run one ONNX operator as a model of a given opset would.

    Parameters
    ----------
    op_type : str
        The operator, such as "SplitToSequence"; `supported` lists them.
    inputs : sequence
        Its inputs in order: arrays, sequences (ArraySequence, list or tuple), and None for an optional one left out.
    attributes : mapping, optional
        Its attributes by name, in ONNX's conventions: integers and lists of integers.
    opset : int
        The opset version of the model.  The newest version of the operator up to it applies.
    n_outputs : int, default 1
        How many outputs the node declares.  Only Split has more than one; with the attribute num_outputs it may
        declare fewer, and gets the first ones.
    copy : bool or None, default True
        As for the Python functions of SequenceAt, ConcatFromSequence, Concat, SplitToSequence and Split; the others
        hold the arrays they are given.
    xp, device : optional
        The namespace and device of a result where no input determines them: of SequenceEmpty, and of SequenceLength of
        an empty sequence.

    Returns
    -------
    tuple
        The outputs in order.

    Raises
    ------
    ValueError
        For an unknown operator, version or attribute, a wrong number of inputs or outputs, or a wrong value.
    TypeError
        For an input whose element type is not in the version's list, or an attribute of the wrong kind.

    Notes
    -----
    Types follow the list of each version, except that every sequence operator takes bfloat16 (the text gives it to
    SplitToSequence-24 alone, whose result no other operator could then take).  Arrays of dtype object must hold str.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.opset.run("Split", [np.arange(5)], {"num_outputs": 2}, opset=18, n_outputs=2)
    (array([0, 1, 2]), array([3, 4]))
    """
    version, since = _find(op_type, opset)
    operator = f"{op_type}-{since}"
    checked = Call(
        _checked_inputs(version, inputs, operator),
        _checked_attributes(version, {} if attributes is None else attributes, operator),
        _checked_outputs(version, n_outputs, operator),
        copy,
        xp,
        device,
    )
    try:
        return version.run(checked)
    except (TypeError, ValueError, IndexError) as error:
        # In the name of the ONNX operator instead of the function's.
        text = str(error).removeprefix(f"{_FUNCTION_NAMES[op_type]}: ")
        if text == str(error):
            raise
        raise type(error)(f"{operator}: {text}") from error


def supported() -> dict[str, tuple[int, ...]]:
    """Return the operators that `run` supports, and the opsets in which their versions begin.

    Returns
    -------
    dict
        Operator to its versions in rising order.

    Examples
    --------
    >>> import seqarray as sa
    >>> sa.opset.supported()["SplitToSequence"]
    (11, 24)
    """
    return {op_type: tuple(versions) for op_type, versions in _OPERATORS.items()}


def _find(op_type: str, opset: int) -> tuple[Version, int]:
    if not isinstance(op_type, str):
        raise TypeError(f"opset.run: op_type is {describe(op_type)}; expected the name of an operator")
    versions = _OPERATORS.get(op_type)
    if versions is None:
        raise ValueError(
            f"opset.run: op_type {op_type!r} is not a supported operator; supported are {', '.join(_OPERATORS)}"
        )
    opset = integer(opset, operator=op_type, name="opset")
    if not min(versions) <= opset <= NEWEST_OPSET:
        raise ValueError(
            f"{op_type}: opset is {opset}; it must lie in [{min(versions)}, {NEWEST_OPSET}] "
            f"(versions of {op_type}: {', '.join(map(str, versions))})"
        )
    since = max(version for version in versions if version <= opset)
    return versions[since], since


def _checked_inputs(version: Version, inputs: Sequence[Any], operator: str) -> list[Any]:
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"{operator}: inputs must be a list or tuple, not {type(inputs).__name__}")
    given = list(inputs)
    declared = version.inputs
    required = sum(not declaration.optional for declaration in declared)
    if len(given) < required or (len(given) > len(declared) and not version.variadic):
        names = ", ".join(f"[{d.name}]" if d.optional else d.name for d in declared) or "none"
        allowed = f"at least {required}" if version.variadic else f"{required} to {len(declared)}"
        if required == len(declared) and not version.variadic:
            allowed = str(required)
        raise ValueError(f"{operator}: got {len(given)} inputs; expected {allowed} ({names})")
    given += [None] * (len(declared) - len(given))
    checked = []
    for index, value in enumerate(given):
        declaration = declared[min(index, len(declared) - 1)]
        label = f"input {index} ({declaration.name})"
        if value is None:
            if not declaration.optional:
                raise ValueError(f"{operator}: {label} is missing; it is not optional")
        elif declaration.sequence:
            value = as_sequence(value, operator=f"{operator}: {label}")
            _check_type(value.element_type, declaration, operator, label)
            for element in value if value.element_type == "string" else ():
                check_text(element, label=f"{operator}: {label}")
        elif not (type(value) is int and declaration.types == _INDICES):
            value = as_array(value, operator=operator, label=label)
            _check_type(element_type_of(value.dtype), declaration, operator, label)
            check_text(value, label=f"{operator}: {label}")
        checked.append(value)
    return checked


def _check_type(element_type: str, declaration: Input, operator: str, label: str) -> None:
    if element_type not in declaration.types:
        form = "seq({})" if declaration.sequence else "{}"
        allowed = ", ".join(form.format(onnx_name(name)) for name in declaration.types)
        raise TypeError(f"{operator}: {label} is {form.format(onnx_name(element_type))}; allowed are {allowed}")


def _checked_attributes(version: Version, attributes: Mapping[str, Any], operator: str) -> dict[str, Any]:
    if not isinstance(attributes, Mapping):
        raise TypeError(f"{operator}: attributes must be a mapping of names to values, not {type(attributes).__name__}")
    for name in attributes:
        if name not in version.attributes:
            known = ", ".join(version.attributes) or "none"
            raise ValueError(f"{operator}: unknown attribute {name!r}; it has {known}")
    checked = {}
    for name, default in version.attributes.items():
        value = attributes.get(name)
        if value is None:
            if default is _REQUIRED:
                raise ValueError(f"{operator}: attribute {name!r} is required")
            checked[name] = None if isinstance(default, list) else default
        elif isinstance(default, list):
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"{operator}: attribute {name!r} is {value!r}; expected a list of integers")
            checked[name] = [integer(v, operator=operator, name=f"{name}[{i}]") for i, v in enumerate(value)]
        elif isinstance(value, bool) and name in _FLAGS:
            checked[name] = value
        else:
            checked[name] = integer(value, operator=operator, name=name)
    return checked


def _checked_outputs(version: Version, n_outputs: int, operator: str) -> int:
    n_outputs = integer(n_outputs, operator=operator, name="n_outputs")
    if n_outputs < 1 or (n_outputs > 1 and not version.several_outputs):
        allowed = "at least 1" if version.several_outputs else "1"
        raise ValueError(f"{operator}: n_outputs is {n_outputs}; expected {allowed}")
    return n_outputs


def _sequence_construct(call: Call) -> tuple[ArraySequence[Any]]:
    return (sequence_construct(*call.inputs),)


def _sequence_empty(call: Call) -> tuple[ArraySequence[Any]]:
    code = call.attributes["dtype"]
    element_type = ELEMENT_TYPE_BY_CODE.get(code)
    if element_type not in _SEQUENCES:
        allowed = ", ".join(f"{c} ({t})" for c, t in ELEMENT_TYPE_BY_CODE.items() if t in _SEQUENCES)
        known = {0: "0 (UNDEFINED)"}.get(code, f"{code} ({element_type})" if element_type else f"{code}")
        raise ValueError(f"sequence_empty: dtype is {known}; allowed are {allowed}")
    return (sequence_empty(element_type, xp=call.xp, device=call.device),)


def _sequence_at(call: Call) -> tuple[Any]:
    return (sequence_at(*call.inputs, copy=call.copy),)


def _sequence_insert(call: Call) -> tuple[ArraySequence[Any]]:
    return (sequence_insert(*call.inputs),)


def _sequence_erase(call: Call) -> tuple[ArraySequence[Any]]:
    return (sequence_erase(*call.inputs),)


def _sequence_length(call: Call) -> tuple[Any]:
    (sequence,) = call.inputs
    if sequence.namespace is None and call.xp is not None:
        # Only its length counts, and any namespace holds float32.
        sequence = sequence_empty("float32", xp=call.xp, device=call.device)
    return (sequence_length(sequence),)


def _concat_from_sequence(call: Call) -> tuple[Any]:
    return (concat_from_sequence(*call.inputs, **call.attributes, copy=call.copy),)


def _concat(call: Call) -> tuple[Any]:
    return (concat_from_sequence(call.inputs, axis=call.attributes["axis"], copy=call.copy),)


def _split_to_sequence(call: Call) -> tuple[ArraySequence[Any]]:
    return (split_to_sequence(*call.inputs, **call.attributes, copy=call.copy),)


def _split_by_attribute(call: Call) -> tuple[Any, ...]:
    """Split-2 and -11, whose sizes are an attribute."""
    return _split_by(call, call.attributes["split"])


def _split_by_input(call: Call) -> tuple[Any, ...]:
    """Split-13, whose sizes are an input."""
    return _split_by(call, call.inputs[1])


def _split_1(call: Call) -> tuple[Any, ...]:
    """Split-1, whose sizes are an attribute, or an input that has the type of the data: floats."""
    sizes, array = call.attributes["split"], call.inputs[1]
    if array is None:
        return _split_by(call, sizes)
    if sizes is not None:
        raise ValueError("split: split is given both as an input and as an attribute")
    _check_rank_of_sizes(array, call)
    check_readable(array, operator="split", name="split")
    values = host_values(array, float, operator="split", name="split")
    for index, value in enumerate(values):
        if value != value // 1:
            raise ValueError(f"split: split[{index}] is {value}; expected an integer")
    return _split_by(call, list(map(int, values)))


def _check_rank_of_sizes(sizes: Any, call: Call) -> None:
    if len(sizes.shape) == 0:
        instead = "; the attribute num_outputs makes a number of chunks" if "num_outputs" in call.attributes else ""
        raise TypeError(f"split: split must be 1-D and hold all sizes, but is a scalar{instead}")
    if len(sizes.shape) != 1:
        raise ValueError(f"split: split must be 1-D, but has shape {tuple(sizes.shape)}")


def _split_by(call: Call, sizes: Any) -> tuple[Any, ...]:
    """Split before 18: by sizes, or into as many equal parts as there are outputs."""
    if sizes is not None:
        return _split_into_sizes(call, sizes)
    x, axis = call.inputs[0], call.attributes["axis"]
    if -len(x.shape) <= axis < len(x.shape):
        length = length_along(x.shape, axis, operator="split", of="input 0")
        if length % call.n_outputs:
            raise ValueError(
                f"split: axis {axis} has length {length}, which is not divisible into {call.n_outputs} equal outputs"
            )
    return split(x, num_outputs=call.n_outputs, axis=axis, copy=call.copy)


def _split_into_sizes(call: Call, sizes: Any) -> tuple[Any, ...]:
    if not isinstance(sizes, list):
        _check_rank_of_sizes(sizes, call)
    count = len(sizes) if isinstance(sizes, list) else sizes.shape[0]
    if count != call.n_outputs:
        raise ValueError(f"split: split has {count} sizes for {call.n_outputs} outputs")
    return split(call.inputs[0], sizes, axis=call.attributes["axis"], copy=call.copy)


def _split_18(call: Call) -> tuple[Any, ...]:
    (x, sizes), num_outputs = call.inputs, call.attributes["num_outputs"]
    if sizes is not None and num_outputs is None:
        return _split_into_sizes(call, sizes)
    if num_outputs is not None and call.n_outputs > num_outputs:
        raise ValueError(f"split: num_outputs is {num_outputs}, but the node has {call.n_outputs} outputs")
    parts = split(x, sizes, num_outputs=num_outputs, axis=call.attributes["axis"], copy=call.copy)
    return parts[: call.n_outputs]


def _splits(types: tuple[str, ...]) -> tuple[Input]:
    return (Input("input", types),)


_SEQUENCE = Input("input_sequence", _SEQUENCES, sequence=True)
_POSITION = Input("position", _INDICES)
_SIZES = {"axis": 0, "split": []}

_OPERATORS: dict[str, dict[int, Version]] = {
    "SequenceConstruct": {11: Version((Input("inputs", _SEQUENCES),), {}, _sequence_construct, variadic=True)},
    "SequenceEmpty": {11: Version((), {"dtype": 1}, _sequence_empty)},
    "SequenceAt": {11: Version((_SEQUENCE, _POSITION), {}, _sequence_at)},
    "SequenceInsert": {
        11: Version((_SEQUENCE, Input("tensor", _SEQUENCES), _POSITION._replace(optional=True)), {}, _sequence_insert)
    },
    "SequenceErase": {11: Version((_SEQUENCE, _POSITION._replace(optional=True)), {}, _sequence_erase)},
    "SequenceLength": {11: Version((_SEQUENCE,), {}, _sequence_length)},
    "ConcatFromSequence": {11: Version((_SEQUENCE,), {"axis": _REQUIRED, "new_axis": 0}, _concat_from_sequence)},
    "SplitToSequence": {
        since: Version(
            (Input("input", _SEQUENCES), Input("split", _INDICES, optional=True)),
            {"axis": 0, "keepdims": 1},
            _split_to_sequence,
        )
        for since in (11, 24)
    },
    "Split": {
        1: Version(
            (Input("input", _FLOATS), Input("split", (*_FLOATS, *_INDICES), optional=True)),
            _SIZES,
            _split_1,
            several_outputs=True,
        ),
        2: Version(_splits(_TENSORS), _SIZES, _split_by_attribute, several_outputs=True),
        11: Version(_splits(_TENSORS), _SIZES, _split_by_attribute, several_outputs=True),
        13: Version(
            (*_splits(_SEQUENCES), Input("split", ("int64",), optional=True)),
            {"axis": 0},
            _split_by_input,
            several_outputs=True,
        ),
        18: Version(
            (*_splits(_SEQUENCES), Input("split", ("int64",), optional=True)),
            {"axis": 0, "num_outputs": None},
            _split_18,
            several_outputs=True,
        ),
    },
    "Concat": {
        1: Version((Input("inputs", _FLOATS),), {"axis": 1}, _concat, variadic=True),
        4: Version((Input("inputs", _TENSORS),), {"axis": _REQUIRED}, _concat, variadic=True),
        11: Version((Input("inputs", _TENSORS),), {"axis": _REQUIRED}, _concat, variadic=True),
        13: Version((Input("inputs", _SEQUENCES),), {"axis": _REQUIRED}, _concat, variadic=True),
    },
}

#: The Python function behind each operator, which its error messages name.
_FUNCTION_NAMES = {
    function.__name__.title().replace("_", ""): function.__name__
    for function in (
        concat_from_sequence,
        sequence_at,
        sequence_construct,
        sequence_empty,
        sequence_erase,
        sequence_insert,
        sequence_length,
        split,
        split_to_sequence,
    )
} | {"Concat": concat_from_sequence.__name__}
