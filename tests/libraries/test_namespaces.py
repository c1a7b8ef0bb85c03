"""Recognising array libraries and devices."""

import importlib
import subprocess
import sys
from typing import Any

import array_api_compat
import numpy as np
import pytest

from seqarray._libraries import (
    as_device,
    device_of,
    entering,
    is_lazy,
    library_of,
    namespace_name,
    namespace_of,
    resolve_namespace,
    same_device,
)

LIBRARIES = {
    "numpy": "numpy",
    "array-api-strict": "array_api_strict",
    "torch": "torch",
    "jax": "jax",
    "jax-x64": "jax",
    "dask": "dask",
    "cupy": "cupy",
}


@pytest.fixture
def array(backend: Any) -> Any:
    return backend.array(np.ones(2, np.float32))


def test_the_namespace_of_an_array(backend, array):
    for _ in range(2):
        assert namespace_of(array) is backend.xp
        assert namespace_of(array) is array_api_compat.array_namespace(array)
    assert library_of(namespace_of(array)) == LIBRARIES[backend.name]


def test_a_namespace_is_found_by_its_names_and_modules(backend):
    name = LIBRARIES[backend.name]
    for xp in (name, importlib.import_module(name), backend.xp, namespace_name(backend.xp)):
        assert resolve_namespace(xp, operator="here") is backend.xp
    assert resolve_namespace(None, operator="here") is None


def test_what_is_not_a_namespace():
    import math

    for xp in (3, True, object(), np.ones(1), math, "math", "no_such_library", "", "numpy.nothing"):
        with pytest.raises((TypeError, ImportError), match=r"^here: xp is "):
            resolve_namespace(xp, operator="here")


@pytest.mark.parametrize("value", [1, 1.0, "text", None, [1], (), {}, object(), np, np.dtype("f4")], ids=repr)
def test_what_is_not_an_array(value):
    for _ in range(2):
        with pytest.raises(TypeError, match="is not an array"):
            namespace_of(value)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_arrays_without_plain_memory_are_not_supported():
    for value in (np.ma.masked_array([1]), np.matrix([[1]])):
        for _ in range(2):
            with pytest.raises(TypeError, match="plain dense array"):
                namespace_of(value)
    assert namespace_of(np.ones(1)).__name__ == "array_api_compat.numpy"


def test_the_device_of_an_array(backend, array):
    device = device_of(array)
    assert device == array_api_compat.device(array)
    assert same_device(device, device_of(backend.array(np.ones(3, np.int8))))
    assert as_device(backend.xp, device, operator="here") == device
    assert as_device(backend.xp, None, operator="here") is None


def test_devices_go_by_their_names():
    for library, name, make in (
        ("torch", "cpu", lambda xp: xp.device("cpu")),
        ("torch", "meta", lambda xp: xp.device("meta")),
        ("array_api_strict", "device1", lambda xp: xp.Device("device1")),
        ("jax", "cpu", lambda xp: importlib.import_module("jax").devices("cpu")[0]),
        ("jax", "cpu:0", lambda xp: importlib.import_module("jax").devices("cpu")[0]),
        ("dask", "cpu", lambda xp: "cpu"),
        ("numpy", "cpu", lambda xp: "cpu"),
    ):
        pytest.importorskip(library, reason=f"{library} is not installed")
        xp = resolve_namespace(library, operator="here")
        assert as_device(xp, name, operator="here") == make(xp)
        assert as_device(xp, make(xp), operator="here") == make(xp)


def test_a_device_that_the_library_has_not(backend):
    with pytest.raises(ValueError, match=r"^here: .*nowhere"):
        as_device(backend.xp, "nowhere", operator="here")


def test_an_unknown_device_agrees_with_every_other():
    assert same_device(None, "cpu")
    assert same_device("cpu", None)
    assert same_device(None, None)
    assert not same_device("cpu", "cuda")


def test_devices_need_not_be_hashable():
    class Device:
        __hash__ = None

        def __init__(self, number: int) -> None:
            self.number = number

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Device) and self.number == other.number

    assert same_device(Device(1), Device(1))
    assert not same_device(Device(0), Device(1))


def test_entering_a_device_is_allowed_everywhere(backend, array):
    with entering(backend.xp, device_of(array)):
        assert device_of(backend.xp.asarray(1.0, dtype=array.dtype, device=backend.device)) == device_of(array)


def test_which_arrays_are_lazy(backend, array):
    assert is_lazy(array) == (backend.name == "dask")


def test_traced_and_meta_arrays_are_lazy():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    seen = []
    jax.jit(lambda x: seen.append(is_lazy(x)))(jax.numpy.ones(1))
    assert seen == [True]
    assert is_lazy(torch.ones(1, device="meta"))
    assert not is_lazy(torch.ones(1))


def test_arrays_of_a_library_seen_for_the_first_time_are_recognised():
    """Look-ups that failed before a library was imported must not be remembered."""
    program = (
        "import numpy as np, seqarray as sa\n"
        "try: sa.ArraySequence([object()])\n"
        "except TypeError: pass\n"
        "import array_api_strict as xp\n"
        "print(sa.ArraySequence([xp.ones(2)]))"
    )
    pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("<ArraySequence of 1 float64 array, array_api_strict on "), done.stderr
