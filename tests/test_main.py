"""``python -m seqarray``: the table of what is usable here."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import seqarray as sa

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


def test_main_returns_the_exit_status(capsys):
    from seqarray.__main__ import main

    assert main() == 0
    assert "numpy" in capsys.readouterr().out
