"""NumPy arrays joined more than once: no join changes what another gives, and each sees the elements as they are."""

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqarray as sa
from tests.engines.numpy_arrays import (
    FAMILIES,
    LAYOUTS,
    NUMBERS,
    Array,
    assert_same,
    filled,
    is_converted,
    joinable,
    joined_by_numpy,
    laid_out,
    tiny,
)

pytestmark = pytest.mark.engine


@given(
    drawn=joinable(families=tuple(NUMBERS)), calls=st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=5)
)
def test_calls_do_not_change_what_later_ones_give(drawn, calls):
    sequence = sa.ArraySequence(drawn.arrays)
    for axis, stack in [*calls, (drawn.axis, drawn.stack), (0, False), (0, True), *calls]:
        try:
            expected = joined_by_numpy(drawn.arrays, axis, stack)
        except ValueError:
            for arrays in (sequence, drawn.arrays):
                with pytest.raises(ValueError, match=r"^concat_from_sequence: "):
                    sa.concat_from_sequence(arrays, axis=axis, new_axis=int(stack))
        else:
            for arrays in (sequence, drawn.arrays):
                assert_same(sa.concat_from_sequence(arrays, axis=axis, new_axis=int(stack)), expected)


DTYPES = [*"?bBhHiIlLqQefdgFDG", ml_dtypes.bfloat16, ">f4", ">c16"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1, 5)], ids=str)
def test_many_tiny_arrays_of_every_number_are_joined_the_same_again(dtype, shape):
    arrays = tiny(20, shape, dtype)
    sequence = sa.ArraySequence(arrays)
    for stack in (False, True, False, True):
        joined = sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack))
        assert_same(joined, joined_by_numpy(arrays, 0, stack))
        assert joined.flags.aligned
        assert not any(np.shares_memory(joined, array) for array in arrays)


def test_results_of_one_sequence_are_independent():
    sequence = sa.ArraySequence(tiny(20))
    first, second, third = (sa.concat_from_sequence(sequence, axis=0) for _ in range(3))
    stacked = sa.concat_from_sequence(sequence, axis=0, new_axis=1)
    second[...] = -1
    for joined in (first, third):
        assert_same(joined, np.concatenate(list(sequence)))
    assert_same(stacked, np.stack(list(sequence)))


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
@pytest.mark.parametrize("family", ["object", "str_ of all widths", "StringDType", "text of all kinds", "structure"])
def test_many_tiny_arrays_of_text_are_joined_the_same_again(again, family):
    dtypes = FAMILIES[family]
    arrays = [filled((2,), dtypes[index % len(dtypes)], 10 * index) for index in range(40)]
    sequence = sa.ArraySequence(arrays)
    expected = {stack: joined_by_numpy(arrays, 0, stack == 1) for stack in (0, 1)}
    for _ in range(3 if again else 1):
        for stack, wanted in expected.items():
            joined = sa.concat_from_sequence(sequence, axis=0, new_axis=stack)
            assert_same(joined, wanted, converted=is_converted(arrays))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place", [0, 7, 19])
@pytest.mark.parametrize("stack", [False, True])
def test_elements_of_any_layout_are_joined_the_same_again(layout, place, stack):
    arrays = tiny(20)
    arrays[place] = laid_out(arrays[place], layout)
    sequence = sa.ArraySequence(arrays)
    for _ in range(3):
        assert_same(sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack)), joined_by_numpy(arrays, 0, stack))


def test_ragged_elements_and_empty_ones_are_joined_the_same_again():
    arrays = [filled((length, 3), np.dtype(np.int32), 100 * length) for length in (0, 4, 1, 0, 0, 2, 7, 0)]
    sequence = sa.ArraySequence(arrays)
    for _ in range(3):
        assert_same(sa.concat_from_sequence(sequence, axis=0), np.concatenate(arrays))
        with pytest.raises(ValueError, match=r"element 1 has shape \(4, 3\); element 0 has \(0, 3\)"):
            sa.concat_from_sequence(sequence, axis=0, new_axis=1)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)], ids=str)
def test_empty_elements_are_joined_the_same_again(shape):
    arrays = tiny(20, shape)
    sequence = sa.ArraySequence(arrays)
    for _ in range(3):
        for stack in (False, True):
            assert_same(
                sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack)), joined_by_numpy(arrays, 0, stack)
            )


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("first", [True, False], ids=["after the first axis", "before it"])
def test_other_axes_are_joined_right(axis, stack, first):
    arrays = tiny(20)
    sequence = sa.ArraySequence(arrays)
    if first:
        for _ in range(2):
            sa.concat_from_sequence(sequence, axis=0)
    places = 2 + stack
    if not -places <= axis < places:
        with pytest.raises(np.exceptions.AxisError):
            sa.concat_from_sequence(sequence, axis=axis, new_axis=int(stack))
    else:
        for _ in range(2):
            joined = sa.concat_from_sequence(sequence, axis=axis, new_axis=int(stack))
            assert_same(joined, joined_by_numpy(arrays, axis, stack))
    for stacked in (stack, not stack, stack):
        joined = sa.concat_from_sequence(sequence, axis=0, new_axis=int(stacked))
        assert_same(joined, joined_by_numpy(arrays, 0, stacked))


def test_what_is_written_to_an_element_is_joined_the_next_time():
    arrays = tiny(20)
    sequence = sa.ArraySequence(arrays)
    for value in range(4):
        arrays[value][1, 2] = -value
        for stack in (False, True):
            assert_same(
                sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack)), joined_by_numpy(arrays, 0, stack)
            )


def resized(*shapes: tuple[int, ...]) -> Callable[[list[Array]], None]:
    def change(arrays: list[Array]) -> None:
        for array, shape in zip(arrays, shapes, strict=False):
            array.resize(shape, refcheck=False)

    return change


def reshaped(shape: tuple[int, ...], count: int) -> Callable[[list[Array]], None]:
    def change(arrays: list[Array]) -> None:
        for array in arrays[:count]:
            array.shape = shape

    return change


def retyped(dtype: Any, count: int) -> Callable[[list[Array]], None]:
    def change(arrays: list[Array]) -> None:
        for array in arrays[:count]:
            array.dtype = dtype

    return change


def restrided(arrays: list[Array]) -> None:
    arrays[0].strides = (4, 8)


#: What can be done in place to elements of shape (2, 3) that a sequence holds.
IN_PLACE: dict[str, Callable[[list[Array]], None]] = {
    "one longer": resized((3, 3)),
    "one shorter": resized((1, 3)),
    "one empty": resized((0, 3)),
    "one longer and one shorter": resized((3, 3), (1, 3)),
    "one of other columns": resized((2, 4)),
    "two of other columns, as many in all": resized((2, 4), (2, 2)),
    "one reshaped": reshaped((3, 2), 1),
    "one of another rank": reshaped((6,), 1),
    "one of a higher rank": reshaped((2, 3, 1), 1),
    "all reshaped": reshaped((3, 2), 99),
    "all of rank 1": reshaped((6,), 99),
    "all of a higher rank": reshaped((1, 2, 3), 99),
    "one of another dtype": retyped(np.int32, 1),
    "one of a smaller dtype": retyped(np.float16, 1),
    "one of another byte order": retyped(">f4", 1),
    "all of another dtype": retyped(np.int32, 99),
    "all of another byte order": retyped(">f4", 99),
    "one of other strides": restrided,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # newer versions of NumPy warn about all of this
@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE)
def test_elements_that_were_changed_in_place_before_they_are_joined_give_no_wrong_results(change, count, stack):
    arrays = [array.copy() for array in tiny(count)]
    sequence = sa.ArraySequence(arrays)
    change(arrays)
    try:
        expected = np.stack(arrays) if stack else np.concatenate(arrays)
    except ValueError:
        with pytest.raises(ValueError, match=r"^concat_from_sequence: "):
            sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack))
        return
    # To refuse an element whose type has changed is right too.
    try:
        joined = sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack))
    except (TypeError, ValueError):
        assert any(array.dtype != np.float32 for array in arrays)
    else:
        np.testing.assert_array_equal(joined, expected)
        assert joined.shape == expected.shape


def test_versions_of_a_sequence_are_joined_each_as_it_is():
    arrays = tiny(20)
    sequence = sa.ArraySequence(arrays)
    for _ in range(3):
        sa.concat_from_sequence(sequence, axis=0)
    longer, wider = filled((5, 3), np.dtype(np.float32), 5000), filled((2, 4), np.dtype(np.float32), 6000)
    versions = {
        "insert": (sa.sequence_insert(sequence, longer, 3), [*arrays[:3], longer, *arrays[3:]]),
        "append": (sa.sequence_insert(sequence, longer), [*arrays, longer]),
        "erase": (sa.sequence_erase(sequence, 0), arrays[1:]),
        "erase the last": (sa.sequence_erase(sequence), arrays[:-1]),
        "slice": (sequence[2:9], arrays[2:9]),
        "reverse": (sequence[::-1], arrays[::-1]),
        "one": (sequence[4:5], arrays[4:5]),
        "again": (sa.ArraySequence(sequence), arrays),
        "the same": (sequence, arrays),
    }
    for _ in range(3):
        for version, elements in versions.values():
            assert_same(sa.concat_from_sequence(version, axis=0), np.concatenate(elements))
        with pytest.raises(ValueError, match=r"element 20 has shape \(2, 4\)"):
            sa.concat_from_sequence(sa.sequence_insert(sequence, wider), axis=0)
        with pytest.raises(ValueError, match=r"element 3 has shape \(5, 3\)"):
            sa.concat_from_sequence(versions["insert"][0], axis=0, new_axis=1)
        assert_same(sa.concat_from_sequence(sequence, axis=0, new_axis=1), np.stack(arrays))


def test_a_version_of_mixed_text_is_joined_after_one_of_equal_widths():
    arrays = [np.array([f"{i:02}"]) for i in range(20)]
    sequence = sa.ArraySequence(arrays)
    for _ in range(2):
        sa.concat_from_sequence(sequence, axis=0)
    wider = sa.sequence_insert(sequence, np.array(["wider"]))
    for _ in range(2):
        assert_same(sa.concat_from_sequence(wider, axis=0), np.concatenate([*arrays, np.array(["wider"])]))


def test_a_sequence_of_many_blocks_is_joined_the_same_again():
    arrays = tiny(1000, (1, 2))
    sequence = sa.sequence_erase(sa.ArraySequence(arrays), 300)
    del arrays[300]
    for stack in (False, False, True, True):
        assert_same(sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack)), joined_by_numpy(arrays, 0, stack))


def test_a_sequence_of_views_and_arrays_is_joined_the_same_again():
    x = filled((40, 3), np.dtype(np.float32))
    extra = filled((2, 3), np.dtype(np.float32), 1000)
    sequence = sa.sequence_insert(sa.split_to_sequence(x, 2, copy=None), extra, 7)
    for _ in range(3):
        assert_same(sa.concat_from_sequence(sequence, axis=0), np.concatenate([x[:14], extra, x[14:]]))


class Preferred(np.ndarray[Any, Any]):
    """A class that NumPy prefers for what it makes of it and others."""

    __array_priority__ = 10


@pytest.mark.parametrize("place", [0, 1])
def test_the_class_of_results_depends_neither_on_size_nor_on_earlier_calls(request, place):
    arrays = tiny(20)
    arrays[place] = arrays[place].view(Preferred)
    sequence = sa.ArraySequence(arrays)
    joined = [sa.concat_from_sequence(sequence, axis=0) for _ in range(3)]
    joined.append(sa.concat_from_sequence(arrays, axis=0))
    request.getfixturevalue("large")
    joined.append(sa.concat_from_sequence(sa.ArraySequence(arrays), axis=0))
    assert len(set(map(type, joined))) == 1


def test_threads_may_join_a_sequence_for_the_first_time_together():
    arrays = tiny(30)
    expected = {stack: joined_by_numpy(arrays, 0, stack) for stack in (False, True)}
    failures: list[str] = []

    def join(sequence: Any, begin: threading.Barrier, stack: bool) -> None:
        begin.wait(30)
        for turn in range(3):
            joined = sa.concat_from_sequence(sequence, axis=0, new_axis=int(stack))
            if not np.array_equal(joined, expected[stack]):
                failures.append(f"{turn}: {joined}")

    for _ in range(20):
        begin, sequence = threading.Barrier(6), sa.ArraySequence(arrays)
        threads = [threading.Thread(target=join, args=(sequence, begin, stack)) for stack in (False, True) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert failures == []


# Large work, changed in place in between.


def turned(arrays: list[Array]) -> None:
    for array in arrays:
        array.shape = array.shape[::-1]


def made_longer(arrays: list[Array]) -> None:
    arrays[1].resize((4_000, 6), refcheck=False)
    arrays[1][:] = 7


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
@pytest.mark.parametrize("change", [turned, made_longer])
@pytest.mark.parametrize("threads", [1, 2])
def test_elements_that_have_been_changed_in_place_are_joined_as_they_are_now(large, threads, change):
    large(threads)
    arrays = [filled((4, 6), np.dtype(np.float32), start).copy() for start in range(3)]
    sequence = sa.ArraySequence(arrays)
    sa.concat_from_sequence(sequence, axis=0)
    change(arrays)
    assert_same(sa.concat_from_sequence(sequence, axis=0), np.concatenate(arrays))


def test_an_element_that_no_longer_fits_is_named(large):
    arrays = [filled((4, 6), np.dtype(np.float32), start).copy() for start in range(3)]
    sequence = sa.ArraySequence(arrays)
    sa.concat_from_sequence(sequence, axis=0)
    arrays[2].resize((6, 4), refcheck=False)
    with pytest.raises(ValueError, match=r"^concat_from_sequence: element 2 has shape \(6, 4\)"):
        sa.concat_from_sequence(sequence, axis=0)
