"""Short runs of the fuzzers; `python -m tests.fuzz` runs them for long."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import seqarray as sa
from tests.fuzz.fuzzers import FUZZERS, Histories
from tests.fuzz.memory import growth

#: Cases of a run, of libraries on which an operation takes long.
SLOW = {"dask": 60, "jax": 100, "jax-x64": 100}


@pytest.mark.parametrize("name", ["operators", "edits"])
def test_operators_agree_with_lists_of_numpy_arrays(backend, name):
    if name == "edits" and backend.name in SLOW:
        name = "operators"  # their arrays are immutable: other histories
    FUZZERS[name](backend, 1, SLOW.get(backend.name, 800))


@pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")
def test_every_error_names_its_operator(backend):
    FUZZERS["arguments"](backend, 5, 1500)


@pytest.mark.backends("numpy", "array-api-strict", "torch", "cupy")
def test_operators_agree_on_what_was_pickled(backend):
    FUZZERS["pickles"](backend, 3, 300)


@pytest.mark.backends("numpy")
def test_operators_agree_in_threads_and_recycled_memory(backend):
    FUZZERS["threads"](backend, 2, 1500)


def test_a_fuzzer_notices_a_wrong_value(backend):
    history = Histories(backend, 4, edits=False)
    array, model = history.arrays(np.ones(3, np.float32))
    with pytest.raises(AssertionError):
        history.add(sa.ArraySequence([array]), [model + 1])


@pytest.mark.backends("numpy", "torch", "array-api-strict", "cupy")
def test_operations_leave_no_objects_behind(backend):
    assert growth(backend, 3000).objects < 100


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("operators", 50),
        # In a process of its own: jax, where it is loaded, does not like forks.
        pytest.param("forks", 400, marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")),
    ],
)
def test_the_command_runs_a_fuzzer(name, cases):
    command = [sys.executable, "-m", "tests.fuzz", name, "--cases", str(cases), "--seed", "7"]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=root)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{name} on numpy: {cases} cases")
