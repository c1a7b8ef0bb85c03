"""Joining the elements of a sequence: axes, shapes, element types and `out=`."""

import warnings
from itertools import product
from typing import Any

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray._views import Run
from seqarray.testing import assert_arrays_equal
from tests.helpers import blocks_of

AxisError = np.exceptions.AxisError

#: One backend of every library, for what does not depend on the types that it can hold.
each_library = pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")
#: jax compiles for every type anew; its own tests take some types.
each_library_but_jax = pytest.mark.backends("numpy", "array-api-strict", "torch", "dask", "cupy")


def values(*shape: int) -> Any:
    """A float32 array whose items are all different."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def blocks_along(axis: int, lengths: Any, rank: int = 3) -> list[Any]:
    """Arrays that differ in their length along one axis, and in all values."""
    shapes = [[2, 3, 4, 5][:rank] for _ in lengths]
    for shape, length in zip(shapes, lengths, strict=True):
        shape[axis] = length
    return [values(*shape) + 1000 * i for i, shape in enumerate(shapes)]


# Axes.


@each_library
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("lengths", [(3, 1), (1, 0, 2), (4,)], ids=str)
def test_concatenates_along_every_axis(backend, axis, lengths):
    arrays = blocks_along(axis, lengths)
    expected = backend.array(np.concatenate(arrays, axis))
    elements = [backend.array(array) for array in arrays]
    for sequence in (elements, tuple(elements), sa.ArraySequence(elements)):
        assert_arrays_equal(sa.concat_from_sequence(sequence, axis=axis), expected)
        assert_arrays_equal(sa.concat_from_sequence(sequence, axis=axis, copy=None), expected)


@each_library
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3)], ids=str)
def test_stacks_along_every_new_axis(backend, axis, shape):
    for count, copy in product((1, 3), (True, None)):
        arrays = [values(*shape) + 100 * i for i in range(count)]
        elements = [backend.array(array) for array in arrays]
        expected = backend.array(np.stack(arrays, axis))
        actual = sa.concat_from_sequence(elements, axis=axis, new_axis=1, copy=copy)
        assert tuple(actual.shape) == expected.shape
        assert_arrays_equal(actual, expected)


@pytest.mark.parametrize("axis", [0, -1])
def test_elements_of_rank_zero_can_be_stacked(backend, axis):
    elements = [backend.array(np.asarray(i, np.float32)) for i in range(3)]
    expected = backend.array(np.asarray([0, 1, 2], np.float32))
    assert_arrays_equal(sa.concat_from_sequence(elements, axis=axis, new_axis=1), expected)
    assert_arrays_equal(sa.concat_from_sequence(elements[2:], axis=axis, new_axis=1, copy=None), expected[2:])


@pytest.mark.parametrize("axis", [0, -1, 1])
def test_elements_of_rank_zero_have_no_axis_to_concatenate(backend, axis):
    elements = [backend.array(np.asarray(i, np.float32)) for i in range(3)]
    for count in (1, 3):
        with pytest.raises(AxisError, match=rf"^concat_from_sequence: axis is {axis}, but element 0 has rank 0"):
            sa.concat_from_sequence(elements[:count], axis=axis)


@pytest.mark.parametrize("axis", [1, -2])
def test_elements_of_rank_zero_have_one_place_for_a_new_axis(backend, axis):
    elements = [backend.array(np.asarray(i, np.float32)) for i in range(3)]
    with pytest.raises(AxisError, match=rf"^concat_from_sequence: axis is {axis};.*rank 0.*\[-1, 0\]"):
        sa.concat_from_sequence(elements, axis=axis, new_axis=1)


@each_library
@pytest.mark.parametrize("axis", [2, -3, 3, 100, -(2**63), 2**64])
def test_an_axis_out_of_range_tells_the_range(backend, axis):
    elements = [backend.array(values(2, 3)) for _ in range(2)]
    for sequence in (elements, elements[:1], sa.split_to_sequence(elements[0], axis=1, copy=None)):
        with pytest.raises(AxisError, match=rf"^concat_from_sequence: axis is {axis};.*rank 2.*\[-2, 1\]") as caught:
            sa.concat_from_sequence(sequence, axis=axis)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, IndexError)
        if axis not in (2, -3):
            with pytest.raises(AxisError, match=rf"^concat_from_sequence: axis is {axis};.*rank 2.*\[-3, 2\]"):
                sa.concat_from_sequence(sequence, axis=axis, new_axis=1)


def test_axis_is_needed_and_a_keyword():
    with pytest.raises(TypeError, match="axis"):
        sa.concat_from_sequence([np.ones(1)])
    with pytest.raises(TypeError, match="positional"):
        sa.concat_from_sequence([np.ones(1)], 0)


@pytest.mark.parametrize("axis", [True, np.False_, 0.0, "0", None, [0], (0,), np.asarray([0]), np.float32(0)], ids=repr)
def test_an_axis_that_is_no_integer_is_refused(axis):
    for new_axis in (0, 1):
        with pytest.raises((TypeError, ValueError), match=r"^concat_from_sequence: axis ") as caught:
            sa.concat_from_sequence([np.ones((2, 3))] * 2, axis=axis, new_axis=new_axis)
        assert not isinstance(caught.value, IndexError)


def test_an_axis_may_be_any_integer():
    for axis in (1, np.int8(1), np.uint64(1), np.asarray(1), np.int64(-1)):
        assert sa.concat_from_sequence([values(2, 3)] * 2, axis=axis).shape == (2, 6)


@pytest.mark.parametrize(
    ("new_axis", "rank"), [(0, 1), (False, 1), (np.False_, 1), (np.int8(0), 1)] + [(1, 2), (True, 2), (np.int64(1), 2)]
)
def test_new_axis_is_zero_one_or_a_bool(new_axis, rank):
    assert sa.concat_from_sequence([values(2)] * 2, axis=0, new_axis=new_axis).ndim == rank


@each_library
@pytest.mark.parametrize("new_axis", [2, -1, np.int64(2), 2**64])
def test_another_new_axis_is_refused(backend, new_axis):
    with pytest.raises(ValueError, match=rf"^concat_from_sequence: new_axis is {new_axis}; expected 0 or 1"):
        sa.concat_from_sequence([backend.array(values(2))] * 2, axis=0, new_axis=new_axis)


@pytest.mark.parametrize("new_axis", [1.0, 0.0, "1", None, np.float32(1), [1], np.asarray([1])], ids=repr)
def test_a_new_axis_that_is_no_integer_is_refused(new_axis):
    with pytest.raises(TypeError, match=r"^concat_from_sequence: new_axis .*0 or 1"):
        sa.concat_from_sequence([values(2)] * 2, axis=0, new_axis=new_axis)


@pytest.mark.parametrize("copy", [0, 1, "no", np.False_, 2.0])
def test_copy_is_true_false_or_none(copy):
    with pytest.raises(TypeError, match=r"^concat_from_sequence: copy .*True, False or None"):
        sa.concat_from_sequence([values(2)], axis=0, copy=copy)


# Shapes.


@each_library
def test_the_message_for_shapes_that_do_not_fit(backend):
    elements = [backend.array(values(*shape)) for shape in [(3, 4), (3, 4), (3, 5)]]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        sa.concat_from_sequence(elements, axis=0)
    assert str(caught.value) == (
        "concat_from_sequence: element 2 has shape (3, 5); element 0 has (3, 4), and they may differ only on axis 0"
    )


@each_library
@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(3, 4), (3, 5)], 0),
        ([(3, 4), (2, 4)], 1),
        ([(3, 4), (3, 4), (2, 4)], -1),
        # Zero sizes do not make a shape fit.
        ([(0, 2), (1, 4)], 1),
        ([(1, 4), (0, 2)], 1),
        ([(1, 5), (0, 7)], 0),
        ([(0, 7), (1, 5)], 0),
        ([(0, 3), (0, 4)], 0),
        ([(2, 0), (3, 0)], 1),
        ([(2, 0, 3), (2, 1, 4)], 1),
        # Ranks differ; torch has a habit of overlooking (0,).
        ([(2, 3), (3,)], 0),
        ([(3,), (2, 3)], 0),
        ([(2, 3), (1, 2, 3)], 1),
        ([(0,), (2, 3)], 0),
        ([(2, 3), (0,)], 0),
        ([(2, 3), (0,)], 1),
        ([(2, 3), (2, 3), ()], 0),
        ([(0,), ()], 0),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_are_refused(backend, shapes, axis):
    elements = [backend.array(values(*shape)) for shape in shapes]
    index = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
    both = rf"element {index} has shape \({', '.join(map(str, shapes[index]))},?\); element 0 has"
    for sequence in (elements, sa.ArraySequence(elements)):
        for copy in (True, None):
            with pytest.raises(ValueError, match=rf"^concat_from_sequence: {both}") as caught:
                sa.concat_from_sequence(sequence, axis=axis, copy=copy)
            assert not isinstance(caught.value, AxisError)


@each_library
@pytest.mark.parametrize(
    "shapes",
    [
        [(1000,), (0,)],
        [(0,), (2, 3)],
        [(0,), (2,)],
        [(2, 0), (3, 0)],
        [(2, 3), (3, 2)],
        [(2, 3), (2, 3), (2, 4)],
        [(2, 3), (1, 3), (3, 3)],
        [(2,), (1,), (3,)],
        [(), (1,)],
        [(1,), ()],
        [(2, 3), (6,)],
    ],
    ids=str,
)
def test_shapes_that_differ_cannot_be_stacked(backend, shapes):
    elements = [backend.array(values(*shape)) for shape in shapes]
    index = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
    both = rf"element {index} has shape \({', '.join(map(str, shapes[index]))},?\); element 0 has"
    for axis in (0, -1):
        with pytest.raises(ValueError, match=rf"^concat_from_sequence: {both}") as caught:
            sa.concat_from_sequence(elements, axis=axis, new_axis=1)
        assert not isinstance(caught.value, AxisError)


@each_library
def test_the_axis_is_that_of_element_0_in_elements_of_other_ranks(backend):
    elements = [backend.array(values(2)), backend.array(values(2, 3))]
    with pytest.raises(AxisError, match=r"axis is 1; element 0 has rank 1.*\[-1, 0\]"):
        sa.concat_from_sequence(elements, axis=1)


@each_library
def test_zero_sizes_that_fit_are_kept(backend):
    for shapes, axis, expected in [
        ([(0, 2), (1, 2)], 0, (1, 2)),
        ([(0, 3), (0, 3)], 0, (0, 3)),
        ([(0, 3), (0, 3)], 1, (0, 6)),
        ([(2, 0), (2, 3)], 1, (2, 3)),
        ([(0, 2), (0, 4)], 1, (0, 6)),
        ([(0,), (0,)], 0, (0,)),
        ([(0,), (3,), (0,)], 0, (3,)),
    ]:
        arrays = [values(*shape) for shape in shapes]
        actual = sa.concat_from_sequence([backend.array(array) for array in arrays], axis=axis)
        assert tuple(actual.shape) == expected
        assert_arrays_equal(actual, backend.array(np.concatenate(arrays, axis)))
    for shape, axis, expected in [
        ((0,), 0, (2, 0)),
        ((0,), 1, (0, 2)),
        ((0, 3), 2, (0, 3, 2)),
        ((2, 0), -3, (2, 2, 0)),
    ]:
        actual = sa.concat_from_sequence([backend.array(values(*shape))] * 2, axis=axis, new_axis=1)
        assert tuple(actual.shape) == expected


@each_library
def test_an_empty_sequence_cannot_be_joined(backend):
    for empty in ([], (), sa.sequence_empty(), sa.sequence_erase([backend.array(values(2))])):
        for new_axis in (0, 1):
            for copy in (True, None, False):
                with pytest.raises(ValueError, match=r"^concat_from_sequence: the sequence is empty.*rank"):
                    sa.concat_from_sequence(empty, axis=0, new_axis=new_axis, copy=copy)


@each_library
def test_chunks_joined_again_give_the_array_back(backend):
    x = values(3, 4, 5)
    array = backend.array(x)
    for axis in range(-3, 3):
        for copy in (True, None):
            chunks = sa.split_to_sequence(array, 2, axis=axis, copy=copy)
            assert_arrays_equal(sa.concat_from_sequence(chunks, axis=axis), array)
            rows = sa.split_to_sequence(array, axis=axis, keepdims=0, copy=copy)
            assert_arrays_equal(sa.concat_from_sequence(rows, axis=axis, new_axis=1), array)


@each_library
@pytest.mark.parametrize("copy", [True, None])
def test_chunks_joined_otherwise(backend, copy):
    x = values(4, 6)
    chunks = sa.split_to_sequence(backend.array(x), 2, axis=1, copy=copy)
    parts = [x[:, :2], x[:, 2:4], x[:, 4:]]

    def check(sequence: Any, expected: Any, **arguments: Any) -> None:
        assert_arrays_equal(sa.concat_from_sequence(sequence, **arguments), backend.array(expected))

    check(chunks, np.concatenate(parts, 0), axis=0)
    check(chunks, np.stack(parts, 1), axis=1, new_axis=1)
    check(chunks, np.stack(parts, -1), axis=-1, new_axis=1)
    check(chunks[::-1], np.concatenate(parts[::-1], 1), axis=1)
    check(chunks[::2], np.concatenate(parts[::2], 1), axis=1)
    check(chunks[1:], x[:, 2:], axis=1)
    check(chunks[:1], x[:, :2], axis=1)
    check(chunks[:2], x[:, :4], axis=-1)
    check(sa.sequence_erase(chunks, 1), np.concatenate(parts[::2], 1), axis=1)
    check(sa.sequence_insert(chunks, chunks[0], 1), np.concatenate([parts[0], *parts], 1), axis=1)
    rows = sa.split_to_sequence(backend.array(x), axis=1, keepdims=0, copy=copy)
    check(rows, x.T.reshape(-1), axis=0)
    check(rows, x.T, axis=0, new_axis=1)
    check(rows[2:4], x[:, 2:4], axis=1, new_axis=1)
    check(rows[1::2], x[:, 1::2], axis=-1, new_axis=1)
    check(rows[:1], x[:, :1], axis=1, new_axis=1)


@each_library
def test_a_slice_of_unequal_chunks(backend):
    x = values(7)
    chunks = sa.split_to_sequence(backend.array(x), [2, 0, 4, 1], copy=None)
    for part, expected in [
        (chunks[1:], x[2:]),
        (chunks[:2], x[:2]),
        (chunks[1:2], x[:0]),
        (chunks[2:3], x[2:6]),
        (chunks[::3], x[[0, 1, 6]]),
        (chunks[::-1], x[[6, 2, 3, 4, 5, 0, 1]]),
        (chunks[2::-2], x[[2, 3, 4, 5, 0, 1]]),
    ]:
        for copy in (True, None):
            assert_arrays_equal(sa.concat_from_sequence(part, axis=0, copy=copy), backend.array(expected))


@each_library
def test_joining_does_not_change_the_sequence(backend):
    arrays = [values(2, 3), values(2, 3) + 10]
    sequence = sa.ArraySequence([backend.array(array) for array in arrays])
    elements = list(sequence)
    for new_axis in (0, 1):
        sa.concat_from_sequence(sequence, axis=1, new_axis=new_axis)
    assert all(element is before for element, before in zip(sequence, elements, strict=True))
    for element, array in zip(sequence, arrays, strict=True):
        assert_arrays_equal(element, backend.array(array))


@each_library
def test_many_elements(backend):
    count = 30 if backend.name in ("jax", "dask") else 300
    x = values(count, 2)
    elements = [backend.array(row) for row in x]
    assert_arrays_equal(sa.concat_from_sequence(elements, axis=0), backend.array(x.reshape(-1)))
    assert_arrays_equal(sa.concat_from_sequence(elements, axis=0, new_axis=1), backend.array(x))
    assert_arrays_equal(sa.concat_from_sequence(elements, axis=1, new_axis=1), backend.array(x.T))


@each_library
def test_a_shape_that_does_not_fit_among_many_is_found(backend):
    elements = [backend.array(values(2, 3)) for _ in range(299)] + [backend.array(values(2, 4))]
    with pytest.raises(ValueError, match="element 299 "):
        sa.concat_from_sequence(elements, axis=0)


# Memory layouts and element types.


@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_any_memory_layout_is_joined(axis, new_axis):
    base = values(6, 8)
    layouts = [
        np.asfortranarray(base[:3, :4]),
        base[::2, ::2],
        base[3:, 4:][::-1, ::-1],
        base.T[:3, :4],
        np.broadcast_to(base[0, :4], (3, 4)),
    ]
    layouts[0].flags.writeable = False
    function = np.stack if new_axis else np.concatenate
    for arrays in (layouts, layouts[:1], layouts[:1] * 2, layouts[3:], [layouts[-1]] * 2):
        actual = sa.concat_from_sequence(arrays, axis=axis, new_axis=new_axis)
        assert_arrays_equal(actual, function(arrays, axis))
        assert actual.flags.writeable
        assert not np.may_share_memory(actual, base)


@each_library_but_jax
@pytest.mark.parametrize(
    "dtype",
    "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bool complex64 complex128 U3 O T S2 "
    "bfloat16 float8_e4m3fn float8_e5m2".split(),
)
def test_every_element_type_is_joined(backend, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numbers = np.asarray([[1, 0, 1], [0, 1, 1]])
    x = numbers.astype(str).astype(dtype) if dtype[0] in "UOTS" else numbers.astype(getattr(ml_dtypes, dtype, dtype))
    elements = [backend.array(x), backend.array(x[:, ::-1].copy())]
    joined = sa.concat_from_sequence(elements, axis=1)
    assert_arrays_equal(joined, backend.array(np.concatenate([x, x[:, ::-1]], 1)))
    assert joined.dtype == elements[0].dtype
    stacked = sa.concat_from_sequence(elements, axis=1, new_axis=1)
    assert_arrays_equal(stacked, backend.array(np.stack([x, x[:, ::-1]], 1)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_special_values_pass_bit_by_bit(backend, dtype):
    x = np.asarray([np.nan, -0.0, np.inf, -np.inf, np.finfo(dtype).tiny / 2], dtype)
    joined = sa.testing.to_numpy(sa.concat_from_sequence([backend.array(x), backend.array(x)], axis=0))
    assert joined.tobytes() == np.concatenate([x, x]).tobytes()


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_large_integers_stay_exact(backend, dtype):
    x = np.asarray([2**53 + 1, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    assert_arrays_equal(
        sa.concat_from_sequence([backend.array(x), backend.array(x)], axis=0), backend.array(np.concatenate([x, x]))
    )


def test_mixed_text_is_joined_in_the_common_dtype():
    narrow, wide = np.asarray(["a", "b"]), np.asarray(["abcd", ""])
    objects, variable = np.asarray(["xyz", "w"], dtype=object), np.asarray(["long text", "v"], np.dtypes.StringDType())
    for arrays, dtype in [
        ([narrow, wide], "<U4"),
        ([narrow, narrow], "<U1"),
        ([narrow, objects], object),
        ([objects, variable], object),
        ([variable, narrow], object),
        ([variable, variable], np.dtypes.StringDType()),
    ]:
        for new_axis in (0, 1):
            actual = sa.concat_from_sequence(arrays, axis=0, new_axis=new_axis)
            assert actual.dtype == np.dtype(dtype)
            texts = [str(text) for array in arrays for text in array]
            assert actual.reshape(-1).tolist() == texts
            assert all(isinstance(text, str) for text in actual.reshape(-1))


def test_objects_are_not_looked_into():
    marker = object()
    x = np.asarray([marker, None], dtype=object)
    assert sa.concat_from_sequence([x, x], axis=0)[2] is marker


# out=


WRITES = pytest.mark.backends("numpy", "torch", "cupy")


@WRITES
@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_out_is_filled_and_returned(backend, axis, new_axis):
    arrays = [values(2, 3), values(2, 3) + 10]
    expected = (np.stack if new_axis else np.concatenate)(arrays, axis)
    elements = [backend.array(array) for array in arrays]
    with backend.current():
        plain, wide, turned = map(backend.array, (expected, np.concatenate([expected] * 2, -1), expected.T.copy()))
        turned = backend.xp.permute_dims(turned, tuple(reversed(range(expected.ndim))))
        for out in (plain, wide[..., ::2], wide[..., : expected.shape[-1]], turned):
            out[...] = 0
            assert sa.concat_from_sequence(elements, axis=axis, new_axis=new_axis, out=out) is out
            assert_arrays_equal(out, backend.array(expected))


@WRITES
@pytest.mark.parametrize("copy", [True, None])
def test_out_takes_chunks_of_a_split(backend, copy):
    x = values(4, 6)
    for axis in (0, 1):
        out = backend.array(np.zeros((4, 6), np.float32))
        chunks = sa.split_to_sequence(backend.array(x), 2, axis=axis, copy=copy)
        assert sa.concat_from_sequence(chunks, axis=axis, out=out) is out
        assert_arrays_equal(out, backend.array(x))


@WRITES
@pytest.mark.parametrize("copy", [True, None])
def test_out_may_share_memory_with_the_elements_of_any_library(backend, copy):
    x = backend.array(values(6))
    assert sa.concat_from_sequence(sa.split_to_sequence(x, 2, copy=copy)[::-1], axis=0, out=x) is x
    assert_arrays_equal(x, backend.array(np.asarray([4, 5, 2, 3, 0, 1], np.float32)))


def test_out_may_share_memory_with_the_elements():
    x = values(6)
    assert sa.concat_from_sequence(sa.split_to_sequence(x, 2, copy=None)[::-1], axis=0, out=x) is x
    assert x.tolist() == [4, 5, 2, 3, 0, 1]
    x = values(6)
    sa.concat_from_sequence(sa.split_to_sequence(x, 2, copy=None), axis=0, out=x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    x = values(6)
    sa.concat_from_sequence([x[:3], x[1:4]], axis=0, out=x[::-1])
    assert x.tolist() == [3, 2, 1, 2, 1, 0]
    square = values(2, 2)
    sa.concat_from_sequence([square[0], square[1]], axis=1, new_axis=1, out=square)
    assert square.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize("shape", [(4,), (2, 3), (4, 3, 1), (3, 4), ()], ids=str)
def test_out_of_another_shape_is_refused_and_left_alone(shape):
    out = np.full(shape, 7, np.float32)
    with pytest.raises(ValueError, match=r"^concat_from_sequence: out has shape .*\(4, 3\)"):
        sa.concat_from_sequence([values(2, 3)] * 2, axis=0, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize("dtype", ["float64", "int32", ">f4", "float16", "complex64", object])
def test_out_of_another_dtype_is_refused(dtype):
    with pytest.raises(TypeError, match=r"^concat_from_sequence: out has dtype .*float32"):
        sa.concat_from_sequence([values(2, 3)] * 2, axis=0, out=np.zeros((4, 3), dtype))


def test_out_that_is_read_only_is_refused():
    out = np.zeros((4, 3), np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"^concat_from_sequence: out is read-only"):
        sa.concat_from_sequence([values(2, 3)] * 2, axis=0, out=out)


@pytest.mark.parametrize("out", [[0.0] * 4, 1.0, np.float32(1), "out", (np.zeros(4, np.float32),), True])
def test_out_that_is_no_array_is_refused(out):
    with pytest.raises(
        TypeError, match=rf"^concat_from_sequence: out is of type {type(out).__name__}; expected an array of numpy"
    ):
        sa.concat_from_sequence([values(2)] * 2, axis=0, out=out)


@pytest.mark.parametrize("copy", [None, False])
def test_out_goes_with_copying_only(copy):
    with pytest.raises(ValueError, match=r"^concat_from_sequence: out.*copy"):
        sa.concat_from_sequence([values(2)] * 2, axis=0, out=np.zeros(4, np.float32), copy=copy)
    chunks = sa.split_to_sequence(values(4), 2, copy=None)
    with pytest.raises(ValueError, match=r"^concat_from_sequence: out.*copy"):
        sa.concat_from_sequence(chunks, axis=0, out=np.zeros(4, np.float32), copy=copy)


@pytest.mark.backends("array-api-strict", "jax", "dask")
def test_out_is_for_libraries_that_can_write_to_any_array(backend):
    elements = [backend.array(values(2))] * 2
    library = backend.name.replace("-", "_")
    for out in (backend.array(np.zeros(4, np.float32)), np.zeros(4, np.float32)):
        with pytest.raises(TypeError, match=rf"^concat_from_sequence: out= is not supported for {library} arrays"):
            sa.concat_from_sequence(elements, axis=0, out=out)


@WRITES
def test_out_whose_items_share_memory_is_refused(backend):
    with backend.current():
        out = backend.xp.broadcast_to(backend.array(np.zeros((1, 2), np.float32)), (2, 2))
    with pytest.raises(ValueError, match=r"out (is read-only|has items that share their memory)"):
        sa.concat_from_sequence([backend.array(values(1, 2))] * 2, axis=0, out=out)


@pytest.mark.backends("torch", "cupy")
def test_out_of_another_library_is_refused(backend):
    with pytest.raises(TypeError, match=rf"out is of type ndarray; expected an array of {backend.name}"):
        sa.concat_from_sequence([backend.array(values(2))] * 2, axis=0, out=np.zeros(4, np.float32))


def test_shapes_are_checked_before_out_is_written():
    out = np.full(7, 7, np.float32)
    with pytest.raises(ValueError, match="element 1 has shape"):
        sa.concat_from_sequence([values(2, 2), values(3, 1)], axis=0, out=out)
    with pytest.raises(ValueError, match="element 1 has shape"):
        sa.concat_from_sequence([values(3), values(4)], axis=0, new_axis=1, out=out)
    assert (out == 7).all()


def test_out_of_text():
    out = np.zeros(3, "<U4")
    assert sa.concat_from_sequence([np.asarray(["a"]), np.asarray(["abcd", "b"])], axis=0, out=out) is out
    assert out.tolist() == ["a", "abcd", "b"]
    with pytest.raises(TypeError, match="out has dtype <U1"):
        sa.concat_from_sequence([np.asarray(["a"]), np.asarray(["abcd"])], axis=0, out=np.zeros(2, "<U1"))
    objects = np.empty(2, object)
    sa.concat_from_sequence([np.asarray(["a"]), np.asarray(["b"], dtype=object)], axis=0, out=objects)
    assert objects.tolist() == ["a", "b"]


# Libraries.


def test_results_stay_in_the_library_and_on_the_device(backend):
    elements = [backend.array(values(2, 3))] * 2
    for new_axis in (0, 1):
        joined = sa.concat_from_sequence(elements, axis=0, new_axis=new_axis)
        assert array_api_compat.array_namespace(joined) is backend.xp
        assert array_api_compat.device(joined) == array_api_compat.device(elements[0])


@pytest.mark.parametrize("device", ["CPU_DEVICE", "device1", "device2", "no_float64", "no_x64"])
def test_results_stay_on_every_device_of_array_api_strict(device):
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    array = xp.ones((2, 3), dtype=xp.float32, device=xp.Device(device))
    for new_axis in (0, 1):
        joined = sa.concat_from_sequence([array, array], axis=0, new_axis=new_axis)
        assert joined.device == xp.Device(device)
        chunks = sa.split_to_sequence(joined, axis=1)
        assert chunks.device == chunks[0].device == xp.Device(device)
    assert sa.sequence_map([array], body=lambda x: x + x).device == xp.Device(device)


@pytest.mark.parametrize("count", [2, 3, 40, 300])
@pytest.mark.parametrize("first", [">f8", "<f8", ">i2"])
@pytest.mark.parametrize("other", ["f4", "i4", "i8", "c16"])
@pytest.mark.parametrize("new_axis", [0, 1])
def test_numbers_of_another_type_are_never_promoted_whatever_the_length_of_the_list(count, first, other, new_axis):
    arrays = [np.ones(2, first)] * (count - 1) + [np.ones(2, other)]
    with pytest.raises(TypeError, match=rf"^concat_from_sequence: element {count - 1} has element type"):
        sa.concat_from_sequence(arrays, axis=0, new_axis=new_axis)


@pytest.mark.parametrize("count", [3, 40])
def test_byte_orders_mix_whatever_the_length_of_the_list(count):
    arrays = [np.full(2, number, ">f8" if number % 2 else "<f8") for number in range(count)]
    for given in (arrays, arrays[1:] + arrays[:1]):
        joined = sa.concat_from_sequence(given, axis=0)
        assert joined.dtype == np.dtype("=f8")
        assert joined.tolist() == np.concatenate(given).tolist()


@pytest.mark.engine
@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.backends("numpy", "torch", "cupy")
def test_a_view_of_all_chunks_can_be_reshaped_in_place(backend, copy):
    x = backend.array(np.arange(12.0, dtype=np.float32))
    for sequence in (sa.split_to_sequence(x, 3), sa.split_to_sequence(x, 3, copy=None)):
        if backend.name == "torch" and type(blocks_of(sequence)[0]) is not Run:
            continue  # its copies are chunks of their own, which no view joins
        joined = sa.concat_from_sequence(sequence, axis=0, copy=copy)
        if backend.name == "torch":
            joined.resize_(3, 4)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                joined.shape = (3, 4)
        assert joined.shape == (3, 4)
        assert sequence.shapes == ((3,),) * 4
        assert [tuple(chunk.shape) for chunk in sequence] == [(3,)] * 4
        assert sa.concat_from_sequence(sequence, axis=0).shape == (12,)


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("sizes", [[4], [1, 3]])
@pytest.mark.backends("numpy", "cupy")
def test_a_single_chunk_of_a_copied_split_is_joined_as_a_view(backend, sizes, copy):
    x = backend.array(np.arange(8, dtype=np.float32).reshape(2, 4))
    chunk = sa.split_to_sequence(x, sizes, axis=1)[:1]
    joined = sa.concat_from_sequence(chunk, axis=1, copy=copy)
    assert_arrays_equal(joined, chunk[0])
    with backend.current():
        joined[...] = -1
    assert_arrays_equal(joined, chunk[0])


@pytest.mark.parametrize("copy", [True, None, False])
@pytest.mark.parametrize(("shapes", "axis"), [([(1, 1), (0, 5)], 0), ([(1, 5, 0), (1, 0, 1)], -2), ([(2,), (2, 1)], 0)])
def test_packed_elements_that_do_not_fit_are_refused_as_views_too(backend, shapes, axis, copy):
    arrays = [backend.array(np.zeros(shape, np.float32)) for shape in shapes]
    packed = sa.sequence_construct(*arrays, copy=True)
    with pytest.raises(ValueError, match=r"^concat_from_sequence: element 1 has shape"):
        sa.concat_from_sequence(packed, axis=axis, copy=copy)
