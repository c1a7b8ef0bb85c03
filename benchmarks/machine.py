"""Facts about the machine and the software that are kept with a result, and memory for inputs."""

from __future__ import annotations

import datetime
import importlib.metadata
import mmap
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import seqarray as sa

#: From this size on malloc asks the system for memory, as long as nothing larger has been freed.
OWN_MEMORY_FROM = 128 << 10
#: From this size on NumPy asks for huge pages.
HUGE_PAGES_FROM = 4 << 20


def description(
    command: list[str], packages: Iterable[str] = (), threads: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Describe versions, commit, processor and device, thread counts, date and command line.

    Parameters
    ----------
    command : list of str
        The command line that made the result.
    packages : iterable of str
        Distributions whose versions are kept, beside those of seqarray and what it needs.
    threads : mapping, optional
        From the names of other libraries to the numbers of their threads.
    """
    named = dict.fromkeys(("seqarray", "numpy", "array-api-compat", *packages))
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(command),
        "commit": commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpus": cpu_count(),
        "gpu": gpu_name(),
        "last_level_cache_bytes": last_level_cache(),
        "versions": {package: version for package in named if (version := _version(package))},
        "threads": {"seqarray": sa.get_num_threads(), **(threads or {})},
    }


def _version(package: str) -> str:
    for name in (package, f"{package}-cuda13x", f"{package}-cuda12x"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def commit() -> str:
    """Return the checkout's commit, with a plus sign where files differ from it; "" outside a checkout."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        revision = git("rev-parse", "HEAD")
        return revision + ("+" if git("status", "--porcelain", "--", "../seqarray", ".") else "")
    except OSError:
        return ""


def cpu_name() -> str:
    """Return the processor's name, where the system has it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def cpu_count() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_average() -> float:
    """Return how many processes have wanted a processor in the last minute; 0 where the system does not count them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0


def gpu_name() -> str:
    """Return the name of the first GPU that CuPy can use; "" without one."""
    cupy = sys.modules.get("cupy")
    if cupy is None or not cupy.cuda.is_available():
        return ""
    return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


def last_level_cache() -> int:
    """Return the bytes of the largest cache; 32 MiB where they cannot be found."""
    sizes = []
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = entry.read_text().strip()
        if text.endswith("K"):
            sizes.append(int(text[:-1]) << 10)
    return max(sizes, default=32 << 20)


def available_memory() -> int:
    """Return the bytes of memory that may be filled without swapping; 4 GiB where they cannot be found."""
    info = Path("/proc/meminfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) << 10
    return 4 << 30


def filled(shape: tuple[int, ...], value: float, dtype: Any) -> np.ndarray:
    """Make an array that, if it is large, lies in memory of its own.

    Large inputs that the C library had made would leave holes behind, in which it then makes results: without the fresh
    pages that these cost in a program where the holes are not.
    """
    nbytes = prod(shape) * np.dtype(dtype).itemsize
    if nbytes < OWN_MEMORY_FROM:
        return np.full(shape, value, dtype)
    memory = mmap.mmap(-1, nbytes)
    if nbytes >= HUGE_PAGES_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(memory, dtype).reshape(shape)
    array.fill(value)
    return array
