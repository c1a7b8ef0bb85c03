"""The copy kernel compiled for real devices, which takes none: does it compile, and to what."""

from __future__ import annotations

import ctypes
import hashlib
import os
import pickle
import re
import shutil
import subprocess
import sysconfig
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seqarray._engines.launcher import Launcher, Variant, kernel_source
from tests.cupy_host.kernel_rig import all_variants, many_kernels, name_of

pytestmark = pytest.mark.engine

ARCHITECTURES = [75, 80, 90, 100, 120]
#: The one whose machine code is looked at.
LOOKED_AT = 90

#: Runs a test for each architecture; for most of them only where there is time to compile.
on_each_architecture = pytest.mark.parametrize(
    "architecture",
    [pytest.param(n, marks=[] if n == LOOKED_AT else pytest.mark.thorough) for n in ARCHITECTURES],
)


def in_wheel(pattern: str) -> Path | None:
    """A file of one of NVIDIA's wheels, each of which has a folder of its own or one for the version of CUDA."""
    folder = Path(sysconfig.get_path("purelib"), "nvidia")
    return next(iter(sorted(folder.glob(f"*/{pattern}"))), None)


class Compiler:
    """NVRTC, from the wheel nvidia-cuda-nvrtc."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    def compile(self, text: str, options: list[str]) -> tuple[bytes, str]:
        """The machine code of a text that includes the kernel, and what the compiler and ptxas had to say."""
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        sources, names = (ctypes.c_char_p * 1)(kernel_source().encode()), (ctypes.c_char_p * 1)(b"copy_pieces.cu")
        status = self._library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"all.cu", 1, sources, names)
        assert status == 0
        arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = self._library.nvrtcCompileProgram(program, len(options), arguments)
        self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self._library.nvrtcGetProgramLog(program, log)
        assert status == 0, log.value.decode()
        self._library.nvrtcGetCUBINSize(program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        self._library.nvrtcGetCUBIN(program, code)
        self._library.nvrtcDestroyProgram(ctypes.byref(program))
        return code.raw, log.value.decode()


def variants_for(architecture: int) -> list[Variant]:
    """The variants that are compiled for an architecture: all of them, but none twice.

    Large and small tables in the arguments differ in the size of one array.  Once for each architecture it is enough to
    see that it is allowed.
    """
    large = Launcher.large_table_bytes
    return [
        variant
        for variant in all_variants()
        if architecture == LOOKED_AT or variant.table_bytes != large or variant.vector_bytes == 16
    ]


@pytest.fixture(scope="module")
def compiled(kept_folder: Callable[[str], Path], thorough: bool) -> dict[int, tuple[bytes, str]]:
    """Machine code and the log of the compiler for each architecture; kept from one run to the next."""
    architectures = ARCHITECTURES if thorough else [LOOKED_AT]
    path = in_wheel("lib/libnvrtc.so.*")
    if path is None:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    compiler = Compiler(path)
    folder = kept_folder("nvrtc")

    def compile_for(architecture: int) -> tuple[bytes, str]:
        text = many_kernels(variants_for(architecture), Launcher.block_threads)
        options = [f"-arch=sm_{architecture}", "-std=c++17", "--ptxas-options=-v"]
        key = hashlib.sha256(repr((kernel_source(), text, options, path.stat())).encode()).hexdigest()[:16]
        kept = folder / f"{key}.pickle"
        if not kept.exists():
            kept.write_bytes(pickle.dumps(compiler.compile(text, options)))
        code, log = pickle.loads(kept.read_bytes())
        return code, log

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(architectures, pool.map(compile_for, architectures), strict=True))


@pytest.fixture(scope="module")
def instructions(
    compiled: dict[int, tuple[bytes, str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """The instructions of each kernel."""
    path = in_wheel("bin/nvdisasm")
    if path is None:
        pytest.skip("nvidia-cuda-nvdisasm is not installed")
    code = tmp_path_factory.mktemp("nvrtc") / "all.cubin"
    code.write_bytes(compiled[LOOKED_AT][0])
    listing = subprocess.run([path, "-c", code], capture_output=True, text=True, check=True).stdout
    found = defaultdict(list)
    kernel = ""
    for line in listing.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            kernel = section[1]
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]+)", line):
            found[kernel].append(instruction[1])
    return dict(found)


def resources(log: str) -> dict[str, tuple[int, int]]:
    """Bytes of spilled registers, and registers, of each kernel; from what ptxas says."""
    kernels = re.split(r"Compiling entry function '(\w+)'", log)[1:]
    found = {}
    for name, report in zip(kernels[::2], kernels[1::2], strict=True):
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill", report)))
        [registers] = map(int, re.findall(r"Used (\d+) registers", report))
        found[name] = (spilled, registers)
    return found


@on_each_architecture
def test_every_variant_compiles(compiled: dict[int, tuple[bytes, str]], architecture: int) -> None:
    code, log = compiled[architecture]
    assert code.startswith(b"\x7fELF")
    assert set(resources(log)) == {name_of(variant) for variant in variants_for(architecture)}


@on_each_architecture
def test_registers_suffice(compiled: dict[int, tuple[bytes, str]], architecture: int) -> None:
    found = resources(compiled[architecture][1])
    in_arguments = [name_of(variant) for variant in variants_for(architecture) if variant.table_bytes]
    assert [name for name in in_arguments if found[name][0] > 0] == []
    # Four blocks fit into the 64 Ki registers of a multiprocessor.
    assert max(registers for _, registers in found.values()) <= 64


def test_sixteen_bytes_are_moved_at_once(instructions: dict[str, list[str]]) -> None:
    for variant in all_variants():
        if variant.vector_bytes == 16:
            names = instructions[name_of(variant)]
            # The tile inside one piece, and the others.
            assert len([name for name in names if name.startswith("LDG.E.128")]) == 8, variant
            assert names.count("STG.E.128") == 8, variant


def test_bytes_are_moved_in_global_memory(instructions: dict[str, list[str]]) -> None:
    for variant in all_variants():
        names = instructions[name_of(variant)]
        assert [name for name in names if re.match(r"(LD|ST)\b", name)] == [], variant


def test_arguments_are_read_where_they_are(instructions: dict[str, list[str]]) -> None:
    for variant in all_variants():
        if variant.table_bytes:
            names = instructions[name_of(variant)]
            assert [name for name in names if re.match(r"(LDL|STL)\b", name)] == [], variant
            assert [name for name in names if re.match(r"U?LDC\b", name)], variant


def test_nvcc_compiles_it_too(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    source = tmp_path / "copy_pieces.cu"
    source.write_text(kernel_source(), encoding="utf-8")
    options = Variant(16, False, 2, Launcher.large_table_bytes, False).options(Launcher.block_threads)
    command = [nvcc, "-cubin", "-arch=sm_90", "-Werror=all-warnings", *options, source, "-o", tmp_path / "code"]
    subprocess.run(command, check=True)
