"""Strict comparison of arrays and sequences, for tests, and timing of a function on several libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqarray._dtypes import ONNX_TYPES, element_type_of, native
from seqarray._kind import as_array
from seqarray._libraries import Array, library_of, same_device
from seqarray._sequence import ArraySequence, as_sequence
from seqarray._speed import Speeds, compare_speed

__all__ = ["Speeds", "assert_arrays_equal", "assert_sequences_equal", "compare_speed", "to_numpy"]


def assert_sequences_equal(actual: Any, expected: Any) -> None:
    """Assert that a value is a sequence, equal to another in element type, library, device, shapes and values.

    Parameters
    ----------
    actual : ArraySequence
        The sequence to check.  A list or tuple is not one.
    expected : ArraySequence, or list or tuple of arrays
        The expected length, element type, array library and device, and the shape and values of every element.

    Raises
    ------
    AssertionError
        With the first difference.

    Notes
    -----
    NaN equals NaN.  0.0 and -0.0 are equal, as in `numpy.testing`.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.testing.assert_sequences_equal(sa.split_to_sequence(np.arange(3), 2), [np.arange(2), np.asarray([2])])
    """
    if not isinstance(actual, ArraySequence):
        raise AssertionError(f"expected an ArraySequence, got {type(actual).__name__}")
    given, expected = expected, as_sequence(expected, operator="assert_sequences_equal")
    if len(actual) != len(expected):
        raise AssertionError(f"lengths differ: got {len(actual)}, expected {len(expected)}")
    if actual.element_type != expected.element_type:
        raise AssertionError(f"element types differ: got {actual.element_type}, expected {expected.element_type}")
    if isinstance(given, ArraySequence) and not given and actual.namespace is not given.namespace:
        raise AssertionError(f"namespaces differ: got {actual.namespace}, expected {given.namespace}")
    if not given and not same_device(actual.device, expected.device):
        raise AssertionError(f"devices differ: got {actual.device}, expected {expected.device}")
    for index, (element, wanted) in enumerate(zip(actual, expected, strict=True)):
        try:
            assert_arrays_equal(element, wanted)
        except AssertionError as error:
            raise AssertionError(f"element {index}: {error}") from None


def assert_arrays_equal(actual: Array, expected: Array) -> None:
    """Assert that two arrays are equal in library, device, element type, dtype (but for byte order), shape and values.

    Parameters
    ----------
    actual, expected : array
        The array to check, and the expected one.

    Raises
    ------
    AssertionError
        With the first difference.

    Notes
    -----
    Two arrays of text may have different dtypes: widths of `str_`, `StringDType` and object are all "string".

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.testing.assert_arrays_equal(np.ones(2), np.asarray([1.0, 1.0]))
    """
    for array in (actual, expected):
        if isinstance(array, np.generic):
            raise AssertionError(f"{array!r} is a NumPy scalar, not an array")
        try:
            as_array(array, operator="assert_arrays_equal", label="value")
        except TypeError as error:
            raise AssertionError(str(error)) from None
    library = library_of(actual)
    if library is not library_of(expected):
        raise AssertionError(f"array libraries differ: got {library.name}, expected {library_of(expected).name}")
    if not same_device(library.device_of(actual), library.device_of(expected)):
        raise AssertionError(f"devices differ: got {library.device_of(actual)}, expected {library.device_of(expected)}")
    is_text = element_type_of(actual.dtype) == element_type_of(expected.dtype) == "string"
    if not is_text and native(actual.dtype) != native(expected.dtype):
        raise AssertionError(f"dtypes differ: got {actual.dtype}, expected {expected.dtype}")
    if tuple(actual.shape) != tuple(expected.shape):
        # An unknown length (nan) equals nothing; the computed shapes are compared below.
        if not library.is_lazy(actual):
            raise AssertionError(f"shapes differ: got {tuple(actual.shape)}, expected {tuple(expected.shape)}")
    values, wanted = to_numpy(actual), to_numpy(expected)
    if values.dtype.kind == "V" and element_type_of(values.dtype) in ONNX_TYPES:
        # NumPy does not find the NaN of ml_dtypes; float32 can represent all values of these types.
        np.testing.assert_array_equal(values.astype(np.float32), wanted.astype(np.float32))
        return
    if is_text:
        values, wanted = values.astype(object), wanted.astype(object)
    else:
        values, wanted = values.astype(native(values.dtype)), wanted.astype(native(wanted.dtype))
    # What equals nothing, such as NaN, and what to say of a difference, NumPy's function knows, which takes longer.
    if values.shape != wanted.shape or not np.array_equal(values, wanted):
        np.testing.assert_array_equal(values, wanted, strict=True)


def to_numpy(array: Array) -> np.ndarray[Any, Any]:
    """Return the values of an array as a NumPy array, moved to the host if necessary.

    Parameters
    ----------
    array : array
        An array of any library, on any device; a lazy one is computed, a gradient is left behind.

    Returns
    -------
    numpy.ndarray
        Its values, in NumPy's dtype of the same element type; bfloat16 and float8 need the ml_dtypes package.

    Raises
    ------
    TypeError
        If it is not an array, NumPy has no such dtype or cannot read it, or values are masked or not known yet.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> sa.testing.to_numpy(np.float32(2))
    array(2., dtype=float32)
    """
    array = as_array(array, operator="to_numpy", label="the value")
    library = library_of(array)
    library.check_known([array], operator="to_numpy")
    (values,) = library.to_host([array], copy=None, operator="to_numpy")
    return values
