"""The rig that runs CuPy without a device: it counts right, refuses what it cannot do, and says what it lacks."""

import ctypes
import os
import pickle
import shutil
import subprocess
import sys
from functools import partial
from importlib import util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.cupy_host import refused, toolchain

ROOT = Path(__file__).parents[2]
ONE, FOUR = (1,), (4,)

needs_cupy_host = pytest.mark.cupy_host

#: A launch that copies four floats.
COPY = r"""
extern "C" __global__ void copy(const float* source, float* target) { target[threadIdx.x] = source[threadIdx.x]; }
"""


@pytest.fixture
def cupy():
    """CuPy on the host, the first device current."""
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(0):
        yield cupy


def floats(cupy, *values):
    return cupy.asarray(np.asarray(values, np.float32))


# What is counted.


def empty(cupy, count, shape=(4, 4), dtype="float32"):
    return [cupy.empty(shape, dtype) for _ in range(count)]


def ragged(cupy, count):
    return [cupy.empty((rows + 1, 4), "float32") for rows in range(count)]


#: What CuPy does, in launches, allocations and transfers from the host.
COUNTED = {
    "concatenate 3": (lambda cupy: empty(cupy, 3), "concatenate", (3, 1, 0)),
    "concatenate 8": (lambda cupy: empty(cupy, 8), "concatenate", (8, 1, 0)),
    "concatenate 9": (lambda cupy: empty(cupy, 9), "concatenate", (1, 2, 1)),
    "concatenate 9 ragged": (lambda cupy: ragged(cupy, 9), "concatenate", (1, 4, 3)),
    "concatenate 9 transposed": (lambda cupy: [x.T for x in empty(cupy, 9)], "concatenate", (1, 4, 3)),
    "concatenate 9 of two dtypes": (
        lambda cupy: [*empty(cupy, 8), *empty(cupy, 1, dtype="float64")],
        "concatenate",
        (9, 1, 0),
    ),
    "concatenate 9 of 2 MiB": (lambda cupy: empty(cupy, 9, (2**19,)), "concatenate", (9, 1, 0)),
    "concatenate 9 of less": (lambda cupy: empty(cupy, 9, (2**19 - 1,)), "concatenate", (1, 2, 1)),
    "stack 3": (lambda cupy: empty(cupy, 3), "stack", (3, 1, 0)),
    "stack 9": (lambda cupy: empty(cupy, 9), "stack", (1, 2, 1)),
    "concatenate 1000": (lambda cupy: empty(cupy, 1000, (1,)), "concatenate", (1, 2, 1)),
}


@needs_cupy_host
@pytest.mark.parametrize(("make", "function", "expected"), COUNTED.values(), ids=COUNTED)
def test_what_cupy_does_is_counted(cupy, counting, make, function, expected):
    arrays = make(cupy)
    with counting() as counts:
        getattr(cupy, function)(arrays)
    assert (counts.launches, counts.allocations, counts.host_to_device) == expected
    assert counts.device_to_host == counts.device_to_device == counts.between_devices == 0


@needs_cupy_host
def test_views_cost_nothing(cupy, counting):
    x = cupy.empty((1000, 4), "float32")
    with counting() as counts:
        assert len(cupy.split(x, 1000)) == 1000
    assert set(counts.summary().values()) == {0}
    assert counts.events == []


@needs_cupy_host
def test_transfers_are_counted_with_their_bytes(cupy, counting):
    values = np.arange(10, dtype=np.int64)
    with counting() as counts:
        x = cupy.asarray(values)
        y = cupy.empty_like(x)
        y.data.copy_from_device_async(x.data, x.nbytes)
        assert (y.get() == values).all()
    assert (counts.host_to_device, counts.bytes_of("upload")) == (1, 80)
    assert (counts.device_to_device, counts.bytes_of("copy")) == (1, 80)
    assert (counts.device_to_host, counts.bytes_of("download")) == (1, 80)
    assert (counts.allocations, counts.allocated_bytes) == (2, 160)
    assert counts.pinned_uploads == 1  # CuPy stages in pinned memory
    assert counts.launches == 0
    assert counts.synchronizations == 1


@needs_cupy_host
def test_every_allocation_is_counted_once_whoever_makes_it(cupy, counting):
    memory = cupy.cuda.memory
    fresh = cupy.cuda.MemoryPool()
    for allocator, from_pool in (
        (fresh.malloc, True),
        (memory._malloc, False),
        (partial(fresh.malloc), True),
    ):
        with counting() as counts, cupy.cuda.using_allocator(allocator):
            kept = [cupy.empty(100, "uint8"), cupy.empty(7, "uint8"), cupy.empty(0, "uint8")]
        assert [event.nbytes for event in counts.requests] == [100, 7]
        assert {event.kind for event in counts.requests} == {"request" if from_pool else "malloc"}
        del kept


@needs_cupy_host
def test_the_names_and_parameters_of_kernels_are_known(cupy, counting):
    kernel = cupy.RawKernel(COPY, "copy")
    x, y = floats(cupy, 1, 2, 3, 4), floats(cupy, 0, 0, 0, 0)
    with counting() as counts:
        kernel(ONE, FOUR, (x, y))
    assert counts.kernels == ["copy"]
    assert counts.bytes_of("launch") == 16
    assert y.tolist() == [1, 2, 3, 4]


@needs_cupy_host
def test_counting_stops_at_the_end_of_the_block_and_may_be_nested(cupy, counting):
    with counting() as outer:
        cupy.zeros(3)
        with counting() as inner:
            cupy.zeros(4)
        assert inner.allocated_bytes == 32
        cupy.zeros(5)
    cupy.zeros(6)
    assert inner.allocated_bytes == 32
    assert outer.allocated_bytes == 24 + 32 + 40
    assert len(outer.of("fill")) == 3
    assert repr(inner).startswith("Counts(launches=0, allocations=1, ")


@needs_cupy_host
def test_what_is_for_the_device_can_be_left_out_and_is_counted_all_the_same(cupy, counting, without_device_work):
    arrays = [floats(cupy, i) for i in range(9)]
    expected = cupy.concatenate(arrays)
    with without_device_work(), counting() as counts:
        left_out = cupy.concatenate(arrays)
    assert (counts.launches, counts.allocations, counts.host_to_device) == (1, 2, 1)
    assert left_out.tolist() != expected.tolist()
    assert cupy.concatenate(arrays).tolist() == expected.tolist() == list(range(9))


@needs_cupy_host
def test_fresh_memory_is_poisoned_also_where_a_pool_hands_it_out_again(cupy):
    kept = cupy.zeros(1000, "uint8")
    address = kept.data.ptr
    del kept
    again = cupy.empty(1000, "uint8")
    assert again.data.ptr == address
    assert set(again.tolist()) == {0xA5}


# What is right.

VALUES = np.asarray([[3, 1, 2], [0, 5, 4]])
TRANSPOSED = np.ascontiguousarray(VALUES.T)

SHOWN = {
    "copies of any strides": lambda xp, x: xp.ascontiguousarray(x[::-1, ::2].T),
    "assignment": lambda xp, x: [x.__setitem__((0, slice(None)), 9), x][1],
    "arithmetic": lambda xp, x: x * 2 + 1,
    "comparison": lambda xp, x: x > 2,
    "sum": lambda xp, x: xp.sum(x, axis=1),
    "sum of many": lambda xp, x: xp.sum(xp.arange(100_000)),
    "max": lambda xp, x: xp.max(x),
    "argmax": lambda xp, x: xp.argmax(x, axis=0),
    "all": lambda xp, x: xp.all(x > 0),
    "mean": lambda xp, x: xp.mean(x),
    "where": lambda xp, x: xp.where(x > 2, x, -x),
    "take": lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=1),
    "integer index": lambda xp, x: x[xp.asarray([1, 0, 1])],
    "astype": lambda xp, x: x.astype("complex64"),
    "repeat": lambda xp, x: xp.repeat(x, 2, axis=0),
    "add.at": lambda xp, x: [xp.add.at(x, (xp.asarray([0, 0]), xp.asarray([1, 1])), 1), x][1],
    "concatenate 9": lambda xp, x: xp.concatenate([x[:, i % 3 :] for i in range(9)], axis=1),
    "stack 9": lambda xp, x: xp.stack([x.T] * 9, axis=1),
}


@needs_cupy_host
@pytest.mark.parametrize("dtype", ["int64", "float16"])
@pytest.mark.parametrize("function", SHOWN.values(), ids=SHOWN)
def test_results_are_those_of_numpy(cupy, function, dtype):
    result = function(cupy, cupy.asarray(VALUES.astype(dtype)))
    expected = function(np, VALUES.astype(dtype))
    np.testing.assert_array_equal(cupy.asnumpy(result), expected, strict=True)


@needs_cupy_host
def test_threads_of_a_block_meet_at_barriers(cupy):
    source = r"""
    extern "C" __global__ void reverse(int* x) {
        __shared__ int all[64];
        all[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
    }"""
    x = cupy.arange(64, dtype="int32")
    cupy.RawKernel(source, "reverse")(ONE, (64,), (x,))
    assert x.tolist() == list(range(63, -1, -1))


@needs_cupy_host
def test_structures_are_passed_by_value(cupy):
    source = r"""
    struct Table { unsigned char bytes[32756]; };
    extern "C" __global__ void last(Table table, unsigned char* target) { *target = table.bytes[32755]; }"""
    table = np.zeros(32_756, np.uint8)
    table[-1] = 7
    target = cupy.empty((), "uint8")
    cupy.RawKernel(source, "last")(ONE, ONE, (table.view("V32756"), target))
    assert int(target) == 7


# What is refused.

REFUSED = {
    "matmul": (lambda cupy, x: x @ x.T, ImportError),
    "dot": (lambda cupy, x: cupy.dot(x[0], x[0]), ImportError),
    "einsum": (lambda cupy, x: cupy.einsum("ij,kj->ik", x, x), ImportError),
    "linalg.inv": (lambda cupy, x: cupy.linalg.inv(x[:, :2]), ImportError),
    "fft": (lambda cupy, x: cupy.fft.fft(x), ImportError),
    "random": (lambda cupy, x: cupy.random.rand(3), ImportError),
    "default_rng": (lambda cupy, x: cupy.random.default_rng(1).random(3), refused.NotOnTheHost),
    "sort": (lambda cupy, x: cupy.sort(x), refused.NotOnTheHost),
    "argsort": (lambda cupy, x: cupy.argsort(x), refused.NotOnTheHost),
    "lexsort": (lambda cupy, x: cupy.lexsort(x), refused.NotOnTheHost),
    "unique": (lambda cupy, x: cupy.unique(x), refused.NotOnTheHost),
    "median": (lambda cupy, x: cupy.median(x), refused.NotOnTheHost),
    "cumsum": (lambda cupy, x: cupy.cumsum(x), refused.NotOnTheHost),
    "cumprod": (lambda cupy, x: cupy.cumprod(x, axis=1), refused.NotOnTheHost),
    "nonzero": (lambda cupy, x: cupy.nonzero(x), refused.NotOnTheHost),
    "boolean index": (lambda cupy, x: x[x > 2], refused.NotOnTheHost),
    "managed memory": (lambda cupy, x: cupy.cuda.malloc_managed(8), refused.NotOnTheHost),
    "interprocess memory": (lambda cupy, x: cupy.cuda.runtime.ipcGetMemHandle(x.data.ptr), refused.NotOnTheHost),
    "textures": (lambda cupy, x: cupy.cuda.runtime.createTextureObject(0, 0), refused.NotOnTheHost),
}


@needs_cupy_host
@pytest.mark.parametrize(("function", "error"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_there_raises(cupy, function, error):
    with pytest.raises(error):
        function(cupy, cupy.asarray(VALUES.astype(np.float64)))


@needs_cupy_host
def test_compiled_reductions_are_refused_when_asked_for(cupy):
    x = floats(cupy, 1, 2)
    cupy._core.set_reduction_accelerators(["cub"])
    cupy._core.set_routine_accelerators(["cub"])
    try:
        for function in (cupy.sum, cupy.max, cupy.argmin, cupy.cumsum):
            with pytest.raises(refused.NotOnTheHost, match="CUB"):
                function(x)
    finally:
        cupy._core.set_reduction_accelerators([])
        cupy._core.set_routine_accelerators([])
    assert float(cupy.sum(x)) == 3


@needs_cupy_host
def test_every_part_of_cupy_with_kernels_inside_is_refused(cupy):
    """What is compiled for a device would run nowhere, and leave whatever is in memory for a result."""
    folder = Path(cupy.__file__).parent
    inside = {
        ".".join(["cupy", *path.relative_to(folder).parent.parts, path.name.partition(".")[0]])
        for path in folder.rglob("*.so")
        if b".nv_fatbin" in path.read_bytes()
    }
    assert {"cupy.cuda.cub", "cupy.cuda.thrust"} <= inside
    assert inside <= set(refused.COMPILED_KERNELS) | set(refused.LIBRARIES)


@needs_cupy_host
@pytest.mark.parametrize("library", refused.LIBRARIES)
def test_libraries_are_refused_also_where_they_are_installed(library):
    with pytest.raises(ImportError, match="CuPy on the host does not have"):
        util.find_spec(library)


DEVICE_CODE = {
    "int lane = __shfl_down_sync(~0u, 1, 1);": "warp intrinsics",
    "__syncwarp();": "warp intrinsics",
    "extern __shared__ int x[];": "shared memory that is sized at the launch",
    'asm("nop");': "inline assembly",
    "__threadfence();": "memory fences",
}


@needs_cupy_host
@pytest.mark.parametrize("line", DEVICE_CODE)
def test_kernels_that_need_more_than_the_host_has_are_refused(cupy, line):
    kernel = cupy.RawKernel(f'extern "C" __global__ void kernel() {{ {line} }}', "kernel")
    with pytest.raises(refused.NotOnTheHost, match=DEVICE_CODE[line]):
        kernel(ONE, ONE, ())


@needs_cupy_host
@pytest.mark.parametrize("option", ["-use_fast_math", "--device-debug", "-rdc=true"])
def test_unknown_options_of_the_compiler_are_refused(cupy, option):
    kernel = cupy.RawKernel(COPY, "copy", options=(option,))
    with pytest.raises(refused.NotOnTheHost, match=option):
        kernel(ONE, FOUR, (floats(cupy, 1, 2, 3, 4), floats(cupy, 0, 0, 0, 0)))


@needs_cupy_host
def test_what_does_not_compile_is_shown(cupy):
    with pytest.raises(cupy.cuda.compiler.CompileException, match="nonsense"):
        cupy.RawKernel('extern "C" __global__ void kernel() { nonsense; }', "kernel")(ONE, ONE, ())
    too_large = 'struct Table { char bytes[32768]; }; extern "C" __global__ void kernel(Table table) {}'
    with pytest.raises(cupy.cuda.compiler.CompileException, match="more than 32764 bytes"):
        cupy.RawKernel(too_large, "kernel")(ONE, ONE, (np.zeros((), "V32768"),))


# What a device would have noticed.


def notes_of(error):
    return " ".join(error.value.__notes__)


@needs_cupy_host
def test_a_kernel_that_touches_memory_of_the_other_device_faults(cupy):
    here = floats(cupy, 1, 2, 3, 4)
    with cupy.cuda.Device(1):
        there = floats(cupy, 5, 6, 7, 8)
    kernel = cupy.RawKernel(COPY, "copy")
    for arguments in ((there, here), (here, there)):
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress") as error:
            kernel(ONE, FOUR, arguments)
        assert "in kernel copy on device 0" in notes_of(error)
        assert "is of device 1" in notes_of(error)
    assert (here.tolist(), there.tolist()) == ([1, 2, 3, 4], [5, 6, 7, 8])
    with cupy.cuda.Device(1):
        kernel(ONE, FOUR, (there, twin := cupy.empty_like(there)))
    assert twin.tolist() == [5, 6, 7, 8]


@needs_cupy_host
def test_addresses_of_nothing_and_between_elements_fault(cupy):
    x = floats(cupy, 1, 2, 3, 4)
    kernel = cupy.RawKernel(COPY, "copy")
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress"):
        kernel(ONE, FOUR, (np.intp(0), x))
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorMisalignedAddress"):
        kernel(ONE, ONE, (x.data.ptr + 2, x))
    vectors = 'extern "C" __global__ void copy(const uint4* source, uint4* target) { *target = *source; }'
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorMisalignedAddress"):
        cupy.RawKernel(vectors, "copy")(ONE, ONE, (x.data.ptr + 4, x))
    assert x.tolist() == [1, 2, 3, 4]


@needs_cupy_host
@pytest.mark.parametrize(("grid", "block"), [((1,), (1025,)), ((1, 65_536), (1,)), ((1,), (1, 1, 65))])
def test_launches_have_the_limits_of_a_device(cupy, grid, block):
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidConfiguration"):
        cupy.RawKernel(COPY, "copy")(grid, block, (floats(cupy, 1), floats(cupy, 1)))


@needs_cupy_host
def test_copies_stay_within_allocations_and_are_of_the_kind_that_they_say(cupy):
    runtime = cupy.cuda.runtime
    with cupy.cuda.using_allocator(cupy.cuda.memory._malloc):
        x, y = cupy.zeros(128, "float32"), cupy.zeros(128, "float32")
    host = np.zeros(128, np.float32)
    for arguments in (
        (x.data.ptr, y.data.ptr, 513, runtime.memcpyDeviceToDevice),
        (x.data.ptr + 4, y.data.ptr, 512, runtime.memcpyDeviceToDevice),
        (x.data.ptr, host.ctypes.data, 512, runtime.memcpyDeviceToDevice),
        (x.data.ptr, y.data.ptr, 512, runtime.memcpyHostToDevice),
        (host.ctypes.data, x.data.ptr, 512, runtime.memcpyHostToDevice),
    ):
        with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorInvalidValue"):
            runtime.memcpy(*arguments)
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorInvalidValue"):
        runtime.memset(x.data.ptr, 0, 513)
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorInvalidValue"):
        runtime.free(x.data.ptr + 4)


@needs_cupy_host
def test_memory_comes_to_an_end(cupy):
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
        cupy.empty(2**40, "uint8")


# The second device.


@needs_cupy_host
def test_there_are_two_devices_and_allocations_are_on_the_current_one(cupy, counting):
    assert cupy.cuda.runtime.getDeviceCount() == 2
    with counting() as counts, cupy.cuda.Device(1):
        x = cupy.empty(3)
    assert x.device == cupy.cuda.Device(1)
    assert [event.device for event in counts.requests] == [1]
    assert cupy.cuda.Device() == cupy.cuda.Device(0)
    assert cupy.cuda.runtime.pointerGetAttributes(x.data.ptr).device == 1
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidDevice"):
        cupy.cuda.Device(2).use()


@needs_cupy_host
def test_copies_between_devices_are_counted_apart(cupy, counting):
    x = floats(cupy, 1, 2, 3)
    with counting() as counts, cupy.cuda.Device(1):
        y = cupy.asarray(x)
    assert (counts.between_devices, counts.bytes_of("peer_copy"), counts.device_to_device) == (1, 12, 0)
    assert (y.device.id, y.tolist()) == (1, [1, 2, 3])


@needs_cupy_host
def test_cupy_does_not_join_arrays_of_different_devices(cupy):
    x = floats(cupy, 1)
    with cupy.cuda.Device(1):
        y = floats(cupy, 2)
    with pytest.raises(ValueError, match="Peer access is unavailable"):
        cupy.concatenate([x, y])


@needs_cupy_host
def test_kernels_streams_and_events_are_of_the_device_that_was_current(cupy):
    error = cupy.cuda.runtime.CUDARuntimeError
    function = cupy.RawKernel(COPY, "copy").kernel
    stream, event = cupy.cuda.runtime.streamCreate(), cupy.cuda.runtime.eventCreate()
    with cupy.cuda.Device(1):
        x, y = floats(cupy, 1, 2, 3, 4), floats(cupy, 0, 0, 0, 0)
        with pytest.raises(error, match="cudaErrorInvalidResourceHandle") as raised:
            function(ONE, FOUR, (x, y))
        assert "kernel copy was loaded on device 0 and launched on device 1" in notes_of(raised)
        with pytest.raises(error, match="cudaErrorInvalidResourceHandle"):
            cupy.cuda.runtime.memsetAsync(x.data.ptr, 0, 4, stream)
        with pytest.raises(error, match="cudaErrorInvalidResourceHandle"):
            cupy.cuda.runtime.eventRecord(event, 0)


# Streams and graphs.


@needs_cupy_host
def test_a_graph_keeps_values_and_reads_memory_when_it_is_launched(cupy, counting):
    kernel = cupy.RawKernel(COPY, "copy")
    x, y = floats(cupy, 1, 2, 3, 4), floats(cupy, 0, 0, 0, 0)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        with counting() as captured:
            stream.begin_capture()
            assert stream.is_capturing()
            kernel(ONE, FOUR, (x, y))
            graph = stream.end_capture()
        assert captured.launches == 0
        assert y.tolist() == [0, 0, 0, 0]
        x += 10
        with counting() as replayed:
            graph.launch(stream)
        assert replayed.launches == 1
    assert y.tolist() == [11, 12, 13, 14]


BREAK_A_CAPTURE = {
    "waiting for the stream": (lambda cupy, stream: stream.synchronize(), "cudaErrorStreamCaptureUnsupported"),
    "asking the stream": (lambda cupy, stream: stream.done, "cudaErrorStreamCaptureUnsupported"),
    "work on the legacy stream": (lambda cupy, stream: cupy.cuda.Stream.null.synchronize(), "CaptureImplicit"),
    "a blocking copy": (
        lambda cupy, stream: cupy.cuda.runtime.memset(cupy.empty(3).data.ptr, 0, 8),
        "cudaErrorStreamCaptureImplicit",
    ),
}


@needs_cupy_host
@pytest.mark.parametrize(("function", "message"), BREAK_A_CAPTURE.values(), ids=BREAK_A_CAPTURE)
def test_what_breaks_a_capture_raises_then_and_at_its_end(cupy, function, message):
    error = cupy.cuda.runtime.CUDARuntimeError
    with cupy.cuda.Stream() as stream:
        stream.begin_capture()
        try:
            with pytest.raises(error, match=message):
                function(cupy, stream)
        finally:
            with pytest.raises(error, match="cudaErrorStreamCaptureInvalidated"):
                stream.end_capture()
        assert not stream.is_capturing()


@needs_cupy_host
def test_events_take_their_time_from_the_host(cupy):
    first, second = cupy.cuda.Event(), cupy.cuda.Event()
    first.record()
    second.record()
    second.synchronize()
    assert cupy.cuda.get_elapsed_time(first, second) >= 0
    assert second.done


@needs_cupy_host
def test_arrays_can_be_pickled_and_shared_with_themselves(cupy):
    x = floats(cupy, 1, 2, 3)
    assert pickle.loads(pickle.dumps(x)).tolist() == [1, 2, 3]
    assert cupy.from_dlpack(x).data.ptr == x.data.ptr
    shared = SimpleNamespace(__cuda_array_interface__=x.__cuda_array_interface__)
    assert cupy.asarray(shared).data.ptr == x.data.ptr


# What it takes.


def python(*arguments, **environment):
    """Run Python with these variables in its environment, in this checkout."""
    command = [sys.executable, *map(str, arguments)]
    # Options that these tests are run with are not meant for the tests that they run.
    variables = os.environ | {"PYTEST_ADDOPTS": ""} | environment
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False)


LACKS = {
    "g++": ("14.2.0", {"PATH": ""}, "there is no g++"),
    "CuPy": (None, {}, "none of cupy-cuda12x, cupy-cuda13x is installed"),
    "the version of CuPy": ("15.0.0", {}, "it is made for CuPy 14.2 and this is 15.0.0"),
    "a later version of CuPy": ("14.20.0", {}, "it is made for CuPy 14.2 and this is 14.20.0"),
    "headers": ("14.2.0", {}, "there are no CUDA headers; nvidia-cuda-runtime has them"),
}


@pytest.mark.parametrize(("version", "variables", "reason"), LACKS.values(), ids=LACKS)
def test_it_says_what_it_lacks(tmp_path, version, variables, reason):
    if shutil.which("g++") is None and "PATH" not in variables:
        (tmp_path / "g++").touch(0o755)
    if version is not None:
        installed = tmp_path / f"cupy_cuda13x-{version}.dist-info"
        installed.mkdir()
        (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: cupy-cuda13x\nVersion: {version}\n")
    # Without -S, the packages that are installed would be found.
    code = "from tests.cupy_host import toolchain; print(toolchain.missing())"
    paths = os.pathsep.join([str(ROOT), str(tmp_path)])
    no_toolkit = {"CUDA_PATH": str(tmp_path), "CUDA_HOME": str(tmp_path)}
    path = os.pathsep.join([os.environ["PATH"], str(tmp_path)])
    run = python("-S", "-c", code, PYTHONPATH=paths, **({"PATH": path} | no_toolkit | variables))
    assert (run.stdout.strip(), run.stderr) == (reason, "")


BACKEND_TEST = "tests/operators/test_memory.py::test_true_gives_fresh_memory_where_all_other_elements_are_empty"
MARKED_TEST = "tests/engines/test_cupy_host.py::test_memory_comes_to_an_end"


@pytest.mark.thorough
def test_tests_are_skipped_for_what_it_lacks_and_fail_under_strict_skips():
    chosen = ["-m", "pytest", "-p", "no:cacheprovider", "--backend", "cupy-host", BACKEND_TEST, MARKED_TEST]
    reason = "CuPy on the host: there is no g++"
    run = python(*chosen, PATH="")
    assert f"\n    2 {reason}\n" in run.stdout, run.stdout
    assert "2 skipped" in run.stdout
    run = python(*chosen, "--strict-skips", PATH="")
    assert run.stdout.count(f"\nskipped without an accepted reason: {reason}\n") == 2, run.stdout
    assert run.returncode == pytest.ExitCode.TESTS_FAILED


@pytest.mark.thorough
def test_without_the_option_nothing_of_it_is_imported_or_run():
    code = f"""
import sys, pytest
status = pytest.main(["-q", "-p", "no:cacheprovider", "{BACKEND_TEST}[numpy]", "{MARKED_TEST}"])
print(status, [name for name in sys.modules if name.startswith("tests.cupy_host")])
"""
    run = python("-c", code)
    assert "1 deselected" in run.stdout
    # The module of the marked test is imported, and with it what says why tests would be skipped.
    assert run.stdout.splitlines()[-1] == (
        "0 ['tests.cupy_host', 'tests.cupy_host.refused', 'tests.cupy_host.toolchain']"
    )


@pytest.mark.thorough
def test_cupy_on_a_device_and_on_the_host_are_not_tested_in_one_process():
    run = python("-m", "pytest", "--backend", "cupy", "--backend", "cupy-host", BACKEND_TEST)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--backend: cupy and cupy-host cannot be tested in one process" in run.stderr


def test_two_processes_may_compile_one_source_at_once(tmp_path):
    if reason := toolchain.missing():
        pytest.skip(f"CuPy on the host: {reason}")
    code = "from tests.cupy_host import toolchain; print(toolchain.shared_object('int answer() { return 42; }'))"
    command = [sys.executable, "-c", code]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    started = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    outputs = {process.communicate(timeout=100)[0].strip() for process in started}
    (made,) = outputs
    assert [str(path) for path in (tmp_path / "seqarray-cupy-host").iterdir()] == [made]
    assert ctypes.CDLL(made)["_Z6answerv"]() == 42
