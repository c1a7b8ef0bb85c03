"""Who shares memory with whom: what `copy=` and `out=` promise, per operator and array library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal, to_numpy
from tests.helpers import on_device_of

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)
VALUES.flags.writeable = False


def on(*names: str) -> pytest.MarkDecorator:
    """Run the test on these backends only."""
    return pytest.mark.backends(*names)


with_views = on("numpy", "array-api-strict", "torch", "cupy")
writable = on("numpy", "array-api-strict", "torch", "dask", "cupy")
jax = on("jax", "jax-x64")
not_numpy = on("array-api-strict", "torch", "jax", "jax-x64", "dask", "cupy")


class Way(NamedTuple):
    """A way to a result of an array `x`, with any `copy`; what NumPy gives; whether the result may be `x` itself."""

    run: Callable[[Any, bool | None], Any]
    expected: Callable[[Any], Any]
    itself: bool = False


def chunks(x: Any, **arguments: Any) -> sa.ArraySequence[Any]:
    """Chunks of one of which no view has been made yet."""
    return sa.split_to_sequence(x, copy=None, **arguments)


def concat(arrays: Any, copy: bool | None, *, axis: int = 0, new_axis: int = 0) -> Any:
    return sa.concat_from_sequence(arrays, axis=axis, new_axis=new_axis, copy=copy)


WAYS = {
    "at": Way(lambda x, copy: sa.sequence_at([x], 0, copy=copy), lambda x: x, itself=True),
    "split_to_sequence": Way(lambda x, copy: sa.split_to_sequence(x, [1, 2], copy=copy)[1], lambda x: x[1:, ...]),
    "split_to_sequence, columns": Way(
        lambda x, copy: sa.split_to_sequence(x, 3, axis=1, copy=copy)[0], lambda x: x[:, :3]
    ),
    "split_to_sequence, axis dropped": Way(
        lambda x, copy: sa.split_to_sequence(x, axis=-1, keepdims=0, copy=copy)[2], lambda x: x[:, 2]
    ),
    "split": Way(lambda x, copy: sa.split(x, [1, 2], copy=copy)[0], lambda x: x[:1, ...]),
    "split, columns": Way(lambda x, copy: sa.split(x, num_outputs=2, axis=1, copy=copy)[1], lambda x: x[:, 2:]),
    "concat of one": Way(lambda x, copy: concat([x], copy), lambda x: x, itself=True),
    "stack of one": Way(lambda x, copy: concat([x], copy, axis=1, new_axis=1), lambda x: x[:, None, ...]),
    "concat of all chunks": Way(lambda x, copy: concat(chunks(x), copy), lambda x: x, itself=True),
    "concat of some chunks": Way(lambda x, copy: concat(chunks(x, axis=1)[1:3], copy, axis=1), lambda x: x[:, 1:3]),
    "stack of all chunks": Way(
        lambda x, copy: concat(chunks(x, axis=1, keepdims=0), copy, axis=1, new_axis=1), lambda x: x, itself=True
    ),
    "stack of some chunks": Way(
        lambda x, copy: concat(chunks(x, keepdims=0)[1:], copy, axis=-2, new_axis=1), lambda x: x[1:, ...]
    ),
    "split into one": Way(lambda x, copy: sa.split(x, [3], copy=copy)[0], lambda x: x, itself=True),
    "split_to_sequence into one": Way(
        lambda x, copy: sa.split_to_sequence(x, 5, copy=copy)[0], lambda x: x, itself=True
    ),
}

#: Where one array cannot be a view of all elements.
JOINS = {
    "two arrays": lambda x: [x, x],
    "chunks in another order": lambda x: chunks(x)[::-1],
    "every other chunk": lambda x: chunks(x)[::2],
    "chunks and an array": lambda x: sa.sequence_insert(chunks(x), x[:1, :]),
}

every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
every_join = pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)


@pytest.fixture
def x(backend):
    return backend.array(VALUES.copy())


def overwrite(array: Any, value: int = 99) -> None:
    with on_device_of(array):
        array[...] = value


def is_overwritten(array: Any) -> bool:
    return bool((to_numpy(array) == 99).all())


@every_way
@pytest.mark.parametrize("copy", [True, None])
def test_values_are_right_whatever_is_copied(backend, x, way, copy):
    assert_arrays_equal(way.run(x, copy), backend.array(way.expected(VALUES)))
    assert_arrays_equal(x, backend.array(VALUES))


@writable
@every_way
def test_true_gives_fresh_memory(x, way):
    first, second = way.run(x, True), way.run(x, True)
    overwrite(first)
    np.testing.assert_array_equal(to_numpy(x), VALUES)
    overwrite(x)
    np.testing.assert_array_equal(to_numpy(second), way.expected(VALUES))


@writable
def test_true_gives_fresh_memory_where_all_other_elements_are_empty(x):
    joined = concat([x, x[:0, :]], True)
    overwrite(joined)
    np.testing.assert_array_equal(to_numpy(x), VALUES)


@with_views
@every_way
@pytest.mark.parametrize("copy", [None, False])
def test_none_and_false_give_views(x, way, copy):
    view = way.run(x, copy)
    assert_arrays_equal(view, way.expected(x))
    overwrite(view)
    assert is_overwritten(way.expected(x))
    overwrite(x, 7)
    assert not is_overwritten(view)


@pytest.mark.parametrize("way", [WAYS["at"], WAYS["concat of one"]], ids=["at", "concat of one"])
@pytest.mark.parametrize("copy", [None, False])
def test_none_and_false_give_the_element_itself(x, way, copy):
    assert way.run(x, copy) is x


@jax
@every_way
def test_false_on_jax_gives_the_element_itself_or_refuses(x, way):
    if way.itself:
        assert way.run(x, False) is x
    else:
        with pytest.raises(ValueError, match="copy"):
            way.run(x, False)


@every_join
def test_false_refuses_what_cannot_be_a_view(x, join):
    with pytest.raises(ValueError, match="copy=True or copy=None"):
        concat(join(x), False)


@writable
@every_join
@pytest.mark.parametrize("new_axis", [0, 1])
def test_none_copies_what_cannot_be_a_view(x, join, new_axis):
    arrays = join(x)
    joined = concat(arrays, None, new_axis=new_axis)
    overwrite(joined)
    np.testing.assert_array_equal(to_numpy(x), VALUES)


@pytest.fixture
def nothing_computed() -> Iterator[Callable[[], Any]]:
    """A context in which dask refuses to compute."""
    dask = pytest.importorskip("dask")

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("dask computed")

    return lambda: dask.config.set(scheduler=refuse)


@on("dask")
@every_way
@pytest.mark.parametrize("copy", [True, None, False])
def test_dask_arrays_stay_lazy(backend, x, way, copy, nothing_computed):
    with nothing_computed():
        result = way.run(x, copy)
        assert type(result) is type(x)
        assert (result is x) <= (copy is not True)
        with pytest.raises(AssertionError, match="dask computed"):
            result.compute()
    assert_arrays_equal(result, backend.array(way.expected(VALUES)))


@on("dask")
@every_join
@pytest.mark.parametrize("new_axis", [0, 1])
def test_joined_dask_arrays_stay_lazy(x, join, new_axis, nothing_computed):
    with nothing_computed():
        joined = concat(join(x), True, new_axis=new_axis)
    assert type(joined) is type(x)
    function = np.stack if new_axis else np.concatenate
    np.testing.assert_array_equal(joined.compute(), function(list(map(to_numpy, join(x))), axis=0))


def test_sequences_hold_the_arrays_they_are_given(backend, x):
    y = backend.array(VALUES[:1])
    for copy in (None, False):
        assert list(map(id, sa.sequence_construct(x, y, copy=copy))) == [id(x), id(y)]
    assert list(map(id, sa.ArraySequence([x, y]))) == [id(x), id(y)]
    inserted = sa.sequence_insert([x], y, 0)
    assert list(map(id, inserted)) == [id(y), id(x)]
    assert sa.sequence_erase(inserted, 0)[0] is x
    mapped = sa.sequence_map([x, y], y, body=lambda element, other: (element, other))
    assert [list(map(id, sequence)) for sequence in mapped] == [[id(x), id(y)], [id(y), id(y)]]
    assert list(map(id, inserted[::-1])) == [id(x), id(y)]
    assert inserted[0] is inserted[0] is y


@writable
def test_construct_copies_when_told_to(backend, x):
    y = backend.array(VALUES[0].copy())
    copies = sa.sequence_construct(x, y, x, copy=True)
    assert_sequences_equal(copies, [x, y, x])
    overwrite(x)
    overwrite(y)
    assert_sequences_equal(copies, [backend.array(VALUES), backend.array(VALUES[0]), backend.array(VALUES)])
    overwrite(copies[0])
    assert not is_overwritten(copies[1])
    assert not is_overwritten(copies[2])


@with_views
def test_writing_into_an_element_is_seen_by_every_version(x):
    old = sa.split_to_sequence(x, copy=True)
    new = sa.sequence_insert(sa.sequence_erase(old, 0), old[0])
    overwrite(old[1])
    assert is_overwritten(new[0])
    assert not is_overwritten(old[0])
    np.testing.assert_array_equal(to_numpy(x), VALUES)


TORCH_COPIES = {
    "split": lambda x: sa.split(x, [2, 2]),
    "split_to_sequence": lambda x: sa.split_to_sequence(x, 2),
    "split_to_sequence, axis dropped": lambda x: sa.split_to_sequence(x.reshape(2, 2), keepdims=0),
    "construct": lambda x: sa.sequence_construct(x[:2], x[2:], copy=True),
    "at": lambda x: [sa.sequence_at(sa.split_to_sequence(x, 2, copy=None), position) for position in (0, 1)],
}


@on("torch")
@pytest.mark.parametrize("copies", TORCH_COPIES.values(), ids=TORCH_COPIES)
def test_torch_copies_may_be_changed_while_others_are_differentiated(backend, copies):
    """Views share a version counter: after a change of one, torch refuses gradients that need another."""
    leaf = backend.xp.arange(4.0, requires_grad=True)
    first, second = copies(leaf * 1)
    loss = (first * first).sum()
    second.add_(1)
    loss.backward()
    assert leaf.grad.tolist() == [0, 2, 0, 0]


@on("torch")
@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("sizes", [None, 3, [1, 0, 3]])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_gradients_flow_through_torch_copies_and_views(backend, copy, sizes, keepdims):
    leaf = backend.xp.arange(8.0, requires_grad=True)
    weights = backend.xp.arange(8.0).reshape(4, 2)
    parts = sa.split_to_sequence(leaf.reshape(4, 2), sizes, keepdims=keepdims, copy=copy)
    weighted = sa.sequence_insert(sa.sequence_erase(parts, 0), sa.sequence_at(parts, 0, copy=copy) * 2, 0)
    joined = sa.concat_from_sequence(weighted, axis=0, new_axis=sizes is None and not keepdims, copy=copy)
    (joined * weights).sum().backward()
    first = 2 * (3 if sizes == 3 else 1)
    expected = [2 * n if n < first else n for n in range(8)]
    assert leaf.grad.tolist() == expected


def join(arrays: Any, **arguments: Any) -> np.ndarray[Any, Any]:
    """What NumPy joins."""
    function = np.stack if arguments.get("new_axis") else np.concatenate
    return function(list(arrays), axis=arguments["axis"])


LAYOUTS = {
    "row-major": np.zeros,
    "Fortran": lambda shape, dtype: np.zeros(shape, dtype, order="F"),
    "strided": lambda shape, dtype: np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2],
    "backwards": lambda shape, dtype: np.zeros(shape, dtype)[::-1],
}
OUT_INPUTS = {
    "arrays": [VALUES, VALUES[::-1], VALUES[:, ::-1]],
    "one array": [VALUES],
    "all chunks": sa.split_to_sequence(VALUES, axis=1, copy=None),
    "packed": sa.split_to_sequence(VALUES, axis=1, copy=True),
    "every other chunk": sa.split_to_sequence(VALUES, axis=1, keepdims=0, copy=None)[::2],
    "text of two widths": [np.asarray(["a", "bc"]), np.asarray(["defg", "h"])],
    "text of all kinds": [
        np.asarray(["a"]),
        np.asarray(["b"], dtype=object),
        np.asarray(["c"], np.dtypes.StringDType()),
    ],
    "bfloat16": [VALUES.astype(ml_dtypes.bfloat16)] * 2,
    "other byte order": [VALUES.astype(">f4"), VALUES],
    "a zero size": [VALUES, VALUES[:0]],
}


@pytest.mark.engine
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("arrays", OUT_INPUTS.values(), ids=OUT_INPUTS)
@pytest.mark.parametrize("arguments", [{"axis": 0}, {"axis": -1, "new_axis": 1}], ids=["concat", "stack"])
def test_out_is_filled_and_returned(arrays, arguments, layout):
    if "new_axis" in arguments and len(set(sa.ArraySequence(list(arrays)).shapes)) > 1:
        arrays = arrays[:1]
    expected = join([array.astype(object) for array in arrays], **arguments)
    out = layout(expected.shape, sa.ArraySequence(list(arrays)).dtype)
    assert sa.concat_from_sequence(arrays, **arguments, out=out) is out
    np.testing.assert_array_equal(out.astype(object), expected)


OVERLAPS = {
    "swapped halves": lambda x: ({"axis": 0}, [x[2:], x[:2]], x),
    "moved by one": lambda x: ({"axis": 0}, [x[1:], x[:1]], x),
    "reversed": lambda x: ({"axis": 0}, sa.split_to_sequence(x, copy=None)[::-1], x),
    "reversed output": lambda x: ({"axis": 0}, sa.split_to_sequence(x, copy=None), x[::-1]),
    "transposed": lambda x: ({"axis": 1, "new_axis": 1}, list(x), x),
    "itself": lambda x: ({"axis": 0}, [x], x),
    "chunks of itself": lambda x: ({"axis": 1}, sa.split_to_sequence(x, axis=1, copy=None), x),
    "itself twice": lambda x: ({"axis": 0}, [x[:2], x[:2]], x),
    "part of it": lambda x: ({"axis": 0}, [x[1:3], np.full((1, 4), -1.0)], x[:3]),
}


@pytest.mark.engine
@pytest.mark.parametrize("overlap", OVERLAPS.values(), ids=OVERLAPS)
def test_out_may_share_memory_with_the_elements(overlap):
    arguments, arrays, out = overlap(np.arange(16.0).reshape(4, 4))
    expected = join(arrays, **arguments)
    assert sa.concat_from_sequence(arrays, **arguments, out=out) is out
    np.testing.assert_array_equal(out, expected)


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


WRONG_OUTS = {
    "shape": (np.zeros((4, 6), np.float32), ValueError, ["(4, 6)", "(6, 4)"]),
    "longer": (np.zeros((7, 4), np.float32), ValueError, ["(7, 4)", "(6, 4)"]),
    "rank": (np.zeros(24, np.float32), ValueError, ["(24,)", "(6, 4)"]),
    "dtype": (np.zeros((6, 4), np.float64), TypeError, ["float64", "float32"]),
    "byte order": (np.zeros((6, 4), ">f4"), TypeError, [">f4", "float32"]),
    "list": ([[0.0] * 4] * 6, TypeError, ["list", "array of numpy"]),
    "scalar": (np.float32(0), TypeError, ["float32", "array of numpy"]),
    "masked array": (np.ma.zeros((6, 4), np.float32), TypeError, ["MaskedArray"]),
    "read-only": (read_only(np.zeros((6, 4), np.float32)), ValueError, ["read-only"]),
}


@pytest.mark.parametrize(("out", "exception", "mentions"), WRONG_OUTS.values(), ids=WRONG_OUTS)
@pytest.mark.parametrize(
    "arrays", [[VALUES, VALUES], chunks(np.concatenate([VALUES, VALUES]))], ids=["arrays", "chunks"]
)
def test_a_wrong_out_is_refused(arrays, out, exception, mentions):
    with pytest.raises(exception) as raised:
        sa.concat_from_sequence(arrays, axis=0, out=out)
    for mention in ["concat_from_sequence: out", *mentions]:
        assert mention in str(raised.value)
    assert not np.any(out)


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("arrays", [[VALUES], [VALUES, VALUES], chunks(VALUES)], ids=["one", "two", "chunks"])
def test_out_goes_with_a_copy_only(arrays, copy):
    out = np.zeros((3 * (1 + (len(arrays) == 2)), 4), np.float32)
    with pytest.raises(ValueError, match=f"out.*copy must be True, not {copy}"):
        sa.concat_from_sequence(arrays, axis=0, out=out, copy=copy)
    assert not out.any()


def test_shapes_that_do_not_fit_leave_out_as_it_was():
    out = np.zeros((6, 4), np.float32)
    with pytest.raises(ValueError, match=r"element 1 has shape \(3, 3\)"):
        sa.concat_from_sequence([VALUES, VALUES[:, :3]], axis=0, out=out)
    assert not out.any()


@pytest.mark.parametrize("library", ["numpy", "torch", "dask"])
def test_chunks_that_are_views_keep_their_shapes_and_values_when_the_array_is_changed_in_place(library):
    backend = {"numpy": "numpy", "torch": "torch", "dask": "dask.array"}[library]
    xp = pytest.importorskip(backend, reason=f"{library} is not installed")
    x = xp.arange(6) if library != "dask" else xp.arange(6, chunks=3)
    chunks = sa.split_to_sequence(x, [2, 4], copy=None)
    if library == "numpy":
        x.resize((2, 3))  # of as many bytes: just the shape, in place
    elif library == "torch":
        x.unsqueeze_(0)
    else:
        x[0] = 100
    assert [chunk.shape for chunk in chunks] == [(2,), (4,)]
    assert [to_numpy(chunk).tolist() for chunk in chunks] == [[0, 1], [2, 3, 4, 5]]
