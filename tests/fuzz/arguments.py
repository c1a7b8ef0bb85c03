"""Arguments that are wrong in any way: every error names the operator, and is of a type that is documented."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import seqarray as sa

#: What an operator may raise; AxisError is a ValueError and an IndexError.
NAMED_ERRORS = (TypeError, ValueError, IndexError, MemoryError, NotImplementedError, ImportError)


class OddShape:
    shape = None
    dtype = "float32"


def odd_values(backend: Any) -> list[Any]:
    """Return what may be given in the place of anything."""
    x, text = backend.array(np.zeros((2, 3), np.float32)), np.asarray("text")
    numbers = [0, 1, -1, 5, 2**63, -(2**63) - 1, 10**50, 1.0, float("nan"), 1j, True, False]
    of_numpy = [np.True_, np.int8(1), np.float64(2), np.str_("q"), np.datetime64("2020"), np.timedelta64(1, "s")]
    arrays = [np.asarray(1), np.asarray([1]), np.asarray([1, 1]), np.asarray(1.5), np.asarray([[1]]), text]
    own = [backend.array(np.asarray(values, np.int32)) for values in (1, [1], [1, 1])]
    lists: list[Any] = [
        (),
        [],
        (1,),
        [1],
        [1.0],
        [True],
        [-1],
        [2**63],
        [10**50, -(10**50)],
        [None],
        [x],
        [x, x[0, ...]],
    ]
    lists += [[x, 1], [[x]], (x[0, 0, ...],), [np.float32(1)], ["float32"], ["nothing"]]
    large = np.broadcast_to(np.int8(1), 2**62)
    odd = [None, "a", "cpu", "cuda:9", "", b"x", {}, set(), object(), int, np.float32, np, slice(1), Ellipsis, range(3)]
    odd += [np.ma.masked_array([1]), OddShape(), iter([]), len, np.zeros((1,) * 64, np.float32), large, [large] * 2]
    return [*numbers, *of_numpy, *arrays, *own, *lists, *odd, x, x[0, 0, ...], sa.ArraySequence([x])]


def calls(backend: Any) -> list[tuple[str, Callable[..., Any], list[Any], dict[str, Any]]]:
    """Return every operator with arguments that are right, and the name that its errors begin with."""
    x = backend.array(np.zeros((2, 3), np.float32))
    s = sa.ArraySequence([x, x])
    declared: dict[str, Any] = {"dtype": "float32", "xp": None, "device": None}
    run: dict[str, Any] = {"opset": 17, "n_outputs": 1, "copy": True, "xp": None, "device": None}
    joining: dict[str, Any] = {"axis": 0, "new_axis": 0, "out": None, "copy": True}
    mapping: dict[str, Any] = {"body": lambda a, b: a, "n_outputs": 1, "dtypes": ["float32"]}
    return [
        ("ArraySequence", sa.ArraySequence, [s], declared),
        ("ArraySequence", s.__getitem__, [0], {}),
        ("ArraySequence.to", s.to, [None], {"xp": None, "copy": None, "non_blocking": False}),
        ("ArraySequence.sizes", s.sizes, [0], {}),
        ("ArraySequence.pin_memory", s[:0].pin_memory, [None], {}),
        ("sequence_construct", sa.sequence_construct, [x, x], {"copy": True}),
        ("sequence_empty", sa.sequence_empty, ["float32"], {"xp": None, "device": None}),
        ("sequence_at", sa.sequence_at, [s, 0], {"copy": True}),
        ("sequence_insert", sa.sequence_insert, [s, x, 0], {}),
        ("sequence_erase", sa.sequence_erase, [s, 0], {}),
        ("sequence_length", sa.sequence_length, [s], {}),
        ("concat_from_sequence", sa.concat_from_sequence, [s], joining),
        ("split_to_sequence", sa.split_to_sequence, [x, [1, 1]], {"axis": 0, "keepdims": 1, "copy": True}),
        ("split", sa.split, [x, [1, 1]], {"axis": 0, "copy": True}),
        ("split", sa.split, [x], {"num_outputs": 2, "copy": None}),
        ("sequence_map", sa.sequence_map, [s, x], mapping),
        ("pack", sa.pack, [s], {"axis": 0, "copy": None}),
        ("unpack", sa.unpack, [x, [0, 1, 2]], {"axis": 0, "copy": None}),
        ("pad_sequence", sa.pad_sequence, [s], {"axis": 0, "fill_value": 0, "length": 2, "side": "right"}),
        ("unpad_sequence", sa.unpad_sequence, [x, [1, 1]], {"axis": 0, "side": "right"}),
        ("concat_each", sa.concat_each, [s, s], {"axis": 0}),
        ("sequence_mask", sa.sequence_mask, [[1, 2]], {"length": 2, "xp": None, "device": None}),
        ("ArraySequence.astype", s.astype, ["int32"], {"copy": True}),
        ("ArraySequence.lengths", s.lengths, [0], {}),
        ("ArraySequence.offsets", s.offsets, [0], {}),
        ("ArraySequence.segment_ids", s.segment_ids, [0], {}),
        ("opset.run", sa.opset.run, ["Split", [x]], run),
        ("SplitToSequence", _run, [[x], 0], run),
    ]


def _run(inputs: Any, axis: Any, **rest: Any) -> Any:
    return sa.opset.run("SplitToSequence", inputs, {"axis": axis}, **rest)


def arguments(backend: Any, seed: int, cases: int) -> None:
    """Replace some arguments of operators, and check that what is raised names the operator."""
    chance, odd, operators = random.Random(seed), odd_values(backend), calls(backend)
    for case in range(cases):
        name, function, positional, keywords = chance.choice(operators)
        likely = chance.choice([0.2, 0.5])
        given = [chance.choice(odd) if chance.random() < likely else value for value in positional]
        named = {key: chance.choice(odd) if chance.random() < likely else value for key, value in keywords.items()}
        if callable(named.get("body")) and named["body"] is not keywords["body"]:
            named["body"] = keywords["body"]  # what a body raises is its own
        try:
            function(*given, **named)
        except Exception as error:
            if isinstance(error, NAMED_ERRORS) and (str(error).startswith(name) or name in _OPSET_CALLS):
                if ":" in str(error):
                    continue
            error.add_note(f"in case {case}: {name} of {given!r:.200}, {named!r:.300}")
            raise AssertionError(f"{type(error).__name__} of {name} says only: {error}") from error


#: Calls whose errors name the Python function, or the operator of ONNX, that was run.
_OPSET_CALLS = ("opset.run", "SplitToSequence")
