"""What must hold for every sequence, array and cut: properties, checked against lists and against NumPy."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from itertools import accumulate, count, pairwise
from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal, to_numpy
from tests.helpers import BLOCK_LENGTH, assert_tree_is_sound, shrink_blocks, watch_tidying

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NUMBERS = [
    *map(np.dtype, "uint8 uint16 uint32 uint64 int8 int16 int32 int64 bool float16 float32 float64".split()),
    *map(np.dtype, "complex64 complex128".split()),
    BFLOAT16,
]
TEXTS = [np.dtype("U3"), np.dtype("U7"), np.dtypes.StringDType(), np.dtype(object)]

#: Added to the values of a type, to where a promotion on the way would round them or change their sign.
OFFSETS = {"int32": 2**24, "uint32": 2**31, "int64": 2**53, "uint64": 2**63}

#: Dtypes of arrays of sizes.
INTEGERS = [np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.uint8)]

LAYOUTS = ["row-major", "Fortran", "strided", "backwards", "other byte order", "read-only"]

elsewhere = settings(max_examples=15)


def filled(shape: tuple[int, ...], dtype: np.dtype[Any], start: int = 0) -> np.ndarray[Any, Any]:
    """An array of different values, as far as the dtype has them; among floats there is NaN."""
    numbers = range(start, start + prod(shape))
    values: list[Any]
    if dtype.kind in "UTO":
        values = [f"t{n}" for n in numbers]
    elif dtype.kind in "iu":
        values = [OFFSETS.get(dtype.name, 0) + n % 127 for n in numbers]
    elif dtype.kind == "b":
        values = [n % 3 == 0 for n in numbers]
    else:
        values = [float("nan") if n % 7 == 5 else n % 127 for n in numbers]
    # Through the dtype that has the values exactly: NumPy truncates text and knows no list of bfloat16.
    through = {"U": object, "T": object, "O": object, "V": np.float32}.get(dtype.kind, dtype)
    return np.array(values, dtype=through).reshape(shape).astype(dtype)


def laid_out(array: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """The same values in memory of another layout."""
    match layout:
        case "Fortran":
            return np.asfortranarray(array)
        case "strided":
            wider = np.empty((*array.shape[:-1], 2 * array.shape[-1]), dtype=array.dtype)
            wider[..., ::2] = array
            return wider[..., ::2]
        case "backwards":
            return np.flip(np.flip(array).copy())
        case "other byte order":
            return array.astype(array.dtype.newbyteorder()) if array.dtype.kind in "iufcU" else array
        case "read-only":
            array.flags.writeable = False
    return array


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class Split(NamedTuple):
    """An array and how to split it; `bounds` are where NumPy would cut."""

    x: Any
    axis: int
    sizes: Any
    keepdims: int
    bounds: list[int]

    def run(self, x: Any, **arguments: Any) -> sa.ArraySequence[Any]:
        return sa.split_to_sequence(x, self.sizes, axis=self.axis, keepdims=self.keepdims, **arguments)

    @property
    def drops_axis(self) -> bool:
        return self.sizes is None and self.keepdims == 0

    @property
    def chunks(self) -> list[np.ndarray[Any, Any]]:
        """What NumPy makes of it."""
        chunks = np.split(self.x, self.bounds[1:-1], axis=self.axis)
        return [chunk.squeeze(self.axis) for chunk in chunks] if self.drops_axis else chunks


@st.composite
def split_sizes(draw: Any, length: int) -> tuple[Any, list[int]]:
    """The argument `split` in any form, and all bounds of the chunks."""
    form = draw(st.sampled_from(["scalar", list, "absent", "array scalar", tuple, "array"]))
    if form in ("absent", "scalar", "array scalar"):
        chunk = 1 if form == "absent" else draw(st.sampled_from(range(1, length + 2)))
        argument = {"absent": None, "scalar": chunk, "array scalar": np.asarray(chunk)}[form]
        return argument, [*range(0, length, chunk), length]
    cuts = draw(st.sampled_from([2, 1, 3, 0, 80]))
    places = st.sampled_from(range(length + 1))
    bounds = [0, *sorted(draw(st.lists(places, min_size=cuts, max_size=cuts))), length]
    sizes = [stop - start for start, stop in pairwise(bounds)]
    if form in (list, tuple):
        return form(sizes), bounds
    holding = [dtype for dtype in INTEGERS if max(sizes) <= np.iinfo(dtype).max]
    return np.asarray(sizes, dtype=draw(st.sampled_from(holding))), bounds


#: Lengths before and after the axis that is split.  Among many axes of length 0 there would be little to see.
AROUND = [(2,), (), (3, 2), (1,), (1, 3), (0,)]


@st.composite
def splits(draw: Any, dtypes: list[np.dtype[Any]], layouts: list[str], longest: int) -> Split:
    """An array with an axis of length 1 or more, and sizes for it."""
    before, after = draw(st.sampled_from(AROUND)), draw(st.sampled_from(AROUND))
    length = draw(st.sampled_from(range(longest, 0, -1)))
    shape = (*before, length, *after)
    x = laid_out(filled(shape, draw(st.sampled_from(dtypes))), draw(st.sampled_from(layouts)))
    axis = len(before) - draw(st.sampled_from([0, len(shape)]))
    sizes, bounds = draw(split_sizes(length))
    return Split(x, axis, sizes, draw(st.sampled_from([0, 1])), bounds)


any_split = splits(NUMBERS + TEXTS, LAYOUTS, longest=12)
copies = st.sampled_from([True, None, False])


@given(split=any_split, copy=copies, joined_copy=st.sampled_from([True, None]))
def test_splitting_and_joining_again_gives_the_same_array(split, copy, joined_copy):
    chunks = split.run(split.x, copy=copy)
    joined = sa.concat_from_sequence(chunks, axis=split.axis, new_axis=split.drops_axis, copy=joined_copy)
    assert_arrays_equal(joined, split.x)


@elsewhere
@given(data=st.data())
def test_splitting_and_joining_again_gives_the_same_array_everywhere(backend, data):
    held = [dtype for dtype in NUMBERS if backend.holds(dtype.name)]
    split = data.draw(splits(held, ["row-major"], longest=5))
    x = backend.array(split.x)
    chunks = split.run(x, copy=data.draw(st.sampled_from([True, None])))
    assert_sequences_equal(chunks, [backend.array(chunk) for chunk in split.chunks])
    joined_copy = data.draw(st.sampled_from([True, None]))
    joined = sa.concat_from_sequence(chunks, axis=split.axis, new_axis=split.drops_axis, copy=joined_copy)
    assert_arrays_equal(joined, x)


@given(
    shape=st.lists(st.integers(0, 2), min_size=1, max_size=3),
    data=st.data(),
    dtype=st.sampled_from(NUMBERS + TEXTS),
    copy=copies,
)
def test_an_axis_of_length_0_gives_no_chunks_and_nothing_to_join(shape, data, dtype, copy):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    shape[axis] = 0
    chunks = sa.split_to_sequence(filled(tuple(shape), dtype), data.draw(st.sampled_from([None, 1, 3])), axis=axis)
    assert (len(chunks), chunks.dtype) == (0, dtype)
    with pytest.raises(ValueError, match="empty"):
        sa.concat_from_sequence(chunks, axis=axis, copy=copy)


@given(split=any_split, copy=copies)
def test_splitting_agrees_with_numpy(split, copy):
    assert_sequences_equal(split.run(split.x, copy=copy), split.chunks)
    sizes = [stop - start for start, stop in pairwise(split.bounds)]
    expected = np.split(split.x, split.bounds[1:-1], axis=split.axis)
    actual = sa.split(split.x, sizes, axis=split.axis, copy=copy)
    assert isinstance(actual, tuple)
    assert_sequences_equal(sa.ArraySequence(actual), expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("copy", [True, None, False])
@pytest.mark.parametrize("around", [((), ()), ((2,), ()), ((), (3,)), ((3, 2), (2,))], ids=str)
def test_every_scalar_size_of_short_axes_agrees_with_numpy(around, copy, order):
    before, after = around
    for length in range(1, 8):
        x = np.asarray(filled((*before, length, *after), np.dtype(np.int16)), order=order)
        for chunk in range(1, length + 2):
            expected = np.split(x, range(chunk, length, chunk), axis=len(before))
            assert_sequences_equal(sa.split_to_sequence(x, chunk, axis=len(before), copy=copy), expected)


@given(split=any_split, copy=st.sampled_from([True, None]), data=st.data())
def test_joining_some_of_the_chunks_agrees_with_numpy(split, copy, data):
    """Chunks that follow one another are joined without a copy, so it matters which are left and in what order."""
    chunks = split.run(split.x, copy=data.draw(st.sampled_from([True, None])))
    kept = data.draw(st.slices(len(chunks)))
    expected = split.chunks[kept]
    assert len(chunks[kept]) == len(expected)
    if expected:
        assert_sequences_equal(chunks[kept], expected)
        joined = sa.concat_from_sequence(chunks[kept], axis=split.axis, new_axis=split.drops_axis, copy=copy)
        assert_arrays_equal(joined, (np.stack if split.drops_axis else np.concatenate)(expected, axis=split.axis))


@st.composite
def joinable(draw: Any, dtypes: list[np.dtype[Any]], *, stack: bool) -> tuple[list[np.ndarray[Any, Any]], int]:
    """Arrays that can be joined, and along which axis."""
    shape = draw(st.lists(st.integers(0, 3), min_size=0 if stack else 1, max_size=3))
    rank = len(shape) + stack
    axis = draw(st.integers(-rank, rank - 1))
    arrays: list[np.ndarray[Any, Any]] = []
    for number in range(draw(st.integers(1, 5))):
        if not stack:
            shape[axis] = draw(st.integers(0, 3))
        array = filled(tuple(shape), draw(st.sampled_from(dtypes)), start=50 * number)
        arrays.append(laid_out(array, draw(st.sampled_from(LAYOUTS))) if shape else array)
    return arrays, axis


@pytest.mark.parametrize("stack", [False, True])
@given(data=st.data())
def test_joining_numbers_agrees_with_numpy(stack, data):
    dtype = data.draw(st.sampled_from(NUMBERS))
    arrays, axis = data.draw(joinable([dtype], stack=stack))
    expected = (np.stack if stack else np.concatenate)(arrays, axis=axis)
    joined = sa.concat_from_sequence(arrays, axis=axis, new_axis=int(stack))
    assert_arrays_equal(joined, expected)
    assert joined.dtype == dtype


@pytest.mark.parametrize("stack", [False, True])
@given(data=st.data())
def test_joining_text_agrees_with_joining_objects(stack, data):
    arrays, axis = data.draw(joinable(TEXTS, stack=stack))
    expected = (np.stack if stack else np.concatenate)([array.astype(object) for array in arrays], axis=axis)
    joined = sa.concat_from_sequence(sa.ArraySequence(arrays), axis=axis, new_axis=int(stack))
    assert_arrays_equal(joined, expected)
    dtypes = {array.dtype.newbyteorder("=") if array.dtype.kind == "U" else array.dtype for array in arrays}
    if {dtype.kind for dtype in dtypes} == {"U"}:
        assert joined.dtype == max(dtypes, key=lambda dtype: dtype.itemsize)
    else:
        assert joined.dtype == (dtypes.pop() if len(dtypes) == 1 else np.dtype(object))


def fresh_results(split: Split) -> dict[str, list[np.ndarray[Any, Any]]]:
    """Every operator's results of which none may share memory with anything, by the way they were made."""
    x, axis, stack = split.x, split.axis, split.drops_axis
    views = split.run(x, copy=None)
    sizes = [stop - start for start, stop in pairwise(split.bounds)]
    return {
        "split_to_sequence": list(split.run(x)),
        "split": list(sa.split(x, sizes, axis=axis)),
        "construct": list(sa.sequence_construct(x, *views, copy=True)),
        "at": [sa.sequence_at(views, i) for i in range(len(views))],
        "concat": [sa.concat_from_sequence(views, axis=axis, new_axis=stack)],
        "concat of chunks in another order": [sa.concat_from_sequence(views[::-1], axis=axis, new_axis=stack)],
        "concat of one": [sa.concat_from_sequence([x], axis=axis)],
        "stack of one": [sa.concat_from_sequence([x], axis=axis, new_axis=1)],
    }


@given(split=any_split)
def test_a_copy_shares_memory_with_nothing(split):
    for how, results in fresh_results(split).items():
        for number, result in enumerate(results):
            for other in (split.x, *results[:number]):
                assert not np.shares_memory(result, other), how


@given(split=any_split, writeable=st.booleans())
def test_inputs_never_change(split, writeable):
    inputs = [split.x] + ([split.sizes] if isinstance(split.sizes, np.ndarray) else [])
    before = [(array.copy(), array.strides) for array in inputs]
    if not writeable:
        for array in inputs:
            array.flags.writeable = False
    fresh_results(split)
    for array, (values, strides) in zip(inputs, before, strict=True):
        assert_arrays_equal(array, values)
        assert array.strides == strides


@given(split=any_split, copy=st.sampled_from([True, None]), data=st.data())
def test_some_of_the_chunks_survive_being_pickled(split, copy, data):
    chunks = split.run(split.x, copy=copy)
    kept = data.draw(st.slices(len(chunks)))
    expected = split.chunks[kept]
    for part in (chunks[kept], sa.sequence_construct(*chunks, copy=True)[kept]):
        restored = pickled(part)
        assert (len(restored), restored.element_type) == (len(expected), chunks.element_type)
        if expected:
            assert_sequences_equal(restored, expected)


@given(length=st.sampled_from([300, 256, 5, 1, 0]), data=st.data())
def test_erasing_what_was_inserted_gives_the_same_elements(length, data):
    elements = [np.asarray(number) for number in range(length)]
    tensor = np.asarray(-1)
    position = data.draw(st.integers(0, length))
    inserted = sa.sequence_insert(sa.ArraySequence(elements, dtype="int64"), tensor, position)
    assert inserted[position] is tensor
    erased = sa.sequence_erase(inserted, position)
    assert all(a is b for a, b in zip(erased, elements, strict=True))


@given(split=any_split, data=st.data())
def test_erasing_what_was_inserted_gives_the_same_chunks(split, data):
    chunks = split.run(split.x, copy=None)
    tensor = filled((2,), split.x.dtype)
    position = data.draw(st.integers(0, len(chunks)))
    erased = sa.sequence_erase(sa.sequence_insert(chunks, tensor, position), position)
    where = [(chunk.ctypes.data, chunk.shape, chunk.strides) for chunk in chunks]
    assert [(chunk.ctypes.data, chunk.shape, chunk.strides) for chunk in erased] == where


class Element(NamedTuple):
    """What an element of a sequence has to be: its shape, its bytes, and the object itself where it was inserted."""

    shape: tuple[int, ...]
    data: bytes
    array: Any = None


class Version(NamedTuple):
    """A sequence and the list that says what it holds."""

    sequence: sa.ArraySequence[Any]
    model: list[Element]


def element_of(array: Any, *, identity: bool = False) -> Element:
    values = to_numpy(array)
    assert values.dtype == np.float32
    return Element(values.shape, values.tobytes(), array if identity else None)


class SequenceAgainstList(RuleBasedStateMachine):
    """A tree of versions: every rule takes any version there is, and may add one that was made from it."""

    versions: Bundle[Version] = Bundle("versions")

    def __init__(self, backend: Any, many: int, heights: set[int]) -> None:
        super().__init__()
        self.backend = backend
        self.many = many
        self.numbers = count()
        self.all_versions: list[Version] = []
        self.heights = heights

    def added(self, sequence: sa.ArraySequence[Any], model: list[Element]) -> Version:
        version = Version(sequence, model)
        self.check(version)
        self.all_versions.append(version)
        return version

    def check(self, version: Version) -> None:
        sequence, model = version
        self.heights.add(assert_tree_is_sound(sequence))
        assert sequence.element_type == "float32"
        assert len(sequence) == len(model)
        assert int(sa.sequence_length(sequence)) == len(model)
        assert sequence.shapes == tuple(element.shape for element in model)
        if all(element.shape for element in model):
            assert sequence.sizes(-1) == tuple(element.shape[-1] for element in model)
            assert sequence.lengths(-1).tolist() == list(sequence.sizes(-1))
        assert sequence.nbytes == sum(len(element.data) for element in model)
        for array, expected in zip(sequence, model, strict=True):
            assert element_of(array)[:2] == expected[:2]
            if expected.array is not None:
                assert array is expected.array
        if model:
            assert sequence.namespace is self.backend.xp

    def new_array(self, shape: tuple[int, ...]) -> Any:
        return self.backend.array(np.full(shape, next(self.numbers), dtype=np.float32))

    @initialize(target=versions, longest=st.booleans(), copy=st.sampled_from([True, None]))
    def first(self, longest: bool, copy: bool | None) -> Version:
        if not longest:
            return self.added(sa.sequence_empty("float32"), [])
        x = np.arange(self.many, dtype=np.float32)
        sequence = sa.split_to_sequence(self.backend.array(x), copy=copy)
        return self.added(sequence, list(map(element_of, x.reshape(-1, 1))))

    @rule(target=versions, data=st.data())
    def held(self, data: Any) -> Version:
        arrays = [self.new_array((1,)) for _ in range(data.draw(st.sampled_from([1, 3, self.many])))]
        return self.added(sa.ArraySequence(arrays), [element_of(array, identity=True) for array in arrays])

    @rule(target=versions, shapes=st.lists(st.sampled_from([(1,), (0,), (2,)]), min_size=1, max_size=6))
    def copied(self, shapes: list[tuple[int, ...]]) -> Version:
        arrays = [self.new_array(shape) for shape in shapes]
        return self.added(sa.sequence_construct(*arrays, copy=True), list(map(element_of, arrays)))

    @rule(target=versions, data=st.data(), copy=st.sampled_from([True, None]), rank=st.sampled_from([1, 2]))
    def split(self, data: Any, copy: bool | None, rank: int) -> Version:
        length = data.draw(st.sampled_from([1, 5, self.many]))
        shape = (2, length)[-rank:]
        x = np.arange(prod(shape), dtype=np.float32).reshape(shape)
        # Rows of a matrix lose their axis, so that all elements of rank 1 can be joined.
        sizes, bounds = (None, range(length + 1)) if rank == 2 else data.draw(split_sizes(length))
        sequence = sa.split_to_sequence(self.backend.array(x), sizes, axis=-1, keepdims=rank == 1, copy=copy)
        chunks = [x[..., start] if rank == 2 else x[start:stop] for start, stop in pairwise(bounds)]
        return self.added(sequence, list(map(element_of, chunks)))

    @rule(
        target=versions, version=versions, data=st.data(), shape=st.sampled_from([(1,), (1,), (0,), (2,), (), (1, 2)])
    )
    def insert(self, version: Version, data: Any, shape: tuple[int, ...]) -> Version:
        sequence, model = version[0], version[1].copy()
        length = len(model)
        array = self.new_array(shape)
        position = data.draw(st.none() | st.integers(-length, length))
        model.insert(length if position is None else position, element_of(array, identity=True))
        return self.added(sa.sequence_insert(sequence, array, position), model)

    @rule(target=versions, version=versions, start=st.sampled_from([0, 0.4, 1]), step=st.sampled_from([2, 1, 0]))
    def insert_many(self, version: Version, start: float, step: int) -> Version:
        """At one place (0), one after the other (1), or between the elements that are there (2)."""
        sequence, model = version[0], version[1].copy()
        position = int(start * len(model))
        for _ in range(self.many):
            array = self.new_array((1,))
            sequence = sa.sequence_insert(sequence, array, position)
            model.insert(position, element_of(array, identity=True))
            position = min(position + step, len(model))
        return self.added(sequence, model)

    @rule(target=versions, version=versions, data=st.data())
    def erase(self, version: Version, data: Any) -> Version | Any:
        sequence, model = version[0], version[1].copy()
        length = len(model)
        if not length:
            with pytest.raises(IndexError):
                sa.sequence_erase(sequence)
            return version
        position = data.draw(st.none() | st.integers(-length, length - 1))
        del model[-1 if position is None else position]
        return self.added(sa.sequence_erase(sequence, position), model)

    @rule(target=versions, version=versions, start=st.sampled_from([0, 0.4]), step=st.sampled_from([1, 2, 0]))
    def erase_many(self, version: Version, start: float, step: int) -> Version:
        """All (0), every other (1) or every third element (2) from somewhere on."""
        sequence, model = version[0], version[1].copy()
        position = int(start * len(model))
        while position < len(model):
            sequence = sa.sequence_erase(sequence, position)
            del model[position]
            position += step
        return self.added(sequence, model)

    @rule(target=versions, version=versions, data=st.data())
    def cut(self, version: Version, data: Any) -> Version:
        which = data.draw(st.slices(len(version.model)))
        return self.added(version.sequence[which], version.model[which])

    @rule(target=versions, version=versions, duplicate=st.sampled_from([deepcopy, pickled]))
    def duplicate(self, version: Version, duplicate: Callable[[Any], Any]) -> Version:
        model = [element._replace(array=None) for element in version.model]
        return self.added(duplicate(version.sequence), model)

    @rule(version=versions, data=st.data())
    def at(self, version: Version, data: Any) -> None:
        sequence, model = version
        length = len(model)
        for position in (-length - 1, length):
            with pytest.raises(IndexError):
                sa.sequence_at(sequence, position)
        if length:
            position = data.draw(st.integers(-length, length - 1))
            for array in (sa.sequence_at(sequence, position), sequence[position]):
                assert element_of(array)[:2] == model[position][:2]
            if model[position].array is not None:
                assert sa.sequence_at(sequence, position, copy=None) is model[position].array

    @rule(version=versions)
    def join(self, version: Version) -> None:
        sequence, model = version
        if len({len(element.shape) for element in model}) != 1 or model[0].shape == ():
            with pytest.raises(ValueError, match="concat_from_sequence"):
                sa.concat_from_sequence(sequence, axis=-1)
        elif len(model[0].shape) == 1:
            data = b"".join(element.data for element in model)
            length = sum(element.shape[0] for element in model)
            assert element_of(sa.concat_from_sequence(sequence, axis=-1)) == Element((length,), data)

    @rule(version=versions)
    def look_again(self, version: Version) -> None:
        self.check(version)

    def teardown(self) -> None:
        for version in self.all_versions:
            self.check(version)


def test_a_sequence_that_has_become_empty_can_be_copied(backend):
    emptied = sa.sequence_erase([backend.array(np.zeros(2, dtype=np.float32))])
    for duplicate in (pickled(emptied), deepcopy(emptied)):
        assert_sequences_equal(duplicate, emptied)
        assert duplicate.namespace is backend.xp
        assert duplicate.device == emptied.device


#: Runs of many chunks, by how they are made of an array of rank 2.
LONG_RUNS: dict[str, Callable[[Any], sa.ArraySequence[Any]]] = {
    "views": lambda x: sa.split_to_sequence(x, 1, axis=1, copy=None),
    "copies": lambda x: sa.split_to_sequence(x, 1, axis=1, copy=True),
    "packed": lambda x: sa.sequence_construct(*sa.split_to_sequence(x, 1, axis=1, copy=None), copy=True),
}


@pytest.mark.parametrize("run", LONG_RUNS.values(), ids=LONG_RUNS)
@pytest.mark.parametrize("duplicate", [pickled, deepcopy])
def test_a_copy_of_a_run_with_gaps_is_kept_in_blocks_of_arrays(backend, run, duplicate):
    count = 2 * BLOCK_LENGTH + 2
    x = np.arange(2 * count, dtype=np.float32).reshape(2, count)
    sequence = run(backend.array(x))[::2]
    copied = duplicate(sequence)
    assert_tree_is_sound(copied)
    assert_sequences_equal(copied, sequence)
    for position in (0, len(sequence) // 2, len(sequence)):
        longer = sa.sequence_insert(copied, backend.array(x[:, :1]), position)
        assert_tree_is_sound(longer)
        expected = np.insert(x[:, ::2], position, x[:, 0], axis=1)
        assert_arrays_equal(to_numpy(sa.concat_from_sequence(longer, axis=1)), expected)


def test_sequences_behave_as_lists(backend, monkeypatch):
    """Old versions included.  On NumPy they are long enough that blocks and branches are split and merged."""
    shrink_blocks(monkeypatch)
    changes, heights = watch_tidying(monkeypatch), set()
    on_numpy = backend.name == "numpy"
    machine = partial(SequenceAgainstList, backend, many=60 if on_numpy else 5, heights=heights)
    examples = settings(stateful_step_count=30) if on_numpy else settings(max_examples=15, stateful_step_count=10)
    run_state_machine_as_test(machine, settings=examples)
    if on_numpy:
        assert any(len(after) < len(before) for before, after in changes)
        assert any(len(block) == 3 for before, _ in changes for block in before if type(block) is tuple)
        assert heights >= {0, 1, 2, 3}


@given(lengths=st.lists(st.integers(0, 3), min_size=1, max_size=6), copy=st.sampled_from([True, None]))
def test_sizes_and_bytes_agree_with_the_elements(lengths, copy):
    x = np.arange(2 * sum(lengths), dtype=np.int16).reshape(2, -1)
    chunks = sa.split_to_sequence(x, lengths, axis=1, copy=copy)
    assert chunks.shapes == tuple(chunk.shape for chunk in chunks)
    assert chunks.sizes(1) == tuple(lengths) == chunks.sizes(-1)
    assert chunks.nbytes == sum(chunk.nbytes for chunk in chunks)
    bounds = list(accumulate(lengths, initial=0))
    assert [chunk[0].tolist() for chunk in chunks] == [list(range(a, b)) for a, b in pairwise(bounds)]
