"""`+` of sequences, which is that of lists."""

from __future__ import annotations

import numpy as np
import pytest

import seqarray as sa
from conftest import Backend
from tests.helpers import BLOCK_LENGTH


def test_the_elements_of_both_follow_one_another(backend: Backend) -> None:
    with backend.current():
        a, b, c = (backend.array(np.arange(n), "float32") for n in (1, 2, 3))
        chunks = sa.split_to_sequence(backend.array(np.arange(6), "float32"), [2, 4])
        expected = sa.ArraySequence([a, b, c, *chunks])
        for total in (
            sa.ArraySequence([a, b]) + sa.ArraySequence([c]) + chunks,
            [a] + sa.ArraySequence([b, c]) + list(chunks),
            (a, b, c) + chunks,
        ):
            sa.testing.assert_sequences_equal(total, expected)
            sa.testing.assert_sequences_equal(total + [], total)
            sa.testing.assert_sequences_equal([] + total, total)
            assert all(x is y for x, y in zip(total, [a, b, c], strict=False))


def test_long_sequences_share_what_they_hold() -> None:
    arrays = [np.full(1, n) for n in range(3 * BLOCK_LENGTH)]
    first, second = sa.ArraySequence(arrays), sa.ArraySequence(arrays[:5])
    total = first + second + first
    assert [int(x[0]) for x in total] == [*range(len(arrays)), *range(5), *range(len(arrays))]
    longer = sa.sequence_insert(sa.sequence_erase(total, 1), np.full(1, -1), len(arrays))
    assert longer[len(arrays)][0] == -1
    assert len(first) == len(arrays)


def test_empty_sequences_keep_their_type() -> None:
    ones = sa.ArraySequence([np.ones(1)])
    assert (sa.sequence_empty("float64") + ones).dtype == np.float64
    assert (ones + sa.sequence_empty("float64")) is ones
    assert (sa.sequence_empty("int8") + sa.sequence_empty("int8")).element_type == "int8"
    for wrong in (
        lambda: ones + sa.sequence_empty("int8"),
        lambda: sa.sequence_empty("int8") + ones,
        lambda: ones + [np.ones(1, int)],
        lambda: sa.sequence_empty("int8") + sa.sequence_empty("int16"),
    ):
        with pytest.raises(TypeError, match=r"^ArraySequence \+: .*int"):
            wrong()


def test_arrays_and_numbers_are_not_added() -> None:
    ones = sa.ArraySequence([np.ones(1)])
    for wrong in (lambda: ones + 1, lambda: ones + np.ones(1), lambda: np.ones(1) + ones, lambda: ones + ({},)):
        with pytest.raises(TypeError):
            wrong()
