"""Recognising array libraries and devices."""

import importlib
import subprocess
import sys
from typing import Any

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from tests.helpers import library_of

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
        namespace = sa.ArraySequence([array]).namespace
        assert namespace is backend.xp
        assert namespace is array_api_compat.array_namespace(array)
    assert library_of(namespace) == LIBRARIES[backend.name]


def test_a_namespace_is_found_by_its_names_and_modules(backend):
    name = LIBRARIES[backend.name]
    for xp in (name, importlib.import_module(name), backend.xp, backend.xp.__name__):
        assert sa.sequence_empty(xp=xp).namespace is backend.xp
    assert sa.sequence_empty(xp=None).namespace is None


def test_what_is_not_a_namespace():
    import math

    for xp in (3, True, object(), np.ones(1), math, "math", "no_such_library", "", "numpy.nothing"):
        with pytest.raises((TypeError, ImportError), match=r"^sequence_empty: xp is "):
            sa.sequence_empty(xp=xp)


@pytest.mark.parametrize("value", [1, 1.0, "text", None, [1], (), {}, object(), np, np.dtype("f4")], ids=repr)
def test_what_is_not_an_array(value):
    for _ in range(2):
        with pytest.raises(TypeError, match="is not an array"):
            sa.ArraySequence([value])


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_arrays_without_plain_memory_are_not_supported():
    for value in (np.ma.masked_array([1]), np.matrix([[1]])):
        for _ in range(2):
            with pytest.raises(TypeError, match="plain dense array"):
                sa.ArraySequence([value])
    assert sa.ArraySequence([np.ones(1)]).namespace.__name__ == "array_api_compat.numpy"


class Metres(np.ndarray):
    """An array with rules of its own for joining, as of units or masks."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise AssertionError("lengths have to be converted")


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: sa.ArraySequence([m]),
        lambda m, x: sa.ArraySequence([x, m]),
        lambda m, x: sa.sequence_construct(x, m),
        lambda m, x: sa.sequence_construct(m, m, copy=True),
        lambda m, x: sa.sequence_insert([x], m),
        lambda m, x: sa.sequence_insert(sa.sequence_empty("float64"), m),
        lambda m, x: sa.sequence_at([m], 0),
        lambda m, x: sa.concat_from_sequence([m, m], axis=0),
        lambda m, x: sa.concat_from_sequence([x, m], axis=0, new_axis=1),
        lambda m, x: sa.split(m, [1, 2]),
        lambda m, x: sa.split_to_sequence(m, 2, copy=None),
        lambda m, x: sa.sequence_map([x], m, body=lambda a, b: a),
        lambda m, x: sa.sequence_map([x], body=lambda a: m),
        lambda m, x: sa.opset.run("SequenceConstruct", [m], opset=11),
        lambda m, x: sa.testing.to_numpy(m),
    ],
)
def test_numpy_arrays_with_rules_of_their_own_are_refused_at_every_entrance(call):
    x = np.arange(3.0)
    with pytest.raises(TypeError, match=r" must be an array: .*Metres has rules of its own for joining and splitting"):
        call(x.view(Metres), x)


def test_the_result_is_not_written_into_one_either():
    x = np.arange(3.0)
    with pytest.raises(TypeError, match=r"out is of type Metres; expected an array of numpy"):
        sa.concat_from_sequence([x], axis=0, out=np.zeros(3).view(Metres))
    with pytest.raises(TypeError, match=r"split is .*Metres.*; expected an integer"):
        sa.split(x, np.asarray([1, 2]).view(Metres))


def test_numpy_subclasses_without_such_rules_are_arrays(tmp_path):
    plain = np.arange(6.0)
    mapped = np.memmap(tmp_path / "numbers", plain.dtype, "w+", shape=plain.shape)
    mapped[:] = plain
    records = np.rec.fromarrays([np.arange(3), np.ones(3)], names="a,b")
    for array in (mapped, records):
        sequence = sa.split_to_sequence(array, 2)
        joined = sa.concat_from_sequence(sequence, axis=0)
        assert type(joined) is np.ndarray
        assert joined.tolist() == array.tolist()
        assert sa.concat_from_sequence([array[:1], array[1:]], axis=0).tolist() == array.tolist()
    out = np.memmap(tmp_path / "result", plain.dtype, "w+", shape=plain.shape)
    assert sa.concat_from_sequence([plain[:2], plain[2:]], axis=0, out=out) is out
    assert out.tolist() == plain.tolist()


def test_the_device_of_an_array(backend, array):
    device = sa.ArraySequence([array]).device
    assert device == array_api_compat.device(array)
    assert sa.ArraySequence([array, backend.array(np.ones(3, np.float32))]).device == device
    assert sa.sequence_empty(xp=backend.xp, device=device).device == device
    assert sa.sequence_empty(device=None).device is None


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
        xp = sa.sequence_empty(xp=library).namespace
        assert sa.sequence_empty(xp=xp, device=name).device == make(xp)
        assert sa.sequence_empty(xp=xp, device=make(xp)).device == make(xp)


def test_a_device_that_the_library_has_not(backend):
    with pytest.raises(ValueError, match=r"^sequence_empty: .*nowhere"):
        sa.sequence_empty(xp=backend.xp, device="nowhere")


def arrays_on(recorder, *devices):
    """Make arrays of one library whose devices these are."""

    class Placed(type(recorder.array(2))):
        def __init__(self, device):
            super().__init__(recorder.array(2).inner)
            self._device = device

        device = property(lambda self: self._device)

    return [Placed(device) for device in devices]


def test_an_unknown_device_agrees_with_every_other(recorder):
    for devices in ((None, "cpu"), ("cpu", None), (None, None)):
        assert len(sa.ArraySequence(arrays_on(recorder, *devices))) == 2
    with pytest.raises(ValueError, match="element 1 is on device cuda"):
        sa.ArraySequence(arrays_on(recorder, "cpu", "cuda"))


def test_devices_need_not_be_hashable(recorder):
    class Device:
        __hash__ = None

        def __init__(self, number: int) -> None:
            self.number = number

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Device) and self.number == other.number

    assert sa.ArraySequence(arrays_on(recorder, Device(1), Device(1))).device == Device(1)
    with pytest.raises(ValueError, match="element 1 is on device"):
        sa.ArraySequence(arrays_on(recorder, Device(0), Device(1)))


def test_the_body_of_a_map_makes_its_arrays_on_the_device_of_the_elements(backend, array):
    def body(element):
        return backend.xp.asarray(1.0, dtype=element.dtype, device=backend.device)

    sequence = sa.ArraySequence([array])
    assert sa.sequence_map(sequence, body=body).device == sequence.device


def test_which_arrays_are_lazy(backend, array):
    position = backend.array(np.asarray(0, np.int32))
    if backend.name == "dask":
        with pytest.raises(TypeError, match="host integer"):
            sa.sequence_at([array], position)
    else:
        assert sa.sequence_at([array], position).shape == array.shape


def test_traced_and_meta_arrays_are_lazy():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(TypeError, match="host integer"):
        jax.jit(lambda position: sa.sequence_at([np.ones(1)], position))(np.int32(0))
    with pytest.raises(TypeError, match="host integer"):
        sa.sequence_at([np.ones(1)], torch.zeros((), dtype=torch.int64, device="meta"))
    assert sa.sequence_at([np.ones(1)], torch.zeros((), dtype=torch.int64)).tolist() == [1]


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


def test_threads_that_meet_a_library_at_once_agree_about_it():
    program = """
import threading
import array_api_strict as xp
import seqarray as sa

arrays = [xp.ones(2) for _ in range(16)]
made, barrier = [], threading.Barrier(16)

def make(array):
    barrier.wait()
    made.append(sa.ArraySequence([array]))

threads = [threading.Thread(target=make, args=(array,)) for array in arrays]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
for sequence in made:
    for array in arrays:
        sa.sequence_insert(sequence, array)
print(len(made))
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("16\n", "")
