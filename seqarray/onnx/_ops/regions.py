"""The kernel of a region: nodes without sequences, which one session of onnxruntime executes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from seqarray._dtypes import ELEMENT_TYPE_BY_CODE, ONNX_TYPES, element_type_of
from seqarray._libraries import library_of
from seqarray._sequence import ArraySequence
from seqarray.onnx._load.model import domain_of, graphs_of, tensors_of
from seqarray.onnx._load.pruning import captured_names
from seqarray.onnx._load.tensor_protos import DataFolder, embed_external, is_external
from seqarray.onnx._ops.node import schema_of
from seqarray.onnx._run.executor import Execution, execute, with_label
from seqarray.onnx._run.placement import Target, check_gradients
from seqarray.onnx._run.sessions import RefusedError, Session, SessionMaker, text_of
from seqarray.onnx._run.steps import Step, Subgraph
from seqarray.onnx._run.values import describe_value

#: The version of the format in which regions are passed on; what a region holds does not depend on it.
_IR_VERSION = 10


@dataclass(frozen=True, eq=False)
class RegionModel:
    """What the model of a region is made of.

    Attributes
    ----------
    nodes : list of onnx.NodeProto
        The nodes in order.
    labels : list of str
        The same nodes as error messages name them.
    names : dict
        The names of values in the model by slot.
    opsets : dict
        Domain to version of the operator sets.
    inputs, outputs : tuple of int
        The slots of the inputs and outputs.
    constants : dict
        The values of the initializers by slot.
    types : dict
        The types of inputs by slot, as far as they are known.
    functions : sequence of onnx.FunctionProto
        The functions that nodes may call.
    folder : DataFolder or None
        The folder that contains the external data of tensors.
    """

    nodes: list[onnx.NodeProto]
    labels: list[str]
    names: dict[int, str]
    opsets: dict[str, int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: dict[int, np.ndarray[Any, Any]]
    types: dict[int, onnx.TypeProto]
    functions: Sequence[onnx.FunctionProto]
    folder: DataFolder | None

    def with_names(self, text: str) -> str:
        """Return a message about the region with the names that values have in the model."""
        return re.sub(r"\bslot (\d+)\b", lambda slot: repr(self.names.get(int(slot[1]), slot[0])), text)

    def least_opset(self) -> int:
        """Return the oldest version of the standard's operators in which all nodes are defined as they are here."""
        version, nodes = self.opsets.get("", 1), list(self.nodes)
        least = 1
        for node in nodes:
            nodes += [inner for attribute in node.attribute for graph in graphs_of(attribute) for inner in graph.node]
            schema = None if domain_of(node) else schema_of(node.op_type, version, "")
            if schema is None:
                return version  # It may be a function, in which anything is.
            least = max(least, schema.since_version)
        return least

    def build(self, types: Mapping[int, onnx.TypeProto]) -> onnx.ModelProto:
        """Return the model, with its inputs of some types and without its initializers."""
        graph = helper.make_graph(
            [],
            "region",
            [onnx.ValueInfoProto(name=name_of(slot), type=types[slot]) for slot in self.inputs],
            [helper.make_empty_tensor_value_info(name_of(slot)) for slot in self.outputs],
        )
        for node, label in zip(self.nodes, self.labels, strict=True):
            copy = graph.node.add()
            copy.CopyFrom(node)
            copy.name = label
        model = onnx.ModelProto(ir_version=_IR_VERSION, graph=graph)
        model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in self.opsets.items())
        model.functions.extend(self.functions)
        for tensor in _tensors(model):
            if is_external(tensor):
                embed_external(tensor, self.folder)
        return model


def name_of(slot: int) -> str:
    """Return the name of the value of a slot in the model of a region."""
    return f"slot {slot}" if slot else ""


def renamed(node: onnx.NodeProto, read: Mapping[str, int], written: Sequence[int]) -> onnx.NodeProto:
    """Return a node in which the values of slots have the names by which the models of regions know them."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.input[:], copy.output[:]
    copy.input.extend(name_of(read[name]) if name else "" for name in node.input)
    copy.output.extend(name_of(slot) if name else "" for name, slot in zip(node.output, written, strict=True))
    waiting = [graph for attribute in copy.attribute for graph in graphs_of(attribute)]
    while waiting:
        graph = waiting.pop()
        for inner in graph.node:
            for index, name in enumerate(inner.input):
                if name in read:
                    inner.input[index] = name_of(read[name])
            waiting += [nested for attribute in inner.attribute for nested in graphs_of(attribute)]
        for output in graph.output:
            if output.name in read:
                output.name = name_of(read[output.name])
    return copy


def free_names(node: onnx.NodeProto) -> set[str]:
    """Return the names that the graphs of a node read from outside of them."""
    return {name for attribute in node.attribute for graph in graphs_of(attribute) for name in captured_names(graph)}


def _tensors(model: onnx.ModelProto) -> Iterable[onnx.TensorProto]:
    """Yield all tensors of a model, at any depth."""
    waiting: list[Any] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        yield from getattr(graph, "initializer", ())
        for sparse in getattr(graph, "sparse_initializer", ()):
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            yield from tensors_of(node.attribute)
            for attribute in node.attribute:
                waiting += graphs_of(attribute)


class Region:
    """Nodes that one session of onnxruntime executes, or else steps of their own.

    Attributes
    ----------
    refusal : RefusedError or None
        Why onnxruntime does not run the nodes, once it has been asked.

    Parameters
    ----------
    label : str
        The nodes as error messages name them.
    model : RegionModel
        The nodes.
    maker : SessionMaker
        Makes the session.
    own : Subgraph
        The steps by which the nodes run without a session of them all.
    own_constants : dict
        The constants that these steps read, by slot.
    has_kernels : bool
        Whether some of these steps are kernels of seqarray, which need no values moved to the host.
    on_host : collection of int
        Slots of outputs that are lengths or computed of lengths, which stay on the host.
    check : callable, optional
        Called with the execution and the arrays on the host by slot before a session runs.
    scanned : sequence of (int, int), optional
        Slots of arrays, and an axis of each, along which they must be equally long and longer than 0: onnxruntime
        crashes where a Scan has no items.
    """

    def __init__(
        self,
        label: str,
        model: RegionModel,
        maker: SessionMaker,
        own: Subgraph,
        own_constants: dict[int, np.ndarray[Any, Any]],
        has_kernels: bool,
        on_host: Iterable[int] = (),
        check: Callable[[Execution, Mapping[int, Any]], None] | None = None,
        scanned: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._label = label
        self._model = model
        self._maker = maker
        self._own = own
        self._own_constants = own_constants
        self.has_kernels = has_kernels
        self._on_host = [slot in set(on_host) for slot in model.outputs]
        self._check = check
        self.scanned = scanned
        #: A CUDA device or None, and element types of the inputs, to the session for them; None if it is refused.
        self._sessions: dict[tuple[int | str | None, ...], Session | None] = {}
        self._making = threading.Lock()
        #: The session of the types that are known when the program is prepared, if they all are.
        self._session: Session | None = None
        self.refusal: RefusedError | None = None

    def prepare(self, cuda_index: int | None = None) -> Session | None:
        """Make the session, if the types of all inputs are known; return it, or None if onnxruntime refuses."""
        if not all(slot in self._model.types for slot in self._model.inputs):
            return None
        if cuda_index is not None:
            element_types = [self._model.types[slot].tensor_type.elem_type for slot in self._model.inputs]
            return self._session_for([ELEMENT_TYPE_BY_CODE[code] for code in element_types], cuda_index)
        if self._session is None:
            self._session = self._make(self._model.types)
        return self._session

    def _make(self, types: Mapping[int, onnx.TypeProto], cuda_index: int | None = None) -> Session | None:
        """Make a session for inputs of some types; return None if onnxruntime refuses."""
        weights = {name_of(slot): array for slot, array in self._model.constants.items()}
        try:
            return self._maker.make(self._model.build(types), weights, cuda_index)
        except RefusedError as error:
            refusal = error
        # An older onnxruntime does not know the newest versions, in which most operators are what they were.
        model, least = self._model.build(types), self._model.least_opset()
        if least < self._model.opsets.get("", 1):
            next(opset for opset in model.opset_import if opset.domain == "").version = least
            with suppress(RefusedError):
                return self._maker.make(model, weights, cuda_index)
        self.refusal = RefusedError(self._model.with_names(str(refusal)))
        return None

    def _session_for(self, element_types: Sequence[str], cuda_index: int | None = None) -> Session | None:
        """Return the session for inputs of some element types, None if onnxruntime refuses."""
        key = (cuda_index, *element_types)
        if key not in self._sessions:
            with self._making:
                if key not in self._sessions:
                    types = {
                        slot: helper.make_tensor_type_proto(ONNX_TYPES[element_type].code, None)
                        for slot, element_type in zip(self._model.inputs, element_types, strict=True)
                    }
                    self._sessions[key] = self._make(types, cuda_index)
        return self._sessions[key]

    def run(self, execution: Execution, _: Step) -> Sequence[Any]:
        """Execute the nodes; return the outputs of the region."""
        values = execution.values
        arguments = [values[slot] for slot in self._model.inputs]
        if self.refusal is not None or (execution.moves and self._prefers_own(arguments, execution)):
            return self._run_own(execution)
        if self.scanned and not self._has_items(values):
            return self._run_own(execution)
        try:
            results = self._run_session(arguments, execution)
        except Exception as error:
            raise with_label(error, self._label) from error
        return self._run_own(execution) if results is None else results

    def _run_session(self, arguments: list[Any], execution: Execution) -> Sequence[Any] | None:
        """Execute the nodes in a session; return None if onnxruntime does not make one."""
        if execution.moves and self._runs_on_cuda(execution.target):
            return self._run_on_cuda(arguments, execution)
        arrays = [_on_host(value, execution) for value in arguments] if execution.moves else arguments
        session = self._session or self._session_for(_element_types(arrays))
        if session is None:
            return None
        if execution.moves:
            check_gradients(arguments, session.output_types, "onnxruntime")
        if self._check is not None:
            self._check(execution, self._model.constants | dict(zip(self._model.inputs, arrays, strict=True)))
        results = self._checked(session.run, arrays)
        if execution.moves:
            device = next((value for value in arguments if not isinstance(value, np.ndarray)), None)
            if device is not None:
                for index, stays in enumerate(self._on_host):
                    if not stays:
                        results[index] = _like(results[index], device, execution)
        return results

    def _has_items(self, values: Sequence[Any]) -> bool:
        """Return whether what is scanned are arrays of one length, which is not 0."""
        lengths = set()
        for slot, axis in self.scanned:
            value = self._model.constants[slot] if slot in self._model.constants else values[slot]
            if value is None or type(value) is ArraySequence or not -value.ndim <= axis < value.ndim:
                return False
            lengths.add(value.shape[axis])
        return len(lengths) == 1 and 0 not in lengths

    def _prefers_own(self, arguments: Sequence[Any], execution: Execution) -> bool:
        """Return whether the values would have to be moved, or would lose a gradient, for kernels that need neither."""
        if not self.has_kernels:
            return False
        arrays = [value for value in arguments if value is not None and not isinstance(value, np.ndarray)]
        return not self._maker.is_direct(execution.target) or any(
            type(array) is not ArraySequence and library_of(array).why_not_movable(array, None) for array in arrays
        )

    def _run_own(self, execution: Execution) -> Sequence[Any]:
        """Execute the steps of the nodes one by one, each of which names itself in its errors."""
        values, target = execution.values, execution.target
        for slot, array in self._own_constants.items():
            if values[slot] is None:
                values[slot] = target.constant_of(slot, array)
        execute(self._own.steps, execution)
        outputs = [values[slot] for slot in self._model.outputs]
        for slot in self._own.local_slots:
            values[slot] = None
        return outputs

    def _runs_on_cuda(self, target: Target) -> bool:
        """Return whether the session reads and writes arrays on a CUDA device; checks read them on the host."""
        return self._check is None and target.cuda_index is not None and self._maker.is_direct(target)

    def _run_on_cuda(self, arguments: Sequence[Any], execution: Execution) -> Sequence[Any] | None:
        """Execute the nodes in a session that reads and writes arrays on the CUDA device of the program."""
        library, index = execution.target.library, execution.target.cuda_index
        assert index is not None
        session = self._session_for(_element_types(arguments), index)
        if session is None:
            return None
        check_gradients(arguments, session.output_types, "onnxruntime")
        arrays = [value if isinstance(value, np.ndarray) else _row_major(value) for value in arguments]
        # The session has a stream of its own.
        library.finish(execution.target.device)
        from_dlpack, astype = library.namespace.from_dlpack, library.namespace.astype
        moved = not all(isinstance(value, np.ndarray) for value in arguments)
        stays = [on_host or not moved for on_host in self._on_host]
        results = self._checked(session.run_on_cuda, arrays, index, stays)
        for position, (on_host, element_type) in enumerate(zip(stays, session.output_types, strict=True)):
            if not on_host:
                array = from_dlpack(results[position])
                # Some versions pass bools on as bytes.
                results[position] = astype(array, library.namespace.bool) if element_type == "bool" else array
        return results

    def _checked(self, run: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
        """Run a session; raise its errors with the label of the node that they name."""
        try:
            return run(*arguments)
        except TypeError:
            raise
        except Exception as error:  # onnxruntime has a class of its own for each status, without a common base
            raise ValueError(self._explained(error)) from error

    def _explained(self, error: Exception) -> str:
        """Return the message of an error of onnxruntime with the label of the node that it names, if it names one."""
        named = [label for label in self._model.labels if label in str(error)]
        text = f"onnxruntime: {self._model.with_names(text_of(error))}"
        return f"{max(named, key=len)}: {text}" if named and len(self._model.labels) > 1 else text


def _element_types(arrays: Sequence[Any]) -> list[str]:
    """Return the element types of arrays; raise a TypeError for any other value."""
    for array in arrays:
        if array is None or type(array) is ArraySequence:
            raise TypeError(f"an input is {describe_value(array)}; expected a tensor")
    return [element_type_of(array.dtype) for array in arrays]


def _row_major(array: Any) -> Any:
    """Return an array whose items lie without gaps in row-major order."""
    library = library_of(array)
    if library.is_row_major(array):
        return array
    reshape = library.namespace.reshape
    return reshape(reshape(array, (-1,)), tuple(array.shape))


def _on_host(value: Any, execution: Execution) -> Any:
    """Return an array as a NumPy array: a view where NumPy can look at its memory, else a copy, which is counted."""
    if value is None or isinstance(value, (np.ndarray, ArraySequence)):
        return value
    library = library_of(value)
    if library.is_viewed_by_host(library.device_of(value)):
        (array,) = library.to_host([value], copy=None, operator="run")
        return array
    return execution.move_to_host(value)


def _like(array: np.ndarray[Any, Any], other: Any, execution: Execution) -> Any:
    """Return a result on the device of an array: a view where its library can look at NumPy's memory."""
    library = library_of(other)
    device = library.device_of(other)
    if not library.views_host(device):
        return execution.move_to_device(array)
    dtype = library.dtype_for(element_type_of(array.dtype), device, operator="run")
    (result,) = library.from_host([array], dtype, device, copy=None, operator="run")
    return result
