"""The backends on which the tests run, and the rule that every skip explains itself."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray._libraries import library_for, resolve_library

# Doctests are collected by importing, and this module needs CuPy.
collect_ignore = [] if importlib.util.find_spec("cupy") else ["seqarray/_engines/cupy.py"]

#: Name of the backend to the module it needs.
BACKENDS = {
    "numpy": "numpy",
    "array-api-strict": "array_api_strict",
    "torch": "torch",
    "jax": "jax",
    "jax-x64": "jax",
    "dask": "dask.array",
    "cupy": "cupy",
}

#: CuPy without a device: what `cupy` stands for when `--backend` names it, and is not there otherwise.
CUPY_HOST = "cupy-host"

#: Reasons for which a test may be skipped when every backend has to be there.
EXPLAINED_SKIPS = (
    r"\S+ cannot hold \S+",
    r"cupy has no usable GPU here",
    r"nvcc is not installed",
    r"there is a GPU",
)


#: On cupy-host, what CuPy arrays cannot be of, and why: the only things that they may be skipped for.
CUPY_CANNOT_HOLD = {
    "string": "CuPy has neither text nor objects",
    "bytes": "CuPy has no bytes",
    r"float8_\w+": "CuPy makes no arrays of what it cannot compute with",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        choices=sorted([*BACKENDS, CUPY_HOST]),
        help="test this backend only (may be given repeatedly); cupy-host is CuPy with g++ in place of a device, and "
        "leaves out the tests that have nothing to do with it",
    )
    parser.addoption(
        "--strict-skips", action="store_true", help="fail on a missing backend, and on every skip that is not explained"
    )
    parser.addoption(
        "--standard-only", action="store_true", help="test without the engines: _engines/standard.py does all the work"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "engine: tests what an engine adds to _engines/standard.py")
    config.addinivalue_line(
        "markers", "cupy_host: needs CuPy on the host, which counts what it does; not run otherwise"
    )
    config.addinivalue_line("markers", "gpu: runs on a real device, and on CuPy on the host as far as that can")
    if on_cupy_host(config):
        if "cupy" in config.getoption("--backend"):
            raise pytest.UsageError("--backend: cupy and cupy-host cannot be tested in one process")
        from tests.cupy_host import entry_points, toolchain

        if toolchain.missing() is None:
            entry_points.start()
    if config.getoption("--standard-only"):
        from seqarray._engines import standard
        from seqarray._libraries import LIBRARIES, NUMPY, Library

        NUMPY.engine = standard
        for library in LIBRARIES.values():
            library.engine_module = Library.engine_module


def on_cupy_host(config: pytest.Config) -> bool:
    """Whether the tests run on CuPy without a device."""
    return CUPY_HOST in (config.getoption("--backend") or ())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def wanted(item: pytest.Item) -> bool:
        if config.getoption("--standard-only") and item.get_closest_marker("engine"):
            return False
        needs_cupy_host = item.get_closest_marker("cupy_host") is not None
        if not on_cupy_host(config):
            return not needs_cupy_host
        callspec = getattr(item, "callspec", None)
        backend = callspec.params.get("backend") if callspec else None
        return needs_cupy_host or backend == "cupy" or backend in config.getoption("--backend")

    kept, left_out = [], []
    for item in items:
        (kept if wanted(item) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    return CUPY_HOST if argname == "backend" and val == "cupy" and on_cupy_host(config) else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cupy_host"):
        require_cupy_host()


def require_cupy_host() -> None:
    """Skip the test where CuPy on the host lacks something, and say what."""
    from tests.cupy_host import toolchain

    if reason := toolchain.missing():
        pytest.skip(f"CuPy on the host: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.config.getoption("--strict-skips"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        accepted = EXPLAINED_SKIPS
        if on_cupy_host(item.config):
            # What is beside CuPy there depends on the environment, whose own tests miss it.
            beside = r"(torch|torch \(CUDA\)|jax|dask) is not installed"
            accepted = (
                *(f"cupy cannot hold {name}" for name in CUPY_CANNOT_HOLD),
                "cupy has no usable GPU here",
                beside,
            )
        if not any(re.fullmatch(pattern, reason) for pattern in accepted):
            report.outcome = "failed"
            report.longrepr = f"skipped without an accepted reason: {reason}"
    return report


@dataclass(frozen=True)
class Backend:
    """An array library, and the device of it on which the tests run."""

    name: str
    xp: Any
    device: Any

    def holds(self, element_type: str) -> bool:
        """Whether arrays of this backend can be of an element type."""
        return library_for(self.xp).can_hold(element_type, self.device)

    def current(self) -> AbstractContextManager[Any]:
        """A context for expressions of arrays of the backend: CuPy computes on the current device only."""
        return library_for(self.xp).on_device(self.device)

    def array(self, values: Any, dtype: Any = None) -> Any:
        """An array of the backend with these values; skips the test where it cannot hold their type."""
        values = np.asarray(values, dtype=dtype)
        element_type = sa.ArraySequence([values]).element_type
        if not self.holds(element_type):
            pytest.skip(f"{self.name} cannot hold {element_type}")
        match self.name:
            case "numpy":
                return values
            case "torch":
                if values.dtype.kind == "V" or values.dtype.name.startswith("float8"):
                    bits = values.view(f"u{values.dtype.itemsize}").copy()
                    return self.xp.asarray(bits).view(getattr(self.xp, element_type))
                return self.xp.asarray(values.astype(values.dtype.newbyteorder("=")), device=self.device)
            case "dask":
                return self.xp.from_array(values, chunks=tuple(max(1, length // 2) for length in values.shape))
            case "jax" | "jax-x64":
                return self.xp.asarray(values)
            case _:
                return self.xp.asarray(values, device=self.device)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Every backend in turn."""
    name = request.param
    wanted = request.config.getoption("--backend")
    if name == "cupy" and on_cupy_host(request.config):
        require_cupy_host()
    elif wanted and name not in wanted:
        pytest.skip(f"--backend leaves {name} out")
    try:
        module = importlib.import_module(BACKENDS[name])
    except ImportError:
        pytest.skip(f"{name} is not installed")
    device: Any = None
    match name:
        case "array-api-strict":
            device = module.Device("device1")
        case "torch":
            device = module.device("cpu")
        case "cupy":
            if not module.cuda.is_available():
                pytest.skip("cupy has no usable GPU here")
            # On the host there is a second device, which is not the current one.
            device = module.cuda.Device(1) if on_cupy_host(request.config) else module.cuda.Device()
        case "jax" | "jax-x64":
            before = module.config.jax_enable_x64
            module.config.update("jax_enable_x64", name == "jax-x64")
            yield Backend(name, resolve_library("jax", operator="conftest").namespace, None)
            module.config.update("jax_enable_x64", before)
            return
    yield Backend(name, resolve_library(BACKENDS[name], operator="conftest").namespace, device)


@pytest.fixture
def xp(backend: Backend) -> Any:
    """The array API namespace of a backend."""
    return backend.xp


@pytest.fixture
def device(backend: Backend) -> Any:
    """The device of a backend on which to test; not the default where there are several."""
    return backend.device
