"""Shape and indexing operators, as far as models with sequences use them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnx

from seqarray._arguments import axis_in_range, length_along
from seqarray._dtypes import element_type_of, itemsize_of
from seqarray._libraries import Array, library_of
from seqarray.onnx._load.tensor_protos import array_of
from seqarray.onnx._ops.inputs import broadcast_shapes, integers, scalar_like, tensor
from seqarray.onnx._ops.node import Kernel, KernelFactory, Node
from seqarray.onnx._run.executor import Execution
from seqarray.onnx._run.placement import Placement
from seqarray.onnx._run.values import describe_value

Outputs = Sequence[Any]


def make_shape(node: Node) -> Kernel:
    """Make the kernel of Shape, whose result stays on the host."""
    start, stop = node.attribute("start", int, 0), node.attribute("end", int)

    def run_shape(execution: Execution, x: Any) -> Outputs:
        shape = tensor(x, 0).shape
        lengths = [length_along(shape, axis, operator="Shape", of="input 0") for axis in range(len(shape))]
        return (np.asarray(lengths[start:stop], dtype=np.int64),)

    return Kernel(run_shape)


def make_unsqueeze(node: Node) -> Kernel:
    """Make the kernel of Unsqueeze, which inserts axes of length 1."""
    attribute_axes = node.attributes.get("axes")

    def run_unsqueeze(execution: Execution, x: Any, axes: Any = None) -> Outputs:
        tensor(x, 0)
        chosen = attribute_axes if node.version < 13 else integers(axes, "input 1 (axes)")
        rank = len(x.shape) + len(chosen or ())
        inserted = {axis_in_range(axis, rank, operator="Unsqueeze", of="the result") for axis in chosen or ()}
        if len(inserted) != len(chosen or ()):
            raise ValueError(f"axes are {chosen}; an axis is named twice")
        return (x[tuple(None if axis in inserted else slice(None) for axis in range(rank))],)

    return Kernel(run_unsqueeze, (Placement.FOLLOW, Placement.HOST))


def make_squeeze(node: Node) -> Kernel:
    """Make the kernel of Squeeze, which removes the given axes of length 1, or all of them."""
    attribute_axes = node.attributes.get("axes")

    def run_squeeze(execution: Execution, x: Any, axes: Any = None) -> Outputs:
        shape = tensor(x, 0).shape
        chosen = attribute_axes if node.version < 13 or axes is None else integers(axes, "input 1 (axes)")
        removed = {axis_in_range(axis, len(shape), operator="Squeeze", of="input 0") for axis in chosen or ()}
        if chosen is None:
            removed = {axis for axis, length in enumerate(shape) if length == 1}
        for axis in removed:
            if shape[axis] != 1:
                raise ValueError(f"axes are {chosen}; axis {axis} of input 0 has length {shape[axis]}, not 1")
        return (x[tuple(0 if axis in removed else slice(None) for axis in range(len(shape))) + (...,)],)

    return Kernel(run_squeeze, (Placement.FOLLOW, Placement.HOST))


def make_reshape(node: Node) -> Kernel:
    """Make the kernel of Reshape, where a length of 0 keeps that of the input and -1 is computed."""
    allow_zero = node.attribute("allowzero", int, 0)

    def run_reshape(execution: Execution, x: Any, shape: Any) -> Outputs:
        lengths = integers(shape, "input 1 (shape)")
        if not allow_zero:
            if any(length == 0 and axis >= len(tensor(x, 0).shape) for axis, length in enumerate(lengths)):
                raise ValueError(f"shape is {lengths}; input 0 is {describe_value(x)} and has no length there to keep")
            lengths = [x.shape[axis] if length == 0 else length for axis, length in enumerate(lengths)]
        return (library_of(tensor(x, 0)).namespace.reshape(x, tuple(lengths)),)

    return Kernel(run_reshape, (Placement.FOLLOW, Placement.HOST))


def make_slice(node: Node) -> Kernel:
    """Make the kernel of Slice from version 10, whose starts, ends, axes and steps are inputs."""

    def run_slice(execution: Execution, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Outputs:
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
            normalized = axis_in_range(axis, len(shape), operator="Slice", of="input 0")
            if step == 0:
                raise ValueError(f"steps are {strides}; a step must not be 0")
            length = length_along(shape, normalized, operator="Slice", of="input 0")
            taken = range(length)[start:stop:step]
            # For a step backwards to the first element, stop is -1, which would be counted from the end.
            index[normalized] = (
                slice(taken.start, taken.stop if taken.stop >= 0 else None, step) if taken else slice(0, 0)
            )
        return (_slice(x, tuple(index)),)

    return Kernel(run_slice, (Placement.FOLLOW, Placement.HOST))


def _slice(x: Array, index: tuple[slice, ...]) -> Array:
    """Return slices of an array, with steps backwards by `flip` where the library has no negative steps."""
    backwards = [axis for axis, part in enumerate(index) if part.step is not None and part.step < 0]
    library = library_of(x)
    if not backwards or library.has_negative_steps:
        return x[index]
    for axis in backwards:
        taken = range(x.shape[axis])[index[axis]]
        forwards = slice(taken[-1], taken[0] + 1, -taken.step)
        index = (*index[:axis], forwards, *index[axis + 1 :])
    return library.namespace.flip(x[index], axis=tuple(backwards))


def make_gather(node: Node) -> Kernel:
    """Make the kernel of Gather, which takes elements along an axis at indices of any shape."""
    axis = node.attribute("axis", int, 0)

    def run_gather(execution: Execution, x: Any, indices: Any) -> Outputs:
        shape = tensor(x, 0).shape
        normalized = axis_in_range(axis, len(shape), operator="Gather", of="input 0")
        length = length_along(shape, normalized, operator="Gather", of="input 0")
        execution.reserve(
            (*shape[:normalized], *tensor(indices, 1).shape, *shape[normalized + 1 :]), itemsize_of(x.dtype)
        )
        if not isinstance(indices, np.ndarray):
            return (_take(execution.move_to_device(x), indices, normalized),)
        if indices.dtype.kind != "i":
            raise TypeError(f"input 1 (indices) is {describe_value(indices)}; expected int32 or int64")
        if indices.size > 1:
            low, high = indices.min(), indices.max()
        else:
            low = high = indices.item() if indices.size else 0
        if indices.size and not -length <= low <= high < length:
            raise IndexError(
                f"indices lie in [{low}, {high}]; axis {normalized} has length {length}, "
                f"so they must lie in [{-length}, {length - 1}]"
            )
        before = (slice(None),) * normalized
        if indices.ndim == 0:
            return (x[(*before, int(indices), ...)],)
        if isinstance(x, np.ndarray):
            return (x.take(indices, axis=normalized),)
        library = library_of(x)
        if not library.can_hold("int64", library.device_of(x)):
            indices = indices.astype(np.int32)  # which holds whatever lies within a length
        return (_take(x, execution.move_to_device(indices), normalized),)

    return Kernel(run_gather)


def _take(x: Array, indices: Array, axis: int) -> Array:
    """Return elements along an axis at indices of any shape, which may be negative."""
    xp = library_of(x).namespace
    length = x.shape[axis]
    indices = xp.where(indices < scalar_like(xp, 0, indices), indices + scalar_like(xp, length, indices), indices)
    flat = xp.reshape(indices, (-1,))
    taken = xp.take(x, flat, axis=axis)
    return xp.reshape(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def make_expand(node: Node) -> Kernel:
    """Make the kernel of Expand, which broadcasts a tensor with a shape."""
    del node

    def run_expand(execution: Execution, x: Any, shape: Any) -> Outputs:
        lengths = integers(shape, "input 1 (shape)")
        if any(length < 0 for length in lengths):
            raise ValueError(f"shape is {lengths}; a length must not be negative")
        result = broadcast_shapes([tensor(x, 0).shape, lengths])
        execution.reserve(result, itemsize_of(x.dtype))
        return (library_of(x).namespace.broadcast_to(x, result),)

    return Kernel(run_expand, (Placement.FOLLOW, Placement.HOST))


def make_constant_of_shape(node: Node) -> Kernel:
    """Make the kernel of ConstantOfShape."""
    value = node.attribute("value", onnx.TensorProto)
    fill_value = np.zeros(1, dtype=np.float32) if value is None else array_of(value, node.folder)
    if fill_value.size != 1:
        raise ValueError(f"{node.label}: attribute 'value' has {fill_value.size} elements; expected one")
    fill_value = fill_value.reshape(())

    def run_constant_of_shape(execution: Execution, shape: Any) -> Outputs:
        lengths = integers(shape, "input 0 (input)")
        if any(length < 0 for length in lengths):
            raise ValueError(f"the shape is {lengths}; a length must not be negative")
        execution.reserve(lengths, fill_value.dtype.itemsize)
        # A single value may be a size or a position, which is read on the host.
        if not execution.moves or prod(lengths) <= 1:
            return (np.full(tuple(lengths), fill_value, dtype=fill_value.dtype),)
        library, device = execution.target.library, execution.target.device
        dtype = library.dtype_for(element_type_of(fill_value.dtype), device, operator="ConstantOfShape")
        with library.on_device(device):
            return (library.namespace.full(tuple(lengths), fill_value.item(), dtype=dtype, device=device),)

    return Kernel(run_constant_of_shape, (Placement.HOST,))


#: op_type -> (first supported version, kernel factory)
SHAPE_KERNELS: dict[str, tuple[int, KernelFactory]] = {
    "ConstantOfShape": (9, make_constant_of_shape),
    "Expand": (8, make_expand),
    "Gather": (1, make_gather),
    "Reshape": (5, make_reshape),
    "Shape": (1, make_shape),
    "Slice": (10, make_slice),
    "Squeeze": (1, make_squeeze),
    "Unsqueeze": (1, make_unsqueeze),
}
