"""`ArraySequence`, the immutable container."""

from __future__ import annotations

import operator as _operator
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import chain
from math import prod
from typing import Any, Generic, NoReturn, TypeVar, final, overload

import numpy as np

from seqarray import blocks as _blocks
from seqarray.arguments import Shape, axis_in_range, copy_flag
from seqarray.blocks import Block, Blocks
from seqarray.copying import engine_for
from seqarray.copying.facts import Facts
from seqarray.copying.transfer import OPERATOR, kind_of_blocks, move, target_device
from seqarray.elementtypes import (
    OPAQUE,
    Kind,
    admit,
    as_array,
    as_element_type,
    dtype_for,
    itemsize_of,
    kind_of,
)
from seqarray.namespaces import (
    Array,
    as_device,
    device_name,
    library_of,
    namespace_name,
    resolve_namespace,
    same_device,
)

ArrayT = TypeVar("ArrayT")

_new = object.__new__


@final
class ArraySequence(Generic[ArrayT]):
    """An immutable sequence of arrays of one element type, one array library and one device; shapes may differ.

    It is the value of ONNX's ``seq(tensor(...))``.  Every operator that changes a sequence returns a new one and shares
    what has not changed, so appending to one of `n` elements does not copy `n` of anything.  What is immutable is the
    container: writing into ``s[i]`` is seen by every sequence that holds this array.  Such an array must keep
    its shape and its dtype.

    Parameters
    ----------
    arrays : list, tuple or ArraySequence of arrays
        The elements.  They are held, not copied.
    dtype : str or dtype, optional
        The element type, by its ONNX name or as a dtype.  Default: that of the elements; float32 if there are none.
    xp : module or str, optional
        The array API namespace.  Default: that of the elements.
    device : optional
        The device.  Default: that of the elements.

    Raises
    ------
    TypeError
        If something is not an array, or the element types or array libraries differ.
    ValueError
        If the devices differ.

    Notes
    -----
    A sequence is a `collections.abc.Sequence`, but no array: ``x in s``, ``s.index`` and ``s.count`` would need to
    compare arrays, and raise TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> import seqarray as sa
    >>> s = sa.ArraySequence([np.zeros((2, 3)), np.ones((1, 3))])
    >>> s
    <ArraySequence of 2 float64 arrays, numpy on cpu: (2, 3), (1, 3)>
    >>> len(s), s.sizes(), s[-1]
    (2, (2, 1), array([[1., 1., 1.]]))
    """

    __slots__ = ("__weakref__", "_block_ends", "_blocks", "_facts", "_kind", "_length")

    __array_ufunc__ = None

    _kind: Kind
    _blocks: Blocks
    _length: int
    _block_ends: list[int] | None
    _facts: Facts | None

    def __new__(
        cls,
        arrays: Sequence[ArrayT] = (),
        /,
        *,
        dtype: Any = None,
        xp: Any = None,
        device: Any = None,
    ) -> ArraySequence[ArrayT]:
        namespace = resolve_namespace(xp, operator="ArraySequence")
        if isinstance(arrays, ArraySequence):
            kind, elements, length = arrays._kind, arrays._blocks, arrays._length
        elif isinstance(arrays, (list, tuple)):
            kind, checked = _checked(arrays, operator="ArraySequence")
            elements, length = _blocks.from_arrays(checked), len(checked)
        else:
            raise TypeError(f"ArraySequence: expected a list or tuple of arrays, got {type(arrays).__name__}")
        if dtype is not None or namespace is not None or device is not None:
            wanted = as_element_type(dtype, operator="ArraySequence") if dtype is not None else kind.element_type
            kind = _declared(kind, wanted, namespace, device, length)
        return make(kind, elements, length)

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("ArraySequence cannot be subclassed: what the operators return would not be of the subclass")

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> ArrayT: ...
    @overload
    def __getitem__(self, index: slice) -> ArraySequence[ArrayT]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            indices = range(self._length)[index]
            return make(self._kind, _blocks.select(self._blocks, indices), len(indices))
        try:
            position = _operator.index(index)
        except TypeError:
            message = f"ArraySequence: index is of type {type(index).__name__}; expected an integer or a slice"
            raise TypeError(message) from None
        length = self._length
        if position < 0:
            position += length
        if not 0 <= position < length:
            raise IndexError(f"ArraySequence: index {index} is out of range for {length} elements")
        if len(self._blocks) == 1:
            return self._blocks[0][position]
        number, place = _blocks.find(self._ends, self._blocks, position)
        return self._blocks[number][place]

    def __iter__(self) -> Iterator[ArrayT]:
        blocks = self._blocks
        return iter(blocks[0]) if len(blocks) == 1 else chain.from_iterable(blocks)

    def __repr__(self) -> str:
        count = f"{self._length} {self._kind.element_type} array{'' if self._length == 1 else 's'}"
        where = "" if self._kind.namespace is None else f", {self._kind.library}"
        if self._kind.device is not None:
            where += f" on {self._kind.device}"
        shown = self[:6].shapes if self._kind is not OPAQUE else ()
        shapes = ", ".join(map(str, shown)) + (", ..." if self._length > len(shown) else "")
        return f"<ArraySequence of {count}{where}{': ' if shown else ''}{shapes if shown else ''}>"

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError("ArraySequence: arrays have no single truth of being equal; compare the elements yourself")

    def index(self, *_: object) -> NoReturn:
        """Refused: arrays have no single truth of being equal."""
        raise TypeError("ArraySequence: index() would need to compare arrays; compare the elements yourself")

    def count(self, *_: object) -> NoReturn:
        """Refused: arrays have no single truth of being equal."""
        raise TypeError("ArraySequence: count() would need to compare arrays; compare the elements yourself")

    def __copy__(self) -> ArraySequence[ArrayT]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ArraySequence[ArrayT]:
        if self._kind.library == "cupy":
            return self.to(copy=True)
        rebuild, arguments = self.__reduce__()
        copied: ArraySequence[ArrayT] = rebuild(*deepcopy(arguments, memo))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        kind = self._kind
        namespace = None if kind.namespace is None else namespace_name(kind.namespace)
        if kind.library == "cupy" and self._blocks:
            # CuPy itself would pickle every element, and unpickle it on whichever device is current.
            elements = move(self._blocks, kind, resolve_namespace("numpy", operator=OPERATOR), "cpu", None)
            return _unpickled, (kind.element_type, namespace, kind.device.id, kind.exact, elements)
        elements = tuple(_owned(block, kind) for block in _blocks.trimmed(self._blocks))
        # Elements know their device; an empty sequence has to be told.
        device = None if elements else device_name(kind.namespace, kind.device)
        return _unpickled, (kind.element_type, namespace, device, kind.exact, elements)

    def to(self, *, xp: Any = None, device: Any = None, copy: bool | None = None) -> ArraySequence[Any]:
        """The same elements as arrays of another library, or on another device.

        However many elements there are, they cross to a GPU or back in one transfer, packed, and come out as chunks of
        one allocation.  Between NumPy and torch on the CPU, between CuPy and torch on one GPU, and from jax to NumPy,
        both look at the same memory.

        Parameters
        ----------
        xp : module or str, optional
            The array API namespace.  Default: the one that the elements are of.
        device : optional
            The device, in any form that the namespace takes, such as ``"cuda:0"``.  Default: the one that the elements
            are on, if the namespace can use it; for what comes from NumPy, the CPU or, for CuPy, the current device.
        copy : bool or None, optional
            None copies where that is needed: into another memory, and out of arrays that must not be written to (jax)
            into ones that can be.  False raises where it is needed, and gives read-only NumPy arrays for jax's.  True
            gives fresh memory always.

        Returns
        -------
        ArraySequence
            This sequence itself, if there is nothing to do.

        Raises
        ------
        TypeError
            If the target cannot hold the element type (int64 in jax without 64-bit types, text on a GPU), before
            anything is moved.
        ValueError
            If there is no such device, if ``copy=False`` and a copy is needed, or if a tensor that requires a gradient
            would lose it.

        Examples
        --------
        >>> import numpy as np
        >>> import seqarray as sa
        >>> s = sa.split_to_sequence(np.arange(6), 2)
        >>> s.to(xp="numpy") is s
        True
        """
        copy_flag(copy, operator=OPERATOR)
        kind = self._kind
        namespace = kind.namespace if xp is None else resolve_namespace(xp, operator=OPERATOR)
        if kind is OPAQUE:
            raise TypeError(f"{OPERATOR}: the elements of the sequence are not arrays")
        if not self._length:
            if namespace is kind.namespace and device is None:
                return self
            return make(empty(kind.element_type, namespace, device, operator=OPERATOR)._kind, (), 0)
        device = target_device(kind, namespace, device)
        blocks = move(self._blocks, kind, namespace, device, copy)
        if blocks is self._blocks:
            return self
        if kind.exact:
            return make(kind_of_blocks(blocks), blocks, self._length)
        kind, _ = _checked(list(chain.from_iterable(blocks)), operator=OPERATOR)
        return make(kind, blocks, self._length)

    @property
    def _ends(self) -> list[int]:
        """How many elements there are up to the end of each block; counted once."""
        ends = self._block_ends
        if ends is None:
            ends = self._block_ends = _blocks.ends_of(self._blocks)
        return ends

    @property
    def element_type(self) -> str:
        """The ONNX element type, such as "float32" or "string"."""
        return self._kind.element_type

    @property
    def dtype(self) -> Any:
        """The dtype of results: the common one of all elements.  None while an empty sequence has no namespace."""
        return self._kind.dtype

    @property
    def namespace(self) -> Any:
        """The array API namespace of the elements.  None while an empty sequence has none."""
        return self._kind.namespace

    @property
    def device(self) -> Any:
        """The device of the elements.  None while it is unknown."""
        return self._kind.device

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of every element.  No array is made for it."""
        return tuple(self._shapes())

    def _shapes(self) -> list[Shape]:
        if self._kind is OPAQUE:
            raise TypeError("ArraySequence: the elements are not arrays and have no shapes")
        return _blocks.shapes_of(self._blocks)

    def sizes(self, axis: int = 0) -> tuple[int, ...]:
        """The length of every element along an axis.  No array is made for it.

        Parameters
        ----------
        axis : int, default 0
            The axis; negative axes count from the back of each element's own shape.

        Returns
        -------
        tuple of int

        Raises
        ------
        AxisError
            If an element has no such axis.

        Examples
        --------
        >>> import numpy as np
        >>> import seqarray as sa
        >>> sa.split_to_sequence(np.arange(6), [1, 3, 2]).sizes()
        (1, 3, 2)
        """
        return tuple(
            shape[axis_in_range(axis, len(shape), operator="ArraySequence.sizes", of=f"element {i}")]
            for i, shape in enumerate(self._shapes())
        )

    @property
    def nbytes(self) -> int:
        """Bytes that the elements hold together, as if each were stored on its own."""
        if self._kind.exact:
            return sum(map(prod, self._shapes())) * (itemsize_of(self._kind.dtype) if self._length else 0)
        arrays = _blocks.to_arrays(self._blocks)
        return sum(prod(array.shape) * itemsize_of(array.dtype) for array in arrays)


Sequence.register(ArraySequence)


def make(kind: Kind, blocks: Blocks, length: int) -> ArraySequence[Any]:
    """A sequence around blocks that are known to be right."""
    sequence: ArraySequence[Any] = _new(ArraySequence)
    sequence._kind = kind
    sequence._blocks = blocks
    sequence._length = length
    sequence._block_ends = None
    sequence._facts = None
    return sequence


def empty(element_type: str, namespace: Any, device: Any, *, operator: str) -> ArraySequence[Any]:
    """An empty sequence of an element type, if `namespace` can hold it."""
    dtype = None
    if namespace is not None:
        device = as_device(namespace, device, operator=operator)
        dtype = dtype_for(namespace, element_type, device, operator=operator)
    return make(Kind(element_type, namespace=namespace, dtype=dtype, device=device), (), 0)


def as_sequence(value: Any, *, operator: str) -> ArraySequence[Any]:
    """`value` if it is a sequence; a list or tuple of arrays as one."""
    if type(value) is ArraySequence:
        return value
    if isinstance(value, (list, tuple)):
        kind, checked = _checked(value, operator=operator)
        return make(kind, _blocks.from_arrays(checked), len(checked))
    raise TypeError(
        f"{operator}: expected an ArraySequence, or a list or tuple of arrays, got {type(value).__module__}."
        f"{type(value).__qualname__}"
    )


def _checked(arrays: Sequence[Any], *, operator: str) -> tuple[Kind, Sequence[Array]]:
    """The common kind of arrays, and the arrays themselves (NumPy scalars as 0-d arrays)."""
    if not arrays:
        return Kind("float32"), ()
    if type(arrays[0]) is np.ndarray:
        kind, dtype = kind_of(arrays[0]), arrays[0].dtype
        for array in arrays:
            if type(array) is not np.ndarray or array.dtype is not dtype:
                break
        else:
            return kind, arrays
    checked: list[Array] = [as_array(array, operator=operator, label=f"element {i}") for i, array in enumerate(arrays)]
    kind = kind_of(checked[0])
    for index, array in enumerate(checked):
        kind = admit(kind, array, operator=operator, label=f"element {index}")
    return kind, checked


def _declared(kind: Kind, element_type: str, namespace: Any, device: Any, length: int) -> Kind:
    """The kind of a sequence whose user has said what it is to be."""
    if length == 0:
        return empty(element_type, namespace, device, operator="ArraySequence")._kind
    if element_type != kind.element_type:
        raise TypeError(f"ArraySequence: dtype is {element_type}, but the elements are {kind.element_type}")
    if namespace is not None and namespace is not kind.namespace:
        raise TypeError(
            f"ArraySequence: xp is {library_of(namespace)}, but the elements are {kind.library} arrays, "
            "and nothing is moved between array libraries"
        )
    if not same_device(as_device(kind.namespace, device, operator="ArraySequence"), kind.device):
        raise ValueError(
            f"ArraySequence: device is {device}, but the elements are on {kind.device}, "
            "and nothing is moved between devices"
        )
    return kind


def _owned(block: Block, kind: Kind) -> Block:
    """The block around memory that holds nothing else: a pickled torch view would take its whole storage with it."""
    if kind.library != "torch":
        return block

    def owned(array: Array) -> Array:
        whole = not hasattr(array, "untyped_storage") or array.untyped_storage().nbytes() <= array.nbytes
        return array if whole else engine_for(kind, "ArraySequence").duplicate(array, kind)

    if isinstance(block, tuple):
        return tuple(map(owned, block))
    return type(block)(owned(block.base), *block.__reduce__()[1][1:])


def _unpickled(
    element_type: str, namespace: str | None, device: Any, exact: bool, blocks: Blocks
) -> ArraySequence[Any]:
    if not blocks:
        return ArraySequence((), dtype=element_type, xp=namespace, device=device)
    if element_type == OPAQUE.element_type:
        return make(OPAQUE, blocks, sum(map(len, blocks)))
    some = [block[0] for block in blocks] if exact else list(chain.from_iterable(blocks))
    kind, _ = _checked(some, operator="ArraySequence")
    sequence = make(kind, blocks, sum(map(len, blocks)))
    return sequence if device is None else sequence.to(xp=namespace, device=device)


def rebuilt(element_type: str, namespace: str | None, device: Any, elements: Sequence[Any]) -> ArraySequence[Any]:
    """A sequence around whatever a pytree transformation puts in the place of its elements."""
    if not elements:
        return ArraySequence((), dtype=element_type, xp=namespace, device=device)
    try:
        kind, elements = _checked(elements, operator="ArraySequence")
    except (TypeError, ValueError):
        kind = OPAQUE
    return make(kind, _blocks.from_arrays(elements), len(elements))
