"""Pickling and copying an `ArraySequence`."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal
from tests.sequence.forms import (
    EAGER,
    FORMS,
    MATRIX,
    MUTABLE,
    assert_holds,
    each_library,
    held,
    mended,
    split_into_views,
)


def pickled(sequence):
    return pickle.loads(pickle.dumps(sequence))


@each_library
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("duplicate", [pickled, copy.deepcopy, copy.copy])
def test_pickled_and_copied(backend, form, duplicate):
    sequence, expected = form(backend)
    for original, wanted in ((sequence, expected), (sequence[1:], expected[1:]), (sequence[::-2], expected[::-2])):
        again = duplicate(original)
        assert type(again) is sa.ArraySequence
        assert_holds(again, wanted, backend)
        assert again.element_type == original.element_type
        assert again.dtype == original.dtype
        assert again.namespace is original.namespace
        assert again.device == original.device
        assert again.shapes == original.shapes
        assert again.nbytes == original.nbytes
        grown = sa.sequence_insert(again, backend.array(MATRIX), 0)
        assert_arrays_equal(grown[0], backend.array(MATRIX))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.backends("numpy")
def test_every_pickle_protocol(backend, form, protocol):
    sequence, expected = form(backend)
    assert_holds(pickle.loads(pickle.dumps(sequence, protocol)), expected, backend)


@pytest.mark.backends(*MUTABLE)
@pytest.mark.parametrize("form", FORMS[:-1])
def test_a_deep_copy_shares_no_memory(backend, form):
    sequence, expected = form(backend)
    duplicate = copy.deepcopy(sequence)
    with backend.current():
        for element in duplicate:
            if 0 not in element.shape:
                element[...] = -1
    assert_holds(sequence, expected, backend)


@pytest.mark.backends(*MUTABLE)
def test_a_shallow_copy_shares_its_elements(backend):
    sequence, _ = held(backend)
    duplicate = copy.copy(sequence)
    assert all(element is other for element, other in zip(duplicate, sequence, strict=True))
    views, _ = split_into_views(backend)
    with backend.current():
        copy.copy(views)[0][...] = -1
    assert_arrays_equal(views[0], backend.array(np.full((2, 1), -1, np.float32)))


SMALL_PARTS: dict[str, Callable[[Any], Any]] = {
    "slice of views": lambda x: sa.split_to_sequence(x, 10, copy=None)[5:8],
    "steps through views": lambda x: sa.split_to_sequence(x, 10, copy=None)[5:20:3],
    "views backwards": lambda x: sa.split_to_sequence(x, 10, copy=None)[8:5:-1],
    "one view": lambda x: sa.split_to_sequence(x, 10, copy=None)[-1:],
    "views of single items": lambda x: sa.split_to_sequence(x, keepdims=0, copy=None)[100:105],
    "slice of copies": lambda x: sa.split_to_sequence(x[:5_000], 100)[5:6],
    "views of unequal sizes": lambda x: sa.split_to_sequence(x, [10, 20, 30, 99_940], copy=None)[:3],
    "a view inserted": lambda x: sa.sequence_insert(sa.split_to_sequence(x, 10, copy=None)[5:8], x[:5], 1),
    "views erased": lambda x: sa.sequence_erase(sa.split_to_sequence(x, 10, copy=None)[5:9], 2),
    "views held": lambda x: sa.ArraySequence([x[:10], x[10:20], x[50:55]]),
    "packed": lambda x: sa.sequence_construct(x[:10], x, x[:20], copy=True)[::2],
}


@pytest.mark.parametrize("part", SMALL_PARTS)
@pytest.mark.backends(*[name for name in EAGER if name != "jax-x64"])
def test_a_small_part_of_a_large_base_is_a_small_pickle(backend, part):
    x = backend.array(np.arange(100_000, dtype=np.float32))
    sequence = SMALL_PARTS[part](x)
    assert sequence.nbytes <= 600
    data = pickle.dumps(sequence)
    assert len(data) < sequence.nbytes + 600 * (len(sequence) + 1)
    assert_sequences_equal(pickle.loads(data), list(sequence))


@pytest.mark.backends(*EAGER[:4])
def test_many_views_are_not_pickled_with_their_base_each(backend):
    x = backend.array(np.arange(20_000, dtype=np.float32))
    sequence = sa.split_to_sequence(x, 100, copy=None)
    for position in range(0, 120, 2):
        sequence = sa.sequence_insert(sequence, x[:1], position)
    assert len(pickle.dumps(sequence)) < 3 * sequence.nbytes + 500 * len(sequence)


def test_the_columns_of_a_long_run_are_not_pickled_either():
    sequence = sa.split_to_sequence(np.zeros(100_000), [1] * 100_000, copy=None)
    assert len(pickle.dumps(sequence[5:8])) < 2_000
    with_copies = sa.split_to_sequence(np.zeros((2, 100_000)), [1] * 100_000, axis=1)
    assert len(pickle.dumps(with_copies[5:8])) < 2_000


def test_an_element_held_twice_is_pickled_once():
    array = np.ones(1000)
    again = pickled(sa.ArraySequence([array, array]))
    assert again[0] is again[1]
    assert len(pickle.dumps(sa.ArraySequence([array] * 10))) < 10_000


@pytest.mark.parametrize("duplicate", [pickled, copy.deepcopy, copy.copy])
def test_empty_sequences_keep_what_they_know(backend, duplicate):
    device = array_api_compat.device(backend.array(np.ones(1, np.float32)))
    for sequence in (
        sa.sequence_empty("float32", xp=backend.xp, device=device),
        sa.sequence_empty("float32", xp=backend.xp),
        sa.sequence_erase([backend.array(np.ones(1, np.float32))]),
        sa.split_to_sequence(backend.array(np.ones(0, np.int32))),
    ):
        again = duplicate(sequence)
        assert len(again) == 0
        assert again.element_type == sequence.element_type
        assert again.namespace is sequence.namespace
        assert again.device == sequence.device
        assert again.dtype == sequence.dtype


@pytest.mark.parametrize("element_type", ["float32", "int8", "string", "bfloat16"])
def test_empty_sequences_without_a_namespace_keep_their_type(element_type):
    for duplicate in (pickled, copy.deepcopy):
        again = duplicate(sa.sequence_empty(element_type))
        assert (again.element_type, again.namespace, again.device) == (element_type, None, None)
        assert duplicate(sa.sequence_empty(element_type, device="cpu")).device == "cpu"


def test_mixed_text_is_pickled():
    sequence = sa.ArraySequence([np.asarray(["a"]), np.asarray(["bcd"], dtype=object)])
    again = pickled(sequence)
    assert_sequences_equal(again, sequence)
    assert again.dtype == np.dtype(object)
    strings = sa.split_to_sequence(np.asarray(["a", "bb", "ccc"], dtype=np.dtypes.StringDType()), 1)
    assert_sequences_equal(pickled(strings[1:]), strings[1:])


@pytest.mark.backends("numpy", "array-api-strict")
def test_a_pickle_is_read_in_a_process_that_has_imported_nothing(backend):
    sequence, _ = mended(backend)
    both = pickle.dumps((sequence, sa.sequence_empty("float32", xp=backend.xp)))
    program = (
        "import pickle, sys; sequence, empty = pickle.loads(sys.stdin.buffer.read()); "
        "print(sequence.element_type, sequence.shapes, empty.namespace.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], input=both, capture_output=True, check=True)
    assert done.stdout.decode().strip() == f"float32 {sequence.shapes} {backend.xp.__name__}"


class Subclass(np.ndarray):
    """An array of a class of its own, with NumPy's rules."""


@pytest.mark.parametrize("duplicate", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy])
def test_copies_of_a_sequence_with_a_subclass_are_joined_to_plain_arrays(duplicate):
    sequence = sa.ArraySequence([np.ones(2), np.ones(2).view(Subclass), np.ones(1)])
    for given in (sequence, duplicate(sequence)):
        assert type(sa.concat_from_sequence(given, axis=0)) is np.ndarray
        assert type(sa.sequence_at(given, 1)) is np.ndarray


@pytest.mark.parametrize("copy_", [True, None])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.backends("numpy", "torch", "cupy")
def test_versions_of_one_split_are_pickled_and_copied_around_one_base(backend, axis, copy_):
    length = 200 if backend.name != "cupy" else 30
    x = backend.array(np.arange(length * length, dtype=np.float32).reshape(length, length))
    split = sa.split_to_sequence(x, 1, axis=axis, copy=copy_)
    versions = [split, split[1:], split[::-1], split[::2]]
    versions += [sa.sequence_erase(split, 3), sa.sequence_erase(split, length // 2)]
    versions += [sa.sequence_insert(split, versions[0][0], 7)]
    if backend.name != "cupy" and (copy_ is None or backend.name == "numpy"):
        data = pickle.dumps(versions)
        assert len(data) < 1.2 * x.nbytes
        for version, again in zip(versions, pickle.loads(data), strict=True):
            assert_sequences_equal(again, version)
    copied = copy.deepcopy((versions, x, split))
    for version, again in zip(versions, copied[0], strict=True):
        assert_sequences_equal(again, version)
    if copy_ is None or backend.name != "torch":
        with backend.current():
            copied[0][0][5][...] = -1
            assert bool((copied[0][1][4] == -1).all())
            assert bool((copied[2][5] == -1).all())
            assert not bool((split[5] == -1).any())


@pytest.mark.backends("numpy", "torch")
def test_a_small_part_of_a_split_is_pickled_without_the_rest(backend):
    split = sa.split_to_sequence(backend.array(np.zeros((1000, 100), np.float32)), 1, copy=None)
    for part in (split[:40], split[500:540], split[::50]):
        assert len(pickle.dumps(part)) < 60 * 400
        assert_sequences_equal(pickle.loads(pickle.dumps(part)), part)


@pytest.mark.backends("numpy", "torch")
def test_a_reversed_split_whose_last_chunk_was_short_is_pickled_around_the_same_base(backend):
    x = backend.array(np.arange(40_000, dtype=np.float32).reshape(200, 200))
    split = sa.split_to_sequence(x, 66, copy=None)
    data = pickle.dumps((split, split[::-1]))
    assert len(data) < 1.1 * x.nbytes
    for again, version in zip(pickle.loads(data), (split, split[::-1]), strict=True):
        assert_sequences_equal(again, version)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("copy", [True, None])
def test_a_part_of_a_split_is_pickled_out_of_band(axis, copy):
    x = np.arange(10_000.0).reshape(100, 100)
    for part in (slice(None), slice(1, 3), slice(6, 2, -1)):
        sequence, buffers = sa.split_to_sequence(x, 10, axis=axis, copy=copy)[part], []
        data = pickle.dumps(sequence, 5, buffer_callback=buffers.append)
        assert len(data) < 1500
        assert sum(buffer.raw().nbytes for buffer in buffers) == sequence.nbytes
        assert_sequences_equal(pickle.loads(data, buffers=buffers), list(sequence))
