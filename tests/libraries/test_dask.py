"""Living inside dask: nothing is computed, and lengths that are not known yet are borne where no length is needed."""

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")


def lazy(values: Any, chunks: Any = 2) -> Any:
    return da.from_array(np.asarray(values), chunks=chunks)


def more_than(limit: float, rows: int = 6) -> Any:
    """A one-dimensional array whose length only a computation can tell."""
    x = lazy(np.arange(float(rows)))
    return x[x > limit]


def rows_above(limit: float) -> Any:
    """A (nan, 2) array."""
    x = lazy(np.arange(12.0).reshape(6, 2))
    return x[x[:, 0] > limit]


@pytest.fixture
def nothing_is_computed() -> Iterator[None]:
    """Every attempt to compute an array is an error."""

    def scheduler(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was computed")

    with dask.config.set(scheduler=scheduler):
        with pytest.raises(AssertionError, match="computed"):
            lazy([1]).compute()
        yield


# Nothing is computed.

WORKING: dict[str, Callable[[Any, Any], Any]] = {
    "construct": lambda x, s: sa.sequence_construct(x, x),
    "construct copies": lambda x, s: sa.sequence_construct(x, x[:1], copy=True),
    "new": lambda x, s: sa.ArraySequence([x, x], dtype="float64", xp="dask", device="cpu"),
    "at": lambda x, s: sa.sequence_at(s, -1),
    "at itself": lambda x, s: sa.sequence_at(s, 0, copy=None),
    "insert": lambda x, s: sa.sequence_insert(s, x, 1),
    "append": lambda x, s: sa.sequence_insert(s, x),
    "insert into empty": lambda x, s: sa.sequence_insert(sa.sequence_empty("float64"), x),
    "erase": lambda x, s: sa.sequence_erase(s, 0),
    "length": lambda x, s: sa.sequence_length(s),
    "concat": lambda x, s: sa.concat_from_sequence(s, axis=0),
    "stack": lambda x, s: sa.concat_from_sequence(s[:2], axis=-1, new_axis=1),
    "concat one": lambda x, s: sa.concat_from_sequence([x], axis=0),
    "concat views": lambda x, s: sa.concat_from_sequence(sa.split_to_sequence(x, 2, copy=None), axis=0, copy=False),
    "split": lambda x, s: sa.split(x, [1, 3]),
    "split views": lambda x, s: sa.split(x, [1, 3], copy=False),
    "num_outputs": lambda x, s: sa.split(x, axis=1, num_outputs=2),
    "split_to_sequence": lambda x, s: sa.split_to_sequence(x, 3),
    "split_to_sequence views": lambda x, s: list(sa.split_to_sequence(x, 3, copy=None)),
    "drop": lambda x, s: sa.split_to_sequence(x, axis=-1, keepdims=0),
    "map": lambda x, s: sa.sequence_map(s, x, body=lambda a, b: (a.sum(), b)),
    "slice": lambda x, s: s[::-1][1:],
    "properties": lambda x, s: (
        s.shapes,
        s.sizes(1),
        s.nbytes,
        s.dtype,
        s.element_type,
        s.device,
        s.namespace,
        repr(s),
    ),
    "deep copy": lambda x, s: copy.deepcopy(s),
    "pickle": lambda x, s: pickle.loads(pickle.dumps(s)),
}

FAILING: dict[str, Callable[[Any, Any], Any]] = {
    "concat of shapes": lambda x, s: sa.concat_from_sequence([x, x[:, :2]], axis=0),
    "stack of shapes": lambda x, s: sa.concat_from_sequence([x, x[:1]], axis=0, new_axis=1),
    "axis": lambda x, s: sa.concat_from_sequence(s, axis=2),
    "position": lambda x, s: sa.sequence_at(s, 9),
    "lazy position": lambda x, s: sa.sequence_at(s, lazy(1, ())),
    "lazy position in one": lambda x, s: sa.sequence_insert(s, x, lazy([1])),
    "lazy position of floats": lambda x, s: sa.sequence_erase(s, lazy([1.0])),
    "lazy size": lambda x, s: sa.split_to_sequence(x, lazy(1, ())),
    "lazy sizes": lambda x, s: sa.split(x, lazy([2, 2])),
    "lazy number": lambda x, s: sa.split(x, num_outputs=lazy(2, ())),
    "lazy axis": lambda x, s: sa.split(x, [4], axis=lazy(0, ())),
    "sum of sizes": lambda x, s: sa.split(x, [1, 1]),
    "negative size": lambda x, s: sa.split(x, [5, -1]),
    "number": lambda x, s: sa.split(x, num_outputs=3, axis=0) and sa.split(x[:1], num_outputs=3),
    "type": lambda x, s: sa.sequence_insert(s, x.astype("float32")),
    "library": lambda x, s: sa.sequence_insert(s, np.ones(2)),
    "unknown length": lambda x, s: sa.split_to_sequence(more_than(2)),
    "copy": lambda x, s: sa.concat_from_sequence(s, axis=0, copy=False),
    "lengths": lambda x, s: sa.sequence_map(s, s[1:], body=lambda a, b: a),
    "in": lambda x, s: x in s,
    "index": lambda x, s: s.index(x),
}


@pytest.fixture
def x() -> Any:
    return lazy(np.arange(12.0).reshape(4, 3))


@pytest.mark.usefixtures("nothing_is_computed")
@pytest.mark.parametrize("operation", WORKING)
def test_no_operator_computes(operation, x):
    assert WORKING[operation](x, sa.ArraySequence([x, x + 1, x[:1]])) is not None


@pytest.mark.usefixtures("nothing_is_computed")
@pytest.mark.parametrize("operation", FAILING)
def test_no_error_computes(operation, x):
    with pytest.raises((TypeError, ValueError, IndexError), match=r"^\w+(\.\w+)?: "):
        FAILING[operation](x, sa.ArraySequence([x, x + 1, x[:1]]))


def test_results_are_lazy_arrays_of_dask(x):
    for result in (
        *sa.split(x, [1, 3]),
        *sa.split_to_sequence(x, 2),
        sa.concat_from_sequence([x, x], axis=0),
        sa.sequence_at([x], 0),
        sa.sequence_length([x]),
    ):
        assert isinstance(result, da.Array)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: sa.sequence_at([x], 0),
        lambda x: sa.concat_from_sequence([x], axis=0),
        lambda x: sa.split(x, [4])[0],
        lambda x: sa.split_to_sequence(x, 4)[0],
        lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, 2, copy=None), axis=0),
        lambda x: sa.sequence_construct(x, copy=True)[0],
    ],
    ids="at concat split split_to_sequence rejoin construct".split(),
)
def test_copies_are_new_arrays(operation, x):
    """dask arrays can be assigned to, so that a copy must not be the same object."""
    result = operation(x)
    assert result is not x
    result[0, 0] = -1
    assert float(x[0, 0]) == 0


# Unknown lengths.


def test_a_sequence_of_unknown_lengths():
    sequence = sa.ArraySequence([more_than(2), lazy(np.arange(2.0)), rows_above(3)])
    assert len(sequence) == 3
    assert "3 float64 arrays, dask on cpu: (nan,), (2,), (nan, 2)" in repr(sequence)
    assert sequence.shapes[1] == (2,)
    assert math.isnan(sequence.shapes[0][0])
    assert sequence.sizes(-1)[1:] == (2, 2)
    assert math.isnan(sequence.sizes()[2])
    assert math.isnan(sequence.nbytes)
    assert int(sa.sequence_length(sequence)) == 3


def test_single_elements_of_unknown_length():
    unknown = more_than(2)
    for sequence in ([unknown, lazy([1.0])], sa.ArraySequence([unknown, lazy([1.0])])):
        assert_arrays_equal(sa.sequence_at(sequence, 0), lazy([3.0, 4.0, 5.0]))
        assert_sequences_equal(sa.sequence_erase(sequence), [lazy([3.0, 4.0, 5.0])])
        inserted = sa.sequence_insert(sequence, more_than(4), 1)
        assert_sequences_equal(inserted, [lazy([3.0, 4.0, 5.0]), lazy([5.0]), lazy([1.0])])
        assert_sequences_equal(sa.sequence_map(sequence, body=lambda x: x.sum()), [lazy(12.0, ()), lazy(1.0, ())])
        assert_sequences_equal(sa.sequence_construct(*sequence, copy=True)[:1], [lazy([3.0, 4.0, 5.0])])


def test_concatenating_along_the_unknown_axis():
    joined = sa.concat_from_sequence([more_than(2), more_than(3), lazy([9.0])], axis=0)
    assert_arrays_equal(joined, lazy([3.0, 4.0, 5.0, 4.0, 5.0, 9.0]))
    joined = sa.concat_from_sequence([rows_above(7), rows_above(7), lazy([[0.0, 1.0]])], axis=-2)
    assert_arrays_equal(joined, lazy([[8.0, 9.0], [10.0, 11.0]] * 2 + [[0.0, 1.0]]))
    joined = sa.concat_from_sequence([more_than(100), more_than(4)], axis=0)
    assert_arrays_equal(joined, lazy([5.0]))


def test_concatenating_along_another_axis():
    joined = sa.concat_from_sequence([rows_above(7), rows_above(7) + 10], axis=1)
    assert_arrays_equal(joined, lazy([[8.0, 9.0, 18.0, 19.0], [10.0, 11.0, 20.0, 21.0]]))


def test_stacking_unknown_lengths():
    first, second = more_than(2), more_than(2) + 10
    for axis in (0, 1, -1, -2):
        joined = sa.concat_from_sequence([first, second], axis=axis, new_axis=1)
        expected = np.stack([np.asarray([3.0, 4.0, 5.0]), np.asarray([13.0, 14.0, 15.0])], axis)
        assert_arrays_equal(joined, lazy(expected))
    joined = sa.concat_from_sequence([rows_above(7), rows_above(7)], axis=1, new_axis=1)
    assert_arrays_equal(joined, lazy(np.stack([[[8.0, 9.0], [10.0, 11.0]]] * 2, 1)))
    assert sa.concat_from_sequence([first], axis=0, new_axis=1, copy=None).compute().shape == (1, 3)


def test_shapes_are_compared_where_they_are_known():
    with pytest.raises(
        ValueError, match=r"^concat_from_sequence: element 1 has shape \(nan, 1\); element 0 has \(nan, 2\)"
    ):
        sa.concat_from_sequence([rows_above(3), rows_above(3)[:, :1]], axis=0)
    with pytest.raises(
        ValueError, match=r"^concat_from_sequence: element 1 has shape \(nan,\); element 0 has \(nan, 2\)"
    ):
        sa.concat_from_sequence([rows_above(3), more_than(2)], axis=0)
    with pytest.raises(
        ValueError, match=r"^concat_from_sequence: element 1 has shape \(2, 3\); element 0 has \(nan, 2\)"
    ):
        sa.concat_from_sequence([rows_above(3), lazy(np.ones((2, 3)))], axis=0, new_axis=1)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: sa.split(x, [1, 2]),
        lambda x: sa.split(x, num_outputs=2),
        lambda x: sa.split(x, [1, 2], copy=None),
        sa.split_to_sequence,
        lambda x: sa.split_to_sequence(x, 2, copy=None),
        lambda x: sa.split_to_sequence(x, [3]),
        lambda x: sa.split_to_sequence(x, keepdims=0),
        lambda x: sa.split_to_sequence(x[:, None], axis=-2),
    ],
)
def test_splitting_the_unknown_axis_needs_its_length(operation):
    with pytest.raises(ValueError, match=r"^split\w*: the length of axis 0 of x is not known.*chunk sizes"):
        operation(more_than(2))
    known = more_than(2)
    known.compute_chunk_sizes()
    assert len(operation(known)) > 0


@pytest.mark.parametrize("copy_", [True, None, False])
def test_splitting_another_axis(copy_):
    left, right = lazy([[8.0], [10.0]]), lazy([[9.0], [11.0]])
    assert_sequences_equal(sa.ArraySequence(sa.split(rows_above(7), [1, 1], axis=1, copy=copy_)), [left, right])
    sequence = sa.split_to_sequence(rows_above(7), 1, axis=-1, copy=copy_)
    assert_sequences_equal(sequence, [left, right])
    assert_arrays_equal(sa.concat_from_sequence(sequence, axis=1, copy=None), lazy([[8.0, 9.0], [10.0, 11.0]]))
    assert_arrays_equal(sa.concat_from_sequence(sequence, axis=0), lazy([[8.0], [10.0], [9.0], [11.0]]))
    dropped = sa.split_to_sequence(rows_above(7), axis=1, keepdims=0, copy=copy_)
    assert_sequences_equal(dropped, [lazy([8.0, 10.0]), lazy([9.0, 11.0])])


@pytest.mark.parametrize("copy_", [True, None])
def test_columns_of_unknown_length_joined_again(copy_):
    columns = sa.split_to_sequence(rows_above(7), axis=1, keepdims=0, copy=copy_)
    joined = sa.concat_from_sequence(columns, axis=1, new_axis=1)
    assert_arrays_equal(joined, lazy([[8.0, 9.0], [10.0, 11.0]]))


def test_joining_known_and_unknown_rows_side_by_side_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match=r"^concat_from_sequence: (?s:.*)chunk.?sizes"):
        sa.concat_from_sequence([rows_above(3), lazy(np.ones((4, 2)))], axis=1)


# What dask itself does not notice.


@pytest.mark.parametrize(
    ("shapes", "axis", "new_axis"),
    [
        ([(0, 2), (1, 4)], 1, 0),
        ([(1, 5), (0, 7)], 0, 0),
        ([(0, 3), (0, 4)], 0, 0),
        ([(2, 0), (3, 0)], 0, 1),
        ([(0,), (2,)], 0, 1),
    ],
)
def test_zero_sizes_are_not_dropped(shapes, axis, new_axis):
    elements = [da.ones(shape) for shape in shapes]
    with pytest.raises(ValueError, match=r"^concat_from_sequence: element 1 has shape"):
        sa.concat_from_sequence(elements, axis=axis, new_axis=new_axis)


@pytest.mark.parametrize("new_axis", [0, 1])
def test_text_of_different_widths(new_axis):
    narrow, wide = lazy(np.asarray(["a", "b"]), 1), lazy(np.asarray(["abcd", "e"]), 1)
    sequence = sa.ArraySequence([narrow, wide])
    assert sequence.dtype == np.dtype("U4")
    joined = sa.concat_from_sequence(sequence, axis=0, new_axis=new_axis)
    assert joined.dtype == joined.compute().dtype == np.dtype("U4")
    assert joined.compute().reshape(-1).tolist() == ["a", "b", "abcd", "e"]
    objects = lazy(np.asarray(["x", "yz"], dtype=object), 1)
    for elements in ([narrow, objects], [objects, wide], [objects, objects]):
        joined = sa.concat_from_sequence(elements, axis=0, new_axis=new_axis)
        assert joined.dtype == joined.compute().dtype == np.dtype(object)
        assert joined.compute().reshape(-1).tolist() == [str(t) for element in elements for t in element.compute()]


def test_types_are_not_promoted():
    with pytest.raises(TypeError, match=r"^concat_from_sequence: element 1 .*int64.*float32"):
        sa.concat_from_sequence([da.ones(2, dtype="float32"), da.ones(2, dtype="int64")], axis=0)


@pytest.mark.parametrize("dtype", ["float16", "M8[s]", "S3", "bfloat16"])
def test_types_beyond_the_standard(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.arange(4).astype("i8").astype(getattr(ml_dtypes, dtype, dtype))
    x = lazy(values)
    chunks = sa.split_to_sequence(x, [1, 3])
    assert_arrays_equal(sa.concat_from_sequence(chunks[::-1], axis=0), lazy(np.roll(values, -1)))
    if dtype in ("float16", "bfloat16"):
        empty = sa.sequence_empty(dtype, xp="dask")
        assert empty.dtype == values.dtype
        assert_sequences_equal(sa.sequence_insert(empty, x), [x])


def test_big_endian_arrays_agree_with_native_ones():
    x = lazy(np.arange(4.0).astype(">f8"))
    joined = sa.concat_from_sequence([x, lazy(np.arange(2.0))], axis=0)
    assert joined.dtype.isnative
    assert_arrays_equal(joined, lazy([0.0, 1.0, 2.0, 3.0, 0.0, 1.0]))
    assert all(chunk.dtype.isnative for chunk in sa.split(x, [1, 3]))


def test_masks_are_not_dropped():
    masked = da.ma.masked_array(lazy(np.arange(4.0)), mask=[False, True, False, False])
    with pytest.raises(TypeError, match=r"^ArraySequence.to: an array of dask has masked values"):
        sa.ArraySequence([lazy(np.ones(2)), masked]).to(xp="numpy")
    with pytest.raises(TypeError, match=r"^to_numpy: an array of dask has masked values"):
        sa.testing.to_numpy(masked)
    assert sa.testing.to_numpy(da.ma.masked_greater(lazy(np.arange(4.0)), 9)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("value", [1.5, "abc", np.datetime64(1, "s"), None], ids=repr)
def test_arrays_of_rank_0_arrive_as_such(value):
    host = np.asarray("text", dtype=object) if value is None else np.asarray(value)
    for array in (lazy(host), lazy(np.stack([host, host]))[1]):
        moved = sa.ArraySequence([array]).to(xp="numpy")[0]
        assert type(moved) is np.ndarray
        assert moved.dtype == host.dtype
        assert moved.shape == ()
        assert moved == host


# Sequences as collections of dask.


def test_lazy_sequences_are_collections_and_others_are_not():
    parts = sa.split_to_sequence(lazy(np.arange(6)), [1, 5])
    assert dask.is_dask_collection(parts)
    assert dask.is_dask_collection(parts[:0])
    assert not dask.is_dask_collection(sa.ArraySequence([np.ones(2)]))


def test_a_sequence_is_computed_at_once(monkeypatch):
    computed = []
    x = lazy(np.arange(6)).map_blocks(lambda block: computed.append(1) or block, dtype=np.int64, meta=np.empty(0, int))
    parts = sa.split_to_sequence(x, [1, 5])
    found, nested, other = dask.compute(parts, {"a": [parts]}, x.sum())
    assert_sequences_equal(found, [np.arange(1), np.arange(1, 6)])
    assert_sequences_equal(nested["a"][0], found)
    assert other == 15
    assert len(computed) == 3  # every chunk of x once, for all that was asked


@pytest.mark.parametrize(
    "values", [[3, 4], [np.datetime64("2020", "D")], ["a", "ccc"], [1.5]], ids=["int", "date", "text", "float"]
)
def test_elements_of_rank_0_are_computed_as_arrays(values):
    arrays = [np.asarray(value) for value in values]
    (found,) = dask.compute(sa.ArraySequence([lazy(array, chunks=-1) for array in arrays]))
    assert_sequences_equal(found, arrays)
    assert all(type(element) is np.ndarray for element in found)


def test_unknown_lengths_are_known_once_computed():
    (found,) = dask.compute(sa.ArraySequence([more_than(2.0), more_than(9.0)]))
    assert found.shapes == ((3,), (0,))


@pytest.mark.parametrize("function", [dask.persist, dask.optimize])
def test_a_sequence_that_is_persisted_or_optimized_stays_lazy(function):
    parts = sa.split_to_sequence(lazy(np.arange(6)), [1, 5])
    (found,) = function(parts)
    assert (found.namespace, found.shapes) == (parts.namespace, parts.shapes)
    assert_sequences_equal(found.to(xp="numpy"), [np.arange(1), np.arange(1, 6)])
    assert_arrays_equal(sa.concat_from_sequence(found, axis=0).compute(), np.arange(6))


def test_delayed_functions_get_computed_elements():
    parts = sa.split_to_sequence(lazy(np.arange(6)), [1, 5])
    told = dask.delayed(lambda s: (s.shapes, type(s[0])))(parts).compute()
    assert told == (((1,), (5,)), np.ndarray)
