"""The geometry of joining and splitting, in plain integers.

Concat, stack and split all view an array as a row-major matrix whose columns are partitioned into pieces.  Each piece
is a matrix with the same number of rows.  Joining gathers the pieces, splitting scatters them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import NamedTuple

Shape = tuple[int, ...]


class Matrix(NamedTuple):
    """An array seen as a matrix, cut along one of its axes.

    Attributes
    ----------
    rows : int
        Product of the lengths before the axis.
    length : int
        Length of the axis.
    inner : int
        Product of the lengths after the axis: elements of one step along it.
    """

    rows: int
    length: int
    inner: int


class Part(NamedTuple):
    """Part of one piece: steps `start` to `stop` along the axis, counted from the start of the piece."""

    piece: int
    start: int
    stop: int


def matrix(shape: Shape, axis: int) -> Matrix:
    """Return the matrix view of a shape, cut along an axis."""
    return Matrix(prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))


def lengths_along(shapes: Sequence[Shape], axis: int, stack: bool = False) -> int | list[int]:
    """Return the lengths along the axis of a join, as one int if the shapes are equal.

    A ValueError, which the operator explains, if lengths differ elsewhere, or anywhere with `stack`.
    """
    first, count = shapes[0], len(shapes)
    if shapes.count(first) == count:
        return 1 if stack else first[axis]
    if (
        stack
        or list(map(len, shapes)).count(len(first)) != count
        or [shape[axis + 1 :] for shape in shapes].count(first[axis + 1 :]) != count
        or (axis and [shape[:axis] for shape in shapes].count(first[:axis]) != count)
    ):
        raise ValueError("shapes differ")
    return [shape[axis] for shape in shapes]


def shares(length: int, nbytes: int, count: int, head_start: int) -> list[int]:
    """Return bounds that divide an axis among `count` threads.

    The first share, that of the calling thread, is larger by `head_start` bytes, which it copies while the others wake
    up.  Empty shares are left out.

    Parameters
    ----------
    length : int
        Length of the axis.
    nbytes : int
        Bytes of the whole array.
    count : int
        Number of threads.
    head_start : int
        Bytes.

    Returns
    -------
    list of int
        Rising bounds, from 0 to `length`.
    """
    if count <= 1 or nbytes <= 0 or length <= 1:
        return [0, length]
    first = nbytes // count + head_start
    ends = [first + (nbytes - first) * i // (count - 1) for i in range(count)]
    bounds = [0]
    for end in ends:
        bound = min(length, max(0, -(-length * end // nbytes)))
        if bound > bounds[-1]:
            bounds.append(bound)
    bounds[-1] = length
    return bounds


def parts_between(sizes: Sequence[int], start: int, stop: int) -> list[Part]:
    """Return the parts of consecutive pieces between two places on the axis; empty parts are left out.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the pieces along the axis.
    start, stop : int
        Places between 0 and the sum of the sizes.

    Returns
    -------
    list of Part
        In order.
    """
    ends = list(accumulate(sizes))
    parts = []
    piece = bisect_right(ends, start)
    while piece < len(sizes) and ends[piece] - sizes[piece] < stop:
        begin = ends[piece] - sizes[piece]
        first, last = max(start, begin) - begin, min(stop, ends[piece]) - begin
        if last > first:
            parts.append(Part(piece, first, last))
        piece += 1
    return parts
