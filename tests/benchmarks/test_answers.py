"""The results of every contender, beside those of NumPy."""

from itertools import pairwise

import numpy as np
import pytest

import seqarray as sa
from benchmarks import libraries
from benchmarks.cases import CASES
from benchmarks.libraries.base import JOINS
from benchmarks.libraries.seqarray import SeqArray, ways
from tests.benchmarks.helpers import ALL, SAME_SEQUENCE, made

#: The work that each contender does, by backend and name.
DOES = {
    ("numpy", "numpy"): ALL - {"upload", "model"},
    **{(backend, "seqarray"): ALL - set(JOINS) for backend in libraries.BACKENDS},
    **{(backend, "seqarray, list"): set(JOINS) for backend in libraries.BACKENDS},
    **{(backend, "seqarray, construct + join"): set(JOINS) for backend in libraries.BACKENDS},
    **{(backend, "seqarray, all taken"): {"split", "split_views"} for backend in libraries.BACKENDS},
    **{
        key: ALL - {"append", "push_and_pop", "window", "upload", "model"}
        for key in (("numpy", "torch"), ("torch", "torch"), ("cupy", "torch (CUDA)"))
    },
    **{
        ("numpy", name): {"concat", "stack", "split", "round_trip", "append", "at", "model"}
        for name in ("onnxruntime", "onnx-reference")
    },
    ("numpy", "awkward"): {"unpack", "pack", "pad"},
    ("numpy", "ragged"): {"unpack"},
    ("numpy", "npstructures"): {"unpack", "pack"},
    **{(backend, "torch.nested"): {"unpack", "pack", "pad"} for backend in ("numpy", "torch")},
    **{(backend, "fbgemm"): {"pad", "unpad"} for backend in ("numpy", "torch")},
    ("cupy", "cupy"): {"concat", "stack", "split", "split_views", "rejoin", "rejoin_view", "at", "upload"},
    ("cupy", "cupy slices"): {"concat", "stack"},
    ("jax", "jax"): {"concat", "stack", "split", "at", "first_concat"},
    ("dask", "dask"): {"concat", "stack", "split"},
}


def contender_named(backend, name):
    """Return a contender; skip the test where it cannot be used."""
    library = libraries.BACKENDS[backend]
    (found,) = [one for one in (*ways(library), *libraries.PEERS[backend].values()) if one.name == name]
    for needed in (library, found):
        if missing := needed.missing():
            pytest.skip("cupy has no usable GPU here" if "GPU" in missing else f"{needed.name} is not installed")
    return found


def expected_of(work, arguments):
    """Return the answer of NumPy, written down once more."""
    match work:
        case "concat" | "concat_out" | "first_concat":
            return np.concatenate(*arguments)
        case "stack":
            return np.stack(*arguments)
        case "split" | "split_views":
            x, sizes, axis = arguments
            if sizes is None or isinstance(sizes, int):
                return np.split(x, range(sizes or 1, x.shape[axis], sizes or 1), axis)
            return np.split(x, np.cumsum(sizes)[:-1], axis)
        case "rejoin" | "rejoin_view" | "round_trip":
            return arguments[0]
        case "append":
            count, element = arguments
            return np.tile(element, count)
        case "at":
            return arguments[0][len(arguments[0]) // 2]
        case "upload" | "model":
            return arguments[0]
        case "unpack":
            values, offsets = arguments
            return [values[start:stop] for start, stop in pairwise(offsets)]
        case "pack":
            return list(arguments)
        case "pad":
            rows = expected_of("unpack", arguments)
            longest = max(map(len, rows))
            return np.stack([np.pad(row, [(0, longest - len(row)), (0, 0)]) for row in rows])
        case "unpad":
            return np.concatenate([row[:length] for row, length in zip(*arguments, strict=True)])
    raise AssertionError(f"what is the answer of {work}?")


def assert_answers(actual, expected):
    assert isinstance(actual, list) == isinstance(expected, list)
    if not isinstance(expected, list):
        np.testing.assert_array_equal(actual, expected, strict=True)
        return
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


ANSWERS = [
    pytest.param(backend, name, case, id=f"{backend}-{name}-{case.name}")
    for backend, name in DOES
    for case in CASES
    if case.runs_on(backend)
    and case.work in DOES[backend, name]
    and case.work not in SAME_SEQUENCE
    and next(iter(case.amounts.values()))[0] <= min(libraries.BACKENDS[backend].most_pieces, 10_000)
    and not (name == "jax" and case.work == "split" and next(iter(case.amounts.values()))[0] > 100)
]


@pytest.mark.parametrize(("backend", "name", "case"), ANSWERS)
def test_every_contender_gives_the_answer_of_numpy(backend, name, case):
    library = contender_named(backend, name)
    arguments = made(case, next(iter(case.sizes)))
    result = getattr(library, case.work)(*arguments)()
    library.finish(result)
    assert_answers(library.host(result), expected_of(case.work, arguments))


FORMS_OF_SIZES = [None, 1, 2, 4, [2, 1, 0, 3], np.asarray([1, 5])]


@pytest.mark.parametrize(("backend", "name"), DOES, ids=lambda value: value)
def test_every_form_of_sizes_gives_the_answer_of_numpy(backend, name):
    library = contender_named(backend, name)
    inputs = [(np.arange(12, dtype=np.float32).reshape(6, 2), 0), (np.arange(12, dtype=np.float32).reshape(2, 6, 1), 1)]
    for work in sorted(DOES[backend, name] & {"split", "split_views", "rejoin", "rejoin_view", "round_trip"}):
        for x, axis in inputs:
            for sizes in FORMS_OF_SIZES:
                result = getattr(library, work)(x, sizes, axis)()
                library.finish(result)
                assert_answers(library.host(result), expected_of(work, (x, sizes, axis)))


@pytest.mark.parametrize(("backend", "name"), DOES, ids=lambda value: value)
def test_a_contender_does_not_claim_work_that_it_cannot_do(backend, name):
    library = contender_named(backend, name)
    for work in ALL - DOES[backend, name]:
        (case, *_) = [case for case in CASES if case.work == work]
        arguments = made(case, next(iter(case.sizes)))
        assert getattr(library, work)(*arguments) is None


def test_uploading_in_one_piece_gives_every_row():
    (case,) = [case for case in CASES if case.name == "upload"]
    (arrays,) = made(case, "300 rows")
    library = SeqArray(libraries.BACKENDS["numpy"])
    assert_answers(library.host(library.upload(arrays)()), arrays)


@pytest.mark.parametrize("name", ["numpy", "seqarray"])
def test_pushing_and_popping_can_be_repeated(name, count_calls):
    library = contender_named("numpy", name)
    inserted, erased = (count_calls(sa, function) for function in ("sequence_insert", "sequence_erase"))
    work = library.push_and_pop(10, np.ones(3, np.float32))
    work()
    work()
    assert (len(inserted), len(erased)) == ((1_000, 1_000) if name == "seqarray" else (0, 0))


@pytest.mark.parametrize("name", ["numpy", "seqarray"])
def test_the_window_can_be_moved_again(name, count_calls):
    library = contender_named("numpy", name)
    inserted, erased = (count_calls(sa, function) for function in ("sequence_insert", "sequence_erase"))
    work = library.window(10, np.ones(3, np.float32))
    assert len(work()) == len(work()) == 10
    assert (len(inserted), len(erased)) == ((2_000, 2_000) if name == "seqarray" else (0, 0))


@pytest.mark.parametrize("work", ["split_views", "rejoin_view"])
def test_what_is_said_to_copy_nothing_is_in_the_memory_of_the_input(work):
    x = np.ones((6, 2), np.float32)
    result = getattr(contender_named("numpy", "seqarray"), work)(x, 2, 0)()
    assert all(np.shares_memory(array, x) for array in result)


@pytest.mark.parametrize("name", ["seqarray", "awkward", "npstructures", "torch.nested"])
def test_rows_of_values_and_offsets_are_in_the_memory_of_the_values(name):
    library, values = contender_named("numpy", name), np.ones((6, 4), np.float32)
    packed, _ = library.pack(values, np.asarray([0, 2, 2, 6]))()
    assert np.shares_memory(np.asarray(packed), values)


@pytest.mark.parametrize("name", ["seqarray, construct + join", "seqarray, list", "numpy", "torch"])
def test_a_result_with_out_is_written_each_time_into_memory_of_its_own(name):
    library, arrays = contender_named("numpy", name), [np.ones((2, 3), np.float32)] * 2
    first, second = library.concat_out(arrays, 0), library.concat_out(arrays, 0)
    result = first()
    assert np.shares_memory(np.asarray(result), np.asarray(first()))
    assert not np.shares_memory(np.asarray(result), np.asarray(second()))
    result[:] = 0
    np.testing.assert_array_equal(np.asarray(first()), np.ones((4, 3), np.float32))


@pytest.mark.parametrize("work", JOINS)
def test_a_sequence_is_made_for_every_join(work, count_calls):
    made_anew, joined = (count_calls(sa, name) for name in ("sequence_construct", "concat_from_sequence"))
    arrays = [np.ones((2, 3), np.float32)] * 2
    for name in ("seqarray, list", "seqarray, construct + join"):
        join = getattr(contender_named("numpy", name), work)(arrays, 0)
        join(), join()
    assert len(made_anew) == 2
    lists, sequences = [given for (given,) in joined[:2]], [given for (given,) in joined[2:]]
    assert [type(given) for given in lists] == [list, list]
    assert [type(given) for given in sequences] == [sa.ArraySequence] * 2
    assert sequences[0] is not sequences[1]


@pytest.mark.parametrize(
    "work", sorted(ALL - SAME_SEQUENCE - {"split_views", "rejoin_view", "upload", "unpack", "pack", "first_concat"})
)
def test_no_contender_gets_the_same_memory_twice(work):
    # With copy=None a split or an element would cost nothing, and the comparison would be none.
    case = next(case for case in CASES if case.work == work)
    arguments = made(case, next(iter(case.sizes)))
    inputs = arguments[0] if isinstance(arguments[0], list) else [a for a in arguments if isinstance(a, np.ndarray)]
    for name in ("seqarray", "seqarray, list", "seqarray, construct + join", "numpy"):
        if work not in DOES["numpy", name]:
            continue
        result = getattr(contender_named("numpy", name), work)(*arguments)()
        for array in result if isinstance(result, (list, sa.ArraySequence)) else [result]:
            assert not any(np.shares_memory(array, given) for given in inputs)
