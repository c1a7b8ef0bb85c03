"""Programs that are pickled or copied: the model travels, and is prepared again."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import seqarray as sa
import seqarray.onnx
from tests.onnx.helpers import floats, integer, on_all, placed, refuses, text_model

LOOP = """agraph (int64 n, float[N] x) => (seq(float[]) s, float[K] y) <float[1] w = {1}> {
    empty = SequenceEmpty()
    s = Loop(n, "", empty)<body = body (int64 i, bool c, seq(float[]) a) => (bool c2, seq(float[]) b) {
        c2 = Identity(c) v = Add(x, w) b = SequenceInsert(a, v) }>
    y = ConcatFromSequence<axis = 0>(s) }"""


@on_all
@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda program: pickle.loads(pickle.dumps(program))])
def test_a_copy_gives_the_same(copied, backend):
    program = seqarray.onnx.prepare(text_model(LOOP), xp=backend.xp, device=backend.device, max_trip_count=2)
    inputs = [integer(2), placed(floats(1, 2), backend)]
    again = copied(program)
    for output, expected in zip(again.run(inputs)[0], program.run(inputs)[0], strict=True):
        sa.testing.assert_arrays_equal(output, expected)
    sa.testing.assert_arrays_equal(again.run(inputs)[1], program.run(inputs)[1])
    refuses(ValueError, lambda: again.run([integer(3), inputs[1]]), "max_trip_count")


def test_options_travel():
    model = text_model("agraph (float[N] x, int64 n) => (seq(float[]) y) { y = SplitToSequence<keepdims = 0>(x, n) }")
    program = seqarray.onnx.prepare(model, keepdims_with_split="apply", fallback="error")
    (output,) = pickle.loads(pickle.dumps(program)).run([floats(1, 2), integer(1)])
    assert output.shapes == ((), ())


def test_session_options_do_not_travel():
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    program = seqarray.onnx.prepare(text_model(LOOP), session_options=onnxruntime.SessionOptions())
    refuses(TypeError, lambda: pickle.dumps(program), "session_options")
    providers = seqarray.onnx.prepare(text_model(LOOP), providers=["CPUExecutionProvider"])
    assert pickle.loads(pickle.dumps(providers)).run([integer(1), floats(1)])[1].tolist() == [2]


def test_a_program_travels_to_another_process(tmp_path):
    (tmp_path / "program").write_bytes(pickle.dumps(seqarray.onnx.prepare(text_model(LOOP))))
    code = (
        "import pickle, sys, numpy as np\n"
        "program = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(program.run([np.asarray(2), np.ones(1, dtype=np.float32)])[1].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "program")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[2.0, 2.0]"


def test_data_in_other_files_travels(tmp_path):
    model = text_model("agraph (float[N] x) => (float[N] y) { y = Add(x, w) }")
    tensor = model.graph.initializer.add(name="w", dims=[500], data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    (tmp_path / "weights.bin").write_bytes(np.arange(500, dtype=np.float32).tobytes())
    onnx.save(model, tmp_path / "model.onnx")
    content = pickle.dumps(seqarray.onnx.prepare(tmp_path / "model.onnx"))
    (tmp_path / "weights.bin").unlink()
    (tmp_path / "model.onnx").unlink()
    (output,) = pickle.loads(content).run([floats(1)])
    sa.testing.assert_arrays_equal(output, np.arange(1, 501, dtype=np.float32))


def test_a_model_that_has_changed_is_not_pickled():
    model = text_model(LOOP)
    program = seqarray.onnx.prepare(model)
    pickle.dumps(program)
    model.graph.node[-1].attribute[0].i = 1
    refuses(ValueError, lambda: pickle.dumps(program), "changed")
