"""Beyond one machine: graphs stay small, and a cluster works through more than its workers have memory for."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray._engines import threads as hostthreads
from seqarray.testing import assert_arrays_equal, assert_sequences_equal

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

SCRIPT = Path(__file__).parents[1] / "docs" / "examples" / "beyond_one_machine.py"


@pytest.fixture(scope="module")
def example() -> Any:
    """Import the worked example as a module."""
    spec = importlib.util.spec_from_file_location(f"docs.examples.{SCRIPT.stem}", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Graphs.

JOINS: dict[str, Callable[[Any], Any]] = {
    "concat": lambda s: sa.concat_from_sequence(s, axis=0),
    "reversed": lambda s: sa.concat_from_sequence(s[::-1], axis=0),
    "stack": lambda s: sa.concat_from_sequence(s, axis=0, new_axis=1),
    "changed": lambda s: sa.concat_from_sequence(sa.sequence_erase(sa.sequence_insert(s, s[-1], 1), 0), axis=1),
}


@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("chunks", [10, 100])
@pytest.mark.parametrize("pieces", [10, 100, 1000])
@pytest.mark.parametrize("join", JOINS)
def test_graphs_grow_with_chunks_plus_pieces(join, pieces, chunks, copy):
    x = da.zeros((3000, 2), chunks=(3000 // chunks, 2))
    sequence = sa.split_to_sequence(x, 3000 // pieces, copy=copy)
    assert len(sequence) == pieces
    graph = JOINS[join](sequence).__dask_graph__()
    # Every chunk and every overlap of a chunk with a piece, which is then taken over into the result.
    assert len(graph) <= chunks + 2 * (chunks + pieces)
    assert len(graph.layers) <= pieces + 3


@pytest.mark.parametrize("pieces", [10, 100, 1000])
def test_a_map_adds_to_a_graph_what_its_body_does(pieces):
    x = da.zeros((3000, 2), chunks=(300, 2))
    sequence = sa.sequence_map(sa.split_to_sequence(x, 3000 // pieces), body=lambda element: element + 1)
    assert len(sa.concat_from_sequence(sequence, axis=0).__dask_graph__()) <= 10 + 3 * (10 + pieces)


@pytest.mark.parametrize("split", [sa.split, sa.split_to_sequence])
def test_an_element_does_not_bring_the_others(split):
    x = da.zeros((3000, 2), chunks=(300, 2))
    element = split(x, [1] * 3000)[1500]
    assert len(element.__dask_graph__()) == 10 + 1
    assert len(element.dask.cull(element.__dask_keys__())) == 2


@pytest.mark.cupy_host
@pytest.mark.parametrize("copy", [True, None])
def test_chunks_of_cupy_arrays_take_the_same_path(example, copy):
    import cupy

    x = cupy.arange(20.0).reshape(10, 2)
    lazy = da.from_array(x, chunks=(3, 2), asarray=False)
    pieces = sa.split_to_sequence(lazy, [4, 1, 5], copy=copy)
    with dask.config.set(scheduler="synchronous"):
        joined = sa.concat_from_sequence(pieces[::-1], axis=0).compute()
        assert_arrays_equal(joined, cupy.concatenate([x[5:], x[4:5], x[:4]]))
        assert_sequences_equal(pieces.compute(), [x[:4], x[4:5], x[5:]])
        assert_sequences_equal(pieces.to(xp="numpy"), [x[:4].get(), x[4:5].get(), x[5:].get()])
        total = example.total_rise(lazy, [4, 1, 5]).compute()
    assert type(total) is cupy.ndarray
    assert float(total) == float(example.total_rise(x, [4, 1, 5])) == 2 * 2 * (6 + 10)


# Workers in processes of their own.


def test_more_data_than_the_workers_have_memory_for(example):
    """Run the script of `benchmarks.cluster` with less data and less memory."""
    pytest.importorskip("distributed", reason="distributed is not installed")
    data, limit = 600, 250
    assert data > 2 * limit
    command = [sys.executable, "-W", "error", SCRIPT, "--megabytes", str(data), "--memory-limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("600 MB in 37 recordings, on cluster\n")
    assert f"by 2 workers of at most {limit} MB each" in done.stdout
    first, second, killed = map(int, re.search(r"took (\d+) and (\d+) MB; killed: (\d+)", done.stdout).groups())
    assert killed == 0
    assert max(first, second) < limit
    assert done.stdout.endswith(f"total {example.expected_total(75_000):.0f}: right\n")


@pytest.fixture(scope="module")
def client(example: Any) -> Iterator[Any]:
    """Start two worker processes, set up as those of the example, and yield a client of them."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with (
        dask.config.set(example.CLUSTER_SETTINGS),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, memory_limit="400MB", dashboard_address=None
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


def test_workers_have_a_limit_and_no_disk(client):
    def limits(dask_worker: Any) -> tuple[Any, ...]:
        manager = dask_worker.memory_manager
        fractions = manager.memory_target_fraction, manager.memory_spill_fraction, manager.memory_pause_fraction
        return manager.memory_limit, *fractions

    assert list(client.run(limits).values()) == [(400_000_000, False, False, False)] * 2


def test_one_thread_copies_in_a_worker(client):
    def threads(_: int) -> int:
        sa.set_num_threads(4)
        return hostthreads.usable_threads()

    futures = client.map(threads, range(8))
    assert client.gather(futures) == [1] * 8


def test_sequences_travel_to_workers_and_back(client):
    sequence = sa.split_to_sequence(np.arange(12.0).reshape(6, 2), [1, 3, 2])
    returned = client.submit(sa.sequence_erase, client.scatter(sequence), 1).result()
    assert_sequences_equal(returned, [sequence[0], sequence[2]])
    lengths = client.submit(lambda s: s.sizes(), returned).result()
    assert lengths == (1, 2)


def test_lazy_sequences_are_computed_by_workers(client):
    values = np.arange(60.0).reshape(20, 3)
    pieces = sa.split_to_sequence(da.from_array(values, chunks=(4, 2)), [7, 0, 1, 12])
    mapped = sa.sequence_map(pieces, body=lambda piece: piece * 2)
    joined = sa.concat_from_sequence(mapped[::-1], axis=0).compute()
    np.testing.assert_array_equal(joined, 2 * np.concatenate([values[8:], values[7:8], values[:7]]), strict=True)


def test_a_lazy_sequence_is_a_collection_of_the_cluster(client):
    values = np.arange(60.0).reshape(20, 3)
    pieces = sa.split_to_sequence(da.from_array(values, chunks=(4, 2)), [7, 0, 13])
    expected = [values[:7], values[7:7], values[7:]]
    future = client.compute(pieces)
    assert_sequences_equal(future.result(), expected)
    persisted = client.persist(pieces)
    assert sa.ArraySequence([persisted[0]]).shapes == ((7, 3),)
    for computed in (persisted.compute(), client.gather(client.compute([persisted[1:]]))[0]):
        assert_sequences_equal(computed, expected[-len(computed) :])
    assert dask.delayed(len)(persisted).compute() == 3


def test_workers_count_the_memory_of_sequences(client):
    data = client.scatter(sa.split_to_sequence(np.zeros(100_000), 1000))
    nbytes = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.tasks[data.key].nbytes)
    assert 800_000 <= nbytes < 900_000
    squares = client.submit(lambda s: sa.sequence_map(s, body=lambda x: x * x), data)
    assert len(squares.result()) == 100
    assert client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.tasks[squares.key].nbytes) >= 800_000
