"""Living inside torch: gradients, parameters, the meta device, views, pytrees."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, assert_sequences_equal

torch = pytest.importorskip("torch", reason="torch is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes")


def leaf(*shape: int) -> Any:
    """A float64 tensor that requires a gradient, with fixed values."""
    count = int(np.prod(shape))
    return torch.linspace(-1, 1, count, dtype=torch.float64).reshape(shape).requires_grad_()


# Gradients.


@pytest.mark.parametrize("copy_", [True, None])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: sa.sequence_at([x, x], 1, copy=c) ** 2,
        lambda x, c: sa.split(x, [1, 2], axis=1, copy=c)[1] ** 2,
        lambda x, c: sa.split(x, num_outputs=2, copy=c)[0] ** 3,
        lambda x, c: sa.split_to_sequence(x, 2, axis=1, copy=c)[-1] ** 2,
        lambda x, c: sa.split_to_sequence(x, axis=-1, keepdims=0, copy=c)[1] ** 2,
        lambda x, c: sa.concat_from_sequence([x, x * x], axis=1, copy=c),
        lambda x, c: sa.concat_from_sequence([x, x * x], axis=-1, new_axis=1, copy=c),
        lambda x, c: sa.concat_from_sequence([x], axis=0, copy=c) ** 2,
        lambda x, c: sa.concat_from_sequence(sa.split_to_sequence(x, axis=1, copy=c)[::-1], axis=0, copy=c) ** 2,
        lambda x, c: sa.concat_from_sequence(sa.split_to_sequence(x, axis=1, copy=c), axis=1, copy=c) ** 2,
        lambda x, c: sa.sequence_insert(sa.sequence_erase([x, x * 2], 0), x * x, 0)[0],
        lambda x, c: sa.sequence_construct(x, x * 2, copy=c)[1] ** 2,
        lambda x, c: sa.concat_from_sequence(sa.sequence_map([x, x * 2], x, body=torch.mul), axis=0, copy=c),
    ],
    ids="at split num_outputs size dropped concat stack single reversed rejoined insert construct map".split(),
)
def test_gradients_flow(function, copy_):
    assert torch.autograd.gradcheck(lambda x: function(x, copy_), (leaf(2, 3),))
    assert torch.autograd.gradgradcheck(lambda x: function(x, copy_), (leaf(2, 3),))


def test_every_element_gets_its_own_gradient():
    parts = [leaf(2), leaf(3), leaf(1)]
    sequence = sa.sequence_insert(sa.ArraySequence(parts[:2]), parts[2], 1)
    weights = torch.arange(6, dtype=torch.float64)
    (sa.concat_from_sequence(sequence, axis=0) * weights).sum().backward()
    assert [part.grad.tolist() for part in parts] == [[0, 1], [3, 4, 5], [2]]


def test_copies_may_be_changed_in_place_without_spoiling_each_others_gradients():
    x = leaf(4)
    first, second = sa.split(x * 1, [2, 2])
    squares = second**2
    first.add_(1)
    squares.sum().backward()
    assert x.grad.tolist() == [0, 0, *(2 * x.detach()[2:]).tolist()]


def test_operators_on_parameters_give_tensors():
    parameter = torch.nn.Parameter(torch.ones(4, 2))
    sequence = sa.ArraySequence([parameter, torch.ones(1, 2)])
    assert sequence[0] is parameter
    joined = sa.concat_from_sequence(sequence, axis=0)
    assert type(joined) is torch.Tensor
    assert joined.requires_grad
    for chunk in (*sa.split(parameter, [1, 3]), *sa.split_to_sequence(parameter, 2, copy=None), sequence[0] * 1):
        assert type(chunk) is torch.Tensor
        assert chunk.requires_grad
    sa.sequence_at(sequence, 0).sum().backward()
    assert_arrays_equal(parameter.grad, torch.ones(4, 2))


def test_parameters_and_tensors_share_a_sequence_in_any_order():
    tensor, parameter, buffer = torch.ones(2), torch.nn.Parameter(torch.zeros(3)), torch.nn.Buffer(torch.zeros(1))
    sequence = sa.ArraySequence([tensor, parameter])
    sequence = sa.sequence_insert(sa.sequence_insert(sequence, parameter, 0), buffer)
    assert sequence.shapes == ((3,), (2,), (3,), (1,))
    assert (sequence.element_type, sequence.dtype) == ("float32", torch.float32)
    with pytest.raises(TypeError, match=r"^sequence_insert: tensor .*float64.*float32"):
        sa.sequence_insert(sequence, torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)))


@pytest.mark.parametrize("copy_", [True, None])
def test_requires_grad_is_kept_per_tensor(copy_):
    x, y = leaf(2), torch.ones(2, dtype=torch.float64)
    sequence = sa.ArraySequence([x, y])
    assert [element.requires_grad for element in sequence] == [True, False]
    assert not sa.sequence_at(sequence, 1, copy=copy_).requires_grad
    with torch.no_grad():
        assert not sa.concat_from_sequence(sequence, axis=0, copy=copy_).requires_grad
    with torch.inference_mode():
        assert sa.concat_from_sequence(sequence, axis=0, copy=copy_).is_inference()


def test_views_of_a_tensor_that_requires_a_gradient_are_views():
    x = leaf(4)
    chunks = sa.split_to_sequence(x, 2, copy=None)
    assert [chunk.data_ptr() for chunk in chunks] == [x.data_ptr(), x.data_ptr() + 16]
    assert chunks[1].grad_fn is not None
    with torch.no_grad():
        chunks[1].fill_(7)
    assert x.tolist()[2:] == [7, 7]


RESULTS: dict[str, Any] = {
    "join": lambda x: sa.concat_from_sequence([x, x], axis=0),
    "join on axis 1": lambda x: sa.concat_from_sequence([x, x], axis=1),
    "join of one": lambda x: sa.concat_from_sequence([x], axis=0),
    "large join": lambda x: sa.concat_from_sequence([x] * 200_000, axis=0),
    "stack": lambda x: sa.concat_from_sequence([x, x], axis=1, new_axis=1),
    "element": lambda x: sa.sequence_at([x], 0),
    "copy": lambda x: sa.sequence_construct(x, copy=True)[0],
    "packed": lambda x: sa.pack([x, x], axis=1)[0],
    "padded": lambda x: sa.pad_sequence([x, x[:1]]),
    "padded on axis 1": lambda x: sa.pad_sequence([x, x[:, :1]], axis=1),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_made_without_gradients_can_be_written_into_with_them(name, dtype):
    """Autograd would refuse that of a view."""
    x, weight = leaf(2, 3).to(dtype).detach(), torch.full((), 2, dtype=dtype, requires_grad=True)
    with torch.no_grad():
        result = RESULTS[name](x)
        expected = 2 * result
    result.mul_(weight).sum().backward()
    assert_arrays_equal(result.detach(), expected)
    assert weight.grad is not None


CHUNKS: dict[str, Any] = {
    "split_to_sequence": lambda x: sa.split_to_sequence(x, 1, copy=None),
    "without the axis": lambda x: sa.split_to_sequence(x, keepdims=0, copy=None),
    "split": lambda x: sa.split(x, [1, 1], copy=None),
    "unpack": lambda x: sa.unpack(x, [0, 1, 2]),
    "slice": lambda x: sa.unpack(x, [0, 1, 2])[::-1],
}


@pytest.mark.parametrize("name", CHUNKS)
@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_views_made_without_gradients_have_none_later(name, off):
    x = leaf(2, 3)
    with off():
        chunks = CHUNKS[name](x)
    assert not any(chunk.requires_grad for chunk in chunks)
    assert not chunks[0].requires_grad
    assert {chunk.untyped_storage().data_ptr() for chunk in chunks} == {x.untyped_storage().data_ptr()}
    assert not sa.concat_from_sequence(chunks, axis=0).requires_grad
    assert all(chunk.requires_grad for chunk in CHUNKS[name](x))


def test_per_sample_gradients_with_torch_func():
    def loss(x: Any) -> Any:
        chunks = sa.split_to_sequence(x, 1)
        return sa.concat_from_sequence(chunks[::-1], axis=0)[0] ** 2

    x = torch.arange(6.0).reshape(3, 2)
    gradients = torch.func.vmap(torch.func.grad(loss))(x)
    assert gradients.tolist() == [[0, 2], [0, 6], [0, 10]]


# Devices.


def test_sequences_on_the_meta_device_know_their_shapes():
    x = torch.ones(6, 4, device="meta")
    for copy_ in (True, None):
        chunks = sa.split_to_sequence(x, [1, 2, 3], copy=copy_)
        assert chunks.shapes == ((1, 4), (2, 4), (3, 4))
        assert chunks.device == torch.device("meta")
        joined = sa.concat_from_sequence(chunks[::-1], axis=0)
        assert (joined.shape, joined.device.type) == ((6, 4), "meta")
        assert sa.concat_from_sequence(chunks[:1], axis=1, new_axis=1, copy=copy_).shape == (1, 1, 4)
    assert chunks.nbytes == 96
    assert "torch on meta: (1, 4), (2, 4), (3, 4)" in repr(chunks)
    assert [chunk.shape for chunk in sa.split(x, axis=1, num_outputs=2)] == [(6, 2), (6, 2)]
    longer = sa.sequence_insert(sa.sequence_erase(chunks), x, 1)
    assert longer.shapes == ((1, 4), (6, 4), (2, 4))
    assert sa.sequence_at(longer, 1).device.type == "meta"
    assert sa.sequence_map(longer, body=lambda y: y.sum(0)).shapes == ((4,),) * 3
    assert sa.sequence_length(longer).device.type == "meta"
    with pytest.raises(ValueError, match=r"element 1 has shape \(6, 4\)"):
        sa.concat_from_sequence(longer, axis=1)


@pytest.mark.parametrize("make", [lambda dtype: torch.zeros((), dtype=dtype, device="meta")])
def test_values_on_the_meta_device_cannot_be_read(make):
    position = make(torch.int64)
    for call in (
        lambda: sa.sequence_at([torch.ones(1)], position),
        lambda: sa.sequence_erase([torch.ones(1)], position),
        lambda: sa.sequence_insert([torch.ones(1)], torch.ones(1), position),
        lambda: sa.split_to_sequence(torch.ones(2), position),
        lambda: sa.split(torch.ones(2), torch.zeros(1, dtype=torch.int64, device="meta")),
    ):
        with pytest.raises(TypeError, match=r"(position|split) .*host integer"):
            call()


def test_the_device_of_an_element_is_told_in_full():
    with pytest.raises(ValueError, match=r"^ArraySequence: element 1 is on device cpu; .*meta"):
        sa.ArraySequence([torch.ones(1, device="meta"), torch.ones(1)])


# Layouts.


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
def test_sparse_tensors_are_refused_everywhere(layout):
    blocks = {"blocksize": (1, 1)} if layout == "sparse_bsr" else {}
    sparse = torch.eye(2).to_sparse(layout=getattr(torch, layout), **blocks)
    dense = torch.eye(2)
    for call in (
        lambda: sa.ArraySequence([dense, sparse]),
        lambda: sa.ArraySequence([sparse]),
        lambda: sa.sequence_construct(sparse, copy=True),
        lambda: sa.sequence_insert([dense], sparse),
        lambda: sa.sequence_insert(sa.ArraySequence([dense]), sparse, 0),
        lambda: sa.concat_from_sequence([sparse, sparse], axis=0),
        lambda: sa.split(sparse, [1, 1]),
        lambda: sa.split_to_sequence(sparse, 1),
        lambda: sa.sequence_map([dense], sparse, body=lambda x, y: x),
        lambda: sa.sequence_map([dense], body=lambda x: sparse),
    ):
        with pytest.raises(TypeError, match=rf"^\w+: .*{layout}.*dense"):
            call()


def test_nested_tensors_are_refused():
    with warnings.catch_warnings():  # which torch gives once in a process
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    for tensor in (nested, jagged):
        for call in (
            lambda tensor=tensor: sa.ArraySequence([tensor]),
            lambda tensor=tensor: sa.sequence_insert([torch.ones(1)], tensor),
            lambda tensor=tensor: sa.split(tensor, num_outputs=1),
        ):
            with pytest.raises(TypeError, match=r"^\w+: .*dense"):
                call()


@pytest.mark.parametrize("copy_", [True, None])
def test_conjugate_and_negative_views_keep_their_values(copy_):
    x = torch.complex(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    conjugate, negative = x.conj(), x.conj().imag
    assert (conjugate.is_conj(), negative.is_neg()) == (True, True)
    expected = np.asarray([1 - 3j, 2 - 4j], np.complex64)
    joined = sa.concat_from_sequence([conjugate, x, conjugate], axis=0, copy=copy_)
    assert sa.testing.to_numpy(joined).tolist() == [1 - 3j, 2 - 4j, 1 + 3j, 2 + 4j, 1 - 3j, 2 - 4j]
    np.testing.assert_array_equal(sa.testing.to_numpy(sa.sequence_at([conjugate], 0, copy=copy_)), expected)
    chunks = sa.split_to_sequence(conjugate, 1, copy=copy_)
    assert [complex(chunk) for chunk in chunks] == [1 - 3j, 2 - 4j]
    assert [float(chunk) for chunk in sa.split(negative, [1, 1], copy=copy_)] == [-3, -4]
    joined = sa.concat_from_sequence([negative, negative], axis=0, new_axis=1, copy=copy_)
    assert sa.testing.to_numpy(joined).tolist() == [[-3, -4], [-3, -4]]
    assert [complex(value) for value in pickle.loads(pickle.dumps(chunks))] == [1 - 3j, 2 - 4j]


def test_expanded_and_permuted_tensors():
    expanded = torch.arange(3.0).expand(4, 3)
    assert_arrays_equal(sa.concat_from_sequence([expanded, expanded], axis=0), torch.arange(3.0).repeat(8, 1))
    chunk = sa.split(expanded, [2, 2])[0]
    chunk[0] = 9
    assert chunk[1].tolist() == [0, 1, 2]
    images = torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)
    expected = torch.arange(24.0).reshape(1, 2, 3, 4)
    assert_arrays_equal(sa.concat_from_sequence([images, images], axis=1), torch.cat([expected, expected], 1))
    assert_sequences_equal(sa.split_to_sequence(images, axis=1, keepdims=0), [expected[:, 0], expected[:, 1]])


@pytest.mark.parametrize(
    "dtype", ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e8m0fnu", "bfloat16", "float16"]
)
def test_types_beyond_the_standard(dtype):
    dtype_ = getattr(torch, dtype)
    x = torch.tensor([[1, 2], [4, 2], [1, 1]]).to(dtype_)
    sequence = sa.sequence_empty(dtype, xp="torch", device="cpu")
    assert sequence.dtype == dtype_
    for chunk in sa.split_to_sequence(x, [1, 2]):
        sequence = sa.sequence_insert(sequence, chunk)
    assert sequence.element_type == dtype
    assert_arrays_equal(sa.concat_from_sequence(sequence, axis=0), x)
    columns = sa.split_to_sequence(x, axis=1, keepdims=0)
    assert_arrays_equal(sa.concat_from_sequence(columns[::-1], axis=1, new_axis=1), x[:, [1, 0]])


# Pytrees.


def test_a_sequence_is_a_pytree_of_its_elements():
    pytree = torch.utils._pytree
    elements = [torch.ones(2), torch.zeros(3, 1)]
    sequence = sa.ArraySequence(elements)
    leaves, structure = pytree.tree_flatten({"a": sequence, "b": 1})
    assert [leaf is wanted for leaf, wanted in zip(leaves, [*elements, 1], strict=True)] == [True] * 3
    again = pytree.tree_unflatten(leaves, structure)
    assert isinstance(again["a"], sa.ArraySequence)
    assert_sequences_equal(again["a"], elements)
    assert_sequences_equal(pytree.tree_map(lambda x: x + 1, sequence), [element + 1 for element in elements])
    counts = pytree.tree_map(lambda x: x.numel(), sequence)
    assert isinstance(counts, sa.ArraySequence)
    assert list(counts) == [2, 3]
    assert list(pytree.tree_map(lambda x: None, sequence)) == [None, None]
    doubled = pytree.tree_map(lambda x, y: x + y, sequence, sequence)
    assert_sequences_equal(doubled, [2 * element for element in elements])


def test_an_empty_sequence_survives_a_pytree():
    pytree = torch.utils._pytree
    empty = sa.sequence_empty("int8", xp="torch", device="meta")
    again = pytree.tree_map(lambda x: x, empty)
    assert (len(again), again.element_type, again.namespace) == (0, "int8", empty.namespace)
    assert again.device == torch.device("meta")


# Copying and pickling.


def test_a_deep_copy_keeps_parameters():
    parameter = torch.nn.Parameter(torch.ones(3))
    again = copy.deepcopy(sa.ArraySequence([parameter]))
    assert isinstance(again[0], torch.nn.Parameter)
    assert again[0] is not parameter
    assert (again[0].requires_grad, again[0].is_leaf) == (True, True)
    again[0].data.fill_(5)
    assert parameter.tolist() == [1, 1, 1]


def test_a_deep_copy_of_a_module_that_holds_a_sequence():
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.sequence = sa.ArraySequence([self.weight, torch.zeros(2)])

    holder = Holder()
    again = copy.deepcopy(holder)
    assert again.sequence[0] is again.weight
    assert again.weight is not holder.weight
    assert_sequences_equal(again.sequence, list(holder.sequence))


def test_saving_and_loading(tmp_path):
    chunks = sa.split_to_sequence(torch.arange(6.0), 4, copy=None)
    torch.save({"chunks": chunks}, tmp_path / "chunks.pt")
    assert_sequences_equal(torch.load(tmp_path / "chunks.pt", weights_only=False)["chunks"], list(chunks))


def test_pickled_tensors_keep_requires_grad():
    again = pickle.loads(pickle.dumps(sa.ArraySequence([leaf(2), torch.ones(2, dtype=torch.float64)])))
    assert [element.requires_grad for element in again] == [True, False]


@pytest.mark.parametrize("name", "uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float8_e8m0fnu bfloat16".split())
def test_pickles_of_every_element_type(name):
    dtype = getattr(torch, name)
    x = torch.tensor([1, 2, 4, 1, 2]).to(dtype)
    for sequence in (
        sa.ArraySequence([x, x[:2]]),
        sa.split_to_sequence(x, 2),
        sa.split_to_sequence(x, 2, copy=None)[:1],
        sa.sequence_construct(x, x, copy=True),
    ):
        for again in (pickle.loads(pickle.dumps(sequence)), copy.deepcopy(sequence)):
            assert_sequences_equal(again, list(sequence))
    if name.startswith("float8"):
        assert pickle.loads(pickle.dumps(sa.ArraySequence([x.requires_grad_()])))[0].requires_grad


@pytest.mark.parametrize("name", ["int4", "uint4", "uint1"])
def test_dtypes_without_functions_are_refused_by_name(name):
    tensor = torch.zeros(2, dtype=torch.uint8).view(getattr(torch, name))
    for call in (lambda: sa.ArraySequence([tensor]), lambda: sa.split(tensor, [1, 1])):
        with pytest.raises(TypeError, match=rf"^\w+: .* torch\.{name}$"):
            call()
    with pytest.raises(TypeError, match=rf"^sequence_empty: torch cannot hold {name}"):
        sa.sequence_empty(name, xp="torch")
    if name != "uint1":
        with pytest.raises(TypeError, match=rf"^ArraySequence.to: torch on cpu cannot hold {name}"):
            sa.ArraySequence([np.ones(2, getattr(ml_dtypes, name))]).to(xp="torch")


# Subclasses.


class Length(torch.Tensor):
    """A tensor with a unit, which joins only with its like."""

    unit: str

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = args[0] if isinstance(args[0], (list, tuple)) else args[:1]
        units = {getattr(tensor, "unit", None) for tensor in given}
        if len(units) > 1:
            raise TypeError(f"units differ: {units}")
        result = super().__torch_function__(func, types, args, kwargs or {})
        for tensor in result if isinstance(result, (list, tuple)) else [result]:
            if isinstance(tensor, Length):
                tensor.unit = next(iter(units))
        return result


def length(values: list[float], unit: str) -> Any:
    tensor = torch.tensor(values).as_subclass(Length)
    tensor.unit = unit
    return tensor


@pytest.mark.parametrize("copy_", [True, None])
def test_subclasses_with_rules_of_their_own_keep_them(copy_):
    x = length([1.0, 2.0, 3.0], "m")
    results = [
        sa.concat_from_sequence([x, x], axis=0, copy=copy_),
        sa.concat_from_sequence([x, x], axis=0, new_axis=1, copy=copy_),
        sa.concat_from_sequence([x], axis=0, copy=copy_),
        sa.concat_from_sequence(sa.split_to_sequence(x, copy=copy_)[::-1], axis=0),
        *sa.split(x, [1, 2], copy=copy_),
        *sa.split_to_sequence(x, 2, copy=copy_),
        *sa.split_to_sequence(x, keepdims=0, copy=copy_),
        sa.sequence_at([x], 0, copy=copy_),
        sa.sequence_construct(x, copy=copy_)[0],
    ]
    assert {(type(result), result.unit) for result in results} == {(Length, "m")}
    for others in ([x, length([4.0], "km")], [x, torch.ones(1)], [torch.ones(1), x]):
        with pytest.raises(TypeError, match="units differ"):
            sa.concat_from_sequence(others, axis=0, copy=copy_)
        with pytest.raises(TypeError, match="units differ"):
            sa.concat_from_sequence(sa.ArraySequence(others), axis=0, out=torch.zeros(sum(map(len, others))))


# Results written into a tensor.


@pytest.mark.parametrize(
    ("shapes", "strides", "axis"),
    [
        ([(1, 1)], (2, 2), 1),
        ([(1, 0), (1, 1)], (1, 2), 1),
        ([(1, 1, 1)], (6, 6, 3), 2),
        ([(3, 1, 0), (3, 1, 1)], (1, 3, 6), 2),
        ([(1, 2), (1, 1)], (7, 1), 1),
        ([(2, 1), (2, 2)], (1, 2), 1),
    ],
)
def test_out_is_written_whatever_its_strides(shapes, strides, axis):
    """torch.cat writes nothing into some tensors with axes of length 1."""
    tensors = [torch.rand(shape) + 1 for shape in shapes]
    expected = torch.cat(tensors, axis)
    out = torch.zeros(32).as_strided(expected.shape, strides)
    assert sa.concat_from_sequence(tensors, axis=axis, out=out) is out
    assert_arrays_equal(out, expected)
    stacked = torch.zeros(64).as_strided((1, *expected.shape), (9, *strides))
    assert_arrays_equal(sa.concat_from_sequence([expected], axis=0, new_axis=1, out=stacked), expected[None])


def test_out_does_not_lose_a_gradient():
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(
        ValueError, match=r"^concat_from_sequence: out= does not go with tensors that require a gradient"
    ):
        sa.concat_from_sequence([leaf, torch.ones(2)], axis=0, out=torch.zeros(4))
    with torch.no_grad():
        out = sa.concat_from_sequence([leaf, torch.ones(2)], axis=0, out=torch.zeros(4))
    assert out.tolist() == [1, 1, 1, 1]


def test_out_on_another_device_is_refused():
    with pytest.raises(ValueError, match=r"out is on device meta; the elements are on cpu"):
        sa.concat_from_sequence([torch.ones(2)], axis=0, out=torch.empty(2, device="meta"))


# What programs do with whatever they are given.


def batch() -> Any:
    return sa.split_to_sequence(torch.arange(6), [1, 5], copy=None)


def test_it_is_moved_like_a_tensor():
    for moved in (batch().to("meta"), batch().to(torch.device("meta"), non_blocking=True), batch().to(device="meta")):
        assert moved.device.type == "meta"
        assert moved.sizes() == (1, 5)
    assert batch().to("cpu").device.type == "cpu"
    with pytest.raises(TypeError, match=r"^ArraySequence\.to: non_blocking is 'no'"):
        batch().to("meta", non_blocking="no")


def test_pinned_memory(monkeypatch):
    from torch.utils.data._utils.pin_memory import pin_memory

    pinned = []

    def pin(tensor: Any) -> Any:
        pinned.append(tensor)
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    found = pin_memory({"boxes": batch(), "none": batch()[:0], "host": batch().to(xp="numpy")})
    assert len(pinned) == 1  # chunks of one tensor stay that
    assert_sequences_equal(found["boxes"], batch())
    assert found["boxes"][0].data_ptr() != batch()[0].data_ptr()
    assert (found["none"].element_type, found["none"].namespace) == ("int64", batch().namespace)
    assert found["host"].dtype == np.int64
    meta = batch().to("meta")
    assert meta.pin_memory() is meta
    with pytest.raises(ValueError, match="device"):
        meta.pin_memory("cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_memory_that_cannot_be_pinned():
    with pytest.raises(ValueError, match=r"^ArraySequence\.pin_memory: torch cannot lock memory here"):
        batch().pin_memory()


def test_an_exported_module_takes_a_sequence():
    class Join(torch.nn.Module):
        def forward(self, s: Any) -> Any:
            return sa.concat_from_sequence(s, axis=0)

    program = torch.export.export(Join(), (batch(),))
    assert program.module()(batch()).tolist() == [0, 1, 2, 3, 4, 5]
    paths, _ = torch.utils._pytree.tree_flatten_with_path({"a": batch()})
    assert [torch.utils._pytree.keystr(path) for path, _ in paths] == ["['a'][0]", "['a'][1]"]


@pytest.mark.parametrize("copied", [lambda s: s.to(copy=True), lambda s: s.astype("float32")], ids=["to", "astype"])
def test_copies_are_of_what_has_been_done_to_the_chunks(copied):
    chunks = sa.split_to_sequence(torch.arange(6.0), [2, 4])
    chunks[0].requires_grad_()
    first, second = copied(chunks)
    (first.sum() * 3).backward()
    assert chunks[0].grad.tolist() == [3.0, 3.0]
    assert not second.requires_grad
    chunks = sa.split_to_sequence(torch.arange(6.0), [2, 4])
    chunks[0].set_(torch.full((2,), 9.0))
    assert [chunk.tolist() for chunk in copied(chunks)] == [[9.0, 9.0], [2.0, 3.0, 4.0, 5.0]]
