"""The tree of blocks: what a change makes anew, and elements at the boundaries of blocks of every kind."""

import functools
import operator
import random

import numpy as np
import pytest

import seqarray as sa
from seqarray import _display
from seqarray.testing import assert_sequences_equal
from tests.helpers import assert_tree_is_sound, blocks_of, children_of, shrink_blocks, tree_of

#: Changes of a long sequence, and how many blocks and branches they may make: an insert splits full ones.
CHANGES = {
    "append": (sa.sequence_insert, 2),
    "append twice": (lambda s, x: sa.sequence_insert(sa.sequence_insert(s, x), x), 2),
    "insert": (lambda s, x: sa.sequence_insert(s, x, len(s) // 2), 7),
    "insert at the front": (lambda s, x: sa.sequence_insert(s, x, 0), 7),
    "erase": (lambda s, x: sa.sequence_erase(s, len(s) // 2), 5),
    "erase the first": (lambda s, x: sa.sequence_erase(s, 0), 5),
    "erase two at the end": (lambda s, x: sa.sequence_erase(sa.sequence_erase(s)), 5),
    "a slice": (lambda s, x: s[1:-1], 9),
    "a short slice": (lambda s, x: s[5:11], 2),
}


def parts_of(elements):
    """The identities of all blocks and branches."""
    return {id(elements)}.union(*map(parts_of, children_of(elements)))


@pytest.fixture(scope="module")
def long():
    return sa.ArraySequence([np.zeros(1)] * 200_000)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_a_few_blocks_and_branches_and_shares_the_rest(long, change):
    function, most = CHANGES[change]
    changed = function(long, np.ones(1))
    assert assert_tree_is_sound(long) > 1
    assert_tree_is_sound(changed)
    assert len(parts_of(tree_of(changed)) - parts_of(tree_of(long))) <= most


def test_a_change_at_the_end_makes_as_few_however_long_the_sequence_has_become(long):
    sequence = sa.sequence_insert(long, np.ones(1))
    for _ in range(3):
        longer = sa.sequence_insert(sequence, np.ones(1))
        assert len(parts_of(tree_of(longer)) - parts_of(tree_of(sequence))) == 2
        shorter = sa.sequence_erase(longer)
        assert len(parts_of(tree_of(shorter)) - parts_of(tree_of(longer))) == 2
        sequence = longer


def test_what_is_shown_of_a_long_sequence_is_all_that_is_looked_at(long, count_calls):
    looked_at = count_calls(_display, "shapes_of")
    assert repr(long).startswith("<ArraySequence of 200000 ")
    assert [sum(map(len, blocks)) for (blocks,) in looked_at] == [6]


def test_many_sequences_of_one_are_added_to_full_blocks():
    total = sa.sequence_empty("float64")
    for n in range(1_000):
        total = total + [np.full(1, float(n))]
    assert_tree_is_sound(total)
    assert len(blocks_of(total)) < 40
    assert sa.concat_from_sequence(total, axis=0).tolist() == list(range(1_000))


@pytest.mark.parametrize("seed", range(40))
def test_any_changes_one_after_another_leave_the_elements_of_a_list(monkeypatch, seed):
    shrink_blocks(monkeypatch)
    chance = random.Random(seed)
    x = np.arange(30)
    sequence, expected = (
        (sa.split_to_sequence(x, 1, copy=None), np.split(x, 30)) if seed % 2 else (sa.ArraySequence([x]), [x])
    )
    for step in range(150):
        if step % 50 == 0:  # short blocks, of which many become one
            expected = expected[:1] * chance.randint(1, 5)
            sequence = functools.reduce(operator.add, [sa.ArraySequence([array]) for array in expected], sequence[:0])
        new, length = np.asarray([step, seed]), len(expected)
        place, other = chance.choice([chance.randint(-length, length), -1 if length else 0]), chance.randint(0, length)
        at = place + length if place < 0 else place
        match chance.choice("append append append insert insert add front pop pop erase erase slice turn take".split()):
            case "append":
                sequence, expected = sa.sequence_insert(sequence, new), [*expected, new]
            case "insert":
                sequence, expected = sa.sequence_insert(sequence, new, place), [*expected[:at], new, *expected[at:]]
            case "add":
                sequence, expected = sequence + [new], [*expected, new]
            case "front":
                sequence, expected = [new] + sequence, [new, *expected]
            case "pop" if length:
                sequence, expected = sa.sequence_erase(sequence), expected[:-1]
            case "erase" if at < length:
                sequence, expected = sa.sequence_erase(sequence, place), expected[:at] + expected[at + 1 :]
            case "slice" if other - at > length // 2:
                sequence, expected = sequence[at:other], expected[at:other]
            case "turn":
                sequence, expected = sequence[other:] + sequence[:other], expected[other:] + expected[:other]
            case "take" if length:
                places = [chance.randrange(length) for _ in range(length)]
                sequence, expected = sequence[places], [expected[n] for n in places]
        check(sequence, expected or sequence[:0])
        assert sequence.sizes() == tuple(map(len, expected))


def kinds(backend):
    """Sequences that are each one block, or several, by their kind."""
    x = np.arange(100, dtype=np.float32)
    held = [backend.array(x[n : n + 2]) for n in range(8)]
    packed = [backend.array(x[n : n + n % 3]) for n in range(50, 55)]
    return {
        "a full tuple": sa.ArraySequence(held[:6]),
        "a short tuple": sa.ArraySequence(held[6:]),
        "views": sa.split_to_sequence(backend.array(x[20:29]), 2, copy=None),
        "copied chunks": sa.split_to_sequence(backend.array(x[30:40]), [1, 0, 3, 4, 2]),
        "dropped": sa.split_to_sequence(backend.array(x[40:46].reshape(2, 3)), axis=1, keepdims=0),
        "packed": sa.sequence_construct(*packed, copy=True),
    }


@pytest.mark.parametrize("first", ["a full tuple", "a short tuple", "views", "copied chunks", "dropped", "packed"])
@pytest.mark.backends("numpy", "torch", "array-api-strict", "cupy")
def test_at_every_boundary_of_blocks(backend, monkeypatch, first):
    shrink_blocks(monkeypatch)
    every = kinds(backend)
    new = backend.array(np.full(3, -1, np.float32))
    for second in every if backend.name == "numpy" else ["views", "a full tuple"]:
        sequence = every[first] + every[second] + every[first][::-1]
        elements = list(sequence)
        edges = np.cumsum([0, *map(len, blocks_of(sequence))])
        for place in sorted({min(max(edge + by, 0), len(elements)) for edge in edges for by in (-1, 0, 1)}):
            longer = sa.sequence_insert(sequence, new, int(place))
            check(longer, [*elements[:place], new, *elements[place:]])
            if place < len(elements):
                check(sa.sequence_erase(sequence, int(place)), elements[:place] + elements[place + 1 :])
            check(sa.sequence_erase(longer, int(place)), elements)
            check(longer[place:], [new, *elements[place:]])
            check(sequence[: place + 1], elements[: place + 1])
            check(longer[place::-2], [*elements[:place], new][::-2])


def check(sequence, expected):
    assert_tree_is_sound(sequence)
    assert_sequences_equal(sequence, expected)
