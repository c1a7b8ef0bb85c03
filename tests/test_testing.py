"""The comparison that tests use has to see every difference."""

from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal, to_numpy

X = np.asarray([[1.0, 2.0], [3.0, 4.0]], np.float32)


def test_equal_arrays_pass(backend):
    assert_arrays_equal(backend.array(X.copy()), backend.array(X.copy()))
    sequence = sa.split_to_sequence(backend.array(X.copy()))
    assert_sequences_equal(sequence, sequence)
    assert_sequences_equal(sequence, [backend.array(X[:1].copy()), backend.array(X[1:].copy())])
    assert_sequences_equal(sequence, (backend.array(X[:1].copy()), backend.array(X[1:].copy())))


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (X + np.float32(1e-7) * np.asarray([[0, 0], [0, 8]], np.float32), "not equal"),
        (X[:1], "shape"),
        (X[None], "shape"),
        (X.reshape(-1), "shape"),
        (X[:, :0], "shape"),
        (X.astype(np.int32), "dtypes differ: got .*float32, expected .*int32"),
        (X.astype(np.float16), "dtypes differ"),
        (X > 0, "dtypes differ"),
    ],
    ids="value shorter longer flat empty int32 float16 bool".split(),
)
def test_differences_between_arrays_fail(backend, other, difference):
    actual, expected = backend.array(X), backend.array(other)
    with pytest.raises(AssertionError, match=difference):
        assert_arrays_equal(actual, expected)
    with pytest.raises(AssertionError):
        assert_arrays_equal(expected, actual)
    with pytest.raises(AssertionError, match=r"element 1|types differ"):
        assert_sequences_equal(
            sa.ArraySequence([actual, actual]),
            [actual, expected] if actual.dtype == expected.dtype else [expected, expected],
        )


def test_another_library_is_a_difference(backend):
    array = backend.array(X)
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    other = strict.asarray(X) if backend.name == "numpy" else X
    for actual, expected in ((array, other), (other, array)):
        with pytest.raises(AssertionError, match="array libraries differ"):
            assert_arrays_equal(actual, expected)


@pytest.mark.parametrize(
    ("library", "here", "there"), [("array_api_strict", "device1", "CPU_DEVICE"), ("torch", "cpu", "meta")]
)
def test_another_device_is_a_difference(library, here, there):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    make_device = xp.Device if library == "array_api_strict" else xp.device
    arrays = [xp.ones(2, device=make_device(name)) for name in (here, there)]
    with pytest.raises(AssertionError, match=f"devices differ: got .*{here}.*, expected .*{there}"):
        assert_arrays_equal(*arrays)
    empties = [sa.sequence_erase([array]) for array in arrays]
    with pytest.raises(AssertionError, match="devices differ"):
        assert_sequences_equal(*empties)


def test_nan_equals_nan_and_zeros_are_equal(backend):
    x = backend.array(np.asarray([np.nan, 0.0], np.float32))
    assert_arrays_equal(x, backend.array(np.asarray([np.nan, -0.0], np.float32)))
    with pytest.raises(AssertionError):
        assert_arrays_equal(x, backend.array(np.asarray([0.0, np.nan], np.float32)))


@pytest.mark.parametrize("value", [1.0, [1.0], np.float32(1), None, "text", (X,), sa.ArraySequence([X])], ids=repr)
def test_what_is_no_array_fails(value):
    for actual, expected in ((value, X), (X, value), (value, value)):
        with pytest.raises(AssertionError):
            assert_arrays_equal(actual, expected)


def test_a_scalar_is_no_array_of_rank_zero():
    with pytest.raises(AssertionError, match="NumPy scalar"):
        assert_arrays_equal(np.float32(1), np.asarray(1, np.float32))


def test_byte_order_is_no_difference():
    assert_arrays_equal(X.astype(">f4"), X)
    assert_sequences_equal(sa.ArraySequence([X.astype(">f4")]), [X])


def test_the_kind_of_text_is_no_difference_but_bytes_are():
    kinds = [np.asarray(["a", "bc"], dtype) for dtype in ("U2", "U9", object, np.dtypes.StringDType())]
    for actual in kinds:
        for expected in kinds:
            assert_arrays_equal(actual, expected)
        with pytest.raises(AssertionError):
            assert_arrays_equal(actual, np.asarray(["a", "bd"]))
        with pytest.raises(AssertionError, match="dtypes differ"):
            assert_arrays_equal(actual, np.asarray([b"a", b"bc"]))
    with pytest.raises(AssertionError):
        assert_arrays_equal(np.asarray(["1"], object), np.asarray([1], object))


@pytest.mark.parametrize("actual", [[X], (X,), X, None, iter([X])], ids=lambda value: type(value).__name__)
def test_only_a_sequence_is_a_sequence(actual):
    with pytest.raises(AssertionError, match=f"expected an ArraySequence, got {type(actual).__name__}"):
        assert_sequences_equal(actual, [X])


def test_differences_between_sequences_fail():
    sequence = sa.ArraySequence([X, X])
    for expected, difference in [
        ([X], "lengths differ: got 2, expected 1"),
        ([X, X, X], "lengths differ: got 2, expected 3"),
        ([], "lengths differ"),
        ([X, X + 1], "element 1: "),
        ([X[:1], X], "element 0: .*shape"),
        ([X.astype("f8")] * 2, "element types differ: got float32, expected float64"),
    ]:
        with pytest.raises(AssertionError, match=difference):
            assert_sequences_equal(sequence, expected)


def test_differences_between_empty_sequences_fail(backend):
    typed = sa.sequence_empty("int8", xp=backend.xp, device=backend.device)
    assert_sequences_equal(typed, sa.sequence_empty("int8", xp=backend.xp, device=backend.device))
    with pytest.raises(AssertionError, match="element types differ"):
        assert_sequences_equal(typed, sa.sequence_empty("int16", xp=backend.xp))
    with pytest.raises(AssertionError, match=r"(namespaces|libraries) differ"):
        assert_sequences_equal(typed, sa.sequence_empty("int8"))
    with pytest.raises(AssertionError, match=r"(namespaces|libraries) differ"):
        assert_sequences_equal(sa.sequence_empty("int8"), typed)


def test_values_as_numpy(backend):
    values = to_numpy(backend.array(X))
    assert type(values) is np.ndarray
    np.testing.assert_array_equal(values, X, strict=True)
    scalar = to_numpy(backend.array(np.asarray(3, np.int8)))
    assert (scalar.shape, scalar.dtype, int(scalar)) == ((), np.int8, 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_types_that_numpy_has_not(backend, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.asarray([0.0, 1.0, -2.0, np.nan]).astype(getattr(ml_dtypes, dtype))
    assert to_numpy(backend.array(x)).tobytes() == x.tobytes()
    with pytest.raises(AssertionError):
        assert_arrays_equal(backend.array(x), backend.array(x[[0, 1, 1, 3]]))


def test_views_that_are_computed_when_read():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.tensor([1 + 2j]).conj()
    assert to_numpy(x).tolist() == [1 - 2j]
    assert to_numpy(x.imag).tolist() == [-2]
    assert to_numpy(torch.ones(1, requires_grad=True)).tolist() == [1]
    assert_arrays_equal(x, torch.tensor([1 - 2j]))


def test_to_numpy_of_what_is_no_array():
    value: Any
    for value in (1.0, [1.0], None):
        with pytest.raises(TypeError, match="not an array"):
            to_numpy(value)
