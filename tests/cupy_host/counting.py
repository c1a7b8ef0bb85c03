"""Counts of what CuPy did: kernels launched, memory asked for, bytes moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from . import entry_points

#: As in host_cuda.cpp; the last is noted here.
_KINDS = ("launch", "malloc", "upload", "download", "copy", "peer_copy", "fill", "synchronize", "request")


class Event(NamedTuple):
    """One thing that the host did in the place of a device."""

    #: "launch" of a kernel; "malloc" of device memory by cudaMalloc; "request" for memory to a pool; "upload" from the
    #: host, "download" to it, "copy" within a device, "peer_copy" from one to another; "fill"; "synchronize".
    kind: str
    device: int
    #: Of a launch: the size of the kernel's parameters.
    nbytes: int
    #: Of the kernel.
    name: str = ""
    #: Of a transfer: whether the host's side is pinned memory.
    pinned: bool = False
    #: Of a malloc: whether a pool wanted it.
    pooled: bool = False


class Counts:
    """What happened while a `counting()` block was entered; to be read at any time."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    @property
    def events(self) -> list[Event]:
        """Everything, the pools' requests for memory apart from the rest in order."""
        _hand_out()
        return self._events

    def of(self, kind: str) -> list[Event]:
        """The events of one kind."""
        assert kind in _KINDS
        return [event for event in self.events if event.kind == kind]

    @property
    def launches(self) -> int:
        """Kernels launched, those of launched graphs included."""
        return len(self.of("launch"))

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels launched, in order."""
        return [event.name for event in self.of("launch")]

    @property
    def requests(self) -> list[Event]:
        """Allocations of device memory, as CuPy's user sees them: what a pool was asked for, or else cudaMalloc."""
        return self.of("request") + [event for event in self.of("malloc") if not event.pooled]

    @property
    def allocations(self) -> int:
        """Allocations of device memory of at least a byte."""
        return len(self.requests)

    @property
    def allocated_bytes(self) -> int:
        """The bytes that were asked for."""
        return sum(event.nbytes for event in self.requests)

    @property
    def host_to_device(self) -> int:
        """Copies from the host to a device."""
        return len(self.of("upload"))

    @property
    def pinned_uploads(self) -> int:
        """Those of the copies from the host that came from pinned memory."""
        return sum(event.pinned for event in self.of("upload"))

    @property
    def device_to_host(self) -> int:
        """Copies from a device to the host."""
        return len(self.of("download"))

    @property
    def device_to_device(self) -> int:
        """Copies within a device that no kernel made."""
        return len(self.of("copy"))

    @property
    def between_devices(self) -> int:
        """Copies from one device to another."""
        return len(self.of("peer_copy"))

    @property
    def synchronizations(self) -> int:
        """How often the host waited for a device, a stream or an event."""
        return len(self.of("synchronize"))

    def bytes_of(self, kind: str) -> int:
        """The bytes that the events of one kind moved, or asked for."""
        return sum(event.nbytes for event in self.of(kind))

    def summary(self) -> dict[str, int]:
        """Launches, allocations and transfers, by name."""
        names = ("launches", "allocations", "host_to_device", "device_to_host", "device_to_device", "between_devices")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return f"Counts({', '.join(f'{name}={count}' for name, count in self.summary().items())})"


_open: list[Counts] = []


def _hand_out() -> None:
    """Give what has happened since the last time to all that count."""
    for kind, device, nbytes, name, flag in entry_points.library().host_take_events():
        event = Event(_KINDS[kind], device, nbytes, name)
        event = event._replace(pooled=flag) if event.kind == "malloc" else event._replace(pinned=flag)
        for counts in _open:
            counts._events.append(event)


@contextmanager
def counting() -> Iterator[Counts]:
    """Count what CuPy does in the block; of memory pools, what this thread asks for."""
    library = entry_points.library()
    _hand_out()
    counts = Counts()
    _open.append(counts)
    library.host_set_recording(1)
    try:
        with _requests_of(counts):
            yield counts
    finally:
        _hand_out()
        _open.remove(counts)
        library.host_set_recording(bool(_open))


def _requests_of(counts: Counts) -> AbstractContextManager[object]:
    from cupy.cuda.memory_hook import MemoryHook

    library = entry_points.library()

    class Requests(MemoryHook):  # type: ignore[misc]
        """Notes what memory pools are asked for."""

        name = f"requests {id(counts)}"

        def alloc_preprocess(self, **_: int) -> None:
            library.host_set_in_pool(1)

        def alloc_postprocess(self, **_: int) -> None:
            library.host_set_in_pool(0)

        def malloc_postprocess(self, *, size: int, mem_ptr: int, **_: int) -> None:
            if size and mem_ptr:
                counts._events.append(Event("request", library.host_device_of(mem_ptr), size))

    hook: AbstractContextManager[object] = Requests()
    return hook


@contextmanager
def without_device_work() -> Iterator[None]:
    """Launch no kernel, and make no copy or fill on a stream, but count all: for the time that the host alone takes."""
    library = entry_points.library()
    with entry_points.without_poison():
        library.host_set_executing(0)
        try:
            yield
        finally:
            library.host_set_executing(1)
