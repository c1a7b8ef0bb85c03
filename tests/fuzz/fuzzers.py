"""The fuzzers: each takes a backend, a seed and a number of cases, and raises an AssertionError for what is wrong.

A model of a sequence is a list of NumPy arrays that share memory exactly where the elements do, so an edit of one
element has to show in the same places.
"""

from __future__ import annotations

import os
import pickle
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import seqarray as sa
from seqarray._engines.settings import settings
from seqarray.testing import to_numpy
from tests.fuzz.arguments import arguments
from tests.fuzz.files import files
from tests.helpers import on_device_of

DTYPES = ["float32", "int32", "int8", "bool"]
#: Libraries whose arrays can be written into, and whose chunks are views.
EDITABLE = ("numpy", "torch", "cupy")

Model = list[np.ndarray[Any, Any]]


class Histories:
    """Versions of sequences beside their models; every step takes any of them, and may add one."""

    def __init__(self, backend: Any, seed: int, *, edits: bool) -> None:
        self.backend = backend
        self.chance = random.Random(seed)
        self.edits = edits and backend.name in EDITABLE
        self.versions: list[tuple[Any, Model]] = []

    def run(self, cases: int) -> None:
        for case in range(cases):
            if self.edits and self.versions and self.chance.random() < 0.3:
                self.edit()
            try:
                self.step()
            except Exception as error:
                error.add_note(f"in case {case}")
                raise

    def values(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        numbers = [self.chance.randrange(-100, 100) for _ in range(int(np.prod(shape, dtype=int)))]
        return np.asarray(numbers, dtype=np.int8).reshape(shape).astype(dtype)

    def arrays(self, model: np.ndarray[Any, Any]) -> tuple[Any, np.ndarray[Any, Any]]:
        """Return an array of the backend, with memory of its own, and its model."""
        return self.backend.array(model.copy()), model

    def shape(self, lowest: int = 0) -> tuple[int, ...]:
        return tuple(self.chance.choice([0, 1, 2, 3, 5]) for _ in range(self.chance.randrange(lowest, 4)))

    def add(self, sequence: Any, model: Model) -> None:
        self.check(sequence, model)
        self.versions.append((sequence, model))
        if len(self.versions) > 12:
            self.versions.pop(self.chance.randrange(12))

    def check(self, sequence: Any, model: Model) -> None:
        assert len(sequence) == len(model)
        assert sequence.shapes == tuple(array.shape for array in model)
        assert sequence.nbytes == sum(array.nbytes for array in model)
        places = range(len(model)) if len(model) < 6 else self.chance.sample(range(len(model)), 6)
        elements = list(sequence) if self.chance.random() < 0.5 else sequence
        for place in places:
            assert_same(elements[place], model[place])

    def edit(self) -> None:
        sequence, model = self.chance.choice(self.versions)
        if model:
            place, value = self.chance.randrange(len(model)), self.chance.randrange(2)
            element = sequence[place]
            with on_device_of(element):
                element[...] = value
            model[place][...] = value
        for other in self.versions:
            self.check(*other)

    def step(self) -> None:
        if len(self.versions) < 3 or self.chance.random() < 0.25:
            self.chance.choice([self.construct, self.construct, self.split])()
            return
        sequence, model = self.chance.choice(self.versions)
        steps = [
            self.insert,
            self.erase,
            self.cut,
            self.choose,
            self.at,
            self.duplicate,
            self.join,
            self.join,
            self.map,
            self.pack,
            self.pad,
        ]
        self.chance.choice(steps)(sequence, model)

    def construct(self) -> None:
        dtype, shape = self.chance.choice(DTYPES), self.shape()
        copy = self.chance.choice([None, True])
        count = self.chance.choice([1, 2, 5, 9, 70] if self.backend.name in EDITABLE else [1, 2, 5])
        same = self.chance.random() < 0.6
        pairs = [self.arrays(self.values(shape if same else self.shape(), dtype)) for _ in range(count)]
        model = [array.copy() if copy else array for _, array in pairs]
        self.add(sa.sequence_construct(*(array for array, _ in pairs), copy=copy), model)

    def split(self) -> None:
        shape = self.shape(1)
        axis = self.chance.randrange(len(shape))
        x, values = self.arrays(self.values(shape, self.chance.choice(DTYPES)))
        copy, keepdims = self.chance.choice([None, True]), self.chance.randrange(2)
        form, length = self.chance.randrange(3), shape[axis]
        sizes: Any = None
        if form == 0:
            bounds = list(range(length + 1))
        elif form == 1:
            sizes = self.chance.randrange(1, length + 2)
            bounds = [*range(0, length, sizes), length]
        else:
            bounds = [0, *sorted(self.chance.randrange(length + 1) for _ in range(self.chance.choice([0, 2, 80])))]
            bounds.append(length)
            sizes = [stop - start for start, stop in pairwise(bounds)]
        before = (slice(None),) * axis
        model = [values[(*before, slice(*ends))] for ends in pairwise(bounds)]
        if form == 0 and not keepdims:
            model = [chunk[(*before, 0, ...)] for chunk in model]
        elif form == 1 and not length:
            model = []
        if copy:
            model = [chunk.copy() for chunk in model]
        self.add(
            sa.split_to_sequence(
                x, sizes, axis=axis - self.chance.choice([0, len(shape)]), keepdims=keepdims, copy=copy
            ),
            model,
        )

    def insert(self, sequence: Any, model: Model) -> None:
        dtype = sequence.element_type
        array, values = self.arrays(self.values(self.shape(), dtype))
        position = self.chance.choice([None, self.chance.randrange(-len(model), len(model) + 1)])
        place = len(model) if position is None else position % len(model) if position < 0 else position
        self.add(sa.sequence_insert(sequence, array, position), [*model[:place], values, *model[place:]])

    def erase(self, sequence: Any, model: Model) -> None:
        if model:
            position = self.chance.choice([None, 0, self.chance.randrange(-len(model), len(model))])
            place = len(model) - 1 if position is None else position % len(model)
            self.add(sa.sequence_erase(sequence, position), model[:place] + model[place + 1 :])

    def cut(self, sequence: Any, model: Model) -> None:
        ends = [self.chance.choice([None, self.chance.randrange(-9, 9)]) for _ in range(2)]
        which = slice(*ends, self.chance.choice([None, 1, 2, 3, -1, -2]))
        self.add(sequence[which], model[which])

    def choose(self, sequence: Any, model: Model) -> None:
        if self.chance.randrange(2):
            mask = [self.chance.random() < 0.5 for _ in model]
            places, which = [place for place, wanted in enumerate(mask) if wanted], mask
        else:
            count = self.chance.choice([0, 1, 3, 80]) if model else 0
            places = which = [self.chance.randrange(-len(model), len(model)) for _ in range(count)]
        as_array = self.chance.random() < 0.5
        chosen = (
            sequence[np.asarray(which, dtype=bool if which and type(which[0]) is bool else int)]
            if as_array
            else sequence[which]
        )
        self.add(chosen, [model[place] for place in places])

    def at(self, sequence: Any, model: Model) -> None:
        if model:
            place = self.chance.randrange(-len(model), len(model))
            assert_same(sa.sequence_at(sequence, place, copy=self.chance.choice([True, None])), model[place])

    def duplicate(self, sequence: Any, model: Model) -> None:
        if not model:
            return
        ways: list[Callable[[Any], Any]] = [
            deepcopy,
            lambda s: pickle.loads(pickle.dumps(s)),
            lambda s: s.to(copy=True),
        ]
        copied = self.chance.choice(ways)(sequence)
        if self.edits:  # a copy of a run with gaps, or of an array that is held twice, may share memory in itself
            copied = sa.sequence_construct(*copied, copy=True)
        self.add(copied, [array.copy() for array in model])

    def map(self, sequence: Any, model: Model) -> None:
        if model:
            mapped = sa.sequence_map(sequence, body=lambda x: x[None, ...])
            self.add(sa.sequence_construct(*mapped, copy=True), [array[None].copy() for array in model])

    def join(self, sequence: Any, model: Model) -> None:
        stack = self.chance.randrange(2)
        rank = (model[0].ndim if model else 1) + stack
        axis = self.chance.randrange(-rank - 1, rank + 2)
        given = sequence if self.chance.random() < 0.7 else list(sequence)
        try:
            expected = (np.stack if stack else np.concatenate)(model, axis)
        except ValueError:
            expected = None
        try:
            joined = sa.concat_from_sequence(given, axis=axis, new_axis=stack, copy=self.chance.choice([True, None]))
        except (ValueError, IndexError):
            if expected is not None:
                raise
        else:
            assert expected is not None
            assert_same(joined, expected)

    def joined(self, model: Model, axis: int) -> np.ndarray[Any, Any] | None:
        """Return the arrays joined; None if their shapes do not fit."""
        try:
            return np.concatenate(model, axis)
        except ValueError:
            return None

    def pack(self, sequence: Any, model: Model) -> None:
        axis = self.chance.randrange(-3, 3)
        expected = self.joined(model, axis)
        try:
            values, offsets = sa.pack(sequence, axis=axis, copy=self.chance.choice([None, True]))
        except (ValueError, IndexError):
            if expected is not None:
                raise
            return
        assert expected is not None
        assert_same(values, expected)
        assert offsets.tolist() == np.cumsum([0, *(array.shape[axis] for array in model)]).tolist()
        again = sa.unpack(values, offsets, axis=axis, copy=self.chance.choice([None, True]))
        self.add(sa.sequence_construct(*again, copy=True), [array.copy() for array in model])

    def pad(self, sequence: Any, model: Model) -> None:
        axis, side = self.chance.randrange(-2, 2), self.chance.choice(["left", "right"])
        if not model or self.joined(model, axis) is None:
            return
        lengths = [array.shape[axis] for array in model]
        padded = sa.pad_sequence(sequence, axis=axis, fill_value=1, side=side)
        expected = np.ones((len(model), *padded.shape[1:]), model[0].dtype)
        for row, array, length in zip(expected, model, lengths, strict=True):
            place = slice(max(lengths) - length, None) if side == "left" else slice(length)
            row[(slice(None),) * (axis % array.ndim) + (place,)] = array
        assert_same(padded, expected)
        again = sa.unpad_sequence(padded, lengths, axis=axis, side=side)
        self.add(sa.sequence_construct(*again, copy=True), [array.copy() for array in model])


def assert_same(actual: Any, expected: np.ndarray[Any, Any]) -> None:
    """Check shape, dtype and values."""
    values = np.asarray(to_numpy(actual))
    assert (values.shape, values.dtype) == (expected.shape, expected.dtype)
    assert values.tobytes() == np.ascontiguousarray(expected).tobytes()


@contextmanager
def all_is_large() -> Iterator[None]:
    """Have small arrays copied by threads, into recycled memory."""
    before = {name: getattr(settings, name) for name in settings.__slots__}
    threads = sa.get_num_threads()
    for name in ("threads_from", "tensors_from", "piece_from", "items_from", "pool_from"):
        setattr(settings, name, 1)
    settings.wide_row, settings.head_start, settings.block = 8, 0, 64
    sa.set_num_threads(3)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)
        sa.set_num_threads(threads)


def operators(backend: Any, seed: int, cases: int) -> None:
    """Run operators on branching histories, copies and pickles."""
    Histories(backend, seed, edits=False).run(cases)


def edits(backend: Any, seed: int, cases: int) -> None:
    """Run operators, and write into elements between them."""
    Histories(backend, seed, edits=True).run(cases)


def pickled(value: Any, protocol: int) -> Any:
    """Return what is unpickled; with protocol 5, large arrays go out of band."""
    if protocol < 5:
        return pickle.loads(pickle.dumps(value, protocol))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=buffers)


def pickles(backend: Any, seed: int, cases: int) -> None:
    """Run operators, and go on with what is unpickled of all versions together, and of some of them alone."""
    history = Histories(backend, seed, edits=False)
    for _ in range(max(1, cases // 10)):
        history.run(9)
        sequences = [sequence for sequence, _ in history.versions]
        protocol = history.chance.randrange(2, 6)  # earlier ones cannot pickle arrays of array-api-strict
        together = history.chance.choice([deepcopy, partial(pickled, protocol=protocol)])
        again = together(sequences) if history.chance.randrange(2) else list(map(together, sequences))
        models = [model for _, model in history.versions]
        history.versions = []
        for sequence, model in zip(again, models, strict=True):
            history.add(sequence, model)


def threads(backend: Any, seed: int, cases: int) -> None:
    """Run operators in three threads at once, whose copies are divided among workers, into recycled memory."""
    failures: list[BaseException] = []

    def work(which: int) -> None:
        try:
            Histories(backend, 10 * seed + which, edits=True).run(cases // 3)
        except BaseException as error:
            failures.append(error)

    with all_is_large():
        workers = [threading.Thread(target=work, args=(which,)) for which in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if failures:
        raise failures[0]


def forks(backend: Any, seed: int, cases: int) -> None:
    """Fork children while two threads run operators with workers; the children run them too."""
    stop, failures = threading.Event(), []

    def work(which: int) -> None:
        history = Histories(backend, 10 * seed + which, edits=True)
        try:
            while not stop.is_set():
                history.run(1)
        except BaseException as error:
            failures.append(error)

    with all_is_large(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer versions warn about fork in a process with threads
        workers = [threading.Thread(target=work, args=(which,)) for which in range(2)]
        for worker in workers:
            worker.start()
        try:
            for turn in range(max(1, cases // 50)):
                child = os.fork()
                if not child:
                    status = 1
                    try:
                        Histories(backend, 1000 * seed + turn, edits=True).run(50)
                        status = 0
                    finally:
                        os._exit(status)
                assert os.waitpid(child, 0)[1] == 0, f"in child {turn}"
        finally:
            stop.set()
            for worker in workers:
                worker.join()
    if failures:
        raise failures[0]


FUZZERS: dict[str, Callable[[Any, int, int], None]] = {
    "arguments": arguments,
    "operators": operators,
    "edits": edits,
    "pickles": pickles,
    "threads": threads,
    "forks": forks,
    "files": files,
}
