"""The interface of a library that the benchmarks time, and helpers that several of them share.

A library makes arrays of its own out of host arrays, does one piece of work on them and waits until it is done.  Each
piece of work is a method: it takes host arrays, brings them over, and returns a function that does the work alone, so
that only the work is timed.  A library leaves out the methods of work that it cannot do, and a method returns None for
inputs that it cannot take.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

import seqarray as sa
from benchmarks import machine

Work = Callable[[], Any]
Kind = Callable[..., Work | None]
#: As seqarray takes them: None for chunks of one, one size for all chunks, or the size of each.
Sizes = int | Sequence[int] | np.ndarray | None


def not_done(*_: Any) -> None:
    """Stand for a method of work that a library cannot do."""


class Library:
    """A library that is timed.

    Attributes
    ----------
    name : str
        What tables call it.
    chosen_as : str
        What ``--peers`` and ``--backends`` call it; `name` if it is empty.
    module, pip : str
        The module that it needs, and what pip installs to bring it.
    packages : tuple of str
        Distributions whose versions are kept with a result.
    backend : bool
        Whether seqarray is timed on its arrays.
    beside : tuple of str
        Backends on whose cases it is timed beside seqarray.
    limit : bool
        Whether it is the machine's limit and no library: it copies bytes, and no answer of it is checked.
    recycles : bool
        Whether its results lie in memory of earlier results, so that a first call takes longer than later ones.
    rotates : bool
        Whether memory takes its time and not Python, so that inputs have to rotate.
    compiles : bool
        Whether its first call compiles what later ones run.
    threaded_copies : bool
        Whether threads of seqarray copy its arrays, so that single calls after a pause are timed.
    spins : str
        The library whose threads spin for a while after a call (processor time is spent while sleeping); "" if none do.
    most_pieces : int
        More pieces than this are not timed on its arrays: they take minutes to prepare.
    note : str
        A line below the tables.
    """

    name = ""
    chosen_as = ""
    module = ""
    pip = ""
    packages: tuple[str, ...] = ()
    backend = False
    beside: tuple[str, ...] = ()
    limit = False
    recycles = False
    rotates = True
    compiles = False
    threaded_copies = False
    spins = ""
    most_pieces = 1_000_000
    note = ""

    def recycles_at(self, nbytes: int) -> bool:
        """Return whether a result of this size lies in memory of an earlier one."""
        del nbytes
        return self.recycles

    def does(self, work: str) -> bool:
        """Return whether it has a method for a piece of work; some inputs may still be too much for it."""
        return getattr(type(self), work) is not not_done

    def missing(self) -> str:
        """Return why it cannot be used here; "" if it can."""
        try:
            importlib.import_module(self.module)
        except ImportError:
            return f"not installed (pip install {self.pip})"
        except Exception as error:  # a library with a broken driver can raise anything
            return f"cannot be imported: {error}"
        return ""

    def threads(self) -> int | None:
        """Return the number of its threads; None where it has none or has not been imported."""
        return None

    def use_threads(self, count: int) -> None:
        """Set the number of its threads, where it lets itself be told."""

    def use_device(self, device: str) -> None:
        """Make arrays on a device from now on; raise a ValueError or RuntimeError where there is none of that name."""
        if device != "cpu":
            raise ValueError("its arrays lie in host memory")

    def holds(self, dtype: np.dtype) -> bool:
        """Return whether its arrays can be of a dtype."""
        try:
            return bool(sa.testing.to_numpy(self.array(np.empty(1, dtype))).dtype == dtype)
        except TypeError:
            return False

    def array(self, host: np.ndarray) -> Any:
        """Return the library's own array with the values of a host array."""
        return host

    def finish(self, result: Any) -> None:
        """Wait until a result is there."""
        del result  # on the CPU it is

    @property
    def asynchronous(self) -> bool:
        """Return whether there is anything to wait for."""
        return type(self).finish is not Library.finish

    def host(self, result: Any) -> Any:
        """Return a result as a host array, or as a list of them."""
        if isinstance(result, (list, tuple, sa.ArraySequence)):
            return [self.host(item) for item in result]
        return sa.testing.to_numpy(result)

    def forget(self) -> None:
        """Forget all programs that have been compiled."""

    def device_seconds(self, work: Work) -> float | None:
        """Return the time that a device was busy with `work`, by its own events; None on the CPU."""
        del work

    #: Join arrays along an existing axis: (arrays, axis).
    concat: Kind = not_done
    #: Join arrays along a new axis: (arrays, axis).
    stack: Kind = not_done
    #: Join arrays along an existing axis into an array that is there: (arrays, axis).
    concat_out: Kind = not_done
    #: The same, of a library that has not compiled anything yet: (arrays, axis).
    first_concat: Kind = not_done
    #: Copies of all chunks of an array: (x, sizes, axis).
    split: Kind = not_done
    #: All chunks of an array, in its own memory: (x, sizes, axis).
    split_views: Kind = not_done
    #: Join the chunks of a split that was made before: (x, sizes, axis).
    rejoin: Kind = not_done
    #: The same without a copy, by those who can: (x, sizes, axis).
    rejoin_view: Kind = not_done
    #: Split into copies, and join them again: (x, sizes, axis).
    round_trip: Kind = not_done
    #: Insert an element a number of times at the end, and join: (count, element).
    append: Kind = not_done
    #: 500 inserts and 500 erases at the end of a number of elements: (count, element).
    push_and_pop: Kind = not_done
    #: 1 000 times an insert at the end and an erase at the front of a number of elements: (count, element).
    window: Kind = not_done
    #: A copy of the element in the middle: (arrays,).
    at: Kind = not_done
    #: Bring a ragged list of rows to the device: (arrays,).
    upload: Kind = not_done
    #: Pad rows that hang together: (values, offsets).
    pad: Kind = not_done
    #: The values of the rows of a padded array, without the padding: (padded, lengths).
    unpad: Kind = not_done
    #: Make rows of values and offsets: (values, offsets).
    unpack: Kind = not_done
    #: Values and offsets of such rows, which were made before: (values, offsets).
    pack: Kind = not_done
    #: Run an ONNX model: (its answer, the model as text, inputs by name).
    model: Kind = not_done


#: The pieces of work that join given arrays.
JOINS = ("concat", "stack", "concat_out", "first_concat")


def first(library: Library, work: Work) -> Work:
    """Return the same work, done as if for the first time."""

    def forgetful() -> Any:
        library.forget()
        return work()

    return forgetful


def lengths_of(x: np.ndarray, sizes: Sizes, axis: int) -> list[int]:
    """Return the length of every chunk."""
    if sizes is None or isinstance(sizes, int):
        size, length = sizes or 1, x.shape[axis]
        return [min(size, length - start) for start in range(0, length, size)]
    return [int(size) for size in sizes]


def cuts_of(x: np.ndarray, sizes: Sizes, axis: int) -> Any:
    """Return what np.split takes: the number of chunks of one size, else where they begin."""
    if isinstance(sizes, np.ndarray):
        return np.cumsum(sizes)[:-1]
    lengths = lengths_of(x, sizes, axis)
    same = not isinstance(sizes, Sequence) and lengths[-1] == lengths[0]
    return len(lengths) if same else list(accumulate(lengths))[:-1]


def place_for(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    """Return an array for the result of a concat, of zeros, so that a library that writes nothing does not pass."""
    shape = list(arrays[0].shape)
    shape[axis] = sum(a.shape[axis] for a in arrays)
    return machine.filled(tuple(shape), 0, arrays[0].dtype)
