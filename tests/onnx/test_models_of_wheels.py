"""Models that others have published in packages: outputs are what onnxruntime gives.

The packages are not imported, and need nothing that they ask for.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import seqarray.onnx
from tests.onnx.operator_cases import difference

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

CHANCE = np.random.default_rng(0)

#: The sampling rate is read by an If around the two halves of the model, in which there are further ones.
SPEECH = {"input": (1, 576), "state": (2, 1, 128), "sr": 16_000}

#: Package, model, and the shapes of its inputs, or values.
MODELS = [
    ("silero_vad", "data/silero_vad.onnx", SPEECH),
    ("silero_vad", "data/silero_vad.onnx", SPEECH | {"input": (3, 288), "state": (2, 3, 128), "sr": 8_000}),
    ("silero_vad", "data/silero_vad_op18_ifless.onnx", SPEECH),
    ("silero_vad", "data/silero_vad_16k_op15.onnx", SPEECH),
    ("magika", "models/standard_v3_3/model.onnx", {"bytes": (4, 2048)}),
    ("rapidocr", "models/PP-OCRv6_det_small.onnx", {"x": (1, 3, 160, 160)}),
    ("rapidocr", "models/PP-OCRv6_rec_small.onnx", {"x": (2, 3, 48, 160)}),
    ("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": (2, 3, 48, 192)}),
]


def value(given, element_type):
    if isinstance(given, int):
        return np.asarray(given)
    if element_type == "tensor(float)":
        return CHANCE.standard_normal(given).astype(np.float32)
    return CHANCE.integers(0, 257, given).astype(np.int32)


@pytest.mark.parametrize(("package", "name", "shapes"), MODELS)
def test_a_published_model_gives_what_onnxruntime_gives(package, name, shapes):
    found = find_spec(package)
    if found is None:
        pytest.skip(f"{package} is not installed")
    path = Path(found.submodule_search_locations[0]) / name
    session = onnxruntime.InferenceSession(path)
    inputs = {given.name: value(shapes[given.name], given.type) for given in session.get_inputs()}
    expected = session.run(None, inputs)
    program = seqarray.onnx.prepare(path)
    for _ in range(2):
        assert difference(program.run(inputs), expected) == ""
