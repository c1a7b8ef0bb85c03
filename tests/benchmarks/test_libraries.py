"""The contenders of a case: backends, peers and the machine's limits."""

import os
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

import seqarray as sa
from benchmarks import libraries, machine, running
from benchmarks.cases import CASES, Case
from benchmarks.libraries.base import Library
from benchmarks.libraries.memcpy import Memcpy
from benchmarks.libraries.seqarray import SeqArray, SeqArrayConstruct, SeqArrayList
from tests.benchmarks.helpers import PLAN, Listener, without


def test_it_is_known_whose_threads_spin():
    spins = {name: SeqArray(backend).spins for name, backend in libraries.BACKENDS.items()}
    assert spins == {"numpy": "", "cupy": "", "torch": "torch", "jax": "", "dask": ""}
    spins = {name: peer.spins for peers in libraries.PEERS.values() for name, peer in peers.items() if peer.spins}
    assert spins == {"torch": "torch", "torch.nested": "torch", "fbgemm": "torch", "onnxruntime": "onnxruntime"}
    assert libraries.PEERS["cupy"]["torch"].spins == ""


def test_work_on_jax_arrays_is_waited_for_to_the_last_chunk(count_calls):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    waited = count_calls(jax, "block_until_ready")
    library = SeqArray(libraries.BACKENDS["jax"])
    library.finish(library.split(np.arange(6, dtype=np.float32), [2, 2, 2], 0)())
    ((chunks,),) = waited
    assert [chunk.tolist() for chunk in chunks] == [[0, 1], [2, 3], [4, 5]]


def test_work_on_dask_arrays_is_computed_to_the_last_chunk():
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    computed = []

    def noted(block):
        computed.append(len(block))
        return block

    x = da.from_array(np.arange(6), chunks=2).map_blocks(noted, dtype=int, meta=np.arange(0))
    library = SeqArray(libraries.BACKENDS["dask"])
    library.finish(sa.split_to_sequence(x, 2))
    assert computed == [2, 2, 2]


def test_a_module_in_the_folder_is_all_that_a_library_needs():
    for library in libraries.ALL:
        assert library.name
        assert library.pip
        assert library.packages
        assert library.beside
        assert set(library.beside) <= set(libraries.BACKENDS)
    for name, own in libraries.BACKENDS.items():
        assert next(iter(libraries.PEERS[name].items())) == (name, own)
    expected = {peer for peers in libraries.PEERS.values() for peer in peers.values()}
    assert expected == set(libraries.ALL)


def test_a_new_module_is_found(tmp_path, monkeypatch):
    lines = ["from benchmarks.libraries.base import Library", "class New(Library):", "    name = 'new'"]
    (tmp_path / "new.py").write_text("\n".join([*lines, "LIBRARIES = [New()]"]))
    monkeypatch.setattr(libraries, "__path__", [*libraries.__path__, str(tmp_path)])
    assert {library.name for library in libraries.find()} == {library.name for library in libraries.ALL} | {"new"}
    del sys.modules["benchmarks.libraries.new"], libraries.new


def test_models_are_left_out_without_onnx(monkeypatch):
    monkeypatch.setattr("benchmarks.libraries.seqarray.find_spec", lambda name: None)
    assert SeqArray(libraries.BACKENDS["numpy"]).model(np.zeros(1), "no model", {}) is None


def test_versions_and_threads_of_libraries_belong_to_a_result():
    of_ragged_rows = {"awkward", "ragged", "npstructures", "fbgemm-gpu-cpu"}
    assert {"numpy", "torch", "jax", "dask", "cupy", "onnx", "onnxruntime"} | of_ragged_rows == set(
        libraries.packages()
    )
    assert set(libraries.thread_counts()) <= {"torch", "onnxruntime"}
    described = machine.description(["a", "command"], ["numpy", "not-there"], {"torch": 3})
    assert described["versions"]["numpy"] == np.__version__
    assert "not-there" not in described["versions"]
    assert described["threads"] == {"seqarray": sa.get_num_threads(), "torch": 3}


def contenders_of(case, size, backend="numpy", peers=()):
    (case,) = [one for one in CASES if one.name == case]
    return [library.name for library in running.libraries_for(running.Task(case, size, backend), peers)]


def test_a_missing_peer_is_no_contender(monkeypatch):
    without(monkeypatch, "torch", "onnxruntime")
    for backend in ("numpy", "torch"):
        names = contenders_of("concat-tiny", "3 x (2, 3)", backend, peers=["torch", "onnxruntime"])
        assert {"torch", "onnxruntime"}.isdisjoint(names)


def test_peers_are_those_that_were_asked_for(monkeypatch):
    for peer in libraries.PEERS["numpy"].values():
        monkeypatch.setattr(peer, "missing", str)
    ours = ["seqarray, list", "seqarray, construct + join", "seqarray", "seqarray, all taken"]
    assert contenders_of("concat-tiny", "3 x (2, 3)", peers=["onnxruntime"]) == [*ours, "numpy", "onnxruntime"]


def test_the_limit_of_the_machine_is_a_contender_where_it_can_be_measured():
    limits = [name for name in contenders_of("concat-axis0", "3 x (1024, 1024)") if name.startswith("memcpy")]
    assert len(limits) == (2 if machine.cpu_count() == 1 else 4)
    assert sum("fresh" in name for name in limits) == sum("reused" in name for name in limits) == len(limits) / 2
    for case, size, backend in (("concat-tiny", "3 x (2, 3)", "numpy"), ("concat-axis0", "3 x (1024, 1024)", "torch")):
        assert not any(name.startswith("memcpy") for name in contenders_of(case, size, backend))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "lengths", [[1 << 18] * 3, [700_000], [1_000] * 300, [99, 300_000, 5, 70_000], [16_384] * 17], ids=str
)
def test_memcpy_copies_every_byte(threads, lengths):
    arrays = [np.ones(length, np.float32) for length in lengths]
    reused = Memcpy(threads, fresh=False)
    result = reused.concat(arrays, 0)()
    assert result.nbytes == sum(array.nbytes for array in arrays)
    assert result.all()  # the memory was zero before


def test_memcpy_into_fresh_memory_gives_new_memory_each_time():
    work = Memcpy(1, fresh=True).concat([np.ones(1 << 18, np.float32)] * 2, 0)
    assert not np.shares_memory(work(), work())


def test_memcpy_into_reused_memory_gives_the_same_memory_whatever_the_input_set():
    limit = Memcpy(1, fresh=False)
    arrays = [np.ones(1 << 18, np.float32)] * 2
    first, second = limit.concat(arrays, 0), limit.concat(arrays, 0)
    assert np.shares_memory(first(), first())
    assert np.shares_memory(first(), second())


def test_the_limits_of_one_case_share_what_they_copy_from():
    sources = {}
    given = [np.ones(1 << 18, np.float32)] * 2
    for fresh in (True, False):
        Memcpy(1, fresh=fresh, sources=sources).concat(given, 0)
    (source,) = sources.values()
    assert source.nbytes == 2 << 20


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no processor affinity")
def test_threads_of_memcpy_have_a_processor_each():
    threads = max(2, machine.cpu_count())
    limit = Memcpy(threads, fresh=True)
    together = threading.Barrier(threads, timeout=10)

    def processors(_):
        together.wait()  # so that every thread takes one
        return sorted(os.sched_getaffinity(0))

    allowed = sorted(os.sched_getaffinity(0))
    expected = [[allowed[index % len(allowed)]] for index in range(threads)]
    assert sorted(limit.pool.map(processors, range(threads))) == sorted(expected)


@pytest.mark.parametrize("error", ["ImportError", "RuntimeError", "OSError"])
def test_a_library_that_is_broken_is_missing_and_no_error(tmp_path, monkeypatch, error):
    (tmp_path / f"broken_by_{error}.py").write_text(f"raise {error}('the driver is too old')")
    monkeypatch.syspath_prepend(tmp_path)
    broken = Library()
    broken.module, broken.pip = f"broken_by_{error}", "broken"
    assert broken.missing()


def test_results_in_memory_of_a_caching_allocator_are_called_recycled():
    for peer in libraries.PEERS["cupy"].values():
        assert peer.recycles
    assert SeqArray(libraries.BACKENDS["cupy"]).recycles
    assert libraries.PEERS["numpy"]["onnxruntime"].recycles
    assert not libraries.PEERS["numpy"]["numpy"].recycles


@pytest.mark.engine
def test_large_results_of_seqarray_are_called_recycled_and_their_first_call_was_in_fresh_memory(monkeypatch):
    case = Case("large", "", "concat", {"": lambda rng: ([rng.random(9 << 20, np.float32)], 0)}, {"": (1, 36 << 20)})
    monkeypatch.setattr(running, "libraries_for", lambda task, peers: ours)
    ours = [make(libraries.BACKENDS["numpy"]) for make in (SeqArrayList, SeqArrayConstruct)]
    idle, concat = {}, sa.concat_from_sequence

    def noted(sequence, **options):
        idle.setdefault(type(sequence), []).append(sa.host_pool.total_bytes() - sa.host_pool.used_bytes())
        return concat(sequence, **options)

    monkeypatch.setattr(sa, "concat_from_sequence", noted)
    plan = replace(PLAN, seconds=0.1, rounds=3)
    (found,) = running.run([running.Task(case, "", "numpy")], [], plan, [], Listener())["results"]
    assert [found["contenders"][library.name]["recycled"] for library in ours] == [True, True]
    for first, *others in idle.values():
        assert first == 0
        assert max(others) > 0
    sa.host_pool.free_all_blocks()
