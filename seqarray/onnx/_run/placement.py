"""Where values are during a run: on the device of the program, or on the host as NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

import numpy as np

from seqarray._arguments import host_integer
from seqarray._dtypes import element_type_of
from seqarray._kind import kind_of
from seqarray._libraries import NUMPY, Library, library_of, same_device
from seqarray._sequence import ArraySequence
from seqarray._transfer import move, target_device

#: Arrays of at most this many values are kept on the host: they may be positions, sizes or conditions.
FEW_VALUES = 1024

_BOOL_AND_INTEGERS = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split())
_ONE_ELEMENT = ((), (1,))


class Placement(Enum):
    """Where a kernel reads one of its inputs."""

    DEVICE = auto()
    HOST = auto()
    #: On the host if all inputs with this placement are there, else on the device.
    FOLLOW = auto()
    ANY = auto()


class Target:
    """An array library and a device of it, on which a program runs.

    On a library other than NumPy, NumPy arrays are values on the host: lengths, positions, conditions, and arithmetic
    on them.  They are moved to the device only where a kernel combines them with arrays there.
    """

    def __init__(self, library: Library, device: Any) -> None:
        self.library = library
        self.device = library.as_device(device, operator="prepare")
        self.is_numpy = library is NUMPY
        #: Whether its arrays and NumPy's can look at each other's memory.
        self.shares_host_memory = self.is_numpy or (
            library.is_viewed_by_host(self.device) and library.views_host(self.device)
        )
        # Constants kept on the host: identity to the array on the device, None until it is first used there.
        self._uploaded: dict[int, Any] = {}
        # Constants that only steps read which a session may stand for, by slot.
        self._placed: dict[int, Any] = {}

    @property
    def cuda_index(self) -> int | None:
        """The number of its CUDA device; None if it is none, or not known."""
        return None if self.device is None else self.library.cuda_index(self.device)

    def __str__(self) -> str:
        name = self.library.name
        return name if self.device is None else f"{name} on {self.device}"

    def matches(self, library: Library, device: Any) -> bool:
        """Return whether arrays of a library on a device are on this target."""
        return library is self.library and same_device(device, self.device)

    def place_constant(self, array: np.ndarray[Any, Any]) -> Any:
        """Return a constant on the device, or unchanged if it is small enough to be kept on the host."""
        if self.is_numpy:
            return array
        if array.size > FEW_VALUES:
            return upload(array, self)
        self._uploaded[id(array)] = None
        return array

    def constant_of(self, slot: int, array: np.ndarray[Any, Any]) -> Any:
        """Return the constant of a slot, placed when it is first asked for."""
        if slot not in self._placed:
            self._placed[slot] = self.place_constant(array)
        return self._placed[slot]

    def to_device(self, array: np.ndarray[Any, Any]) -> tuple[Any, bool]:
        """Return a NumPy array on the device, and whether it was moved now; constants are moved once."""
        key = id(array)
        if key not in self._uploaded:
            return upload(array, self), True
        found = self._uploaded[key]
        if found is None:
            found = self._uploaded[key] = upload(array, self)
        return found, False


def upload(array: np.ndarray[Any, Any], target: Target) -> Any:
    """Copy a NumPy array to the device of a target."""
    kind, library = kind_of(array), target.library
    ((moved,),) = move(((array,),), kind, library, target_device(kind, library, target.device), True)
    return moved


def download(array: Any) -> np.ndarray[Any, Any]:
    """Return an array of any library as a NumPy array; gradients are left behind."""
    if isinstance(array, np.ndarray):
        return array
    library, element_type, shape = library_of(array), element_type_of(array.dtype), tuple(array.shape)
    if element_type in _BOOL_AND_INTEGERS and shape in _ONE_ELEMENT and not library.has_masked_values(array):
        # A Loop reads its condition in every iteration; setting up a move takes longer than reading one value.
        return np.full(shape, host_integer(array, operator="run", name="a value"), dtype=element_type)
    library.check_known([array], operator="run")
    (values,) = library.to_host([array], copy=None, operator="run")
    return values


def check_gradients(arguments: Iterable[Any], element_types: Iterable[str | None], engine: str) -> None:
    """Raise a ValueError if results of some types, which an engine computes, would lose a gradient."""
    if all(name in _BOOL_AND_INTEGERS or name == "string" for name in element_types):
        return
    for value in arguments:
        if value is None or isinstance(value, (np.ndarray, ArraySequence)):
            continue
        if library_of(value).is_differentiated(value):
            raise ValueError(
                f"an input requires a gradient, which {engine} would lose; run the program under torch.no_grad(), "
                "or pass it tensors that are detached"
            )


def download_value(value: Any) -> Any:
    """Return a value of a run as a NumPy array, a list of them, or None."""
    if value is None:
        return None
    return [download(element) for element in value] if isinstance(value, ArraySequence) else download(value)


def dtype_for_host(element_type: str) -> Any:
    """Return NumPy's dtype of an element type."""
    return NUMPY.dtype_for(element_type, operator="seqarray.onnx")
