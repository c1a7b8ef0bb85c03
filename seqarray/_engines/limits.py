"""What the control groups of this process allow it: processors and memory, in both versions of the interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_ROOT = "/sys/fs/cgroup"


def processor_quota() -> float:
    """Return the number of processors that the control groups may use; infinity without a limit."""
    quotas = [float("inf")]
    for folder in _folders(""):
        limit, period = (*_words(f"{folder}/cpu.max"), "", "")[:2]
        quotas.append(_ratio(limit, period))
    for folder in _folders("cpu"):
        limit, period = (*_words(f"{folder}/cpu.cfs_quota_us"), *_words(f"{folder}/cpu.cfs_period_us"), "", "")[:2]
        quotas.append(_ratio(limit, period))
    return min(quotas)


def memory_limit() -> float:
    """Return the bytes of memory that the control groups may use; infinity without a limit."""
    files = [f"{folder}/memory.max" for folder in _folders("")]
    files += [f"{folder}/memory.limit_in_bytes" for folder in _folders("memory")]
    return min([float("inf"), *(int(word) for file in files for word in _words(file)[:1] if word.isdecimal())])


def _ratio(limit: str, period: str) -> float:
    """Return the quotient of two positive numbers; infinity for other text: "max" and -1 stand for no limit."""
    if limit.isdecimal() and period.isdecimal() and int(limit) and int(period):
        return int(limit) / int(period)
    return float("inf")


def _folders(controller: str) -> Iterator[str]:
    """Yield the folders of the group of this process and of those around it; "" stands for version 2.

    In a container, the path of the group may be that of the host, of which the container sees only the last part: what
    is not there is passed over, and the topmost folder is always among them.
    """
    top = f"{_ROOT}/{controller}" if controller else _ROOT
    yield top
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "", "")[:3]
        if controller in controllers.split(","):
            parts = PurePosixPath(path).parts[1:]
            yield from (f"{top}/{'/'.join(parts[: count + 1])}" for count in range(len(parts)))


def _words(file: str) -> list[str]:
    return _read(file).split()


def _read(file: str) -> str:
    with suppress(OSError, ValueError):
        return Path(file).read_text()
    return ""
