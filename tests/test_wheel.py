"""The built wheel: what it holds, and that it works with NumPy and array-api-compat alone."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

PROJECT = Path(__file__).parents[1]

#: Enough to show that an operator runs, not just that modules are found.
RUN_AN_OPERATOR = """
import numpy as np
import seqarray as sa

chunks = sa.split_to_sequence(np.arange(5), 2)
assert chunks.shapes == ((2,), (2,), (1,)), chunks
assert sa.concat_from_sequence(chunks, axis=0).tolist() == [0, 1, 2, 3, 4]
print(sa.__file__)
"""


def build_wheel(project, folder):
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, project]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(PROJECT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder that holds the installed wheel and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile", "--target", folder]
    subprocess.run([*command, wheel], check=True, capture_output=True, text=True)
    return folder


def files_in(wheel):
    return [name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name]


def test_it_holds_the_package_and_nothing_else(wheel):
    modules = {str(path.relative_to(PROJECT)) for path in (PROJECT / "seqarray").rglob("*.py")}
    files = files_in(wheel)
    assert {name.partition("/")[0] for name in files} == {"seqarray"}
    assert {name for name in files if name.endswith(".py")} == modules
    assert {Path(name).suffix for name in files} <= {".py", ".typed", ".cu"}
    assert "seqarray/py.typed" in files


def test_it_holds_the_licence(wheel):
    licences = [name for name in ZipFile(wheel).namelist() if name.endswith("/licenses/LICENSE")]
    assert len(licences) == 1


def test_a_package_index_gets_the_text_without_the_picture(wheel):
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        text = archive.read(name).decode()
    assert "Ragged batches for any array library" in text
    assert "picture>" not in text
    assert ".svg" not in text


def test_kernel_sources_of_the_package_are_taken_along(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(PROJECT / name, project)
    for name in ("seqarray", "tests", "docs"):
        shutil.copytree(PROJECT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "seqarray" / "_engines" / "some_kernel.cu").write_text("__global__ void nothing() {}\n")
    (project / "tests" / "other_kernel.cu").write_text("__global__ void nothing() {}\n")
    kernels = [name for name in files_in(build_wheel(project, tmp_path)) if Path(name).stem.endswith("_kernel")]
    assert kernels == ["seqarray/_engines/some_kernel.cu"]


def test_numpy_and_array_api_compat_are_all_it_needs(installed, tmp_path):
    for name in ("numpy", "array_api_compat"):
        package = Path(importlib.util.find_spec(name).origin).parent
        (tmp_path / name).symlink_to(package)
        libraries = package.with_name(f"{name}.libs")  # the shared libraries of a wheel from PyPI
        if libraries.is_dir():
            (tmp_path / libraries.name).symlink_to(libraries)
    # -I and -S leave nothing to import from but the standard library and these two folders.
    code = f"import sys; sys.path += [{str(installed)!r}, {str(tmp_path)!r}]\n{RUN_AN_OPERATOR}"
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip() == str(installed / "seqarray" / "__init__.py")


def test_it_loads_no_array_library_but_numpy(installed):
    libraries = {"torch", "jax", "dask", "cupy", "array_api_strict", "onnx", "onnxruntime"}
    code = f"""
import sys
sys.path.insert(0, {str(installed)!r})
{RUN_AN_OPERATOR}
print(*sorted({libraries!r} & sys.modules.keys()))
"""
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == [str(installed / "seqarray" / "__init__.py"), ""]
