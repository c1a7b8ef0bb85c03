"""Processes that work on seeds, watched: replaced when they crash, hang or have had enough."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]

#: Seconds that one seed may take.
MAX_SECONDS = 5.0

#: Seeds that one process works on.
BATCH = 75
WORKERS = 2


class Finding(NamedTuple):
    """A seed and what is wrong with it."""

    seed: int
    outcome: str
    note: str


class Worker:
    """A process that works on seeds, one at a time."""

    def __init__(self, command: list[str]) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed in `end`)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=ROOT
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def next_line(self, seconds: float) -> str | None:
        """The next line it writes; "" if it has ended, None if it takes too long."""
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def outcome_of(self, seed: int, seconds: float) -> Finding:
        """What becomes of a seed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{seed}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return Finding(seed, "crash", self.last_words())
        line = self.next_line(seconds)
        if line is None:
            return Finding(seed, "hang", f"no answer after {seconds} s")
        return Finding(**json.loads(line)) if line else Finding(seed, "crash", self.last_words())

    def last_words(self) -> str:
        """How the process ended."""
        status = self.process.wait()
        self.errors.seek(0)
        return f"exit status {status}: {self.errors.read()[-1000:]}"

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            assert stream is not None
            stream.close()


WORK = [sys.executable, "-X", "faulthandler", "-m", "tests.onnx.fuzz", "--work"]


def watch(
    seeds: Iterable[int], command: list[str] = WORK, *, seconds: float = MAX_SECONDS, batch: int = BATCH
) -> Iterator[Finding]:
    """What becomes of each seed, in processes that are replaced after a batch and after a crash or a hang.

    A seed that takes too long is tried again in a new process, so that a busy machine does not make one a finding.
    """
    waiting = [(seed, False) for seed in reversed(list(seeds))]
    while waiting:
        worker = Worker(command)
        try:
            if worker.next_line(60) != "ready\n":
                raise RuntimeError(f"a process did not start: {worker.last_words()}")
            for _ in range(batch):
                if not waiting:
                    break
                seed, again = waiting.pop()
                finding = worker.outcome_of(seed, seconds)
                if finding.outcome == "hang" and not again:
                    waiting.append((seed, True))
                    break
                yield finding
                if finding.outcome in ("hang", "crash", "memory"):
                    break
        finally:
            worker.end()


def watch_several(seeds: list[int], report: Callable[[Finding], None]) -> None:
    """Watch as many processes at once as there are to be."""
    failures: list[BaseException] = []

    def share(number: int) -> None:
        try:
            for finding in watch(seeds[number::WORKERS]):
                report(finding)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=share, args=(number,)) for number in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
