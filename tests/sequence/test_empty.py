"""Empty sequences of types that ONNX does not have: they keep what they are on every way."""

import copy
import pickle

import numpy as np
import pytest

import seqarray as sa

DTYPES = ["M8[s]", "m8[ns]", "S3", "V5", "g", "G", [("a", "i4"), ("b", "M8[D]", (2,))], "O", "U3", ">i4"]

WAYS = {
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "map": lambda s: sa.sequence_map(s, body=lambda x: x),
    "slice": lambda s: s[:0],
    "choice": lambda s: s[[]],
    "move": lambda s: s.to("cpu", xp="numpy"),
    "declare": lambda s: sa.ArraySequence(s, dtype=s.dtype),
    "declare in full": lambda s: sa.ArraySequence((), dtype=s.dtype, xp="numpy", device="cpu"),
    "empty": lambda s: sa.sequence_empty(s.dtype, xp=s.namespace),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty_sequences_of_any_dtype(dtype, way):
    array = np.zeros(2, dtype)
    empty = sa.ArraySequence([array])[:0]
    again = WAYS[way](empty)
    assert (len(again), again.element_type, again.namespace) == (0, empty.element_type, empty.namespace)
    if empty.element_type != "string" or way in ("pickle", "deepcopy", "copy", "map", "slice", "choice", "move"):
        assert again.dtype == empty.dtype
    grown = sa.sequence_insert(again, array)
    assert grown[0] is array
    assert grown.element_type == empty.element_type
    with pytest.raises(TypeError, match="element type int8"):
        sa.sequence_insert(again, np.zeros(2, np.int8))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty_sequences_of_any_dtype_without_a_library(dtype):
    empty = sa.sequence_empty(np.dtype(dtype))
    for again in (pickle.loads(pickle.dumps(empty)), copy.deepcopy(empty), sa.sequence_map(empty, body=len)):
        assert (again.element_type, again.namespace) == (empty.element_type, None)
        assert sa.sequence_insert(again, np.zeros(2, dtype)).shapes == ((2,),)


def test_what_another_library_cannot_hold_is_refused():
    dates = sa.ArraySequence([np.zeros(2, "M8[s]")])[:0]
    assert dates.to(xp=sa.ArraySequence((), xp="numpy").namespace) is dates
    for xp in ("torch", "jax"):
        pytest.importorskip(xp, reason=f"{xp} is not installed")
        with pytest.raises(TypeError, match=r"^ArraySequence\.to: .*datetime64\[s\]"):
            dates.to(xp=xp)


@pytest.mark.parametrize("way", ["pickle", "deepcopy", "copy", "map", "slice", "choice"])
def test_empty_sequences_of_random_keys(way):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    keys = jax.random.split(jax.random.key(0), 3)
    empty = sa.ArraySequence([keys])[:0]
    again = WAYS[way](empty)
    assert (again.element_type, again.dtype, again.namespace) == (empty.element_type, keys.dtype, empty.namespace)
    assert sa.sequence_insert(again, keys)[0] is keys
    assert jax.tree_util.tree_map(lambda key: key, empty).dtype == keys.dtype


def test_a_dtype_alone_keeps_library_and_device(backend):
    empty = sa.ArraySequence([backend.array(np.zeros(1, np.float32))])[:0]
    again = sa.ArraySequence(empty, dtype="int32")
    assert (again.element_type, again.namespace) == ("int32", empty.namespace)
    assert again.device == empty.device
