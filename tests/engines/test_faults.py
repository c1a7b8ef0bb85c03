"""A fault of an engine reaches the caller: it is not taken for a user's error, and nothing is tried in its place."""

from __future__ import annotations

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal

FAULTS = [TypeError("a planted fault"), ValueError("a planted fault"), IndexError("a planted fault")]


@pytest.fixture(params=FAULTS, ids=lambda fault: type(fault).__name__)
def fault(request, backend, monkeypatch):
    """Plant a fault in the engine of a backend: every join, split and copy raises it."""

    def raise_fault(*_, **__):
        raise request.param

    engine = sa.ArraySequence([backend.array(np.zeros(1, np.float32))])._kind.library.engine
    for name in ("join", "split", "duplicate", "pack"):
        monkeypatch.setattr(engine, name, raise_fault)
    return request.param


def assert_is(raised, fault, operator):
    """Check that an error is the fault, or says what it says in the name of the operator."""
    assert raised.value is fault or (raised.value.__cause__ is fault and str(raised.value) == f"{operator}: {fault}")


@pytest.fixture
def arrays(backend):
    return [backend.array(np.full((2, 3), number, np.float32)) for number in range(3)]


@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("made", [list, tuple, sa.ArraySequence], ids=["list", "tuple", "sequence"])
def test_a_fault_in_a_join_reaches_the_caller(arrays, fault, made, new_axis):
    with pytest.raises(type(fault)) as raised:
        sa.concat_from_sequence(made(arrays), axis=0, new_axis=new_axis)
    assert_is(raised, fault, "concat_from_sequence")


def test_a_fault_in_a_join_of_chunks_reaches_the_caller(arrays, fault):
    chunks = sa.split_to_sequence(arrays[0], 1, axis=1, copy=None)
    with pytest.raises(type(fault)) as raised:
        sa.concat_from_sequence(chunks, axis=0)
    assert_is(raised, fault, "concat_from_sequence")


def test_a_fault_in_a_copy_or_a_split_reaches_the_caller(arrays, fault):
    for operator, call in {
        "sequence_at": lambda: sa.sequence_at(arrays, 0),
        "split_to_sequence": lambda: sa.split_to_sequence(arrays[0], 1),
        "split": lambda: sa.split(arrays[0], [1, 1]),
        "sequence_construct": lambda: sa.sequence_construct(*arrays, copy=True),
    }.items():
        with pytest.raises(type(fault)) as raised:
            call()
        assert_is(raised, fault, operator)


def test_a_fault_is_raised_in_the_name_of_the_onnx_operator(arrays, fault):
    with pytest.raises(type(fault), match=r"a planted fault$"):
        sa.opset.run("ConcatFromSequence", [arrays], {"axis": 0}, opset=17)


@pytest.mark.parametrize("axis", [2, -3, 0])
def test_what_is_wrong_with_the_elements_is_explained_even_then(backend, arrays, axis):
    if axis == 0:
        arrays[1] = backend.array(np.zeros((2, 4), np.float32))
    with pytest.raises(ValueError, match=r"^concat_from_sequence: (axis is|element 1 has shape \(2, 4\))"):
        sa.concat_from_sequence(arrays, axis=axis)


def test_a_call_does_not_depend_on_those_before_it(backend, arrays):
    expected = backend.array(np.concatenate([np.full((2, 3), number, np.float32) for number in range(3)]))
    for _ in range(3):
        assert_arrays_equal(sa.concat_from_sequence(arrays, axis=0), expected)
        assert_arrays_equal(sa.concat_from_sequence(sa.ArraySequence(arrays), axis=0), expected)
