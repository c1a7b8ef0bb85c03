"""Splitting an array: numbers of chunks, axes, what is refused, memory layouts and element types."""

from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal
from tests.operators.splitting_cases import (
    assert_chunks,
    each_library,
    each_library_but_jax,
    parts_of,
    values,
)

AxisError = np.exceptions.AxisError

# split with a number of chunks.


@each_library
@pytest.mark.parametrize(
    ("length", "num_outputs", "sizes"),
    [
        (6, 2, [3, 3]),
        (6, 1, [6]),
        (6, 6, [1] * 6),
        (7, 4, [2, 2, 2, 1]),
        (8, 3, [3, 3, 2]),
        (6, 4, [2, 2, 2, 0]),
        (0, 3, [0, 0, 0]),
        (0, 1, [0]),
        (1, 2, [1, 0]),
        (5, 2, [3, 2]),
    ],
)
def test_a_number_of_chunks(backend, length, num_outputs, sizes):
    x = values(2, length)
    for copy in (True, None):
        chunks = sa.split(backend.array(x), axis=1, num_outputs=num_outputs, copy=copy)
        assert [chunk.shape[1] for chunk in chunks] == sizes
        assert_chunks(chunks, parts_of(x, sizes, 1), backend)


@each_library
@pytest.mark.parametrize(
    ("length", "num_outputs", "size", "last"), [(5, 4, 2, -1), (1, 3, 1, -1), (3, 7, 1, -3), (10, 2**40, 1, 11 - 2**40)]
)
def test_a_number_that_would_leave_less_than_nothing_is_refused(backend, length, num_outputs, size, last):
    with pytest.raises(ValueError, match=rf"^split: (?=.*{length})(?=.*num_outputs={num_outputs})(?=.*{size}.*{last})"):
        sa.split(backend.array(values(length)), num_outputs=num_outputs)


@pytest.mark.parametrize("num_outputs", [0, -1, np.int8(-2), -(2**70)])
def test_a_number_that_is_not_positive_is_refused(num_outputs):
    for length in (0, 3):
        with pytest.raises(ValueError, match=rf"^split: num_outputs is {num_outputs};.*greater than 0"):
            sa.split(values(length), num_outputs=num_outputs)


@pytest.mark.parametrize("num_outputs", [True, 2.0, "2", [2], (1,), np.float32(2), np.asarray(2.0)], ids=repr)
def test_a_number_of_another_kind_is_refused(num_outputs):
    with pytest.raises(TypeError, match=r"^split: num_outputs .*integer"):
        sa.split(values(4), num_outputs=num_outputs)


@pytest.mark.parametrize("num_outputs", [np.int8(2), np.uint64(2), np.asarray(2)], ids=repr)
def test_a_number_may_be_any_integer(num_outputs):
    assert [len(chunk) for chunk in sa.split(values(4), num_outputs=num_outputs)] == [2, 2]


@each_library
def test_either_sizes_or_a_number(backend):
    array = backend.array(values(4))
    with pytest.raises(ValueError, match=r"^split: (?=.*split)(?=.*num_outputs).*neither"):
        sa.split(array)
    for sizes in ([2, 2], 2):
        with pytest.raises(ValueError, match=r"^split: (?=.*split)(?=.*num_outputs).*both"):
            sa.split(array, sizes, num_outputs=2)


@each_library
@pytest.mark.parametrize("split", [2, np.int64(2), np.asarray(2), 0, -1], ids=repr)
def test_one_number_is_ambiguous(backend, split):
    with pytest.raises(TypeError, match=r"^split: (?=.*num_outputs)(?=.*split_to_sequence)"):
        sa.split(backend.array(values(4)), split)
    with pytest.raises(TypeError, match=r"^split: (?=.*num_outputs)(?=.*split_to_sequence)"):
        sa.split(backend.array(values(4)), split=backend.array(np.asarray(2, np.int32)))


# Axes and arrays.

ON_ARRAYS: dict[str, Callable[..., Any]] = {
    "split": lambda x, **arguments: sa.split(x, num_outputs=1, **arguments),
    "split_to_sequence": sa.split_to_sequence,
}


@each_library
@pytest.mark.parametrize("name", ON_ARRAYS)
@pytest.mark.parametrize("axis", [2, -3, 100, 2**64])
def test_an_axis_out_of_range_tells_the_range(backend, name, axis):
    with pytest.raises(AxisError, match=rf"^{name}: axis is {axis};.*rank 2.*\[-2, 1\]") as caught:
        ON_ARRAYS[name](backend.array(values(2, 3)), axis=axis)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, IndexError)


@each_library
@pytest.mark.parametrize("name", ON_ARRAYS)
@pytest.mark.parametrize("axis", [0, -1, 1])
def test_rank_zero_has_no_axis(backend, name, axis):
    with pytest.raises(AxisError, match=rf"^{name}: axis is {axis}, but x has rank 0"):
        ON_ARRAYS[name](backend.array(np.float32(1)), axis=axis)
    with pytest.raises(AxisError, match=rf"^{name}: axis is {axis}, but x has rank 0"):
        ON_ARRAYS[name](np.float32(1), axis=axis)


@pytest.mark.parametrize("name", ON_ARRAYS)
@pytest.mark.parametrize("axis", [True, 0.0, "0", None, (0,), np.asarray([0]), np.timedelta64(0, "s")], ids=repr)
def test_an_axis_that_is_no_integer_is_refused(name, axis):
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: axis ") as caught:
        ON_ARRAYS[name](values(2, 3), axis=axis)
    assert not isinstance(caught.value, IndexError)


@pytest.mark.parametrize("name", ON_ARRAYS)
@pytest.mark.parametrize("axis", [np.int8(1), np.uint64(1), np.asarray(1), np.int64(-1)], ids=repr)
def test_an_axis_may_be_any_integer(name, axis):
    chunks = ON_ARRAYS[name](values(2, 3), axis=axis)
    assert chunks[0].shape == ((2, 3) if name == "split" else (2, 1))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("name", ON_ARRAYS)
@pytest.mark.parametrize(
    "x",
    [
        lambda: [1.0, 2.0],
        lambda: (np.ones(2),),
        lambda: sa.ArraySequence([np.ones(2)]),
        lambda: 3,
        lambda: 1.0,
        lambda: None,
        lambda: "text",
        lambda: np.ma.masked_array([1.0, 2.0]),
        lambda: np.matrix([[1.0]]),
        lambda: range(3),
    ],
    ids="list tuple sequence int float None str masked_array matrix range".split(),
)
def test_what_is_no_array_is_refused(name, x):
    with pytest.raises(TypeError, match=rf"^{name}: x must be an array"):
        ON_ARRAYS[name](x())


@pytest.mark.parametrize("name", ON_ARRAYS)
@pytest.mark.parametrize("copy", [0, 1, "no", np.False_])
def test_copy_is_true_false_or_none(name, copy):
    with pytest.raises(TypeError, match=rf"^{name}: copy .*True, False or None"):
        ON_ARRAYS[name](values(2), copy=copy)


def test_names_of_arguments():
    x = values(4)
    assert len(sa.split(x, split=[1, 3])) == 2
    assert len(sa.split_to_sequence(x, split=2)) == 2
    for call in (
        lambda: sa.split(x=x, split=[4]),
        lambda: sa.split(x, [4], 0),
        lambda: sa.split_to_sequence(x, 2, 0),
        lambda: sa.split_to_sequence(x, 2, num_outputs=2),
        lambda: sa.split(x, [4], keepdims=1),
    ):
        with pytest.raises(TypeError, match="argument"):
            call()


# Memory layouts and element types.


@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_memory_layout_is_split(axis, copy):
    base = values(4, 6, 8)
    read_only = values(2, 3, 4)
    read_only.flags.writeable = False
    for x in (
        np.asfortranarray(base),
        base.transpose(1, 2, 0),
        base[::2, ::3, 1::2],
        base[::-1, :, ::-1],
        np.broadcast_to(base[:1, :1, :], (3, 3, 8)),
        read_only,
    ):
        length = x.shape[axis]
        sizes = [1, length - 1]
        expected = parts_of(x, sizes, axis)
        sequence = sa.split_to_sequence(x, sizes, axis=axis, copy=copy)
        assert_sequences_equal(sequence, expected)
        assert_sequences_equal(sa.ArraySequence(sa.split(x, sizes, axis=axis, copy=copy)), expected)
        assert_arrays_equal(sa.concat_from_sequence(sequence[::-1], axis=axis), np.concatenate(expected[::-1], axis))
        rows = sa.split_to_sequence(x, axis=axis, keepdims=0, copy=copy)
        assert_sequences_equal(rows, [np.take(x, i, axis) for i in range(length)])
        assert all(chunk.flags.writeable for chunk in sequence) or copy is None


@pytest.mark.engine
@pytest.mark.parametrize("axis", [0, 1])
def test_copies_of_any_memory_layout_are_row_major(axis):
    base = values(4, 6)
    for x in (base, base.T, np.asfortranarray(base), base[::-1, ::2], np.broadcast_to(base[:1], (3, 6))):
        for keepdims in (0, 1):
            chunks = sa.split_to_sequence(x, axis=axis, keepdims=keepdims)
            assert all(chunk.flags.c_contiguous for chunk in chunks)
        assert all(chunk.flags.c_contiguous for chunk in sa.split(x, num_outputs=2, axis=axis))


@pytest.mark.backends("array-api-strict", "torch")
@pytest.mark.parametrize("copy", [True, None])
def test_permuted_arrays_are_split(backend, copy):
    x = values(2, 3, 4)
    permuted = backend.xp.permute_dims(backend.array(x), (2, 0, 1))
    for axis in range(3):
        sequence = sa.split_to_sequence(permuted, axis=axis, copy=copy)
        assert_chunks(sequence, np.split(x.transpose(2, 0, 1), len(sequence), axis), backend)


@each_library_but_jax
@pytest.mark.parametrize(
    "dtype",
    "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bool complex64 complex128 U3 O T S2 "
    "bfloat16 float8_e4m3fn float8_e5m2".split(),
)
def test_every_element_type_is_split(backend, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numbers = np.asarray([[1, 0, 1], [0, 1, 1]])
    x = numbers.astype(str).astype(dtype) if dtype[0] in "UOTS" else numbers.astype(getattr(ml_dtypes, dtype, dtype))
    array = backend.array(x)
    for copy in (True, None):
        sequence = sa.split_to_sequence(array, [1, 2], axis=1, copy=copy)
        assert sequence.dtype == array.dtype
        assert_chunks(sequence, [x[:, :1], x[:, 1:]], backend)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_special_values_pass_bit_by_bit(backend, dtype):
    x = np.asarray([np.nan, -0.0, np.inf, -np.inf, np.finfo(dtype).tiny / 2], dtype)
    chunks = sa.split_to_sequence(backend.array(x), 2)
    assert b"".join(sa.testing.to_numpy(chunk).tobytes() for chunk in chunks) == x.tobytes()


@each_library
def test_results_stay_in_the_library_and_on_the_device(backend):
    array = backend.array(values(4))
    for chunks in (sa.split(array, [1, 3]), sa.split_to_sequence(array, 2), sa.split(array, num_outputs=2, copy=None)):
        for chunk in chunks:
            assert array_api_compat.array_namespace(chunk) is backend.xp
            assert array_api_compat.device(chunk) == array_api_compat.device(array)


@each_library
def test_a_split_that_is_refused_changes_nothing(backend):
    x = values(2, 3)
    array = backend.array(x)
    for call in (lambda: sa.split(array, [1, 2]), lambda: sa.split(array, [2], axis=5), lambda: sa.split(array, 2)):
        with pytest.raises((TypeError, ValueError)):
            call()
    assert_arrays_equal(array, backend.array(values(2, 3)))
