"""Inside the compiled and differentiated programs of jax and torch: operators that move values, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal


def joined(sequence: Any, axis: int = 1, **options: Any) -> Any:
    return sa.concat_from_sequence(sequence, axis=axis, **options)


#: Functions of an array of shape (2, 3) and of `copy`.  Every value of the result is one of the array.
MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "at": lambda x, c: sa.sequence_at([x[:1, :], x], 1, copy=c),
    "construct": lambda x, c: joined(sa.sequence_construct(x, x[:, 1:], copy=c)),
    "insert": lambda x, c: joined(sa.sequence_insert([x], x[:, 1:], 0), copy=c),
    "insert between chunks": lambda x, c: joined(sa.sequence_insert(sa.split_to_sequence(x, axis=1, copy=c), x, 1)),
    "insert into empty": lambda x, c: sa.sequence_insert(sa.sequence_empty(x.dtype), x)[0],
    "erase a chunk": lambda x, c: joined(sa.sequence_erase(sa.split_to_sequence(x, axis=1, copy=c), 1)),
    "erase": lambda x, c: joined(sa.sequence_erase([x[:1, :], x, x[1:, :]]), axis=0, copy=c),
    "split": lambda x, c: sa.split(x, [1, 2], axis=1, copy=c)[1],
    "num_outputs": lambda x, c: sa.split(x, axis=-1, num_outputs=2, copy=c)[0],
    "split_to_sequence": lambda x, c: sa.split_to_sequence(x, 2, axis=1, copy=c)[-1],
    "drop": lambda x, c: sa.split_to_sequence(x, axis=1, keepdims=0, copy=c)[1],
    "concat": lambda x, c: joined([x, x], copy=c),
    "concat one": lambda x, c: joined([x], copy=c),
    "stack": lambda x, c: joined([x, x], axis=-1, new_axis=1, copy=c),
    "stack one": lambda x, c: joined([x], axis=0, new_axis=1, copy=c),
    "reverse": lambda x, c: joined(sa.split_to_sequence(x, axis=1, copy=c)[::-1], copy=c),
    "rejoin": lambda x, c: joined(sa.split_to_sequence(x, 2, axis=1, copy=c), copy=c),
    "transpose": lambda x, c: joined(sa.split_to_sequence(x, axis=1, keepdims=0, copy=c), axis=0, new_axis=1),
    "map": lambda x, c: joined(sa.sequence_map(sa.split_to_sequence(x), body=lambda row: row[:, 1:]), axis=0, copy=c),
    "opset": lambda x, c: sa.opset.run("Split", [x], {"axis": 1}, opset=13, n_outputs=3, copy=c)[2],
}

moves = pytest.mark.parametrize("name", MOVES)
copies = pytest.mark.parametrize("copy_", [True, None])

VALUES = np.linspace(-1.0, 1.0, 6).reshape(2, 3)


def moved_positions(name: str) -> Any:
    """Where in a (2, 3) array each value comes from that a function gives."""
    return MOVES[name](np.arange(6).reshape(2, 3), True)


def analytic_gradient(name: str) -> tuple[Any, Any]:
    """Weights for the values that a function gives, and the gradient of their weighted sum."""
    positions = moved_positions(name)
    weights = 1.0 + np.arange(positions.size).reshape(positions.shape)
    gradient = np.zeros(6)
    np.add.at(gradient, positions.reshape(-1), weights.reshape(-1))
    return weights, gradient.reshape(2, 3)


# jax.


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax", reason="jax is not installed")


@moves
@copies
def test_jax_gradients_are_the_analytic_ones(jax, name, copy_):
    weights, expected = analytic_gradient(name)

    def loss(x: Any) -> Any:
        return (MOVES[name](x, copy_) * weights).sum()

    x = jax.numpy.asarray(VALUES, dtype="float32")
    for gradient in (jax.grad(loss), jax.jit(jax.grad(loss))):
        assert_arrays_equal(gradient(x), jax.numpy.asarray(expected, dtype="float32"))


@moves
def test_jax_traces_a_function_once_for_equal_shapes(jax, name):
    traced = []

    @jax.jit
    def function(x: Any) -> Any:
        traced.append(x.shape)
        return MOVES[name](x, True)

    for offset in (0, 10):
        expected = moved_positions(name) + np.int32(offset)
        result = function(jax.numpy.arange(6, dtype="int32").reshape(2, 3) + offset)
        assert_arrays_equal(result, jax.numpy.asarray(expected, dtype="int32"))
    assert traced == [(2, 3)]


@moves
@copies
def test_jax_vmap_over_a_leading_axis(jax, name, copy_):
    def function(x: Any) -> Any:
        return MOVES[name](x, copy_)

    batch = jax.numpy.arange(24.0).reshape(4, 2, 3)
    expected = jax.numpy.stack([function(x) for x in batch])
    assert_arrays_equal(jax.vmap(function)(batch), expected)
    assert_arrays_equal(jax.jit(jax.vmap(function))(batch), expected)


def test_jax_scan_carries_chunks_that_are_split_and_joined_in_every_step(jax):
    def step(chunks: Any, x: Any) -> Any:
        """Give the first element one value more, and the last one less."""
        whole = joined(chunks, axis=0)
        moved = sa.split_to_sequence(joined([whole[1:], whole[:1]], axis=0), [1, 3, 2])
        return moved, moved[0] * x

    start = sa.split_to_sequence(jax.numpy.arange(6.0), [1, 3, 2])
    carried, seen = jax.jit(lambda chunks: jax.lax.scan(step, chunks, jax.numpy.ones(8)))(start)
    assert isinstance(carried, sa.ArraySequence)
    assert_sequences_equal(carried, [jax.numpy.asarray(part) for part in ([2.0], [3.0, 4.0, 5.0], [0.0, 1.0])])
    assert seen.tolist() == [[1], [2], [3], [4], [5], [0], [1], [2]]


def test_jax_gradients_through_a_scan_of_sequences(jax):
    def loss(sequence: Any) -> Any:
        def rotate(chunks: Any, weight: Any) -> Any:
            first = chunks[0]
            return sa.sequence_insert(sa.sequence_erase(chunks, 0), first), (first * weight).sum()

        return jax.lax.scan(rotate, sequence, jax.numpy.asarray([1.0, 10.0, 100.0]))[1].sum()

    gradient = jax.grad(loss)(sa.ArraySequence([jax.numpy.ones(2), jax.numpy.zeros(2)]))
    assert_sequences_equal(gradient, [jax.numpy.full(2, 101.0), jax.numpy.full(2, 10.0)])


JAX_TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "jvp": lambda jax, function, x: jax.jvp(function, (x,), (2 * x,))[1],
    "jvp in jit": lambda jax, function, x: jax.jit(lambda x: jax.jvp(function, (x,), (2 * x,))[1])(x),
    "linearize": lambda jax, function, x: jax.linearize(function, x)[1](2 * x),
    "vmap": lambda jax, function, x: [row[0] for row in jax.vmap(function)(2 * x[None])],
    "jit": lambda jax, function, x: jax.jit(function)(2 * x),
    "has_aux": lambda jax, function, x: jax.grad(lambda x: (x.sum(), function(2 * x)), has_aux=True)(x)[1],
}


@pytest.mark.parametrize("transform", JAX_TRANSFORMS)
def test_jax_transforms_take_sequences_apart_that_functions_return(jax, transform):
    x = jax.numpy.arange(6.0)
    for function in (
        lambda x: sa.split_to_sequence(x, [1, 5], copy=None),
        lambda x: sa.unpack(x, [0, 1, 6]),
        lambda x: sa.concat_each([x[:1]] * 2, sa.unpack(x, [1, 1, 6]))[::-1],
        lambda x: sa.unpad_sequence(x.reshape(2, 3), [1, 3]),
    ):
        elements = list(JAX_TRANSFORMS[transform](jax, function, x))
        for element, expected in zip(elements, function(2 * x), strict=True):
            assert_arrays_equal(element, expected)


# torch.


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch._dynamo.reset()
    yield torch
    torch._dynamo.reset()


def compiled(torch: Any, function: Callable[..., Any], backend: Any = "eager") -> Callable[..., Any]:
    """The function, of which no part may be left to the interpreter."""
    compiled_function: Callable[..., Any] = torch.compile(function, fullgraph=True, backend=backend)
    return compiled_function


@moves
def test_torch_gradients_through_compiled_functions(torch, name):
    weights, expected = analytic_gradient(name)

    def copies_and_views(x: Any) -> Any:
        return MOVES[name](x, True), MOVES[name](x, None)

    for function in (copies_and_views, compiled(torch, copies_and_views)):
        x = torch.tensor(VALUES, requires_grad=True)
        assert torch.autograd.gradcheck(function, (x,))
        for number in range(2):
            x.grad = None
            (function(x)[number] * torch.asarray(weights)).sum().backward()
            assert_arrays_equal(x.grad, torch.asarray(expected))


@moves
def test_torch_compiles_a_function_once_for_equal_shapes(torch, name):
    sa.ArraySequence([torch.ones(1)])
    counter = torch._dynamo.testing.CompileCounter()
    function = compiled(torch, lambda x: MOVES[name](x, True), counter)
    for offset in (0, 10):
        result = function(torch.arange(6).reshape(2, 3) + offset)
        assert_arrays_equal(result, torch.asarray(moved_positions(name) + offset))
    assert counter.frame_count == 1


def test_torch_sequences_go_into_and_out_of_compiled_functions(torch):
    @torch.compile(fullgraph=True, backend="eager")
    def changed(sequence: Any, x: Any) -> Any:
        assert sequence.sizes() == (2, 3)
        longer = sa.sequence_insert(sequence[::-1], x, 1)
        return longer, sa.sequence_length(longer), [element + 1 for element in longer]

    sequence, length, more = changed(sa.split_to_sequence(torch.arange(5.0), [2, 3]), torch.full((1,), 7.0))
    assert isinstance(sequence, sa.ArraySequence)
    elements = [torch.asarray([2.0, 3.0, 4.0]), torch.asarray([7.0]), torch.asarray([0.0, 1.0])]
    assert_sequences_equal(sequence, elements)
    assert int(length) == 3
    assert_sequences_equal(sa.ArraySequence(more), [element + 1 for element in elements])


def test_torch_compiles_many_chunks(torch):
    """So many, in so many blocks, that other programs look at their sizes with NumPy and tidy their blocks up."""

    def shuffled(x: Any) -> Any:
        chunks = sa.split_to_sequence(x, [1, 2] * 33, copy=None)
        for position in range(0, 60, 5):
            chunks = sa.sequence_erase(sa.sequence_insert(chunks, chunks[-1 - position], position), position + 3)
        return joined(chunks, axis=0)

    x = torch.arange(99)
    assert_arrays_equal(compiled(torch, shuffled)(x), shuffled(x))


def test_torch_compiles_for_other_lengths_again(torch):
    def rotated(x: Any) -> Any:
        return joined(sa.split_to_sequence(x, 2)[::-1], axis=0)

    function = compiled(torch, rotated)
    for length in (5, 6, 8, 5):
        x = torch.arange(length)
        assert_arrays_equal(function(x), rotated(x))


FORMS_OF_TWO = {
    "copies": lambda x, size: sa.split_to_sequence(x, [size, len(x) - size]),
    "views": lambda x, size: sa.split_to_sequence(x, [size, len(x) - size], copy=None),
}
USES_OF_TWO: dict[str, Callable[[Any], Any]] = {
    "join": lambda rows: joined(rows, axis=0),
    "join of a slice": lambda rows: joined(rows[::-1], axis=0),
    "iteration": lambda rows: sum(row.sum() for row in rows),
    "element": lambda rows: rows[1] * 2,
    "map": lambda rows: joined(sa.sequence_map(rows, body=lambda row: row - row[:1]), axis=0),
    "sizes": lambda rows: rows[0] * rows.sizes()[0],
    "length": sa.sequence_length,
    "choice": lambda rows: joined(rows[[1, 0, 1]], axis=0),
    "erase": lambda rows: sa.sequence_erase(rows, 0)[0] * 2,
    "insert": lambda rows: sa.sequence_insert(rows, rows[0] * 2)[2] * 1,
}


@pytest.mark.parametrize(("form", "dynamic"), [("copies", None), ("views", True)])
def test_torch_compiled_functions_take_chunks_of_any_sizes(torch, form, dynamic):
    """Of what differs between two calls, torch.compile makes symbols, of the bounds of equal chunks too."""

    def used(rows: Any) -> list[Any]:
        return [use(rows) for use in USES_OF_TWO.values()]

    function = torch.compile(used, fullgraph=True, backend="eager", dynamic=dynamic)
    for first, second in ((4, 2), (3, 3), (7, 7)):
        rows = FORMS_OF_TWO[form](torch.arange(2.0 * (first + second)).reshape(-1, 2), first)
        for result, expected in zip(function(rows), used(rows), strict=True):
            assert_arrays_equal(torch.as_tensor(result), torch.as_tensor(expected))


def thirds(x: Any) -> Any:
    return joined(sa.split(x, num_outputs=3)[::-1], axis=0)


def halves(x: Any) -> Any:
    return joined(sa.split_to_sequence(x, x.shape[0] // 2, copy=None)[::-1], axis=0)


def first_two_apart(x: Any) -> Any:
    return joined(sa.split(x, [2, x.shape[0] - 2], copy=None)[::-1], axis=0)


@pytest.mark.parametrize("function", [thirds, halves, first_two_apart])
def test_torch_compiles_once_for_all_lengths(torch, function):
    sa.ArraySequence([torch.ones(1)])
    counter = torch._dynamo.testing.CompileCounter()
    compiled_function = torch.compile(function, fullgraph=True, backend=counter, dynamic=True)
    for length in range(12, 34, 2):
        x = torch.arange(length)
        assert_arrays_equal(compiled_function(x), function(x))
    assert counter.frame_count == 1


def test_torch_compiles_joins_once_for_all_lengths(torch):
    sa.ArraySequence([torch.ones(1)])
    counter = torch._dynamo.testing.CompileCounter()
    function = torch.compile(lambda x, y: joined([x, y], axis=0), fullgraph=True, backend=counter, dynamic=True)
    for first, second in ((4, 5), (7, 3), (6, 6), (3, 8)):
        x, y = torch.arange(first), torch.arange(second)
        assert_arrays_equal(function(x, y), torch.cat([x, y]))
    assert counter.frame_count == 1


def at_a_symbolic_position(x: Any) -> Any:
    length = x.shape[0]
    sequence = sa.sequence_insert([x, x + 1, x + 2], x + 3, length // length)
    return sa.sequence_at(sa.sequence_erase(sequence, length - length), length // length)


@pytest.mark.parametrize("function", [thirds, halves, first_two_apart, at_a_symbolic_position])
def test_torch_traces_symbolic_sizes(torch, function):
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(function, tracing_mode="symbolic")(torch.arange(12))
    for length in (12, 18, 30):
        x = torch.arange(length)
        assert_arrays_equal(traced(x), function(x))


def test_torch_exports_padding_for_the_lengths_that_it_is_given(torch):
    """Its own sizes are symbols, of which the values are asked for."""

    class Program(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            rows = sa.unpad_sequence(x, [1, 2])
            return [*rows, sa.pad_sequence(rows), sa.pack(rows)[0]]

    x = torch.arange(6.0).reshape(2, 3)
    program = torch.export.export(Program(), (x,), dynamic_shapes=({1: torch.export.Dim.AUTO},)).module()
    for result, expected in zip(program(x + 1), Program()(x + 1), strict=True):
        assert_arrays_equal(result, expected)


def test_torch_exports_joins_and_splits_for_other_lengths_than_the_traced_ones(torch):
    class Program(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return joined([x, y], axis=0), first_two_apart(x), joined([x, x], axis=1, new_axis=1)

    dynamic = {0: torch.export.Dim.DYNAMIC}
    x, y = torch.arange(6), torch.arange(6)
    program = torch.export.export(Program(), (x, y), dynamic_shapes=(dynamic, dynamic), strict=False).module()
    for first, second in ((6, 6), (9, 4), (5, 7)):
        x, y = torch.arange(first), torch.arange(second)
        for result, expected in zip(program(x, y), Program()(x, y), strict=True):
            assert_arrays_equal(result, expected)


def test_torch_writes_into_out_in_compiled_functions(torch):
    def written(x: Any, out: Any) -> Any:
        return joined([x, x], axis=0, out=out)

    x, out = torch.arange(3.0), torch.zeros(6)
    result = compiled(torch, written)(x, out)
    assert_arrays_equal(out, torch.asarray([0.0, 1.0, 2.0, 0.0, 1.0, 2.0]))
    assert_arrays_equal(result, out)
    overlapping = torch.arange(6.0)
    compiled(torch, written)(overlapping[1:4], overlapping)
    assert overlapping.tolist() == [1, 2, 3, 1, 2, 3]


def test_torch_empty_sequences_of_torch_in_compiled_functions(torch):
    def appended(x: Any) -> Any:
        sequence = sa.sequence_empty("float32", xp="torch", device="cpu")
        for _ in range(3):
            sequence = sa.sequence_insert(sequence, x)
        return joined(sequence, axis=0)

    assert_arrays_equal(compiled(torch, appended)(torch.ones(2)), torch.ones(6))


def test_torch_gradients_with_respect_to_a_sequence(torch):
    def loss(sequence: Any) -> Any:
        return (joined(sequence, axis=0) ** 2).sum()

    sequence = sa.ArraySequence([torch.arange(2.0), torch.arange(3.0)])
    for gradient in (torch.func.grad(loss), compiled(torch, torch.func.grad(loss))):
        assert_sequences_equal(gradient(sequence), [2 * element for element in sequence])


@pytest.mark.parametrize("imports", ["torch, seqarray as sa", "seqarray as sa, torch"])
def test_torch_compiles_a_program_in_which_no_tensor_has_been_seen_before(torch, imports):
    program = (
        f"import {imports}\n"
        "function = lambda x: sa.concat_from_sequence(sa.split_to_sequence(x, 2)[::-1], axis=0)\n"
        "print(torch.compile(function, fullgraph=True, backend='eager')(torch.arange(4)).tolist())\n"
        "leaves = torch.utils._pytree.tree_leaves(sa.ArraySequence([torch.ones(1), torch.ones(2)]))\n"
        "print([len(leaf) for leaf in leaves])\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["[2, 3, 0, 1]", "[1, 2]"]


def test_gradients_flow_through_padding(torch: Any) -> None:
    values = torch.arange(8.0, dtype=torch.float64).reshape(4, 2).requires_grad_()

    def padded_and_back(x: Any) -> Any:
        padded = sa.pad_sequence(sa.unpack(x, [0, 3, 3, 4]), fill_value=7.0, side="left")
        each = sa.concat_each(sa.unpad_sequence(padded * padded, [3, 0, 1], side="left"), sa.unpack(x, [0, 1, 2, 4]))
        return sa.pack(each)[0]

    assert torch.autograd.gradcheck(padded_and_back, (values,))
    assert torch.autograd.gradgradcheck(padded_and_back, (values,))
    jacobian = torch.func.jacrev(padded_and_back)(values)
    torch.testing.assert_close(torch.func.jacfwd(padded_and_back)(values), jacobian)
    many = torch.stack([values.detach(), -values.detach()])
    expected = torch.stack([padded_and_back(one) for one in many])
    torch.testing.assert_close(torch.vmap(padded_and_back)(many), expected)


def test_padding_is_traced(jax: Any) -> None:
    def loss(x: Any) -> Any:
        padded = sa.pad_sequence(sa.unpack(x, [0, 3, 3, 4]))
        weights = sa.sequence_mask([3, 0, 1], xp="jax")
        return (padded**2 * weights[..., None]).sum()

    x = jax.numpy.arange(8.0).reshape(4, 2)
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(x), 2 * x)
    assert jax.jit(loss)(x) == loss(x) == (x**2).sum()
