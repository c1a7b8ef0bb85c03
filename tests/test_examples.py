"""The worked examples: they run on every backend, and notice a wrong result."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import seqarray as sa
from tests.helpers import library_of

SCRIPT = Path(__file__).parents[1] / "docs" / "examples" / "onnx_sequence_models.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("docs.examples.onnx_sequence_models", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model_folder(example, tmp_path):
    """A copy of one of onnx's models, to be changed by a test."""
    return Path(shutil.copytree(example.ONNX_MODELS / "test_sequence_model1", tmp_path / "changed"))


def replace_output(folder, change):
    path = folder / "test_data_set_0" / "output_0.pb"
    stored = onnx.numpy_helper.to_array(onnx.load_tensor(path))
    path.write_bytes(onnx.numpy_helper.from_array(change(stored)).SerializeToString())


def test_every_model_gives_its_stored_outputs(example, backend, capsys):
    library = library_of(backend.xp)
    assert example.main(["--backend", library]) == 0
    *lines, summary = capsys.readouterr().out.splitlines()
    assert summary == f"{library}: 8 of 8 equal"
    assert [line.partition(":")[0] for line in lines] == [f"test_sequence_model{n}" for n in range(1, 9)]
    assert all(line.endswith(", equal") for line in lines)


def test_outputs_are_arrays_of_the_backend(example, backend):
    model = onnx.load(example.ONNX_MODELS / "test_sequence_model4" / "model.onnx")
    x = np.ones((2, 3, 4), dtype=np.float32)
    outputs = example.run_model(model, [x, x, x], backend.xp)
    assert sa.ArraySequence([outputs["out"]]).namespace is backend.xp


def test_the_command_runs_every_model_on_numpy_by_default():
    run = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.count(", equal\n") == 8
    assert run.stdout.endswith("numpy: 8 of 8 equal\n")


def one_value_more(array):
    array = array.copy()
    array.flat[-1] += 1
    return array


@pytest.mark.parametrize(
    "change",
    [one_value_more, lambda array: array.astype(np.float64), lambda array: array[0], lambda array: array[:0]],
    ids=["value", "dtype", "rank", "length"],
)
def test_a_stored_output_that_differs_makes_it_exit_with_1(example, model_folder, change, capsys):
    assert example.main([str(model_folder)]) == 0
    replace_output(model_folder, change)
    assert example.main(["test_sequence_model2", str(model_folder)]) == 1
    output = capsys.readouterr().out
    assert "DIFFERENT" in output
    assert output.endswith("numpy: 1 of 2 equal\n")


def test_the_command_exits_with_1_where_an_output_differs(model_folder):
    replace_output(model_folder, one_value_more)
    run = subprocess.run([sys.executable, SCRIPT, model_folder], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (1, "")
    assert "numpy: 0 of 1 equal" in run.stdout


def test_a_model_without_stored_outputs_is_not_reported_as_equal(example, model_folder, capsys):
    shutil.rmtree(model_folder / "test_data_set_0")
    assert example.main([str(model_folder)]) == 1
    assert capsys.readouterr().out == "numpy: 0 of 0 equal\n"
