"""What an array library can do here, in 63 checks of every operator: ``python -m tests.battery MODULE``.

MODULE is an array namespace that makes its arrays with `asarray`, such as ``mlx.core`` or ``ndonnx``.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import seqarray as sa

Check = Callable[[], Any]
#: The checks whose results are NumPy arrays.
_OF_NUMPY = ("to NumPy", "testing.to_numpy")
#: What libraries call a conversion to NumPy that is no implicit one.
_CONVERSIONS = ("unwrap_numpy", "asnumpy")


def failures(xp: Any, make: Callable[[np.ndarray], Any] | None = None) -> tuple[dict[str, str], int]:
    """Return what fails on the arrays that `make` makes (default: `asarray`), by name, and the number of checks."""
    checks = list(_checks(xp, make or xp.asarray))
    failed = {}
    for name, check, expected in checks:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _compare(check(), expected, None if name in _OF_NUMPY else xp)
        except Exception as error:  # each library has errors of its own
            failed[name] = f"{type(error).__name__}: {error}".partition("\n")[0]
    return failed, len(checks)


def _compare(results: Any, expected: Any, xp: Any) -> None:
    """Check values, shapes and, unless there is no namespace, that the results are arrays of the library of `xp`."""
    results = results if isinstance(results, (list, tuple, sa.ArraySequence)) else [results]
    expected = expected if isinstance(expected, list) else [expected]
    assert len(results) == len(expected), f"{len(results)} results instead of {len(expected)}"
    for result, wanted in zip(results, expected, strict=True):
        values = _to_numpy(result)
        assert values.shape == wanted.shape, f"shape {values.shape} instead of {wanted.shape}"
        assert np.array_equal(values, wanted), "wrong values"
        library = sa.sequence_empty(xp=xp).namespace
        given = sa.ArraySequence([result]).namespace
        assert given is (library if xp is not None else given), f"a result is an array of {given.__name__}"


def _to_numpy(array: Any) -> np.ndarray:
    for name in _CONVERSIONS:
        if hasattr(array, name):
            return np.asarray(getattr(array, name)())
    return sa.testing.to_numpy(array)


def _checks(xp: Any, make: Callable[[np.ndarray], Any]) -> Iterator[tuple[str, Check, Any]]:
    """Yield checks: a name, a function, and the NumPy arrays with which its results are compared."""
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    parts = [x[:3], x[3:4], x[4:]]
    a, b, c = parts
    equal = [a, a + 1, a + 2]
    rows = [x[i : i + 1] for i in range(6)]
    columns = [x[:, :1], x[:, 1:]]
    sizes = [3, 1, 2]

    def arrays(values: list[np.ndarray]) -> list[Any]:
        return [make(np.ascontiguousarray(value)) for value in values]

    def array(value: Any = x) -> Any:
        return make(np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value))

    def sequence() -> Any:
        return sa.ArraySequence(arrays(parts))

    def views() -> Any:
        return sa.split_to_sequence(array(), sizes, copy=None)

    def described() -> list[Any]:
        s = sequence()
        assert (s.shapes, s.sizes(), s.nbytes) == (((3, 4), (1, 4), (2, 4)), (3, 1, 2), x.nbytes)
        assert s.element_type == "float32"
        assert repr(s).startswith("<ArraySequence of 3 float32 arrays")
        return []

    def out() -> Any:
        target = array(np.zeros_like(x))
        assert sa.concat_from_sequence(arrays(parts), axis=0, out=target) is target
        return target

    def compared() -> list[Any]:
        sa.testing.assert_sequences_equal(sequence(), arrays(parts))
        return []

    empty = sa.sequence_empty
    yield "construct", lambda: sa.sequence_construct(*arrays(parts)), parts
    yield "construct, copy=True", lambda: sa.sequence_construct(*arrays(parts), copy=True), parts
    yield "ArraySequence", sequence, parts
    yield "what a sequence tells", described, []
    yield "at", lambda: sa.sequence_at(arrays(parts), 1), b
    yield "at, copy=None", lambda: sa.sequence_at(arrays(parts), -1, copy=None), c
    yield "at, position an array", lambda: sa.sequence_at(arrays(parts), array(np.int32(1))), b
    yield "insert", lambda: sa.sequence_insert(arrays(parts), array(b), 1), [a, b, b, c]
    yield "insert at the end", lambda: sa.sequence_insert(arrays(parts), array(b)), [a, b, c, b]
    yield "insert into none", lambda: sa.sequence_insert(empty("float32"), array(b)), [b]
    yield "insert into views", lambda: sa.sequence_insert(views(), array(b), 1), [a, b, b, c]
    yield "erase", lambda: sa.sequence_erase(arrays(parts), 1), [a, c]
    yield "length", lambda: sa.sequence_length(arrays(parts)), np.asarray(3)
    yield "empty, xp=", lambda: sa.sequence_insert(empty("float32", xp=xp), array(b)), [b]
    yield "map", lambda: sa.sequence_map(arrays(parts), body=lambda t: t + t), [a + a, b + b, c + c]
    yield "map of two", lambda: sa.sequence_map(sequence(), views(), body=lambda t, u: t * u), [a * a, b * b, c * c]

    def joined(values: list[np.ndarray], **attributes: Any) -> Check:
        return lambda: sa.concat_from_sequence(arrays(values), **attributes)

    yield "concat", joined(parts, axis=0), x
    yield "concat, last axis", joined(equal, axis=-1), np.concatenate(equal, axis=-1)
    yield "concat of one", joined([a], axis=0), a
    yield "concat of one, copy=None", joined([a], axis=0, copy=None), a
    for axis in (0, 1, -1):
        yield f"stack, axis {axis}", joined(equal, axis=axis, new_axis=1), np.stack(equal, axis=axis)
    yield "stack of one", joined([a], axis=2, new_axis=1), a[..., None]
    yield "stack of one, copy=None", joined([a], axis=1, new_axis=1, copy=None), a[:, None]
    yield "out=", out, x

    def chunks(*split: Any, **attributes: Any) -> Check:
        return lambda: sa.split_to_sequence(array(), *split, **attributes)

    yield "chunks", chunks(sizes), parts
    yield "chunks of one size", chunks(4), [x[:4], x[4:]]
    yield "chunks, axis 1", chunks([1, 3], axis=1), columns
    yield "chunks of one size, last axis", chunks(3, axis=-1), [x[:, :3], x[:, 3:]]
    yield "chunks, keepdims=0", chunks(keepdims=0), list(x)
    yield "chunks, keepdims=0, axis 1", chunks(axis=1, keepdims=0), list(x.T)
    yield "chunks of one", chunks(), rows
    yield "chunks, one of them empty", chunks([3, 0, 3]), [x[:3], x[3:3], x[3:]]
    yield "chunks, sizes an array", lambda: sa.split_to_sequence(array(), array(np.asarray(sizes, np.int32))), parts
    yield "chunks, copy=None", views, parts
    yield "chunks, copy=None, axis 1", chunks([1, 3], axis=1, copy=None), columns
    yield "chunks, copy=None, keepdims=0", chunks(keepdims=0, copy=None), list(x)
    yield "chunks, copy=False", chunks(sizes, copy=False), parts
    yield "concat of views", lambda: sa.concat_from_sequence(views(), axis=0), x
    yield "concat of views, copy=None", lambda: sa.concat_from_sequence(views(), axis=0, copy=None), x
    yield "split", lambda: sa.split(array(), sizes), parts
    yield "split, num_outputs", lambda: sa.split(array(), num_outputs=2), [x[:3], x[3:]]
    quarters = [x[:, i : i + 1] for i in range(4)]
    yield "split, num_outputs, axis 1", lambda: sa.split(array(), num_outputs=4, axis=1), quarters

    def run(op_type: str, inputs: list[Any], n_outputs: int = 1, opset: int = 13, **attributes: Any) -> Any:
        results = sa.opset.run(op_type, inputs, attributes, opset=opset, n_outputs=n_outputs)
        return results[0] if n_outputs == 1 else results

    yield "opset.run Split", lambda: run("Split", [array()], 2, axis=1), [x[:, :2], x[:, 2:]]
    yield "opset.run SplitToSequence", lambda: run("SplitToSequence", [array(), np.asarray(sizes)]), parts
    yield "opset.run ConcatFromSequence", lambda: run("ConcatFromSequence", [sequence()], axis=0), x
    padded = np.zeros((3, 3, 4), np.float32)
    for row, part in zip(padded, parts, strict=True):
        row[: len(part)] = part
    mask = np.arange(3) < np.asarray([[3], [1]])
    twice = [np.concatenate([part, part]) for part in parts]
    yield "pack", lambda: sa.pack(sequence())[0], x
    yield "unpack", lambda: sa.unpack(array(), [0, 3, 4, 6]), parts
    yield "unpack, copy=True", lambda: sa.unpack(array(), [0, 3, 4, 6], copy=True), parts
    yield "pad", lambda: sa.pad_sequence(sequence()), padded
    yield "unpad", lambda: sa.unpad_sequence(array(padded), sizes), parts
    yield "mask", lambda: sa.sequence_mask([3, 1], xp=xp), mask
    yield "concat_each", lambda: sa.concat_each(sequence(), sequence()), twice
    yield "choose", lambda: sequence()[[2, 0]], [c, a]
    yield "astype", lambda: sequence().astype("int32"), [part.astype(np.int32) for part in parts]
    yield "to NumPy", lambda: sequence().to(xp="numpy"), parts
    yield "from NumPy", lambda: sa.ArraySequence(parts).to(xp=xp), parts
    yield "pickle", lambda: pickle.loads(pickle.dumps(sequence())), parts
    yield "pickle of views", lambda: pickle.loads(pickle.dumps(views())), parts
    yield "deepcopy", lambda: copy.deepcopy(sequence()), parts
    yield "assert_sequences_equal", compared, []
    yield "testing.to_numpy", lambda: sa.testing.to_numpy(array()), x


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.battery", description=__doc__)
    parser.add_argument("module")
    name = parser.parse_args().module
    failed, count = failures(importlib.import_module(name))
    for check, reason in failed.items():
        print(f"{check}: {reason}")
    print(f"{name}: {count - len(failed)} of {count}")


if __name__ == "__main__":
    main()
