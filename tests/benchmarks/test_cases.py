"""The cases: names, inputs and amounts of work."""

import re
from itertools import pairwise

import numpy as np
import pytest

from benchmarks import libraries, running
from benchmarks.cases import CASES, floats
from benchmarks.libraries.base import Library
from tests.benchmarks.helpers import made


def test_inputs_are_random():
    rng = np.random.default_rng(0)
    for shape in ((5,), (1024, 1024)):
        drawn = floats(rng, *shape)
        assert (drawn.shape, drawn.dtype) == (shape, np.float32)
        assert len(np.unique(drawn[:5])) >= 5


#: The least of a case's bytes that is not made here: it would take long, and more memory than a small machine has.
LARGE = 100 << 20


def amount_of(work, arguments):
    """Return the pieces of some work's inputs, and the bytes of new memory in its result."""
    match work:
        case "concat" | "stack" | "concat_out" | "first_concat":
            arrays, _ = arguments
            return len(arrays), sum(array.nbytes for array in arrays)
        case "upload":
            (arrays,) = arguments
            return len(arrays), sum(array.nbytes for array in arrays)
        case "split" | "split_views" | "rejoin" | "rejoin_view" | "round_trip":
            x, sizes, axis = arguments
            nbytes = 0 if "view" in work else x.nbytes
            if sizes is None or isinstance(sizes, int):
                chunks, rest = divmod(x.shape[axis], sizes or 1)
                assert rest == 0
                return chunks, nbytes
            assert sum(sizes) == x.shape[axis]
            return len(sizes), nbytes
        case "append":
            count, element = arguments
            return count, count * element.nbytes
        case "push_and_pop" | "window":
            return arguments[0], 0
        case "at":
            (arrays,) = arguments
            return 1, arrays[len(arrays) // 2].nbytes
        case "unpack" | "pack":
            values, offsets = arguments
            assert (offsets[0], offsets[-1]) == (0, len(values))
            return len(offsets) - 1, 0
        case "pad":
            values, offsets = arguments
            return len(offsets) - 1, (len(offsets) - 1) * int(np.diff(offsets).max()) * values[:1].nbytes
        case "unpad":
            padded, lengths = arguments
            assert lengths.max() == padded.shape[1]
            return len(lengths), int(lengths.sum()) * padded[0, :1].nbytes
        case "model":
            answer, _, inputs = arguments
            return int(inputs.get("count", 5)), answer.nbytes
    raise AssertionError(f"what is the amount of {work}?")


SMALLER = [(case, size) for case in CASES for size in case.sizes if case.amounts[size][1] < LARGE]


@pytest.mark.parametrize(("case", "size"), SMALLER, ids=[f"{case.name}-{size}" for case, size in SMALLER])
def test_amounts_are_those_of_the_real_inputs(case, size):
    assert case.amounts[size] == amount_of(case.work, made(case, size))


def test_names_of_cases_are_unique_and_can_be_typed():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z0-9-]+", name) for name in names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_declared_without_slips(case):
    assert case.title
    assert hasattr(Library, case.work)
    assert list(case.amounts) == list(case.sizes)
    assert case.quick
    assert set(case.quick) <= set(case.sizes)
    assert set(case.gpu_sizes) <= set(case.sizes) - set(case.quick)
    assert set(case.backends) <= set(libraries.BACKENDS)
    assert case.plot_by in ("", "bytes", "pieces", "growth")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_work_grows_with_the_sizes(case):
    work = [running.Task(case, size, "numpy").work for size in case.sizes]
    # Some have several forms of an argument as their sizes.
    same_amounts = len(set(case.amounts.values())) == 1
    assert all(smaller < larger or same_amounts for smaller, larger in pairwise(work))


def test_quick_has_every_case_that_a_backend_can_do():
    chosen = running.tasks("*", ["numpy"], quick=True)
    assert {task.case.name for task in chosen} == {case.name for case in CASES if case.runs_on("numpy")}
    assert all(task.size in task.case.quick for task in chosen)


def test_tasks_are_those_that_match():
    names = {task.case.name for task in running.tasks("concat-a*,at", ["numpy", "torch"], quick=False)}
    assert names == {"concat-axis0", "concat-axis1", "at"}
    assert running.tasks("nothing", ["numpy"], quick=False) == []
    (upload,) = running.tasks("upload", ["numpy", "cupy"], quick=True)
    assert upload.backend == "cupy"


def test_sizes_for_a_gpu_are_left_to_it():
    on_the_cpu = running.tasks("concat-ragged", ["numpy"], quick=False)
    on_a_gpu = running.tasks("concat-ragged", ["cupy"], quick=False)
    assert [task.size for task in on_the_cpu] == ["16 MiB", "256 MiB"]
    assert [task.size for task in on_a_gpu] == ["16 MiB", "256 MiB", "1024 MiB"]
