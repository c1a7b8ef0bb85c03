"""Splitting an array: sizes and numbers of chunks, axes, what is refused, and the element types."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal

AxisError = np.exceptions.AxisError

INTEGER_TYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()

#: One backend of every library, for what does not depend on the types that it can hold.
each_library = pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")
#: jax compiles for every type anew; its own tests take some types.
each_library_but_jax = pytest.mark.backends("numpy", "array-api-strict", "torch", "dask", "cupy")
#: Those whose arrays can be read without computing them.
each_eager = pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "jax-x64", "cupy")

#: Both operators with sizes, giving an ArraySequence or a tuple.
WITH_SIZES: dict[str, Callable[..., Any]] = {
    "split": sa.split,
    "split_to_sequence": sa.split_to_sequence,
}


def values(*shape: int) -> Any:
    """A float32 array whose items are all different."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def parts_of(x: Any, sizes: Any, axis: int = 0) -> list[Any]:
    """The chunks of a NumPy array, cut one by one."""
    stops = np.cumsum([0, *sizes]).tolist()
    return [np.take(x, range(start, stop), axis) for start, stop in pairwise(stops)]


def assert_chunks(actual: Any, expected: list[Any], backend: Any) -> None:
    """A tuple or a sequence of arrays equals these NumPy arrays."""
    assert isinstance(actual, (tuple, sa.ArraySequence))
    assert_sequences_equal(sa.ArraySequence(actual), [backend.array(array) for array in expected])


# All sizes.


@each_library
@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sizes_along_every_axis(backend, name, axis):
    x = values(4, 4, 4)
    for sizes in ([1, 3], (2, 0, 2)):
        for copy in (True, None):
            chunks = WITH_SIZES[name](backend.array(x), sizes, axis=axis, copy=copy)
            assert type(chunks) is (tuple if name == "split" else sa.ArraySequence)
            assert_chunks(chunks, parts_of(x, sizes, axis), backend)


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
@each_eager
def test_sizes_may_be_an_array_of_every_integer_type(backend, dtype):
    sizes = backend.array(np.asarray([1, 0, 2], dtype))
    for operator in WITH_SIZES.values():
        assert_chunks(operator(backend.array(values(3)), sizes), parts_of(values(3), [1, 0, 2]), backend)


@each_library
@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize(
    "sizes",
    [
        [np.int8(1), np.uint64(2)],
        (np.int64(1), 2),
        np.asarray([1, 2], ">i2"),
        np.asarray([1, 9, 2, 9])[::2],
        np.asarray([2, 1])[::-1],
    ],
    ids=repr,
)
def test_sizes_may_be_numpy_integers_whatever_the_array_is(backend, name, sizes):
    assert_chunks(WITH_SIZES[name](backend.array(values(3)), sizes), parts_of(values(3), [1, 2]), backend)


@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.backends("dask")
def test_lazy_sizes_are_refused(backend, name):
    with pytest.raises(TypeError, match=rf"^{name}: split .*host integer"):
        WITH_SIZES[name](backend.array(values(3)), backend.array(np.asarray([1, 2])))


def test_a_lazy_size_is_refused():
    dask = pytest.importorskip("dask.array", reason="dask is not installed")
    with pytest.raises(TypeError, match=r"^split_to_sequence: split .*host integer"):
        sa.split_to_sequence(values(3), dask.asarray(2))
    with pytest.raises(TypeError, match=r"^split: num_outputs .*host integer"):
        sa.split(values(3), num_outputs=dask.asarray(2))


@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize(
    ("sizes", "culprit"),
    [
        ([True, 2], "0"),
        ([1, np.True_, 1], "1"),
        ([1.0, 2], "0"),
        ([1, 2.0], "1"),
        ([np.float64(1), 2], "0"),
        ([1, None], "1"),
        (["1", 2], "0"),
        ([[1], [2]], "0"),
        ([np.asarray([1]), 2], "0"),
        ((1, np.timedelta64(2, "s")), "1"),
    ],
    ids=str,
)
def test_sizes_of_another_kind_are_refused(name, sizes, culprit):
    with pytest.raises(TypeError, match=rf"^{name}: split\[{culprit}\] .*integer"):
        WITH_SIZES[name](values(3), sizes)


@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize("dtype", ["bool", "float32", "float64", "complex64"])
def test_an_array_of_sizes_of_another_type_is_refused(backend, name, dtype):
    sizes = backend.array(np.asarray([1, 1], dtype))
    with pytest.raises(TypeError, match=rf"^{name}: split .*{dtype}.*integer"):
        WITH_SIZES[name](backend.array(values(2)), sizes)


@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize("sizes", [np.asarray(["1", "2"]), np.asarray([1, 2], object), np.ma.masked_array([1, 2])])
def test_an_array_of_no_numbers_is_refused(name, sizes):
    with pytest.raises(TypeError, match=rf"^{name}: split .*integer"):
        WITH_SIZES[name](values(3), sizes)


@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize(
    "sizes", ["12", b"12", {1: 2}, {1, 2}, range(1, 3), iter([1, 2]), 1.0, np.float32(1), True, object]
)
def test_what_is_no_list_of_sizes_is_refused(name, sizes):
    with pytest.raises(TypeError, match=rf"^{name}: split "):
        WITH_SIZES[name](values(3), sizes)


@each_library
@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (0, 0), (1, 1, 1)], ids=str)
def test_sizes_of_rank_two_are_refused(backend, name, shape):
    sizes = np.ones(shape, np.int32)
    with pytest.raises(ValueError, match=rf"^{name}: split must be .*1-D, but has shape \({shape[0]}, {shape[1]}"):
        WITH_SIZES[name](backend.array(values(2)), sizes)
    if backend.name != "dask":
        with pytest.raises(ValueError, match=rf"^{name}: split must be .*1-D"):
            WITH_SIZES[name](backend.array(values(2)), backend.array(sizes))


@each_library
@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize("sizes", [[1, 1], [1, 3], [3, 1], [4], [0], [0, 0], [2, 2]], ids=str)
def test_sizes_that_do_not_sum_up_are_refused(backend, name, sizes):
    message = rf"^{name}: split .*sums to {sum(sizes)}, but axis 1 has length 3"
    for given in (sizes, tuple(sizes), np.asarray(sizes)):
        for axis in (1, -1):
            with pytest.raises(ValueError, match=message) as caught:
                WITH_SIZES[name](backend.array(values(2, 3)), given, axis=axis)
            assert not isinstance(caught.value, IndexError)


@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize(
    ("sizes", "culprit"),
    [([-1, 4], "0"), ([4, -1], "1"), ([2, 2, -1], "2"), ([1, -(2**63), 2], "1"), ([-3], "0")],
    ids=str,
)
def test_negative_sizes_are_refused(name, sizes, culprit):
    for given in (sizes, np.asarray(sizes)):
        with pytest.raises(ValueError, match=rf"^{name}: split\[{culprit}\] is {sizes[int(culprit)]};.*negative"):
            WITH_SIZES[name](values(3), given)


@pytest.mark.parametrize("name", WITH_SIZES)
@pytest.mark.parametrize(
    "sizes",
    [
        np.asarray([2**64 - 1], np.uint64),
        np.asarray([2**63, 2**63, 3], np.uint64),
        np.asarray([2**62] * 4 + [3], np.int64),
        np.asarray([2**63 - 1, 2**63 - 1, 5], np.int64),
        np.asarray([127, 127, 5], np.int8),
        np.asarray([255, 4], np.uint8),
        np.asarray([2**31 - 1, 2**31 - 1, 5], np.int32),
        [2**64, 3],
        [2**64 - 1, 4],
        [2**200],
    ],
    ids=str,
)
def test_sizes_whose_sum_would_overflow_are_refused(name, sizes):
    total = sum(map(int, sizes))
    with pytest.raises(ValueError, match=rf"^{name}: split .*sums to {total}, but axis 0 has length 3"):
        WITH_SIZES[name](values(3), sizes)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint64"])
def test_small_integer_types_do_not_overflow_in_the_sum(dtype):
    x = values(1000)
    sizes = np.full(10, 100, dtype)
    assert_sequences_equal(sa.split_to_sequence(x, sizes), list(x.reshape(10, 100)))
    assert_sequences_equal(sa.split_to_sequence(x, sizes, copy=None)[7:], list(x.reshape(10, 100))[7:])


def test_many_sizes_that_do_not_sum_up_make_a_short_message():
    with pytest.raises(ValueError, match=r"^split: split .*sums to 1000, but axis 0 has length 3") as caught:
        sa.split(values(3), [1] * 1000)
    assert len(str(caught.value)) < 200


@each_library
@pytest.mark.parametrize("name", WITH_SIZES)
def test_no_sizes_fit_an_axis_of_length_zero_only(backend, name):
    for sizes in ([], (), np.asarray([], np.int64)):
        chunks = WITH_SIZES[name](backend.array(values(2, 0)), sizes, axis=1)
        assert len(chunks) == 0
        if name == "split_to_sequence":
            assert chunks.namespace is backend.xp
            assert chunks.element_type == "float32"
        else:
            assert chunks == ()
        with pytest.raises(ValueError, match=rf"^{name}: split .*sums to 0, but axis 0 has length 2"):
            WITH_SIZES[name](backend.array(values(2, 0)), sizes)


@pytest.mark.parametrize("name", WITH_SIZES)
def test_an_empty_array_of_sizes_has_to_be_of_integers(name):
    with pytest.raises(TypeError, match=rf"^{name}: split has dtype float64"):
        WITH_SIZES[name](values(0), np.asarray([]))


@each_library
@pytest.mark.parametrize("name", WITH_SIZES)
def test_sizes_of_zero_are_chunks(backend, name):
    for copy in (True, None):
        assert_chunks(WITH_SIZES[name](backend.array(values(0)), [0, 0, 0], copy=copy), [values(0)] * 3, backend)
        chunks = WITH_SIZES[name](backend.array(values(2, 3)), [0, 3, 0], axis=1, copy=copy)
        assert_chunks(chunks, [values(2, 0), values(2, 3), values(2, 0)], backend)
        chunks = WITH_SIZES[name](backend.array(values(3, 0)), [1, 2], copy=copy)
        assert_chunks(chunks, [values(1, 0), values(2, 0)], backend)


# split_to_sequence with one size, or none.


@each_library
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 100, 2**63, 2**70], ids=str)
def test_a_size_for_every_chunk(backend, size):
    x = values(5, 2)
    expected = [x[start : start + size] for start in range(0, 5, min(size, 5))]
    for copy in (True, None):
        sequence = sa.split_to_sequence(backend.array(x), size, copy=copy)
        assert sequence.sizes() == tuple(len(part) for part in expected)
        assert_chunks(sequence, expected, backend)
    chunks = sa.split_to_sequence(backend.array(x.T.copy()), size, axis=-1)
    assert_chunks(chunks, [part.T for part in expected], backend)


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
@each_eager
def test_a_size_may_be_an_array_of_rank_zero(backend, dtype):
    size = backend.array(np.asarray(2, dtype))
    assert sa.split_to_sequence(backend.array(values(5)), size).sizes() == (2, 2, 1)


@each_library
@pytest.mark.parametrize("size", [np.int8(2), np.uint64(2), np.asarray(2), np.asarray(2, ">i4")], ids=repr)
def test_a_size_may_be_a_numpy_integer(backend, size):
    assert sa.split_to_sequence(backend.array(values(5)), size).sizes() == (2, 2, 1)


@each_library
def test_one_size_in_an_array_of_rank_one_is_all_sizes(backend):
    with pytest.raises(ValueError, match=r"^split_to_sequence: split .*sums to 2, but axis 0 has length 4"):
        sa.split_to_sequence(backend.array(values(4)), np.asarray([2]))
    assert len(sa.split_to_sequence(backend.array(values(4)), [4])) == 1


@pytest.mark.parametrize("size", [0, -1, -2, np.int8(-3), np.asarray(0), -(2**70)], ids=str)
def test_a_size_that_is_not_positive_is_refused(size):
    for length in (0, 3):
        with pytest.raises(ValueError, match=rf"^split_to_sequence: split is {int(size)};.*greater than 0"):
            sa.split_to_sequence(values(length), size)


@pytest.mark.parametrize(
    "size", [True, 2.0, np.float32(2), np.True_, np.asarray(2.0), np.asarray(True), "2", 2j], ids=repr
)
def test_a_size_of_another_kind_is_refused(size):
    with pytest.raises(TypeError, match=r"^split_to_sequence: split .*integer"):
        sa.split_to_sequence(values(4), size)


@each_library
@pytest.mark.parametrize("keepdims", [1, False, np.int64(0)], ids=repr)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_no_size_makes_chunks_of_one(backend, axis, keepdims):
    x = values(2, 3)
    expected = [np.take(x, [i] if keepdims else i, axis) for i in range(x.shape[axis])]
    for copy in (True, None):
        sequence = sa.split_to_sequence(backend.array(x), axis=axis, keepdims=keepdims, copy=copy)
        assert_chunks(sequence, [np.asarray(part) for part in expected], backend)
    assert_chunks(sa.split_to_sequence(backend.array(x), None, axis=axis), np.split(x, x.shape[axis], axis), backend)


@each_library
def test_dropping_the_only_axis_gives_arrays_of_rank_zero(backend):
    for copy in (True, None):
        sequence = sa.split_to_sequence(backend.array(values(3)), keepdims=0, copy=copy)
        assert sequence.shapes == ((), (), ())
        assert_chunks(sequence, [np.asarray(i, np.float32) for i in range(3)], backend)


@each_library
@pytest.mark.parametrize("split", [1, 2, [1, 1, 1], [0, 3], np.asarray(1), np.asarray([3])], ids=repr)
def test_keepdims_is_ignored_when_sizes_are_given(backend, split):
    array = backend.array(values(3, 2))
    for copy in (True, None):
        sequence = sa.split_to_sequence(array, split, keepdims=0, copy=copy)
        assert_sequences_equal(sequence, sa.split_to_sequence(array, split, copy=copy))
        assert all(len(shape) == 2 for shape in sequence.shapes)


@pytest.mark.parametrize("keepdims", [2, -1, np.int8(3)])
def test_another_keepdims_is_refused(keepdims):
    for split in (None, 1, [3]):
        with pytest.raises(ValueError, match=rf"^split_to_sequence: keepdims is {keepdims}; expected 0 or 1"):
            sa.split_to_sequence(values(3), split, keepdims=keepdims)


@pytest.mark.parametrize("keepdims", [1.0, "1", None, np.float32(0), [0]], ids=repr)
def test_a_keepdims_that_is_no_integer_is_refused(keepdims):
    with pytest.raises(TypeError, match=r"^split_to_sequence: keepdims .*0 or 1"):
        sa.split_to_sequence(values(3), keepdims=keepdims)


@each_library
@pytest.mark.parametrize("keepdims", [0, 1])
def test_an_axis_of_length_zero_gives_an_empty_typed_sequence(backend, keepdims):
    array = backend.array(values(2, 0, 3))
    for split in (None, 1, 5):
        for copy in (True, None):
            sequence = sa.split_to_sequence(array, split, axis=1, keepdims=keepdims, copy=copy)
            assert (len(sequence), sequence.element_type) == (0, "float32")
            assert sequence.namespace is backend.xp
            assert sequence.device == array_api_compat.device(array)
            assert sequence.dtype == array.dtype


@each_library
def test_other_axes_of_length_zero_are_kept(backend):
    for keepdims, shape in ((1, (1, 0, 3)), (0, (0, 3))):
        for copy in (True, None):
            sequence = sa.split_to_sequence(backend.array(values(2, 0, 3)), keepdims=keepdims, copy=copy)
            assert sequence.shapes == (shape, shape)
            assert_chunks(sequence, [values(*shape)] * 2, backend)


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
