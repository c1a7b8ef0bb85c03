"""Exported programs of torch and jax that take and return sequences, and files of them."""

from __future__ import annotations

import io
import logging
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray._pytrees import _dump, _restore
from seqarray.testing import assert_sequences_equal


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax", reason="jax is not installed")


def modules(torch: Any) -> Any:
    """A module that takes and returns sequences, with a parameter."""

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.full((), 2.0))

        def forward(self, parts: Any, others: Any) -> Any:
            scaled = sa.sequence_map(parts, body=lambda part: part * self.scale)
            return {"scaled": scaled, "joined": sa.concat_from_sequence(scaled, axis=0), "others": others}

    return Scaled()


def batch(torch: Any, *lengths: int) -> Any:
    return sa.ArraySequence([torch.arange(float(3 * length)).reshape(length, 3) for length in lengths])


def test_torch_exports_modules_with_sequences_and_loads_them(torch, monkeypatch):
    # torch logs, in a broken message, that it loads the example inputs, since these hold more than tensors.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    module, parts, others = modules(torch), batch(torch, 2, 3), sa.sequence_empty("int64", xp="torch", device="cpu")
    free = {0: torch.export.Dim.DYNAMIC}
    program = torch.export.export(module, (parts, others), dynamic_shapes=([free, free], []))
    stored = io.BytesIO()
    torch.export.save(program, stored)
    stored.seek(0)
    loaded = torch.export.load(stored).module()
    for lengths in ((2, 3), (5, 4)):
        values = batch(torch, *lengths)
        got, expected = loaded(values, others), module(values, others)
        assert type(got["scaled"]) is sa.ArraySequence
        assert_sequences_equal(got["scaled"], expected["scaled"])
        assert torch.equal(got["joined"], expected["joined"])
        assert (len(got["others"]), got["others"].element_type) == (0, "int64")


def test_torch_maps_leaves_with_their_paths(torch):
    pytree = torch.utils._pytree
    tree = {"a": batch(torch, 2, 1)}
    keys = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    assert keys == ["['a'][0]", "['a'][1]"]
    mapped = pytree.tree_map_with_path(lambda path, x: x + path[-1].idx, tree)["a"]
    assert_sequences_equal(mapped, [tree["a"][0], tree["a"][1] + 1])


CONTEXTS = [
    lambda: sa.ArraySequence([np.ones(1)]),
    lambda: sa.sequence_empty("bfloat16"),
    lambda: sa.sequence_empty("float32", device="cuda:0"),
    lambda: sa.sequence_empty("int64", xp="numpy"),
    lambda: sa.sequence_empty("datetime64[s]", xp="numpy"),
    lambda: sa.sequence_empty(np.dtype("U3"), xp="numpy"),
]


@pytest.mark.parametrize("make", CONTEXTS)
def test_what_torch_stores_of_a_structure_is_the_structure(torch, make):
    sa.register_pytrees()
    pytree = torch.utils._pytree
    structure = pytree.tree_structure({"a": [make(), 1]})
    assert pytree.treespec_loads(pytree.treespec_dumps(structure)) == structure


def test_structures_that_text_does_not_tell_are_refused():
    assert _restore(_dump(("int8", "array_api_compat.numpy", "cpu"))) == ("int8", "array_api_compat.numpy", "cpu")
    for declared in (np.dtype([("a", "f4")]), np.dtypes.StringDType()):
        with pytest.raises(TypeError, match=r"dtype .* cannot be exported"):
            _dump((declared, "array_api_compat.numpy", "cpu"))
    with pytest.raises(TypeError, match="by name"):
        _dump(("int8", None, object()))


def test_jax_exports_functions_of_sequences_and_loads_them(jax):
    from jax import export

    def scaled(parts: Any, others: Any) -> Any:
        return sa.sequence_map(parts, body=lambda part: part * 2), others

    parts = sa.ArraySequence([jax.numpy.arange(3.0), jax.numpy.ones((2, 3))])
    others = sa.sequence_empty("int32", xp="jax")
    stored = export.export(jax.jit(scaled))(parts, others).serialize()
    got, empty = export.deserialize(stored).call(parts, others)
    assert_sequences_equal(got, [element * 2 for element in parts])
    assert (len(empty), empty.element_type) == (0, "int32")
