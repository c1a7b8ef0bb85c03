"""Elements by a list or an array of positions, or by a mask; and indices that are none."""

import pickle

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal
from tests.sequence.forms import FORMS, assert_holds, each_library, held

POSITIONS = [[2, 0], [-1, 1, 1, -2], [0], [], [np.int8(1), 0]]
MASK = [True, False, True, True]


@each_library
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_elements_by_positions(backend, form, positions):
    sequence, expected = form(backend)
    count = len(expected)
    positions = [place % count - count * (place < 0) for place in positions] if expected else []
    chosen = [expected[place] for place in positions]
    assert_holds(sequence[positions], chosen, backend)
    assert_holds(sequence[np.asarray(positions, np.int16)], chosen, backend)
    assert_holds(sequence[positions][::-1], chosen[::-1], backend)
    assert sequence[positions].device == sequence.device


@each_library
@pytest.mark.parametrize("form", FORMS)
def test_elements_by_a_mask(backend, form):
    sequence, expected = form(backend)
    mask = [place % 3 != 1 for place in range(len(expected))]
    chosen = [array for array, wanted in zip(expected, mask, strict=True) if wanted]
    assert_holds(sequence[mask], chosen, backend)
    assert_holds(sequence[np.asarray(mask, bool)], chosen, backend)
    assert_holds(sequence[[np.bool_(wanted) for wanted in mask]], chosen, backend)
    assert_holds(sequence[[False] * len(expected)], [], backend)


@pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "cupy")
def test_positions_and_masks_may_be_arrays_of_the_library(backend):
    sequence, expected = held(backend)
    assert_holds(sequence[backend.array(np.asarray([3, -4], np.int32))], [expected[3], expected[0]], backend)
    assert_holds(sequence[backend.array(np.asarray(MASK))], [expected[0], *expected[2:]], backend)


def test_the_values_of_a_lazy_array_are_not_computed():
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    sequence = sa.ArraySequence([np.zeros(1), np.zeros(2)])
    for index in (da.asarray([1, 0]), da.asarray([True, False]), da.asarray(1)):
        with pytest.raises(TypeError, match=r"^ArraySequence: index is .*not known yet"):
            sequence[index]


def test_no_element_is_copied_or_viewed():
    arrays = [np.full(n % 3, n) for n in range(400)]
    sequence = sa.ArraySequence(arrays)
    order = np.random.default_rng(1).permutation(400)
    assert all(element is arrays[place] for element, place in zip(sequence[order], order, strict=True))
    x = np.arange(3000)
    chosen = sa.split_to_sequence(x, 3, copy=None)[order]
    assert chosen.nbytes_held == x.nbytes
    assert chosen[7].base is not None
    assert np.shares_memory(chosen[7], x)
    assert len(chosen._blocks) == 1


@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_chosen_is_joined_pickled_and_chosen_from(backend, copy, axis):
    values = (
        np.arange(80, dtype=np.float32).reshape(20, 4) if axis == 0 else np.arange(80, dtype=np.float32).reshape(4, 20)
    )
    sequence = sa.split_to_sequence(backend.array(values), [3, 0, 4, 6, 7], axis=axis, copy=copy)
    chunks = np.split(values, [3, 3, 7, 13], axis)
    for places in ([4, 0, 2], [2, 3, 4], [1, 1, 0], [3, 2, 2, 3]):
        chosen, expected = sequence[places], [chunks[place] for place in places]
        assert_arrays_equal(sa.concat_from_sequence(chosen, axis=axis), backend.array(np.concatenate(expected, axis)))
        assert_holds(pickle.loads(pickle.dumps(chosen)), expected, backend)
        assert_holds(
            chosen[[True, False] + [True] * (len(places) - 2)][::-1], [*expected[:1], *expected[2:]][::-1], backend
        )
        assert_holds(sa.sequence_insert(chosen, chosen[0], 1), [expected[0], *expected], backend)


MISTAKES = {
    "a bool": (True, TypeError, r"index is True \(bool\)"),
    "a NumPy bool": (np.True_, TypeError, "index has dtype bool"),
    "an array of one bool": (np.asarray(True), TypeError, "index has dtype bool"),
    "a float": (1.0, TypeError, r"index is 1\.0 \(float\); expected an integer, a slice, or a list"),
    "text": ("1", TypeError, "index is '1'"),
    "a tuple": ((0, 0), TypeError, r"index is \(0, 0\)"),
    "nothing": (None, TypeError, "index is None"),
    "a float in a list": ([0, 1.0], TypeError, r"index\[1\] is 1\.0"),
    "a bool among integers": ([0, True], TypeError, r"index\[1\] is True"),
    "floats": (np.asarray([0.0]), TypeError, "index has dtype float64"),
    "a matrix": (np.zeros((2, 2), int), ValueError, r"index .*shape \(2, 2\)"),
    "out of range": ([0, 4], IndexError, r"index\[1\] is 4, .*\b4 elements"),
    "out of range below": (np.asarray([-5]), IndexError, r"index\[0\] is -5"),
    "a short mask": ([True], IndexError, r"index is a mask of 1 bools; the sequence has 4"),
    "a slice to a float": (slice(0, 1.0), TypeError, r"stop of the slice is 1\.0"),
    "a slice from a bool": (slice(True, None), TypeError, "start of the slice is True"),
    "a slice with text": (slice(None, None, "1"), TypeError, "step of the slice is '1'"),
    "a slice that stays": (slice(None, None, 0), ValueError, "step of the slice is 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_no_index(mistake):
    index, error, message = MISTAKES[mistake]
    sequence = sa.ArraySequence([np.zeros(n) for n in range(4)])
    with pytest.raises(error, match=f"^ArraySequence: {message}"):
        sequence[index]
