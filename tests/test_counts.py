"""What operations cost, in counts: elements alive, views made, look-ups, calls of the namespace, allocations."""

from __future__ import annotations

import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal
from tests.helpers import BLOCK_LENGTH, blocks_of
from tests.processes import output_of

MANY = 10_000


def test_a_sliding_window_keeps_only_the_elements_in_it_alive():
    """One that slides by 100 000 elements, over a sequence of 1 000."""
    alive: dict[int, weakref.ref[Any]] = {}
    most = 0

    def new_element() -> Any:
        nonlocal most
        element = np.empty(1)
        reference = weakref.ref(element, lambda reference: alive.pop(id(reference)))
        alive[id(reference)] = reference
        most = max(most, len(alive))
        return element

    window = sa.ArraySequence([new_element() for _ in range(1_000)])
    for _ in range(100_000):
        window = sa.sequence_erase(sa.sequence_insert(window, new_element()), 0)
    assert len(window) == 1_000
    assert most <= 2_000


def test_an_element_dies_with_the_last_version_that_shows_it():
    elements = [np.zeros(1), np.ones(1)]
    reference = weakref.ref(elements[0])
    long = sa.ArraySequence(elements)
    short = sa.sequence_erase(long, 0)
    del elements
    assert reference() is long[0]
    del long
    assert reference() is None
    assert len(short) == 1


class CountedViews(np.ndarray):
    """A NumPy array that counts the views made of it, by whatever way."""

    made = 0

    def __array_finalize__(self, source: Any) -> None:
        CountedViews.made += 1


@pytest.fixture
def chunks() -> sa.ArraySequence[Any]:
    """10 000 chunks of two of an array that counts its views."""
    x = np.arange(2 * MANY).view(CountedViews)
    split = sa.split_to_sequence(x, 2, copy=None)
    CountedViews.made = 0
    return split


@pytest.mark.parametrize("sizes", [2, [2] * MANY, np.full(MANY, 2)], ids=["scalar", "list", "array"])
def test_splitting_makes_no_view_before_an_element_is_asked_for(sizes):
    x = np.arange(2 * MANY).view(CountedViews)
    references = sys.getrefcount(x)
    CountedViews.made = 0
    chunks = sa.split_to_sequence(x, sizes, copy=None)
    # One view: the array as an object whose shape nobody else changes.
    assert (len(chunks), CountedViews.made) == (MANY, 1)
    assert sys.getrefcount(x) == references + 1
    assert chunks[MANY // 2].tolist() == [MANY, MANY + 1]
    assert CountedViews.made == 2


def test_inserting_between_chunks_makes_no_view(chunks):
    tensor = np.asarray([-1])
    for position in (MANY // 2, 1, -1, 0, MANY):
        longer = sa.sequence_insert(chunks, tensor, position)
        assert CountedViews.made == 0
        assert longer[position if position >= 0 else position - 1] is tensor
    assert sa.sequence_insert(chunks, tensor, 5_000).shapes == ((2,),) * 5_000 + ((1,),) + ((2,),) * 5_000
    assert CountedViews.made == 0


def test_erasing_every_other_chunk_leaves_few_blocks_and_makes_no_view(chunks):
    most = 0
    for position in range(MANY // 2):
        chunks = sa.sequence_erase(chunks, position)
        most = max(most, len(blocks_of(chunks)))
    assert CountedViews.made == 0
    assert len(blocks_of(chunks)) <= 300
    # On the way, there are no more than the chunks left would excuse.
    assert most <= 500
    assert [chunk.tolist() for chunk in chunks] == [[4 * i + 2, 4 * i + 3] for i in range(MANY // 2)]


QUESTIONS = {
    "len": len,
    "repr": repr,
    "shapes": lambda chunks: chunks.shapes,
    "sizes": lambda chunks: chunks.sizes(),
    "nbytes": lambda chunks: chunks.nbytes,
    "dtype": lambda chunks: chunks.dtype,
    "sequence_length": sa.sequence_length,
    "every third": lambda chunks: chunks[10:-10:3],
    "backwards": lambda chunks: chunks[::-1],
    "ArraySequence": sa.ArraySequence,
    "sequence_erase": lambda chunks: sa.sequence_erase(chunks, 5),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_questions_about_chunks_make_no_view(chunks, question):
    question(chunks)
    assert CountedViews.made == 0


def test_joining_all_chunks_of_a_split_makes_one_view_at_most(chunks):
    assert sa.concat_from_sequence(chunks, axis=0, copy=None).shape == (2 * MANY,)
    assert sa.concat_from_sequence(chunks[100:], axis=0, copy=None).shape == (2 * MANY - 200,)
    assert CountedViews.made <= 2


@pytest.fixture
def short_turns() -> Iterator[None]:
    """Threads take turns as often as the interpreter allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(*functions: Callable[[], Any]) -> list[Any]:
    """The results of functions that start at the same time, each in a thread of its own."""
    barrier = threading.Barrier(len(functions))
    results: list[Any] = [None] * len(functions)

    def start(number: int) -> None:
        barrier.wait()
        try:
            results[number] = functions[number]()
        except Exception as error:  # an assertion in a thread would otherwise pass unseen
            results[number] = error

    threads = [threading.Thread(target=start, args=(number,)) for number in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def test_two_threads_append_to_the_same_version(short_turns):
    shared = sa.ArraySequence([np.asarray(-1 - i) for i in range(100)])

    def append(elements: list[Any]) -> sa.ArraySequence[Any]:
        sequence = shared
        for element in elements:
            sequence = sa.sequence_insert(sequence, element)
        return sequence

    mine = [[np.asarray(start + i) for i in range(MANY)] for start in (0, MANY)]
    for result, elements in zip(run_together(*(lambda e=e: append(e) for e in mine)), mine, strict=True):
        assert len(result) == 100 + MANY
        assert all(a is b for a, b in zip(result, [*shared, *elements], strict=True))


@pytest.mark.parametrize("length", [3, 300, 1_000])
def test_threads_change_and_read_the_same_version(short_turns, length):
    elements = [np.asarray(i) for i in range(length)]
    shared = sa.sequence_insert(sa.split_to_sequence(np.arange(length), keepdims=0, copy=None), elements[0], 1)
    values = [0, *range(length)]

    def change(seed: int) -> None:
        random = np.random.default_rng(seed)
        sequence, model = shared, values.copy()
        for step in range(1_000):
            place = int(random.integers(len(model)))
            if step % 2:
                sequence = sa.sequence_insert(sequence, elements[place % length], place)
                model.insert(place, place % length)
            else:
                sequence = sa.sequence_erase(sequence, place)
                del model[place]
        assert [int(element) for element in sequence] == model

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        for place in random.integers(len(values), size=2_000).tolist():
            assert int(shared[place]) == values[place]

    run_together(*(lambda f=f, seed=seed: f(seed) for f in (change, read) for seed in (1, 2)))
    assert [int(element) for element in shared] == values


@pytest.mark.parametrize("module", ["numpy", "array_api_strict"])
def test_the_namespace_of_a_sequence_is_looked_up_once(module):
    script = f"""
import array_api_compat
import {module} as xp
import seqarray as sa
array_namespace, look_ups = array_api_compat.array_namespace, []
def counted(*arrays, **keywords):
    look_ups.append(arrays)
    return array_namespace(*arrays, **keywords)
array_api_compat.array_namespace = counted
sequence = sa.ArraySequence([xp.zeros(2), xp.zeros(3)])
for number in range(50):
    sequence = sa.sequence_insert(sequence, xp.zeros(number), position=number // 2)
    sa.sequence_at(sequence, -1)
    sa.sequence_length(sequence)
    sa.concat_from_sequence(sequence, axis=0)
    sa.concat_from_sequence(sequence[:1], axis=0, new_axis=1)
sequence = sa.sequence_construct(*sequence[1:], copy=True)
sa.sequence_map(sequence, body=lambda element: element)
sa.split_to_sequence(sa.concat_from_sequence(sa.sequence_erase(sequence, 3), axis=0), 2)
print(len(look_ups))
"""
    assert int(output_of(script)) <= 1


ERRORS = {
    "construct nothing": (ValueError, lambda xp: sa.sequence_construct()),
    "construct of dtypes": (TypeError, lambda xp: sa.sequence_construct(xp.array(2), xp.array(2, dtype="int32"))),
    "construct of devices": (ValueError, lambda xp: sa.sequence_construct(xp.array(2), xp.array(2, device="device2"))),
    "construct of libraries": (TypeError, lambda xp: sa.sequence_construct(xp.array(2), np.zeros(2, np.float32))),
    "construct of a number": (TypeError, lambda xp: sa.sequence_construct(xp.array(2), 1.0)),
    "construct copies of dtypes": (
        TypeError,
        lambda xp: sa.sequence_construct(xp.array(2), xp.array(2, dtype="int32"), copy=True),
    ),
    "construct with a wrong copy": (TypeError, lambda xp: sa.sequence_construct(xp.array(2), copy=1)),
    "declare another dtype": (TypeError, lambda xp: sa.ArraySequence([xp.array(2)], dtype="int8")),
    "declare another library": (TypeError, lambda xp: sa.ArraySequence([xp.array(2)], xp="numpy")),
    "declare another device": (ValueError, lambda xp: sa.ArraySequence([xp.array(2)], device="device2")),
    "empty of what cannot be held": (TypeError, lambda xp: sa.sequence_empty("string", xp=xp)),
    "at a high position": (IndexError, lambda xp: sa.sequence_at([xp.array(2)], 1)),
    "at a low position": (IndexError, lambda xp: sa.sequence_at([xp.array(2)], -2)),
    "at a position in chunks": (IndexError, lambda xp: sa.sequence_at(lazy(xp), 3)),
    "at in an empty one": (IndexError, lambda xp: sa.sequence_at(emptied(xp), 0)),
    "at a position of floats": (TypeError, lambda xp: sa.sequence_at([xp.array(2)], xp.array())),
    "at two positions": (ValueError, lambda xp: sa.sequence_at([xp.array(2)], xp.array(2, dtype="int64"))),
    "at a bool": (TypeError, lambda xp: sa.sequence_at([xp.array(2)], True)),
    "at with a wrong copy": (TypeError, lambda xp: sa.sequence_at([xp.array(2)], 0, copy=1)),
    "at in an array": (TypeError, lambda xp: sa.sequence_at(xp.array(2), 0)),
    "insert of another dtype": (TypeError, lambda xp: sa.sequence_insert([xp.array(2)], xp.array(2, dtype="int32"))),
    "insert of another device": (
        ValueError,
        lambda xp: sa.sequence_insert([xp.array(2)], xp.array(2, device="device2")),
    ),
    "insert of another library": (TypeError, lambda xp: sa.sequence_insert([xp.array(2)], np.zeros(2, np.float32))),
    "insert of a list": (TypeError, lambda xp: sa.sequence_insert([xp.array(2)], [xp.array(2)])),
    "insert at a high position": (IndexError, lambda xp: sa.sequence_insert([xp.array(2)], xp.array(2), 2)),
    "insert at a low position": (IndexError, lambda xp: sa.sequence_insert(lazy(xp), xp.array(1), -4)),
    "insert at a float": (TypeError, lambda xp: sa.sequence_insert([xp.array(2)], xp.array(2), 0.0)),
    "insert into an empty one": (TypeError, lambda xp: sa.sequence_insert(emptied(xp), xp.array(dtype="int8"))),
    "erase from an empty one": (IndexError, lambda xp: sa.sequence_erase(emptied(xp))),
    "erase at a high position": (IndexError, lambda xp: sa.sequence_erase([xp.array(2)], 1)),
    "erase at a low position": (IndexError, lambda xp: sa.sequence_erase(lazy(xp), -4)),
    "concat of nothing": (ValueError, lambda xp: sa.concat_from_sequence(emptied(xp), axis=0)),
    "concat of shapes": (ValueError, lambda xp: sa.concat_from_sequence([xp.array(2, 3), xp.array(2, 4)], axis=0)),
    "concat of an empty shape": (
        ValueError,
        lambda xp: sa.concat_from_sequence([xp.array(2, 3), xp.array(0, 4)], axis=0),
    ),
    "concat of ranks": (ValueError, lambda xp: sa.concat_from_sequence([xp.array(2, 3), xp.array(2)], axis=0)),
    "concat of dtypes": (
        TypeError,
        lambda xp: sa.concat_from_sequence([xp.array(2), xp.array(2, dtype="int8")], axis=0),
    ),
    "concat of devices": (
        ValueError,
        lambda xp: sa.concat_from_sequence([xp.array(2), xp.array(2, device="CPU_DEVICE")], axis=0),
    ),
    "concat of an array": (TypeError, lambda xp: sa.concat_from_sequence(xp.array(2), axis=0)),
    "concat of rank 0": (np.exceptions.AxisError, lambda xp: sa.concat_from_sequence([xp.array(), xp.array()], axis=0)),
    "concat on a high axis": (np.exceptions.AxisError, lambda xp: sa.concat_from_sequence([xp.array(2)], axis=1)),
    "concat on a low axis": (np.exceptions.AxisError, lambda xp: sa.concat_from_sequence([xp.array(2)], axis=-2)),
    "concat on a float axis": (TypeError, lambda xp: sa.concat_from_sequence([xp.array(2)], axis=0.0)),
    "concat of chunks on a high axis": (
        np.exceptions.AxisError,
        lambda xp: sa.concat_from_sequence(lazy(xp), axis=1),
    ),
    "concat of mixed chunks on a low axis": (
        np.exceptions.AxisError,
        lambda xp: sa.concat_from_sequence(mixed(xp, xp.array(1)), axis=-2),
    ),
    "concat of chunks and another shape": (
        ValueError,
        lambda xp: sa.concat_from_sequence(mixed(xp, xp.array(1, 1)), axis=0),
    ),
    "concat with another new_axis": (
        ValueError,
        lambda xp: sa.concat_from_sequence([xp.array(2), xp.array(2)], axis=0, new_axis=2),
    ),
    "concat with a wrong copy": (TypeError, lambda xp: sa.concat_from_sequence([xp.array(2)], axis=0, copy=1)),
    "concat without a copy": (
        ValueError,
        lambda xp: sa.concat_from_sequence([xp.array(2), xp.array(2)], axis=0, copy=False),
    ),
    "concat of chunks without a copy": (
        ValueError,
        lambda xp: sa.concat_from_sequence(mixed(xp, xp.array(1)), axis=0, copy=False),
    ),
    "concat into out": (TypeError, lambda xp: sa.concat_from_sequence([xp.array(2)], axis=0, out=xp.array(2))),
    "concat of chunks into out": (TypeError, lambda xp: sa.concat_from_sequence(lazy(xp), axis=0, out=xp.array(3))),
    "stack of shapes": (
        ValueError,
        lambda xp: sa.concat_from_sequence([xp.array(2), xp.array(3)], axis=0, new_axis=1),
    ),
    "stack of an empty shape": (
        ValueError,
        lambda xp: sa.concat_from_sequence([xp.array(2), xp.array(0)], axis=0, new_axis=1),
    ),
    "stack of ranks": (ValueError, lambda xp: sa.concat_from_sequence([xp.array(2), xp.array()], axis=0, new_axis=1)),
    "stack on a high axis": (
        np.exceptions.AxisError,
        lambda xp: sa.concat_from_sequence([xp.array(2), xp.array(2)], axis=2, new_axis=1),
    ),
    "stack of chunks on a high axis": (
        np.exceptions.AxisError,
        lambda xp: sa.concat_from_sequence(lazy(xp), axis=2, new_axis=1),
    ),
    "split_to_sequence of rank 0": (np.exceptions.AxisError, lambda xp: sa.split_to_sequence(xp.array())),
    "split_to_sequence on a high axis": (np.exceptions.AxisError, lambda xp: sa.split_to_sequence(xp.array(2), axis=1)),
    "split_to_sequence on a low axis": (np.exceptions.AxisError, lambda xp: sa.split_to_sequence(xp.array(2), axis=-2)),
    "split_to_sequence by 0": (ValueError, lambda xp: sa.split_to_sequence(xp.array(2), 0)),
    "split_to_sequence by a negative size": (ValueError, lambda xp: sa.split_to_sequence(xp.array(2), -1)),
    "split_to_sequence by negative sizes": (ValueError, lambda xp: sa.split_to_sequence(xp.array(2), [3, -1])),
    "split_to_sequence by a wrong sum": (ValueError, lambda xp: sa.split_to_sequence(xp.array(2), [1, 2])),
    "split_to_sequence by no sizes": (ValueError, lambda xp: sa.split_to_sequence(xp.array(2), [])),
    "split_to_sequence by a matrix": (
        ValueError,
        lambda xp: sa.split_to_sequence(xp.array(2), xp.array(1, 2, dtype="int64")),
    ),
    "split_to_sequence by floats": (TypeError, lambda xp: sa.split_to_sequence(xp.array(2), xp.array(2))),
    "split_to_sequence with other keepdims": (ValueError, lambda xp: sa.split_to_sequence(xp.array(2), keepdims=2)),
    "split_to_sequence with a wrong copy": (TypeError, lambda xp: sa.split_to_sequence(xp.array(2), copy="never")),
    "split_to_sequence of a list": (TypeError, lambda xp: sa.split_to_sequence([xp.array(2)])),
    "split by a number": (TypeError, lambda xp: sa.split(xp.array(2), 2)),
    "split by an array scalar": (TypeError, lambda xp: sa.split(xp.array(2), xp.array(dtype="int64"))),
    "split by nothing": (ValueError, lambda xp: sa.split(xp.array(2))),
    "split by both": (ValueError, lambda xp: sa.split(xp.array(2), [1, 1], num_outputs=2)),
    "split by a wrong sum": (ValueError, lambda xp: sa.split(xp.array(2), [1, 2])),
    "split by negative sizes": (ValueError, lambda xp: sa.split(xp.array(2), [3, -1], copy=None)),
    "split into 0": (ValueError, lambda xp: sa.split(xp.array(2), num_outputs=0)),
    "split into a negative rest": (ValueError, lambda xp: sa.split(xp.array(5), num_outputs=4)),
    "split on a high axis": (np.exceptions.AxisError, lambda xp: sa.split(xp.array(2), [2], axis=1)),
    "map of lengths": (
        ValueError,
        lambda xp: sa.sequence_map(lazy(xp), [xp.array(2)], body=lambda a, b: a[0, ...]),
    ),
    "map of a number": (TypeError, lambda xp: sa.sequence_map(lazy(xp), 1, body=lambda a, b: a[0, ...])),
    "map to 0 outputs": (ValueError, lambda xp: sa.sequence_map(lazy(xp), body=lambda a: a, n_outputs=0)),
    "run an unknown operator": (ValueError, lambda xp: sa.opset.run("Sum", [xp.array(2)], opset=18)),
    "run an unknown version": (ValueError, lambda xp: sa.opset.run("SplitToSequence", [xp.array(2)], opset=10)),
    "run with an unknown attribute": (ValueError, lambda xp: sa.opset.run("Concat", [xp.array(2)], {"a": 1}, opset=13)),
    "run without an attribute": (ValueError, lambda xp: sa.opset.run("Concat", [xp.array(2)], opset=13)),
    "run with too many inputs": (ValueError, lambda xp: sa.opset.run("SequenceAt", [[xp.array(2)]] * 3, opset=11)),
    "run with another type": (
        TypeError,
        lambda xp: sa.opset.run("Concat", [xp.array(2, dtype="int8")], {"axis": 0}, opset=1),
    ),
    "run a split that is not even": (
        ValueError,
        lambda xp: sa.opset.run("Split", [xp.array(3)], opset=13, n_outputs=2),
    ),
    "run a split of other outputs": (
        ValueError,
        lambda xp: sa.opset.run("Split", [xp.array(3)], {"split": [1, 2]}, opset=11, n_outputs=3),
    ),
    "at chunks with a wrong copy": (TypeError, lambda xp: sa.sequence_at(lazy(xp), 0, copy="never")),
}


def lazy(xp: Any) -> sa.ArraySequence[Any]:
    """Three chunks whose views have not been made."""
    return sa.split_to_sequence(xp.array(3), copy=None)


def mixed(xp: Any, tensor: Any) -> sa.ArraySequence[Any]:
    """The chunks with something between them."""
    return sa.sequence_insert(lazy(xp), tensor, 1)


def emptied(xp: Any) -> sa.ArraySequence[Any]:
    return sa.sequence_erase([xp.array(2)])


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_comes_before_anything_is_made(name, recorder):
    exception, call = ERRORS[name]
    with pytest.raises(exception):
        call(recorder)
    assert recorder.calls == []


@pytest.mark.parametrize(("new_axis", "function"), [(0, "concat"), (1, "stack")])
def test_joining_is_one_call_of_the_namespace(new_axis, function, recorder):
    arrays = [recorder.array(2, 3) for _ in range(5)]
    joined = sa.concat_from_sequence(arrays, axis=1, new_axis=new_axis)
    assert joined.shape == ((2, 5, 3) if new_axis else (2, 15))
    assert recorder.calls == [function]


def test_holding_and_erasing_call_nothing(recorder):
    sequence = sa.sequence_insert(sa.sequence_construct(recorder.array(2)), recorder.array(3), 0)
    assert sa.sequence_erase(sequence, 0)[0].shape == (2,)
    assert sa.sequence_map(sequence, body=lambda element: element).shapes == ((3,), (2,))
    assert sa.split_to_sequence(recorder.array(4, 2), axis=1, copy=None).shapes == ((4, 1), (4, 1))
    assert recorder.calls == []


MEBIBYTE = 1 << 20


def numpy_allocations(function: Callable[[], Any]) -> tuple[list[int], int]:
    """Sizes of the large NumPy allocations that a function leaves behind, and its peak of memory above what it left."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = function()
        after, peak = tracemalloc.get_traced_memory()
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    assert after > before
    domain = np.lib.tracemalloc_domain
    sizes = [trace.size for trace in snapshot.traces if trace.domain == domain and trace.size > MEBIBYTE // 16]
    del result
    return sizes, peak - after


JOINED = {
    "concat of rows": {"axis": 0, "new_axis": 0},
    "concat of columns": {"axis": 1, "new_axis": 0},
    "stack in front": {"axis": 0, "new_axis": 1},
    "stack in the middle": {"axis": 1, "new_axis": 1},
    "stack at the end": {"axis": 2, "new_axis": 1},
}


@pytest.mark.engine
@pytest.mark.parametrize("arguments", JOINED.values(), ids=JOINED)
def test_joining_is_one_allocation(arguments):
    arrays = [np.full((512, 512), i, dtype=np.uint8) for i in range(8)]
    sizes, more = numpy_allocations(lambda: sa.concat_from_sequence(arrays, **arguments))
    assert sizes == [2 * MEBIBYTE]
    assert more < MEBIBYTE // 4


@pytest.mark.engine
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("function", [sa.split, sa.split_to_sequence])
def test_splitting_is_one_allocation(function, axis):
    x = np.zeros((2048, 1024), dtype=np.uint8).T.copy().T
    sizes, more = numpy_allocations(lambda: function(x, [x.shape[axis] // 4] * 4, axis=axis))
    assert sizes == [2 * MEBIBYTE]
    assert more < MEBIBYTE // 4


@pytest.mark.engine
def test_constructing_copies_is_one_allocation():
    arrays = [np.zeros((512, 512), dtype=np.uint8) for _ in range(8)]
    sizes, more = numpy_allocations(lambda: sa.sequence_construct(*arrays, copy=True))
    assert sizes == [2 * MEBIBYTE]
    assert more < MEBIBYTE // 4


def base_of(array: Any) -> Any:
    """The array that owns the memory."""
    while array.base is not None:
        array = array.base
    return array


def assert_packed(chunks: list[Any]) -> None:
    """All in one base, row-major, each right behind the one before."""
    assert len({id(base_of(chunk)) for chunk in chunks}) == 1
    assert all(chunk.flags.c_contiguous for chunk in chunks)
    base = base_of(chunks[0])
    assert base.nbytes == sum(chunk.nbytes for chunk in chunks)
    filled = [chunk for chunk in chunks if chunk.size]
    assert filled[0].ctypes.data == base.ctypes.data
    for chunk, following in pairwise(filled):
        assert following.ctypes.data == chunk.ctypes.data + chunk.nbytes


@pytest.mark.engine
@pytest.mark.parametrize("shape", [(7,), (7, 3), (2, 7), (2, 7, 3), (1, 7, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["int8", "float64", ">u4", "U3", object])
def test_copied_chunks_are_packed_in_one_base(shape, order, dtype):
    x = np.asarray(np.arange(prod(shape)).reshape(shape), dtype=dtype, order=order)
    axis = shape.index(7)
    assert_packed(list(sa.split_to_sequence(x, axis=axis, keepdims=0)))
    assert_packed(list(sa.split_to_sequence(x, 3, axis=axis)))
    assert_packed(list(sa.split_to_sequence(x, [1, 0, 4, 2], axis=axis)))
    assert_packed(list(sa.split(x, [1, 0, 4, 2], axis=axis)))
    assert_packed(list(sa.sequence_construct(x, x.T, x[..., :0], x[..., ::2], copy=True)))


@pytest.mark.engine
def test_joining_packed_chunks_again_without_a_copy_is_the_base():
    chunks = sa.split_to_sequence(np.arange(12).reshape(6, 2), [1, 3, 2])
    joined = sa.concat_from_sequence(chunks, axis=0, copy=False)
    assert base_of(joined) is base_of(chunks[0])
    assert_arrays_equal(joined, np.arange(12).reshape(6, 2))
    assert_sequences_equal(chunks[1:], [joined[1:4], joined[4:]])


def test_long_sequences_are_kept_in_full_blocks():
    elements = [np.asarray(i) for i in range(1_000)]
    sequence = sa.sequence_empty("int64")
    for element in elements:
        sequence = sa.sequence_insert(sequence, element)
    full, rest = divmod(1_000, BLOCK_LENGTH)
    assert [len(block) for block in blocks_of(sequence)] == [BLOCK_LENGTH] * full + [rest]
    assert_sequences_equal(sequence, elements)


def test_neighbours_of_one_split_are_joined_as_one_piece(chunks):
    longer = sa.sequence_insert(chunks, np.asarray([-1]), MANY // 2)
    CountedViews.made = 0
    joined = sa.concat_from_sequence(longer, axis=0)
    # Two parts of the split; and the join finds out which class its result is of.
    assert CountedViews.made < 10
    assert joined.tolist() == [*range(MANY), -1, *range(MANY, 2 * MANY)]
