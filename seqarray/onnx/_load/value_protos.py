"""Values as protobuf messages: TensorProto, SequenceProto and OptionalProto."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from seqarray._arguments import check_text
from seqarray._dtypes import ONNX_TYPES, element_type_of
from seqarray._kind import as_array, kind_of
from seqarray._libraries import HostArray
from seqarray._sequence import ArraySequence, as_sequence
from seqarray._transfer import to_host
from seqarray.onnx._load.tensor_protos import array_of, tensor_of

_PROTOS = (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)


def to_proto(value: Any, name: str | None = None) -> Any:
    """Return a value as the protobuf message that ONNX stores it in.

    Parameters
    ----------
    value : array, ArraySequence, list or tuple of arrays, or None
        The value.  Arrays of other libraries than NumPy are stored by their values, which are copied to the host.
    name : str, optional
        The name in the message.

    Returns
    -------
    onnx.TensorProto, onnx.SequenceProto or onnx.OptionalProto
        A tensor, a sequence of tensors or, for None, an empty optional.

    Raises
    ------
    TypeError
        If something is not an array, or of a type that ONNX does not have.

    Notes
    -----
    A SequenceProto without tensors does not tell its element type.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> proto = sa.onnx.to_proto([np.zeros(2), np.ones(1)], "parts")
    >>> type(proto).__name__, proto.name, len(proto.tensor_values)
    ('SequenceProto', 'parts', 2)
    >>> sa.onnx.from_proto(proto)
    <ArraySequence of 2 float64 arrays, numpy on cpu: (2,), (1,)>
    """
    name = name or ""
    if value is None:
        return onnx.OptionalProto(name=name, elem_type=onnx.OptionalProto.UNDEFINED)
    if isinstance(value, (ArraySequence, list, tuple)):
        sequence = as_sequence(value, operator="to_proto")
        arrays = _arrays_of(sequence) if len(sequence) else ()
        tensors = [_tensor(array, "", f"element {index}") for index, array in enumerate(arrays)]
        return onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.TENSOR, tensor_values=tensors)
    array = as_array(value, operator="to_proto", label="the value")
    ((array,),) = to_host(((array,),), kind_of(array), operator="to_proto")
    return _tensor(array, name, "the value")


def from_proto(proto: Any) -> Any:
    """Return the value that a protobuf message holds.

    Parameters
    ----------
    proto : onnx.TensorProto, onnx.SequenceProto or onnx.OptionalProto
        The message, with its data in itself.

    Returns
    -------
    array, ArraySequence or None
        NumPy arrays; None for an empty optional.  A sequence without tensors is of float32, since the message does not
        tell its type; a program takes the message itself as an empty sequence of every type.

    Raises
    ------
    TypeError
        If `proto` is something else, or the tensors of a sequence differ in type.
    ValueError
        If the message is damaged, its data is in another file, or it holds sparse tensors, maps, or sequences of
        sequences.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.onnx.from_proto(sa.onnx.to_proto(np.arange(3)))
    array([0, 1, 2])
    """
    if not is_proto(proto):
        raise TypeError(
            f"from_proto: proto is a {type(proto).__name__}; expected a TensorProto, SequenceProto or OptionalProto"
        )
    value = value_of(proto, "from_proto: ")
    return as_sequence(value, operator="from_proto") if isinstance(value, list) else value


def is_proto(value: Any) -> bool:
    """Return whether something is a message that holds a value."""
    return isinstance(value, _PROTOS)


def value_of(proto: Any, prefix: str = "") -> Any:
    """Return the value of a message as a NumPy array, a list of them, or None; errors begin with `prefix`."""
    if isinstance(proto, onnx.TensorProto):
        return array_of(proto, label=f"{prefix}tensor {proto.name!r}")
    if isinstance(proto, onnx.SequenceProto):
        _check_kind(proto, prefix, onnx.SequenceProto.TENSOR)
        label = f"{prefix}sequence {proto.name!r}: element"
        return [array_of(tensor, label=f"{label} {index}") for index, tensor in enumerate(proto.tensor_values)]
    _check_kind(proto, prefix, onnx.OptionalProto.TENSOR, onnx.OptionalProto.SEQUENCE)
    if proto.HasField("sequence_value"):
        return value_of(proto.sequence_value, prefix)
    return value_of(proto.tensor_value, prefix) if proto.HasField("tensor_value") else None


def optional_of(proto: Any) -> Any:
    """Return an optional that holds a tensor or a sequence; an empty optional is returned as it is."""
    if isinstance(proto, onnx.OptionalProto):
        return proto
    if isinstance(proto, onnx.SequenceProto):
        return onnx.OptionalProto(name=proto.name, elem_type=onnx.OptionalProto.SEQUENCE, sequence_value=proto)
    return onnx.OptionalProto(name=proto.name, elem_type=onnx.OptionalProto.TENSOR, tensor_value=proto)


def _arrays_of(sequence: ArraySequence[Any]) -> Sequence[HostArray]:
    """Return the elements as NumPy arrays."""
    if sequence._kind.library is None:
        raise TypeError("to_proto: the elements of the sequence are not arrays")
    return [array for block in to_host(sequence._blocks, sequence._kind, operator="to_proto") for array in block]


def _tensor(array: HostArray, name: str, label: str) -> onnx.TensorProto:
    element_type = element_type_of(array.dtype)
    if element_type not in ONNX_TYPES:
        raise TypeError(f"to_proto: {label} has dtype {array.dtype}, which ONNX does not have")
    check_text(array, label=f"to_proto: {label}")
    return tensor_of(array, name)


def _check_kind(proto: Any, prefix: str, *kinds: int) -> None:
    """Check that a message holds one of some kinds of values, or does not say what it holds."""
    if proto.elem_type not in (0, *kinds):
        kind = type(proto).DataType.Name(proto.elem_type)
        raise ValueError(f"{prefix}{type(proto).__name__} {proto.name!r} holds values of kind {kind}; expected tensors")
