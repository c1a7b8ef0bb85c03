"""Ragged batches in the forms that others use: values with offsets, padded arrays with lengths, masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import ModuleType
from typing import Any, Literal

import numpy as np

from seqarray._arguments import (
    LONG_COLUMN,
    Column,
    Shape,
    axis_in_range,
    check_array,
    check_joinable,
    copy_flag,
    describe,
    host_integers,
    integer,
    integers_of,
    length_along,
    raise_named,
)
from seqarray._blocks import Blocks, lengths_of, shapes_of
from seqarray._dtypes import element_type_of, fill_of, itemsize_of
from seqarray._engines import engine_for
from seqarray._engines.segments import Integers, Segments, offsets_of
from seqarray._kind import Kind, kind_of_copies, kind_of_width
from seqarray._libraries import NUMPY, Array, library_of, resolve_library, same_device
from seqarray._operators.joining import view_of
from seqarray._operators.splitting import as_blocks, splittable, views
from seqarray._sequence import ArraySequence, admit_all, as_sequence, make
from seqarray._typing import AnyIntegers, ArrayT
from seqarray._views import Cut, PackedRun, Run, reshaped

#: Elements of at least this many bytes on average are padded one by one; smaller ones are joined before.
_LARGE_ELEMENT = 16 << 10


def pack(sequence: Sequence[ArrayT], /, *, axis: int = 0, copy: bool | None = None) -> tuple[ArrayT, Integers]:
    """Return the elements joined along an axis, and the offsets at which each begins and ends there.

    Parameters
    ----------
    sequence : ArraySequence, or list or tuple of arrays
        At least one element, of rank 1 or more.  Shapes must be equal, but for the lengths along `axis`.
    axis : int, default 0
        In ``[-r, r - 1]`` for elements of rank `r`.
    copy : bool or None, default None
        None returns a view of the values where the elements lie so already, as chunks of a split do.  True copies.
        False raises where a view is impossible.

    Returns
    -------
    values : array
        The joined elements.
    offsets : int64 NumPy array of shape (n + 1,)
        Element `i` is ``values[offsets[i]:offsets[i + 1]]``, along `axis`; the first offset is 0.

    Raises
    ------
    ValueError
        If the sequence is empty, shapes do not fit, or ``copy=False`` and a copy is needed.
    AxisError
        If the axis is out of range.
    TypeError
        If `sequence` is not one of arrays.

    See Also
    --------
    unpack : The way back.
    concat_from_sequence : The values alone.

    Notes
    -----
    Not an operator of ONNX.  Values and offsets are what torch calls jagged, Arrow a list array, and TensorFlow row
    splits.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.pack([np.asarray([1, 2, 3]), np.asarray([4])])
    (array([1, 2, 3, 4]), array([0, 3, 4]))
    """
    copy_flag(copy, operator="pack")
    sequence, axis = _joinable(sequence, axis, "pack")
    return _joined(sequence, axis, copy, "pack"), sequence.offsets(axis)


def _joined(sequence: ArraySequence[Any], axis: int, copy: bool | None, operator: str) -> Array:
    """Return the elements joined along an axis: as a view where `copy` wants one."""
    kind, blocks = sequence._kind, sequence._blocks
    view = None if copy is True else view_of(sequence, kind, blocks, axis, False, copy, None, operator)
    return _called(operator, engine_for(kind, operator).join, blocks, axis, False, kind) if view is None else view


def unpack(
    values: ArrayT, offsets: AnyIntegers, /, *, axis: int = 0, copy: bool | None = None
) -> ArraySequence[ArrayT]:
    """Return the chunks of an array between offsets along an axis.

    Parameters
    ----------
    values : array
        The array, of rank 1 or more.
    offsets : list, tuple or 1-D integer array
        The ``n + 1`` bounds of `n` chunks, of any array library, which must not fall.  They are read once.  The first
        need not be 0, nor the last the length of the axis, as in slices of Arrow arrays.
    axis : int, default 0
        In ``[-r, r - 1]`` for an array of rank `r`.
    copy : bool or None, default None
        None returns views, as ``split_to_sequence(copy=None)`` does.  True copies what lies between the first and the
        last offset.  False raises where a view is impossible.

    Returns
    -------
    ArraySequence
        The `n` chunks.

    Raises
    ------
    ValueError
        If there is no offset, an offset is negative, less than the one before it or beyond the end of the axis, or
        ``copy=False`` on a library without views.
    AxisError
        If the axis is out of range.
    TypeError
        If `values` is not an array, or offsets are not integers.

    See Also
    --------
    pack : The way back.
    split_to_sequence : The same with sizes in place of offsets.

    Notes
    -----
    Not an operator of ONNX.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> list(sa.unpack(np.asarray([1, 2, 3, 4]), [0, 3, 3, 4]))
    [array([1, 2, 3]), array([], dtype=int64), array([4])]
    """
    x, kind, axis, length = splittable(values, axis, copy, "unpack", "values")
    bounds = host_integers(offsets, operator="unpack", name="offsets")
    _check_offsets(bounds, length, axis)
    first, last = int(bounds[0]), int(bounds[-1])
    if len(bounds) == 1:
        return make(kind, (), 0)
    library = kind.library
    assert library is not None
    if copy is True:
        if (first, last) != (0, length):
            x, bounds = x[(slice(None),) * axis + (slice(first, last), ...)], bounds - first
    elif library.slices_are_copies and copy is False:
        raise ValueError(f"unpack: {library.name} has no views, so chunks need a copy; pass copy=True or copy=None")
    starts, stops = _columns(bounds)
    cut = Cut(tuple(x.shape), axis)
    if copy is True:
        chunks = _called("unpack", engine_for(kind, "unpack").split, x, cut, starts, stops, kind)
        return make(kind_of_copies(kind), chunks, len(starts))
    return make(kind, views(x, cut, starts, stops, kind, copy, "unpack"), len(starts))


def _columns(bounds: Integers) -> tuple[Column, Column]:
    """Return starts and stops: of a few chunks as lists, which are faster to index."""
    if len(bounds) <= LONG_COLUMN:
        few = bounds.tolist()
        return few[:-1], few[1:]
    return bounds[:-1], bounds[1:]


def _check_offsets(bounds: Integers, length: int, axis: int) -> None:
    if not len(bounds):
        raise ValueError("unpack: offsets is empty; n chunks have n + 1 offsets")
    if bounds[0] < 0:
        raise ValueError(f"unpack: offsets[0] is {bounds[0]}; it must not be negative")
    falls = bounds[1:] < bounds[:-1]
    if falls.any():
        place = int(falls.argmax())
        raise ValueError(
            f"unpack: offsets[{place + 1}] is {bounds[place + 1]}, less than offsets[{place}], which is {bounds[place]}"
        )
    if bounds[-1] > length:
        place = len(bounds) - 1
        raise ValueError(f"unpack: offsets[{place}] is {bounds[-1]}, but axis {axis} of values has length {length}")


def pad_sequence(
    sequence: Sequence[ArrayT],
    /,
    *,
    axis: int = 0,
    fill_value: Any = 0,
    length: int | None = None,
    side: Literal["right", "left"] = "right",
) -> ArrayT:
    """Return one array in which every element is padded to the same length along an axis.

    Parameters
    ----------
    sequence : ArraySequence, or list or tuple of arrays
        At least one element, of rank 1 or more.  Shapes must be equal, but for the lengths along `axis`.
    axis : int, default 0
        The axis of the elements that is padded, in ``[-r, r - 1]`` for elements of rank `r`.
    fill_value : int, float, complex, bool or str, default 0
        What the padding holds; the element type must be able to hold it.  0 stands for the zero of every type, which is
        the empty string for text.
    length : int, optional
        The length to which elements are padded.  Default: that of the longest.
    side : {"right", "left"}, default "right"
        Where the padding goes: behind the elements, or in front of them.

    Returns
    -------
    array
        Of shape ``(n, ..., length, ...)``: element `i` is row `i`.  Fresh memory.

    Raises
    ------
    ValueError
        If the sequence is empty, shapes do not fit, an element is longer than `length`, or `fill_value` is out
        of range.
    AxisError
        If the axis is out of range.
    TypeError
        If the element type cannot hold `fill_value`.

    See Also
    --------
    unpad_sequence : The way back.
    sequence_mask : Which items of the result are no padding.

    Notes
    -----
    Not an operator of ONNX.  ``torch.nn.utils.rnn.pad_sequence(batch_first=True)`` is the same for `axis` 0.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.pad_sequence([np.asarray([1, 2, 3]), np.asarray([4])], fill_value=-1)
    array([[ 1,  2,  3],
           [ 4, -1, -1]])
    """
    operator = "pad_sequence"
    on_left = _is_left(side, operator)
    sequence, axis = _joinable(sequence, axis, operator)
    kind, blocks = sequence._kind, sequence._blocks
    if isinstance(getattr(fill_value, "shape", None), tuple) and not isinstance(fill_value, np.generic):
        raise TypeError(f"{operator}: fill_value is {describe(fill_value)}; expected a Python number, bool or str")
    fill = fill_of(fill_value, kind.element_type, kind.dtype, operator=operator)
    if isinstance(kind.dtype, np.dtype) and kind.dtype.kind == "U":
        kind = kind_of_width(kind, len(fill.item()))
    lengths = lengths_of(blocks, axis, operator=operator)
    padded = longest = int(lengths.max())
    if length is not None:
        padded = integer(length, operator=operator, name="length")
        if padded < 0:
            raise ValueError(f"{operator}: length is {padded}; it must not be negative")
        if padded < longest:
            index = int(lengths.argmax())
            raise ValueError(
                f"{operator}: element {index} has length {longest} along axis {axis}, more than length={padded}"
            )
    shape, count = _first_shape(blocks), len(lengths)
    before, after = shape[:axis], shape[axis + 1 :]
    rows = prod(before)
    if count * rows * padded * prod(after) * itemsize_of(kind.dtype) >= 1 << 63:
        raise ValueError(f"{operator}: length is {padded}; the result would have 2**63 bytes or more")
    # Row r of element i is a range of its own.
    places = np.arange(count * rows) * padded
    if on_left:
        places += np.repeat(padded - lengths, rows)
    sources = []
    index = 0
    for piece, own in _pieces(sequence, axis, lengths, int(lengths.sum()) * rows * prod(after)):
        total = int(own.sum())
        starts = (offsets_of(own)[:-1, None] + np.arange(rows) * total).reshape(-1)
        segments = Segments(starts, places[index : index + len(starts)], np.repeat(own, rows))
        sources.append((reshaped(piece, (rows * total, *after)), segments))
        index += len(starts)
    result = _called(operator, engine_for(kind, operator).gather, sources, count * rows * padded, kind, fill)
    library: Any = kind.library
    return library.reshaped_result(result, (count, *before, padded, *after))


def _pieces(sequence: ArraySequence[Any], axis: int, lengths: Integers, size: int) -> list[tuple[Array, Integers]]:
    """Return arrays that consist of elements joined along an axis, and the lengths of these elements."""
    kind, blocks = sequence._kind, sequence._blocks
    view = view_of(sequence, kind, blocks, axis, False, None, None, "pad_sequence")
    if view is not None:
        return [(view, lengths)]
    if size * itemsize_of(kind.dtype) >= len(lengths) * _LARGE_ELEMENT:
        return [(element, lengths[i : i + 1]) for i, element in enumerate(sequence)]
    joined = _called("pad_sequence", engine_for(kind, "pad_sequence").join, blocks, axis, False, kind)
    return [(joined, lengths)]


def unpad_sequence(
    array: ArrayT, lengths: AnyIntegers, /, *, axis: int = 0, side: Literal["right", "left"] = "right"
) -> ArraySequence[ArrayT]:
    """Return the rows of a padded array without their padding.

    Parameters
    ----------
    array : array
        Of shape ``(n, ..., length, ...)``.
    lengths : list, tuple or 1-D integer array
        How long each of the `n` rows is without padding; read once.
    axis : int, default 0
        The axis of the rows along which they are padded, in ``[-r, r - 1]`` for rows of rank `r`.
    side : {"right", "left"}, default "right"
        Where the padding is.

    Returns
    -------
    ArraySequence
        Of `n` arrays.  Fresh memory, in one allocation.

    Raises
    ------
    ValueError
        If there are not `n` lengths, or one is negative or more than that of the axis.
    AxisError
        If the axis is out of range.
    TypeError
        If `array` is not an array, or lengths are not integers.

    See Also
    --------
    pad_sequence : The way back.

    Notes
    -----
    Not an operator of ONNX.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> list(sa.unpad_sequence(np.asarray([[1, 2, 3], [4, 0, 0]]), [3, 1]))
    [array([1, 2, 3]), array([4])]
    """
    operator = "unpad_sequence"
    on_left = _is_left(side, operator)
    array, kind, _, count = splittable(array, 0, True, operator, "array")
    rank = len(array.shape) - 1
    axis = axis_in_range(axis, rank, operator=operator, of="a row of array")
    if element_type_of(getattr(lengths, "dtype", None)) == "bool":
        raise TypeError(f"{operator}: lengths is a mask, of dtype bool; give the lengths, its sum along the last axis")
    kept = host_integers(lengths, operator=operator, name="lengths")
    shape = tuple(array.shape[1:])
    before, after = shape[:axis], shape[axis + 1 :]
    padded = int(length_along(shape, axis, operator=operator, of="a row of array"))
    if len(kept) != count:
        raise ValueError(f"{operator}: there are {len(kept)} lengths for {count} rows of array")
    wrong = (kept < 0) | (kept > padded)
    if wrong.any():
        index = int(wrong.argmax())
        raise ValueError(
            f"{operator}: lengths[{index}] is {kept[index]}; it must lie in [0, {padded}], the length of axis {axis}"
        )
    if not count:
        return make(kind_of_copies(kind), (), 0)
    rows, offsets = prod(before), offsets_of(kept)
    starts = np.arange(count * rows) * padded
    repeated = np.repeat(kept, rows)
    if on_left:
        starts += padded - repeated
    segments = Segments(starts, offsets_of(repeated)[:-1], repeated)
    source = reshaped(array, (count * rows * padded, *after))
    engine = engine_for(kind, operator)
    values = _called(operator, engine.gather, [(source, segments)], int(offsets[-1]) * rows, kind)
    run = _run_of(values, (*before, int(offsets[-1]), *after), axis, offsets)
    return make(kind_of_copies(kind), as_blocks(run, kind.library), count)


def sequence_mask(
    lengths: AnyIntegers, /, *, length: int | None = None, xp: ModuleType | str | None = None, device: Any = None
) -> Array:
    """Return which items of a padded array are no padding.

    Parameters
    ----------
    lengths : list, tuple or integer array
        The length of every row; of any shape.
    length : int, optional
        The length to which rows are padded.  Default: the longest, for which `lengths` are read.  Longer rows are True
        throughout.
    xp : module or str, optional
        The array API namespace of the result.  Default: that of `lengths`; NumPy for a list.
    device : optional
        The device of the result.  Default: that of `lengths`.

    Returns
    -------
    bool array
        Of the shape of `lengths` with an axis of `length` behind it.

    Raises
    ------
    TypeError
        If lengths are not integers, or are not known yet and `length` is not given.
    ValueError
        If `length` is negative, or is not given and there are no lengths.

    See Also
    --------
    pad_sequence : Makes the array.

    Notes
    -----
    Not an operator of ONNX.  ``tf.sequence_mask`` is the same.

    Examples
    --------
    >>> import seqarray as sa
    >>> sa.sequence_mask([3, 1])
    array([[ True,  True,  True],
           [ True, False, False]])
    """
    operator = "sequence_mask"
    if isinstance(lengths, ArraySequence):
        raise TypeError(f"{operator}: lengths is a sequence of {len(lengths)} arrays; give its lengths()")
    library, host = resolve_library(xp, operator=operator), None
    if isinstance(lengths, (list, tuple)):
        host = host_integers(lengths, operator=operator, name="lengths")
        library = library or NUMPY
    else:
        check_array(lengths, operator=operator, name="lengths", expected="a list, a tuple or an array of integers")
        own = library_of(lengths)
        library = library or own
        device = own.device_of(lengths) if device is None and library is own else device
        if library is not own or not same_device(library.as_device(device, operator=operator), own.device_of(lengths)):
            host = integers_of(lengths, operator=operator, name="lengths")
    if device is None:
        device = library.default_device(None, operator=operator)
    device = library.as_device(device, operator=operator)
    if length is not None:
        padded = integer(length, operator=operator, name="length")
        if padded < 0:
            raise ValueError(f"{operator}: length is {padded}; it must not be negative")
    else:
        host = integers_of(lengths, operator=operator, name="lengths") if host is None else host
        if not host.size:
            raise ValueError(f"{operator}: there are no lengths; give length=")
        padded = max(int(host.max()), 0)
    if padded >= 1 << 60:  # compared as integers of 8 bytes
        raise ValueError(f"{operator}: the length is {padded}; the result would take 2**63 bytes or more")
    namespace = library.namespace
    with library.on_device(device):
        dtype = library.widest_integer(device)
        if (
            host is None
            and element_type_of(getattr(lengths, "dtype", None)) in ("uint32", "uint64")
            and not library.is_lazy(lengths)
        ):
            # The widest integer may not hold them.
            host = integers_of(lengths, operator=operator, name="lengths")
        if host is not None:
            host = np.minimum(host, padded)
            lengths = library.from_host([host], dtype, device, copy=None, operator=operator)[0]
        try:
            places = namespace.arange(padded, dtype=dtype, **library.creation_options(device))
            return places < library.converted(lengths, dtype)[..., None]
        except (MemoryError, RuntimeError, ValueError) as error:
            raise_named(error, operator)
            raise


def concat_each(*sequences: Sequence[ArrayT], axis: int = 0) -> ArraySequence[ArrayT]:
    """Return a sequence whose element `i` is element `i` of every given sequence, joined along an axis.

    Parameters
    ----------
    *sequences : ArraySequence, or list or tuple of arrays
        One or more, of one length, element type, array library and device.  Elements at one position must agree in
        shape, but for the lengths along `axis`.
    axis : int, default 0
        In ``[-r, r - 1]`` for elements of rank `r`.

    Returns
    -------
    ArraySequence
        As long as each of them.  Fresh memory, in one allocation.

    Raises
    ------
    ValueError
        If there is no sequence, or lengths, shapes or devices differ.
    AxisError
        If the axis is out of range.
    TypeError
        If element types or array libraries differ.

    See Also
    --------
    concat_from_sequence : Joins the elements of one sequence.
    sequence_map : With a body that joins, gives the same values in an allocation for each element.

    Notes
    -----
    Not an operator of ONNX.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> tokens = sa.unpack(np.asarray([1, 2, 3, 4]), [0, 3, 4])
    >>> list(sa.concat_each([np.asarray([0])] * 2, tokens))
    [array([0, 1, 2, 3]), array([0, 4])]
    """
    operator = "concat_each"
    if not sequences:
        raise ValueError(f"{operator}: no sequences; it needs at least one")
    given = [as_sequence(sequence, operator=f"{operator}: sequence {i}") for i, sequence in enumerate(sequences)]
    kind, length = _common_kind(given, operator), len(given[0])
    if not length:
        return make(kind_of_copies(kind), (), 0)
    axis = axis_in_range(axis, len(_first_shape(given[0]._blocks)), operator=operator, of="element 0 of sequence 0")
    shapes = [_shape_around(sequence._blocks, axis) for sequence in given]
    regular = shapes[0] is not None and shapes.count(shapes[0]) == len(shapes)
    if not regular:
        _check_positions(given, axis)
    lengths = [lengths_of(sequence._blocks, axis, operator=operator) for sequence in given]
    before, after = shapes[0] if regular and shapes[0] is not None else ((), ())
    rows: Any = prod(before)
    widths = lengths
    if not regular:
        # Rows of different lengths cannot be rows of one array: items are copied in their place.
        own = shapes_of(given[0]._blocks)
        rows = np.asarray([prod(shape[:axis]) for shape in own])
        inner = np.asarray([prod(shape[axis + 1 :]) for shape in own])
        widths = [column * inner for column in lengths]
    width = np.sum(widths, axis=0)
    offsets = offsets_of(rows * width)
    sources = []
    before_it = np.zeros(length, dtype=np.int64)
    for sequence, column in zip(given, widths, strict=True):
        bounds = offsets_of(rows * column)
        starts = _row_starts(bounds[:-1], column, rows)
        places = _row_starts(offsets[:-1] + before_it, width, rows)
        flat = reshaped(_flat(sequence, axis, regular and rows == 1), (int(bounds[-1]), *after))
        sources.append((flat, Segments(starts, places, np.repeat(column, rows))))
        before_it = before_it + column
    values = _called(operator, engine_for(kind, operator).gather, sources, int(offsets[-1]), kind)
    kind = kind_of_copies(kind)
    if not regular:
        sums = np.sum(lengths, axis=0).tolist()
        joined = [(*shape[:axis], total, *shape[axis + 1 :]) for shape, total in zip(own, sums, strict=True)]
        return make(kind, as_blocks(PackedRun.of_shapes(values, joined), kind.library), length)
    bounds = offsets_of(width)
    run = _run_of(values, (*before, int(bounds[-1]), *after), axis, bounds)
    return make(kind, as_blocks(run, kind.library), length)


def _run_of(values: Array, shape: Shape, axis: int, bounds: Integers) -> Run:
    """Return the chunks of new memory that contains them one after the other, each row-major."""
    cut = Cut(shape, axis, packed=prod(shape[:axis]) != 1)
    return Run(reshaped(values, (prod(shape),) if cut.packed else shape), cut, *_columns(bounds))


def _row_starts(starts: Integers, width: Integers, rows: Any) -> Integers:
    """Return the start of each of the rows of every element, given that of its first row."""
    count = np.broadcast_to(rows, starts.shape)
    number = np.arange(count.sum()) - np.repeat(offsets_of(count)[:-1], count)
    every_start: Integers = np.repeat(starts, count) + np.repeat(width, count) * number
    return every_start


def _flat(sequence: ArraySequence[Any], axis: int, in_line: bool) -> Array:
    """Return the items of all elements, each row-major, one element after the other."""
    if in_line:
        return _joined(sequence, axis, None, "concat_each")
    flat = [reshaped(element, (prod(element.shape),)) for element in sequence]
    return _joined(make(sequence._kind, (tuple(flat),), len(flat)), 0, None, "concat_each")


def _shape_around(blocks: Blocks, axis: int) -> tuple[Shape, Shape] | None:
    """Return the lengths of all elements before an axis and behind it; None if they differ."""
    if _are_of_one_split(blocks, axis):
        shape = _first_shape(blocks)
        return shape[:axis], shape[axis + 1 :]
    around = {(shape[:axis], shape[axis + 1 :], len(shape)) for shape in shapes_of(blocks)}
    before, after, rank = next(iter(around))
    return (before, after) if len(around) == 1 and rank > axis else None


def _check_positions(sequences: Sequence[ArraySequence[Any]], axis: int) -> None:
    """Check that the elements at every position can be joined."""
    for index, shapes in enumerate(zip(*(shapes_of(sequence._blocks) for sequence in sequences), strict=True)):
        axis_in_range(axis, len(shapes[0]), operator="concat_each", of=f"element {index} of sequence 0")
        check_joinable(shapes, axis, operator=f"concat_each: element {index}", stack=False, of="that of sequence")


def _common_kind(sequences: Sequence[ArraySequence[Any]], operator: str) -> Kind:
    """Return the kind of the elements of all sequences, which are of one length; raise an error if there is none."""
    first = sequences[0]
    kind = first._kind
    for index, sequence in enumerate(sequences):
        if len(sequence) != len(first):
            raise ValueError(
                f"{operator}: sequence {index} has {len(sequence)} elements; sequence 0 has {len(first)}, "
                "and all sequences must have the same length"
            )
        kind = admit_all(kind, sequence, operator=operator, label=f"an element of sequence {index}")
    return kind


def _joinable(sequence: Any, axis: Any, operator: str) -> tuple[ArraySequence[Any], int]:
    """Return the sequence and the axis, counted from the front, along which its elements can be joined."""
    sequence = as_sequence(sequence, operator=operator)
    if not len(sequence):
        raise ValueError(f"{operator}: the sequence is empty, so the rank of the result is unknown")
    engine_for(sequence._kind, operator)
    axis = axis_in_range(axis, len(_first_shape(sequence._blocks)), operator=operator, of="element 0")
    if not _are_of_one_split(sequence._blocks, axis):
        check_joinable(shapes_of(sequence._blocks), axis, operator=operator, stack=False)
    return sequence, axis


def _are_of_one_split(blocks: Blocks, axis: int) -> bool:
    """Return whether all elements are chunks of one array along an axis, whose shapes need no look."""
    block = blocks[0]
    return len(blocks) == 1 and isinstance(block, Run) and block.cut.axis == axis and not block.cut.dropped


def _first_shape(blocks: Blocks) -> Shape:
    return tuple(blocks[0][0].shape) if isinstance(blocks[0], tuple) else blocks[0].first_shape


def _called(operator: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of an engine returns; its errors name the operator."""
    try:
        return function(*arguments)
    except (MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise_named(error, operator)
        raise


def _is_left(side: Any, operator: str) -> bool:
    if not isinstance(side, str) or side not in ("left", "right"):
        error = ValueError if isinstance(side, str) else TypeError
        raise error(f"{operator}: side is {describe(side)}; expected 'left' or 'right'")
    return side == "left"
