"""Elementwise operators, reductions and Cast on the array API standard, as far as models with sequences use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from seqarray._arguments import axis_in_range
from seqarray._dtypes import element_type_of, itemsize_of
from seqarray._libraries import Array, library_of
from seqarray.onnx._load.tensor_protos import element_type_by_code
from seqarray.onnx._ops.inputs import as_result, broadcast_shapes, integers, is_integral, scalar_like, tensors
from seqarray.onnx._ops.node import Kernel, KernelFactory, Node
from seqarray.onnx._run.executor import Execution
from seqarray.onnx._run.placement import Placement
from seqarray.onnx._run.values import describe_value

Outputs = Sequence[Any]


def align_axes(node: Node, a: Array, b: Array) -> Array:
    """Return the second input with axes of length 1 added where attribute `axis` needs them.

    Versions before 7 broadcast only if attribute `broadcast` is set.
    """
    if not node.attribute("broadcast", int, 0):
        if tuple(a.shape) != tuple(b.shape):
            raise ValueError(
                f"input 1 is {describe_value(b)}; input 0 is {describe_value(a)}, and attribute 'broadcast' is 0"
            )
        return b
    first = node.attribute("axis", int, len(a.shape) - len(b.shape)) % max(len(a.shape), 1)
    return b[(..., *[None] * (len(a.shape) - len(b.shape) - first))]


def elementwise(name: str) -> Callable[[Node], Kernel]:
    """Make the factory of an operator that is one elementwise function of the standard."""

    def make(node: Node) -> Kernel:
        allowed = node.element_types(0)
        explicit = "broadcast" in node.schema.attributes

        def run_elementwise(execution: Execution, *inputs: Any) -> Outputs:
            arrays = tensors(inputs, allowed)
            if explicit:
                arrays = [arrays[0], align_axes(node, *arrays)]
            if execution.budget is not None:
                execution.reserve(broadcast_shapes([array.shape for array in arrays]), itemsize_of(arrays[0].dtype))
            xp = library_of(arrays[0]).namespace
            return (as_result(getattr(xp, name)(*arrays)),)

        return Kernel(run_elementwise, (Placement.FOLLOW,))

    return make


def unary(formula: Callable[[Any, Array], Array]) -> Callable[[Node], Kernel]:
    """Make the factory of an operator on one tensor from a function of the namespace and the tensor."""

    def make(node: Node) -> Kernel:
        allowed = node.element_types(0)

        def run_unary(execution: Execution, x: Any) -> Outputs:
            tensors([x], allowed)
            return (as_result(formula(library_of(x).namespace, x)),)

        return Kernel(run_unary, (Placement.FOLLOW,))

    return make


def relu(xp: Any, x: Array) -> Array:
    """Return x where it is not negative, else 0; NaN stays NaN."""
    return xp.where(x < scalar_like(xp, 0, x), scalar_like(xp, 0, x), x)


def sigmoid(xp: Any, x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    one = scalar_like(xp, 1, x)
    # exp overflows to infinity for large negative x, and the result to 0, which is the limit.
    return one / (one + xp.exp(-x))


def truncating_divide(xp: Any, a: Array, b: Array) -> Array:
    """Divide integers and round towards zero; `floor_divide` of the standard rounds down."""
    zero = scalar_like(xp, 0, a)
    inexact = (xp.remainder(a, b) != zero) & ((a < zero) != (b < zero))
    return xp.floor_divide(a, b) + xp.astype(inexact, a.dtype)


def make_div(node: Node) -> Kernel:
    """Make the kernel of Div, which rounds towards zero for integers."""
    allowed = node.element_types(0)

    def run_div(execution: Execution, *inputs: Any) -> Outputs:
        a, b = tensors(inputs, allowed)
        xp = library_of(a).namespace
        execution.reserve(broadcast_shapes([a.shape, b.shape]), itemsize_of(a.dtype))
        divided = truncating_divide(xp, a, b) if is_integral(a) else xp.divide(a, b)
        return (as_result(divided),)

    return Kernel(run_div, (Placement.FOLLOW,))


#: Types to which `astype` of the array library converts as Cast does; for smaller floats, ONNX has its own rounding.
_CAST_TYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 bfloat16 float16 float32 float64".split()
)


def make_cast(node: Node) -> Kernel | None:
    """Make the kernel of Cast to bools, integers and floats of at least 16 bits; return None for other types."""
    element_type = element_type_by_code(node.attribute("to", int, 0), f"{node.label}: attribute 'to'")
    allowed = node.element_types(0)
    if element_type not in _CAST_TYPES:
        return None

    def run_cast(execution: Execution, x: Any) -> Outputs:
        tensors([x], allowed)
        library = library_of(x)
        dtype = library.dtype_for(element_type, library.device_of(x), operator="Cast")
        execution.reserve(x.shape, itemsize_of(dtype))
        if x.dtype == dtype:
            return (x,)
        with library.on_device(library.device_of(x)):
            return (library.converted(x, dtype),)

    return Kernel(run_cast, (Placement.FOLLOW,))


def _sum(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Sum in the dtype of x; without `dtype`, small types are summed in wider ones."""
    return xp.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def _mean(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the mean, of integers rounded towards zero."""
    if not is_integral(x):
        return xp.mean(x, axis=axes, keepdims=keepdims)
    count = prod(x.shape[axis] for axis in axes)
    return truncating_divide(xp, _sum(xp, x, axes, keepdims), scalar_like(xp, count, x))


def _max(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the maximum; for bools whether any is true."""
    if element_type_of(x.dtype) == "bool":
        return xp.any(x, axis=axes, keepdims=keepdims)
    if prod(x.shape[axis] for axis in axes):
        return xp.max(x, axis=axes, keepdims=keepdims)
    # The maximum over no elements is the smallest value of the type.
    lowest = xp.iinfo(x.dtype).min if is_integral(x) else -float("inf")
    return _sum(xp, x, axes, keepdims) + scalar_like(xp, lowest, x)


def reduction(
    reduce: Callable[[Any, Array, tuple[int, ...], bool], Array], input_since: int
) -> Callable[[Node], Kernel]:
    """Make the factory of a reduction, whose axes are an attribute before a version and an input from it on."""

    def make(node: Node) -> Kernel:
        allowed, keepdims = node.element_types(0), bool(node.attribute("keepdims", int, 1))
        attribute_axes, axes_in_attribute = node.attributes.get("axes"), node.version < input_since
        no_axes_means_none = node.attribute("noop_with_empty_axes", int, 0)

        def run_reduction(execution: Execution, x: Any, axes: Any = None) -> Outputs:
            tensors([x], allowed)
            chosen = attribute_axes if axes_in_attribute or axes is None else integers(axes, "input 1 (axes)")
            if not chosen and no_axes_means_none:
                return (x,)
            rank = len(x.shape)
            normalized = tuple(axis_in_range(a, rank, operator="axes", of="input 0") for a in chosen or range(rank))
            return (as_result(reduce(library_of(x).namespace, x, normalized, keepdims)),)

        return Kernel(run_reduction, (Placement.FOLLOW, Placement.HOST))

    return make


def make_softmax(node: Node) -> Kernel:
    """Make the kernel of Softmax along one axis."""
    axis, allowed = node.attribute("axis", int, -1), node.element_types(0)

    def run_softmax(execution: Execution, x: Any) -> Outputs:
        tensors([x], allowed)
        xp = library_of(x).namespace
        normalized = axis_in_range(axis, len(x.shape), operator="Softmax", of="input 0")
        powers = xp.exp(x - xp.max(x, axis=normalized, keepdims=True)) if prod(x.shape) else x
        return (as_result(powers / xp.sum(powers, axis=normalized, keepdims=True, dtype=x.dtype)),)

    return Kernel(run_softmax, (Placement.FOLLOW,))


def make_where(node: Node) -> Kernel:
    """Make the kernel of Where."""
    allowed = node.element_types(1)

    def run_where(execution: Execution, condition: Any, x: Any, y: Any) -> Outputs:
        tensors([condition], frozenset({"bool"}))
        tensors([x, y], allowed)
        execution.reserve(broadcast_shapes([condition.shape, x.shape, y.shape]), itemsize_of(x.dtype))
        return (as_result(library_of(x).namespace.where(condition, x, y)),)

    return Kernel(run_where, (Placement.FOLLOW,))


#: op_type -> (first supported version, kernel factory)
MATH_KERNELS: dict[str, tuple[int, KernelFactory]] = {
    "Add": (1, elementwise("add")),
    "And": (7, elementwise("logical_and")),
    "Cast": (6, make_cast),
    "Div": (7, make_div),
    "Equal": (7, elementwise("equal")),
    "Greater": (7, elementwise("greater")),
    "Less": (7, elementwise("less")),
    "Mul": (1, elementwise("multiply")),
    "Neg": (6, elementwise("negative")),
    "Not": (1, elementwise("logical_not")),
    "Or": (7, elementwise("logical_or")),
    "ReduceMax": (1, reduction(_max, 18)),
    "ReduceMean": (1, reduction(_mean, 18)),
    "ReduceSum": (1, reduction(_sum, 13)),
    "Relu": (6, unary(relu)),
    "Sigmoid": (6, unary(sigmoid)),
    "Softmax": (13, make_softmax),
    "Sub": (1, elementwise("subtract")),
    "Tanh": (6, elementwise("tanh")),
    "Where": (9, make_where),
}
