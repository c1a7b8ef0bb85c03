"""The command line."""

import datetime
import json
import shlex
import subprocess
import sys

import numpy as np
import pytest

import seqarray as sa
from benchmarks import libraries, machine, reporting, running
from benchmarks.__main__ import main
from benchmarks.cases import CASES
from benchmarks.libraries.numpy import NumPy
from benchmarks.libraries.seqarray import SeqArrayList
from tests.benchmarks.helpers import (
    PROJECT,
    entry,
    without,
)

QUICK = ("run", "--quick", "--backends", "numpy", "--peers", "numpy", "--cases", "concat-tiny")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), ["list", "run", "report", "compare"]),
        (("list",), []),
        (("run",), ["--backends", "--peers", "--cases", "--quick", "--json", "--device", "--dtype", "--threads"]),
        (("report",), ["JSON", "--markdown", "--plot", ".png", ".svg"]),
        (("compare",), ["OLD.json", "NEW.json", "exit status", "default: 5"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_help(command, arguments, told):
    status, text = command(*arguments, "--help")
    text = " ".join(text.split())
    assert status == 0
    for words in told:
        assert words in text
    assert "%%" not in text


def test_list_tells_cases_and_what_is_missing_here(command, monkeypatch):
    without(monkeypatch, "dask", "onnxruntime")
    status, text = command("list")
    assert status == 0
    for case in CASES:
        assert f"│ {case.name} " in text  # in a column of its own
    for name in (*libraries.BACKENDS, *libraries.PEERS["numpy"]):
        assert f"│ {name} " in text
    assert "pip install 'dask[array]'" in text
    assert "pip install onnxruntime onnx" in text


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--backends", "numpy,nump", ["nump", "numpy", "cupy", "torch", "jax", "dask"]),
        ("--peers", "onnxruntim", ["onnxruntim", "onnxruntime", "onnx-reference"]),
        ("--cases", "concat-tinny", ["concat-tinny", "list"]),
        ("--cases", "concat-tiny,appendd", ["appendd"]),
    ],
)
def test_unknown_names_are_refused_with_what_is_known(command, monkeypatch, tmp_path, option, value, told):
    monkeypatch.setattr(running, "run", lambda *_: pytest.fail("something was measured"))
    status, text = command(*QUICK, option, value, "--json", tmp_path / "x.json")
    assert status != 0
    for words in told:
        assert words in text


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--seconds", value) for value in ("nan", "-1", "0", "inf", "long")),
        *(("--threads", value) for value in ("0", "-1", "1.5", "all")),
        *(("--dtype", value) for value in ("str", "object", "bfloat16", "float33")),
        ("--device", "no such device"),
    ],
)
def test_options_that_say_nothing_are_refused(command, monkeypatch, option, value):
    monkeypatch.setattr(running, "run", lambda *_: pytest.fail("something was measured"))
    status, text = command(*QUICK, f"{option}={value}")
    assert status == 2
    assert option in text


def test_run_takes_dtype_threads_and_device(command, tmp_path):
    threads, path = sa.get_num_threads(), tmp_path / "x.json"
    try:
        options = ("--dtype", "int16", "--threads", "3", "--device", "cpu")
        status, text = command(*QUICK, "--cases", "concat-tiny,pad,model-loop", *options, "--json", path)
        assert sa.get_num_threads() == 3
    finally:
        libraries.use_threads(threads)
    assert status == 0, text
    result = json.loads(path.read_text())
    assert result["machine"]["threads"]["seqarray"] == 3
    assert result["machine"]["load_average"] >= 0
    assert [(found["case"], found["bytes"]) for found in result["results"]] == [("concat-tiny", 36), ("pad", 152_000)]


@pytest.mark.parametrize("dtype", ["float16", "int8", "complex128"])
def test_inputs_are_of_the_dtype_that_was_asked_for(dtype):
    for task in running.tasks("concat-tiny,pad,append", ["numpy"], quick=True, dtype=dtype):
        arguments = task.arguments(np.random.default_rng(0))
        arrays = arguments[0] if isinstance(arguments[0], list) else [a for a in arguments if isinstance(a, np.ndarray)]
        assert arrays[0].dtype == dtype
        assert task.amounts[1] == task.case.amounts[task.size][1] * np.dtype(dtype).itemsize // 4
        names = {library.name for library in running.libraries_for(task, ["onnxruntime", "onnx-reference"])}
        assert not {"onnxruntime", "onnx-reference"} & names


def test_case_patterns_may_have_spaces_behind_the_commas(command, tmp_path):
    path = tmp_path / "x.json"
    status, text = command(*QUICK, "--cases", "concat-tiny, stack-t*", "--json", path)
    assert status == 0, text
    assert [found["case"] for found in json.loads(path.read_text())["results"]] == ["concat-tiny", "stack-tiny"]


def test_a_backend_that_is_missing_is_said_to_be_the_reason(command, monkeypatch):
    without(monkeypatch, "torch")
    status, text = command("run", "--backends", "torch", "--quick")
    assert status != 0
    assert "pip install torch" in text
    assert "No case matches" not in text


def test_run_writes_json_and_markdown_and_tells_where(command, tmp_path):
    path = tmp_path / "folder" / "x.json"
    status, text = command(*QUICK, "--json", path)
    assert status == 0
    assert str(path) in text
    result = json.loads(path.read_text())
    assert path.with_suffix(".md").read_text() == reporting.markdown(result)
    (found,) = result["results"]
    assert list(found["contenders"]) == ["seqarray, list", "seqarray, construct + join", "numpy"]
    for timed in found["contenders"].values():
        assert len(timed["rotating"]) >= 3
        assert len(timed["hot"]) >= 3


def test_run_without_a_path_writes_below_build(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, text = command(*QUICK)
    (written,) = (tmp_path / "build").rglob("*.json")
    assert status == 0
    assert written.name in text
    assert written.with_suffix(".md").is_file()


def test_run_never_has_a_figure_for_a_missing_peer_and_names_it(command, tmp_path, monkeypatch):
    without(monkeypatch, "torch", "onnxruntime")
    path = tmp_path / "x.json"
    status, text = command(*QUICK, "--peers", "torch,onnxruntime", "--json", path)
    assert status == 0
    (found,) = json.loads(path.read_text())["results"]
    assert list(found["contenders"]) == ["seqarray, list", "seqarray, construct + join", "numpy"]
    for line in ("peer torch is left out", "pip install torch", "peer onnxruntime is left out"):
        assert line in text


@pytest.mark.parametrize(
    ("error", "told"),
    [(None, "wrong answer"), (RuntimeError("no [float] in [/here]"), "RuntimeError: no [float] in [/here]")],
    ids=["wrong-answer", "exception"],
)
def test_run_fails_where_a_contender_computed_something_else(command, tmp_path, monkeypatch, error, told):
    def concat(self, arrays, axis):
        def work():
            if error:
                raise error
            return arrays[0]

        return work

    monkeypatch.setattr(SeqArrayList, "concat", concat)
    path = tmp_path / "x.json"
    status, text = command(*QUICK, "--json", path)
    assert status == 1
    assert "seqarray, list" in text
    assert told in text
    contenders = json.loads(path.read_text())["results"][0]["contenders"]
    assert told in contenders["seqarray, list"]["error"]
    assert "rotating" in contenders["numpy"]


def test_run_tells_of_ctrl_c_and_keeps_what_was_measured(command, tmp_path, monkeypatch):
    def stack(self, arrays, axis):
        raise KeyboardInterrupt

    monkeypatch.setattr(NumPy, "stack", stack)
    path = tmp_path / "x.json"
    _, text = command(*QUICK, "--cases", "concat-tiny,stack-tiny,split-tiny", "--json", path)
    assert "Interrupted" in text
    assert "1 of 3" in text
    result = json.loads(path.read_text())
    assert result["interrupted"] is True
    assert [found["case"] for found in result["results"]] == ["concat-tiny"]
    assert "interrupted" in path.with_suffix(".md").read_text()


@pytest.mark.parametrize("name", ["folder", "x.md"])
def test_a_path_at_which_no_json_can_be_kept_is_refused_before_anything_is_measured(
    command, tmp_path, monkeypatch, name
):
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(running, "run", lambda *_: pytest.fail("something was measured"))
    status, text = command(*QUICK, "--json", tmp_path / name)
    assert status != 0
    assert name in text


def test_rich_is_asked_for_where_it_is_missing(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["list"]) == 2
    assert 'pip install -e ".[bench]"' in capsys.readouterr().err


def test_matplotlib_is_asked_for_where_it_is_missing(command, saved, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path = saved("x.json", entry())
    status, text = command("report", path, "--plot", path.with_name("plots.png"))
    assert status != 0
    assert 'pip install -e ".[bench]"' in text


def test_report_shows_tables(command, saved):
    status, text = command("report", saved("x.json", entry()))
    assert status == 0
    assert reporting.SUMMARY_TITLE in text
    assert "what concat-axis0 does" in text
    assert "0.5 (0.5 to 0.75)" in text
    assert "2 times faster" in text


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_report_writes_what_it_is_asked_for(command, saved, tmp_path, suffix):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    path, written, picture = saved("x.json", entry()), tmp_path / "written.md", tmp_path / f"plots.{suffix}"
    status, text = command("report", path, "--markdown", written, "--plot", picture)
    assert status == 0
    assert written.read_text() == reporting.markdown(json.loads(path.read_text()))
    assert picture.stat().st_size > 10_000
    assert str(written) in text.replace("\n", "")
    assert str(picture) in text.replace("\n", "")


def test_a_plot_of_another_kind_is_refused(command, saved, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    status, text = command("report", saved("x.json", entry()), "--plot", tmp_path / "plots.txt")
    assert status != 0
    assert "plots.txt" in text
    assert ".png" in text


@pytest.mark.parametrize("content", [None, "not JSON", '{"something": "else"}'], ids=["missing", "broken", "other"])
def test_a_file_that_is_no_result_is_named(command, saved, tmp_path, content):
    good, bad = saved("good.json", entry()), tmp_path / "bad.json"
    if content is not None:
        bad.write_text(content)
    for arguments in (("report", bad), ("compare", bad, good), ("compare", good, bad)):
        status, text = command(*arguments)
        assert status not in (0, 1)  # 1 means that something has become slower
        assert "bad.json" in text


@pytest.mark.thorough
def test_a_quick_run_in_a_process_of_its_own(tmp_path):
    pytest.importorskip("rich", reason="rich is not installed")
    path = tmp_path / "a folder" / "x.json"
    arguments = ["-m", "benchmarks", "run", "--backends", "numpy", "--cases", "concat-tiny", "--quick", "--json"]
    done = subprocess.run(
        [sys.executable, *arguments, str(path)], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert path.with_suffix(".md").read_text().startswith("# Benchmark of seqarray\n")
    result = json.loads(path.read_text())
    assert (result["interrupted"], len(result["results"])) == (False, 1)
    (found,) = result["results"]
    for name in ("seqarray, list", "seqarray, construct + join", "numpy"):
        assert found["contenders"][name]["rotating"]
    described = result["machine"]
    assert described["versions"]["numpy"] == np.__version__
    assert described["versions"]["seqarray"] == sa.__version__
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=PROJECT, capture_output=True, text=True, check=False
    ).stdout.strip()
    assert described["commit"].rstrip("+") == commit
    assert described["cpu"]
    assert described["cpus"] == machine.cpu_count()
    assert described["threads"]["seqarray"] == sa.get_num_threads()
    assert datetime.datetime.fromisoformat(described["date"]).tzinfo is not None
    assert shlex.split(described["command"]) == ["python", *arguments[:-1]]  # wherever the result goes
