"""What a sequence keeps alive, and that parts of a packed one cost nothing."""

import gc
import tracemalloc
from copy import deepcopy

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_sequences_equal
from tests.helpers import BLOCK_LENGTH

VIEWS = pytest.mark.backends("numpy", "torch", "cupy")


@pytest.fixture
def x(backend):
    return backend.array(np.arange(3000, dtype=np.float32).reshape(1000, 3))


@VIEWS
def test_a_few_chunks_hold_the_whole_array(backend, x):
    chunks = sa.split_to_sequence(x, 10, copy=None)
    for few in (chunks, chunks[:2], chunks[::-3], sa.sequence_erase(chunks, 5)):
        assert few.nbytes_held >= 12_000
        assert few.nbytes_held < 12_000 + 1024  # CuPy rounds up
    assert chunks[:2].nbytes == 240


@pytest.mark.parametrize("copy", [True, None])
def test_the_way_out_holds_the_elements_alone(backend, x, copy):
    few = sa.split_to_sequence(x, 10, copy=copy)[4:6]
    out = sa.sequence_construct(*few, copy=True)
    assert out.nbytes == 240 <= out.nbytes_held <= 1024
    assert_sequences_equal(out, few)


@VIEWS
def test_memory_that_is_shared_counts_once(backend, x):
    one = sa.ArraySequence([x]).nbytes_held
    assert sa.ArraySequence([x, x[1:], x[5], x]).nbytes_held == one
    other = backend.array(np.zeros((1000, 3), np.float32))
    both = sa.sequence_insert(sa.split_to_sequence(x, 1, copy=None), other)
    assert both.nbytes_held == one + sa.ArraySequence([other]).nbytes_held


@pytest.mark.backends("numpy", "torch")
def test_pickles_hold_the_elements_alone(backend, x):
    few = sa.split_to_sequence(x, 10, copy=None)[2:4]
    assert deepcopy(few).nbytes_held == few.nbytes == 240


def test_an_empty_sequence_holds_nothing(backend, x):
    assert sa.sequence_empty("float32").nbytes_held == 0
    assert sa.split_to_sequence(x, 1)[:0].nbytes_held == 0


def test_memory_of_other_owners_counts(tmp_path):
    path = tmp_path / "values"
    path.write_bytes(bytes(8192))
    mapped = np.memmap(path, np.uint8, mode="r")
    for array in (np.frombuffer(bytes(8192), np.uint8), mapped, np.asarray(memoryview(bytearray(8192)))):
        held = sa.ArraySequence([np.asarray(array)[:5]])
        assert (held.nbytes, held.nbytes_held) == (5, 8192)


def test_results_in_recycled_memory_count_their_block():
    halves = [np.zeros(16 << 20, np.uint8)] * 2
    joined = sa.concat_from_sequence(halves, axis=0)
    assert sa.split_to_sequence(joined, 8, copy=None)[:1].nbytes_held == 32 << 20


def test_elements_that_are_no_arrays_have_no_size():
    torch = pytest.importorskip("torch")
    sa.register_pytrees()
    opaque = torch.utils._pytree.tree_map(str, sa.ArraySequence([torch.zeros(2)]))
    with pytest.raises(TypeError, match="nbytes_held"):
        _ = opaque.nbytes_held


# Parts of packed sequences.

PARTS = {
    "the first": lambda s: sa.sequence_erase(s, 0),
    "the last": sa.sequence_erase,
    "one in between": lambda s: sa.sequence_erase(s, len(s) // 2),
    "a slice": lambda s: s[1:-1],
    "every other": lambda s: s[::2],
    "reversed": lambda s: s[::-1],
    "two parts": lambda s: s[10:-10:3][::-2],
}

LISTS = {
    "the first": lambda x: x[1:],
    "the last": lambda x: x[:-1],
    "one in between": lambda x: x[: len(x) // 2] + x[len(x) // 2 + 1 :],
    "a slice": lambda x: x[1:-1],
    "every other": lambda x: x[::2],
    "reversed": lambda x: x[::-1],
    "two parts": lambda x: x[10:-10:3][::-2],
}


def arrays(count):
    return [np.full((n % 3, 1 + n % 2), n, np.int32) for n in range(count)]


@pytest.fixture(scope="module")
def packed():
    return sa.sequence_construct(*arrays(20_000), copy=True)


@pytest.mark.engine
@pytest.mark.parametrize("how", PARTS)
def test_a_part_of_a_packed_sequence_copies_no_column(packed, how):
    PARTS[how](packed)
    gc.collect()
    tracemalloc.start()
    try:
        part = PARTS[how](packed)
        assert tracemalloc.get_traced_memory()[1] < 4096
    finally:
        tracemalloc.stop()
    assert len(part) == len(LISTS[how](list(range(len(packed)))))


@pytest.mark.backends("numpy", "cupy")
@pytest.mark.parametrize("how", PARTS)
def test_a_part_of_a_packed_sequence_has_the_right_elements(backend, how):
    few = arrays(2 * BLOCK_LENGTH)
    made = [backend.array(array) for array in few]
    part, expected = PARTS[how](sa.sequence_construct(*made, copy=True)), LISTS[how](few)
    assert part.shapes == tuple(array.shape for array in expected)
    assert part.nbytes == sum(array.nbytes for array in expected)
    expected = [backend.array(array) for array in expected]
    assert_sequences_equal(part, expected)
    assert_sequences_equal(deepcopy(part), expected)
    assert_sequences_equal(part.to(copy=True), expected)
    assert part.to(copy=True).nbytes_held < part.nbytes_held + 4096
