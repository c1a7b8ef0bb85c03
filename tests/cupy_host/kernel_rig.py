"""Runs the copy kernel on the CPU, on real CuPy arrays in host memory, and checks every access that it makes.

The kernel is compiled as C++, with `kernel_shim.h` in place of CUDA.  No driver is needed, and nothing of CuPy is
replaced but its allocator, which CuPy lets everyone choose.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import mmap
import os
import subprocess
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqarray._engines.launcher import EQUAL, HEADER, RAGGED, UNIFORM, Launcher, Variant, kernel_source

HERE = Path(__file__).parent
POISON = 0xA5
#: Of Linux: memory that is not touched is not counted.  Not every version of Python has a name for it.
MAP_NORESERVE = 0x4000
#: Allocations start at its multiples, as on a device, and lie that far apart at least.
GUARD = 512


class AccessError(AssertionError):
    """The kernel touched memory in a way that it must not."""


class Memory(ctypes.Structure):
    """`Memory` of `kernel_shim.h`."""

    _fields_ = (
        ("starts", ctypes.c_void_p),
        ("stops", ctypes.c_void_p),
        ("allocations", ctypes.c_uint64),
        ("base", ctypes.c_uint64),
        ("written", ctypes.c_void_p),
        ("misaligned", ctypes.c_uint64),
        ("outside", ctypes.c_uint64),
        ("overwritten", ctypes.c_uint64),
        ("stored_bytes", ctypes.c_uint64),
        ("last_found", ctypes.c_uint64),
    )


class Arena:
    """Host memory that stands for the memory of a device; only what is touched takes up any.

    `malloc` is an allocator for CuPy.  Fresh memory is poisoned, unless it is very large.
    """

    def __init__(self, nbytes: int = 256 << 20) -> None:
        self._memory, self._written = (
            mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE) for _ in range(2)
        )
        self.bytes = np.frombuffer(self._memory, np.uint8)
        self.written = np.frombuffer(self._written, np.uint8)
        self.base = self.bytes.ctypes.data
        self.reset()

    def reset(self) -> None:
        """Free everything."""
        self.starts: list[int] = []
        self.stops: list[int] = []
        self._top = GUARD
        self._memory.madvise(mmap.MADV_DONTNEED)
        self.forget_writes()

    def forget_writes(self) -> None:
        """From now on, nothing has been written."""
        self._written.madvise(mmap.MADV_DONTNEED)  # zeros again

    def allocate(self, nbytes: int) -> int:
        """The address of fresh memory."""
        start, stop = self._top, self._top + nbytes
        self._top = -(-stop // GUARD) * GUARD + GUARD
        if self._top > len(self.bytes):
            raise MemoryError(f"an arena of {len(self.bytes)} bytes has no room for {nbytes} more")
        self.starts.append(self.base + start)
        self.stops.append(self.base + stop)
        if nbytes < 16 << 20:
            self.bytes[start:stop] = POISON
        return self.base + start

    @property
    def used(self) -> np.ndarray[Any, Any]:
        """The memory up to the last allocation."""
        return self.bytes[: self._top]

    def malloc(self, nbytes: int) -> Any:
        """An allocator for CuPy."""
        from cupy.cuda import MemoryPointer, UnownedMemory

        return MemoryPointer(UnownedMemory(self.allocate(nbytes), max(nbytes, 1), self, 0), 0)

    def array(self, values: Any, offset: int = 0) -> Any:
        """A CuPy array with these values, `offset` bytes behind the start of its allocation."""
        import cupy

        values = np.asarray(values)
        array = cupy.ndarray(values.shape, values.dtype, self.malloc(values.nbytes + offset) + offset)
        self.view(array)[...] = values
        return array

    def view(self, array: Any) -> np.ndarray[Any, Any]:
        """The memory of a CuPy array."""
        return np.ndarray(array.shape, array.dtype, self.bytes, array.data.ptr - self.base, array.strides)

    def at(self, address: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Some bytes."""
        start = address - self.base
        return self.bytes[start : start + nbytes]

    def holds(self, address: int, nbytes: int) -> bool:
        """Whether these bytes lie in one allocation."""
        found = bisect_right(self.starts, address) - 1
        return found >= 0 and address + nbytes <= self.stops[found]


def all_variants(launcher: type[Launcher] = Launcher) -> list[Variant]:
    """Every variant of the kernel that a launcher may ask for."""
    sizes = (launcher.small_table_bytes, launcher.large_table_bytes, 0)
    layouts = [(UNIFORM, 0), *itertools.product((EQUAL, RAGGED), sizes)]
    return [
        Variant(vector_bytes, scatter, layout, table_bytes, wide)
        for vector_bytes in (16, 8, 4, 2, 1)
        for scatter in (False, True)
        for layout, table_bytes in layouts
        for wide in (False, True)
    ]


def name_of(variant: Variant) -> str:
    """A name for the kernel of a variant, where there are several."""
    return "kernel_" + "_".join(str(int(field)) for field in variant)


def many_kernels(variants: Iterable[Variant], block_threads: int, after: str = "") -> str:
    """A text that compiles to several variants of the kernel in `copy_pieces.cu`, which is faster than one by one.

    `after` follows each of them, with NAME replaced.
    """
    lines = []
    for variant in variants:
        name = name_of(variant)
        macros = [option[2:].split("=") for option in variant.options(block_threads) if option.startswith("-D")]
        lines += [f"#define {macro} {value}" for macro, value in [*macros, ("copy_pieces", name)]]
        lines += [f"namespace scope_{name} {{", '#include "copy_pieces.cu"', after.replace("NAME", name), "}"]
        lines += [f"#undef {macro}" for macro, _ in [*macros, ("copy_pieces", name)]]
    return "\n".join(lines) + "\n"


class HostKernels:
    """The kernel compiled for the CPU, some variants at a time; compiled objects are kept in a folder."""

    def __init__(self, folder: Path, source: str | None = None) -> None:
        self.folder = folder
        self.source = kernel_source() if source is None else source
        self._libraries: dict[Variant, ctypes.CDLL] = {}

    @cached_property
    def _compiler(self) -> str:
        return subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]

    def compile(self, variants: Sequence[Variant], block_threads: int) -> None:
        """Compile variants, those with tables of one size together, side by side."""
        groups = [
            [variant for variant in variants if (variant.vector_bytes, variant.table_bytes) == which]
            for which in {(variant.vector_bytes, variant.table_bytes) for variant in variants}
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            libraries = pool.map(self._compiled, groups, itertools.repeat(block_threads))
        for group, library in zip(groups, libraries, strict=True):
            self._libraries.update(dict.fromkeys(group, ctypes.CDLL(str(library))))

    def _compiled(self, variants: Sequence[Variant], block_threads: int) -> Path:
        shim = (HERE / "kernel_shim.h").read_text(encoding="utf-8")
        text = '#include "kernel_shim.h"\n' + many_kernels(variants, block_threads, after="DEFINE_RUN(NAME)")
        command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wno-unknown-pragmas", "-Werror", "-shared", "-fPIC"]
        key = repr((self.source, shim, text, command, self._compiler))
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        library = self.folder / f"{name}.so"
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=self.folder) as build:
                Path(build, "copy_pieces.cu").write_text(self.source, encoding="utf-8")
                Path(build, "variants.cpp").write_text(text, encoding="utf-8")
                compiled = Path(build, "variants.so")
                subprocess.run([*command, f"-I{HERE}", f"{build}/variants.cpp", "-o", str(compiled)], check=True)
                compiled.replace(library)  # at once: no other process finds half of it
        return library

    def function(self, variant: Variant, block_threads: int) -> Any:
        """The function that runs blocks of one variant."""
        if variant not in self._libraries:
            self.compile([variant], block_threads)
        function = self._libraries[variant][f"run_{name_of(variant)}"]
        function.restype = ctypes.c_uint64
        return function


class HostCuda:
    """Stands for `seqarray._engines.launcher.Cuda`: the device is an arena.

    Attributes
    ----------
    launches : list of Variant
        What was launched.
    copies, uploads : int
        How many plain copies and uploads there were.
    capturing, large_arguments : bool
        What the launcher is told.
    blocks : callable, optional
        Picks the blocks of a grid that are run, where the whole would take too long.
    """

    def __init__(self, arena: Arena, kernels: HostKernels) -> None:
        self.arena = arena
        self.kernels = kernels
        self.launches: list[Variant] = []
        self.copies = 0
        self.uploads = 0
        self.capturing = False
        self.large_arguments = True
        self.blocks: Callable[[int], Iterable[int]] = range

    def function(self, variant: Variant, block_threads: int) -> Callable[..., None]:
        """The kernel, compiled for the CPU."""
        run = self.kernels.function(variant, block_threads)

        def launch(grid: tuple[int], block: tuple[int], arguments: tuple[np.ndarray[Any, Any]]) -> None:
            assert block == (block_threads,)
            assert 0 < grid[0] < 1 << 31
            self.launches.append(variant)
            self._run(run, grid[0], *arguments)

        return launch

    def _run(self, run: Any, grid: int, arguments: np.ndarray[Any, Any]) -> None:
        arena = self.arena
        starts, stops = (np.array(column, dtype=np.uint64) for column in (arena.starts, arena.stops))
        arena.forget_writes()
        memory = Memory(
            starts.ctypes.data, stops.ctypes.data, len(starts), arena.base, arena.written.ctypes.data, 0, 0, 0, 0, 0
        )
        blocks = np.array(list(self.blocks(grid)), dtype=np.uint32)
        size = run(
            ctypes.c_void_p(arguments.ctypes.data),
            ctypes.c_void_p(blocks.ctypes.data),
            ctypes.c_uint64(len(blocks)),
            ctypes.byref(memory),
        )
        assert size == arguments.nbytes, "the kernel and the launcher disagree about the arguments"
        for fault in ("misaligned", "outside", "overwritten"):
            count = getattr(memory, fault)
            if count:
                raise AccessError(f"{count} {fault}")
        total = HEADER.unpack_from(arguments.tobytes())[3]
        if len(blocks) == grid and memory.stored_bytes != total:
            raise AccessError(f"{memory.stored_bytes} bytes stored instead of {total}")

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """A plain copy."""
        self.copies += 1
        if not (self.arena.holds(source, nbytes) and self.arena.holds(target, nbytes)):
            raise AccessError("a plain copy reaches outside")
        self.arena.at(target, nbytes)[...] = self.arena.at(source, nbytes)

    def upload(self, table: np.ndarray[Any, Any]) -> Any:
        """The table in memory that CuPy has been told to use."""
        import cupy

        self.uploads += 1
        uploaded = cupy.empty(table.shape, table.dtype)
        self.arena.view(uploaded)[...] = table
        return uploaded

    def is_capturing(self) -> bool:
        """What the test says."""
        return self.capturing

    def takes_large_arguments(self) -> bool:
        """What the test says."""
        return self.large_arguments


class SmallLauncher(Launcher):
    """A launcher whose limits are so low that small cases meet all of them."""

    block_threads = 8
    small_table_bytes = 64
    large_table_bytes = 240
    wide_from = 1500
