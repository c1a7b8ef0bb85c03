"""seqarray on the arrays of a backend, in each way in which programs call it.

Programs join a list of arrays, or make a sequence of arrays and join that, once.  Both are timed; a sequence that came
out of a split is joined as it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import seqarray as sa
from benchmarks.libraries.base import Kind, Library, Sizes, Work, first, not_done, place_for
from seqarray._engines.settings import settings


class _OnBackend(Library):
    """seqarray on the arrays of a backend, whose properties it shares."""

    module, pip = "seqarray", "seqarray"

    def __init__(self, backend: Library) -> None:
        self.backend_library = backend
        self.recycles = backend.recycles
        self.spins = backend.spins
        self.compiles = backend.compiles

    def recycles_at(self, nbytes: int) -> bool:
        return self.recycles or (self.backend_library.name == "numpy" and nbytes >= settings.pool_from)

    def array(self, host: np.ndarray) -> Any:
        return self.backend_library.array(host)

    @property
    def asynchronous(self) -> bool:
        return self.backend_library.asynchronous

    def finish(self, result: Any) -> None:
        self.backend_library.finish(result)

    def forget(self) -> None:
        self.backend_library.forget()

    def device_seconds(self, work: Work) -> float | None:
        return self.backend_library.device_seconds(work)


class SeqArrayList(_OnBackend):
    """Joins of a list of arrays."""

    name = "seqarray, list"

    def first_concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        return first(self, self.concat(arrays, axis))

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        own = [self.array(a) for a in arrays]
        return lambda: sa.concat_from_sequence(own, axis=axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        own = [self.array(a) for a in arrays]
        return lambda: sa.concat_from_sequence(own, axis=axis, new_axis=1)

    def concat_out(self, arrays: list[np.ndarray], axis: int) -> Work:
        own, out = [self.array(a) for a in arrays], self.array(place_for(arrays, axis))
        return lambda: sa.concat_from_sequence(own, axis=axis, out=out)


class SeqArrayConstruct(_OnBackend):
    """Making a sequence out of arrays, and joining it: both calls are timed together."""

    name = "seqarray, construct + join"

    def first_concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        return first(self, self.concat(arrays, axis))

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        own = [self.array(a) for a in arrays]
        return lambda: sa.concat_from_sequence(sa.sequence_construct(*own), axis=axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        own = [self.array(a) for a in arrays]
        return lambda: sa.concat_from_sequence(sa.sequence_construct(*own), axis=axis, new_axis=1)

    def concat_out(self, arrays: list[np.ndarray], axis: int) -> Work:
        own, out = [self.array(a) for a in arrays], self.array(place_for(arrays, axis))
        return lambda: sa.concat_from_sequence(sa.sequence_construct(*own), axis=axis, out=out)


class SeqArray(_OnBackend):
    """Splits, changes of a sequence and models: all but joins of arrays, of which there are two ways."""

    name = "seqarray"

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        own = self.array(x)
        if sizes is None:
            return lambda: sa.split_to_sequence(own, axis=axis)
        return lambda: sa.split_to_sequence(own, sizes, axis=axis)

    def split_views(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        own = self.array(x)
        return lambda: sa.split_to_sequence(own, sizes, axis=axis, copy=None)

    def rejoin(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        sequence = sa.split_to_sequence(self.array(x), sizes, axis=axis)
        return lambda: sa.concat_from_sequence(sequence, axis=axis)

    def rejoin_view(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        sequence = sa.split_to_sequence(self.array(x), sizes, axis=axis, copy=None)
        return lambda: sa.concat_from_sequence(sequence, axis=axis, copy=None)

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        own = self.array(x)
        return lambda: sa.concat_from_sequence(sa.split_to_sequence(own, sizes, axis=axis), axis=axis)

    def append(self, count: int, element: np.ndarray) -> Work:
        own = self.array(element)

        def work() -> Any:
            sequence = sa.sequence_empty(str(element.dtype))
            for _ in range(count):
                sequence = sa.sequence_insert(sequence, own)
            return sa.concat_from_sequence(sequence, axis=0)

        return work

    def push_and_pop(self, count: int, element: np.ndarray) -> Work:
        own = self.array(element)
        start = sa.sequence_construct(*[own] * count)

        def work() -> Any:
            sequence = start
            for _ in range(500):
                sequence = sa.sequence_insert(sequence, own)
            for _ in range(500):
                sequence = sa.sequence_erase(sequence)
            return sequence

        return work

    def window(self, count: int, element: np.ndarray) -> Work:
        own = self.array(element)
        start = sa.sequence_construct(*[own] * count)

        def work() -> Any:
            sequence = start
            for _ in range(1_000):
                sequence = sa.sequence_erase(sa.sequence_insert(sequence, own), 0)
            return sequence

        return work

    def at(self, arrays: list[np.ndarray]) -> Work:
        # One element after another is taken out of a sequence, so it is made once.
        sequence, position = sa.sequence_construct(*map(self.array, arrays)), len(arrays) // 2
        return lambda: sa.sequence_at(sequence, position)

    def pad(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        sequence = sa.unpack(self.array(values), offsets)
        return lambda: sa.pad_sequence(sequence)

    def unpad(self, padded: np.ndarray, lengths: np.ndarray) -> Work:
        own = self.array(padded)
        return lambda: sa.pack(sa.unpad_sequence(own, lengths))[0]

    def unpack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        own = self.array(values)
        return lambda: sa.unpack(own, offsets)

    def pack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        sequence = sa.unpack(self.array(values), offsets)
        return lambda: sa.pack(sequence)

    def upload(self, arrays: list[np.ndarray]) -> Work:
        return lambda: sa.ArraySequence(arrays).to(xp=self.backend_library.name)

    def model(self, answer: np.ndarray, text: str, inputs: dict[str, np.ndarray]) -> Work | None:
        del answer
        if find_spec("onnx") is None:
            return None
        parsed = importlib.import_module("onnx.parser").parse_model(text)
        program = importlib.import_module("seqarray.onnx").prepare(parsed, xp=self.backend_library.name)
        return lambda: program.run(inputs)[0]


class SeqArrayTaken(SeqArray):
    """Splits of which every chunk is then taken."""

    name = "seqarray, all taken"

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        work = super().split(x, sizes, axis)
        return lambda: list(work())

    def split_views(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        work = super().split_views(x, sizes, axis)
        return lambda: list(work())

    rejoin: Kind = not_done
    rejoin_view: Kind = not_done
    round_trip: Kind = not_done
    append: Kind = not_done
    push_and_pop: Kind = not_done
    window: Kind = not_done
    at: Kind = not_done
    pad: Kind = not_done
    unpad: Kind = not_done
    unpack: Kind = not_done
    pack: Kind = not_done
    upload: Kind = not_done
    model: Kind = not_done


def ways(backend: Library) -> Iterator[Library]:
    """Make all ways of calling seqarray on the arrays of a backend."""
    for way in (SeqArrayList, SeqArrayConstruct, SeqArray, SeqArrayTaken):
        yield way(backend)
