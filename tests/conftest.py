"""Settings of the property tests, and a namespace that writes down what is called on it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import seqarray as sa

if TYPE_CHECKING:
    from tests.cupy_host.counting import Counts


# The same examples in every run; how long one takes says nothing on a shared machine.
def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(
        "deterministic",
        max_examples=100 if config.getoption("--thorough") else 30,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    settings.load_profile("deterministic")


class Recorder:
    """An array namespace, array-api-strict inside, that notes every function called on it and every index taken."""

    __name__ = "recorder"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(array_api_strict, name)
        if isinstance(value, type) or not callable(value):
            return value

        @wraps(value)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            return _wrapped(value(*map(_unwrapped, args), **{k: _unwrapped(v) for k, v in kwargs.items()}))

        return recorded

    def __array_namespace_info__(self) -> Any:
        """What the namespace can hold: a question, which allocates nothing and is not noted."""
        return array_api_strict.__array_namespace_info__()

    def array(self, *shape: int, dtype: str = "float32", device: str = "device1") -> RecordedArray:
        """An array of this namespace; making it is not noted."""
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        inner = array_api_strict.asarray(
            values, dtype=getattr(array_api_strict, dtype), device=array_api_strict.Device(device)
        )
        return RecordedArray(inner)


RECORDER = Recorder()


class RecordedArray:
    """An array of the recording namespace."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __array_namespace__(self, *, api_version: str | None = None) -> Recorder:
        return RECORDER

    def __getitem__(self, key: Any) -> RecordedArray:
        RECORDER.calls.append("__getitem__")
        return RecordedArray(self.inner[key])

    def __index__(self) -> int:
        return int(self.inner)

    dtype = property(lambda self: self.inner.dtype)
    shape = property(lambda self: self.inner.shape)
    ndim = property(lambda self: self.inner.ndim)
    size = property(lambda self: self.inner.size)
    device = property(lambda self: self.inner.device)


def _unwrapped(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_unwrapped, value))
    return value.inner if isinstance(value, RecordedArray) else value


def _wrapped(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_wrapped, value))
    return RecordedArray(value) if isinstance(value, type(array_api_strict.empty(()))) else value


@pytest.fixture(scope="module", autouse=True)
def collects_what_is_new(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets the collector leave out what was there before, in the modules that import `gc`.

    A full collection looks at every object of every array library that has been imported, and the tests ask for many.
    """
    if getattr(request.module, "gc", None) is not gc:
        yield
        return
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A namespace, known to slice into arrays of its own, whose `calls` lists what has been called in the test."""
    library: Any = sa.sequence_empty(xp=RECORDER)._kind.library
    monkeypatch.setattr(library, "may_slice_into_others", False)
    RECORDER.calls.clear()
    return RECORDER


@pytest.fixture
def count_calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[tuple[Any, ...]]]:
    """Makes an attribute of a module or class list the arguments of its calls, which it passes on."""

    def count(owner: Any, name: str) -> list[tuple[Any, ...]]:
        function, calls = getattr(owner, name), []

        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            calls.append(args)
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)
        return calls

    return count


@pytest.fixture
def counting() -> Callable[[], AbstractContextManager[Counts]]:
    """Counts what CuPy does in a block, in tests that are marked `cupy_host`."""
    from tests.cupy_host.counting import counting

    return counting


@pytest.fixture
def without_device_work() -> Callable[[], AbstractContextManager[None]]:
    """Counts, but does not do, what is for the device in a block, in tests that are marked `cupy_host`."""
    from tests.cupy_host.counting import without_device_work

    return without_device_work
