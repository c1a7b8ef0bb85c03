"""``python -m seqarray``: the table of what is usable here, and running a model from a file."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import seqarray as sa
from seqarray.__main__ import main

#: A program that runs the module in a process where some modules cannot be imported.
ALONE = """
import runpy, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
sys.argv = ["seqarray"]
runpy.run_module("seqarray", run_name="__main__", alter_sys=True)
"""

LIBRARIES = ["numpy", "cupy", "torch", "jax", "dask", "array_api_strict"]


def table_of(done: Any) -> dict[str, list[list[str]]]:
    """The rows of the printed table, by library."""
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    rows: dict[str, list[list[str]]] = {}
    for line in done.stdout.splitlines()[2:]:
        library, *cells = line.split()
        rows.setdefault(library, []).append(cells)
    return rows


def run(*arguments: str) -> Any:
    return subprocess.run([sys.executable, "-W", "error", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def everything() -> Any:
    return run("-m", "seqarray")


def test_the_first_lines_tell_versions_and_headings(everything):
    first, headings, *_ = everything.stdout.splitlines()
    assert sa.__version__ in first
    assert sys.version.split()[0] in first
    for heading in ("library", "version", "device", "string", "bfloat16", "float8", "int64"):
        assert heading in headings.split()


def test_every_library_has_a_row(everything):
    assert list(table_of(everything)) == LIBRARIES


def test_numpy_has_a_row_with_what_it_can_hold(everything):
    (cells,) = table_of(everything)["numpy"]
    assert cells[:2] == [np.__version__, "cpu"]
    assert (cells[2], cells[-1]) == ("yes", "yes")
    assert len(cells) == 6


def test_cells_say_what_each_library_can_hold(everything):
    table = table_of(everything)
    expected = {"torch": "no yes yes yes", "dask": "yes yes yes yes", "jax": "no yes yes no"}
    for library, cells in expected.items():
        pytest.importorskip(library, reason=f"{library} is not installed")
        for row in table[library]:
            assert row[-4:] == cells.split()


def test_every_device_of_array_api_strict_has_a_row(everything):
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    rows = table_of(everything)["array_api_strict"]
    devices = strict.__array_namespace_info__().devices()
    assert len(rows) == len(devices)
    for device, row in zip(devices, rows, strict=True):
        assert " ".join(row[1:-4]) == str(device)
        holds_int64 = "int64" in strict.__array_namespace_info__().dtypes(device=device)
        assert row[-4:] == ["no", "no", "no", "yes" if holds_int64 else "no"]


def test_cupy_without_a_gpu_is_reported_not_raised(everything):
    cupy = pytest.importorskip("cupy", reason="cupy is not installed")
    rows = table_of(everything)["cupy"]
    assert rows[0][0] == cupy.__version__
    if cupy.cuda.is_available():
        assert len(rows) == cupy.cuda.runtime.getDeviceCount()
    else:
        assert "no usable GPU" in " ".join(rows[0])


def test_with_numpy_alone():
    blocked = {*LIBRARIES[1:], "ml_dtypes", "onnx", "onnxruntime"}
    done = run("-c", ALONE.format(blocked=blocked))
    table = table_of(done)
    assert list(table) == LIBRARIES
    for library in LIBRARIES[1:]:
        assert " ".join(table[library][0]) == "- not installed"
    assert table["numpy"][0][2:] == ["yes", "no", "no", "yes"]


def test_a_library_that_is_broken_does_not_hide_the_others(tmp_path):
    for name in ("torch", "cupy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the driver is too old')")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + ALONE.format(blocked={"jax", "dask"})
    table = table_of(run("-c", program))
    for name in ("torch", "cupy"):
        assert "the driver is too old" in " ".join(table[name][0])
    assert table["numpy"][0][1] == "cpu"


@pytest.mark.parametrize("told", [None, importlib.metadata.PackageNotFoundError()])
def test_a_library_that_does_not_tell_its_version_has_a_row(told, capsys, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", Mock(side_effect=[told]))
    monkeypatch.delattr(np, "__version__")
    monkeypatch.setattr("seqarray.__main__.LIBRARIES", {"numpy": None})
    assert main() == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["numpy", "-", "cpu", "yes", "yes", "yes", "yes"]


def test_a_library_whose_own_imports_fail_is_not_called_missing(tmp_path):
    (tmp_path / "jax.py").write_text("import nothing_of_that_name")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    row = table_of(run("-c", program + ALONE.format(blocked={"torch", "cupy", "dask"})))["jax"][0]
    assert "nothing_of_that_name" in " ".join(row)
    assert "not installed" not in " ".join(row)


@pytest.mark.skipif(os.name != "posix", reason="a closed pipe is told in another way")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [([], ""), ([], "1"), (["run", "MODEL"], ""), (["run", "MODEL"], "1"), (["--help"], "")],
)
def test_a_reader_that_has_gone_ends_it_quietly(arguments, unbuffered):
    model = str(SIMPLE / "test_sequence_model1" / "model.onnx")
    words = ["seqarray", *(model if word == "MODEL" else word for word in arguments)]
    program = ALONE.format(blocked=set(LIBRARIES[1:])).replace('["seqarray"]', repr(words))
    command, environment = [sys.executable, "-c", program], {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        process.stdout.close()
        error = process.stderr.read()
    assert (process.returncode, error) == (141, b"")


def test_main_returns_the_exit_status(capsys):
    assert main() == 0
    assert "numpy" in capsys.readouterr().out


# Running a model

SIMPLE = Path(onnx.__file__).parent / "backend" / "test" / "data" / "simple"

TEXT = """<ir_version: 10, opset_import: ["": 18]>
agraph (float[N] x, seq(int64[]) s, optional(float[M]) o) => (float[N] y, seq(int64[]) t, optional(float[M]) p) {
    y = Neg(x)
    t = SequenceErase(s)
    p = Identity(o)
}"""

VALUES = {"x": np.asarray([1, -2], dtype=np.float32), "s": [np.asarray([1, 2]), np.asarray(3)], "o": None}
RESULTS = [np.asarray([-1, 2], dtype=np.float32), [np.asarray([1, 2])], None]


def stored(folder, kind, values):
    """Write values as kind_0.pb, kind_1.pb, ...; the last one is an optional."""
    folder.mkdir(exist_ok=True)
    for index, value in enumerate(values):
        proto = numpy_helper.from_list(value) if isinstance(value, list) else None
        if index == len(values) - 1:
            proto = numpy_helper.from_optional(value)
        elif proto is None:
            proto = numpy_helper.from_array(value)
        (folder / f"{kind}_{index}.pb").write_bytes(proto.SerializeToString())


@pytest.fixture
def model(tmp_path):
    """A model with a data set beside it."""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    stored(tmp_path / "test_data_set_0", "input", VALUES.values())
    stored(tmp_path / "test_data_set_0", "output", RESULTS)
    return path


def ran(capsys, *arguments):
    """The exit status, the lines on the standard output, and the standard error."""
    status = main(["run", *map(str, arguments)])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out.splitlines(), captured.err


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_models_of_the_onnx_package_give_their_stored_outputs(number, library, capsys):
    pytest.importorskip(library, reason=f"{library} is not installed")
    model = SIMPLE / f"test_sequence_model{number}" / "model.onnx"
    status, lines, error = ran(capsys, model, "--backend", library)
    assert (status, error) == (0, "")
    assert len(lines) == len(onnx.load(model).graph.output)
    assert all(line.endswith("equal to the stored output") for line in lines)


def test_each_output_is_printed_with_its_type_and_shape(model, capsys):
    status, lines, _ = ran(capsys, model)
    assert status == 0
    assert [line.partition(": equal")[0] for line in lines] == [
        "y: tensor(float) (2,)",
        "t: sequence of 1 tensor(int64): (2,)",
        "p: absent",
    ]


def test_every_data_set_is_run(model, capsys):
    shutil.copytree(model.parent / "test_data_set_0", model.parent / "test_data_set_1")
    stored(model.parent / "test_data_set_1", "output", [RESULTS[0] + 1, *RESULTS[1:]])
    status, lines, _ = ran(capsys, model)
    assert status == 1
    assert [line for line in lines if line.startswith("test_data_set")] == ["test_data_set_0:", "test_data_set_1:"]
    assert sum("DIFFERENT" in line for line in lines) == 1


DIFFERENT = {
    "value": ([np.asarray([-1, 3], dtype=np.float32), *RESULTS[1:]], "y", "(1,)"),
    "shape": ([RESULTS[0][:1], *RESULTS[1:]], "y", "(1,)"),
    "type": ([RESULTS[0].astype(np.float64), *RESULTS[1:]], "y", "double"),
    "length": ([RESULTS[0], RESULTS[1] * 2, None], "t", "2"),
    "element": ([RESULTS[0], [np.asarray([1, 5])], None], "t", "element 0"),
    "presence": ([*RESULTS[:2], RESULTS[0]], "p", "absent"),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_outputs_that_differ_are_reported(case, model, capsys):
    outputs, name, mention = DIFFERENT[case]
    stored(model.parent / "test_data_set_0", "output", outputs)
    status, lines, _ = ran(capsys, model)
    assert status == 1
    (line,) = [line for line in lines if "DIFFERENT" in line]
    assert line.startswith(f"{name}:")
    assert mention in line


def test_numbers_may_differ_as_much_as_in_the_tests_of_onnx(model, capsys):
    stored(model.parent / "test_data_set_0", "output", [RESULTS[0] * np.float32(1.0005), *RESULTS[1:]])
    assert ran(capsys, model)[0] == 0


def test_without_stored_outputs_nothing_is_compared(model, capsys):
    folder = model.parent / "elsewhere"
    stored(folder, "input", VALUES.values())
    status, lines, _ = ran(capsys, model, "--inputs", folder)
    assert status == 0
    assert not any("stored" in line for line in lines)


def test_outputs_as_npz_can_be_inputs(model, capsys):
    path = model.parent / "values.npz"
    assert ran(capsys, model, "--output", path)[0] == 0
    values = sa.load(path)
    assert list(values) == ["y", "t", "p"]
    np.testing.assert_array_equal(values["y"], RESULTS[0])
    assert values["p"] is None
    sa.save(path, x=values["y"], s=values["t"])
    assert ran(capsys, model, "--inputs", path)[:2] == (0, ["y: tensor(float) (2,)", "t: sequence of 0", "p: absent"])
    np.savez(path, **{"x": values["y"], "s.0": values["t"][0]})
    status, lines, _ = ran(capsys, model, "--inputs", path)
    assert status == 0
    assert lines == ["y: tensor(float) (2,)", "t: sequence of 0", "p: absent"]


def test_outputs_as_a_folder_are_those_of_a_data_set(model, capsys):
    folder = model.parent / "test_data_set_0"
    for path in folder.glob("output_*.pb"):
        path.unlink()
    assert ran(capsys, model, "--output", folder)[0] == 0
    status, lines, _ = ran(capsys, model)
    assert status == 0
    assert sum(line.endswith("equal to the stored output") for line in lines) == 3


def test_a_single_output_as_pb(capsys, tmp_path):
    path = tmp_path / "out.pb"
    model = SIMPLE / "test_sequence_model1"
    assert ran(capsys, model / "model.onnx", "--output", path)[0] == 0
    expected = onnx.load_tensor(model / "test_data_set_0" / "output_0.pb")
    np.testing.assert_array_equal(
        numpy_helper.to_array(onnx.load_tensor(path)), numpy_helper.to_array(expected), strict=True
    )


def test_a_model_without_inputs_needs_no_data(capsys, tmp_path):
    text = TEXT.partition("agraph")[0] + "agraph () => (seq(float[]) s) { s = SequenceEmpty() }"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    assert ran(capsys, tmp_path / "model.onnx")[:2] == (0, ["s: sequence of 0"])


def test_fallback_is_told_in_one_line(capsys, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    text = TEXT.partition("agraph")[0] + "agraph (double[M, N] x) => (double[M, N] y) { y = Hardmax(x) }"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((1, 2)))
    # onnxruntime has no Hardmax of this type.
    status, lines, error = ran(capsys, tmp_path / "model.onnx", "--inputs", tmp_path / "x.npz", "--backend", "torch")
    assert (status, len(lines), error.count("\n")) == (0, 1, 1)
    assert "Hardmax" in error


def without(model, *names):
    for name in names:
        (model.parent / "test_data_set_0" / name).unlink()


MISTAKES = {
    "no model": (lambda model: model.unlink(), [], "model.onnx"),
    "not a model": (lambda model: model.write_bytes(b"nothing"), [], "model.onnx"),
    "no data": (lambda model: shutil.rmtree(model.parent / "test_data_set_0"), [], "--inputs"),
    "no such inputs": (lambda model: None, ["--inputs", "nowhere"], "nowhere"),
    "an input is missing": (lambda model: without(model, "input_2.pb"), [], "2"),
    "a file is missing in between": (lambda model: without(model, "input_1.pb"), [], "input_1.pb"),
    "broken data": (
        lambda model: (model.parent / "test_data_set_0" / "input_0.pb").write_bytes(b"nothing"),
        [],
        "input_0.pb",
    ),
    "several outputs in one .pb": (lambda model: None, ["--output", "values.pb"], "values.pb"),
    "output in a folder that is not there": (lambda model: None, ["--output", "nowhere/values.npz"], "nowhere"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told_in_one_line(case, model, capsys, monkeypatch):
    change, arguments, mention = MISTAKES[case]
    change(model)
    monkeypatch.chdir(model.parent)
    status, _, error = ran(capsys, "model.onnx", *arguments)
    assert status == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert mention in error


@pytest.mark.parametrize(
    ("arrays", "mention"),
    [
        ({"x": VALUES["x"]}, "'s'"),
        ({"x": VALUES["x"], "s.0": np.asarray(1), "s.2": np.asarray(1)}, "s.2"),
        ({"x": VALUES["x"], "s.0": np.asarray(1), "s.length": np.asarray(2)}, "s.length"),
        ({"x": VALUES["x"], "s.length": np.asarray(0), "z": VALUES["x"]}, "z"),
        ({"x": np.ones(2), "s.length": np.asarray(0)}, "float64"),
    ],
)
def test_npz_that_does_not_fit_the_model_is_a_mistake(arrays, mention, model, capsys):
    path = model.parent / "values.npz"
    np.savez(path, **arrays)
    status, _, error = ran(capsys, model, "--inputs", path)
    assert (status, error.count("\n")) == (2, 1)
    assert mention in error


def test_one_data_set_has_to_be_named_to_write_outputs(model, capsys):
    shutil.copytree(model.parent / "test_data_set_0", model.parent / "test_data_set_1")
    status, _, error = ran(capsys, model, "--output", model.parent / "values.npz")
    assert status == 2
    assert "--inputs" in error


def test_without_onnx_the_command_names_the_extra():
    program = ALONE.format(blocked={"onnx"}).replace('["seqarray"]', '["seqarray", "run", "model.onnx"]')
    done = run("-c", program)
    assert done.returncode == 2
    assert "seqarray[onnx]" in done.stderr
    assert done.stderr.count("\n") == 1


def test_exit_status_of_the_process(model):
    stored(model.parent / "test_data_set_0", "output", [RESULTS[0] + 1, *RESULTS[1:]])
    assert run("-m", "seqarray", "run", str(model)).returncode == 1
