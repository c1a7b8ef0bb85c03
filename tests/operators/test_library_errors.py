"""What only the array library notices: its errors name the operator, too."""

import numpy as np
import pytest

import seqarray as sa

LARGE = np.broadcast_to(np.int8(1), 2**62)


@pytest.mark.engine
def test_more_axes_than_numpy_has():
    most = np.zeros((1,) * 64)
    with pytest.raises(ValueError, match=r"^concat_from_sequence: .*64"):
        sa.concat_from_sequence([most, most], axis=0, new_axis=1)


@pytest.mark.engine
def test_sizes_beyond_64_bits():
    with pytest.raises((ValueError, MemoryError), match=r"^concat_from_sequence: "):
        sa.concat_from_sequence([LARGE, LARGE], axis=0)


ALLOCATIONS = {
    "sequence_at": lambda: sa.sequence_at([LARGE], 0),
    "sequence_construct": lambda: sa.sequence_construct(LARGE, copy=True),
    "concat_from_sequence": lambda: sa.concat_from_sequence([LARGE], axis=0),
    "split": lambda: sa.split(LARGE, num_outputs=2),
    "split_to_sequence": lambda: sa.split_to_sequence(LARGE, 2**61),
    "ArraySequence": lambda: sa.ArraySequence([LARGE])[LARGE],
    "pad_sequence": lambda: sa.pad_sequence([np.zeros(1, np.int8)] * 2, length=2**61),
    "concat_each": lambda: sa.concat_each([LARGE[: 2**60]], [LARGE[: 2**60]]),
}


@pytest.mark.parametrize("operator", ALLOCATIONS)
def test_more_memory_than_there_is(operator):
    with pytest.raises((MemoryError, ValueError), match=f"^{operator}: "):  # a ValueError beyond 64 bits
        ALLOCATIONS[operator]()


@pytest.mark.parametrize("length", [2**62, 2**63, 10**50])
def test_a_padded_length_beyond_64_bits(length):
    with pytest.raises(ValueError, match=rf"^pad_sequence: length is {length}; "):
        sa.pad_sequence([np.zeros(1), np.zeros(2)], length=length)


@pytest.mark.parametrize("value", [10**50, 10**400, -(10**50)])
def test_a_fill_value_beyond_float32(value):
    with pytest.raises(ValueError, match=r"^pad_sequence: fill_value is .* out of range for float32"):
        sa.pad_sequence([np.zeros(1, np.float32)], length=2, fill_value=value)
    if abs(value) < 10**300:
        assert sa.pad_sequence([np.zeros(1)], length=2, fill_value=value).tolist() == [[0, float(value)]]


def test_more_memory_than_torch_has():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    large = torch.zeros(1, dtype=torch.int8).expand(2**61)
    for operator, call in {
        "sequence_at": lambda: sa.sequence_at([large], 0),
        "sequence_construct": lambda: sa.sequence_construct(large, copy=True),
        "concat_from_sequence": lambda: sa.concat_from_sequence([large], axis=0),
        "split": lambda: sa.split(large, num_outputs=1),
    }.items():
        with pytest.raises((RuntimeError, MemoryError), match=f"^{operator}: "):
            call()


def test_classes_of_errors_that_a_library_has_for_itself_stay(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def fail(self):
        raise torch.OutOfMemoryError("the device is full")

    monkeypatch.setattr(torch.Tensor, "clone", fail)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        sa.sequence_at([torch.zeros(2)], 0)
    assert caught.value.__notes__ == ["sequence_at: raised by the array library"]


@pytest.mark.filterwarnings("ignore:Setting the dtype:DeprecationWarning")
@pytest.mark.engine
def test_a_dtype_that_was_set_in_place():
    arrays = [np.zeros(2), np.zeros(2)]
    sequence = sa.ArraySequence(arrays)
    arrays[1].dtype = np.int64
    with pytest.raises(TypeError, match=r"^concat_from_sequence: element 1 has element type int64; .*float64"):
        sa.concat_from_sequence(sequence, axis=0)


def test_names_of_types_tell_whose_they_are():
    with pytest.raises(
        TypeError, match=r"^sequence_at: copy is np\.True_ \(numpy\.bool\w*\); expected True, False or None"
    ):
        sa.sequence_at([np.zeros(2)], 0, copy=np.True_)


def test_one_array_is_not_several(backend):
    x = backend.array(np.zeros((2, 2), np.float32))
    two = sa.split_to_sequence(x, 1, copy=None)
    one = sa.sequence_insert(two[:1], x[:1, ...])[1:]
    with pytest.raises(ValueError, match=r"^concat_from_sequence: joining 2 \w+ arrays takes a copy"):
        sa.concat_from_sequence(two[::-1], axis=0, copy=False)
    if backend.name in ("jax", "jax-x64"):
        with pytest.raises(ValueError, match=r"^concat_from_sequence: joining 1 jax array takes a copy"):
            sa.concat_from_sequence(one, axis=0, new_axis=1, copy=False)


@pytest.mark.backends("array-api-strict")
def test_a_device_that_is_none(backend):
    sequence = sa.ArraySequence([backend.array(np.zeros(2, np.float32))])
    for device in (True, 0, np.zeros(2), b"CPU_DEVICE"):
        with pytest.raises(ValueError, match=r"^ArraySequence\.to: array_api_strict has no device"):
            sequence.to(device)
