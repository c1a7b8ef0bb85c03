"""Models of scikit-learn and of onnxscript, whose outputs have no types: outputs equal onnxruntime's."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import seqarray as sa
import seqarray.onnx
from seqarray.testing import assert_arrays_equal
from tests.onnx.helpers import assert_array, on_all, placed, refuses

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

FOLDER = Path(__file__).parent / "models" / "others"
SCRIPTS = ["first_rows", "halves_until", "parts_side_by_side", "sums_of_parts", "two_or_none"]
ESTIMATORS = ["names_of_flowers", "nearest_flowers"]


def inputs_of(name):
    with np.load(FOLDER / f"{name}.npz") as stored:
        return dict(stored)


def expected_of(name, inputs, outputs=None):
    path = FOLDER / f"{name}.onnx"
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(outputs, inputs)


def test_the_models_are_all_here():
    assert sorted(path.stem for path in FOLDER.glob("*.onnx")) == sorted(SCRIPTS + ESTIMATORS)


@on_all
@pytest.mark.filterwarnings("ignore:some steps fall back")
@pytest.mark.parametrize("name", SCRIPTS)
def test_functions_of_onnxscript(name, backend):
    inputs = inputs_of(name)
    program = sa.onnx.prepare(FOLDER / f"{name}.onnx", xp=backend.xp, device=backend.device)
    results = program.run({key: placed(value, backend) for key, value in inputs.items()})
    for result, expected in zip(results, expected_of(name, inputs), strict=True):
        if isinstance(expected, list):
            assert isinstance(result, sa.ArraySequence)
        pairs = zip(result, expected, strict=True) if isinstance(expected, list) else [(result, expected)]
        for one, other in pairs:
            assert_array(one, other, backend, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_labels_of_classifiers(name):
    inputs = inputs_of(name)
    program = sa.onnx.prepare(FOLDER / f"{name}.onnx")
    label, probabilities = (output.name for output in program.outputs)
    (found,), (expected,) = program.run(inputs, outputs=[label]), expected_of(name, inputs, [label])
    assert_arrays_equal(found, np.asarray(expected, found.dtype))
    assert len(set(found.tolist())) == 3
    refuses(ValueError, lambda: program.run(inputs), repr(probabilities), "map", "outputs=")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_probabilities_of_classifiers_before_they_become_maps(name):
    inputs = inputs_of(name)
    model = onnx.load(FOLDER / f"{name}.onnx")
    (maps,) = (node for node in model.graph.node if node.op_type == "ZipMap")
    (found,) = sa.onnx.prepare(model).run(inputs, outputs=[maps.input[0]])
    (expected,) = expected_of(name, inputs, [maps.output[0]])
    assert found.shape == (len(expected), 3)
    np.testing.assert_allclose(found, [[*row.values()] for row in expected], rtol=1e-6)
