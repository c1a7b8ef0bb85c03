"""The backends on which the tests run, and the rule that every skip explains itself."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqarray as sa

# Doctests are collected by importing, and these modules need their libraries.
collect_ignore = [
    f"seqarray/_engines/{name}.py" for name in ("cupy", "jax", "torch") if not importlib.util.find_spec(name)
]

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

#: Test modules about one library, and the backends with which they are collected where `--backend` chooses some.
ABOUT_ONE_LIBRARY = {
    "test_torch.py": {"torch"},
    "test_jax.py": {"jax", "jax-x64"},
    "test_dask.py": {"dask"},
    "test_dask_collection.py": {"dask"},
    "test_cluster.py": {"dask"},
    "test_kernel_rig.py": {"cupy"},
    "test_nvrtc.py": {"cupy"},
}

#: Fixtures that are a library: tests that take one are not run where `--backend` chooses none of these.
LIBRARY_FIXTURES = {"torch": {"torch"}, "jax": {"jax", "jax-x64"}, "dask": {"dask"}}

#: Reasons for which a test may be skipped when every backend has to be there.
EXPLAINED_SKIPS = (
    r"\S+ cannot hold \S+",
    r"cupy has no usable GPU here",
    r"nvcc is not installed",
    r"(fbgemm|npstructures|ragged) is not installed",  # what benchmarks alone have to do with
    r"there is a GPU",
)

#: Most lines of the summary of skips.
MOST_REASONS = 12

#: On cupy-host, what CuPy arrays cannot be of, and why: the only things that they may be skipped for.
CUPY_CANNOT_HOLD = {
    "string": "CuPy has neither text nor objects",
    "bytes": "CuPy has no bytes",
    r"float8_\w+": "CuPy makes no arrays of what it cannot compute with",
    r"(u?int[24]|float4_\w+)": "CuPy has no types below 8 bits",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        choices=sorted([*BACKENDS, CUPY_HOST]),
        help="test this backend only (may be given repeatedly; default: all that are installed); cupy-host is CuPy "
        "with g++ in place of a device, and leaves out the tests that have nothing to do with it",
    )
    parser.addoption(
        "--strict-skips",
        action="store_true",
        help="refuse to run where a backend is not installed, and fail on every skip that is not explained",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run the tests marked thorough too, and all the random cases of those that try some otherwise",
    )
    parser.addoption(
        "--standard-only", action="store_true", help="test without the engines: _engines/standard.py does all the work"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "backends(*names): runs on these of the chosen backends, not on all")
    config.addinivalue_line("markers", "engine: tests what an engine adds to _engines/standard.py")
    config.addinivalue_line(
        "markers", "cupy_host: needs CuPy on the host, which counts what it does; not run otherwise"
    )
    config.addinivalue_line(
        "markers", "thorough: takes long and depends on neither Python nor a library; run with --thorough only"
    )
    config.addinivalue_line("markers", "gpu: runs on a real device, and on CuPy on the host as far as that can")
    config.stash[CHOSEN] = chosen = Chosen(config.getoption("--backend"))
    if chosen.missing and (config.getoption("--backend") or config.getoption("--strict-skips")):
        raise pytest.UsageError(f"backends that are not installed: {', '.join(chosen.missing)}")
    if chosen.cupy_host:
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


class Chosen:
    """The backends on which the tests of this run are to run.

    Attributes
    ----------
    names : list of str
        Keys of BACKENDS.
    missing : list of str
        Those of the wanted backends that are not installed.
    without_gpu : bool
        Whether CuPy is installed, left to the default, and cannot be used.
    cupy_host : bool
        Whether CuPy runs without a device.
    """

    def __init__(self, wanted: list[str] | None) -> None:
        self.cupy_host = CUPY_HOST in (wanted or ())
        names = ["cupy" if name == CUPY_HOST else name for name in wanted or BACKENDS]
        installed = [name for name in BACKENDS if name in names and is_installed(BACKENDS[name])]
        # CuPy on the host says what it lacks in the tests that need it.
        self.missing = [name for name in BACKENDS if name in names and name not in installed and not self.cupy_host]
        self.without_gpu = not wanted and "cupy" in installed and not has_gpu()
        self.names = [name for name in installed if not (self.without_gpu and name == "cupy")]
        if self.cupy_host and "cupy" not in self.names:
            self.names.append("cupy")


CHOSEN = pytest.StashKey[Chosen]()


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def has_gpu() -> bool:
    """Return whether CuPy finds a device that it can use."""
    return bool(importlib.import_module("cupy").cuda.is_available())


def pytest_report_header(config: pytest.Config) -> str:
    chosen = config.stash[CHOSEN]
    names = [CUPY_HOST if chosen.cupy_host and name == "cupy" else name for name in chosen.names]
    notes = [f"not installed: {', '.join(chosen.missing)}"] if chosen.missing else []
    if chosen.without_gpu:
        notes.append("no usable GPU: cupy")
    if not config.getoption("--thorough"):
        notes.append("left to --thorough: tests that take long, and most random cases")
    return f"backends: {', '.join(names)}" + (f" ({'; '.join(notes)})" if notes else "")


def on_cupy_host(config: pytest.Config) -> bool:
    """Return whether the tests run on CuPy without a device."""
    return config.stash[CHOSEN].cupy_host


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    backends = ABOUT_ONE_LIBRARY.get(collection_path.name)
    wanted = config.getoption("--backend")
    return True if backends and wanted and backends.isdisjoint(wanted) else None


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what takes `backend` on the chosen backends, or on those of them that a mark names."""
    if "backend" not in metafunc.fixturenames or parametrize_of_backend(metafunc.definition):
        return
    names = metafunc.config.stash[CHOSEN].names
    if mark := metafunc.definition.get_closest_marker("backends"):
        names = [name for name in names if name in mark.args]
    metafunc.parametrize("backend", names, indirect=True)


def parametrize_of_backend(item: pytest.Item) -> pytest.Mark | None:
    """Return the mark by which a test says itself what its `backend` is."""
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        if "backend" in ([name.strip() for name in names.split(",")] if isinstance(names, str) else names):
            return mark
    return None


def runs_on_a_backend(item: pytest.Item) -> bool:
    """Return whether a test takes the fixture `backend`, not something else by that name."""
    if "backend" not in getattr(item, "fixturenames", ()):
        return False
    mark = parametrize_of_backend(item)
    return mark is None or bool(mark.kwargs.get("indirect"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen, asked = config.stash[CHOSEN], config.getoption("--backend")

    def wanted(item: pytest.Item) -> bool:
        if item.get_closest_marker("thorough") and not config.getoption("--thorough"):
            return False
        if config.getoption("--standard-only") and item.get_closest_marker("engine"):
            return False
        fixtures = getattr(item, "fixturenames", ())
        callspec = getattr(item, "callspec", None)
        backend = callspec.params.get("backend") if callspec else None
        if (runs_on_a_backend(item) or (asked and backend in BACKENDS)) and backend not in chosen.names:
            return False
        if asked and any(LIBRARY_FIXTURES[name].isdisjoint(asked) for name in LIBRARY_FIXTURES if name in fixtures):
            return False
        needs_cupy_host = item.get_closest_marker("cupy_host") is not None
        return (needs_cupy_host or backend in chosen.names) if chosen.cupy_host else not needs_cupy_host

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
    if not hasattr(report, "wasxfail"):
        fail_unless_explained(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    fail_unless_explained(report, collector.config)
    return report


def fail_unless_explained(report: Any, config: pytest.Config) -> None:
    """Make a failure of a skip, of a test or a module, whose reason is not accepted under `--strict-skips`."""
    if not report.skipped or not config.getoption("--strict-skips"):
        return
    reason = reason_of(report)
    accepted = EXPLAINED_SKIPS
    if on_cupy_host(config):
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


def reason_of(report: Any) -> str:
    """Return why a test or a module was skipped."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for which reason, in a few lines."""
    reports = [report for report in terminalreporter.stats.get("skipped", ()) if not hasattr(report, "wasxfail")]
    if not reports:
        return
    reasons = Counter(re.sub(r"cannot hold \S+", "cannot hold some element types", reason_of(r)) for r in reports)
    terminalreporter.section("skipped tests, by reason")
    for reason, count in reasons.most_common(MOST_REASONS):
        terminalreporter.line(f"{count:5} {reason}")
    if others := list(reasons.values())[MOST_REASONS:]:
        others = sorted(reasons.values())[: len(others)]
        terminalreporter.line(f"{sum(others):5} for {len(others)} other reasons (pytest -rs lists them)")


@dataclass(frozen=True)
class Backend:
    """An array library, and the device of it on which the tests run."""

    name: str
    xp: Any
    device: Any

    def holds(self, element_type: str) -> bool:
        """Return whether arrays of this backend can be of an element type."""
        try:
            sa.sequence_empty(element_type, xp=self.xp, device=self.device)
        except TypeError:
            return False
        return True

    def current(self) -> AbstractContextManager[Any]:
        """Return a context for expressions of arrays of the backend: CuPy computes on the current device only."""
        return self.device if self.name == "cupy" else nullcontext()

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Make an array of the backend with these values; skips the test where it cannot hold their type."""
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


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Every chosen backend in turn."""
    name = request.param
    if name == "cupy" and on_cupy_host(request.config):
        require_cupy_host()
    module = importlib.import_module(BACKENDS[name])
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
            yield Backend(name, namespace_of("jax"), None)
            module.config.update("jax_enable_x64", before)
            return
    yield Backend(name, namespace_of(BACKENDS[name]), device)


def namespace_of(name: str) -> Any:
    """Return the array API namespace of a library."""
    return sa.sequence_empty(xp=name).namespace


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether there is time for many random cases."""
    return bool(request.config.getoption("--thorough"))


@pytest.fixture
def xp(backend: Backend) -> Any:
    """The array API namespace of a backend."""
    return backend.xp


@pytest.fixture
def device(backend: Backend) -> Any:
    """The device of a backend on which to test; not the default where there are several."""
    return backend.device
