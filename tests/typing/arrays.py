"""A program of a user, for type checkers: array types go through, and wrong calls are found.

Lines that a checker must refuse say so: both mypy and pyright have to report an error there, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import seqarray as sa
from seqarray import ArraySequence

Floats = npt.NDArray[np.float32]


def operators(x: Floats) -> None:
    s = sa.split_to_sequence(x, [3, 3])
    assert_type(s, ArraySequence[Floats])
    assert_type(s[0], Floats)
    assert_type(s[1:], ArraySequence[Floats])
    assert_type(s[[1, 0]], ArraySequence[Floats])
    assert_type(s[np.asarray([True, False])], ArraySequence[Floats])
    assert_type(ArraySequence([x, x]), ArraySequence[Floats])
    assert_type(sa.sequence_construct(x, x), ArraySequence[Floats])
    assert_type(sa.sequence_insert(s, x), ArraySequence[Floats])
    assert_type(sa.sequence_insert([x], x, np.asarray(0)), ArraySequence[Floats])
    assert_type(sa.sequence_erase(s, -1), ArraySequence[Floats])
    assert_type(sa.sequence_at(s, 0), Floats)
    assert_type(sa.concat_from_sequence(s, axis=0), Floats)
    assert_type(sa.concat_from_sequence((x, x), axis=0, new_axis=True), Floats)
    assert_type(sa.split(x, num_outputs=2), tuple[Floats, ...])
    empty: ArraySequence[Floats] = sa.sequence_empty("float32")
    moved: ArraySequence[Any] = s.to(xp="torch")
    print(empty, moved, len(s), s.sizes(), s.astype("int8"))
    for element in s:
        assert_type(element, Floats)
    first, second = s
    assert_type(second, Floats)
    assert_type([first, *s], list[Floats])


def ragged(x: Floats) -> None:
    s = sa.unpack(x, [0, 3, 5])
    assert_type(s, ArraySequence[Floats])
    values, offsets = sa.pack(s)
    assert_type(values, Floats)
    assert_type(offsets, npt.NDArray[np.int64])
    assert_type(s.lengths(), npt.NDArray[np.int64])
    assert_type(sa.pad_sequence(s, side="left"), Floats)
    assert_type(sa.unpad_sequence(x, s.lengths()), ArraySequence[Floats])
    assert_type(sa.concat_each(s, [x, x]), ArraySequence[Floats])


def twice(x: Floats) -> Floats:
    return x + x


def halves(x: Floats) -> tuple[Floats, Floats]:
    return x[::2], x[1::2]


def maps(s: ArraySequence[Floats]) -> None:
    assert_type(sa.sequence_map(s, body=twice), ArraySequence[Floats])
    assert_type(sa.sequence_map(s, twice), ArraySequence[Floats])
    assert_type(sa.sequence_map(s, body=halves), tuple[ArraySequence[Floats], ...])
    left, right = sa.sequence_map(s, halves)
    assert_type(right, ArraySequence[Floats])
    print(left.sizes())


def containers(s: ArraySequence[Floats]) -> int:
    def takes(sequence: Sequence[Floats]) -> int:
        return len(sequence)

    def takes_any(sequence: ArraySequence[object]) -> int:
        return len(sequence)

    def branches(value: ArraySequence[Floats] | None) -> int:
        if isinstance(value, Sequence):
            return len(value)
        return 0

    return takes(s) + takes_any(s) + branches(s)


def wrong(x: Floats, s: ArraySequence[Floats]) -> None:
    sa.concat_from_sequence(s, axis="0")  # refused
    sa.concat_from_sequence(s)  # refused
    sa.concat_from_sequence("abc", axis=0)  # refused
    sa.split(x, 2)  # refused
    sa.split_to_sequence(x, "ab")  # refused
    sa.concat_from_seqence([x], axis=0)  # refused
    sa.pad_sequence(s, side="top")  # refused
    sa.sequence_map(s, body=halves).sizes()  # refused
    sa.sequence_at(s, "last")  # refused
    print(s.shape)  # refused
