"""jax: joins and splits by few programs, each compiled for a short time, with the results of jax's own functions."""

import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal

jax = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy

from seqarray._engines import jax as engine  # noqa: E402

RAGGED = [1 + 7 * number % 23 for number in range(40)]


def pieces(count: int, dtype: str = "float32") -> list[Any]:
    """Arrays of (2, n) whose lengths differ."""
    ends = np.cumsum([0, *(RAGGED * 3)[:count]])
    values = np.arange(2 * ends[-1]).reshape(2, -1) % 127
    return [jnp.asarray(values[:, a:b].astype(dtype)) for a, b in pairwise(ends)]


@pytest.mark.parametrize(("count", "dtype"), [(2, "float32"), (100, "float32"), (17, "bfloat16"), (17, "int4")])
def test_joins(count, dtype):
    arrays = pieces(count, jnp.dtype(dtype))
    joined = sa.concat_from_sequence(arrays, axis=1)
    expected = np.concatenate([np.asarray(array) for array in arrays], 1)
    assert (joined.dtype, joined.shape, type(joined)) == (jnp.dtype(dtype), expected.shape, type(arrays[0]))
    assert np.asarray(joined).tolist() == expected.tolist()
    assert sa.concat_from_sequence(sa.ArraySequence(arrays), axis=-1).tolist() == joined.tolist()


@pytest.mark.parametrize(("count", "axis"), [(1, 1), (2, 0), (2, 2), (17, 1), (17, 2)])
def test_stacks(count, axis):
    arrays = [jnp.full((2, 3), number) for number in range(count)]
    joined = sa.concat_from_sequence(arrays, axis=axis, new_axis=1)
    assert_arrays_equal(joined, jnp.asarray(np.stack([np.asarray(array) for array in arrays], axis)))


SPLITS = {
    "few": ([2, 3, 0, 5], 1),
    "few of one size": (20, 0),
    "many of one size": (3, 1),
    "many of size 1": (None, 0),
    "sizes of a few kinds": ([1, 2, 3] * 10, 1),
    "many sizes": (RAGGED, 0),
}


@pytest.mark.parametrize(("split", "axis"), SPLITS.values(), ids=SPLITS)
def test_splits(split, axis):
    length = sum(split) if isinstance(split, list) else 52
    shape = (length, 2) if axis == 0 else (2, length)
    x = jnp.arange(2 * length).reshape(shape)
    chunks = sa.split_to_sequence(x, split, axis=axis)
    sizes = chunks.sizes(axis)
    bounds = np.cumsum([0, *sizes])
    values = np.asarray(x)
    expected = [values[a:b] if axis == 0 else values[:, a:b] for a, b in pairwise(bounds)]
    assert_sequences_equal(chunks, [jnp.asarray(chunk) for chunk in expected])
    assert_arrays_equal(sa.concat_from_sequence(chunks, axis=axis), x)
    if split is None:
        dropped = sa.split_to_sequence(x, axis=axis, keepdims=0)
        assert_sequences_equal(dropped, [jnp.asarray(chunk.squeeze(axis)) for chunk in expected])


@pytest.fixture
def compiled():
    """For how long jax has compiled each program."""
    counts = []
    monitoring = jax.monitoring
    register = monitoring.register_event_duration_secs_listener

    def count(event: str, duration: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            counts.append(duration)

    register(count)
    yield counts
    monitoring.unregister_event_duration_listener(count)


@pytest.mark.engine
def test_few_programs_are_compiled_however_many_pieces_there_are(compiled):
    jax.clear_caches()
    lengths = [1 + number % 100 for number in range(300)]
    ragged = [jax.device_put(np.zeros(length, np.float32)) for length in lengths]
    equal = [jax.device_put(np.zeros(64, np.float32)) for _ in lengths]
    x = jax.device_put(np.zeros(sum(lengths), np.float32))
    y = jax.device_put(np.zeros((320, 3), np.float32))
    for call, most in (
        (lambda: sa.concat_from_sequence(ragged, axis=0), 0),
        (lambda: sa.concat_from_sequence(equal, axis=0, new_axis=1), 6),
        (lambda: sa.split_to_sequence(x, lengths), 0),
        (lambda: sa.split_to_sequence(y, 1), 1),
        (lambda: sa.split_to_sequence(y, 3), 2),
        (lambda: sa.split_to_sequence(y, keepdims=0), 1),
        (lambda: sa.concat_from_sequence(equal[:16], axis=0), 1),
    ):
        compiled.clear()
        call()
        assert len(compiled) <= most


@pytest.mark.engine
def test_joins_by_programs_alone(monkeypatch):
    """As on a GPU, whose arrays NumPy does not copy."""
    monkeypatch.setattr(engine, "_are_copied_by_numpy", lambda arrays, kind: False)
    arrays = pieces(40)
    assert_arrays_equal(
        sa.concat_from_sequence(arrays, axis=1), jnp.asarray(np.concatenate([np.asarray(a) for a in arrays], 1))
    )
    for axis in (0, 1):
        stacked = sa.concat_from_sequence([jnp.full(3, n) for n in range(33)], axis=axis, new_axis=1)
        assert_arrays_equal(stacked, jnp.asarray(np.stack([np.full(3, n, np.int32) for n in range(33)], axis)))
    x = jnp.arange(sum(RAGGED))
    assert_arrays_equal(sa.concat_from_sequence(sa.split_to_sequence(x, RAGGED), axis=0), x)


@pytest.mark.parametrize("count", [2, 20])
def test_weak_types_stay_as_jax_has_them(count):
    scalars = [jnp.asarray(2.0) for _ in range(count)]
    joined = sa.concat_from_sequence(scalars, axis=0, new_axis=1)
    assert joined.weak_type == jnp.stack(scalars).weak_type


def test_keys_and_traced_arrays_go_the_standard_way():
    keys = jax.random.split(jax.random.key(0), 20)
    chunks = sa.split_to_sequence(keys, 1)
    assert sa.concat_from_sequence(chunks, axis=0).dtype == keys.dtype
    arrays = pieces(20)
    expected = np.concatenate([np.asarray(a) for a in arrays], 1)
    function = jax.jit(lambda given: sa.concat_from_sequence(given, axis=1))
    assert_arrays_equal(function(arrays), jnp.asarray(expected))
    # Arrays that have values, in a function that is being traced.
    assert_arrays_equal(jax.jit(lambda: sa.concat_from_sequence(arrays, axis=1))(), jnp.asarray(expected))
    mixed = jax.jit(lambda one: sa.concat_from_sequence([one, *arrays[1:]], axis=1))
    assert_arrays_equal(mixed(arrays[0]), jnp.asarray(expected))


@pytest.mark.parametrize("count", [2, 20])
def test_misfits_are_named(count):
    arrays = [jnp.ones((2, 3)) for _ in range(count)]
    for misfit, error, message in (
        (jnp.ones((2, 4)), ValueError, "shape"),
        (jnp.ones(0), ValueError, "ranks"),
        (jnp.ones((2, 3), jnp.int32), TypeError, "int32"),
        (np.ones((2, 3), np.float32), TypeError, "numpy"),
    ):
        for new_axis in (0, 1):
            with pytest.raises(error, match=rf"^concat_from_sequence: element {count} .*{message}"):
                sa.concat_from_sequence([*arrays, misfit], axis=0, new_axis=new_axis)


def test_copies_do_not_share_memory():
    for x in (jnp.arange(64.0), jnp.arange(4096.0).reshape(64, 64)):
        for copied in (
            sa.sequence_at([x], 0),
            *sa.split_to_sequence(x, 64),
            *sa.split(x, [64 - sum(RAGGED[:5]), *RAGGED[:5]]),
            sa.concat_from_sequence([x], axis=0),
        ):
            assert copied is not x
            assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def test_results_lie_where_the_inputs_do_and_are_as_committed_as_these():
    program = """
import jax, jax.numpy as jnp, seqarray as sa
first, second = jax.devices("cpu")
with jax.default_device(second):
    there = [jnp.ones(3) for _ in range(20)]
ragged = list(range(1, 31))
for arrays in ([jnp.ones(3)] * 20, [jax.device_put(jnp.ones(3), second)] * 20, there):
    for some in (arrays[:2], arrays):
        joined = sa.concat_from_sequence(some, axis=0)
        assert (joined.device, joined.committed) == (some[0].device, some[0].committed)
    x = jnp.ones(465) if arrays[0].device == first else jax.device_put(jnp.ones(465), second)
    for chunk in (*sa.split_to_sequence(x, ragged), *sa.split_to_sequence(x, 31)):
        assert (chunk.device, chunk.committed) == (x.device, x.committed)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
