"""What the benchmarks time: seqarray on a backend, and the libraries beside it.

A library turns host arrays into its own, does one piece of work on them, and says when it is done.  One that cannot do
a piece of work says so with None.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

import seqarray as sa
from benchmarks import machine, models
from seqarray._engines.settings import settings

Work = Callable[[], Any]
Kind = Callable[..., Work | None]
#: As seqarray takes them: None for chunks of one, one size for all chunks, or the size of each.
Sizes = int | Sequence[int] | np.ndarray | None


def _not_done(*_: Any) -> None:
    """The answer of a library to work that it cannot do."""


class Library:
    """A library that works on arrays of its own.

    `concat`, `stack` and the others are methods that take host arrays and return a function that does the work.
    """

    name = ""
    #: Module to import, and what brings it.
    module = ""
    pip = ""
    #: Its results lie in memory that an earlier result has left, so that the first call is another matter.
    recycles = False
    #: Its time is spent in memory and not in Python, so that inputs rotate.
    rotates = True
    #: Its first call compiles what later ones run.
    compiles = False
    #: Whose threads spin for a while after a call (seen as processor time that is spent while sleeping); "" if none do.
    spins = ""
    #: More pieces than this are not timed on its arrays: they take minutes to prepare.
    most_pieces = 1_000_000
    #: Said below the tables.
    note = ""

    def recycles_at(self, nbytes: int) -> bool:
        """Whether a result of this size lies in memory that an earlier one has left."""
        del nbytes
        return self.recycles

    def does(self, work: str) -> bool:
        """Whether it can do a piece of work, as far as that is known before the inputs are."""
        return getattr(type(self), work) is not _not_done

    def missing(self) -> str:
        """Why it cannot be used here; "" if it can."""
        try:
            importlib.import_module(self.module)
        except ImportError:
            return f"not installed (pip install {self.pip})"
        except Exception as error:  # a library with a broken driver can raise anything
            return f"cannot be imported: {error}"
        return ""

    def array(self, host: np.ndarray) -> Any:
        """The library's own array with the values of a host array."""
        return host

    def finish(self, result: Any) -> None:
        """Wait until a result is there."""
        del result  # on the CPU it is

    @property
    def asynchronous(self) -> bool:
        """Whether there is anything to wait for."""
        return type(self).finish is not Library.finish

    def host(self, result: Any) -> Any:
        """A result as a host array, or a list of them."""
        if isinstance(result, (list, tuple, sa.ArraySequence)):
            return [self.host(item) for item in result]
        return sa.testing.to_numpy(result)

    def device_seconds(self, work: Work) -> float | None:
        """Time that a device was busy with `work`, by its own events; None on the CPU."""
        del work

    #: Join arrays along an existing axis: (arrays, axis).
    concat: Kind = _not_done
    #: Join arrays along a new axis: (arrays, axis).
    stack: Kind = _not_done
    #: Join arrays along an existing axis into an array that is there: (arrays, axis).
    concat_out: Kind = _not_done
    #: Copies of all chunks of an array: (x, sizes, axis).
    split: Kind = _not_done
    #: All chunks of an array, in its own memory: (x, sizes, axis).
    split_views: Kind = _not_done
    #: Join the chunks of a split that was made before: (x, sizes, axis).
    rejoin: Kind = _not_done
    #: The same without a copy, by those who can: (x, sizes, axis).
    rejoin_view: Kind = _not_done
    #: Split into copies, and join them again: (x, sizes, axis).
    round_trip: Kind = _not_done
    #: Insert an element a number of times at the end, and join: (count, element).
    append: Kind = _not_done
    #: 500 inserts and 500 erases at the end of a number of elements: (count, element).
    push_and_pop: Kind = _not_done
    #: 1 000 times an insert at the end and an erase at the front of a number of elements: (count, element).
    window: Kind = _not_done
    #: A copy of the element in the middle: (arrays,).
    at: Kind = _not_done
    #: Bring a ragged list of rows to the device: (arrays,).
    upload: Kind = _not_done
    #: Run an ONNX model: (its answer, the model as text, inputs by name).
    model: Kind = _not_done


def _lengths(x: np.ndarray, sizes: Sizes, axis: int) -> list[int]:
    """The length of every chunk."""
    if sizes is None or isinstance(sizes, int):
        size, length = sizes or 1, x.shape[axis]
        return [min(size, length - start) for start in range(0, length, size)]
    return [int(size) for size in sizes]


def _cuts(x: np.ndarray, sizes: Sizes, axis: int) -> Any:
    """What np.split takes: the number of chunks of one size, else where they begin."""
    if isinstance(sizes, np.ndarray):
        return np.cumsum(sizes)[:-1]
    lengths = _lengths(x, sizes, axis)
    same = not isinstance(sizes, Sequence) and lengths[-1] == lengths[0]
    return len(lengths) if same else list(accumulate(lengths))[:-1]


class NumPy(Library):
    """NumPy's own functions."""

    name, module, pip = "numpy", "numpy", "numpy"

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        return lambda: np.concatenate(arrays, axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        return lambda: np.stack(arrays, axis)

    def concat_out(self, arrays: list[np.ndarray], axis: int) -> Work:
        out = _place_for(arrays, axis)
        return lambda: np.concatenate(arrays, axis, out)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cuts = _cuts(x, sizes, axis)
        return lambda: [chunk.copy() for chunk in np.split(x, cuts, axis)]

    def split_views(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cuts = _cuts(x, sizes, axis)
        return lambda: np.split(x, cuts, axis)

    def rejoin(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        return self.concat(np.split(x, _cuts(x, sizes, axis), axis), axis)

    rejoin_view = rejoin

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cuts = _cuts(x, sizes, axis)
        return lambda: np.concatenate([chunk.copy() for chunk in np.split(x, cuts, axis)], axis)

    def append(self, count: int, element: np.ndarray) -> Work:
        def work() -> np.ndarray:
            items = []
            for _ in range(count):
                items.append(element)  # noqa: PERF401
            return np.concatenate(items)

        return work

    def push_and_pop(self, count: int, element: np.ndarray) -> Work:
        items = [element] * count

        def work() -> list[np.ndarray]:
            for _ in range(500):
                items.append(element)
            for _ in range(500):
                items.pop()
            return list(items)

        return work

    def window(self, count: int, element: np.ndarray) -> Work:
        items = [element] * count

        def work() -> list[np.ndarray]:
            for _ in range(1_000):
                items.append(element)
                items.pop(0)
            return list(items)

        return work

    def at(self, arrays: list[np.ndarray]) -> Work:
        return arrays[len(arrays) // 2].copy


def _place_for(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    """An array for the result of a concat.  It holds zeros, so that one who writes nothing does not pass."""
    shape = list(arrays[0].shape)
    shape[axis] = sum(a.shape[axis] for a in arrays)
    return machine.filled(tuple(shape), 0, arrays[0].dtype)


class Torch(Library):
    """torch.cat, torch.stack, torch.split and torch.split_with_sizes_copy."""

    name, module, pip = "torch", "torch", "torch"
    device = "cpu"
    spins = "torch"

    @property
    def torch(self) -> Any:
        return importlib.import_module("torch")

    def array(self, host: np.ndarray) -> Any:
        # On the CPU around the same memory, so that rotating inputs are counted once.
        return self.torch.from_numpy(host).to(self.device)

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        cat, tensors = self.torch.cat, [self.array(a) for a in arrays]
        return lambda: cat(tensors, axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        stack, tensors = self.torch.stack, [self.array(a) for a in arrays]
        return lambda: stack(tensors, axis)

    def concat_out(self, arrays: list[np.ndarray], axis: int) -> Work:
        cat, tensors, out = self.torch.cat, [self.array(a) for a in arrays], self.array(_place_for(arrays, axis))
        return lambda: cat(tensors, axis, out=out)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        split, tensor, lengths = self.torch.split_with_sizes_copy, self.array(x), _lengths(x, sizes, axis)
        return lambda: split(tensor, lengths, axis)

    def split_views(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        split, tensor = self.torch.split, self.array(x)
        given = sizes if isinstance(sizes, int) else _lengths(x, sizes, axis)
        return lambda: split(tensor, given, axis)

    def rejoin(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cat, tensors = self.torch.cat, self.torch.split(self.array(x), _lengths(x, sizes, axis), axis)
        return lambda: cat(tensors, axis)

    rejoin_view = rejoin

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        torch, tensor, lengths = self.torch, self.array(x), _lengths(x, sizes, axis)
        return lambda: torch.cat(torch.split_with_sizes_copy(tensor, lengths, axis), axis)

    def at(self, arrays: list[np.ndarray]) -> Work:
        tensors = [self.array(a) for a in arrays]
        return tensors[len(tensors) // 2].clone


class TorchCUDA(Torch):
    """torch on a CUDA device."""

    name, device = "torch (CUDA)", "cuda"
    spins = ""
    recycles = True

    def missing(self) -> str:
        return super().missing() or ("" if self.torch.cuda.is_available() else "no usable GPU")

    def finish(self, _: Any) -> None:
        self.torch.cuda.synchronize()

    def device_seconds(self, work: Work) -> float:
        cuda = self.torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


class Jax(Library):
    """jax.numpy's functions, not compiled together."""

    name, module, pip = "jax", "jax", "jax"
    compiles = True
    rotates = False
    most_pieces = 1_000

    def array(self, host: np.ndarray) -> Any:
        return importlib.import_module("jax.numpy").asarray(host)

    def finish(self, result: Any) -> None:
        importlib.import_module("jax").block_until_ready(result)

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        jnp, own = importlib.import_module("jax.numpy"), [self.array(a) for a in arrays]
        return lambda: jnp.concatenate(own, axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        jnp, own = importlib.import_module("jax.numpy"), [self.array(a) for a in arrays]
        return lambda: jnp.stack(own, axis)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work | None:
        if len(_lengths(x, sizes, axis)) > 100:
            return None  # it compiles for seconds then
        jnp, own, cuts = importlib.import_module("jax.numpy"), self.array(x), _cuts(x, sizes, axis)
        return lambda: jnp.split(own, cuts if isinstance(cuts, int) else np.asarray(cuts), axis)

    def at(self, arrays: list[np.ndarray]) -> Work:
        jnp, own = importlib.import_module("jax.numpy"), [self.array(a) for a in arrays]
        return lambda: jnp.array(own[len(own) // 2], copy=True)


class Dask(Library):
    """dask.array's functions, computed."""

    name, module, pip = "dask", "dask.array", "'dask[array]'"
    rotates = False
    most_pieces = 100
    note = "dask: the time to build the graph and to compute it."

    def array(self, host: np.ndarray) -> Any:
        return importlib.import_module("dask.array").from_array(host, chunks=-1)

    def finish(self, result: Any) -> None:
        importlib.import_module("dask").compute(result)

    def host(self, result: Any) -> Any:
        # All at once: one by one, each would walk the whole graph.
        result = list(result) if isinstance(result, sa.ArraySequence) else result
        return importlib.import_module("dask").compute(result)[0]

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        da, own = importlib.import_module("dask.array"), [self.array(a) for a in arrays]
        return lambda: da.concatenate(own, axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        da, own = importlib.import_module("dask.array"), [self.array(a) for a in arrays]
        return lambda: da.stack(own, axis)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        own, lengths = self.array(x), _lengths(x, sizes, axis)
        ends = list(accumulate(lengths))
        before = (slice(None),) * axis
        return lambda: [own[(*before, slice(b - n, b))] for b, n in zip(ends, lengths, strict=True)]


class CuPy(Library):
    """cupy.concatenate, cupy.stack, and copies of what cupy.split gives."""

    name, module, pip = "cupy", "cupy", "cupy-cuda13x"
    recycles = True

    @property
    def cupy(self) -> Any:
        return importlib.import_module("cupy")

    def missing(self) -> str:
        return super().missing() or ("" if self.cupy.cuda.is_available() else "no usable GPU")

    def array(self, host: np.ndarray) -> Any:
        return self.cupy.asarray(host)

    def finish(self, _: Any) -> None:
        self.cupy.cuda.get_current_stream().synchronize()

    def device_seconds(self, work: Work) -> float:
        cuda = self.cupy.cuda
        begin, end = cuda.Event(), cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        return float(cuda.get_elapsed_time(begin, end)) / 1e3

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        cupy, own = self.cupy, [self.array(a) for a in arrays]
        return lambda: cupy.concatenate(own, axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        cupy, own = self.cupy, [self.array(a) for a in arrays]
        return lambda: cupy.stack(own, axis)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cupy, own, cuts = self.cupy, self.array(x), _cuts(x, sizes, axis)
        return lambda: [chunk.copy() for chunk in cupy.split(own, cuts, axis)]

    def split_views(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cupy, own, cuts = self.cupy, self.array(x), _cuts(x, sizes, axis)
        return lambda: cupy.split(own, cuts, axis)

    def rejoin(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cupy, chunks = self.cupy, self.cupy.split(self.array(x), _cuts(x, sizes, axis), axis)
        return lambda: cupy.concatenate(chunks, axis)

    rejoin_view = rejoin

    def at(self, arrays: list[np.ndarray]) -> Work:
        own = [self.array(a) for a in arrays]
        return own[len(own) // 2].copy

    def upload(self, arrays: list[np.ndarray]) -> Work:
        cupy = self.cupy
        return lambda: [cupy.asarray(a) for a in arrays]


class CuPySlices(CuPy):
    """What is written where one launch for each piece will do: slices of an empty array."""

    name = "cupy slices"

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        cupy, own = self.cupy, [self.array(a) for a in arrays]
        bounds = list(accumulate([a.shape[axis] for a in arrays], initial=0))
        shape = (*arrays[0].shape[:axis], bounds[-1], *arrays[0].shape[axis + 1 :])
        places = [(slice(None),) * axis + (slice(*pair),) for pair in pairwise(bounds)]
        return lambda: self._filled(cupy.empty(shape, own[0].dtype), places, own)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        cupy, own = self.cupy, [self.array(a) for a in arrays]
        shape = (*arrays[0].shape[:axis], len(arrays), *arrays[0].shape[axis:])
        places = [(*(slice(None),) * axis, index) for index in range(len(arrays))]
        return lambda: self._filled(cupy.empty(shape, own[0].dtype), places, own)

    def _filled(self, out: Any, places: list[Any], arrays: list[Any]) -> Any:
        for place, array in zip(places, arrays, strict=True):
            out[place] = array
        return out

    split = split_views = rejoin = rejoin_view = at = upload = _not_done


class DeviceCopy(CuPy):
    """The device's limit: the same bytes copied within it at once."""

    name = "memcpy, device"
    note = "memcpy, device: a plain copy of the same bytes within the device."

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        del axis
        return self._copy(sum(a.nbytes for a in arrays))

    stack = concat

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        del sizes, axis
        return self._copy(x.nbytes)

    rejoin = split

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        work = self.split(x, sizes, axis)
        return lambda: (work(), work())[0]

    split_views = rejoin_view = at = upload = _not_done

    def host(self, _: Any) -> Any:
        return None

    def _copy(self, nbytes: int) -> Work:
        cuda = self.cupy.cuda
        target, source = cuda.alloc(nbytes), cuda.alloc(nbytes)
        return lambda: target.copy_from_device_async(source, nbytes, cuda.get_current_stream())


class OnnxRuntime(Library):
    """onnxruntime: models of one node, on the CPU."""

    name, module, pip = "onnxruntime", "onnxruntime", "onnxruntime onnx"
    recycles = True
    spins = "onnxruntime"
    note = (
        "onnxruntime, onnx-reference: models of one node (Loop with SequenceInsert for inserts); session time included."
    )

    def missing(self) -> str:
        for module in (self.module, "onnx"):
            try:
                importlib.import_module(module)
            except ImportError:
                return f"not installed (pip install {self.pip})"
        return ""

    @cache  # noqa: B019 - there is one instance
    def session(self, text: str) -> Callable[[dict[str, Any]], list[Any]]:
        """A function that runs a model, given as ONNX text, on named inputs."""
        ort = importlib.import_module("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        options.log_severity_level = 3
        model = importlib.import_module("onnx.parser").parse_model(text)
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda inputs: session.run(None, inputs)

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        return self._join(arrays, axis, 0)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        return self._join(arrays, axis, 1)

    def _join(self, arrays: list[np.ndarray], axis: int, new_axis: int) -> Work:
        run = self.session(
            '<ir_version: 8, opset_import: ["" : 17]> join (seq(float[]) x) => (float[] y)'
            f"{{ y = ConcatFromSequence <axis = {axis}, new_axis = {new_axis}> (x) }}"
        )
        return lambda: run({"x": arrays})[0]

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        declared, inputs = self._sizes(sizes)
        run = self.session(
            f'<ir_version: 8, opset_import: ["" : 17]> cut (float[] x{declared}) => (seq(float[]) y)'
            f"{{ y = SplitToSequence <axis = {axis}> (x{', sizes' * bool(inputs)}) }}"
        )
        return lambda: run({"x": x, **inputs})[0]

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        declared, inputs = self._sizes(sizes)
        run = self.session(
            f'<ir_version: 8, opset_import: ["" : 17]> trip (float[] x{declared}) => (float[] y)'
            f"{{ s = SplitToSequence <axis = {axis}> (x{', sizes' * bool(inputs)})"
            f" y = ConcatFromSequence <axis = {axis}> (s) }}"
        )
        return lambda: run({"x": x, **inputs})[0]

    def _sizes(self, sizes: Sizes) -> tuple[str, dict[str, np.ndarray]]:
        """How a model declares the sizes, and what it is given."""
        if sizes is None:
            return "", {}
        given = np.asarray(sizes, dtype=np.int64)
        return f", int64{'[n]' * given.ndim} sizes", {"sizes": given}

    def append(self, count: int, element: np.ndarray) -> Work:
        run = self.session(models.LOOP)
        return lambda: run({"count": np.asarray(count), "element": element})[0]

    def at(self, arrays: list[np.ndarray]) -> Work:
        run = self.session(
            '<ir_version: 8, opset_import: ["" : 17]> at (seq(float[]) x, int64 i) => (float[] y)'
            "{ y = SequenceAt (x, i) }"
        )
        position = np.asarray(len(arrays) // 2)
        return lambda: run({"x": arrays, "i": position})[0]

    def model(self, answer: np.ndarray, text: str, inputs: dict[str, np.ndarray]) -> Work:
        del answer
        run = self.session(text)
        return lambda: run(inputs)[0]


class OnnxReference(OnnxRuntime):
    """onnx's ReferenceEvaluator."""

    name, module, pip = "onnx-reference", "onnx.reference", "onnx"
    recycles = False
    spins = ""
    note = ""

    def missing(self) -> str:
        return Library.missing(self)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        views = super().split(x, sizes, axis)
        return lambda: [chunk.copy() for chunk in views()]

    @cache  # noqa: B019
    def session(self, text: str) -> Callable[[dict[str, Any]], list[Any]]:
        model = importlib.import_module("onnx.parser").parse_model(text)
        evaluator = importlib.import_module("onnx.reference").ReferenceEvaluator(model)
        return lambda inputs: evaluator.run(None, inputs)


class SeqArray(Library):
    """seqarray on the arrays of a backend."""

    name, module, pip = "seqarray", "seqarray", "seqarray"

    def __init__(self, backend: Library) -> None:
        self.backend = backend
        self.recycles = backend.recycles
        self.spins = backend.spins
        self.compiles = backend.compiles

    def recycles_at(self, nbytes: int) -> bool:
        return self.recycles or (self.backend.name == "numpy" and nbytes >= settings.pool_from)

    def array(self, host: np.ndarray) -> Any:
        return self.backend.array(host)

    @property
    def asynchronous(self) -> bool:
        return self.backend.asynchronous

    def finish(self, result: Any) -> None:
        # jax and dask look into lists only, and what they have not computed has not been done.
        wanted = isinstance(result, sa.ArraySequence) and isinstance(self.backend, (Jax, Dask))
        self.backend.finish(list(result) if wanted else result)

    def device_seconds(self, work: Work) -> float | None:
        return self.backend.device_seconds(work)

    def sequence(self, arrays: list[np.ndarray]) -> Any:
        """What the operators get: here a sequence that lives on."""
        return sa.ArraySequence([self.array(a) for a in arrays])

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        sequence = self.sequence(arrays)
        return lambda: sa.concat_from_sequence(sequence, axis=axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        sequence = self.sequence(arrays)
        return lambda: sa.concat_from_sequence(sequence, axis=axis, new_axis=1)

    def concat_out(self, arrays: list[np.ndarray], axis: int) -> Work:
        sequence, out = self.sequence(arrays), self.array(_place_for(arrays, axis))
        return lambda: sa.concat_from_sequence(sequence, axis=axis, out=out)

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
            sequence = sa.sequence_empty("float32")
            for _ in range(count):
                sequence = sa.sequence_insert(sequence, own)
            return sa.concat_from_sequence(sequence, axis=0)

        return work

    def push_and_pop(self, count: int, element: np.ndarray) -> Work:
        own = self.array(element)
        start = self.sequence([element] * count)

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
        start = self.sequence([element] * count)

        def work() -> Any:
            sequence = start
            for _ in range(1_000):
                sequence = sa.sequence_erase(sa.sequence_insert(sequence, own), 0)
            return sequence

        return work

    def at(self, arrays: list[np.ndarray]) -> Work:
        sequence, position = self.sequence(arrays), len(arrays) // 2
        return lambda: sa.sequence_at(sequence, position)

    def upload(self, arrays: list[np.ndarray]) -> Work:
        return lambda: sa.ArraySequence(arrays).to(xp=self.backend.name)

    def model(self, answer: np.ndarray, text: str, inputs: dict[str, np.ndarray]) -> Work:
        del answer
        parsed = importlib.import_module("onnx.parser").parse_model(text)
        program = importlib.import_module("seqarray.onnx").prepare(parsed, xp=self.backend.name)
        return lambda: program.run(inputs)[0]


class SeqArrayList(SeqArray):
    """seqarray, given a list of arrays each time."""

    name = "seqarray, list"

    def sequence(self, arrays: list[np.ndarray]) -> Any:
        return [self.array(a) for a in arrays]

    split = split_views = rejoin = rejoin_view = round_trip = append = push_and_pop = window = at = upload = model = (
        _not_done
    )


class SeqArrayTaken(SeqArray):
    """seqarray's split with every chunk then asked for."""

    name = "seqarray, all taken"

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        work = super().split(x, sizes, axis)
        return lambda: list(work())

    def split_views(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        work = super().split_views(x, sizes, axis)
        return lambda: list(work())

    concat = concat_out = stack = rejoin = rejoin_view = _not_done
    round_trip = append = push_and_pop = window = at = upload = model = _not_done


class Memcpy(Library):
    """The machine's limit: the same bytes copied in pieces of the same sizes, and nothing else.

    Pieces below 64 KiB are joined to that size, since the calls would be measured and not the copies.
    """

    module, pip = "numpy", "numpy"
    note = "memcpy: a plain copy of the same bytes, cut into the same pieces (of at least 64 KiB)."

    def __init__(self, threads: int, *, fresh: bool, sources: dict[int, np.ndarray] | None = None) -> None:
        """Limits that are given one dictionary of `sources` share what they copy from, as libraries share inputs."""
        self.threads, self.fresh = threads, fresh
        self.sources = {} if sources is None else sources
        memory = "fresh" if fresh else "reused"
        self.name = f"memcpy, {threads} thread{'s' if threads > 1 else ''}, {memory} memory"
        self.recycles = not fresh
        # Each thread on a processor of its own: left alone, a woken one often waits behind the one that woke it.
        self.processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.target = np.zeros(0, dtype=np.uint8)

    @cached_property
    def pool(self) -> ThreadPoolExecutor | None:
        """The threads, made when they are first needed."""
        if self.threads == 1:
            return None
        pool = ThreadPoolExecutor(self.threads)
        if self.processors:
            together = threading.Barrier(self.threads)
            list(pool.map(self._pin, range(self.threads), [together] * self.threads))
        return pool

    def _pin(self, index: int, together: threading.Barrier) -> None:
        together.wait()  # so that each thread gets one of these jobs
        os.sched_setaffinity(0, {self.processors[index % len(self.processors)]})

    def concat(self, arrays: list[np.ndarray], _: int) -> Work | None:
        return self._copy(arrays, [a.nbytes for a in arrays])

    stack = concat

    def concat_out(self, arrays: list[np.ndarray], axis: int) -> Work | None:
        return None if self.fresh else self.concat(arrays, axis)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work | None:
        return self._copy(x, [x.nbytes * length // x.shape[axis] for length in _lengths(x, sizes, axis)])

    rejoin = split

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work | None:
        work = self.split(x, sizes, axis)
        return None if work is None else lambda: (work(), work())[0]

    def host(self, _: Any) -> Any:
        return None

    def _copy(self, given: object, nbytes: list[int]) -> Work | None:
        total = sum(nbytes)
        if total < 1 << 20:
            return None
        bounds = [0]
        for end in accumulate(nbytes):
            if end - bounds[-1] >= 1 << 16 or end == total:
                bounds.append(end)
        if id(given) not in self.sources:
            self.sources[id(given)] = machine.filled((total,), 1, np.uint8)
        source = self.sources[id(given)]
        if not self.fresh and self.target.size != total:
            self.target = machine.filled((total,), 0, np.uint8)  # one for all input sets
        reused = None if self.fresh else self.target
        halves = [bounds]
        if self.threads > 1:
            share = -(-(len(bounds) - 1) // self.threads)
            halves = [bounds[i : i + share + 1] for i in range(0, len(bounds) - 1, share)]
            if len(bounds) - 1 < self.threads * 2:
                step = total // self.threads
                halves = [[i * step, (i + 1) * step if i + 1 < self.threads else total] for i in range(self.threads)]

        def copy(target: np.ndarray, cuts: list[int]) -> None:
            for start, stop in pairwise(cuts):
                np.copyto(target[start:stop], source[start:stop])

        def work() -> np.ndarray:
            target = np.empty(total, dtype=np.uint8) if reused is None else reused
            if self.pool is None:
                copy(target, bounds)
            else:
                list(self.pool.map(copy, [target] * len(halves), halves))
            return target

        return work


#: Backends: array libraries on whose arrays seqarray is timed.
BACKENDS: dict[str, Library] = {"numpy": NumPy(), "cupy": CuPy(), "torch": Torch(), "jax": Jax(), "dask": Dask()}

#: What is timed beside seqarray on each backend, by the name under which it is chosen.
PEERS: dict[str, dict[str, Library]] = {
    "numpy": {
        "numpy": BACKENDS["numpy"],
        "torch": BACKENDS["torch"],
        "onnxruntime": OnnxRuntime(),
        "onnx-reference": OnnxReference(),
    },
    "cupy": {"cupy": BACKENDS["cupy"], "cupy slices": CuPySlices(), "torch": TorchCUDA()},
    "torch": {"torch": BACKENDS["torch"]},
    "jax": {"jax": BACKENDS["jax"]},
    "dask": {"dask": BACKENDS["dask"]},
}
