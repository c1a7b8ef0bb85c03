"""ONNX models written as text, values for them on a backend, and strict comparison of what they give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import seqarray as sa
import seqarray.onnx
from seqarray._dtypes import ELEMENT_TYPE_BY_CODE
from seqarray._libraries import same_device

#: The largest relative difference between neighbouring values of bfloat16, twice.
BFLOAT16_TOLERANCE = 2**-6


#: Marks a test that runs on every array library that reads values when asked.
on_all = pytest.mark.parametrize("backend", ["numpy", "array-api-strict", "torch", "cupy"], indirect=True)


def floats(*values: Any) -> np.ndarray:
    """A float32 array."""
    return np.asarray(values, dtype=np.float32)


def integer(value: Any) -> np.ndarray:
    """An int64 array, without axes for one value."""
    return np.asarray(value, dtype=np.int64)


def boolean(value: Any) -> np.ndarray:
    """A bool array, without axes for one value."""
    return np.asarray(value, dtype=np.bool_)


def refuses(error: type[Exception], action: Callable[[], Any], *mentions: str) -> None:
    """Assert that an action raises an error of exactly this class whose message contains these strings."""
    with pytest.raises(error) as caught:
        action()
    assert type(caught.value) is error, repr(caught.value)
    missing = [text for text in mentions if text not in str(caught.value)]
    assert not missing, f"{missing} not in {str(caught.value)!r}"


def fails(model: onnx.ModelProto, inputs: list[Any], backend: Any, error: type[Exception], *mentions: str) -> None:
    """Assert that a model is refused, when prepared or when run, by an error of exactly this class."""
    values = [placed(value, backend) for value in inputs]
    refuses(error, lambda: seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device).run(values), *mentions)


def text_model(text: str, *, opset: int = 18, imports: str = "", ir_version: int = 10) -> onnx.ModelProto:
    """A model of a graph, and maybe functions, in ONNX's text form; `imports` are further opset imports."""
    return onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}{imports}]> {text}')


def assert_gives(model: onnx.ModelProto, inputs: list[Any], expected: list[Any], backend: Any, **options: Any) -> None:
    """Assert what a model gives on a backend; values are NumPy arrays, lists of them, or None."""
    program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device, **options)
    actual = program.run([placed(value, backend) for value in inputs])
    assert len(actual) == len(expected)
    for output, wanted, declared in zip(actual, expected, model.graph.output, strict=True):
        assert_output(output, wanted, declared.type, backend)


def placed(value: Any, backend: Any) -> Any:
    """A NumPy array, a list of them or None, on a backend."""
    if isinstance(value, list):
        return [backend.array(element) for element in value]
    return None if value is None else backend.array(value)


def read_value(path: Path, declared: onnx.TypeProto) -> Any:
    """A stored value of a declared type: a NumPy array, a list of them, or None for an empty optional."""
    content = path.read_bytes()
    match declared.WhichOneof("value"):
        case "sequence_type":
            value = onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(content))
        case "optional_type":
            value = onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
        case _:
            value = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content))
    return writable(value)


def writable(value: Any) -> Any:
    """The same values in memory that torch takes without a warning: onnx gives read-only arrays."""
    if isinstance(value, list):
        return [element.copy() for element in value]
    return value if value is None else value.copy()


def assert_output(
    actual: Any, expected: Any, declared: onnx.TypeProto, backend: Any, *, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Assert that a graph output is what is expected: container, length, library, device, dtype, shape and values."""
    while declared.WhichOneof("value") == "optional_type":
        declared = declared.optional_type.elem_type
    if expected is None:
        assert actual is None
    elif declared.WhichOneof("value") == "sequence_type":
        assert isinstance(expected, list)
        assert isinstance(actual, sa.ArraySequence)
        element_type = ELEMENT_TYPE_BY_CODE[declared.sequence_type.elem_type.tensor_type.elem_type]
        assert (actual.element_type, len(actual)) == (element_type, len(expected))
        assert actual.namespace is backend.xp
        assert same_device(actual.device, backend.device)
        for element, wanted in zip(actual, expected, strict=True):
            assert_array(element, wanted, backend, rtol=rtol, atol=atol)
    else:
        assert_array(actual, expected, backend, rtol=rtol, atol=atol)


def assert_array(actual: Any, expected: np.ndarray, backend: Any, *, rtol: float, atol: float) -> None:
    """Assert that an array lies on the backend, has the dtype and shape of another, and values near its values."""
    wanted = backend.array(expected)
    # With the values replaced by those expected, everything else has to be equal.
    sa.testing.assert_arrays_equal(backend.xp.zeros_like(actual), backend.xp.zeros_like(wanted))
    if (rtol, atol) == (0.0, 0.0) or expected.dtype.kind in "OUTbiu":
        sa.testing.assert_arrays_equal(actual, wanted)
        return
    values = sa.testing.to_numpy(actual)
    if expected.dtype.name == "bfloat16":
        values, expected, rtol = values.astype(np.float32), expected.astype(np.float32), max(rtol, BFLOAT16_TOLERANCE)
    np.testing.assert_allclose(values, expected, rtol=rtol, atol=atol)
