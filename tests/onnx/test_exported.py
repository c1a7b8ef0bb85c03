"""Models exported from torch functions that work on lists: outputs equal torch's, and onnxruntime's."""

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import seqarray.onnx
from tests.onnx.helpers import assert_output, on_all, placed

FOLDER = Path(__file__).parent / "models"
NAMES = sorted(path.stem for path in FOLDER.glob("*.onnx"))

#: How far sums and functions of float32 may differ between libraries.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@cache
def data_sets(name):
    """What is stored of a model: for every data set its inputs by name and its outputs in order."""
    sets = {}
    with np.load(FOLDER / f"{name}.npz") as stored:
        for key, array in stored.items():
            number, kind, value, *index = key.split(".")
            values = sets.setdefault(number, {"input": {}, "output": {}})[kind]
            if not index:
                values[value] = array
            else:
                values.setdefault(value, []).append(array)
    return [(values["input"], list(values["output"].values())) for values in sets.values()]


CASES = [(name, number) for name in NAMES for number in range(len(data_sets(name)))]


def test_models_and_data_are_all_here():
    assert len(NAMES) == 11
    assert sorted(path.stem for path in FOLDER.glob("*.npz")) == NAMES
    assert len(CASES) >= 2 * len(NAMES)


@on_all
@pytest.mark.parametrize(("name", "number"), CASES)
def test_outputs_equal_those_of_torch(name, number, backend):
    path = FOLDER / f"{name}.onnx"
    inputs, expected = data_sets(name)[number]
    program = seqarray.onnx.prepare(path, xp=backend.xp, device=backend.device, fallback="error")
    actual = program.run({name: placed(value, backend) for name, value in inputs.items()})
    for output, wanted, declared in zip(actual, expected, onnx.load(path).graph.output, strict=True):
        assert_output(output, wanted, declared.type, backend, **CLOSE)


@pytest.mark.parametrize("backend", ["numpy"], indirect=True)
@pytest.mark.parametrize(("name", "number"), CASES)
def test_outputs_equal_those_of_onnxruntime(name, number, backend):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = FOLDER / f"{name}.onnx"
    inputs, _ = data_sets(name)[number]
    expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)
    actual = seqarray.onnx.prepare(path).run(inputs)
    for output, wanted, declared in zip(actual, expected, onnx.load(path).graph.output, strict=True):
        assert_output(output, wanted, declared.type, backend, **CLOSE)
