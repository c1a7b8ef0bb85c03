"""The backends on which the tests run, and the rule that every skip explains itself."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.elementtypes import can_hold
from seqarray.namespaces import resolve_namespace

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

#: Reasons for which a test may be skipped when every backend has to be there.
EXPLAINED_SKIPS = (
    r"\S+ cannot hold \S+",
    r"cupy has no usable GPU here",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", action="append", choices=sorted(BACKENDS), help="test this backend only (may be given repeatedly)"
    )
    parser.addoption(
        "--strict-skips", action="store_true", help="fail on a missing backend, and on every skip that is not explained"
    )
    parser.addoption(
        "--standard-only", action="store_true", help="test without the engines: copying/standard.py does all the work"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "engine: tests what an engine adds to copying/standard.py")
    if config.getoption("--standard-only"):
        from seqarray import copying

        copying.ENGINES.clear()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--standard-only"):
        kept = [item for item in items if item.get_closest_marker("engine") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.config.getoption("--strict-skips"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not any(re.fullmatch(pattern, reason) for pattern in EXPLAINED_SKIPS):
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
        return can_hold(self.xp, element_type, self.device)

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
    if wanted and name not in wanted:
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
            device = module.cuda.Device()
        case "jax" | "jax-x64":
            before = module.config.jax_enable_x64
            module.config.update("jax_enable_x64", name == "jax-x64")
            yield Backend(name, resolve_namespace("jax", operator="conftest"), None)
            module.config.update("jax_enable_x64", before)
            return
    yield Backend(name, resolve_namespace(BACKENDS[name], operator="conftest"), device)


@pytest.fixture
def xp(backend: Backend) -> Any:
    """The array API namespace of a backend."""
    return backend.xp


@pytest.fixture
def device(backend: Backend) -> Any:
    """The device of a backend on which to test; not the default where there are several."""
    return backend.device
