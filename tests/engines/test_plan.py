"""The geometry of large copies, against brute force."""

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seqarray._engines import plan
from seqarray._engines.plan import Part

lengths = st.integers(0, 40)
counts = st.integers(1, 6)


@given(shape=st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple), data=st.data())
def test_a_matrix_has_the_lengths_around_its_axis(shape, data):
    axis = data.draw(st.sampled_from(range(len(shape))))
    array = np.arange(prod(shape)).reshape(shape)
    rows, length, inner = plan.matrix(shape, axis)
    as_matrix = array.reshape(rows, length, inner)
    assert length == shape[axis]
    for step in range(length):
        np.testing.assert_array_equal(as_matrix[:, step].ravel(), array.take(step, axis).ravel())


def share_bytes(bounds: list[int], step: int) -> list[int]:
    """The bytes of every share."""
    return [(stop - start) * step for start, stop in pairwise(bounds)]


@given(length=lengths, step=st.integers(0, 1 << 20), count=counts, head_start=st.integers(0, 1 << 22))
@example(length=3, step=1, count=3, head_start=0)
@example(length=1, step=1 << 20, count=6, head_start=0)
@example(length=40, step=1 << 20, count=6, head_start=1 << 10)
def test_shares_cover_an_axis_and_none_is_empty(length, step, count, head_start):
    bounds = plan.shares(length, length * step, count, head_start)
    assert (bounds[0], bounds[-1]) == (0, length)
    assert 1 <= len(bounds) - 1 <= count
    if length == 0:
        assert bounds == [0, 0]
    else:
        assert all(start < stop for start, stop in pairwise(bounds))


@given(length=st.integers(1, 40), step=st.integers(1, 1 << 20), count=counts, head_start=st.integers(0, 1 << 22))
def test_the_first_share_has_the_head_start_and_the_others_are_even(length, step, count, head_start):
    nbytes = length * step
    first, *others = share_bytes(plan.shares(length, nbytes, count, head_start), step)
    wanted = min(nbytes, nbytes // count + head_start) if count > 1 else nbytes
    # A share ends between two steps along the axis.
    assert wanted <= first < wanted + step
    for share in others:
        assert abs(share - (nbytes - wanted) / (count - 1)) <= step + 1


@pytest.mark.parametrize(
    ("arguments", "bounds"),
    [
        ((8, 800, 2, 0), [0, 4, 8]),
        ((8, 800, 2, 200), [0, 6, 8]),
        ((8, 800, 4, 0), [0, 2, 4, 6, 8]),
        ((8, 800, 2, 400), [0, 8]),
        ((8, 800, 2, 10_000), [0, 8]),
        ((8, 800, 1, 0), [0, 8]),
        ((2, 800, 6, 0), [0, 1, 2]),
        ((8, 0, 4, 0), [0, 8]),
    ],
    ids=str,
)
def test_shares_of_known_lengths(arguments, bounds):
    assert plan.shares(*arguments) == bounds


@st.composite
def pieces_and_bounds(draw: Any) -> tuple[list[int], list[int]]:
    """Sizes of pieces, empty ones among them, and where the whole is cut: anywhere, or into shares."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 7]), min_size=1, max_size=8))
    total = sum(sizes)
    if draw(st.booleans()):
        return sizes, plan.shares(total, total * 8, draw(counts), draw(st.sampled_from([0, 8, 24])))
    cuts = draw(st.sets(st.integers(1, max(1, total - 1)), max_size=4))
    return sizes, [0, *sorted(cut for cut in cuts if cut < total), total]


@given(drawn=pieces_and_bounds())
def test_every_share_holds_its_part_of_the_pieces_in_order(drawn):
    sizes, bounds = drawn
    pieces = [[(piece, place) for place in range(size)] for piece, size in enumerate(sizes)]
    whole = [item for piece in pieces for item in piece]
    shares = [plan.parts_between(sizes, start, stop) for start, stop in pairwise(bounds)]
    gathered = [[item for part in share for item in pieces[part.piece][part.start : part.stop]] for share in shares]
    assert gathered == [whole[start:stop] for start, stop in pairwise(bounds)]


@given(drawn=pieces_and_bounds())
def test_parts_lie_inside_their_pieces_and_none_is_empty(drawn):
    sizes, bounds = drawn
    for start, stop in pairwise(bounds):
        share = plan.parts_between(sizes, start, stop)
        assert all(0 <= part.start < part.stop <= sizes[part.piece] for part in share)
        assert all(a.piece < b.piece for a, b in pairwise(share))


@pytest.mark.parametrize(
    ("start", "stop", "parts"),
    [(0, 2, [Part(0, 0, 2)]), (2, 5, [Part(0, 2, 4), Part(2, 0, 1)]), (5, 7, [Part(2, 1, 3)]), (4, 4, [])],
)
def test_pieces_are_cut_at_the_bounds_and_empty_ones_left_out(start, stop, parts):
    assert plan.parts_between([4, 0, 3, 0], start, stop) == parts


@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 0]], ids=str)
def test_where_there_is_nothing_there_are_no_parts(sizes):
    assert plan.parts_between(sizes, 0, 0) == []
