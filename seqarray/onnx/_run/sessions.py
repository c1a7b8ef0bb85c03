"""Sessions of onnxruntime: how they are made, and how arrays go in and out of them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from seqarray._dtypes import ELEMENT_TYPE_BY_CODE, ONNX_TYPES, element_type_of, native
from seqarray._libraries import NUMPY
from seqarray.onnx._load.tensor_protos import tensor_of
from seqarray.onnx._run.placement import Target
from seqarray.onnx._run.values import describe_value

HostArray = np.ndarray[Any, Any]
_ndarray = np.ndarray

#: Initializers of at least so many bytes are handed over as they lie in memory, smaller ones within the model: what is
#: computed of shapes when a session is made is read there.
_LARGE_NBYTES = 4096

#: Element types of which onnxruntime keeps several values in a byte, and NumPy one.
_PACKED = frozenset({"int2", "uint2", "int4", "uint4", "float4_e2m1fn"})

#: So many sessions of a program have threads; further ones run on that of the caller.
_MANY_SESSIONS = 16

_CUDA = "CUDAExecutionProvider"

#: Element types that onnxruntime takes as NumPy arrays.
_PLAIN_TYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 string".split()
)

_TYPE_BY_NAME = {f"tensor({onnx_type.onnx_name})": name for name, onnx_type in ONNX_TYPES.items()}


class RefusedError(ValueError):
    """onnxruntime does not make a session of a model, or its values cannot cross."""


class SessionMaker:
    """Makes the sessions of one program.

    Parameters
    ----------
    providers : sequence, optional
        The execution providers, as `onnxruntime.InferenceSession` takes them.  Default: the CPU's.
    session_options : onnxruntime.SessionOptions, optional
        The options of all sessions.  Default: those of onnxruntime, without its log.

    Attributes
    ----------
    has_several : bool
        Whether a program may have several sessions, whose threads must not wait actively for the next run.
    is_bounded : bool
        Whether the program has limits: sessions then compute nothing while they are made.
    """

    def __init__(self, providers: Any, session_options: Any) -> None:
        self._onnxruntime = importlib.import_module("onnxruntime")
        self._providers = providers
        self._options = session_options
        self.has_several = True
        self.is_bounded = False
        self._n_made = 0

    @staticmethod
    def is_installed() -> bool:
        """Return whether onnxruntime is installed."""
        return importlib.util.find_spec("onnxruntime") is not None

    def is_direct(self, target: Target) -> bool:
        """Return whether sessions read and write the arrays of a target where they are."""
        return target.shares_host_memory or (
            target.cuda_index is not None
            and _CUDA in self._onnxruntime.get_available_providers()
            and (self._providers is None or any(_CUDA in (name, name[0]) for name in self._providers))
        )

    def make(self, model: onnx.ModelProto, weights: Mapping[str, HostArray], cuda_index: int | None = None) -> Session:
        """Make a session of a model and further initializers, which reads and writes arrays on a CUDA device if given.

        Raises
        ------
        RefusedError
            If onnxruntime does not run the model.
        """
        large = {}
        for name, array in weights.items():
            element_type = element_type_of(array.dtype)
            is_large = array.nbytes >= _LARGE_NBYTES and element_type not in {*_PACKED, "string"}
            if is_large and self._options is None:
                large[name] = _value_of(self._onnxruntime, np.asarray(array, order="C"), element_type)
                model.graph.initializer.append(_placeholder(name, array, element_type))
            else:
                model.graph.initializer.append(tensor_of(array, name))
        options = self._own_options() if self._options is None else self._options
        self._n_made += 1
        if large:
            options.add_external_initializers(list(large), list(large.values()))
        try:
            content = model.SerializeToString()
            session = self._onnxruntime.InferenceSession(content, options, providers=self._providers_for(cuda_index))
        except Exception as error:  # onnxruntime has a class of its own for each status, without a common base
            raise RefusedError(text_of(error)) from error
        return Session(self._onnxruntime, session, model, large)

    def _providers_for(self, cuda_index: int | None) -> list[Any]:
        """Return the execution providers of a session."""
        if self._providers is not None:
            return list(self._providers)
        cuda = [] if cuda_index is None else [(_CUDA, {"device_id": cuda_index})]
        return [*cuda, "CPUExecutionProvider"]

    def _own_options(self) -> Any:
        """Return new options for a session."""
        options = self._onnxruntime.SessionOptions()
        options.log_severity_level = 4
        if self.is_bounded:
            # Constants are not folded, and no memory is kept for the next run.
            options.graph_optimization_level = self._onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.enable_cpu_mem_arena = False
        if self.is_bounded or self._n_made >= _MANY_SESSIONS:
            # Each session has threads of its own, whose number would have no bound.
            options.intra_op_num_threads = 1
        if self.has_several:
            options.add_session_config_entry("session.force_spinning_stop", "1")
        return options


class Session:
    """A session of onnxruntime between NumPy arrays.

    Attributes
    ----------
    output_types : list of str
        The element types of the outputs.
    """

    def __init__(self, onnxruntime: Any, session: Any, model: onnx.ModelProto, weights: Any) -> None:
        self._onnxruntime = onnxruntime
        # The session looks at their memory.
        self._weights = weights
        self._session = session
        self._inputs = [value.name for value in model.graph.input]
        self._outputs = [value.name for value in model.graph.output]
        input_types = [ELEMENT_TYPE_BY_CODE[value.type.tensor_type.elem_type] for value in model.graph.input]
        declared = {value.name: value.type for value in session.get_outputs()}
        for name in self._outputs:
            if declared[name] not in _TYPE_BY_NAME:
                raise RefusedError(f"it gives {name!r} the type {declared[name]}; expected a tensor")
        self.output_types = [_TYPE_BY_NAME[declared[name]] for name in self._outputs]
        self._dtypes = [NUMPY.dtype_for(element_type, operator="onnxruntime") for element_type in input_types]
        crossing = {*input_types, *self.output_types}
        if crossing & _PACKED:
            raise RefusedError(f"values of {', '.join(crossing & _PACKED)} do not cross between it and NumPy")
        self._is_plain = crossing <= _PLAIN_TYPES
        self._gives_integers = bool({"int64", "uint64"} & {*self.output_types})
        self._output_dtypes = [NUMPY.dtype_for(name, operator="onnxruntime") for name in self.output_types]

    def run(self, arrays: Sequence[HostArray]) -> list[HostArray]:
        """Run the session on arrays in order; neither they nor its outputs are copied, if their layout allows it."""
        feeds = {
            name: array if type(array) is _ndarray and array.dtype is dtype else self._converted(array, dtype)
            for name, array, dtype in zip(self._inputs, arrays, self._dtypes, strict=True)
        }
        if self._is_plain:
            outputs: list[HostArray] = self._session.run(self._outputs, feeds)
        else:
            values = {
                name: _value_of(self._onnxruntime, np.asarray(array, order="C"), element_type_of(array.dtype))
                for name, array in feeds.items()
            }
            results = self._session.run_with_ort_values(self._outputs, values)
            outputs = [
                value.numpy() if element_type in _PLAIN_TYPES else _array_of(value, element_type)
                for value, element_type in zip(results, self.output_types, strict=True)
            ]
        if not self._gives_integers:
            return outputs
        # Some operators give another one of NumPy's types of 64 bits than that with the name int64.
        return [
            output if output.dtype is dtype else output.view(dtype)
            for output, dtype in zip(outputs, self._output_dtypes, strict=True)
        ]

    def run_on_cuda(self, arrays: Sequence[Any], index: int, stays: Sequence[bool]) -> list[Any]:
        """Run the session on NumPy arrays, and arrays on a CUDA device that are row-major and ready.

        Parameters
        ----------
        arrays : sequence of array
            The inputs in order.
        index : int
            The number of the device.
        stays : sequence of bool
            Which outputs are wanted on the host.

        Returns
        -------
        list
            NumPy arrays, and for outputs on the device values that have `__dlpack__`.
        """
        binding = self._session.io_binding()
        for name, array, dtype in zip(self._inputs, arrays, self._dtypes, strict=True):
            if isinstance(array, _ndarray):
                binding.bind_cpu_input(name, np.asarray(self._converted(array, dtype), order="C"))
            else:
                binding.bind_ortvalue_input(name, self._onnxruntime.OrtValue.from_dlpack(array))
        for name, on_host in zip(self._outputs, stays, strict=True):
            binding.bind_output(name, *(("cpu",) if on_host else ("cuda", index)))
        self._session.run_with_iobinding(binding)
        values = binding.get_outputs()
        return [value.numpy() if on_host else value for value, on_host in zip(values, stays, strict=True)]

    @staticmethod
    def _converted(value: Any, dtype: Any) -> HostArray:
        """Return a value with the dtype of an input, if it is an array of that element type."""
        if not isinstance(value, _ndarray) or element_type_of(value.dtype) != element_type_of(dtype):
            raise TypeError(f"an input is {describe_value(value)}; expected a tensor of {element_type_of(dtype)}")
        return value if value.dtype.kind == "U" else value.astype(dtype, copy=False)


class _Memory:
    """The memory of a value of onnxruntime, as NumPy looks at it; it lives as long as the array does."""

    def __init__(self, value: Any, itemsize: int) -> None:
        self._value = value
        self.__array_interface__ = {
            "data": (value.data_ptr(), False),
            "shape": tuple(value.shape()),
            "typestr": f"<u{itemsize}",
            "version": 3,
        }


def _array_of(value: Any, element_type: str) -> HostArray:
    """Return a value of a type that NumPy itself does not have as an array over the same memory."""
    dtype = NUMPY.dtype_for(element_type, operator="onnxruntime")
    if not all(value.shape()):
        return np.empty(tuple(value.shape()), dtype)
    array: HostArray = np.asarray(_Memory(value, dtype.itemsize)).view(dtype)
    return array


def _value_of(onnxruntime: Any, array: HostArray, element_type: str) -> Any:
    """Return a contiguous array as a value of onnxruntime over the same memory."""
    if element_type in _PLAIN_TYPES:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array.astype(native(array.dtype), copy=False))
    bits = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, ONNX_TYPES[element_type].code)


def _placeholder(name: str, array: HostArray, element_type: str) -> onnx.TensorProto:
    """Return an initializer whose values are handed over separately."""
    tensor = onnx.TensorProto(name=name, data_type=ONNX_TYPES[element_type].code, dims=array.shape)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", "in memory"), ("offset", "0"), ("length", str(array.nbytes))):
        tensor.external_data.add(key=key, value=text)
    return tensor


def text_of(error: Exception) -> str:
    """Return the message of an error of onnxruntime without the status in front."""
    text = str(error)
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    return text.rpartition("Status Message: ")[2].strip() or type(error).__name__
