"""What CuPy on the host takes, and how CUDA C++ becomes a shared object of this machine."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

#: The version of CuPy whose private entry points are replaced.
CUPY_VERSION = "14.2"

#: CuPy's wheels to the wheel with CUDA's headers, the folder of these under site-packages, and the version of CUDA.
WHEELS = {
    "cupy-cuda12x": ("nvidia-cuda-runtime-cu12", "nvidia/cuda_runtime/include", 12090),
    "cupy-cuda13x": ("nvidia-cuda-runtime", "nvidia/cu13/include", 13000),
}


class Missing(Exception):  # noqa: N818 - it is a reason to skip, not an error
    """Says what CuPy on the host lacks on this machine."""


class Toolchain(NamedTuple):
    """All that compiling takes."""

    compiler: str
    compiler_version: str
    cupy_version: str
    cuda_version: int
    includes: tuple[Path, ...]


#: The options of every compilation.  A misaligned pointer is a fault on a device, and works here unless it is
#: made to trap; with the C library's checks of `longjmp`, no fault could be left behind.
OPTIONS = (
    *("-O1", "-std=c++17", "-w", "-shared", "-fPIC"),
    *("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error", "-U_FORTIFY_SOURCE"),
)


@functools.cache
def toolchain() -> Toolchain:
    """What there is on this machine; raises `Missing`."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise Missing("there is no g++")
    wheel, cupy_version = _installed_cupy()
    headers_wheel, headers_folder, cuda_version = WHEELS[wheel]
    if not cupy_version.startswith(f"{CUPY_VERSION}."):
        raise Missing(f"it is made for CuPy {CUPY_VERSION} and this is {cupy_version}")
    cuda_headers = _cuda_headers(headers_folder)
    if cuda_headers is None:
        raise Missing(f"there are no CUDA headers; {headers_wheel} has them")
    python_headers = Path(sysconfig.get_path("include"))
    if not (python_headers / "Python.h").is_file():
        raise Missing(f"there is no Python.h in {python_headers}")
    cupy = importlib.util.find_spec("cupy")
    assert cupy is not None
    assert cupy.submodule_search_locations is not None
    cupy_headers = Path(cupy.submodule_search_locations[0], "_core", "include")
    bundled = [cupy_headers / "cupy" / "_cccl" / name for name in ("thrust", "libcudacxx", "cub")]
    includes = (HERE, HERE / "include", cupy_headers, *bundled, cuda_headers, python_headers)
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    return Toolchain(compiler, version.partition("\n")[0], cupy_version, cuda_version, includes)


def _installed_cupy() -> tuple[str, str]:
    """CuPy's wheel and its version."""
    for wheel in WHEELS:
        with suppress(metadata.PackageNotFoundError):
            return wheel, metadata.version(wheel)
    raise Missing(f"none of {', '.join(WHEELS)} is installed")


def _cuda_headers(folder: str) -> Path | None:
    """The folder with CUDA's headers: of a wheel, or else of a toolkit."""
    wheels = [Path(entry, folder) for entry in sys.path]
    toolkits = [Path(os.environ.get(name, "/usr/local/cuda"), "include") for name in ("CUDA_PATH", "CUDA_HOME")]
    return next((found for found in (*wheels, *toolkits) if (found / "cuda_fp16.h").is_file()), None)


def missing() -> str | None:
    """Why CuPy on the host cannot be had on this machine, or None."""
    try:
        toolchain()
    except Missing as reason:
        return str(reason)
    return None


@functools.cache
def _fingerprint() -> bytes:
    """What the shared objects of different installations differ by."""
    tools = toolchain()
    # Python's headers are of one version: from 3.12 on, nobody counts the references to None.
    parts = [sys.version, repr(tools._replace(includes=()))]
    parts += [(HERE / name).read_text() for name in ("device_code.hpp", "include/crt/host_defines.h")]
    parts += [(folder / "cuda.h").read_text()[:100_000] for folder in tools.includes if (folder / "cuda.h").is_file()]
    return hashlib.sha256("\0".join([*parts, *OPTIONS]).encode()).digest()


def cache_folder() -> Path:
    """Where shared objects are kept between runs."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "seqarray-cupy-host")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def shared_object(source: str, options: Sequence[str] = ()) -> Path:
    """The shared object that g++ makes of a source, from the cache where it has been made before.

    Raises
    ------
    subprocess.CalledProcessError
        If g++ refuses the source; its `stderr` says why.
    """
    key = hashlib.sha256(b"\0".join([_fingerprint(), source.encode(), *map(str.encode, options)])).hexdigest()
    kept = cache_folder() / f"{key[:32]}.so"
    if kept.is_file():
        return kept
    tools = toolchain()
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        written, made = Path(folder, "source.cpp"), Path(folder, "made.so")
        written.write_text(source)
        folders = [f"-I{folder}" for folder in tools.includes]
        command = [tools.compiler, *OPTIONS, *folders, *options, str(written), "-o", str(made)]
        subprocess.run(command, capture_output=True, text=True, check=True)
        # Another process may be making the same one: whoever is last replaces it by its like, in one step.
        made.replace(kept)
    return kept


#: A kernel in a source, with `extern "C"` and launch bounds in any order.
_KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\("
)


def kernels_object(source: str, options: Sequence[str] = ()) -> Path:
    """The shared object of a CUDA source, with a function that `host_cuda.cpp` can call for each of its kernels."""
    barriers = "true" if "__syncthreads" in source else "false"
    callers = [f"HOST_KERNEL({name}, {barriers})" for name in dict.fromkeys(_KERNEL.findall(source))]
    macros = [f"-D__CUDACC_VER_MAJOR__={toolchain().cuda_version // 1000}", "-include", "device_code.hpp"]
    return shared_object("\n".join([source, *callers, ""]), [*options, *macros])
