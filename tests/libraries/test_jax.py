"""Living inside jax: sequences go in and out of its transformations, and the operators are traced."""

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal

jax = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy


def ones(*lengths: int) -> Any:
    return sa.ArraySequence([jnp.ones(length) for length in lengths])


def run_alone(program: str, **environment: str) -> str:
    """What a program prints that runs in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# jit.


def test_sequences_go_into_and_out_of_jit():
    @jax.jit
    def swapped(sequence: Any, x: Any) -> Any:
        assert isinstance(sequence, sa.ArraySequence)
        return sa.sequence_insert(sequence[::-1], x, 1), {"length": sa.sequence_length(sequence)}

    result, rest = swapped(sa.ArraySequence([jnp.zeros(2), jnp.ones(3)]), jnp.full(1, 2.0))
    assert isinstance(result, sa.ArraySequence)
    assert_sequences_equal(result, [jnp.ones(3), jnp.full(1, 2.0), jnp.zeros(2)])
    assert int(rest["length"]) == 2


def test_the_body_is_traced_once_for_equal_shapes():
    traced = []

    @jax.jit
    def joined(sequence: Any) -> Any:
        traced.append(sequence.shapes)
        return sa.concat_from_sequence(sequence, axis=0)

    for value in range(3):
        assert_arrays_equal(joined(sa.ArraySequence([jnp.full(2, value), jnp.full(3, value)])), jnp.full(5, value))
    assert traced == [((2,), (3,))]
    joined(ones(2, 3))
    joined(sa.split_to_sequence(jnp.arange(5.0), [2, 3]))
    assert len(traced) == 2
    joined(ones(2, 3, 1))
    assert traced[2] == ((2,), (3,), (1,))


@pytest.mark.parametrize(
    "function",
    [
        lambda s: sa.concat_from_sequence(s, axis=0),
        lambda s: sa.concat_from_sequence(s, axis=-1, new_axis=1),
        lambda s: sa.concat_from_sequence(s[:1], axis=0, copy=None),
        lambda s: sa.sequence_at(s, -1),
        lambda s: sa.sequence_at(s, np.asarray(1), copy=None),
        lambda s: sa.sequence_insert(s, s[0] + 1, 1),
        lambda s: sa.sequence_erase(s, 0),
        lambda s: sa.sequence_construct(s[1], s[0], copy=True),
        lambda s: sa.split_to_sequence(s[0], [1, 3]),
        lambda s: sa.split_to_sequence(s[0], 3, copy=None),
        lambda s: sa.split_to_sequence(s[0], keepdims=0),
        lambda s: sa.split(s[0], num_outputs=3),
        lambda s: sa.sequence_map(s, s[0], body=lambda x, y: (x + y, x)),
        sa.sequence_length,
        lambda s: sa.ArraySequence(list(s)),
    ],
    ids="concat stack single at at_array insert erase construct split size dropped num_outputs map length new".split(),
)
def test_every_operator_gives_the_same_traced(function):
    sequence = sa.ArraySequence([jnp.arange(4.0), jnp.arange(4.0) * 2])
    plain, traced = function(sequence), jax.jit(function)(sequence)
    assert jax.tree_util.tree_structure(plain) == jax.tree_util.tree_structure(traced)
    for actual, expected in zip(*map(jax.tree_util.tree_leaves, (traced, plain)), strict=True):
        assert_arrays_equal(actual, expected)


def test_errors_come_while_tracing():
    with pytest.raises(ValueError, match=r"^concat_from_sequence: element 1 has shape \(2, 3\)"):
        jax.jit(lambda s: sa.concat_from_sequence(s, axis=1))(sa.ArraySequence([jnp.ones((1, 3)), jnp.ones((2, 3))]))
    with pytest.raises(TypeError, match=r"^sequence_insert: tensor .*int32.*float32"):
        jax.jit(sa.sequence_insert)(ones(2), jnp.arange(2))
    with pytest.raises(TypeError, match=r"^sequence_insert: tensor .*numpy.*jax"):
        jax.jit(lambda s: sa.sequence_insert(s, np.ones(2, np.float32)))(ones(2))
    with pytest.raises(IndexError, match=r"^sequence_at: position is 2"):
        jax.jit(lambda s: sa.sequence_at(s, 2))(ones(1, 2))


@pytest.mark.parametrize(
    "function",
    [
        sa.sequence_at,
        lambda s, i: sa.sequence_at(s, i[None]),
        lambda s, i: sa.sequence_insert(s, s[0], i),
        sa.sequence_erase,
        lambda s, i: sa.split_to_sequence(s[0], i),
        lambda s, i: sa.split_to_sequence(s[0], jnp.stack([i, i])),
        lambda s, i: sa.split(s[0], jnp.stack([i, i])),
        lambda s, i: sa.split(s[0], num_outputs=i),
        lambda s, i: sa.concat_from_sequence(s, axis=i),
    ],
    ids="at at_1 insert erase size sizes split num_outputs axis".split(),
)
def test_traced_positions_and_sizes_are_refused(function):
    with pytest.raises(TypeError, match=r"^\w+: \w+ .*pass a host integer"):
        jax.jit(function)(ones(2, 2), 1)


def test_traced_values_of_the_wrong_type_are_refused_for_their_type():
    with pytest.raises(TypeError, match=r"^sequence_at: position has dtype float32; expected an integer"):
        jax.jit(sa.sequence_at)(ones(2), 1.0)
    with pytest.raises(TypeError, match=r"^sequence_at: position has dtype bool; expected an integer"):
        jax.jit(sa.sequence_at)(ones(2), True)


def test_static_positions_are_host_integers():
    at = jax.jit(sa.sequence_at, static_argnums=1)
    assert_arrays_equal(at(ones(1, 2), 1), jnp.ones(2))


def test_properties_of_a_traced_sequence():
    @jax.jit
    def look(sequence: Any) -> Any:
        assert len(sequence) == 2
        assert sequence.shapes == ((2,), (3,))
        assert sequence.sizes() == (2, 3)
        assert (sequence.element_type, sequence.nbytes) == ("float32", 20)
        assert sequence.namespace is jnp
        assert "2 float32 arrays, jax" in repr(sequence)
        assert sequence[1].shape == (3,)
        assert [x.shape for x in sequence] == [(2,), (3,)]
        return sequence

    assert_sequences_equal(look(ones(2, 3)), [jnp.ones(2), jnp.ones(3)])


def test_an_empty_sequence_goes_through_jit():
    empty = sa.sequence_empty("int8", xp="jax", device="cpu")
    result = jax.jit(lambda s: s)(empty)
    assert (len(result), result.element_type, result.namespace) == (0, "int8", jnp)
    grown = jax.jit(sa.sequence_insert)(empty, jnp.zeros(2, jnp.int8))
    assert_sequences_equal(grown, [jnp.zeros(2, jnp.int8)])
    erased = jax.jit(sa.sequence_erase)(ones(2))
    assert (len(erased), erased.element_type) == (0, "float32")


def test_a_sequence_of_numpy_arrays_is_traced_too():
    sa.register_pytrees()
    result = jax.jit(lambda s: sa.concat_from_sequence(s, axis=0))(
        sa.ArraySequence([np.ones(2, "f4"), np.zeros(1, "f4")])
    )
    assert_arrays_equal(result, jnp.asarray([1.0, 1.0, 0.0]))


# Other transformations.


def test_gradients_have_the_form_of_the_sequence():
    def loss(sequence: Any) -> Any:
        return (sa.concat_from_sequence(sequence, axis=0) * jnp.arange(5.0)).sum()

    gradient = jax.grad(loss)(ones(2, 3))
    assert_sequences_equal(gradient, [jnp.asarray([0.0, 1.0]), jnp.asarray([2.0, 3.0, 4.0])])
    value, gradient = jax.jit(jax.value_and_grad(loss))(ones(2, 3))
    assert float(value) == 10
    assert gradient.shapes == ((2,), (3,))


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda x: sa.sequence_at([x, x * 2], 1) ** 2, lambda x: 8 * x),
        (lambda x: sa.split(x, [1, 2], axis=1)[1] ** 2, lambda x: 2 * x.at[:, 0].set(0)),
        (lambda x: sa.split_to_sequence(x, axis=1, keepdims=0)[0] ** 2, lambda x: 2 * x.at[:, 1:].set(0)),
        (lambda x: sa.concat_from_sequence([x, x * x], axis=0), lambda x: 1 + 2 * x),
        (lambda x: sa.concat_from_sequence([x, x * x], axis=2, new_axis=1), lambda x: 1 + 2 * x),
        (
            lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, 2, axis=1)[::-1], axis=1) ** 2,
            lambda x: 2 * x,
        ),
        (lambda x: sa.sequence_insert(sa.sequence_erase([x, x], 0), x**3, 0)[0], lambda x: 3 * x**2),
    ],
    ids="at split dropped concat stack reversed insert".split(),
)
def test_gradients_are_right(function, derivative):
    x = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)
    gradient = jax.jit(jax.grad(lambda x: function(x).sum()))(x)
    np.testing.assert_allclose(gradient, derivative(x), rtol=1e-6)


def test_vmap_over_the_elements():
    sequence = sa.ArraySequence([jnp.arange(6.0).reshape(3, 2), jnp.arange(3.0).reshape(3, 1)])
    joined = jax.vmap(lambda s: sa.concat_from_sequence(s, axis=0))(sequence)
    assert_arrays_equal(joined, jnp.asarray([[0.0, 1.0, 0.0], [2.0, 3.0, 1.0], [4.0, 5.0, 2.0]]))
    chunks = jax.vmap(lambda x: sa.split_to_sequence(x, [1, 2]))(joined)
    assert_sequences_equal(chunks, [joined[:, :1], joined[:, 1:]])
    columns = jax.vmap(lambda x: sa.split_to_sequence(x, keepdims=0), in_axes=1, out_axes=0)(joined)
    assert_sequences_equal(columns, list(joined))


def test_scan_carries_a_sequence():
    def step(window: Any, x: Any) -> Any:
        window = sa.sequence_insert(sa.sequence_erase(window, 0), x)
        return window, sa.concat_from_sequence(window, axis=0)

    window, seen = jax.lax.scan(step, ones(1, 1), jnp.arange(4.0).reshape(4, 1))
    assert_sequences_equal(window, [jnp.asarray([2.0]), jnp.asarray([3.0])])
    assert seen.tolist() == [[1, 0], [0, 1], [1, 2], [2, 3]]
    with pytest.raises(TypeError, match="carry"):
        jax.lax.scan(lambda s, x: (sa.sequence_insert(s, x), x), ones(1), jnp.arange(4.0).reshape(4, 1))


def test_scan_over_the_elements():
    stacked = sa.ArraySequence([jnp.arange(3.0), jnp.arange(6.0).reshape(3, 2)])
    total, seen = jax.lax.scan(lambda c, s: (c + s[0] + s[1].sum(), s), jnp.asarray(0.0), stacked)
    assert float(total) == 18
    assert_sequences_equal(seen, list(stacked))


def test_cond_needs_branches_of_equal_structure():
    for flag, expected in ((True, 0.0), (False, 1.0)):
        result = jax.lax.cond(
            flag, sa.sequence_erase, lambda s: sa.sequence_erase(s, 0), sa.ArraySequence([jnp.zeros(2), jnp.ones(2)])
        )
        assert_sequences_equal(result, [jnp.full(2, expected)])
    with pytest.raises(TypeError, match="structure"):
        jax.lax.cond(True, lambda s: s, sa.sequence_erase, ones(1, 1))


def test_shapes_can_be_had_without_computing():
    shapes = jax.eval_shape(lambda s: sa.sequence_insert(s, s[0], 0), ones(2, 3))
    assert [leaf.shape for leaf in shapes] == [(2,), (2,), (3,)]


# Pytrees.


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.size, [2, 3]),
        (lambda x: str(x.dtype), ["float32", "float32"]),
        (lambda x: (x.size, None), [(2, None), (3, None)]),
        (lambda x: None, [None, None]),
        (lambda x: object, [object, object]),
    ],
    ids="int str tuple None class".split(),
)
def test_tree_map_accepts_any_result(function, expected):
    result = jax.tree_util.tree_map(function, ones(2, 3))
    assert isinstance(result, sa.ArraySequence)
    assert len(result) == 2
    assert list(result) == list(result[:]) == [result[0], result[-1]] == expected
    assert "2 " in repr(result)


def test_tree_map_may_give_other_arrays():
    tree_map, sequence = jax.tree_util.tree_map, ones(2, 3)
    assert_sequences_equal(tree_map(lambda x: x * 2, sequence), [jnp.full(2, 2.0), jnp.full(3, 2.0)])
    assert tree_map(lambda x: x.astype(jnp.int8), sequence).element_type == "int8"
    assert_sequences_equal(tree_map(np.asarray, sequence), [np.ones(2, np.float32), np.ones(3, np.float32)])
    mixed = tree_map(lambda x: np.asarray(x) if x.size == 2 else x, sequence)
    assert [type(x).__module__.partition(".")[0] for x in mixed] == ["numpy", "jaxlib"]
    sizes = tree_map(lambda x: x.size, sequence)
    assert list(tree_map(lambda x, size: x.size + size, sequence, sizes)) == [4, 6]


def test_what_is_no_array_can_be_copied_and_is_refused_by_name():
    sizes = jax.tree_util.tree_map(lambda x: x.size, ones(2, 3))
    for duplicate in (copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))):
        assert list(duplicate(sizes)) == [2, 3]
    for name, call in {
        "concat_from_sequence": lambda: sa.concat_from_sequence(sizes, axis=0),
        "sequence_insert": lambda: sa.sequence_insert(sizes, jnp.ones(1)),
        "sequence_at": lambda: sa.sequence_at(sizes, 0),
    }.items():
        with pytest.raises(TypeError, match=rf"^{name}: "):
            call()


def test_equal_structure_whatever_the_elements_are():
    structure = jax.tree_util.tree_structure
    assert structure(ones(2, 3)) == structure(ones(1, 5))
    assert structure(ones(2, 3)) == structure(sa.ArraySequence([jnp.zeros(2, jnp.int8)] * 2))
    assert structure(ones(2)) == structure(sa.split_to_sequence(jnp.ones(2), 2))
    assert structure(ones(2)) == structure(jax.tree_util.tree_map(lambda x: 1, ones(2)))
    assert structure(ones(2)) != structure(ones(2, 2))
    assert structure(ones(2)) != structure([jnp.ones(2)])
    assert structure(sa.sequence_empty("int8")) != structure(sa.sequence_empty("float32"))
    assert hash(structure(ones(2))) == hash(structure(ones(3)))
    assert hash(structure(sa.sequence_empty("int8", xp="jax", device="cpu"))) is not None


def test_paths_name_the_elements_by_their_index():
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path({"a": ones(1, 2)})]
    assert paths == ["['a'][0]", "['a'][1]"]


def test_leaves_are_the_elements_themselves():
    sequence = ones(2, 3)
    assert all(leaf is x for leaf, x in zip(jax.tree_util.tree_leaves(sequence), sequence, strict=True))


def test_an_empty_sequence_survives_a_tree_map():
    for empty in (sa.sequence_empty("int8"), sa.sequence_erase(ones(1)), sa.sequence_empty("float16", xp="jax")):
        again = jax.tree_util.tree_map(lambda x: x, empty)
        assert (len(again), again.element_type) == (0, empty.element_type)
        assert again.namespace is empty.namespace
        assert again.device == empty.device


def test_registered_by_hand_before_the_first_jax_array():
    program = (
        "import seqarray as sa, numpy as np, jax; sa.register_pytrees(); sa.register_pytrees(); "
        "f = jax.jit(lambda s: sa.concat_from_sequence(s, axis=0)); "
        "print(f(sa.ArraySequence([np.ones(2, 'f4'), np.zeros(1, 'f4')])).tolist())"
    )
    assert run_alone(program) == "[1.0, 1.0, 0.0]"


def test_registered_by_itself_with_the_first_jax_array():
    program = (
        "import seqarray as sa, jax; s = sa.ArraySequence([jax.numpy.ones(2)]); "
        "print(jax.jit(lambda s: s)(s), 'torch' in __import__('sys').modules)"
    )
    assert run_alone(program) == "<ArraySequence of 1 float32 array, jax on cpu:0: (2,)> False"


# Arrays and devices.


def test_there_are_no_views():
    x = jnp.arange(4.0)
    for call in (
        lambda: sa.split(x, [2, 2], copy=False),
        lambda: sa.split_to_sequence(x, 2, copy=False),
        lambda: sa.split_to_sequence(x[:1], keepdims=0, copy=False),
        lambda: sa.concat_from_sequence([x], axis=0, new_axis=1, copy=False),
    ):
        with pytest.raises(ValueError, match=r"^\w+: .*copy=True or copy=None"):
            call()
    assert sa.split(x, [4], copy=False)[0] is x
    assert sa.split_to_sequence(x, 9, copy=False)[0] is x
    assert sa.concat_from_sequence([x], axis=0, copy=False) is x
    assert sa.sequence_at([x], 0, copy=False) is x


def test_nothing_is_narrowed_without_x64():
    assert not jax.config.jax_enable_x64
    for element_type in ("int64", "uint64", "float64", "complex128"):
        with pytest.raises(TypeError, match=rf"^sequence_empty: jax.* cannot hold {element_type}.*jax_enable_x64"):
            sa.sequence_empty(element_type, xp="jax")
    assert sa.sequence_length(ones(1)).dtype == jnp.int32


@pytest.mark.parametrize(
    "dtype", "bfloat16 float8_e4m3fn float8_e5m2 int4 uint4 bool int8 uint16 float16 complex64".split()
)
def test_types(dtype):
    x = jnp.asarray(np.asarray([[1, 2], [0, 1]]).astype(getattr(jnp, dtype).dtype))
    sequence = sa.sequence_insert(sa.sequence_empty(dtype, xp="jax"), x)
    assert sequence.element_type == dtype
    joined = sa.concat_from_sequence(sa.split_to_sequence(x, axis=1)[::-1], axis=1)
    assert_arrays_equal(joined, jnp.asarray(np.asarray(x)[:, ::-1]))


def test_sequences_on_another_device_than_the_default():
    program = """
import pickle, copy, jax, jax.numpy as jnp, numpy as np, seqarray as sa
assert len(jax.tree_util.tree_leaves(sa.ArraySequence([np.ones(1)] * 3))) == 3
first, second = jax.devices("cpu")
x = jax.device_put(jnp.arange(4.0), second)
s = sa.split_to_sequence(x, 2)
assert s.device == second
assert sa.concat_from_sequence(s[::-1], axis=0).device == second
assert sa.sequence_length(s).device == second
assert sa.sequence_at(s, 0).device == second
assert sa.sequence_empty(xp="jax", device="cpu:1").device == second
assert sa.sequence_erase(s[:1]).device == second
assert sa.ArraySequence([x], device="cpu:1").device == second
try:
    sa.ArraySequence([x, jnp.ones(1)])
except ValueError as error:
    print(error)
try:
    sa.sequence_insert(sa.sequence_empty(xp="jax", device=first), x)
except ValueError as error:
    print(error)
for again in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s)):
    assert again.shapes == s.shapes
print(copy.deepcopy(s).device == second)
"""
    lines = run_alone(program, XLA_FLAGS="--xla_force_host_platform_device_count=2").splitlines()
    assert lines[0].startswith("ArraySequence: element 1 is on device ")
    assert lines[1].startswith("sequence_insert: tensor is on device ")
    for line in lines[:2]:
        assert "0" in line
        assert "1" in line


def test_arrays_over_several_devices():
    program = """
import copy, pickle, jax, jax.numpy as jnp, numpy as np, seqarray as sa
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
devices = jax.devices("cpu")
mesh = Mesh(np.asarray(devices), ("rows",))
rows, everywhere = NamedSharding(mesh, PartitionSpec("rows")), NamedSharding(mesh, PartitionSpec())
two = NamedSharding(Mesh(np.asarray(devices[:2]), ("rows",)), PartitionSpec("rows"))
x, y = jax.device_put(jnp.arange(8.0), rows), jax.device_put(jnp.arange(4.0), everywhere)
chunks = sa.split_to_sequence(x, 2)
# A sequence takes its own elements, and what lies on the same devices in another way.
s = sa.ArraySequence([x])
for other in (s[0], sa.split_to_sequence(x, 2)[0], sa.concat_from_sequence([x, x], axis=0, new_axis=1), y):
    s = sa.sequence_insert(s, other)
assert sa.sequence_insert(chunks, chunks[1])[4].device.device_set == set(devices)
joined = sa.concat_from_sequence(sa.ArraySequence([y, x]), axis=0)
assert joined.tolist() == [*range(4), *range(8)] and joined.device.device_set == set(devices)
assert sa.concat_from_sequence([x, y], axis=0).tolist() == [*range(8), *range(4)]
for length, sequence in ((5, s), (4, chunks), (0, sa.sequence_erase([x]))):
    counted = sa.sequence_length(sequence)
    assert int(counted) == length and counted.device.device_set == set(devices)
# To the host and back, and to another place.
moved = s.to(xp="numpy")
assert moved[0].tolist() == list(range(8)) and moved.shapes == s.shapes
again = sa.ArraySequence([moved[0]]).to(xp="jax", device=rows)
assert again[0].sharding == rows and again[0].tolist() == list(range(8))
assert sa.ArraySequence([x, y]).to(device=everywhere)[0].sharding == everywhere
assert sa.ArraySequence([y, x]).to(device=rows)[0].sharding == rows
unchanged = sa.ArraySequence([x])
assert unchanged.to(device=rows) is unchanged and unchanged.to() is unchanged
assert sa.ArraySequence([x]).to(device="cpu:1").device == devices[1]
assert sa.ArraySequence([jnp.arange(8.0)]).to(device=rows)[0].sharding == rows
for value in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s)):
    assert value.shapes == s.shapes and value[0].tolist() == list(range(8))
# One device may be written as a sharding over it alone.
one = SingleDeviceSharding(devices[1])
assert sa.ArraySequence([jax.device_put(y, one)], device=one).device == devices[1]
def refusal(call):
    try:
        call()
    except ValueError as error:
        return str(error).split(" is on device ")[0].split(" takes a copy")[0].split(":")[0]
print(refusal(lambda: sa.ArraySequence([x, jnp.ones(1)])))
print(refusal(lambda: sa.concat_from_sequence([x, jax.device_put(jnp.arange(8.0), two)], axis=0)))
print(refusal(lambda: s.to(xp="numpy", copy=False)))
print(refusal(lambda: sa.sequence_insert(sa.sequence_empty(xp="jax", device="cpu:0"), x)))
"""
    lines = run_alone(program, XLA_FLAGS="--xla_force_host_platform_device_count=4").splitlines()
    assert lines == ["ArraySequence", "concat_from_sequence", "ArraySequence.to", "sequence_insert"]
