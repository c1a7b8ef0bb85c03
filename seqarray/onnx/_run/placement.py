"""Where a program's arrays are: an array library and a device, or the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqarray._dtypes import dtype_for, element_type_of
from seqarray._libraries import as_device, library_of, same_device
from seqarray._sequence import ArraySequence
from seqarray.onnx._load.tensor_protos import NUMPY
from seqarray.testing import to_numpy

#: Constants of at most so many values stay on the host too: they may turn out to be positions, sizes or conditions.
FEW_VALUES = 1024


class Place:
    """An array namespace and a device of it.

    A value that is a NumPy array while the namespace is another lies on the host: a length, a position, a condition, or
    arithmetic on such.  It moves to the device only when it meets arrays there.
    """

    def __init__(self, namespace: Any, device: Any) -> None:
        self.namespace = namespace
        self.device = as_device(namespace, device, operator="prepare")
        self.is_numpy = library_of(namespace) == "numpy"
        #: The constants of a program that stay on the host, by identity, and what they are on the device once asked.
        self._constants: dict[int, Any] = {}

    def __str__(self) -> str:
        library = library_of(self.namespace)
        return library if self.device is None else f"{library} on {self.device}"

    def holds(self, namespace: Any, device: Any) -> bool:
        """Whether this is the place of arrays of a namespace on a device."""
        return namespace is self.namespace and same_device(device, self.device)

    def constant(self, array: np.ndarray[Any, Any]) -> Any:
        """A constant where it is best kept."""
        if self.is_numpy:
            return array
        if array.size > FEW_VALUES:
            return self.upload(array)
        self._constants[id(array)] = None
        return array

    def constant_on_device(self, array: np.ndarray[Any, Any]) -> Any:
        """A constant on the device, where it goes only once; None for an array that is no constant."""
        found = self._constants.get(id(array), self)
        if found is None:
            found = self._constants[id(array)] = self.upload(array)
        return None if found is self else found

    def upload(self, array: np.ndarray[Any, Any]) -> Any:
        """A NumPy array as an array of this place, in memory of its own."""
        return ArraySequence([array]).to(xp=self.namespace, device=self.device, copy=True)[0]


def download(array: Any) -> np.ndarray[Any, Any]:
    """An array of any library as a NumPy array."""
    values = to_numpy(array)
    element_type = element_type_of(array.dtype)
    # torch gives some types as their bits.
    return values if element_type_of(values.dtype) == element_type else values.view(dtype_for_host(element_type))


def dtype_for_host(element_type: str) -> Any:
    """NumPy's dtype of an element type."""
    return dtype_for(NUMPY, element_type, operator="seqarray.onnx")
