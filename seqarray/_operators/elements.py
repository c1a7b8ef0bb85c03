"""The operators that make a sequence and work on single elements of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from seqarray import _blocks, _tree
from seqarray._arguments import copy_flag, position_in_range, raise_named
from seqarray._engines import engine_for
from seqarray._kind import admit, as_array, kind_of_copies
from seqarray._libraries import Array, resolve_library
from seqarray._sequence import ArraySequence, as_sequence, empty_kind, make, of_elements
from seqarray._typing import AnyInteger, ArrayT


def sequence_construct(*inputs: ArrayT, copy: bool | None = None) -> ArraySequence[ArrayT]:
    """Make a sequence of arrays.

    Parameters
    ----------
    *inputs : array
        The elements, at least one, of one element type, one array library and one device; shapes may differ.
    copy : bool or None, default None
        True copies the elements, on NumPy packed into one allocation.  None and False hold the arrays themselves.

    Returns
    -------
    ArraySequence
        The inputs in order.

    Raises
    ------
    ValueError
        If there are no inputs, or they are on different devices.
    TypeError
        If an input is not an array, or element types or array libraries differ.

    See Also
    --------
    ArraySequence : Makes a sequence of a list.

    Notes
    -----
    ONNX operator SequenceConstruct, since opset 11.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.sequence_construct(np.zeros(2), np.zeros((3, 1)))
    <ArraySequence of 2 float64 arrays, numpy on cpu: (2,), (3, 1)>
    """
    copy_flag(copy, operator="sequence_construct")
    if not inputs:
        raise ValueError("sequence_construct: no inputs; it needs at least one (sequence_empty makes an empty one)")
    if isinstance(inputs[0], (list, tuple, ArraySequence)):
        given = type(inputs[0]).__name__
        raise TypeError(
            f"sequence_construct: element 0 must be an array, not a {given}; give the arrays one by one, or as *arrays"
        )
    sequence = as_sequence(inputs, operator="sequence_construct")
    if copy is True:
        kind = sequence._kind
        engine = engine_for(kind, "sequence_construct")
        try:
            packed = engine.pack(_blocks.to_arrays(sequence._blocks), kind)
        except (MemoryError, RuntimeError, TypeError, ValueError) as error:
            raise_named(error, "sequence_construct")
            raise
        return make(kind_of_copies(kind), packed, len(inputs))
    return sequence


def sequence_empty(
    dtype: Any = "float32", *, xp: ModuleType | str | None = None, device: Any = None
) -> ArraySequence[Any]:
    """Make an empty sequence of an element type.

    Parameters
    ----------
    dtype : str or dtype, default "float32"
        The element type, by its ONNX name ("float16", "string", ...) or as a dtype of any array library.
    xp : module or str, optional
        The array API namespace of the elements to come.  Default: that of the first one inserted.
    device : optional
        Their device.  Default: that of the first one inserted.

    Returns
    -------
    ArraySequence
        A sequence of length 0.

    Raises
    ------
    TypeError
        If there is no such element type, or `xp` cannot hold it on `device`.

    Notes
    -----
    ONNX operator SequenceEmpty, since opset 11.

    Examples
    --------
    >>> import seqarray as sa
    >>> sa.sequence_empty("int64")
    <ArraySequence of 0 int64 arrays>
    """
    library = resolve_library(xp, operator="sequence_empty")
    return make(empty_kind(dtype, library, device, operator="sequence_empty"), (), 0)


def sequence_at(sequence: Sequence[ArrayT], /, position: AnyInteger, *, copy: bool | None = True) -> ArrayT:
    """Return the element at a position.

    Parameters
    ----------
    sequence : ArraySequence, or list or tuple of arrays
        The sequence.
    position : int, or integer array of shape () or (1,)
        In ``[-n, n - 1]`` for a sequence of length `n`; negative positions count from the back.
    copy : bool or None, default True
        True gives fresh memory.  None and False give the element itself, as ``sequence[position]`` does.

    Returns
    -------
    array
        Of the element's shape.

    Raises
    ------
    IndexError
        If the position is out of range.
    TypeError, ValueError
        If the position is not an integer, or has more or less than one element.

    See Also
    --------
    ArraySequence : ``s[i]`` is the element itself.

    Notes
    -----
    ONNX operator SequenceAt, since opset 11.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.sequence_at([np.zeros(2), np.ones(3)], -1)
    array([1., 1., 1.])
    """
    if type(sequence) is not ArraySequence:
        sequence = as_sequence(sequence, operator="sequence_at")
    if copy is not True:
        copy_flag(copy, operator="sequence_at")
    element = sequence[position_in_range(position, sequence._length, operator="sequence_at")]
    if copy is not True:
        return element
    engine = engine_for(sequence._kind, "sequence_at")
    try:
        return engine.duplicate(element, sequence._kind)
    except (MemoryError, RuntimeError) as error:
        raise_named(error, "sequence_at")
        raise


def sequence_insert(
    sequence: Sequence[ArrayT], /, tensor: ArrayT, position: AnyInteger | None = None
) -> ArraySequence[ArrayT]:
    """Return a sequence with one more element.

    Parameters
    ----------
    sequence : ArraySequence, or list or tuple of arrays
        The sequence, which stays as it is.
    tensor : array
        The new element, which is held, not copied.
    position : int, or integer array of shape () or (1,), optional
        The element comes before the one that is at this position, in ``[-n, n]`` for a sequence of length `n`; negative
        positions count from the back.  Default: at the end.

    Returns
    -------
    ArraySequence
        Of length ``n + 1``.

    Raises
    ------
    TypeError
        If `tensor` is not an array, or not of the sequence's element type and array library.
    ValueError
        If it is on another device.
    IndexError
        If the position is out of range.

    Notes
    -----
    ONNX operator SequenceInsert, since opset 11.  An insert shares the unchanged blocks of the sequence.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> s = sa.sequence_empty("float64")
    >>> for n in range(3):
    ...     s = sa.sequence_insert(s, np.zeros(n))
    >>> s
    <ArraySequence of 3 float64 arrays, numpy on cpu: (0,), (1,), (2,)>
    """
    if type(sequence) is not ArraySequence:
        sequence = as_sequence(sequence, operator="sequence_insert")
    kind, length = sequence._kind, sequence._length
    if type(tensor) is not kind.array_type or tensor.dtype is not kind.dtype:
        tensor = as_array(tensor, operator="sequence_insert", label="tensor")
        kind = admit(kind, tensor, operator="sequence_insert", label="tensor")
    if position is not None:
        position = position_in_range(position, length, operator="sequence_insert", insertion=True)
    if position is None or position == length:
        changed = _tree.append(sequence._elements, tensor)
    else:
        changed = _tree.insert(sequence._elements, position, tensor)
    return of_elements(kind, changed, length + 1)


def sequence_erase(sequence: Sequence[ArrayT], /, position: AnyInteger | None = None) -> ArraySequence[ArrayT]:
    """Return a sequence without one of its elements.

    Parameters
    ----------
    sequence : ArraySequence, or list or tuple of arrays
        The sequence, which stays as it is.
    position : int, or integer array of shape () or (1,), optional
        In ``[-n, n - 1]`` for a sequence of length `n`; negative positions count from the back.  Default: the last.

    Returns
    -------
    ArraySequence
        Of length ``n - 1``; once empty, it keeps its element type, array library and device.

    Raises
    ------
    IndexError
        If the position is out of range; for an empty sequence, every position is.

    Notes
    -----
    ONNX operator SequenceErase, since opset 11.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.sequence_erase([np.zeros(1), np.zeros(2), np.zeros(3)], 0)
    <ArraySequence of 2 float64 arrays, numpy on cpu: (2,), (3,)>
    """
    if type(sequence) is not ArraySequence:
        sequence = as_sequence(sequence, operator="sequence_erase")
    length = sequence._length
    last = length - 1
    if position is not None:
        position = position_in_range(position, length, operator="sequence_erase")
    elif length:
        position = last
    else:
        raise IndexError("sequence_erase: the sequence is empty; there is nothing to erase")
    elements = sequence._elements
    rest = _tree.erase_last(elements) if position == last else _tree.erase(elements, position)
    return of_elements(sequence._kind, rest, last)


def sequence_length(sequence: Sequence[Any], /) -> Array:
    """Return the number of elements, as an array; ``len(sequence)`` is the same as a host integer.

    Parameters
    ----------
    sequence : ArraySequence, or list or tuple of arrays
        The sequence.

    Returns
    -------
    array of shape ()
        On the sequence's namespace and device, a NumPy array if it has none; int64, or the widest integer that the
        namespace can hold.

    Notes
    -----
    ONNX operator SequenceLength, since opset 11.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.sequence_length([np.zeros(1), np.zeros(2)])
    array(2)
    """
    sequence = as_sequence(sequence, operator="sequence_length")
    kind = sequence._kind
    library, device = kind.library, kind.device
    if library is None:
        return np.asarray(sequence._length, dtype=np.int64)
    with library.on_device(device):
        dtype = library.widest_integer(device)
        options = library.creation_options(library.device_of_scalars(device))
        return library.namespace.asarray(sequence._length, dtype=dtype, **options)
