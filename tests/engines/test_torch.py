"""torch: one storage for the copied chunks of a split, one call for a join, and autograd that notices neither."""

import copy
import pickle
import warnings
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray._engines.settings import settings
from seqarray.testing import assert_arrays_equal, assert_sequences_equal
from tests.processes import output_of

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.autograd import forward_ad  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

SPLITS = {
    "rows": lambda x: sa.split_to_sequence(x, 2),
    "uneven rows": lambda x: sa.split_to_sequence(x, [1, 0, 3]),
    "a short last": lambda x: sa.split_to_sequence(x, 3),
    "one": lambda x: sa.split_to_sequence(x, 2**70),
    "rows without their axis": lambda x: sa.split_to_sequence(x, keepdims=0),
    "columns": lambda x: sa.split_to_sequence(x, axis=1),
    "uneven columns": lambda x: sa.split_to_sequence(x, [2, 0, 1], axis=1),
    "columns without their axis": lambda x: sa.split_to_sequence(x, axis=1, keepdims=0),
    "scalars": lambda x: sa.split_to_sequence(x.reshape(-1), keepdims=0),
    "by number": lambda x: sa.split(x, axis=1, num_outputs=2),
}
splits = pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)

VALUES = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)

INPUTS = {
    "plain": VALUES.clone,
    "by columns": lambda: VALUES.T.contiguous().T,
    "every other": lambda: torch.zeros(8, 6, dtype=torch.float64)[::2, ::2].copy_(VALUES),
    "expanded": lambda: torch.arange(3.0).expand(4, 3),
    "gradient": lambda: VALUES.clone().requires_grad_(),
    "conjugate": lambda: torch.complex(VALUES, -VALUES).conj(),
    "negative": lambda: torch.complex(VALUES, -VALUES).conj().imag,
    "parameter": lambda: torch.nn.Parameter(VALUES.clone()),
    "bfloat16": lambda: VALUES.to(torch.bfloat16),
    "float8": lambda: VALUES.to(torch.float8_e4m3fn),
    "bool": lambda: VALUES > 0,
}


def bits(tensor: Any) -> Any:
    """The values, in a form that can be compared."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return tensor.view(torch.uint8).tolist() if tensor.dtype is torch.float8_e4m3fn else tensor.tolist()


class Calls(TorchDispatchMode):
    """The functions of torch that have run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def large(monkeypatch):
    """Everything is large: copied by the NumPy engine where it can be."""
    for name in ("threads_from", "tensors_from", "piece_from", "pool_from"):
        monkeypatch.setattr(settings, name, 1)


# One storage.


@pytest.mark.engine
@splits
@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("size", ["small", "large"])
def test_the_chunks_of_a_split_lie_in_one_storage(request, split, make, size):
    if size == "large":
        request.getfixturevalue("large")
    x = make()
    chunks = list(split(x))
    storages = {chunk.untyped_storage().data_ptr() for chunk in chunks}
    assert len(storages) == 1
    assert x.untyped_storage().data_ptr() not in storages
    places = [(chunk.data_ptr(), chunk.nbytes) for chunk in chunks if chunk.numel()]
    assert [start for start, _ in places[1:]] == [start + nbytes for start, nbytes in places[:-1]]
    for chunk, expected in zip(chunks, split(x.detach().clone()), strict=True):
        assert chunk.is_contiguous()
        assert chunk.requires_grad == x.requires_grad
        assert (bits(chunk), chunk.shape) == (bits(expected), expected.shape)


@splits
@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_the_chunks_have_the_values_of_slices(split, make, request):
    for _ in ("small", "large"):
        x = make()
        views = SLICES[next(name for name in SPLITS if SPLITS[name] is split)](x)
        chunks = split(x)
        assert [(bits(chunk), chunk.dtype) for chunk in chunks] == [(bits(view), view.dtype) for view in views]
        request.getfixturevalue("large")


SLICES = {
    "rows": lambda x: x.split(2),
    "uneven rows": lambda x: x.split([1, 0, 3]),
    "a short last": lambda x: x.split(3),
    "one": lambda x: [x],
    "rows without their axis": lambda x: x.unbind(0),
    "columns": lambda x: x.split(1, 1),
    "uneven columns": lambda x: x.split([2, 0, 1], 1),
    "columns without their axis": lambda x: x.unbind(1),
    "scalars": lambda x: x.reshape(-1).unbind(0),
    "by number": lambda x: x.split(2, 1),
}


@pytest.mark.engine
def test_steps_do_not_grow_with_the_number_of_chunks():
    x = torch.arange(4000.0).reshape(2000, 2)
    views = sa.split_to_sequence(x, 2, copy=None)
    for call, most in (
        (lambda: list(sa.split_to_sequence(x, 2)), 3),
        (lambda: list(sa.split_to_sequence(x, [1, 3] * 500)), 3),
        (lambda: list(sa.split_to_sequence(x, keepdims=0)), 3),
        (lambda: list(sa.split_to_sequence(x.requires_grad_(False), 2, copy=None)), 2),
        (lambda: list(views), 1),
        (lambda: list(views[2:40]), 2),
        (lambda: sa.concat_from_sequence(list(views), axis=0), 2),
        (lambda: sa.concat_from_sequence(sa.split_to_sequence(x, 2), axis=0), 4),
    ):
        with Calls() as calls:
            call()
        assert len(calls.names) <= most, calls.names


@pytest.mark.engine
def test_a_rejoin_of_views_copies_their_base_once():
    x = torch.arange(4000.0).reshape(2000, 2)
    with Calls() as calls:
        joined = sa.concat_from_sequence(sa.split_to_sequence(x, 2, copy=None), axis=0)
    assert calls.names[-1] == "cat"
    assert_arrays_equal(joined, x)


# Autograd.


@splits
def test_gradients_of_all_orders_are_right(split):
    x = VALUES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda y: tuple(split(y)), (x,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lambda y: tuple(split(y)), (x,), check_fwd_over_rev=True)


def weighted(split: Any) -> Any:
    """A function of a tensor, of the value of each item and of where it ends up."""
    return lambda x: sum(((number + 1) * chunk**3).sum() for number, chunk in enumerate(split(x)))


@splits
def test_torch_func_and_forward_mode_are_right(split):
    function, x = weighted(split), VALUES
    leaf = x.clone().requires_grad_()
    function(leaf).backward()
    gradient, tangent = leaf.grad, torch.ones_like(x)
    batch = torch.stack([x, 2 * x])
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(function(forward_ad.make_dual(x, tangent))).tangent
    torch.testing.assert_close(torch.func.grad(function)(x), gradient)
    torch.testing.assert_close(torch.func.jacrev(function)(x), gradient)
    torch.testing.assert_close(torch.func.jvp(function, (x,), (tangent,))[1], gradient.sum())
    torch.testing.assert_close(dual, gradient.sum())
    for strategy in ("reverse-mode", "forward-mode"):  # tangents come in batches, of tensors that do not
        jacobian = torch.autograd.functional.jacobian(function, x, vectorize=True, strategy=strategy)
        torch.testing.assert_close(jacobian, gradient)
    torch.testing.assert_close(torch.vmap(function)(batch), torch.stack([function(x), function(2 * x)]))
    torch.testing.assert_close(torch.vmap(torch.func.grad(function))(batch)[0], gradient)
    torch.testing.assert_close(
        torch.func.hessian(function)(x).sum((0, 1)), torch.func.grad(lambda y: torch.func.grad(function)(y).sum())(x)
    )


def test_functorch_inside_compile():
    torch._dynamo.reset()
    function = torch.vmap(torch.func.grad(weighted(SPLITS["columns"])))
    batch = torch.stack([VALUES, 2 * VALUES])
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(batch), function(batch))
    torch._dynamo.reset()


@splits
@pytest.mark.parametrize("grad", [True, False])
def test_a_write_into_one_chunk_does_not_disturb_another(split, grad):
    chunks = split(VALUES.clone().requires_grad_() * 1 if grad else VALUES.clone())
    if len(chunks) == 1:
        return
    weights = [torch.ones_like(chunk).requires_grad_() for chunk in chunks]
    products = [chunk * weight for chunk, weight in zip(chunks, weights, strict=True)]
    expected = chunks[-1].detach().clone()
    with torch.no_grad():
        chunks[0].add_(1)
    products[-1].sum().backward()
    assert_arrays_equal(weights[-1].grad, expected)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        products[0].sum().backward()


@splits
def test_chunks_made_without_gradients_can_be_written_into_with_them(split):
    x, weight = VALUES.clone().requires_grad_(), torch.full((), 2.0, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        chunks = list(split(x))
        expected = [2 * chunk for chunk in chunks]
    for chunk, values in zip(chunks, expected, strict=True):
        chunk.detach_()
        chunk.mul_(weight)
        assert_arrays_equal(chunk.detach(), values)
    sum(chunk.sum() for chunk in chunks).backward()
    assert x.grad is None
    torch.testing.assert_close(weight.grad, sum(chunk.sum() for chunk in expected) / 2)


def test_a_chunk_is_one_tensor_however_often_it_is_taken():
    """Two tensors around one chunk would have two version counters, and a gradient be wrong in silence."""
    chunks = sa.split_to_sequence(VALUES.clone(), 1)
    versions = [chunks, chunks[::-1][::-1], sa.sequence_erase(chunks), sa.sequence_insert(chunks, chunks[0])]
    versions += [chunks[[0, 1, 1]], chunks[[2, 1, 0]], chunks[[2, 1, 0]][:2]]
    weight = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    for version in (*versions, *copy.deepcopy(versions), *pickle.loads(pickle.dumps(versions))):
        assert version[1] is version[1]
        assert version[1] is list(version)[1]
    product = versions[0][1] * weight
    versions[2][1].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_gradients_of_writes_into_chunks_are_kept():
    chunks = sa.split_to_sequence(VALUES.clone(), 1)
    weight = torch.full((1, 3), 2.0, dtype=torch.float64, requires_grad=True)
    chunks[2].mul_(weight)
    for joined in (
        sa.concat_from_sequence(chunks, axis=0),
        sa.concat_from_sequence(chunks[1:], axis=0, new_axis=1),
        sa.concat_from_sequence(sa.sequence_insert(chunks, chunks[2]), axis=0),
        sa.sequence_at(chunks, 2),
        sa.concat_from_sequence(chunks[2:3], axis=0, copy=None),
    ):
        weight.grad = None
        joined.sum().backward(retain_graph=True)
        assert torch.equal(weight.grad % VALUES[2:3], torch.zeros(1, 3, dtype=torch.float64))
        assert weight.grad.any()
    with pytest.raises(ValueError, match=r"^ArraySequence.to: element 2 requires a gradient"):
        chunks.to(xp="numpy")


def test_inference_mode():
    x = VALUES.clone()
    with torch.inference_mode():
        for split in SPLITS.values():
            assert all(chunk.is_inference() for chunk in split(x) if chunk.numel())
        inside = torch.zeros(4, 3)
    for split in SPLITS.values():
        assert not any(chunk.is_inference() for chunk in split(inside))


# Large work goes through the NumPy engine.


@pytest.mark.engine
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_large_joins_have_the_values_of_small_ones(large, make, axis, new_axis):
    tensors = [make(), make()]
    joined = sa.concat_from_sequence(tensors, axis=axis, new_axis=new_axis)
    expected = (torch.stack if new_axis else torch.cat)([tensor.detach() for tensor in tensors], axis)
    assert (joined.dtype, joined.shape) == (expected.dtype, expected.shape)
    assert bits(joined) == bits(expected)
    assert joined.requires_grad == any(tensor.requires_grad for tensor in tensors)


@pytest.mark.engine
def test_large_results_lie_in_recycled_memory(large):
    sa.host_pool.free_all_blocks()
    before = sa.host_pool.used_bytes()
    joined = sa.concat_from_sequence([VALUES, VALUES], axis=0)
    chunks = sa.split_to_sequence(VALUES, 2)
    assert sa.host_pool.used_bytes() >= before + joined.nbytes
    assert_arrays_equal(joined, torch.cat([VALUES, VALUES]))
    kept = chunks[1]
    del joined, chunks
    assert_arrays_equal(kept, VALUES[2:])
    del kept
    assert sa.host_pool.used_bytes() == before


def test_large_joins_keep_gradients_and_tangents(large):
    leaf = VALUES.clone().requires_grad_()
    sa.concat_from_sequence([VALUES, leaf], axis=0)[4:].sum().backward()
    assert_arrays_equal(leaf.grad, torch.ones_like(VALUES))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(VALUES, torch.ones_like(VALUES))
        for result in (
            sa.concat_from_sequence([VALUES, dual], axis=0)[4:],
            sa.concat_from_sequence(sa.split_to_sequence(dual, axis=1), axis=1),
            sa.concat_from_sequence(sa.split_to_sequence(dual, [1, 2], axis=1)[::-1], axis=1),
            sa.concat_from_sequence(sa.split_to_sequence(dual, 2), axis=0),
        ):
            assert_arrays_equal(forward_ad.unpack_dual(result).tangent, torch.ones_like(VALUES))
    function = weighted(SPLITS["columns"])
    torch.testing.assert_close(
        torch.func.jvp(function, (VALUES,), (VALUES,))[1], (torch.func.grad(function)(VALUES) * VALUES).sum()
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_recorded_programs_are_right_for_other_values(large):
    from torch.fx.experimental.proxy_tensor import make_fx

    def shuffled(x: Any) -> Any:
        parts = [
            *sa.split(x, [1, 2], axis=1),
            *sa.split_to_sequence(x, axis=1)[::-1],
            *sa.split_to_sequence(x, 2, axis=1, copy=None),
        ]
        return sa.concat_from_sequence(parts, axis=1)

    other = -VALUES
    for program in (
        make_fx(shuffled)(VALUES),
        torch.jit.trace(shuffled, (VALUES,)),
        torch.func.functionalize(shuffled),
    ):
        assert_arrays_equal(program(other), shuffled(other))


# What does not fit.


@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("count", [2, 20])
def test_misfits_are_named(count, new_axis):
    tensors = [torch.ones(2, 3) for _ in range(count)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        misfits = [
            (torch.ones(0), ValueError, "ranks"),
            (torch.ones(2, 4), ValueError, "shape"),
            (torch.ones(2, 3, 1), ValueError, "ranks"),
            (torch.ones(2, 3, dtype=torch.float64), TypeError, "element type float64"),
            (torch.ones(2, 3, device="meta"), ValueError, "device meta"),
            (torch.ones(2, 3).to_sparse(), TypeError, "dense"),
            (torch.nested.nested_tensor([torch.ones(3), torch.ones(3)]), TypeError, "dense"),
            (np.ones((2, 3), np.float32), TypeError, "numpy"),
        ]
    for misfit, error, message in misfits:
        for sequence in ([*tensors, misfit], (*tensors, misfit)):
            with pytest.raises(error, match=rf"^concat_from_sequence: element {count} .*{message}"):
                sa.concat_from_sequence(sequence, axis=0, new_axis=new_axis)
        if error is TypeError or message.startswith("device"):
            with pytest.raises(error, match=rf"^ArraySequence: element {count} .*{message}"):
                sa.ArraySequence([*tensors, misfit])
        else:
            with pytest.raises(error, match=rf"^concat_from_sequence: element {count} .*{message}"):
                sa.concat_from_sequence(sa.ArraySequence([*tensors, misfit]), axis=0, new_axis=new_axis)


def test_errors_of_torch_that_are_no_misfits_reach_the_caller():
    def fail(*_: Any) -> Any:
        raise RuntimeError("from a hook")

    class Failing(TorchDispatchMode):
        __torch_dispatch__ = fail

    with Failing(), pytest.raises(RuntimeError, match=r"^concat_from_sequence: from a hook$"):
        sa.concat_from_sequence([VALUES, VALUES], axis=0)


# Pickles.


@pytest.mark.engine
@pytest.mark.parametrize("axis", [0, 1])
def test_versions_of_a_split_are_pickled_around_one_base(axis):
    x = torch.arange(40_000.0).reshape(200, 200)
    split = sa.split_to_sequence(x, axis=axis)
    versions = [split, split[1:], split[::-1], sa.sequence_erase(split, 100), sa.sequence_insert(split, split[0], 7)]
    data = pickle.dumps(versions)
    assert len(data) < 1.2 * x.nbytes
    again = pickle.loads(data)
    for version, other in zip(versions, again, strict=True):
        assert_sequences_equal(other, version)
    assert again[0][5] is again[1][4]
    assert len(pickle.dumps(split[:10])) < 20_000


def test_pickles_hold_what_has_been_done_to_chunks():
    chunks = sa.split_to_sequence(VALUES.clone(), 1)
    chunks[0].zero_()
    chunks[1].requires_grad_()
    for again in (pickle.loads(pickle.dumps(chunks)), copy.deepcopy(chunks)):
        assert [chunk.requires_grad for chunk in again] == [False, True, False, False]
        assert_sequences_equal(sa.ArraySequence([c.detach() for c in again]), [c.detach() for c in chunks])
    chunks[1].requires_grad_(False)
    chunks[2].data = torch.full((1, 3), 7.0, dtype=torch.float64)
    for again in (pickle.loads(pickle.dumps(chunks)), copy.deepcopy(chunks), chunks.to(xp="numpy")):
        assert again[2].tolist() == [[7, 7, 7]]


@pytest.mark.engine
def test_a_split_is_sent_to_another_process_as_one_storage():
    chunks = sa.split_to_sequence(torch.arange(20_000.0), 2)
    assert len(chunks) == 10_000
    assert len(ForkingPickler.dumps(chunks)) < 5_000


@pytest.mark.engine
def test_a_worker_of_a_loader_returns_many_chunks():
    program = """
import torch, seqarray as sa
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return sa.split_to_sequence(torch.arange(20_000.0) + index, 2)
if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Rows(), batch_size=None, num_workers=1, multiprocessing_context="fork")
    for index, chunks in enumerate(loader):
        joined = sa.concat_from_sequence(chunks, axis=0)
        print(len(chunks), torch.equal(joined, torch.arange(20_000.0) + index))
"""
    assert output_of(program).split() == ["10000", "True"] * 2
