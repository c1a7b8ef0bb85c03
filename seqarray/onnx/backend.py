"""seqarray as an `onnx.backend.base.Backend`, the interface that ``onnx.backend.test.BackendTest`` and others use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from seqarray._dtypes import ONNX_TYPES
from seqarray._libraries import resolve_library
from seqarray._sequence import ArraySequence, as_sequence
from seqarray.onnx._load.model import Model
from seqarray.onnx._program import Program
from seqarray.onnx._program import prepare as _prepare
from seqarray.onnx._run.placement import download_value

#: Kind of device to array library.
_LIBRARIES = {"CPU": "numpy", "CUDA": "cupy"}


class SeqarrayRep(BackendRep):
    """A program whose inputs and outputs are NumPy arrays, lists of them, and None."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the program on inputs in order and return its outputs; further arguments are ignored."""
        del kwargs
        outputs = self.program.run(list(inputs) if isinstance(inputs, (list, tuple)) else inputs)
        names = [output.name for output in self.program.outputs]
        values: tuple[Any, ...] = namedtupledict("Outputs", names)(*map(download_value, outputs))
        return values


class SeqarrayBackend(Backend):
    """seqarray on NumPy ("CPU") or CuPy ("CUDA")."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether a model can be prepared."""
        try:
            cls.prepare(model, device, **kwargs)
        except (TypeError, ValueError):
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> SeqarrayRep:
        """Prepare a model; further arguments are those of `seqarray.onnx.prepare`."""
        library, number = _parse_device(device)
        return SeqarrayRep(_prepare(model, xp=library, device=number, **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepare a model, run it and return its outputs."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run a single node of the newest opset, or of ``opset_version``, and return its outputs."""
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        try:
            super().run_node(node, inputs, device, outputs_info, opset_version=version)
        except onnx.checker.ValidationError as error:
            raise ValueError(f"run_node: the node is not valid: {error}") from error
        given = list(inputs)
        if len(given) == len(node.input):
            given = [value for value, name in zip(given, node.input, strict=True) if name]
        names = list(dict.fromkeys(filter(None, node.input)))
        if len(given) != len(names):
            raise ValueError(f"run_node: got {len(given)} inputs; {node.op_type} is given {len(names)}")
        graph = helper.make_graph(
            [node],
            "one node",
            [helper.make_value_info(name, _type_of(value)) for name, value in zip(names, given, strict=True)],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        imports = [helper.make_opsetid(node.domain, version)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=onnx.IR_VERSION)
        library, number = _parse_device(device)
        program = Program(Model(model, None), resolve_library(library, operator="run_node"), number, **kwargs)
        return SeqarrayRep(program).run(given)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether models run on a device: "CPU", or "CUDA" if there is CuPy and a GPU."""
        if device.partition(":")[0] == "CPU":
            return True
        if device.partition(":")[0] != "CUDA":
            return False
        try:
            library = resolve_library(_LIBRARIES["CUDA"], operator="supports_device")
        except ImportError:
            return False
        return library is not None and not library.why_unusable()


def _parse_device(device: str) -> tuple[str, int | None]:
    """Return the library and the number of the device for "CPU", "CUDA" or "CUDA:1"."""
    kind, _, number = device.partition(":")
    if kind not in _LIBRARIES or not (number or "0").isdigit():
        raise ValueError(f"prepare: device is {device!r}; expected 'CPU', 'CUDA' or 'CUDA:N'")
    return _LIBRARIES[kind], int(number or 0) if kind == "CUDA" else None


def _type_of(value: Any) -> onnx.TypeProto:
    """Return the type to declare for an input."""
    if value is None:
        return helper.make_optional_type_proto(helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
    sequence = isinstance(value, (ArraySequence, list, tuple))
    element_type = as_sequence(value if sequence else [value], operator="run_node").element_type
    tensor = helper.make_tensor_type_proto(ONNX_TYPES[element_type].code, None)
    return helper.make_sequence_type_proto(tensor) if sequence else tensor


is_compatible = SeqarrayBackend.is_compatible
prepare = SeqarrayBackend.prepare
run_model = SeqarrayBackend.run_model
run_node = SeqarrayBackend.run_node
supports_device = SeqarrayBackend.supports_device
