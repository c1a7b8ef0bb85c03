"""Operators that look at shapes, or give other ones: the few that graphs around sequences need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx

from seqarray._arguments import axis_in_range, length_along
from seqarray._dtypes import dtype_for, element_type_of, itemsize_of
from seqarray._libraries import Array, entering, library_of, namespace_of
from seqarray.onnx._load.tensor_protos import array_of, dense_array_of, nbytes_of
from seqarray.onnx._ops.inputs import broadcast, integers, number, tensor
from seqarray.onnx._ops.node import Binder, Node, Operator
from seqarray.onnx._run.executor import Run, described
from seqarray.onnx._run.placement import dtype_for_host

Outputs = Sequence[Any]


def bind_shape(node: Node) -> Operator:
    """Shape, whose result stays on the host."""
    start, stop = node.attribute("start", int, 0), node.attribute("end", int)

    def function(run: Run, x: Any) -> Outputs:
        shape = tensor(x, 0).shape
        lengths = [length_along(shape, axis, operator="Shape", of="input 0") for axis in range(len(shape))]
        return (np.asarray(lengths[start:stop], dtype=np.int64),)

    return Operator(function)


def bind_unsqueeze(node: Node) -> Operator:
    """Unsqueeze: axes of length 1 at places of the result."""
    given = node.attributes.get("axes")

    def function(run: Run, x: Any, axes: Any = None) -> Outputs:
        tensor(x, 0)
        wanted = given if node.version < 13 else integers(axes, "input 1 (axes)")
        rank = len(x.shape) + len(wanted or ())
        places = {axis_in_range(axis, rank, operator="Unsqueeze", of="the result") for axis in wanted or ()}
        if len(places) != len(wanted or ()):
            raise ValueError(f"axes are {wanted}; an axis is named twice")
        return (x[tuple(None if axis in places else slice(None) for axis in range(rank))],)

    return Operator(function, "sh")


def bind_squeeze(node: Node) -> Operator:
    """Squeeze: without axes of length 1, those named or all."""
    given = node.attributes.get("axes")

    def function(run: Run, x: Any, axes: Any = None) -> Outputs:
        shape = tensor(x, 0).shape
        wanted = given if node.version < 13 or axes is None else integers(axes, "input 1 (axes)")
        places = {axis_in_range(axis, len(shape), operator="Squeeze", of="input 0") for axis in wanted or ()}
        if wanted is None:
            places = {axis for axis, length in enumerate(shape) if length == 1}
        for axis in places:
            if shape[axis] != 1:
                raise ValueError(f"axes are {wanted}; axis {axis} of input 0 has length {shape[axis]}, not 1")
        return (x[tuple(0 if axis in places else slice(None) for axis in range(len(shape))) + (...,)],)

    return Operator(function, "sh")


def bind_reshape(node: Node) -> Operator:
    """Reshape: 0 keeps a length, -1 stands for what is left."""
    allow_zero = node.attribute("allowzero", int, 0)

    def function(run: Run, x: Any, shape: Any) -> Outputs:
        wanted = integers(shape, "input 1 (shape)")
        if not allow_zero:
            if any(length == 0 and axis >= len(tensor(x, 0).shape) for axis, length in enumerate(wanted)):
                raise ValueError(f"shape is {wanted}; input 0 is {described(x)} and has no length there to keep")
            wanted = [x.shape[axis] if length == 0 else length for axis, length in enumerate(wanted)]
        return (namespace_of(tensor(x, 0)).reshape(x, tuple(wanted)),)

    return Operator(function, "sh")


def bind_slice(node: Node) -> Operator:
    """Slice: starts, ends, axes and steps are inputs."""

    def function(run: Run, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Outputs:
        shape = tensor(x, 0).shape
        first, last = integers(starts, "input 1 (starts)"), integers(ends, "input 2 (ends)")
        along = list(range(len(first))) if axes is None else integers(axes, "input 3 (axes)")
        strides = [1] * len(first) if steps is None else integers(steps, "input 4 (steps)")
        if not len(first) == len(last) == len(along) == len(strides):
            raise ValueError(
                f"starts, ends, axes and steps have lengths {len(first)}, {len(last)}, {len(along)}, {len(strides)}"
            )
        index = [slice(None)] * len(shape)
        for start, stop, axis, step in zip(first, last, along, strides, strict=True):
            place = axis_in_range(axis, len(shape), operator="Slice", of="input 0")
            if step == 0:
                raise ValueError(f"steps are {strides}; a step must not be 0")
            length = length_along(shape, place, operator="Slice", of="input 0")
            taken = range(length)[start:stop:step]
            # A stop before the first element has to be None: counted from the front it would be from the back.
            index[place] = slice(taken.start, taken.stop if taken.stop >= 0 else None, step) if taken else slice(0, 0)
        return (_sliced(x, tuple(index)),)

    return Operator(function, "shhhh")


def _sliced(x: Array, index: tuple[slice, ...]) -> Array:
    """Slices, also backwards where the library has no negative steps."""
    backwards = [axis for axis, part in enumerate(index) if part.step is not None and part.step < 0]
    xp = namespace_of(x)
    if not backwards or library_of(xp) != "torch":
        return x[index]
    for axis in backwards:
        taken = range(x.shape[axis])[index[axis]]
        forwards = slice(taken[-1], taken[0] + 1, -taken.step)
        index = (*index[:axis], forwards, *index[axis + 1 :])
    return xp.flip(x[index], axis=tuple(backwards))


def bind_gather(node: Node) -> Operator:
    """Gather: elements along an axis, at positions of any shape."""
    axis = node.attribute("axis", int, 0)

    def function(run: Run, x: Any, indices: Any) -> Outputs:
        shape = tensor(x, 0).shape
        place = axis_in_range(axis, len(shape), operator="Gather", of="input 0")
        length = length_along(shape, place, operator="Gather", of="input 0")
        run.reserve((*shape[:place], *tensor(indices, 1).shape, *shape[place + 1 :]), itemsize_of(x.dtype))
        if not isinstance(indices, np.ndarray):
            return (_taken(x, indices, place),)
        if indices.dtype.kind != "i":
            raise TypeError(f"input 1 (indices) is {described(indices)}; expected int32 or int64")
        if indices.size and not -length <= indices.min() <= indices.max() < length:
            raise IndexError(
                f"indices lie in [{indices.min()}, {indices.max()}]; axis {place} has length {length}, "
                f"so they must lie in [{-length}, {length - 1}]"
            )
        before = (slice(None),) * place
        if indices.ndim == 0:
            return (x[(*before, int(indices), ...)],)
        counted = np.where(indices < 0, indices + length, indices)
        return (_taken(x, counted if isinstance(x, np.ndarray) else run.on_device(counted), place),)

    return Operator(function, "..")


def _taken(x: Array, indices: Array, axis: int) -> Array:
    xp = namespace_of(x)
    length = x.shape[axis]
    indices = xp.where(indices < number(xp, 0, indices), indices + number(xp, length, indices), indices)
    flat = xp.reshape(indices, (-1,))
    taken = xp.take(x, flat, axis=axis)
    return xp.reshape(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def bind_expand(node: Node) -> Operator:
    """Expand: a tensor broadcast with a shape."""
    del node

    def function(run: Run, x: Any, shape: Any) -> Outputs:
        wanted = integers(shape, "input 1 (shape)")
        if any(length < 0 for length in wanted):
            raise ValueError(f"shape is {wanted}; a length must not be negative")
        result = broadcast([tensor(x, 0).shape, wanted])
        run.reserve(result, itemsize_of(x.dtype))
        return (namespace_of(x).broadcast_to(x, result),)

    return Operator(function, "sh")


def bind_constant_of_shape(node: Node) -> Operator:
    """ConstantOfShape."""
    value = node.attribute("value", onnx.TensorProto)
    filling = np.zeros(1, dtype=np.float32) if value is None else array_of(value, node.folder)
    if filling.size != 1:
        raise ValueError(f"{node.label}: attribute 'value' has {filling.size} elements; expected one")
    filling = filling.reshape(())

    def function(run: Run, shape: Any) -> Outputs:
        wanted = integers(shape, "input 0 (input)")
        if any(length < 0 for length in wanted):
            raise ValueError(f"the shape is {wanted}; a length must not be negative")
        run.reserve(wanted, filling.dtype.itemsize)
        # Few values may be sizes or positions to come.
        if not run.moves or prod(wanted) <= 1:
            return (np.full(tuple(wanted), filling, dtype=filling.dtype),)
        xp, device = run.place.namespace, run.place.device
        dtype = dtype_for(xp, element_type_of(filling.dtype), device, operator="ConstantOfShape")
        with entering(xp, device):
            return (xp.full(tuple(wanted), filling.item(), dtype=dtype, device=device),)

    return Operator(function, "h")


def constant_of(node: Node, reserve: Callable[[int, str], None]) -> np.ndarray[Any, Any]:
    """The value of a Constant, whichever attribute holds it."""
    if len(node.attributes) != 1 or node.n_outputs != 1:
        raise ValueError(f"{node.label}: it has attributes {sorted(node.attributes)}; expected exactly one")
    ((name, value),) = node.attributes.items()
    if name == "value":
        reserve(nbytes_of(value), node.label)
        return array_of(value, node.folder)
    if name == "sparse_value":
        reserve(prod(value.dims) * 16, node.label)
        return dense_array_of(value, node.folder)
    kinds = {"float": "float32", "int": "int64", "string": "string"}
    kind = kinds.get(name.removeprefix("value_").removesuffix("s"))
    if kind is None:
        raise ValueError(f"{node.label}: attribute {name!r} is not known")
    return np.asarray(value, dtype=dtype_for_host(kind))


#: Operator to the version since which it is as here, and what binds it.
LAYOUT: dict[str, tuple[int, Binder]] = {
    "ConstantOfShape": (9, bind_constant_of_shape),
    "Expand": (8, bind_expand),
    "Gather": (1, bind_gather),
    "Reshape": (5, bind_reshape),
    "Shape": (1, bind_shape),
    "Slice": (10, bind_slice),
    "Squeeze": (1, bind_squeeze),
    "Unsqueeze": (1, bind_unsqueeze),
}
