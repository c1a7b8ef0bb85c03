"""The command line: the table of what is usable here, and running a model from a file."""

import importlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import seqarray as sa
from conftest import BACKENDS
from seqarray.__main__ import command, main
from seqarray._commands.libraries import in_columns

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


def table_of(done: Any) -> dict[str, list[str]]:
    """The rows of the printed table, by library."""
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 100
    rows = {}
    for line in done.stdout.partition("\n\n")[0].splitlines()[2:]:
        library, *cells = line.split()
        assert library not in rows
        rows[library] = cells
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
    assert headings.split() == ["library", "version", "string", "bfloat16", "float8", "int64", "devices"]


def test_every_library_has_one_row(everything):
    assert list(table_of(everything)) == LIBRARIES


def test_a_legend_explains_the_cells(everything):
    legend = everything.stdout.partition("\n\n")[2]
    for word in ("yes", "no", "some", "float8", "--json"):
        assert word in legend


def test_cells_say_what_each_library_can_hold(everything):
    table = table_of(everything)
    assert table["numpy"][:3] == [np.__version__, "yes", "yes"]
    assert table["numpy"][-2:] == ["yes", "cpu"]
    expected = {"torch": "no yes yes yes", "dask": "yes yes yes yes", "jax": "no yes yes no"}
    for library, cells in expected.items():
        pytest.importorskip(library, reason=f"{library} is not installed")
        assert table[library][1:5] == cells.split()


def test_devices_are_counted_where_there_are_many(everything):
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    row = table_of(everything)["array_api_strict"]
    count = len(strict.__array_namespace_info__().devices())
    assert row[1:] == f"no no no some CPU_DEVICE, device1 and {count - 2} more".split()


def test_cupy_without_a_gpu_is_reported_not_raised(everything):
    cupy = pytest.importorskip("cupy", reason="cupy is not installed")
    row = table_of(everything)["cupy"]
    assert row[0] == cupy.__version__
    assert ("no usable GPU" in " ".join(row)) != cupy.cuda.is_available()


def test_json_tells_all_of_every_device(capsys):
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    assert main(["info", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["seqarray"] == sa.__version__
    assert told["python"] == sys.version.split()[0]
    assert list(told["libraries"]) == LIBRARIES
    assert told["libraries"]["numpy"]["version"] == np.__version__
    assert told["libraries"]["numpy"]["problem"] is None
    devices = told["libraries"]["array_api_strict"]["devices"]
    for device in strict.__array_namespace_info__().devices():
        (holds,) = [holds for name, holds in devices.items() if f"'{name}'" in str(device)]
        assert holds["int64"] == ("int64" in strict.__array_namespace_info__().dtypes(device=device))
        assert not holds["string"]


def test_json_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr("seqarray._commands.libraries.LIBRARIES", {"numpy": None, "nothing_of_that_name": None})
    assert main(["--json"]) == 0
    missing = json.loads(capsys.readouterr().out)["libraries"]["nothing_of_that_name"]
    assert missing == {"version": "-", "problem": "not installed", "devices": {}}


def test_with_numpy_alone():
    blocked = {*LIBRARIES[1:], "ml_dtypes", "onnx", "onnxruntime"}
    done = run("-c", ALONE.format(blocked=blocked))
    table = table_of(done)
    assert list(table) == LIBRARIES
    for library in LIBRARIES[1:]:
        assert " ".join(table[library]) == "- not installed"
    assert table["numpy"][1:] == ["yes", "no", "no", "yes", "cpu"]


def test_a_library_that_is_broken_does_not_hide_the_others(tmp_path):
    for name in ("torch", "cupy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the driver is too old')")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + ALONE.format(blocked={"jax", "dask"})
    table = table_of(run("-c", program))
    for name in ("torch", "cupy"):
        assert "the driver is too old" in " ".join(table[name])
    assert table["numpy"][-1] == "cpu"


@pytest.mark.parametrize("told", [None, importlib.metadata.PackageNotFoundError()])
def test_a_library_that_does_not_tell_its_version_has_a_row(told, capsys, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", Mock(side_effect=[told]))
    monkeypatch.delattr(np, "__version__")
    monkeypatch.setattr("seqarray._commands.libraries.LIBRARIES", {"numpy": None})
    assert main() == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["numpy", "-", "yes", "yes", "yes", "yes", "cpu"]


def test_a_library_whose_own_imports_fail_is_not_called_missing(tmp_path):
    (tmp_path / "jax.py").write_text("import nothing_of_that_name")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    row = table_of(run("-c", program + ALONE.format(blocked={"torch", "cupy", "dask"})))["jax"]
    assert "nothing_of_that_name" in " ".join(row)
    assert "not installed" not in " ".join(row)


@pytest.mark.skipif(os.name != "posix", reason="a closed pipe is told in another way")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [([], ""), ([], "1"), (["run", "MODEL"], ""), (["run", "MODEL"], "1"), (["demo"], ""), (["--help"], "")],
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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_device_is_told_in_one_line():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-c", ALONE.format(blocked=set(LIBRARIES[1:]))]
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    assert process.stderr.startswith("error: ")


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the output")
def test_without_an_output_nothing_is_written():
    command = f"exec {shlex.join([sys.executable, '-c', ALONE.format(blocked=set(LIBRARIES[1:]))])} >&-"
    process = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")


def test_a_long_reason_is_cut_to_the_width_of_the_table():
    reason = "no usable GPU (" + "very " * 40
    (line,) = in_columns([("cupy", "14.2.0", reason)])
    assert len(line) == 100
    assert line.startswith("cupy  14.2.0  no usable GPU (very very")
    assert line.endswith("...")


@pytest.mark.parametrize("arguments", [[], ["info"]])
def test_info_is_what_it_does_without_a_command(arguments, capsys, monkeypatch):
    monkeypatch.setattr("seqarray._commands.libraries.LIBRARIES", {"numpy": None})
    assert main(arguments) == 0
    assert "numpy" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"seqarray {sa.__version__}\n"


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    for name in ("info", "demo", "run", "lower"):
        assert re.search(rf"^ +{name} +\w", told, flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["info", "demo", "run", "lower"])
def test_each_command_has_help_of_its_own(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: seqarray {name}" in capsys.readouterr().out


def test_a_command_that_is_not_there(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["walk"])
    assert ended.value.code == 2
    assert "'walk'" in capsys.readouterr().err


def test_ctrl_c_ends_it_with_130_and_one_line(capsys, monkeypatch, model):
    monkeypatch.setattr("seqarray.onnx._cli.prepare", Mock(side_effect=KeyboardInterrupt))
    monkeypatch.setattr(sys, "argv", ["seqarray", "run", str(model)])
    assert command() == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="other systems have no signals between processes")
def test_ctrl_c_in_a_process(model):
    text = (
        TEXT.partition("agraph")[0]
        + """agraph () => (int64 y) <int64 zero = {0}, int64 n = {1000000000}> {
        y = Loop(n, "", zero)<body = b (int64 i, bool c, int64 a) => (bool d, int64 e) {
            d = Identity(c) e = Identity(a)
        }>
    }"""
    )
    onnx.save(onnx.parser.parse_model(text), model)
    for number in range(2):
        shutil.rmtree(model.parent / f"test_data_set_{number}", ignore_errors=True)
        (model.parent / f"test_data_set_{number}").mkdir()
    arguments = [sys.executable, "-u", "-m", "seqarray", "run", str(model), "--max-trip-count=none", "--max-seconds=60"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"test_data_set_0:\n"
        process.send_signal(signal.SIGINT)
        output, error = process.communicate()
    assert (process.returncode, output, error) == (130, b"", b"interrupted\n")


def test_the_console_script_is_the_command():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = project["project"]["scripts"]["seqarray"].partition(":")
    assert getattr(importlib.import_module(module), name) is command


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
def test_models_of_the_onnx_package_give_their_stored_outputs(number, backend, capsys):
    model = SIMPLE / f"test_sequence_model{number}" / "model.onnx"
    for element_type in {6: ["int64"], 7: ["float64"], 8: ["int64"]}.get(number, []):
        if not backend.holds(element_type):
            pytest.skip(f"{backend.name} cannot hold {element_type}")
    status, lines, error = ran(capsys, model, "--backend", BACKENDS[backend.name].partition(".")[0])
    assert (status, error) == (0, "")
    assert len(lines) == len(onnx.load(model).graph.output)
    assert all(line.endswith("equal to the stored output") for line in lines)


def test_a_folder_stands_for_its_model(model, capsys):
    assert ran(capsys, model.parent) == ran(capsys, model)
    status, _, error = ran(capsys, model.parent / "test_data_set_0")
    assert (status, error.count("\n")) == (2, 1)
    assert "test_data_set_0/model.onnx" in error


def test_a_backend_that_is_not_installed_is_told_with_those_that_are(model, capsys):
    status, _, error = ran(capsys, model, "--backend", "nothing_of_that_name")
    assert (status, error.count("\n")) == (2, 1)
    assert "nothing_of_that_name" in error
    assert "installed are numpy" in error


def test_a_backend_that_cannot_be_imported_is_told_in_one_line(model, capsys, tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("raise RuntimeError('the driver is too old')")
    monkeypatch.syspath_prepend(tmp_path)
    status, _, error = ran(capsys, model, "--backend", "broken_library")
    assert (status, error.count("\n")) == (2, 1)
    assert "the driver is too old" in error


def test_profile_prints_what_the_steps_took(model, capsys):
    status, lines, _ = ran(capsys, model, "--profile")
    assert status == 0
    assert "seconds" in lines[3]
    for operator in ("Neg", "SequenceErase", "Identity"):
        assert sum(operator in line for line in lines[4:]) == 1


def test_a_lack_of_memory_is_told_in_one_line(model, capsys, monkeypatch):
    monkeypatch.setattr("seqarray.onnx._cli.prepare", Mock(side_effect=MemoryError))
    assert ran(capsys, model) == (2, [], "error: out of memory\n")


def test_json_tells_what_the_lines_tell(model, capsys):
    stored(model.parent / "test_data_set_0", "output", [RESULTS[0] + 1, *RESULTS[1:]])
    status, lines, error = ran(capsys, model, "--json", "--profile")
    told = json.loads("\n".join(lines))
    assert (status, error) == (1, "")
    assert (told["model"], told["backend"]) == (str(model), "numpy")
    (only,) = told["runs"]
    assert only["inputs"] == str(model.parent / "test_data_set_0")
    y, t, p = only["outputs"]
    assert "2 of 2 values" in y.pop("difference")
    assert y == {"name": "y", "type": "tensor(float)[N]", "shape": [2], "shapes": None, "equal": False}
    assert (t["shape"], t["shapes"], t["equal"], t["difference"]) == (None, [[2]], True, None)
    assert (p["shape"], p["shapes"], p["equal"]) == (None, None, True)
    assert {step["count"] for step in told["steps"]} == {1}
    assert len(told["steps"]) == 3


def test_json_without_stored_outputs_compares_nothing(model, capsys):
    for path in (model.parent / "test_data_set_0").glob("output_*.pb"):
        path.unlink()
    status, lines, _ = ran(capsys, model, "--json")
    told = json.loads("\n".join(lines))
    assert status == 0
    assert {output["equal"] for output in told["runs"][0]["outputs"]} == {None}
    assert "steps" not in told


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
    "no such inputs": (lambda model: None, ["--inputs", "nowhere"], "--inputs nowhere"),
    "a folder without inputs": (lambda model: (model.parent / "empty").mkdir(), ["--inputs", "empty"], "input_0.pb"),
    "inputs that are no .npz file": (lambda model: None, ["--inputs", "model.onnx"], "model.onnx is no .npz file"),
    "an input is missing": (lambda model: without(model, "input_2.pb"), [], "2"),
    "a file is missing in between": (lambda model: without(model, "input_1.pb"), [], "input_1.pb"),
    "broken data": (
        lambda model: (model.parent / "test_data_set_0" / "input_0.pb").write_bytes(b"nothing"),
        [],
        "input_0.pb",
    ),
    "an output of another kind": (lambda model: None, ["--output", "values.txt"], "values.txt: expected"),
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
    assert "pip install onnx" in done.stderr
    assert done.stderr.count("\n") == 1


def test_exit_status_of_the_process(model):
    stored(model.parent / "test_data_set_0", "output", [RESULTS[0] + 1, *RESULTS[1:]])
    assert run("-m", "seqarray", "run", str(model)).returncode == 1
