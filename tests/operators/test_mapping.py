"""Mapping a function over sequences: arguments, results, and what happens when there is nothing to map."""

from typing import Any

import array_api_compat
import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal

#: One backend of every library, for what does not depend on the types that it can hold.
each_library = pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")


def ones(*lengths: int) -> list[Any]:
    return [np.ones(length) for length in lengths]


def refuse(*_: Any) -> Any:
    raise AssertionError("the body was called")


@each_library
def test_the_body_gets_every_element_in_order(backend):
    elements = [backend.array(np.full(i + 1, i, np.float32)) for i in range(3)]
    for sequence in (elements, tuple(elements), sa.ArraySequence(elements)):
        seen = []
        with backend.current():
            result = sa.sequence_map(sequence, body=lambda x, seen=seen: (seen.append(x), x + x)[1])
            expected = [element + element for element in elements]
        assert [id(x) for x in seen] == [id(element) for element in elements]
        assert_sequences_equal(result, expected)
        assert result.namespace is backend.xp
        assert result.device == array_api_compat.device(elements[0])


@each_library
def test_sequences_go_in_step_and_arrays_are_the_same_for_every_call(backend):
    first = [backend.array(np.full(2, i, np.float32)) for i in range(3)]
    second = [backend.array(np.full(2, 10 * i, np.float32)) for i in range(3)]
    constant = backend.array(np.asarray([100, 200], np.float32))
    calls: list[Any] = []

    def body(*arguments: Any) -> Any:
        calls.append(arguments)
        with backend.current():
            return arguments[0] + arguments[1] + arguments[2]

    for other in (second, tuple(second), sa.ArraySequence(second)):
        result = sa.sequence_map(first, other, constant, body=body)
        expected = [np.asarray([100 + 11 * i, 200 + 11 * i], np.float32) for i in range(3)]
        assert_sequences_equal(result, [backend.array(array) for array in expected])
    for x, y, z in calls[:3]:
        assert any(x is element for element in first)
        assert any(y is element for element in second)
        assert z is constant


def test_an_array_is_not_taken_apart_even_if_its_length_fits():
    constant = np.asarray([1.0, 2.0])
    result = sa.sequence_map(ones(3, 3), constant, body=lambda x, y: y)
    assert [element is constant for element in result] == [True, True]


def test_chunks_of_a_split_and_what_was_inserted_are_mapped():
    chunks = sa.split_to_sequence(np.arange(6.0), 2, copy=None)
    chunks = sa.sequence_insert(chunks, np.asarray([9.0]), 1)
    result = sa.sequence_map(chunks, chunks[::-1], body=lambda x, y: x[:1] + y[:1])
    assert_sequences_equal(result, [np.asarray([value]) for value in (4.0, 11.0, 11.0, 4.0)])


def test_numpy_scalars_are_arrays_in_and_out():
    result = sa.sequence_map(ones(2), np.float32(3), body=lambda x, y: (y, x.sum()))
    assert_arrays_equal(result[0][0], np.asarray(3, np.float32))
    assert_arrays_equal(result[1][0], np.asarray(2.0))


@pytest.mark.parametrize("lengths", [(3, 2), (2, 3), (3, 0), (0, 3)])
def test_unequal_lengths_are_an_error_before_the_first_call(lengths):
    first, second = (sa.ArraySequence(ones(*range(length))) for length in lengths)
    message = rf"^sequence_map: input 1 has {lengths[1]} elements; input 0 has {lengths[0]}"
    with pytest.raises(ValueError, match=message):
        sa.sequence_map(first, second, body=refuse)
    with pytest.raises(
        ValueError, match=rf"^sequence_map: input 3 has {lengths[1]} elements; input 0 has {lengths[0]}"
    ):
        sa.sequence_map(first, first, np.ones(1), second, body=refuse)


@pytest.mark.parametrize("value", [None, 1.0, 3, "text", {"a": 1}, iter([]), np.ma.masked_array([1.0])], ids=repr)
def test_an_argument_that_is_neither_array_nor_sequence_is_refused(value):
    with pytest.raises(TypeError, match=r"^sequence_map: input 2 must be an array"):
        sa.sequence_map(ones(1), np.ones(1), value, body=refuse)
    with pytest.raises(TypeError, match=r"^sequence_map: "):
        sa.sequence_map(value, body=refuse)


def test_the_first_input_is_a_sequence(backend):
    with pytest.raises(TypeError, match=r"^sequence_map: .*list or tuple"):
        sa.sequence_map(backend.array(np.ones((2, 3), np.float32)), body=refuse)


def test_sequences_are_checked_whichever_they_are():
    with pytest.raises(TypeError, match=r"^sequence_map: input 1: element 1 .*int32.*float64"):
        sa.sequence_map(ones(1, 1), [np.ones(1), np.ones(1, np.int32)], body=refuse)


def test_sequences_may_differ_in_type_and_shape():
    result = sa.sequence_map(
        ones(2, 3), [np.ones(5, np.int8), np.zeros((2, 2), np.int8)], body=lambda x, y: np.asarray([x.size, y.size])
    )
    assert_sequences_equal(result, [np.asarray([2, 5]), np.asarray([3, 4])])


def test_body_is_a_keyword_and_needed():
    with pytest.raises(TypeError, match="body"):
        sa.sequence_map(ones(1))
    with pytest.raises(TypeError, match=r"^sequence_map: input 1 must be an array"):
        sa.sequence_map(ones(1), refuse, body=refuse)


# Results.


def test_a_tuple_gives_a_tuple_of_sequences(backend):
    elements = [backend.array(np.full(2, i, np.float32)) for i in range(2)]
    with backend.current():
        result = sa.sequence_map(elements, body=lambda x: (x, x > 0, x[:1]))
    assert isinstance(result, tuple)
    assert [sequence.element_type for sequence in result] == ["float32", "bool", "float32"]
    assert_sequences_equal(result[0], elements)
    assert_sequences_equal(result[2], [element[:1] for element in elements])
    single = sa.sequence_map(elements, body=lambda x: (x,))
    assert isinstance(single, tuple)
    assert len(single) == 1
    assert_sequences_equal(single[0], elements)


def test_results_may_differ_in_shape():
    result = sa.sequence_map(ones(1, 2), body=lambda x: np.outer(x, x) if len(x) > 1 else x)
    assert result.shapes == ((1,), (2, 2))


def test_results_are_held_not_copied():
    elements = ones(1, 2)
    result = sa.sequence_map(elements, body=lambda x: x)
    assert all(element is array for element, array in zip(result, elements, strict=True))


@pytest.mark.parametrize("value", [lambda: None, lambda: 1.0, lambda: [np.ones(1)], lambda: "text", lambda: {"a": 1}])
def test_a_result_that_is_no_array_is_refused(value):
    with pytest.raises(TypeError, match=r"^sequence_map: output 0 of body for element 0 must be an array"):
        sa.sequence_map(ones(1, 2), body=lambda x: value())
    with pytest.raises(TypeError, match=r"^sequence_map: output 1 of body for element 0 must be an array"):
        sa.sequence_map(ones(1, 2), body=lambda x: (x, value()))


def test_a_sequence_is_no_result():
    with pytest.raises(TypeError, match=r"^sequence_map: output 0 of body for element 0 must be an array"):
        sa.sequence_map(ones(1), body=lambda x: sa.ArraySequence([x]))


def test_results_that_change_between_array_and_tuple_are_refused():
    for body in (lambda x: x if len(x) == 1 else (x,), lambda x: (x,) if len(x) == 1 else x):
        with pytest.raises(TypeError, match=r"^sequence_map: body returned a tuple.*not for element"):
            sa.sequence_map(ones(1, 2), body=body)


def test_results_that_change_in_number_are_refused():
    with pytest.raises(ValueError, match=r"^sequence_map: body returned 2 arrays for element 1; expected 1"):
        sa.sequence_map(ones(1, 2), body=lambda x: (x,) * len(x))


def test_results_that_change_in_type_are_refused():
    def body(x: Any) -> Any:
        return x, x.astype("float32" if len(x) == 1 else "int8")

    with pytest.raises(TypeError, match=r"^sequence_map: output 1.*element 1 .*int8.*float32"):
        sa.sequence_map(ones(1, 2), body=body)


def test_results_that_change_in_library_are_refused():
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    with pytest.raises(TypeError, match=r"^sequence_map: output 0.*element 1 .*array_api_strict.*numpy"):
        sa.sequence_map(ones(1, 2), body=lambda x: x if len(x) == 1 else strict.ones(2))


def test_results_that_change_in_device_are_refused():
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    devices = iter(["device1", "CPU_DEVICE"])
    with pytest.raises(ValueError, match=r"^sequence_map: output 0.*element 1 (?=.*device1)(?=.*CPU_DEVICE)"):
        sa.sequence_map(ones(1, 2), body=lambda x: strict.ones(2, device=strict.Device(next(devices))))


def test_a_body_that_returns_nothing_at_all_is_refused():
    with pytest.raises((TypeError, ValueError), match=r"^sequence_map: "):
        sa.sequence_map(ones(1), body=lambda x: ())


@pytest.mark.parametrize("error", [RuntimeError, ValueError, TypeError, StopIteration, KeyboardInterrupt])
def test_exceptions_of_the_body_come_through(error):
    raised = error("from the body")

    def body(x: Any) -> Any:
        if len(x) == 2:
            raise raised
        return x

    with pytest.raises(error) as caught:
        sa.sequence_map(ones(1, 2, 3), body=body)
    assert caught.value is raised


def test_the_body_may_call_the_operators():
    def body(x: Any) -> Any:
        return sa.concat_from_sequence(sa.sequence_map(sa.split_to_sequence(x, 1), body=lambda y: -y), axis=0)

    assert_sequences_equal(sa.sequence_map(ones(2, 3), body=body), [-array for array in ones(2, 3)])


# n_outputs and dtypes.


def test_n_outputs_has_to_be_what_the_body_returns():
    assert isinstance(sa.sequence_map(ones(1), body=lambda x: x, n_outputs=1), sa.ArraySequence)
    assert len(sa.sequence_map(ones(1), body=lambda x: (x, x), n_outputs=2)) == 2
    for result, n_outputs in ((lambda x: x, 2), (lambda x: (x, x), 1), (lambda x: (x, x), 3)):
        with pytest.raises(
            ValueError, match=rf"^sequence_map: body returned \d arrays for element 0; expected {n_outputs}"
        ):
            sa.sequence_map(ones(1), body=result, n_outputs=n_outputs)


@pytest.mark.parametrize("n_outputs", [0, -1, np.int8(-3)])
def test_n_outputs_is_positive(n_outputs):
    for sequence in (ones(1), []):
        with pytest.raises(ValueError, match=rf"^sequence_map: n_outputs is {n_outputs};.*at least 1"):
            sa.sequence_map(sequence, body=refuse, n_outputs=n_outputs)


@pytest.mark.parametrize("n_outputs", [True, 1.0, "1", [1]], ids=repr)
def test_n_outputs_is_an_integer(n_outputs):
    with pytest.raises(TypeError, match=r"^sequence_map: n_outputs .*integer"):
        sa.sequence_map(ones(1), body=refuse, n_outputs=n_outputs)


def test_dtypes_have_to_be_what_the_body_returns():
    result = sa.sequence_map(ones(1), body=lambda x: (x, x > 0), dtypes=["float64", bool])
    assert [sequence.element_type for sequence in result] == ["float64", "bool"]
    with pytest.raises(TypeError, match=r"^sequence_map: output 1 .*bool.*int8"):
        sa.sequence_map(ones(1), body=lambda x: (x, x > 0), dtypes=["float64", "int8"])
    with pytest.raises(ValueError, match=r"^sequence_map: dtypes has 1 .* 2 outputs"):
        sa.sequence_map(ones(1), body=lambda x: (x, x), dtypes=["float64"])
    with pytest.raises(ValueError, match=r"^sequence_map: dtypes has 2 .* 1 outputs"):
        sa.sequence_map([], body=refuse, dtypes=["float64", "float64"])


@pytest.mark.parametrize("dtypes", ["float64", "d", np.float64, 5, np.dtype("f8")], ids=repr)
def test_dtypes_is_a_list_even_for_one_output(dtypes):
    for sequence in (ones(1), []):
        with pytest.raises(TypeError, match=r"^sequence_map: dtypes "):
            sa.sequence_map(sequence, body=lambda x: x, dtypes=dtypes)


def test_unknown_dtypes_are_refused_before_the_first_call():
    with pytest.raises(TypeError, match=r"^sequence_map: dtype.*nonsense"):
        sa.sequence_map(ones(1), body=refuse, dtypes=["nonsense"])


# Nothing to map.


def test_over_an_empty_sequence_the_result_has_the_type_of_the_input(backend):
    array = backend.array(np.ones(2, np.float32))
    empty = sa.sequence_erase([array])
    for others in ((), (empty,), (array,), ([],), (empty, array, ())):
        result = sa.sequence_map(empty, *others, body=refuse)
        assert isinstance(result, sa.ArraySequence)
        assert (len(result), result.element_type) == (0, "float32")
        assert result.namespace is backend.xp
        assert result.device == array_api_compat.device(array)


def test_over_an_untyped_list_the_result_is_empty_float32():
    for sequence in ([], (), sa.sequence_empty()):
        result = sa.sequence_map(sequence, body=refuse)
        assert (len(result), result.element_type, result.namespace) == (0, "float32", None)


def test_over_an_empty_sequence_n_outputs_and_dtypes_decide():
    empty = sa.sequence_empty("int16")
    assert isinstance(sa.sequence_map(empty, body=refuse, n_outputs=1), sa.ArraySequence)
    assert sa.sequence_map(empty, body=refuse, dtypes=["string"]).element_type == "string"
    pair = sa.sequence_map(empty, body=refuse, n_outputs=2)
    assert isinstance(pair, tuple)
    assert [(len(sequence), sequence.element_type) for sequence in pair] == [(0, "int16")] * 2
    triple = sa.sequence_map(empty, body=refuse, n_outputs=3, dtypes=["float32", np.int8, bool])
    assert [sequence.element_type for sequence in triple] == ["float32", "int8", "bool"]
    for n_outputs, dtypes in ((2, ["float32"]), (1, ["float32", "int8"]), (1, [])):
        with pytest.raises(ValueError, match=rf"^sequence_map: dtypes has {len(dtypes)} .*{n_outputs} outputs"):
            sa.sequence_map(empty, body=refuse, n_outputs=n_outputs, dtypes=dtypes)


def test_over_an_empty_sequence_a_type_that_the_library_cannot_hold_is_refused():
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(TypeError, match=r"^sequence_map: (?=.*torch)(?=.*string)"):
        sa.sequence_map(sa.sequence_empty(xp="torch"), body=refuse, dtypes=["string"])


def test_an_exception_of_the_body_says_for_which_element():
    def body(element, other):
        if element.size == 2:
            raise ZeroDivisionError("no quotient")
        return element

    sequence = [np.ones(1), np.ones(3), np.ones(2)]
    with pytest.raises(ZeroDivisionError, match="no quotient") as raised:
        sa.sequence_map(sequence, np.ones(1), body=body)
    assert raised.value.__notes__ == ["sequence_map: raised by body for element 2, which has shape (2,)"]


def test_the_body_may_be_the_second_argument(backend):
    with backend.current():
        sequence = sa.ArraySequence([backend.array([1, 2], "int32"), backend.array([3], "int32")])
        ten = backend.array(10, "int32")
        doubled = sa.sequence_map(sequence, lambda x: x + x)
        sa.testing.assert_sequences_equal(doubled, sa.sequence_map(sequence, body=lambda x: x + x))
        more = sa.sequence_map(sequence, lambda x, y: x + y, ten)
        sa.testing.assert_sequences_equal(more, sa.sequence_map(sequence, ten, body=lambda x, y: x + y))
    with pytest.raises(TypeError, match="sequence_map: body is a NoneType; expected a function"):
        sa.sequence_map(sequence)
