"""`ArraySequence` as a container: looking into it, and what it refuses."""

from collections.abc import Sequence
from itertools import product

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal
from tests.sequence.forms import (
    FORMS,
    assert_holds,
    each_library,
    held,
    library_of,
)

# Looking into it.


def test_it_is_a_collections_sequence():
    assert isinstance(sa.ArraySequence(), Sequence)
    assert issubclass(sa.ArraySequence, Sequence)
    assert sa.ArraySequence[np.ndarray] is not None


@each_library
@pytest.mark.parametrize("form", FORMS)
def test_length_index_and_iteration(backend, form):
    sequence, expected = form(backend)
    assert_holds(sequence, expected, backend)
    for i in range(len(expected)):
        assert_arrays_equal(sequence[i], backend.array(expected[i]))
        assert tuple(sequence[i - len(expected)].shape) == expected[i].shape
    assert [tuple(element.shape) for element in reversed(sequence)] == [a.shape for a in reversed(expected)]
    assert sequence.shapes == tuple(array.shape for array in expected)
    assert sequence.sizes() == tuple(len(array) for array in expected)
    assert sequence.sizes(-1) == tuple(array.shape[-1] for array in expected)
    assert sequence.nbytes == sum(array.nbytes for array in expected)
    assert all(type(length) is int for shape in sequence.shapes for length in shape)
    assert all(type(size) is int for size in sequence.sizes())
    assert bool(sequence) == bool(expected)


@each_library
@pytest.mark.parametrize("form", FORMS)
def test_slices(form, backend):
    sequence, expected = form(backend)
    bounds = (None, -9, -2, 0, 1, 5)
    for start, stop, step in product(bounds, bounds, (None, 2, 3, -1, -2)):
        part = sequence[start:stop:step]
        assert isinstance(part, sa.ArraySequence)
        assert part.shapes == tuple(array.shape for array in expected[start:stop:step])
        assert part.element_type == "float32"
        assert part.namespace is backend.xp
        assert part.device == sequence.device
    assert_holds(sequence[1::2], expected[1::2], backend)
    assert_holds(sequence[::-1], expected[::-1], backend)
    assert_holds(sequence[::-2][1:], expected[::-2][1:], backend)
    assert_holds(sequence[2:0:-1], expected[2:0:-1], backend)


@pytest.mark.parametrize("length", [255, 256, 257, 600])
def test_sequences_longer_than_a_block(length):
    arrays = [np.full(i % 3, i) for i in range(length)]
    sequence = sa.ArraySequence(arrays)
    assert all(sequence[i] is arrays[i] for i in range(-length, length))
    assert all(element is array for element, array in zip(sequence, arrays, strict=True))
    for part in (slice(250, 260), slice(None, None, -1), slice(None, None, 7), slice(-3, None), slice(300, 100, -9)):
        assert all(element is array for element, array in zip(sequence[part], arrays[part], strict=True))
    assert sequence.sizes() == tuple(i % 3 for i in range(length))


@each_library
@pytest.mark.parametrize("index", [4, 5, -5, 2**70, -(2**70)])
def test_an_index_out_of_range(backend, index):
    sequence, _ = held(backend)
    with pytest.raises(IndexError, match=rf"^ArraySequence: .*{index}\b.*\b4\b"):
        sequence[index]


def test_index_types():
    sequence = sa.ArraySequence([np.zeros(1), np.zeros(2)])
    assert sequence[np.int8(-1)].shape == (2,)
    assert sequence[np.asarray(1)].shape == (2,)
    for index in (1.0, "1", None, (0, 0), Ellipsis):
        with pytest.raises(TypeError):
            sequence[index]
    with pytest.raises(ValueError, match="zero"):
        sequence[::0]
    with pytest.raises(IndexError):
        sa.ArraySequence()[0]


def test_repr_tells_length_type_library_device_and_shapes(backend):
    arrays = [backend.array(np.ones((2, 3), np.float32)), backend.array(np.ones((), np.float32))]
    text = repr(sa.ArraySequence(arrays))
    assert text.startswith(f"<ArraySequence of 2 float32 arrays, {library_of(backend)} on ")
    assert text.endswith(f"{array_api_compat.device(arrays[0])}: (2, 3), ()>")
    assert repr(sa.ArraySequence(arrays[:1])).startswith("<ArraySequence of 1 float32 array, ")


def test_repr_of_empty_and_of_long_sequences():
    assert repr(sa.ArraySequence()) == "<ArraySequence of 0 float32 arrays>"
    assert repr(sa.ArraySequence(dtype="string")) == "<ArraySequence of 0 string arrays>"
    assert repr(sa.sequence_erase([np.ones(2)])) == "<ArraySequence of 0 float64 arrays, numpy on cpu>"
    text = repr(sa.split_to_sequence(np.zeros(100_000), 1, copy=None))
    assert text.startswith("<ArraySequence of 100000 float64 arrays, numpy on cpu: (1,), ")
    assert text.endswith(", ...>")
    assert len(text) < 200


@each_library
def test_sizes_along_axes_of_ragged_ranks(backend):
    arrays = [backend.array(np.ones(shape, np.float32)) for shape in [(4,), (2, 3), (0, 5, 6)]]
    sequence = sa.ArraySequence(arrays)
    assert sequence.sizes() == sequence.sizes(0) == (4, 2, 0)
    assert sequence.sizes(-1) == sequence.sizes(axis=-1) == (4, 3, 6)
    assert sequence[1:].sizes(1) == (3, 5)
    with pytest.raises(np.exceptions.AxisError, match=r"axis is 1;.*element 0.*\[-1, 0\]"):
        sequence.sizes(1)
    with pytest.raises(np.exceptions.AxisError, match=r"axis is -3;.*element 0.*\[-2, 1\]"):
        sequence[1:].sizes(-3)
    with pytest.raises(np.exceptions.AxisError, match=r"axis is 2;.*element 1.*\[-2, 1\]"):
        sequence[::-1][:2].sizes(2)
    with pytest.raises(np.exceptions.AxisError, match="rank 0"):
        sa.ArraySequence([backend.array(np.float32(1))]).sizes()


@pytest.mark.parametrize("axis", [True, 1.0, "0", None])
def test_sizes_refuses_an_axis_that_is_no_integer(axis):
    with pytest.raises(TypeError, match=r"sizes: axis"):
        sa.ArraySequence([np.ones((2, 3))]).sizes(axis)


def test_nbytes_counts_every_element_as_stored():
    text = sa.ArraySequence([np.asarray(["a", "b"]), np.asarray(["abc"])])
    assert text.nbytes == 2 * 4 + 3 * 4
    shared = np.ones((4, 4))
    assert sa.ArraySequence([shared, shared, shared.T, shared[::2]]).nbytes == (3 * 16 + 8) * 8
    assert sa.ArraySequence([np.broadcast_to(np.float32(1), (10, 10))]).nbytes == 400


@pytest.mark.parametrize("element_type", ["bool", "int8", "uint16", "float64", "complex64", "bfloat16", "float16"])
def test_nbytes_knows_every_item_size(backend, element_type):
    sizes = {"bool": 1, "int8": 1, "uint16": 2, "float64": 8, "complex64": 8, "bfloat16": 2, "float16": 2}
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = ml_dtypes.bfloat16 if element_type == "bfloat16" else element_type
    sequence = sa.ArraySequence([backend.array(np.zeros((2, 3), dtype)), backend.array(np.zeros(4, dtype))])
    assert sequence.element_type == element_type
    assert sequence.nbytes == 10 * sizes[element_type]


# What it refuses.


def test_membership_index_and_count_say_why_they_refuse(backend):
    array = backend.array(np.ones(2, np.float32))
    for sequence in (sa.ArraySequence([array]), sa.ArraySequence()):
        with pytest.raises(TypeError, match="equal"):
            array in sequence  # noqa: B015
        with pytest.raises(TypeError, match="compare"):
            sequence.index(array)
        with pytest.raises(TypeError, match="compare"):
            sequence.count(array)


def test_arithmetic_does_not_swallow_it(backend):
    array = backend.array(np.ones(3, np.float32))
    sequence = sa.ArraySequence([array])
    for operation in (lambda: array + sequence, lambda: sequence + array, lambda: sequence * sequence):
        with pytest.raises(TypeError):
            operation()
    with pytest.raises(TypeError):
        np.ones(3) + sequence
    with pytest.raises(TypeError):
        np.float64(1) * sequence
    with pytest.raises(TypeError):
        np.add(sequence, 1)


def test_it_does_not_pass_for_an_array():
    sequence = sa.ArraySequence([np.ones(2)])
    assert sequence.__array_ufunc__ is None
    for name in ("__array__", "__array_namespace__", "__dlpack__", "__array_interface__", "__array_function__"):
        assert not hasattr(sequence, name)
    assert not array_api_compat.is_array_api_obj(sequence)


def test_it_cannot_be_changed():
    sequence = sa.ArraySequence([np.ones(2)])
    with pytest.raises(TypeError):
        sequence[0] = np.zeros(2)
    with pytest.raises(TypeError):
        del sequence[0]
    for name in ("shapes", "dtype", "element_type", "namespace", "device", "nbytes", "anything"):
        with pytest.raises(AttributeError):
            setattr(sequence, name, None)
    assert not hasattr(sequence, "append")


def test_writing_into_an_element_is_seen_by_every_version():
    sequence = sa.ArraySequence([np.zeros(2), np.zeros(3)])
    later = sa.sequence_erase(sa.sequence_insert(sequence, np.ones(1), 1), 2)
    sequence[0][:] = 5
    assert later[0].tolist() == [5, 5]
