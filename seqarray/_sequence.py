"""`ArraySequence`, the immutable container."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import chain
from math import prod
from types import ModuleType
from typing import Any, NoReturn, TypeVar, final, overload

import numpy as np

from seqarray import _blocks, _tree
from seqarray._arguments import (
    Shape,
    chosen_places,
    copy_flag,
    describe,
    flag,
    index_of,
    range_of,
    rank_of,
)
from seqarray._blocks import Blocks
from seqarray._collection import Collection
from seqarray._display import html_of, text_of
from seqarray._dtypes import ONNX_TYPES, as_element_type, element_type_of, itemsize_of, native
from seqarray._engines.segments import Integers, offsets_of
from seqarray._kind import OPAQUE, Kind, admit, kind_of_all
from seqarray._libraries import Library, resolve_library, same_device
from seqarray._pickling import declared_type, kind_of_pickled, owned, pickled
from seqarray._transfer import OPERATOR, cast, kind_of_blocks, move, pinned, target_device
from seqarray._tree import Elements

ArrayT_co = TypeVar("ArrayT_co", covariant=True)

_new = object.__new__

#: The bytes of an array besides its items, about.
_HELD_OBJECT = 112

_INDICES = "an integer, a slice, or a list or 1-D array of integers or bools"


@final
class ArraySequence(Collection, Sequence[ArrayT_co]):
    """An immutable sequence of arrays of one element type, one array library and one device; shapes may differ.

    It is the value of ONNX's ``seq(tensor(...))``.  Every operator that changes a sequence returns a new one and shares
    what has not changed, so that an append takes as long at any length.  What is immutable is the container: writing
    into ``s[i]`` is seen by every sequence that holds this array.  Such an array must keep its shape and its dtype.

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
    Chunks of one array keep all of it alive: a few elements of a long split hold the memory of the whole.  `nbytes`
    counts the elements, `nbytes_held` what is held for them.  ``sequence_construct(*s, copy=True)`` holds the elements
    alone; pickles and deep copies contain nothing else either.

    To make a long sequence, collect the arrays in a list and wrap that once: ``ArraySequence(arrays)`` takes about 0.05
    microseconds for each NumPy array that lies in the cache, a `sequence_insert` about one.

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
    >>> s[[1, 0]]
    <ArraySequence of 2 float64 arrays, numpy on cpu: (1, 3), (2, 3)>
    """

    __slots__ = ("__weakref__", "_elements", "_kind", "_length")

    __array_ufunc__ = None

    _kind: Kind
    _elements: Elements
    _length: int

    def __new__(
        cls,
        arrays: Sequence[ArrayT_co] = (),
        /,
        *,
        dtype: Any = None,
        xp: ModuleType | str | None = None,
        device: Any = None,
    ) -> ArraySequence[ArrayT_co]:
        library = resolve_library(xp, operator="ArraySequence")
        if isinstance(arrays, ArraySequence):
            kind, elements, length = arrays._kind, arrays._elements, arrays._length
        elif isinstance(arrays, (list, tuple)):
            kind, checked = kind_of_all(arrays, "ArraySequence")
            elements, length = _tree.of_arrays(checked), len(checked)
        else:
            raise TypeError(f"ArraySequence: expected a list or tuple of arrays, got {type(arrays).__name__}")
        if dtype is not None or library is not None or device is not None:
            kind = _declared(kind, dtype, library, device, length)
        return of_elements(kind, elements, length)

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("ArraySequence cannot be subclassed: what the operators return would not be of the subclass")

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> ArrayT_co: ...
    @overload
    def __getitem__(self, index: Any) -> ArraySequence[ArrayT_co]: ...
    def __getitem__(self, index: Any) -> Any:
        """Return an element; by a slice, a list or 1-D array of integers, or a mask, a sequence of the same arrays."""
        position = index
        if type(index) is not int:
            if isinstance(index, slice):
                indices = range_of(index, self._length, operator="ArraySequence")
                return of_elements(self._kind, _tree.select(self._elements, indices), len(indices))
            if isinstance(index, list) or rank_of(index) == 1:
                places = chosen_places(index, self._length, operator="ArraySequence")
                return of_elements(self._kind, _tree.take(self._elements, places), len(places))
            position = index_of(index, operator="ArraySequence", name="index", expected=_INDICES)
        length = self._length
        if position < 0:
            position += length
        if not 0 <= position < length:
            raise IndexError(f"ArraySequence: index {index} is out of range for {length} elements")
        return self._elements[position]

    def __iter__(self) -> Iterator[ArrayT_co]:
        return iter(self._elements)

    def __reversed__(self) -> Iterator[ArrayT_co]:
        return iter(self[::-1])

    def __add__(self, other: Sequence[Any]) -> ArraySequence[Any]:
        """Return the elements of both, as `+` of lists and tuples does; a sequence is no array that could be added to.

        Elements are admitted as by `sequence_insert`; the operands share their blocks with the result.
        """
        return _chained(self, other) if isinstance(other, (ArraySequence, list, tuple)) else NotImplemented

    def __radd__(self, other: Sequence[Any]) -> ArraySequence[Any]:
        return _chained(other, self) if isinstance(other, (list, tuple)) else NotImplemented

    def __repr__(self) -> str:
        return text_of(self._kind, self._elements, self._length)

    def _repr_html_(self) -> str:
        return html_of(self._kind, self._elements, self._length, 0 if self._kind is OPAQUE else self.nbytes)

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(
            "ArraySequence: 'in' is not supported, since equality of arrays is elementwise; "
            "use any(np.array_equal(x, element) for element in s)"
        )

    def index(self, *_: object) -> NoReturn:
        """Raise a TypeError: equality of arrays is elementwise."""
        raise TypeError("ArraySequence: index() would need to compare arrays; compare the elements yourself")

    def count(self, *_: object) -> NoReturn:
        """Raise a TypeError: equality of arrays is elementwise."""
        raise TypeError("ArraySequence: count() would need to compare arrays; compare the elements yourself")

    def __copy__(self) -> ArraySequence[ArrayT_co]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ArraySequence[ArrayT_co]:
        if not self._length:
            return self
        blocks = deepcopy(owned(self._blocks, self._kind), memo)
        return make(self._kind if self._kind is OPAQUE else kind_of_pickled(blocks), blocks, self._length)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, pickled(self._kind, self._blocks)

    def to(
        self,
        device: Any = None,
        *,
        xp: ModuleType | str | None = None,
        copy: bool | None = None,
        non_blocking: bool = False,
    ) -> ArraySequence[Any]:
        """Return the elements as arrays of another library, or on another device.

        To a GPU and back, any number of elements is packed, moved in one transfer, and returned as chunks of one
        allocation.  Between NumPy and torch on the CPU and between CuPy and torch on one GPU, the arrays share memory;
        with ``copy=False`` also from jax to NumPy.

        Parameters
        ----------
        device : optional
            The device, in any form that the namespace takes, such as ``"cuda:0"``.  Default: that of the elements, if
            the namespace can use it; for elements from NumPy, the CPU or, for CuPy, the current device.
        xp : module or str, optional
            The array API namespace.  Default: that of the elements.
        copy : bool or None, optional
            None copies where that is needed: into another memory, and from jax's immutable arrays into writable ones.
            False raises where a copy is needed, and returns read-only NumPy arrays for jax's.  True always copies.
        non_blocking : bool, default False
            Taken from programs that pass it to everything with a `to`, as trainers of torch do; it changes nothing.

        Returns
        -------
        ArraySequence
            This sequence itself, if there is nothing to do.

        Raises
        ------
        TypeError
            If the target cannot hold the element type (int64 in jax without 64-bit types, text on a GPU), before
            anything is moved; if it cannot read the arrays, or values are masked, which it would not tell.
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
        flag(non_blocking, OPERATOR, "non_blocking")
        kind = self._kind
        library = kind.library if xp is None else resolve_library(xp, operator=OPERATOR)
        if kind is OPAQUE:
            raise TypeError(f"{OPERATOR}: the elements of the sequence are not arrays")
        if not self._length:
            if library is kind.library and device is None:
                return self
            return make(_moved_kind(kind, library, device), (), 0)
        assert library is not None
        device = target_device(kind, library, device)
        held = self._blocks
        blocks = move(held, kind, library, device, copy)
        if blocks is held:
            return self
        if kind.exact:
            return make(kind_of_blocks(blocks), blocks, self._length)
        kind, _ = kind_of_all(list(chain.from_iterable(blocks)), OPERATOR)
        return make(kind, blocks, self._length)

    def astype(self, dtype: Any, /, *, copy: bool = True) -> ArraySequence[Any]:
        """Return the elements in another element type, converted as their array library converts.

        Parameters
        ----------
        dtype : str or dtype
            The element type, by its ONNX name or as a dtype of any array library.
        copy : bool, default True
            False returns this sequence itself, if its elements are of that type already.

        Returns
        -------
        ArraySequence
            Chunks of one array are converted together, into one.

        Raises
        ------
        TypeError
            If the array library cannot hold the element type, if it or that of the elements is text, or if complex
            elements would lose their imaginary parts.

        Notes
        -----
        ONNX's Cast, for a whole sequence.

        Examples
        --------
        >>> import numpy as np
        >>> import seqarray as sa
        >>> sa.split_to_sequence(np.arange(3), 2).astype("float32")
        <ArraySequence of 2 float32 arrays, numpy on cpu: (2,), (1,)>
        """
        operator = "ArraySequence.astype"
        kind, element_type = self._kind, as_element_type(dtype, operator=operator)
        copy = flag(copy, operator, "copy")
        if kind is OPAQUE:
            raise TypeError(f"{operator}: the elements of the sequence are not arrays")
        if not self._length:
            return make(empty_kind(element_type, kind.library, kind.device, operator=operator), (), 0)
        if element_type == kind.element_type and not copy:
            return self
        blocks = cast(self._blocks, kind, element_type, operator=operator)
        return make(kind_of_blocks(blocks), blocks, self._length)

    def pin_memory(self, device: Any = None) -> ArraySequence[ArrayT_co]:
        """Return the elements in page-locked memory if they are tensors of torch on the CPU; or else the sequence.

        torch's `DataLoader` calls it where ``pin_memory=True``.  Chunks of one tensor stay chunks of one.

        Parameters
        ----------
        device : optional
            Taken since torch passes it to some methods of this name; only None is allowed.

        Returns
        -------
        ArraySequence

        Raises
        ------
        ValueError
            If torch cannot lock pages here, for want of an accelerator.
        """
        if device is not None:
            raise ValueError(f"ArraySequence.pin_memory: device is {describe(device)}; expected None")
        library = self._kind.library
        if library is None or not self._length:
            return self
        held = self._blocks
        blocks = pinned(held, self._kind)
        return self if blocks is held else make(self._kind, blocks, self._length)

    @property
    def _blocks(self) -> Blocks:
        """The blocks, which are counted and listed here: only for what looks at all elements."""
        elements = self._elements
        return (elements,) if type(elements) is tuple and elements else _tree.blocks_of(elements)

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
        """The shape of every element; reading it creates no array."""
        return tuple(_blocks.shapes_of(self._described("shapes")))

    def _described(self, what: str, operator: str = "ArraySequence") -> Blocks:
        """Return the blocks; raise a TypeError if the elements are no arrays and have none of what is asked for."""
        if self._kind is OPAQUE:
            raise TypeError(f"{operator}: the elements are not arrays and have no {what}")
        return self._blocks

    def sizes(self, axis: int = 0) -> tuple[int, ...]:
        """Return the length of every element along an axis, without creating an array.

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
        return tuple(_blocks.sizes_of(self._described("shapes"), axis, operator="ArraySequence.sizes"))

    def lengths(self, axis: int = 0) -> Integers:
        """Return the length of every element along an axis, as an array; `sizes` returns the same as a tuple.

        Parameters
        ----------
        axis : int, default 0
            The axis; negative axes count from the back of each element's own shape.

        Returns
        -------
        int64 NumPy array of shape (n,)

        Raises
        ------
        AxisError
            If an element has no such axis.
        ValueError
            If a length is not known before it is computed.

        Examples
        --------
        >>> import numpy as np
        >>> import seqarray as sa
        >>> sa.split_to_sequence(np.arange(6), [1, 3, 2]).lengths()
        array([1, 3, 2])
        """
        return self._lengths(axis, "ArraySequence.lengths")

    def offsets(self, axis: int = 0) -> Integers:
        """Return where every element begins and ends along an axis, once the elements are joined along it.

        Parameters
        ----------
        axis : int, default 0
            The axis; negative axes count from the back of each element's own shape.

        Returns
        -------
        int64 NumPy array of shape (n + 1,)
            0 and the sums of the lengths so far.

        Raises
        ------
        AxisError
            If an element has no such axis.
        ValueError
            If a length is not known before it is computed.

        See Also
        --------
        pack : The offsets together with the joined elements.

        Examples
        --------
        >>> import numpy as np
        >>> import seqarray as sa
        >>> sa.split_to_sequence(np.arange(6), [1, 3, 2]).offsets()
        array([0, 1, 4, 6])
        """
        operator = "ArraySequence.offsets"
        bounds = _blocks.bounds_of(self._described("lengths", operator), axis)
        return offsets_of(self._lengths(axis, operator)) if bounds is None else bounds

    def segment_ids(self, axis: int = 0) -> Integers:
        """Return for every step along an axis of the joined elements the number of its element.

        Parameters
        ----------
        axis : int, default 0
            The axis; negative axes count from the back of each element's own shape.

        Returns
        -------
        int64 NumPy array of shape (sum of the lengths,)

        Raises
        ------
        AxisError
            If an element has no such axis.
        ValueError
            If a length is not known before it is computed.

        Examples
        --------
        >>> import numpy as np
        >>> import seqarray as sa
        >>> sa.split_to_sequence(np.arange(6), [1, 3, 2]).segment_ids()
        array([0, 1, 1, 1, 2, 2])
        """
        lengths = self._lengths(axis, "ArraySequence.segment_ids")
        return np.repeat(np.arange(len(lengths)), lengths)

    def _lengths(self, axis: int, operator: str) -> Integers:
        return _blocks.lengths_of(self._described("lengths", operator), axis, operator=operator)

    @property
    def nbytes(self) -> int:
        """The sum of the sizes of the elements in bytes, as if none shared memory."""
        if self._kind.exact:
            return _blocks.count_items(self._described("shapes")) * itemsize_of(self._kind.dtype) if self._length else 0
        arrays = _blocks.to_arrays(self._blocks)
        return sum(prod(array.shape) * itemsize_of(array.dtype) for array in arrays)

    @property
    def nbytes_held(self) -> int:
        """The bytes of the memory that the sequence keeps alive, all of an array of which it holds a part.

        Memory that elements share is counted once.  On NumPy, PyTorch and CuPy this is the memory that the elements are
        views of; on other libraries, the arrays themselves.

        Examples
        --------
        >>> import numpy as np
        >>> import seqarray as sa
        >>> few = sa.split_to_sequence(np.zeros(1000, dtype=np.int8), 10, copy=None)[:2]
        >>> few.nbytes, few.nbytes_held
        (20, 1000)
        >>> sa.sequence_construct(*few, copy=True).nbytes_held
        20
        """
        if not self._length:
            return 0
        library = self._kind.library
        if library is None:
            raise TypeError("ArraySequence.nbytes_held: the elements of the sequence are not arrays")
        return sum(dict(map(library.held_memory, _blocks.held_arrays(self._blocks))).values())

    def __sizeof__(self) -> int:
        """Return what the sequence takes with all that it keeps alive, which is what dask's schedulers ask for."""
        library = self._kind.library
        # Lazy arrays have no values yet; what a pytree transformation has put in their place may be anything.
        values = 0 if library is None or library.task_graph(()) is not None else self.nbytes_held
        return values + _HELD_OBJECT * (1 + sum(1 for _ in _blocks.held_arrays(self._blocks)))


def _chained(first: Sequence[Any], second: Sequence[Any]) -> ArraySequence[Any]:
    """Return the elements of two sequences, one after the other."""
    operator = "ArraySequence +"
    left = as_sequence(first, operator=f"{operator}: left side")
    right = as_sequence(second, operator=f"{operator}: right side")
    if left._kind is OPAQUE or right._kind is OPAQUE:
        raise TypeError(f"{operator}: the elements of a sequence are not arrays")
    # An empty list has no type.
    if not len(first) and left is not first:
        return right
    if not len(second) and right is not second:
        return left
    if not len(right) and left.element_type != right.element_type:
        raise TypeError(f"{operator}: the left side is of {left.element_type}, the right side of {right.element_type}")
    kind = admit_all(left._kind, right, operator=operator, label="an element of the right side")
    if not len(right):
        return left
    return of_elements(kind, _tree.of_blocks((*left._blocks, *right._blocks)), len(left) + len(right))


def admit_all(kind: Kind, sequence: ArraySequence[Any], *, operator: str, label: str) -> Kind:
    """Return the kind of a sequence of `kind` once all elements of another have joined it, see `admit`."""
    if sequence._kind is not kind:
        for block in sequence._blocks:
            for element in block if isinstance(block, tuple) else (block[0],):
                kind = admit(kind, element, operator=operator, label=label)
    return kind


def make(kind: Kind, blocks: Blocks, length: int) -> ArraySequence[Any]:
    """Return a sequence around blocks that have been checked."""
    return of_elements(kind, blocks[0] if len(blocks) == 1 else _tree.tree_of(blocks), length)


def of_elements(kind: Kind, elements: Elements, length: int) -> ArraySequence[Any]:
    """Return a sequence of elements that have been checked."""
    sequence: ArraySequence[Any] = _new(ArraySequence)
    sequence._kind = kind
    sequence._elements = elements
    sequence._length = length
    return sequence


def empty_kind(dtype: Any, library: Library | None, device: Any, *, operator: str) -> Kind:
    """Return the kind of an empty sequence of an element type, given by name or as a dtype.

    A TypeError if the library cannot hold it.
    """
    element_type = as_element_type(dtype, operator=operator)
    if library is None:
        return Kind(element_type, device=device)
    device = library.as_device(device, operator=operator)
    if library.has_numpy_dtypes and element_type not in ONNX_TYPES:
        return Kind(element_type, library=library, dtype=native(np.dtype(dtype)), device=device)
    return Kind(
        element_type, library=library, dtype=library.dtype_for(element_type, device, operator=operator), device=device
    )


def _moved_kind(kind: Kind, library: Library | None, device: Any) -> Kind:
    """Return the kind of an empty sequence that has moved to a library or a device."""
    source = kind.library
    if library is not None and library is source:
        device = library.as_device(device, operator=OPERATOR)
        return Kind(kind.element_type, library=library, dtype=kind.dtype, device=device)
    return empty_kind(declared_type(kind), library, device, operator=OPERATOR)


def as_sequence(value: Any, *, operator: str) -> ArraySequence[Any]:
    """Return `value` if it is an ArraySequence; convert a list or tuple of arrays."""
    if type(value) is ArraySequence:
        return value
    if not isinstance(value, (list, tuple)):
        refuse_sequence(value, operator=operator)
    kind, checked = kind_of_all(value, operator)
    return of_elements(kind, _tree.of_arrays(checked), len(checked))


def refuse_sequence(value: Any, *, operator: str) -> NoReturn:
    """Raise the TypeError for a value that is not a sequence of arrays."""
    raise TypeError(
        f"{operator}: expected an ArraySequence, or a list or tuple of arrays, got {type(value).__module__}."
        f"{type(value).__qualname__}"
    )


def _declared(kind: Kind, dtype: Any, library: Library | None, device: Any, length: int) -> Kind:
    """Return the kind of a sequence for which dtype, library or device were given."""
    if length == 0:
        dtype = declared_type(kind) if dtype is None else dtype
        if library is None and device is None:
            library, device = kind.library, kind.device
        return empty_kind(dtype, library, device, operator="ArraySequence")
    element_type = kind.element_type if dtype is None else as_element_type(dtype, operator="ArraySequence")
    if element_type != kind.element_type:
        raise TypeError(f"ArraySequence: dtype is {element_type}, but the elements are {kind.element_type}")
    assert kind.library is not None
    if library is not None and library is not kind.library:
        raise TypeError(
            f"ArraySequence: xp is {library.name}, but the elements are {kind.library.name} arrays, "
            "and nothing is moved between array libraries"
        )
    if not same_device(kind.library.as_device(device, operator="ArraySequence"), kind.device):
        raise ValueError(
            f"ArraySequence: device is {device}, but the elements are on {kind.device}, "
            "and nothing is moved between devices"
        )
    return kind


def _unpickled(declared: Any, xp: str | None, device: Any, blocks: Blocks) -> ArraySequence[Any]:
    if not blocks:
        return _rebuilt_empty(declared, xp, device)
    length = sum(map(len, blocks))
    if declared == OPAQUE.element_type:
        return make(OPAQUE, blocks, length)
    sequence = make(kind_of_pickled(blocks), blocks, length)
    return sequence if device is None else sequence.to(xp=xp, device=device)


def _rebuilt_empty(declared: Any, xp: str | None, device: Any) -> ArraySequence[Any]:
    """Return the empty sequence of which `declared_type`, namespace and device are known."""
    library = resolve_library(xp, operator="ArraySequence")
    if isinstance(declared, str):
        if library is None:
            return make(Kind(declared, device=device), (), 0)
        return make(empty_kind(declared, library, device, operator="ArraySequence"), (), 0)
    assert library is not None
    device = library.as_device(device, operator="ArraySequence")
    return make(Kind(element_type_of(declared), library=library, dtype=declared, device=device), (), 0)


def rebuilt(declared: Any, xp: str | None, device: Any, elements: Sequence[Any]) -> ArraySequence[Any]:
    """Return a sequence of the objects that a pytree transformation returns for its elements, arrays or not."""
    if not elements:
        return _rebuilt_empty(declared, xp, device)
    try:
        kind, elements = kind_of_all(elements, "ArraySequence")
    except (TypeError, ValueError):
        kind = OPAQUE
    return of_elements(kind, _tree.of_arrays(elements), len(elements))
