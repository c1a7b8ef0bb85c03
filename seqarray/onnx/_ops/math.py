"""Operators that compute: the few that graphs around sequences need, over the array API standard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from seqarray._arguments import axis_in_range
from seqarray._dtypes import dtype_for, element_type_of, itemsize_of
from seqarray._libraries import Array, device_of, entering, namespace_of
from seqarray.onnx._load.tensor_protos import element_type_by_code
from seqarray.onnx._ops.inputs import broadcast, integers, is_integral, number, plain, tensors
from seqarray.onnx._ops.node import Binder, Node, Operator
from seqarray.onnx._run.executor import Run, described

Outputs = Sequence[Any]


def aligned(node: Node, a: Array, b: Array) -> Array:
    """The second input with axes of length 1 where versions before 7 want them: they broadcast only if told to."""
    if not node.attribute("broadcast", int, 0):
        if tuple(a.shape) != tuple(b.shape):
            raise ValueError(f"input 1 is {described(b)}; input 0 is {described(a)}, and attribute 'broadcast' is 0")
        return b
    place = node.attribute("axis", int, len(a.shape) - len(b.shape))
    return b[(..., *[None] * (len(a.shape) - len(b.shape) - place % max(len(a.shape), 1)))]


def elementwise(name: str) -> Callable[[Node], Operator]:
    """An operator that is one function of the standard, on inputs that are broadcast."""

    def bind(node: Node) -> Operator:
        allowed = node.element_types(0)
        explicit = "broadcast" in node.schema.attributes

        def function(run: Run, *inputs: Any) -> Outputs:
            arrays = tensors(inputs, allowed)
            if explicit:
                arrays = [arrays[0], aligned(node, *arrays)]
            if run.budget is not None:
                run.reserve(broadcast([array.shape for array in arrays]), itemsize_of(arrays[0].dtype))
            xp = namespace_of(arrays[0])
            return (plain(getattr(xp, name)(*arrays)),)

        return Operator(function, "s")

    return bind


def computed(formula: Callable[[Any, Array], Array]) -> Callable[[Node], Operator]:
    """An operator on one tensor that is a formula, given the namespace and the tensor."""

    def bind(node: Node) -> Operator:
        allowed = node.element_types(0)

        def function(run: Run, x: Any) -> Outputs:
            tensors([x], allowed)
            return (plain(formula(namespace_of(x), x)),)

        return Operator(function, "s")

    return bind


def relu(xp: Any, x: Array) -> Array:
    return xp.where(x < number(xp, 0, x), number(xp, 0, x), x)


def sigmoid(xp: Any, x: Array) -> Array:
    one = number(xp, 1, x)
    # One of the two forms overflows on either side, to a limit that is right.
    return one / (one + xp.exp(-x))


def truncated(xp: Any, a: Array, b: Array) -> Array:
    """Integers divided and cut off towards zero; the standard rounds down."""
    zero = number(xp, 0, a)
    inexact = (xp.remainder(a, b) != zero) & ((a < zero) != (b < zero))
    return xp.floor_divide(a, b) + xp.astype(inexact, a.dtype)


def bind_div(node: Node) -> Operator:
    """Div, which cuts off towards zero for integers."""
    allowed = node.element_types(0)

    def function(run: Run, *inputs: Any) -> Outputs:
        a, b = tensors(inputs, allowed)
        xp = namespace_of(a)
        run.reserve(broadcast([a.shape, b.shape]), itemsize_of(a.dtype))
        divided = truncated(xp, a, b) if is_integral(a) else xp.divide(a, b)
        return (plain(divided),)

    return Operator(function, "s")


#: What Cast makes by the conversion of the array library.  Smaller numbers are rounded by rules of ONNX's own.
_PLAIN = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 bfloat16 float16 float32 float64".split())


def bind_cast(node: Node) -> Operator | None:
    """Cast to bools, integers and floating-point numbers of 16 bits and more."""
    element_type = element_type_by_code(node.attribute("to", int, 0), f"{node.label}: attribute 'to'")
    allowed = node.element_types(0)
    if element_type not in _PLAIN:
        return None

    def function(run: Run, x: Any) -> Outputs:
        tensors([x], allowed)
        xp = namespace_of(x)
        dtype = dtype_for(xp, element_type, device_of(x), operator="Cast")
        run.reserve(x.shape, itemsize_of(dtype))
        if x.dtype == dtype:
            return (x,)
        with entering(xp, device_of(x)):
            return (xp.astype(x, dtype),)

    return Operator(function, "s")


def _sum(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    # Small types are summed in wider ones unless it is said.
    return xp.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def _mean(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if not is_integral(x):
        return xp.mean(x, axis=axes, keepdims=keepdims)
    count = prod(x.shape[axis] for axis in axes)
    return truncated(xp, _sum(xp, x, axes, keepdims), number(xp, count, x))


def _max(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if element_type_of(x.dtype) == "bool":
        return xp.any(x, axis=axes, keepdims=keepdims)
    if prod(x.shape[axis] for axis in axes):
        return xp.max(x, axis=axes, keepdims=keepdims)
    # The greatest of nothing is the least number of the type.
    lowest = xp.iinfo(x.dtype).min if is_integral(x) else -float("inf")
    return _sum(xp, x, axes, keepdims) + number(xp, lowest, x)


def reduction(
    reduced: Callable[[Any, Array, tuple[int, ...], bool], Array], attribute_until: int
) -> Callable[[Node], Operator]:
    """A reduction, whose axes are an attribute up to a version and then an input."""

    def bind(node: Node) -> Operator:
        allowed, keepdims = node.element_types(0), bool(node.attribute("keepdims", int, 1))
        given, is_attribute = node.attributes.get("axes"), node.version < attribute_until
        nothing_to_do = node.attribute("noop_with_empty_axes", int, 0)

        def function(run: Run, x: Any, axes: Any = None) -> Outputs:
            tensors([x], allowed)
            wanted = given if is_attribute or axes is None else integers(axes, "input 1 (axes)")
            if not wanted and nothing_to_do:
                return (x,)
            rank = len(x.shape)
            counted = tuple(axis_in_range(a, rank, operator="axes", of="input 0") for a in wanted or range(rank))
            return (plain(reduced(namespace_of(x), x, counted, keepdims)),)

        return Operator(function, "sh")

    return bind


def bind_softmax(node: Node) -> Operator:
    """Softmax along one axis."""
    axis, allowed = node.attribute("axis", int, -1), node.element_types(0)

    def function(run: Run, x: Any) -> Outputs:
        tensors([x], allowed)
        xp = namespace_of(x)
        place = axis_in_range(axis, len(x.shape), operator="Softmax", of="input 0")
        powers = xp.exp(x - xp.max(x, axis=place, keepdims=True)) if prod(x.shape) else x
        return (plain(powers / xp.sum(powers, axis=place, keepdims=True, dtype=x.dtype)),)

    return Operator(function, "s")


def bind_where(node: Node) -> Operator:
    """Where."""
    allowed = node.element_types(1)

    def function(run: Run, condition: Any, x: Any, y: Any) -> Outputs:
        tensors([condition], frozenset({"bool"}))
        tensors([x, y], allowed)
        run.reserve(broadcast([condition.shape, x.shape, y.shape]), itemsize_of(x.dtype))
        return (plain(namespace_of(x).where(condition, x, y)),)

    return Operator(function, "s")


#: Operator to the version since which it is as here, and what binds it.
ARITHMETIC: dict[str, tuple[int, Binder]] = {
    "Add": (1, elementwise("add")),
    "And": (7, elementwise("logical_and")),
    "Cast": (6, bind_cast),
    "Div": (7, bind_div),
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
    "Relu": (6, computed(relu)),
    "Sigmoid": (6, computed(sigmoid)),
    "Softmax": (13, bind_softmax),
    "Sub": (1, elementwise("subtract")),
    "Tanh": (6, elementwise("tanh")),
    "Where": (9, bind_where),
}
