"""An array namespace that has what the operators call and nothing else.

It lacks what the standard leaves optional, and what libraries that follow it in part do not have: its arrays have no
device and no methods, its functions neither `device` nor `copy`, and there is no list of its dtypes.
"""

import sys

import numpy as np


class DType:
    """A dtype that only its name tells."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"bare.{self.name}"

    def __reduce__(self):
        return "bool_" if self.name == "bool" else self.name


bool_, float32, float64, int32, int64 = map(DType, ("bool", "float32", "float64", "int32", "int64"))


class BareArray:
    """An array, as far as the operators need one."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array_namespace__(self, api_version=None):
        return sys.modules[__name__]

    @property
    def dtype(self):
        name = self.values.dtype.name
        return bool_ if name == "bool" else globals()[name]

    @property
    def shape(self):
        return self.values.shape

    @property
    def ndim(self):
        return self.values.ndim

    def __getitem__(self, key):
        return type(self)(self.values[key])

    def __setitem__(self, key, value):
        self.values[key] = value

    def __int__(self):
        return int(self.values)

    def __add__(self, other):
        return type(self)(self.values + other.values)

    def __lt__(self, other):
        return type(self)(self.values < other.values)

    def __mul__(self, other):
        return type(self)(self.values * other.values)


class Readable(BareArray):
    """An array that NumPy reads by `__array__`, as it is."""

    def __array__(self, dtype=None, copy=None):
        return self.values


def asarray(values, dtype=None):
    """Make an array around the memory of a NumPy array, in float32 unless told otherwise, as some libraries do."""
    if isinstance(values, BareArray) and dtype is None:
        return values
    values = values.values if isinstance(values, BareArray) else np.asarray(values)
    if dtype is None and values.dtype == np.float64:
        dtype = float32
    return Readable(values if dtype is None else values.astype(dtype.name, copy=False))


def concat(arrays, axis=0):
    return type(arrays[0])(np.concatenate([array.values for array in arrays], axis=axis))


def stack(arrays, axis=0):
    return type(arrays[0])(np.stack([array.values for array in arrays], axis=axis))


def arange(stop, dtype=None):
    return Readable(np.arange(stop, dtype=dtype.name))


def reshape(array, shape):
    return type(array)(array.values.reshape(shape))
