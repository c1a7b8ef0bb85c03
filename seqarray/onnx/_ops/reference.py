"""Kernels that run onnx's reference implementation of an operator on NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from seqarray._dtypes import element_type_of
from seqarray._libraries import NUMPY
from seqarray._sequence import ArraySequence
from seqarray.onnx._load.model import graphs_of
from seqarray.onnx._ops.deviations import (
    IGNORED_BY_REFERENCE,
    Input,
    deviation_of_reference,
    input_of_array,
    input_of_type,
)
from seqarray.onnx._ops.node import Kernel, Node
from seqarray.onnx._ops.size_estimates import check_bounded, check_work, estimated_nbytes
from seqarray.onnx._run.budget import Limits
from seqarray.onnx._run.executor import Execution
from seqarray.onnx._run.placement import check_gradients, dtype_for_host

#: Field names by which the reference evaluator of older onnx marks integers that hold the bits of another type.
_MARKED_TYPES = {
    "bfloat16": "bfloat16",
    "e4m3fn": "float8_e4m3fn",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2": "float8_e5m2",
    "e5m2fnuz": "float8_e5m2fnuz",
    "int4": "int4",
    "uint4": "uint4",
}


def make_reference(
    node: Node,
    names: Sequence[str],
    types: Sequence[onnx.TypeProto | None],
    values: Sequence[np.ndarray[Any, Any] | None],
    opsets: dict[str, int],
    ir_version: int,
    limits: Limits,
) -> Kernel:
    """Make a kernel that runs a node by onnx's reference evaluator.

    Parameters
    ----------
    node : Node
        The node.
    names : sequence of str
        The names of its inputs.
    types : sequence of onnx.TypeProto or None
        Their types where the model declares them: the definition of some operators depends on them.
    values : sequence of array or None
        The values of those that are constants.
    opsets : dict
        Domain to version.
    ir_version : int
        The version of the format of the model.
    limits : Limits
        What the program may take.

    Raises
    ------
    ValueError
        If onnx has no reference implementation of the operator, or one that deviates from the standard, or if nothing
        bounds what it takes and the program has limits.
    """
    if any(graphs_of(attribute) for attribute in node.proto.attribute):
        raise ValueError(f"{node.label}: operators with graphs, other than If, Loop, Scan and SequenceMap, do not run")
    if any(limit is not None for limit in limits):
        check_bounded(node, limits)
    _check_right(node, [input_of_type(*pair) for pair in zip(types, values, strict=True)], f"{node.label}: ")
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.domain = node.domain
    for attribute in node.proto.attribute:
        if not node.domain and attribute.name == IGNORED_BY_REFERENCE.get(node.proto.op_type):
            proto.attribute.remove(attribute)
    results = [name or f"unused output {index}" for index, name in enumerate(proto.output)]
    del proto.output[:]
    proto.output.extend(results)
    graph = helper.make_graph(
        [proto],
        "one node",
        [
            onnx.ValueInfoProto(name=name, type=kind)
            for name, kind in dict(zip(names, types, strict=True)).items()
            if name
        ],
        [helper.make_empty_tensor_value_info(name) for name in results],
    )
    model = onnx.ModelProto(ir_version=ir_version, graph=graph)
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in opsets.items())
    try:
        evaluator = ReferenceEvaluator(model)
    except Exception as error:  # the evaluator raises many classes for unknown operators
        raise ValueError(
            f"{node.label}: neither seqarray nor onnx.reference has an implementation: {_first_line(error)}"
        ) from error

    def run_reference(execution: Execution, *arguments: Any) -> list[Any]:
        moved = execution.moves and any(_is_on_device(argument) for argument in arguments)
        feeds = {
            name: _to_reference(argument, execution) for name, argument in zip(names, arguments, strict=False) if name
        }
        given = [feeds.get(name) for name in names]
        _check_limits(node, given, execution, limits)
        _check_right(node, [input_of_array(value) for value in given])
        outputs = [_of_reference(output) for output in evaluator.run(None, feeds)]
        if moved:
            arrays = [array for output in outputs for array in (output if isinstance(output, list) else [output])]
            types = [element_type_of(array.dtype) for array in arrays if array is not None]
            check_gradients(arguments, types, "onnx.reference")
        return [_placed(output, execution, moved) for output in outputs]

    return Kernel(run_reference)


def _check_right(node: Node, inputs: Sequence[Input], label: str = "") -> None:
    """Raise a ValueError if the reference implementation is known to give something else than the standard says."""
    text = deviation_of_reference(node, inputs)
    if text:
        raise ValueError(
            f"{label}onnx.reference does not follow the standard here ({text}), so it is not used; "
            "onnxruntime runs this operator: pip install onnxruntime"
            + (", and the locale, en_US.UTF-8 by default" if node.proto.op_type == "StringNormalizer" else "")
        )


class LazyReference:
    """The kernel of a node that onnx's reference evaluator runs if onnxruntime does not, made when that is known.

    Parameters
    ----------
    node : Node
        The node.
    inputs : tuple of int
        The slots of its inputs.
    make : callable
        Makes the kernel.
    limits : Limits
        What the program may take.
    """

    def __init__(self, node: Node, inputs: tuple[int, ...], make: Callable[[], Kernel], limits: Limits) -> None:
        self._node = node
        self._inputs = inputs
        self._make = make
        self._limits = limits
        self._kernel: Kernel | None = None
        if any(limit is not None for limit in limits):
            check_bounded(node, limits)

    def make(self) -> Kernel:
        """Return the kernel; raise a ValueError if there is none."""
        if self._kernel is None:
            self._kernel = self._make()
        return self._kernel

    def check_alternative(self, refusal: Exception) -> None:
        """Make the kernel; raise a ValueError with the reason why onnxruntime refuses if there is none."""
        try:
            self.make()
        except ValueError as error:
            raise ValueError(f"{error}; onnxruntime does not run it either: {refusal}") from error

    def check(self, execution: Execution, arrays: Mapping[int, Any]) -> None:
        """Raise a ValueError if the node, given its inputs on the host by slot, takes more than a run may."""
        _check_limits(self._node, [arrays.get(slot) for slot in self._inputs], execution, self._limits)

    def run(self, execution: Execution, *arguments: Any) -> Sequence[Any]:
        """Run the node by the reference evaluator."""
        return self.make().function(execution, *arguments)


def _check_limits(node: Node, inputs: Sequence[Any], execution: Execution, limits: Limits) -> None:
    """Raise a ValueError if a node takes more than a run may."""
    if execution.budget is not None and limits.max_bytes is not None:
        execution.budget.reserve(estimated_nbytes(node, inputs))
    if limits.max_seconds is not None:
        check_work(node, inputs, limits.max_seconds)


def _first_line(error: Exception) -> str:
    """Return the first line of the message of an error."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _is_on_device(argument: Any) -> bool:
    """Return whether an argument is a sequence or an array that is not NumPy's."""
    return argument is not None and not isinstance(argument, np.ndarray)


def _to_reference(argument: Any, execution: Execution) -> Any:
    """Return an argument as a NumPy array, a list of them, or None."""
    if argument is None:
        return None
    if type(argument) is ArraySequence:
        if argument._kind.library is None or argument._kind.library is NUMPY:
            return list(argument)
        execution.to_host += len(argument)
        return list(argument.to(xp="numpy"))
    return execution.move_to_host(argument)


def _of_reference(output: Any) -> Any:
    """Return a result of the evaluator as an array, a list of arrays, or None."""
    if output is None:
        return None
    return list(map(_as_array, output)) if isinstance(output, list) else _as_array(output)


def _placed(output: Any, execution: Execution, moved: bool) -> Any:
    """Return a result on the device, of a tensor if an argument was moved from there."""
    if isinstance(output, list):
        return ArraySequence([execution.move_to_device(array) for array in output])
    return execution.move_to_device(output) if moved and output is not None else output


def _as_array(output: Any) -> np.ndarray[Any, Any]:
    """Return a tensor of the evaluator as an array with a dtype that seqarray uses."""
    if not isinstance(output, (np.ndarray, np.generic)):
        raise TypeError(f"onnx.reference gives a {type(output).__name__}; expected a tensor or a sequence of tensors")
    array = np.asarray(output)
    if array.dtype.names is not None and array.dtype.names[0] in _MARKED_TYPES:
        array = array.view(array.dtype[0]).view(dtype_for_host(_MARKED_TYPES[array.dtype.names[0]]))
    return array.astype(object) if element_type_of(array.dtype) == "string" else array
