"""What the elements of one sequence have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqarray._dtypes import common_dtype, element_type_of, native
from seqarray._libraries import (
    NO_KEY,
    NUMPY,
    Array,
    Device,
    Library,
    is_compiling,
    library_of,
    library_of_type,
    same_device,
)

_ndarray = np.ndarray


class Kind:
    """What every element of one sequence shares.

    Attributes
    ----------
    element_type : str
        The ONNX element type: the truth about equality of types.
    library : Library or None
        The array library; None while a sequence is empty and its library is open.
    dtype : dtype or None
        The common dtype, which is also the dtype of results.
    device : device or None
        Where the elements live; None while unknown.
    array_type : type or None
        `numpy.ndarray` if every element is exactly one: another is known to agree in library and device.
    exact : bool
        Whether every element has exactly `dtype`, not just the same element type.
    """

    __slots__ = ("array_type", "device", "dtype", "element_type", "exact", "library")

    def __init__(
        self,
        element_type: str,
        *,
        library: Library | None = None,
        dtype: Any = None,
        device: Device = None,
        array_type: type | None = None,
        exact: bool = True,
    ) -> None:
        self.element_type = element_type
        self.library = library
        self.dtype = dtype
        self.device = device
        self.array_type = array_type
        self.exact = exact

    @property
    def namespace(self) -> Any:
        """The array API namespace; None without a library."""
        return None if self.library is None else self.library.namespace


#: The kind of a sequence that was rebuilt around something other than arrays, as pytree transformations do.
OPAQUE = Kind("opaque")


def as_array(value: Any, *, operator: str, label: str) -> Array:
    """Return `value` if it is an array, a NumPy scalar as a 0-d array; raise a TypeError for everything else."""
    if type(value) is _ndarray:
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    try:
        reason = library_of(value).why_refused(value)
    except TypeError as error:
        reason = str(error)
    if reason:
        raise TypeError(f"{operator}: {label} must be an array: {reason}")
    return value


def kind_of(array: Array) -> Kind:
    """Return the kind of a sequence that holds just this array."""
    library = library_of(array)
    # The key of NumPy's numbers is their dtype.
    found: Kind | None = library.kinds.get(array.dtype) if type(array) is _ndarray else None
    if found is not None:
        return found
    key = library.kind_key(array)
    found = library.kinds.get(key)
    if found is None:
        found = _new_kind(array, library)
        if key is not NO_KEY and not is_compiling():  # torch.compile does not follow what is kept
            library.kinds[key] = found
    return found


def _new_kind(array: Array, library: Library) -> Kind:
    dtype = native(array.dtype)
    return Kind(
        element_type_of(array.dtype),
        library=library,
        dtype=dtype,
        device=library.device_of(array),
        array_type=_ndarray if type(array) is _ndarray else None,
        exact=bool(dtype == array.dtype),
    )


def kind_of_all(arrays: Sequence[Any], operator: str, to_join: bool = False) -> tuple[Kind, Sequence[Array]]:
    """Return the common kind of arrays, and the arrays themselves (NumPy scalars as 0-d arrays).

    Parameters
    ----------
    arrays : list or tuple
        What may be arrays; every one is looked at.
    operator : str
        The operator that error messages name.
    to_join : bool, default False
        Leave out what the engine compares while it joins.

    Raises
    ------
    TypeError
        If something is not an array, or of another library or element type than the first.
    ValueError
        If an array is on another device than the first.
    """
    if not arrays:
        return Kind("float32"), ()
    first = arrays[0]
    library = library_of_type(type(first))
    if library is not None:
        key = library.common_key(arrays, to_join)
        if key is not None:
            return library.kinds.get(key) or kind_of(first), arrays
    checked: list[Array] = [as_array(array, operator=operator, label=f"element {i}") for i, array in enumerate(arrays)]
    kind = kind_of(checked[0])
    for index, array in enumerate(checked):
        kind = admit(kind, array, operator=operator, label=f"element {index}")
    return kind, checked


def admit(kind: Kind, array: Array, *, operator: str, label: str) -> Kind:
    """Return the kind of a sequence of `kind` once `array` has joined it.

    Raises
    ------
    TypeError
        If the array is of another library or another element type.
    ValueError
        If the array is on another device.
    """
    library = library_of(array)
    if kind.library is not None and library is not kind.library:
        raise TypeError(
            f"{operator}: {label} is an array of {library.name}; "
            f"the sequence is of {kind.library.name}, and nothing is moved between array libraries"
        )
    element_type = element_type_of(array.dtype)
    if element_type != kind.element_type:
        hint = "" if kind.library is not None else f"; sequence_empty({element_type!r}) makes an empty one of this type"
        raise TypeError(
            f"{operator}: {label} has element type {element_type}; the sequence holds {kind.element_type}, "
            f"and all elements of a sequence have one type{hint}"
        )
    device = library.device_of(array)
    wanted = kind.device
    if kind.library is None:
        wanted = library.as_device(kind.device, operator=f"{operator}: {label}")
    if not same_device(wanted, device):
        raise ValueError(
            f"{operator}: {label} is on device {device}; the sequence is on {wanted}, "
            "and nothing is moved between devices"
        )
    if kind.library is None or kind.dtype is None:
        return kind_of(array)
    array_type = kind.array_type if type(array) is kind.array_type else None
    exact = kind.exact and bool(array.dtype == kind.dtype)
    dtype = kind.dtype if exact else common_dtype(kind.dtype, array.dtype)
    # An empty sequence of a named library may not know its device yet.
    device = device if kind.device is None else kind.device
    if (array_type, exact, device) == (kind.array_type, kind.exact, kind.device) and dtype == kind.dtype:
        return kind
    return _changed(kind, dtype=dtype, exact=exact, array_type=array_type, device=device)


def kind_of_copies(kind: Kind) -> Kind:
    """Return the kind of copies of elements: of exactly the common dtype, none of a subclass."""
    array_type = _ndarray if kind.library is NUMPY else None
    if kind.exact and kind.array_type is array_type:
        return kind
    return _changed(kind, dtype=kind.dtype, exact=True, array_type=array_type, device=kind.device)


def kind_of_width(kind: Kind, width: int) -> Kind:
    """Return the kind of text of fixed width, wide enough for so many characters."""
    dtype = np.promote_types(kind.dtype, f"U{width}")
    if dtype == kind.dtype:
        return kind
    return _changed(kind, dtype=dtype, exact=False, array_type=None, device=kind.device)


def _changed(kind: Kind, *, dtype: Any, exact: bool, array_type: type | None, device: Device) -> Kind:
    return Kind(kind.element_type, library=kind.library, dtype=dtype, device=device, array_type=array_type, exact=exact)
