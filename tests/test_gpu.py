"""What only a GPU can show: the kernel on a device, streams, graphs, threads, and arrays beyond 32 bits.

On CuPy on the host the same tests run with fewer and smaller cases, which shows that they are right themselves.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray._engines.launcher import Cuda, Launcher
from tests import gpu_cases
from tests.cupy_host import entry_points
from tests.cupy_host.kernel_rig import all_variants

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu.sh"
PER_THREAD = "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"

VARIANTS = all_variants()


def on_gpu(function: Callable[..., None]) -> Callable[..., None]:
    """Mark a test for a GPU; on CuPy on the host it runs too."""
    for mark in (pytest.mark.gpu, pytest.mark.backends("cupy")):
        function = mark(function)
    return function


@pytest.fixture
def cupy(backend: Any) -> Iterator[Any]:
    """CuPy, the device under test current."""
    import cupy

    with backend.device:
        yield cupy


@pytest.fixture
def on_host() -> bool:
    """Whether there is no device, and so less to do."""
    return entry_points.started()


@pytest.fixture
def room(cupy: Any) -> Iterator[Callable[[float], None]]:
    """Skips the test unless the device has so many GiB free; what it takes is given back."""
    pool = cupy.cuda.MemoryPool()
    cupy.get_default_memory_pool().free_all_blocks()

    def require(gibibytes: float) -> None:
        if cupy.cuda.runtime.memGetInfo()[0] < gibibytes * 2**30:
            pytest.skip(f"cupy cannot hold {gibibytes:g}GiB")

    with cupy.cuda.using_allocator(pool.malloc):
        yield require
    gc.collect()
    pool.free_all_blocks()


# Random cases.


@on_gpu
@pytest.mark.parametrize("operator", gpu_cases.OPERATORS)
def test_random_cases(cupy: Any, on_host: bool, operator: str) -> None:
    """2 000 of all operators together, unless SEQARRAY_GPU_CASES says how many."""
    cases = int(os.environ.get("SEQARRAY_GPU_CASES") or (90 if on_host else 2_000))
    gpu_cases.run_cases(operator, range(-(-cases // len(gpu_cases.OPERATORS))))


def name_of(others: tuple[bool, int, int, bool]) -> str:
    """A name for variants that differ in the size of the vectors alone."""
    scatter, layout, table_bytes, wide = others
    parts = ["scatter" if scatter else "gather", ("uniform", "equal", "ragged")[layout], f"table of {table_bytes}"]
    return ", ".join([*parts, "wide"] if wide else parts)


@on_gpu
@pytest.mark.parametrize("others", sorted({variant[1:] for variant in VARIANTS}), ids=name_of)
def test_random_cases_of_every_variant(cupy: Any, on_host: bool, others: tuple[bool, int, int, bool]) -> None:
    chosen = [variant for variant in VARIANTS if variant[1:] == others]
    if on_host:  # one of them, since each takes g++ half a second
        chosen = [chosen[sum(map(int, others)) % len(chosen)]]
    for variant in chosen:
        gpu_cases.run_variant(variant, range(20))


# Beyond 32 bits.

#: Bytes that depend on their place, and a count of those that are not what they should be.
PATTERN = r"""
__device__ unsigned char pattern(unsigned long long place) {
    return (unsigned char)((place * 0x9E3779B97F4A7C15ull) >> 56);
}
extern "C" __global__ void fill(unsigned char* x, unsigned long long count, unsigned long long place) {
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        x[i] = pattern(place + i);
}
extern "C" __global__ void compare(
    const unsigned char* x, unsigned long long count, unsigned long long place, unsigned int* wrong) {
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        if (x[i] != pattern(place + i)) atomicAdd(wrong, 1u);
}
"""


class Pattern:
    """Fills arrays of int8 with bytes that depend on their place, and says whether others have them."""

    def __init__(self, cupy: Any, on_host: bool) -> None:
        self.cupy = cupy
        self.grid, self.block = ((2,), (8,)) if on_host else ((4_096,), (256,))
        self._fill, self._compare = cupy.RawKernel(PATTERN, "fill"), cupy.RawKernel(PATTERN, "compare")

    def array(self, count: int, place: int = 0) -> Any:
        """A new array with the bytes that belong to places from `place` on."""
        x = self.cupy.empty(count, "int8")
        self._fill(self.grid, self.block, (x, np.uint64(count), np.uint64(place)))
        return x

    def wrong(self, x: Any, place: int = 0) -> int:
        """How many bytes of a contiguous array are not those that belong to places from `place` on."""
        assert x.flags.c_contiguous
        wrong = self.cupy.zeros(1, "uint32")
        self._compare(self.grid, self.block, (x, np.uint64(x.size), np.uint64(place), wrong))
        return int(wrong[0])


@pytest.fixture
def pattern(cupy: Any, on_host: bool) -> Pattern:
    """Bytes that depend on their place."""
    return Pattern(cupy, on_host)


@on_gpu
def test_concat_to_more_elements_than_31_bits(room: Any, on_host: bool, pattern: Pattern) -> None:
    room(4.5)
    most = 1 << 16 if on_host else 1 << 31
    lengths = [most // 2 + 3, 5, most // 2 + 16]
    starts = accumulate(lengths, initial=0)
    arrays = [pattern.array(length, start) for length, start in zip(lengths, starts, strict=False)]
    result = sa.concat_from_sequence(arrays, axis=0)
    assert result.shape == (sum(lengths),)
    assert pattern.wrong(result) == 0
    assert pattern.wrong(result[1:]) > result.size // 2  # so that it would be seen


@on_gpu
@pytest.mark.parametrize("row_bits", [30, 32], ids=["matrix", "rows"])
def test_split_and_concat_of_a_matrix_beyond_32_bits(room: Any, on_host: bool, pattern: Pattern, row_bits: int) -> None:
    """Of more than 2^31 elements in all, or more than 2^32 bytes in each row, where the kernel has wide columns."""
    rows, length = 2, (1 << (row_bits - 18 if on_host else row_bits)) + 7
    room(3 * rows * 2 ** (row_bits - 30) + 1)
    x = pattern.array(rows * length).reshape(rows, length)
    sizes = [length // 2 + 1, 3, length - length // 2 - 4]
    chunks = sa.split_to_sequence(x, sizes, axis=1)
    for chunk, (start, stop) in zip(chunks, pairwise(accumulate(sizes, initial=0)), strict=True):
        assert chunk.shape == (rows, stop - start)
        for row in range(rows):
            assert pattern.wrong(chunk[row], row * length + start) == 0
    # As arrays, or it would be known that they were one.
    assert pattern.wrong(sa.concat_from_sequence(list(chunks), axis=1)) == 0


def views_with_strides(cupy: Any, stride: int) -> tuple[list[Any], Any]:
    """Nine views of two rows that lie far apart, and their concat along the rows."""
    memory = cupy.cuda.alloc(stride + 512)
    rows = cupy.ndarray((2, 72), "int8", memory, (stride, 1))
    expected = np.arange(144, dtype=np.int8).reshape(2, 72)
    rows[0, :], rows[1, :] = cupy.asarray(expected[0]), cupy.asarray(expected[1])
    return [rows[:, start : start + 8] for start in range(0, 72, 8)], expected


@on_gpu
@pytest.mark.parametrize("stride", [2**31, 2**32, 2**33 + 64])
def test_strides_beyond_31_bits(cupy: Any, room: Any, stride: int) -> None:
    room(stride / 2**30 + 0.1)
    views, expected = views_with_strides(cupy, stride)
    for elements in (views, sa.ArraySequence(views)):
        gpu_cases.check(sa.concat_from_sequence(elements, axis=1), expected)
    out = cupy.ndarray((2, 72), "int8", cupy.cuda.alloc(stride + 512), (stride, 1))
    sa.concat_from_sequence(views, axis=1, out=out)
    gpu_cases.check(out, expected)


@on_gpu
def test_what_cupy_makes_of_such_strides(cupy: Any, room: Any, record_testsuite_property: Any) -> None:
    """CuPy 14.2 keeps 32 bits of them where it joins more than eight arrays: noted, whatever comes of it."""
    room(4.1)
    # Of these 32 bits nothing is left: CuPy takes the first row twice, and reads nothing that it must not.
    views, expected = views_with_strides(cupy, 2**32)
    right = np.array_equal(cupy.concatenate(views, axis=1).get(), expected)
    found = f"cupy {cupy.__version__}: concatenate of strides of 2**32 bytes is {'right' if right else 'wrong'}"
    record_testsuite_property("finding", found)
    print(found)
    gpu_cases.check(sa.concat_from_sequence(views, axis=1), expected)


# Streams, graphs and threads.

#: Writes what an array should hold, but only after some tens of milliseconds.
LATE = r"""
extern "C" __global__ void late(const int* source, int* target, unsigned int count, unsigned int rounds) {
    unsigned int state = 1;
    for (unsigned int i = 0; i < rounds; ++i) state = state * 1664525u + (state >> 7);
    for (unsigned int i = threadIdx.x; i < count; i += blockDim.x) target[i] = source[i];
    if (!threadIdx.x) target[count] = (int)state;
}
"""

SHAPE = (4, 15_000)
CUTS = np.cumsum(np.random.default_rng(0).integers(1, 5, 5_000)).tolist()


def pieces(x: Any, count: int) -> list[Any]:
    """Ragged pieces of the first row, in another order than they lie in, each of them twice."""
    cut = [x[0, start:stop] for start, stop in pairwise(CUTS[: count // 2 + 1])]
    return [*cut[1::2], *cut[::2], *cut]


#: What is done with an array of SHAPE, and what NumPy does.
WORKS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "concat": (
        lambda x: sa.concat_from_sequence([x[1:], x[:1]], axis=0),
        lambda x: np.concatenate([x[1:], x[:1]]),
    ),
    "concat of columns": (
        lambda x: sa.concat_from_sequence([x[:, 7_000:], x[:, 3:9]], axis=1),
        lambda x: np.concatenate([x[:, 7_000:], x[:, 3:9]], 1),
    ),
    "concat of 2 000 pieces": (
        lambda x: sa.concat_from_sequence(pieces(x, 2_000), axis=0),
        lambda x: np.concatenate(pieces(x, 2_000)),
    ),
    "concat of 9 998 pieces": (
        lambda x: sa.concat_from_sequence(pieces(x, 9_998), axis=0),
        lambda x: np.concatenate(pieces(x, 9_998)),
    ),
    "stack of 400 pieces": (
        lambda x: sa.concat_from_sequence([x[:, i : i + 5] for i in range(400, 0, -1)], axis=1, new_axis=1),
        lambda x: np.stack([x[:, i : i + 5] for i in range(400, 0, -1)], 1),
    ),
    "plain copy": (lambda x: sa.sequence_at([x], 0), lambda x: x),
    "split": (
        lambda x: sa.split_to_sequence(x, [5_000, 3, 9_997], axis=1)[2],
        lambda x: x[:, 5_003:],
    ),
    "split into 15 000": (
        lambda x: sa.split_to_sequence(x, axis=1)[14_999],
        lambda x: x[:, 14_999:],
    ),
    "concat of 15 000 chunks": (
        lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, axis=1), axis=0),
        lambda x: x.T.reshape(-1, 1),
    ),
}

every_work = pytest.mark.parametrize("work", WORKS)


def random_host_array(seed: int) -> np.ndarray[Any, Any]:
    """An array of SHAPE on the host."""
    return np.random.default_rng(seed).integers(0, 2**31, SHAPE, np.int32)


def stream_of(cupy: Any, name: str) -> Any:
    """A stream of the current device: one of CuPy's or a new one."""
    streams = {
        "default": cupy.cuda.get_current_stream,
        "null": lambda: cupy.cuda.Stream.null,
        "blocking": cupy.cuda.Stream,
        "non-blocking": lambda: cupy.cuda.Stream(non_blocking=True),
        "per-thread": lambda: cupy.cuda.Stream.ptds,
    }
    return streams[name]()


@on_gpu
@every_work
@pytest.mark.parametrize("kind", ["default", "null", "blocking", "non-blocking", "per-thread"])
def test_work_is_done_on_the_current_stream(cupy: Any, on_host: bool, work: str, kind: str) -> None:
    run, expected = WORKS[work]
    host = random_host_array(1)
    late = cupy.RawKernel(LATE, "late")
    source, memory = cupy.asarray(host), cupy.zeros(host.size + 1, "int32")
    x = memory[:-1].reshape(SHAPE)
    run(x)  # what compiles its kernels now would come too late to be early
    cupy.cuda.Device().synchronize()
    with stream_of(cupy, kind):
        late((1,), (8 if on_host else 256,), (source, memory, np.uint32(host.size), np.uint32(1 if on_host else 10**7)))
        gpu_cases.check(run(x), expected(host))


@on_gpu
def test_default_stream_is_per_thread_where_that_is_asked_for(cupy: Any) -> None:
    is_per_thread = stream_of(cupy, "default").ptr == stream_of(cupy, "per-thread").ptr
    assert is_per_thread == (os.environ.get(PER_THREAD) == "1")


@on_gpu
def test_the_same_where_the_default_stream_is_per_thread(cupy: Any, on_host: bool) -> None:
    chosen = ["tests/test_gpu.py", "-k", "stream and not where_the_default_stream"]
    run = python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, "--backend", "cupy-host" if on_host else "cupy"),
        **{PER_THREAD: "1"},
    )
    assert run.returncode == pytest.ExitCode.OK, run.stdout
    assert " passed" in run.stdout
    assert " skipped" not in run.stdout


@on_gpu
@every_work
@pytest.mark.parametrize("kind", ["blocking", "non-blocking"])
def test_graphs_can_be_captured_and_replayed(cupy: Any, work: str, kind: str) -> None:
    run, expected = WORKS[work]
    x = cupy.zeros(SHAPE, "int32")
    # What is captured of many pieces is what is done with fewer.
    for kernels in (run, WORKS["concat of 2 000 pieces"][0]):
        kernels(x)
    cupy.cuda.Device().synchronize()
    with stream_of(cupy, kind) as stream:
        stream.begin_capture()
        try:
            result = run(x)
        finally:
            graph = stream.end_capture()
        for seed in (1, 2):
            host = random_host_array(seed)
            x.set(host)
            graph.launch(stream)
            gpu_cases.check(result, expected(host))


class FreshLauncher(Launcher):
    """A launcher whose kernels nobody else has."""

    block_threads = 64


@on_gpu
def test_kernels_can_be_used_for_the_first_time_while_a_graph_is_captured(cupy: Any) -> None:
    x, y = cupy.arange(24, dtype="int8").reshape(2, 12), cupy.zeros((2, 12), "int8")
    launcher = FreshLauncher(Cuda())
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        try:
            launcher.copy_few(False, y.data.ptr, 2, [x.data.ptr + 7, x.data.ptr], [0, 5, 12], [12, 12])
        finally:
            graph = stream.end_capture()
        graph.launch(stream)
        gpu_cases.check(y, np.roll(np.arange(24, dtype=np.int8).reshape(2, 12), 5, 1))


@on_gpu
def test_two_threads_on_two_streams(backend: Any, cupy: Any, on_host: bool) -> None:
    together = Barrier(2, timeout=60)
    cases = 4 if on_host else 40

    def random_cases(first: int) -> None:
        with backend.device, cupy.cuda.Stream(non_blocking=True):
            together.wait()
            for operator in gpu_cases.OPERATORS:
                gpu_cases.run_cases(operator, range(first, first + cases))

    def works(seed: int) -> None:
        host = random_host_array(seed)
        with backend.device, cupy.cuda.Stream(non_blocking=True):
            x = cupy.asarray(host)
            together.wait()
            # Nothing waits in between, and one pool gives memory to both.
            results = [(run(x), expected) for run, expected in [*WORKS.values()] * 2]
            for result, expected in results:
                gpu_cases.check(result, expected(host))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(random_cases, [10_000, 20_000]))
        list(pool.map(works, [1, 2]))


# Devices and memory.


@on_gpu
def test_results_lie_on_the_device_of_the_inputs_whichever_is_current(cupy: Any) -> None:
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    devices = [cupy.cuda.Device(number) for number in range(cupy.cuda.runtime.getDeviceCount())]
    for home in devices:
        with home:
            x = cupy.asarray(host)
            out = cupy.empty((4, 12), "float32")
        for current in devices:
            with current:
                sequence = sa.split_to_sequence(x, [1, 5], axis=1)
                joined = sa.concat_from_sequence(sequence, axis=1)
                stacked = sa.concat_from_sequence([x, x], axis=0, new_axis=1)
                turned = sa.concat_from_sequence([x[::-1].T, x.T], axis=1)
                sa.concat_from_sequence([x, x], axis=1, out=out)
                assert cupy.cuda.runtime.getDevice() == current.id
            with home:
                gpu_cases.check(sequence[1], host[:, 1:])
                gpu_cases.check(joined, host)
                gpu_cases.check(stacked, np.stack([host, host]))
                gpu_cases.check(turned, np.concatenate([host[::-1].T, host.T], 1))
                gpu_cases.check(out, np.concatenate([host, host], 1))


@on_gpu
def test_nothing_is_copied_with_copy_none(cupy: Any) -> None:
    x = cupy.arange(24, dtype="int16").reshape(4, 6)
    chunks = sa.split_to_sequence(x, 2, axis=1, copy=None)
    assert [chunk.data.ptr - x.data.ptr for chunk in chunks] == [0, 4, 8]
    assert sa.concat_from_sequence(chunks, axis=1, copy=None).data.ptr == x.data.ptr
    assert sa.sequence_at([x], 0, copy=None) is x
    x[...] = 7
    assert {int(chunk.min()) for chunk in chunks} == {7}
    assert not cupy.may_share_memory(sa.concat_from_sequence(chunks, axis=1), x)


@on_gpu
def test_memory_is_given_back_when_results_die(cupy: Any) -> None:
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        x = cupy.zeros(SHAPE, "int32")
        gc.collect()
        before = pool.used_bytes()
        for work, (run, _) in WORKS.items():
            result = run(x)
            assert pool.used_bytes() > before, work
            del result
            gc.collect()
            assert pool.used_bytes() == before, work
        del x
    assert pool.used_bytes() == 0


# The script.


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these variables in its environment, in this checkout."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def script(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run gpu.sh."""
    return subprocess.run(
        ["bash", str(SCRIPT), *map(str, arguments)],
        env=os.environ | {"PYTHON": sys.executable} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@needs_bash
@pytest.mark.thorough
def test_the_script_without_a_gpu_says_so(tmp_path: Path) -> None:
    pytest.importorskip("cupy", reason="cupy is not installed")
    run = script(tmp_path / "out", CUDA_VISIBLE_DEVICES="")
    assert "no usable GPU: nothing was run on a device" in run.stdout, run.stdout + run.stderr
    assert run.returncode == 3
    summary = (tmp_path / "out" / "summary.txt").read_text()
    assert "no usable GPU: nothing was run on a device" in summary
    assert "failed" not in summary


@needs_bash
@pytest.mark.thorough
def test_the_script_names_what_is_missing(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    run = script(tmp_path / "out", PYTHON=str(tmp_path / "bare" / "bin" / "python"), PYTHONPATH="")
    assert "cupy" in run.stdout
    assert "WHEEL_FOLDER" in run.stdout
    assert run.returncode == 1


@needs_bash
def test_the_script_takes_a_folder() -> None:
    run = script()
    assert "usage: " in run.stderr
    assert run.returncode == 2
