"""What the control groups of a process allow it, as the files of both versions of their interface say."""

from pathlib import Path

import pytest

from seqarray._engines import limits

INFINITY = float("inf")


@pytest.fixture
def files(monkeypatch):
    """The files there are, by their names; all others cannot be read."""
    files: dict[str, str] = {}

    def read_text(path: Path) -> str:
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read_text)
    return files


def test_without_control_groups_there_is_no_limit(files):
    assert (limits.processor_quota(), limits.memory_limit()) == (INFINITY, INFINITY)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["max\n", "max\n", "max\n"], INFINITY),
        (["8000\n", "max\n", "max\n"], 8000),
        (["8000\n", "max\n", "4000\n"], 4000),
        (["8000\n", "2000\n", "4000\n"], 2000),
        (["max\n", None, "4000\n"], 4000),
        ([None, None, "4000\n"], 4000),
        ([None, "", "?"], INFINITY),
    ],
)
def test_the_least_memory_of_all_groups_around_the_process_counts(files, texts, expected):
    files["/proc/self/cgroup"] = "0::/system/service\n"
    for group, text in zip(("", "/system", "/system/service"), texts, strict=True):
        if text is not None:
            files[f"/sys/fs/cgroup{group}/memory.max"] = text
    assert limits.memory_limit() == expected


def test_memory_of_the_older_interface_counts(files):
    files["/proc/self/cgroup"] = "9:name=systemd:/\n4:memory:/docker/a\n1:cpu,cpuacct:/docker/b\n"
    files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n"
    files["/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes"] = "5000\n"
    files["/sys/fs/cgroup/cpu/docker/a/memory.limit_in_bytes"] = "1\n"
    assert limits.memory_limit() == 5000


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000\n", INFINITY), ("150000 100000\n", 1.5), ("0 0", INFINITY), ("", INFINITY)]
)
def test_the_quota_of_the_own_group_counts(files, text, expected):
    files["/proc/self/cgroup"] = "0::/service\n"
    files["/sys/fs/cgroup/cpu.max"] = "400000 100000\n" if expected < 4 else "max 100000\n"
    files["/sys/fs/cgroup/service/cpu.max"] = text
    assert limits.processor_quota() == expected


@pytest.mark.parametrize(("quota", "expected"), [("-1\n", INFINITY), ("50000\n", 0.5)])
def test_a_quota_of_the_older_interface_counts(files, quota, expected):
    files["/proc/self/cgroup"] = "1:cpu,cpuacct:/docker\n"
    files["/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us"] = quota
    files["/sys/fs/cgroup/cpu/docker/cpu.cfs_period_us"] = "100000\n"
    assert limits.processor_quota() == expected
