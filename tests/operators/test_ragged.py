"""Ragged batches as values and offsets, as padded arrays, and joined position by position."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.exceptions import AxisError

import seqarray as sa
from conftest import Backend
from seqarray.testing import to_numpy

LENGTHS = [3, 0, 1, 5, 2]

#: How a sequence is kept, see `forms`, and the axis of its elements along which their lengths differ.
FORMS = [("list", 0), ("packed", 0), ("packed", 1), ("views", 0), ("views", -1), ("copies", 1), ("mixed", -2)]
FORMS += [("backwards", 2)]


def ragged(
    backend: Backend, axis: int = 0, dtype: str = "float32", lengths: Any = LENGTHS, start: int = 1
) -> list[Any]:
    """Return arrays of rank 3 whose lengths differ along an axis, with different numbers in them."""
    arrays = []
    for length in lengths:
        shape = (*(2, 3)[:axis], length, *(2, 3)[axis:])
        count = int(np.prod(shape))
        arrays.append(backend.array(np.arange(start, start + count).reshape(shape), dtype))
        start += count
    return arrays


def forms(arrays: list[Any], axis: int) -> dict[str, Any]:
    """Return sequences of the same elements, kept in every way in which a sequence can keep them."""
    with_another = sa.sequence_insert(sa.sequence_construct(*arrays, copy=True), arrays[0], 0)
    joined = sa.concat_from_sequence(arrays, axis=axis)
    sizes = [array.shape[axis] for array in arrays]
    return {
        "list": arrays,
        "packed": sa.sequence_construct(*arrays, copy=True),
        "views": sa.split_to_sequence(joined, sizes, axis=axis, copy=None),
        "copies": sa.split_to_sequence(joined, sizes, axis=axis),
        "mixed": with_another[1:],
        "backwards": sa.ArraySequence(arrays[::-1])[::-1],
    }


def assert_array(actual: Any, expected: np.ndarray[Any, Any], backend: Backend) -> None:
    """Check the library, dtype, shape and values of an array of a backend."""
    wanted = sa.ArraySequence([backend.array(expected)])
    sa.testing.assert_sequences_equal(sa.ArraySequence([actual]), wanted)


def padded_by_hand(arrays: list[Any], axis: int, length: int, fill: Any, left: bool) -> np.ndarray[Any, Any]:
    rows = []
    for array in map(to_numpy, arrays):
        missing = length - array.shape[axis]
        around = [(0, 0)] * array.ndim
        around[axis] = (missing, 0) if left else (0, missing)
        rows.append(np.pad(array, around, constant_values=fill))
    return np.stack(rows)


@pytest.mark.parametrize(("form", "axis"), FORMS)
def test_pack_joins_and_tells_where_each_element_is(backend: Backend, form: str, axis: int) -> None:
    with backend.current():
        arrays = ragged(backend, axis % 3)
        sequence = forms(arrays, axis % 3)[form]
        values, offsets = sa.pack(sequence, axis=axis)
        expected = np.concatenate(list(map(to_numpy, arrays)), axis=axis)
        assert_array(values, expected, backend)
        np.testing.assert_array_equal(offsets, [0, 3, 3, 4, 9, 11], strict=True)
        again = sa.unpack(values, offsets, axis=axis)
        sa.testing.assert_sequences_equal(again, sa.ArraySequence(arrays))


@pytest.mark.parametrize("copy", [None, True])
def test_unpack_takes_offsets_that_begin_and_end_anywhere(backend: Backend, copy: bool | None) -> None:
    with backend.current():
        x = backend.array(np.arange(12).reshape(2, 6), "int32")
        sequence = sa.unpack(x, [1, 1, 3, 5], axis=1, copy=copy)
        expected = [backend.array(to_numpy(x)[:, start:stop]) for start, stop in ((1, 1), (1, 3), (3, 5))]
        sa.testing.assert_sequences_equal(sequence, sa.ArraySequence(expected))
        assert sa.unpack(x, [2]).element_type == "int32"
        assert len(sa.unpack(x, [1])) == 0


def test_unpack_reads_offsets_of_every_library(backend: Backend) -> None:
    with backend.current():
        x = backend.array(np.arange(300.0), "float32")
        bounds = np.arange(0, 301, 3)
        for offsets in (bounds, bounds.astype("uint8" if bounds[-1] < 256 else "uint16"), bounds.tolist()):
            assert sa.unpack(x, offsets).sizes() == (3,) * 100
        if backend.name != "dask":
            own = backend.array(bounds, "int32")
            assert sa.unpack(x, own).sizes() == (3,) * 100
        bounds[5] = 0  # the sequence does not see it
        sequence = sa.unpack(x, bounds[5:])
        bounds[:] = 0
        assert sequence.sizes()[1:] == (3,) * 94


def test_pack_of_what_was_unpacked_copies_nothing() -> None:
    values = np.arange(40.0).reshape(20, 2)
    sequence = sa.unpack(values, [2, 5, 5, 20])
    joined, offsets = sa.pack(sequence, copy=False)
    assert np.shares_memory(joined, values)
    assert joined.shape == (18, 2)
    np.testing.assert_array_equal(offsets, [0, 3, 3, 18], strict=True)
    assert not np.shares_memory(sa.pack(sequence, copy=True)[0], values)


def test_pack_with_copy_false_refuses_what_lies_apart() -> None:
    with pytest.raises(ValueError, match=r"pack: joining 2 numpy arrays takes a copy"):
        sa.pack([np.zeros(2), np.zeros(3)], copy=False)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(("form", "axis"), FORMS)
def test_pad_and_unpad(backend: Backend, form: str, axis: int, side: Any) -> None:
    with backend.current():
        arrays = ragged(backend, axis % 3)
        padded = sa.pad_sequence(forms(arrays, axis % 3)[form], axis=axis, fill_value=-1, side=side)
        assert_array(padded, padded_by_hand(arrays, axis, 5, -1, side == "left"), backend)
        back = sa.unpad_sequence(padded, LENGTHS, axis=axis, side=side)
        sa.testing.assert_sequences_equal(back, sa.ArraySequence(arrays))
        sa.testing.assert_sequences_equal(back[::-2], sa.ArraySequence(arrays)[::-2])


def test_pad_to_a_length(backend: Backend) -> None:
    with backend.current():
        arrays = ragged(backend, 0, "int16")
        for length in (5, 7):
            padded = sa.pad_sequence(arrays, length=length)
            assert_array(padded, padded_by_hand(arrays, 0, length, 0, False), backend)
        with pytest.raises(ValueError, match=r"pad_sequence: element 3 has length 5 along axis 0, more than length=4"):
            sa.pad_sequence(arrays, length=4)


def test_pad_of_nothing_but_empty_elements(backend: Backend) -> None:
    with backend.current():
        empty = backend.array(np.zeros((0, 2)), "float32")
        assert_array(sa.pad_sequence([empty, empty]), np.zeros((2, 0, 2), "float32"), backend)
        padded = sa.pad_sequence([empty], length=2, fill_value=3)
        assert_array(padded, np.full((1, 2, 2), 3, "float32"), backend)
        assert_array(sa.unpad_sequence(padded, [0])[0], np.zeros((0, 2), "float32"), backend)


FILLS = {
    "bool": (True, 2, TypeError),
    "uint8": (255, 256, ValueError),
    "int8": (-128, 1.5, TypeError),
    "uint64": (2**64 - 1, -1, ValueError),
    "float16": (65504, 1e6, ValueError),
    "float32": (float("inf"), 1e39, ValueError),
    "float64": (0.1, 1j, TypeError),
    "complex64": (1 + 2j, "0", TypeError),
    "bfloat16": (0.5, "x", TypeError),
    "string": ("-", 1, TypeError),
}


@pytest.mark.parametrize("element_type", FILLS)
def test_fill_values_are_of_the_element_type(backend: Backend, element_type: str) -> None:
    fill, wrong, error = FILLS[element_type]
    if backend.name == "torch" and element_type == "uint64":
        fill = 2**63 - 1  # torch fills with no larger number
    with backend.current():
        zeros = [""] * 3 if element_type == "string" else [0] * 3
        dtype = object if element_type == "string" else element_type
        arrays = [backend.array(np.asarray(zeros[:n]).astype(dtype)) for n in (3, 1)]
        assert sa.ArraySequence(arrays).element_type == element_type
        padded = to_numpy(sa.pad_sequence(arrays, fill_value=fill))
        assert sa.ArraySequence([padded]).element_type == element_type
        np.testing.assert_array_equal(padded[1, 1:], np.asarray([fill, fill]).astype(padded.dtype))
        np.testing.assert_array_equal(padded[0], zeros)
        np.testing.assert_array_equal(to_numpy(sa.pad_sequence(arrays))[1, 1:], zeros[:2])
        with pytest.raises(error, match=r"pad_sequence: fill_value is .*" + element_type):
            sa.pad_sequence(arrays, fill_value=wrong)


def test_mask(backend: Backend) -> None:
    with backend.current():
        expected = np.arange(4) < np.asarray([4, 0, 2])[:, None]
        assert_array(sa.sequence_mask([4, 0, 2], xp=backend.xp, device=backend.device), expected, backend)
        lengths = backend.array([4, 0, 2], "int8")
        assert_array(sa.sequence_mask(lengths, length=4), expected, backend)
        assert_array(sa.sequence_mask(lengths, length=2), expected[:, :2], backend)
        assert_array(sa.sequence_mask(lengths, length=200)[:, :4], expected, backend)
        if backend.name != "dask":
            assert_array(sa.sequence_mask(lengths), expected, backend)
            square = backend.array([[1, 2], [0, 3]], "int32")
            assert_array(sa.sequence_mask(square), np.arange(3) < np.asarray([[1, 2], [0, 3]])[..., None], backend)


def test_mask_marks_what_pad_has_put() -> None:
    sequence = sa.unpack(np.arange(1, 12), [0, 3, 3, 4, 9, 11])
    padded = sa.pad_sequence(sequence)
    np.testing.assert_array_equal(padded[sa.sequence_mask(sequence.lengths())], np.arange(1, 12))


@pytest.mark.parametrize(("form", "axis"), FORMS)
def test_concat_each_is_a_map_that_joins(backend: Backend, form: str, axis: int) -> None:
    with backend.current():
        first = ragged(backend, axis % 3)
        second = ragged(backend, axis % 3, lengths=[1, 2, 0, 4, 3], start=100)
        others = [forms(arrays, axis % 3)[form] for arrays in (first, second, first)]
        joined = sa.concat_each(*others, axis=axis)

        def body(*elements: Any) -> Any:
            return sa.concat_from_sequence(elements, axis=axis)

        sa.testing.assert_sequences_equal(joined, sa.sequence_map(first, second, first, body=body))
        sa.testing.assert_sequences_equal(sa.concat_each(first, axis=axis), sa.ArraySequence(first))


def test_concat_each_of_elements_of_any_shapes(backend: Backend) -> None:
    with backend.current():
        shapes = [(2, 3, 1), (4, 1, 2), (1, 0, 3)]
        first = [backend.array(np.arange(np.prod(shape)).reshape(shape), "int32") for shape in shapes]
        second = [backend.array(np.ones((shape[0], 2, shape[2])), "int32") for shape in shapes]
        expected = [sa.concat_from_sequence(pair, axis=1) for pair in zip(first, second, strict=True)]
        sa.testing.assert_sequences_equal(sa.concat_each(first, second, axis=1), sa.ArraySequence(expected))
        different = [backend.array(np.zeros((2, 1)), "int32"), backend.array(np.zeros((3, 1, 2)), "int32")]
        same = sa.concat_each(different, different)
        assert same.shapes == ((4, 1), (6, 1, 2))


@pytest.mark.engine
def test_results_are_one_allocation() -> None:
    sequence = sa.unpack(np.arange(40.0).reshape(20, 2), [2, 5, 5, 20])
    for result in (
        sa.concat_each(sequence, sequence),
        sa.concat_each(sequence, sequence, axis=1),
        sa.unpad_sequence(np.ones((3, 4, 5)), [4, 0, 2]),
        sa.unpad_sequence(np.ones((3, 4, 5)), [4, 0, 2], axis=1),
        sa.unpack(np.arange(30), [2, 4, 9], copy=True),
    ):
        assert result.nbytes_held == result.nbytes
    packed = sa.sequence_construct(*sequence, copy=True)
    assert np.shares_memory(sa.pack(packed, copy=False)[0], packed[2])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_round_trips(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    axis = data.draw(st.integers(0, rank - 1))
    shape = data.draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank))
    # Long ranges are copied one by one, others by an index; large work in groups.
    scale = data.draw(st.sampled_from([1, 1, 40, 700]))
    lengths = data.draw(st.lists(st.integers(0, 5).map(lambda n: n * scale), min_size=1, max_size=90))
    total = sum(lengths)
    shape[axis] = total
    values = (
        np.arange(np.prod(shape)).reshape(shape).astype(data.draw(st.sampled_from(["i1", "i4", "f8", "c16", "S3"])))
    )
    if data.draw(st.booleans()):
        values = np.moveaxis(np.moveaxis(values, axis, -1).copy(), -1, axis)  # with other strides
    bounds = np.cumsum([0, *lengths])
    sequence = sa.unpack(values, bounds, axis=axis, copy=data.draw(st.sampled_from([None, True])))
    if data.draw(st.booleans()):
        sequence = sa.ArraySequence(list(sequence))
    side = data.draw(st.sampled_from(["left", "right"]))
    packed, offsets = sa.pack(sequence, axis=axis)
    np.testing.assert_array_equal(packed, values, strict=True)
    np.testing.assert_array_equal(offsets, bounds, strict=True)
    np.testing.assert_array_equal(sequence.segment_ids(axis), np.repeat(np.arange(len(lengths)), lengths), strict=True)
    length = max(lengths) + data.draw(st.integers(0, 2))
    padded = sa.pad_sequence(sequence, axis=axis, length=length, side=side)
    assert padded.flags.c_contiguous
    for row, element in zip(padded, sequence, strict=True):
        before = length - element.shape[axis] if side == "left" else 0
        expected = np.zeros_like(row)
        expected[(slice(None),) * axis + (slice(before, before + element.shape[axis]),)] = element
        np.testing.assert_array_equal(row, expected, strict=True)
    sa.testing.assert_sequences_equal(sa.unpad_sequence(padded, lengths, axis=axis, side=side), sequence)
    each = sa.concat_each(sequence, sequence[::-1], axis=axis)
    for joined, a, b in zip(each, sequence, sequence[::-1], strict=True):
        np.testing.assert_array_equal(joined, np.concatenate([a, b], axis), strict=True)


def test_lengths_offsets_and_segments(backend: Backend) -> None:
    with backend.current():
        arrays = ragged(backend, 1)
        for sequence in map(sa.ArraySequence, forms(arrays, 1).values()):
            np.testing.assert_array_equal(sequence.lengths(1), LENGTHS, strict=True)
            np.testing.assert_array_equal(sequence.lengths(-1), [3] * 5, strict=True)
            np.testing.assert_array_equal(sequence.offsets(), [0, 2, 4, 6, 8, 10], strict=True)
            np.testing.assert_array_equal(sequence.segment_ids(1), [0] * 3 + [2] + [3] * 5 + [4] * 2, strict=True)
            np.testing.assert_array_equal(sequence[1::2].lengths(1), [0, 5], strict=True)
            with pytest.raises(AxisError, match=r"ArraySequence.offsets: axis is 3; element 0 has rank 3"):
                sequence.offsets(3)
        chunks = sa.split_to_sequence(backend.array(np.zeros((7, 2)), "float32"), 3, copy=None)
        np.testing.assert_array_equal(chunks[::-1].lengths(), [1, 3, 3], strict=True)
        apart = sa.split_to_sequence(backend.array(np.zeros((2, 3, 4)), "float32"), axis=1, keepdims=0, copy=None)
        np.testing.assert_array_equal(apart.lengths(1), [4, 4, 4], strict=True)
        assert len(sa.sequence_empty().lengths()) == 0
        np.testing.assert_array_equal(sa.sequence_empty().offsets(), [0], strict=True)


def test_a_library_in_the_place_of_a_device_is_told(backend: Backend) -> None:
    with backend.current():
        sequence = sa.ArraySequence([backend.array(np.zeros(2), "float32")])
        with pytest.raises(ValueError, match=r"has no device 'numpy': .*; a library is given by xp='numpy'"):
            sequence.to("numpy")


@pytest.mark.parametrize("given", [{"lengths": [1 << 62]}, {"lengths": [3], "length": 1 << 64}], ids=str)
def test_a_mask_that_is_too_large_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"sequence_mask: the length is \d+; the result would take 2\*\*63 bytes"):
        sa.sequence_mask(given["lengths"], length=given.get("length"))


def test_masks_and_sequences_are_told_from_lengths(backend: Backend) -> None:
    with backend.current():
        padded = backend.array(np.zeros((2, 3)), "float32")
        mask = sa.sequence_mask([3, 1], xp=backend.xp, device=backend.device)
        with pytest.raises(TypeError, match=r"unpad_sequence: lengths is a mask, .* its sum along the last axis"):
            sa.unpad_sequence(padded, mask)
        with pytest.raises(TypeError, match=r"sequence_mask: lengths is a sequence of 2 arrays; give its lengths\(\)"):
            sa.sequence_mask(sa.unpad_sequence(padded, [3, 1]))  # type: ignore[arg-type]


@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("split", [3, [2, 0, 1, 1], [1, 3], [4]], ids=str)
@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(None, None, -1), slice(None, None, 2), slice(0)])
def test_offsets_are_sums_of_sizes(backend: Backend, copy: bool | None, split: Any, part: slice) -> None:
    """Those of chunks that adjoin are their bounds, which need no sum."""
    with backend.current():
        x = backend.array(np.zeros((4, 4)), "float32")
        for axis in (0, 1):
            chunks = sa.split_to_sequence(x, split, axis=axis, copy=copy)[part]
            for along in (0, 1, -1, -2):
                expected = np.cumsum([0, *chunks.sizes(along)])
                np.testing.assert_array_equal(chunks.offsets(along), expected, strict=True)


def test_lengths_of_elements_of_several_ranks() -> None:
    sequence = sa.ArraySequence([np.zeros((2, 3)), np.zeros(4), np.zeros((1, 2, 5))])
    np.testing.assert_array_equal(sequence.lengths(-1), [3, 4, 5])
    with pytest.raises(AxisError, match="element 1 has rank 1"):
        sequence.lengths(1)


ONE, TWO, THREE = np.zeros(1), np.zeros((2, 3)), np.zeros(3)

WRONG = [
    (lambda: sa.pack([]), ValueError, "pack: the sequence is empty"),
    (lambda: sa.pack([np.zeros(())]), AxisError, "pack: axis is 0, but element 0 has rank 0"),
    (lambda: sa.pack([np.zeros(2), np.zeros((2, 2))]), ValueError, r"pack: element 1 has shape \(2, 2\)"),
    (lambda: sa.pack([np.zeros(2), np.zeros(2, int)]), TypeError, "pack: element 1 has element type int64"),
    (lambda: sa.pack(np.zeros(2)), TypeError, "pack: expected an ArraySequence"),
    (lambda: sa.pack([np.zeros(2)], copy="yes"), TypeError, "pack: copy is"),
    (lambda: sa.unpack([1, 2], [0, 1]), TypeError, "unpack: values must be an array"),
    (lambda: sa.unpack(np.zeros(()), [0]), AxisError, "unpack: axis is 0, but values has rank 0"),
    (lambda: sa.unpack(THREE, []), ValueError, "unpack: offsets is empty"),
    (lambda: sa.unpack(THREE, [-1, 2]), ValueError, r"unpack: offsets\[0\] is -1"),
    (lambda: sa.unpack(THREE, [0, 2, 1]), ValueError, r"unpack: offsets\[2\] is 1, less than offsets\[1\]"),
    (
        lambda: sa.unpack(THREE, [0, 4]),
        ValueError,
        r"unpack: offsets\[1\] is 4, but axis 0 of values has length 3",
    ),
    (lambda: sa.unpack(THREE, [0, 1.5]), TypeError, r"unpack: offsets\[1\] is 1.5"),
    (lambda: sa.unpack(THREE, [0, 2**70]), ValueError, r"unpack: offsets\[1\] is 1180591620717411303424; int64"),
    (
        lambda: sa.unpack(THREE, np.asarray([2**63], "u8")),
        ValueError,
        "unpack: offsets holds 9223372036854775808",
    ),
    (lambda: sa.unpack(THREE, np.zeros((1, 2), int)), ValueError, "unpack: offsets must be 1-D"),
    (lambda: sa.unpack(THREE, np.zeros(2)), TypeError, "unpack: offsets has dtype float64"),
    (lambda: sa.unpack(THREE, "ab"), TypeError, "unpack: offsets is 'ab'"),
    (lambda: sa.unpack(THREE, 5), TypeError, r"unpack: offsets is 5 \(int\); expected a list, a tuple or a 1-D array"),
    (lambda: sa.sequence_mask(2), TypeError, "sequence_mask: lengths is 2 .*expected a list, a tuple or an array"),
    (lambda: sa.pad_sequence([]), ValueError, "pad_sequence: the sequence is empty"),
    (lambda: sa.pad_sequence([np.zeros(1)], side="top"), ValueError, "pad_sequence: side is 'top'"),
    (lambda: sa.pad_sequence([np.zeros((1, 2)), np.zeros((1, 3))]), ValueError, "pad_sequence: element 1 has shape"),
    (
        lambda: sa.pad_sequence([ONE], fill_value=np.asarray(3)),
        TypeError,
        r"fill_value is array\(3\) .*expected a Python",
    ),
    (lambda: sa.pad_sequence([ONE], length=-1), ValueError, "pad_sequence: length is -1"),
    (lambda: sa.unpad_sequence(TWO, [1]), ValueError, "unpad_sequence: there are 1 lengths for 2 rows"),
    (lambda: sa.unpad_sequence(TWO, [1, 4]), ValueError, r"unpad_sequence: lengths\[1\] is 4; .*\[0, 3\]"),
    (lambda: sa.unpad_sequence(TWO, [-1, 1]), ValueError, r"unpad_sequence: lengths\[0\] is -1"),
    (
        lambda: sa.unpad_sequence(np.zeros(2), [1, 1]),
        AxisError,
        "unpad_sequence: axis is 0, but a row of array has rank 0",
    ),
    (lambda: sa.unpad_sequence([[1]], [1]), TypeError, "unpad_sequence: array must be an array"),
    (lambda: sa.sequence_mask([]), ValueError, "sequence_mask: there are no lengths"),
    (lambda: sa.sequence_mask([1], length=-1), ValueError, "sequence_mask: length is -1"),
    (
        lambda: sa.sequence_mask([1], length=10**50),
        ValueError,
        "sequence_mask: the length is 10*; the result would take",
    ),
    (lambda: sa.sequence_mask([1.0]), TypeError, r"sequence_mask: lengths\[0\] is 1.0"),
    (sa.concat_each, ValueError, "concat_each: no sequences"),
    (lambda: sa.concat_each([ONE], []), ValueError, "concat_each: sequence 1 has 0 elements; sequence 0 has 1"),
    (lambda: sa.concat_each([ONE], [np.zeros(1, int)]), TypeError, "concat_each: an element of sequence 1"),
    (
        lambda: sa.concat_each([np.zeros((1, 2))] * 2, [np.zeros((1, 2)), np.zeros((1, 3))]),
        ValueError,
        r"concat_each: element 1: that of sequence 1 has shape \(1, 3\)",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_text_of_fixed_width_is_padded(backend: Backend) -> None:
    if backend.name not in ("numpy", "dask"):
        return
    for sequence in ([["a"], ["b", "cc"]], [["a"], ["b"]]):
        arrays = [backend.array(np.asarray(texts)) for texts in sequence]
        for fill in ("", "long"):
            padded = to_numpy(sa.pad_sequence(arrays, fill_value=fill))
            width = max(map(len, sequence))
            assert padded.tolist() == [texts + [fill] * (width - len(texts)) for texts in sequence]


def test_masks_of_lengths_beyond_the_widest_integer(backend: Backend) -> None:
    if backend.name == "dask":
        return
    with backend.current():
        if backend.holds("uint32"):
            mask = to_numpy(sa.sequence_mask(backend.array([2**31 + 5, 2], "uint32"), length=3))
            assert mask.tolist() == [[True] * 3, [True, True, False]]
        if backend.holds("uint64"):
            with pytest.raises(ValueError, match="sequence_mask: lengths holds 9223372036854775808; int64 cannot"):
                sa.sequence_mask(backend.array([2**63, 2], "uint64"), length=3)


def test_infinity_does_not_become_nan(backend: Backend) -> None:
    if not backend.holds("float8_e4m3fn"):
        return
    with backend.current():
        arrays = [backend.array(np.ones(n).astype(ml_dtypes.float8_e4m3fn)) for n in (1, 2)]
        with pytest.raises(ValueError, match="pad_sequence: fill_value is inf, which is out of range"):
            sa.pad_sequence(arrays, fill_value=float("inf"))
        assert np.isnan(to_numpy(sa.pad_sequence(arrays, fill_value=float("nan")))[0, 1].astype(float))
