"""onnx's reference implementation of a single operator, on NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from seqarray._dtypes import element_type_of
from seqarray._sequence import ArraySequence
from seqarray.onnx._load.tensor_protos import NUMPY
from seqarray.onnx._ops.node import Node, Operator
from seqarray.onnx._ops.size_estimates import expected_nbytes
from seqarray.onnx._run.executor import Run
from seqarray.onnx._run.placement import dtype_for_host

#: Before onnx had dtypes for these types, its reference evaluator marked arrays of their bits with these field names.
_MARKED = {
    "bfloat16": "bfloat16",
    "e4m3fn": "float8_e4m3fn",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2": "float8_e5m2",
    "e5m2fnuz": "float8_e5m2fnuz",
    "int4": "int4",
    "uint4": "uint4",
}


def bind_reference(
    node: Node,
    names: Sequence[str],
    types: Sequence[onnx.TypeProto | None],
    opsets: dict[str, int],
    origin: onnx.ModelProto,
) -> Operator:
    """The operator of a node as onnx's reference evaluator runs it.

    Parameters
    ----------
    node : Node
        The node.
    names : sequence of str
        The names of the inputs that the operator will be given: those of the node, then those of outer graphs which
        graphs in its attributes read.
    types : sequence of onnx.TypeProto or None
        Their types, as far as the model says them: some operators are functions of the types of their inputs.
    opsets : dict
        Domain to version.
    origin : onnx.ModelProto
        The model, whose functions nodes of graphs in the attributes may call.
    """
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.domain = node.domain
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
    model = onnx.ModelProto(ir_version=origin.ir_version, graph=graph)
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in opsets.items())
    if any(attribute.HasField("g") for attribute in proto.attribute):
        model.functions.extend(origin.functions)
    try:
        evaluator = ReferenceEvaluator(model)
    except Exception as error:  # whatever is raised for what it does not know
        raise ValueError(
            f"{node.label}: neither seqarray nor onnx.reference has an implementation: {_first_line(error)}"
        ) from error

    def run_reference(run: Run, *arguments: Any) -> list[Any]:
        moved = run.moves and any(_on_device(argument) for argument in arguments)
        feeds = {name: _for_reference(argument, run) for name, argument in zip(names, arguments, strict=False) if name}
        if run.budget is not None:
            run.budget.reserve(expected_nbytes(node, [feeds.get(name) for name in names]))
        outputs = evaluator.run(None, feeds)
        return [_from_reference(output, run, moved) for output in outputs]

    return Operator(run_reference, ".")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _on_device(argument: Any) -> bool:
    return argument is not None and not isinstance(argument, np.ndarray)


def _for_reference(argument: Any, run: Run) -> Any:
    if argument is None:
        return None
    if type(argument) is ArraySequence:
        if argument.namespace is None or argument.namespace is NUMPY:
            return list(argument)
        run.to_host += len(argument)
        return list(argument.to(xp=NUMPY))
    return run.on_host(argument)


def _from_reference(output: Any, run: Run, moved: bool) -> Any:
    """A result on the device if any argument came from there."""
    if output is None:
        return None
    if isinstance(output, list):
        return ArraySequence([run.on_device(_plain(element)) for element in output])
    array = _plain(output)
    return run.on_device(array) if moved else array


def _plain(output: Any) -> np.ndarray[Any, Any]:
    if not isinstance(output, (np.ndarray, np.generic)):
        raise TypeError(f"onnx.reference gives a {type(output).__name__}; expected a tensor or a sequence of tensors")
    array = np.asarray(output)
    if array.dtype.names is not None and array.dtype.names[0] in _MARKED:
        array = array.view(array.dtype[0]).view(dtype_for_host(_MARKED[array.dtype.names[0]]))
    return array.astype(object) if element_type_of(array.dtype) == "string" else array
