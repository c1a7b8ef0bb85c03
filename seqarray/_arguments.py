"""Axes, positions, sizes and shapes: host arithmetic and error messages."""

from __future__ import annotations

import operator as _operator
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from math import isnan
from typing import Any, TypeVar

import numpy as np

from seqarray._dtypes import element_type_of
from seqarray._libraries import NUMPY, is_compiling, is_symbolic, library_of

Shape = tuple[int, ...]
Value = TypeVar("Value")
#: Host integers, one for every chunk: a range when they are evenly spaced, an int64 array when there are many.
Column = Any

_INTEGER_TYPES = frozenset("int8 int16 int32 int64 uint8 uint16 uint32 uint64".split())
LONG_COLUMN = 64


def flag(value: Any, operator: str, name: str) -> bool:
    """Return an attribute that is 0, 1 or a bool as a bool."""
    if type(value) is int and 0 <= value <= 1:
        return value == 1
    if isinstance(value, (int, np.integer, np.bool_)):
        if value in (0, 1):
            return bool(value)
        raise ValueError(f"{operator}: {name} is {value}; expected 0 or 1")
    raise TypeError(f"{operator}: {name} is {describe(value)}; expected 0 or 1")


def copy_flag(copy: Any, *, operator: str) -> None:
    """Check that `copy` is True, False or None."""
    if copy is not True and copy is not None and copy is not False:
        raise TypeError(f"{operator}: copy is {describe(copy)}; expected True, False or None")


def axis_in_range(axis: Any, rank: int, *, operator: str, of: str, new: bool = False) -> int:
    """Return an axis counted from the front; with `new`, the place of an axis that is about to be inserted."""
    place = axis if type(axis) is int else integer(axis, operator=operator, name="axis")
    places = rank + new
    if -places <= place < places:
        return place if place >= 0 else place + places
    if places == 0:
        raise np.exceptions.AxisError(f"{operator}: axis is {place}, but {of} has rank 0 and no axis to work along")
    raise np.exceptions.AxisError(
        f"{operator}: axis is {place}; {of} has rank {rank}, so it must lie in [{-places}, {places - 1}]"
    )


def position_in_range(position: Any, length: int, *, operator: str, insertion: bool = False) -> int:
    """Return a position counted from the front: of an element, or with `insertion` of a gap between elements."""
    place = position
    if type(place) is not int:
        place = integer(position, operator=operator, name="position", one_element=True)
    if -length <= place < length or (insertion and place == length):
        return int(place if place >= 0 else place + length)
    if length == 0 and not insertion:
        raise IndexError(f"{operator}: position is {place}, but the sequence is empty and has no element")
    last = length if insertion else length - 1
    holds = f"{length} element{'' if length == 1 else 's'}"
    raise IndexError(
        f"{operator}: position is {place}; the sequence has {holds}, so it must lie in [{-length}, {last}]"
    )


def integer(value: Any, *, operator: str, name: str, one_element: bool = False) -> int:
    """Return a host integer from an int, a NumPy integer or a 0-d integer array; a symbolic integer as it is.

    With `one_element`, the array may also have shape (1,).  An array on a device is read here, once; a lazy or traced
    one is refused.
    """
    if is_integer(value):
        return _plain(value)
    array = _integer_array(value, operator=operator, name=name)
    shape = tuple(array.shape)
    if shape != () and not (shape == (1,) and one_element):
        raise ValueError(f"{operator}: {name} must be a scalar, but has shape {shape}")
    return host_integer(array, operator=operator, name=name)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer; Python counts bool among them, and NumPy timedelta64."""
    if isinstance(value, (int, np.integer)):
        return not isinstance(value, (bool, np.timedelta64))
    return is_symbolic(value)


def _plain(value: Any) -> int:
    """Return an integer as an int; a symbolic one as it is."""
    return value if type(value) is int or is_symbolic(value) else int(value)


def index_of(value: Any, *, operator: str, name: str, expected: str = "an integer") -> int:
    """Return the integer that indexes a list where `value` does, except for bools, which Python takes for 0 and 1."""
    if is_integer(value):
        return int(value)
    if hasattr(value, "dtype"):
        return integer(value, operator=operator, name=name)
    try:
        if isinstance(value, bool):
            raise TypeError("a bool is not an integer")
        return _operator.index(value)
    except TypeError:
        raise TypeError(f"{operator}: {name} is {describe(value)}; expected {expected}") from None


def range_of(which: slice, length: int, *, operator: str) -> range:
    """Return the places that a slice chooses among `length` elements."""
    bounds = {"start": which.start, "stop": which.stop, "step": which.step}
    checked = [
        bound if bound is None else index_of(bound, operator=operator, name=f"{name} of the slice")
        for name, bound in bounds.items()
    ]
    if checked[2] == 0:
        raise ValueError(f"{operator}: step of the slice is 0; it must not be zero")
    return range(length)[slice(*checked)]


def chosen_places(which: Any, length: int, *, operator: str) -> list[int]:
    """Return the places that a list or 1-D array chooses among `length` elements: by integers, or a bool for each."""
    if isinstance(which, list):
        chosen: Sequence[Any]
        chosen, masks = which, bool(which) and all(isinstance(item, (bool, np.bool_)) for item in which)
    else:
        masks = element_type_of(getattr(which, "dtype", None)) == "bool"
        array = _readable_array(which, {"bool"} if masks else _INTEGER_TYPES, operator=operator, name="index")
        if masks and array.shape[0] != length:
            raise IndexError(
                f"{operator}: index is a mask of {array.shape[0]} bools; the sequence has {length} elements"
            )
        chosen = host_values(array, bool if masks else int, operator=operator, name="index")
    if masks:
        if len(chosen) != length:
            raise IndexError(f"{operator}: index is a mask of {len(chosen)} bools; the sequence has {length} elements")
        return [place for place, wanted in enumerate(chosen) if wanted]
    checked = _checked_integers(chosen, operator=operator, name="index")
    for number, place in enumerate(checked):
        if not -length <= place < length:
            raise IndexError(f"{operator}: index[{number}] is {place}, which is out of range for {length} elements")
    return [place if place >= 0 else place + length for place in checked]


def _integer_array(value: Any, *, operator: str, name: str) -> Any:
    """Return `value` if it is an array of integers whose values can be read now."""
    return _readable_array(value, _INTEGER_TYPES, operator=operator, name=name)


def _readable_array(value: Any, element_types: Collection[str], *, operator: str, name: str) -> Any:
    """Return `value` if it is an array, of integers or bools, whose values can be read now."""
    check_array(value, element_types, operator=operator, name=name)
    check_readable(value, operator=operator, name=name)
    return value


def check_array(
    value: Any,
    element_types: Collection[str] = _INTEGER_TYPES,
    *,
    operator: str,
    name: str,
    expected: str = "an integer",
) -> None:
    """Check that a value is an array, of integers unless other element types are given."""
    try:
        library_of(value)
    except TypeError:
        raise TypeError(f"{operator}: {name} is {describe(value)}; expected {expected}") from None
    if element_type_of(value.dtype) not in element_types:
        raise TypeError(f"{operator}: {name} has dtype {value.dtype}; expected {expected}")


def host_integers(values: Any, *, operator: str, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return integers in a list, a tuple or a 1-D array as a new int64 array, in one read of a device."""
    if not isinstance(values, (list, tuple)):
        expected = "a list, a tuple or a 1-D array of integers"
        integers = integers_of(values, operator=operator, name=name, expected=expected)
        if integers.ndim != 1:
            raise ValueError(f"{operator}: {name} must be 1-D, but has shape {integers.shape}")
        return integers
    checked = _checked_integers(values, operator=operator, name=name)
    try:
        return np.asarray(checked, dtype=np.int64)
    except OverflowError:
        large = max(checked, key=abs)
        raise ValueError(f"{operator}: {name}[{checked.index(large)}] is {large}; int64 cannot hold it") from None


def integers_of(
    array: Any, *, operator: str, name: str, expected: str = "an integer"
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the values of an integer array of any shape as a new int64 array, in one read of its device."""
    check_array(array, operator=operator, name=name, expected=expected)
    check_readable(array, operator=operator, name=name)
    library = library_of(array)
    host = array
    if library is not NUMPY:
        host = _read(
            lambda: library.to_host([array], copy=None, operator=operator)[0], array, operator=operator, name=name
        )
    if host.dtype == np.uint64 and host.size and host.max() >> np.uint64(63):
        raise ValueError(f"{operator}: {name} holds {host.max()}; int64 cannot hold it")
    return np.array(host, dtype=np.int64)


def host_integer(array: Any, *, operator: str, name: str) -> int:
    """Return the only value of an array of shape () or (1,)."""
    return _read(lambda: int(array[0] if len(array.shape) else array), array, operator=operator, name=name)


def host_values(array: Any, number: type[int] | type[float] | type[bool], *, operator: str, name: str) -> list[Any]:
    """Return the values of a 1-D array as Python numbers or bools, in one read of its device."""
    if hasattr(array, "tolist"):
        return _read(array.tolist, array, operator=operator, name=name)
    # Arrays without tolist (array-api-strict) are in host memory.
    return _read(lambda: [number(array[i]) for i in range(array.shape[0])], array, operator=operator, name=name)


def _read(read: Callable[[], Value], array: Any, *, operator: str, name: str) -> Value:
    """Return what is read from an array, which its library may refuse, as torch does under `vmap`."""
    if is_compiling():
        return read()
    try:
        return read()
    except MemoryError as error:  # a broadcast array may be of any length
        raise_named(error, operator)
        raise
    except Exception as error:  # each library has errors of its own
        raise TypeError(
            f"{operator}: {name} is of type {type(array).__name__}, whose value cannot be read: {error}; "
            "pass a host integer instead"
        ) from error


def check_readable(array: Any, *, operator: str, name: str) -> None:
    """Check that the values of an array can be read now."""
    if library_of(array).is_lazy(array):
        raise TypeError(
            f"{operator}: {name} is of type {type(array).__name__}, whose value is not known yet; "
            "pass a host integer instead"
        )
    if library_of(array).has_masked_values(array):
        raise TypeError(f"{operator}: {name} has masked values; pass host integers instead")


def rank_of(value: Any) -> int:
    """Return the rank of an array; 0 for everything else."""
    shape = getattr(value, "shape", ())
    return len(shape) if isinstance(shape, Sequence) else 0


def describe(value: Any) -> str:
    """Describe a value for a message: short ones in full, others by their type."""
    value_type = type(value)
    name = value_type.__qualname__
    # "bool" is the name of NumPy's type, too.
    name = name if value_type.__module__ == "builtins" else f"{value_type.__module__}.{name}"
    text = repr(value) if isinstance(value, (int, float, str)) or rank_of(value) == 0 else ""
    return f"{text} ({name})" if text and len(text) <= 40 else f"of type {name}"


def raise_named(error: Exception, operator: str) -> None:
    """Raise an error of an array library again as one that names the operator; return if it is to stay.

    Errors of the library's own classes stay, since programs may wait for them, and get a note.
    """
    if str(error).startswith(operator):
        return
    if type(error).__module__.partition(".")[0] in ("builtins", "numpy"):
        for known in (MemoryError, RuntimeError, TypeError, ValueError):
            if isinstance(error, known):
                raise known(f"{operator}: {str(error) or 'there is not enough memory'}") from error
    error.add_note(f"{operator}: raised by the array library")


def check_text(array: Any, *, label: str) -> None:
    """Check that a NumPy array of text holds str: object arrays may hold anything, StringDType missing values."""
    if isinstance(array, np.ndarray) and array.dtype.kind in "OT":
        for item in array.flat:
            if not isinstance(item, str):
                raise TypeError(f"{label} has dtype {array.dtype} and holds {item!r}; a string tensor holds str")


def length_along(shape: Sequence[Any], axis: int, *, operator: str, of: str) -> int:
    """Return the length of an axis; raise a ValueError if it is unknown, as in some lazy arrays."""
    length = shape[axis]
    if type(length) is int:
        return length
    if is_unknown(length):
        raise ValueError(
            f"{operator}: the length of axis {axis} of {of} is not known before it is computed; "
            "compute its chunk sizes first"
        )
    return _plain(length)


def is_unknown(length: Any) -> bool:
    """Return whether a length is unknown until it is computed (dask writes nan, others None)."""
    return length is None or (isinstance(length, float) and isnan(length))


def equal_chunks(length: int, chunk: Any, *, operator: str) -> tuple[Column, Column]:
    """Return starts and stops of chunks of one size; the last may be smaller, so its stop may exceed the length."""
    if chunk <= 0:
        raise ValueError(f"{operator}: split is {chunk}; a scalar split must be greater than 0")
    count = int(-(-length // chunk))
    if is_symbolic(length) or is_symbolic(chunk):
        bounds = [*(chunk * index for index in range(count)), length]
        return bounds[:-1], bounds[1:]
    chunk = min(chunk, max(length, 1))  # columns have 64 bits
    return range(0, count * chunk, chunk), range(chunk, (count + 1) * chunk, chunk)


def chunks_of_sizes(
    length: int, sizes: Any, *, axis: int, operator: str, name: str = "split", ranks: str = "1-D"
) -> tuple[Column, Column]:
    """Return starts and stops of chunks whose sizes are a list, a tuple or a 1-D integer array."""
    if isinstance(sizes, (list, tuple)):
        sizes = _checked_integers(sizes, operator=operator, name=name)
    else:
        array = _integer_array(sizes, operator=operator, name=name)
        if len(array.shape) != 1:
            raise ValueError(f"{operator}: {name} must be {ranks}, but has shape {tuple(array.shape)}")
        kept = type(array) is np.ndarray and len(array) > LONG_COLUMN
        sizes = array if kept else host_values(array, int, operator=operator, name=name)
    try:
        columns = _long_columns(sizes, length) if len(sizes) > LONG_COLUMN and not is_compiling() else None
    except (MemoryError, ValueError) as error:  # a broadcast array may be of any length
        raise_named(error, operator)
        raise
    if columns is not None:
        return columns
    # Check the sizes one by one, for the exact message.
    for index, size in enumerate(sizes):
        if size < 0:
            raise ValueError(f"{operator}: {name}[{index}] is {size}; a size must not be negative")
    bounds = list(accumulate(sizes, initial=0))
    if bounds[-1] != length:
        shown = f"{sizes} " if len(sizes) <= 8 else f"of {len(sizes)} sizes "
        raise ValueError(f"{operator}: {name} {shown}sums to {bounds[-1]}, but axis {axis} has length {length}")
    if any(map(is_symbolic, bounds)):
        return bounds[:-1], bounds[1:]  # to ask whether they are equal would make a program for those that are
    if sizes and sizes[0] > 0 and sizes.count(sizes[0]) == len(sizes):
        return equal_chunks(length, sizes[0], operator=operator)
    return bounds[:-1], bounds[1:]


def _long_columns(sizes: Any, length: int) -> tuple[Column, Column] | None:
    """Return starts and stops of many chunks; None if anything about the sizes is wrong."""
    try:
        column = np.asarray(sizes, dtype=np.int64)
    except OverflowError:
        return None
    # No sum can overflow below this.
    if column.min() < 0 or column.max() > length or length * len(column) >= 1 << 62:
        return None
    first = int(column[0])
    if first > 0 and bool((column == first).all()):
        return equal_chunks(length, first, operator="") if first * len(column) == length else None
    bounds = np.zeros(len(column) + 1, dtype=np.int64)
    np.cumsum(column, out=bounds[1:])
    return (bounds[:-1], bounds[1:]) if bounds[-1] == length else None


def _checked_integers(sizes: Sequence[Any], *, operator: str, name: str) -> list[int]:
    if set(map(type, sizes)) <= {int}:
        return list(sizes)
    for index, size in enumerate(sizes):
        if not is_integer(size):
            raise TypeError(f"{operator}: {name}[{index}] is {describe(size)}; expected an integer")
    return [size if is_symbolic(size) else _operator.index(size) for size in sizes]


def chunks_of_parts(length: int, parts: int, *, axis: int, operator: str) -> tuple[Column, Column]:
    """Return starts and stops of `parts` equal chunks; the last may be smaller, down to 0 but not below (Split-18)."""
    if parts <= 0:
        raise ValueError(f"{operator}: num_outputs is {parts}; it must be greater than 0")
    size = -(-length // parts)
    last = length - size * (parts - 1)
    # Only lengths below this one leave a negative size; which, torch cannot tell from the symbol of a length.
    if length < (parts - 1) ** 2 and last < 0:
        raise ValueError(
            f"{operator}: axis {axis} has length {length} and cannot be split into num_outputs={parts}: "
            f"equal chunks of {size} would leave {last} for the last; give the sizes"
        )
    if is_symbolic(length):
        bounds = [*(size * index for index in range(parts)), length]
        return bounds[:-1], bounds[1:]
    return chunks_of_sizes(length, [size] * (parts - 1) + [last], axis=axis, operator=operator)


def check_joinable(shapes: Sequence[Shape], axis: int, *, operator: str, stack: bool, of: str = "element") -> None:
    """Check that shapes are equal, except along `axis` when arrays are concatenated; unknown lengths agree with any."""
    first = shapes[0]
    # Symbols are not compared without need: the program that is being traced would be one for equal lengths.
    known = not is_compiling() and all(type(length) is int for shape in shapes for length in shape)
    if known and (
        shapes.count(first) == len(shapes)
        or (not stack and len({(len(shape), *shape[:axis], *shape[axis + 1 :]) for shape in shapes}) == 1)
    ):
        return
    for index, shape in enumerate(shapes):
        if len(shape) != len(first):
            raise ValueError(
                f"{operator}: {of} {index} has shape {shape}; {of} 0 has {first}, and their ranks must be equal"
            )
        for i, (length, wanted) in enumerate(zip(shape, first, strict=True)):
            if (i == axis and not stack) or length == wanted or is_unknown(length) or is_unknown(wanted):
                continue
            rule = "must be equal to be stacked" if stack else f"may differ only on axis {axis}"
            raise ValueError(f"{operator}: {of} {index} has shape {shape}; {of} 0 has {first}, and they {rule}")
