"""Splitting an array: every form of sizes, and which are refused."""

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_sequences_equal
from tests.operators.splitting_cases import (
    INTEGER_TYPES,
    WITH_SIZES,
    assert_chunks,
    each_eager,
    each_library,
    parts_of,
    values,
)

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
