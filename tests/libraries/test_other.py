"""Libraries that follow the standard in part: what they lack is not needed, and nothing is guessed."""

import gc
import pickle
import types
import weakref

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import to_numpy
from tests import battery
from tests.libraries import bare

X = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.backends("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")
def test_every_operator_works_on_each_library_but_for_what_it_cannot_do(backend):
    expected = {
        "array-api-strict": {"out="},
        "jax": {"out=", "chunks, copy=False"},
        "dask": {"out=", "at, position an array", "chunks, sizes an array"},
    }
    with backend.current():
        failed, count = battery.failures(backend.xp, backend.array)
    assert failed.keys() == expected.get(backend.name, set()), failed
    assert count == 63


def test_the_standard_s_options_may_be_missing():
    failed, _ = battery.failures(bare)
    assert failed.keys() == {"out="}, failed


def test_arrays_without_a_device():
    sequence = sa.ArraySequence([bare.Readable(X)])
    assert sequence.device is None
    assert repr(sequence) == "<ArraySequence of 1 float32 array, tests.libraries.bare: (3, 2)>"
    assert sequence.to(xp=bare) is sequence
    with pytest.raises(
        ValueError, match=r"^sequence_empty: tests.libraries.bare has no device 'gpu'.*asarray takes no"
    ):
        sa.sequence_empty(xp=bare, device="gpu")


def test_dtypes_of_a_namespace_without_a_list_of_them():
    assert sa.sequence_empty("bool", xp=bare).dtype is bare.bool_
    assert sa.sequence_length([bare.Readable(X)]).dtype is bare.int64
    for element_type in ("int8", "float16", "string"):
        with pytest.raises(TypeError, match=rf"^sequence_empty: tests.libraries.bare cannot hold {element_type}"):
            sa.sequence_empty(element_type, xp=bare)


@pytest.mark.parametrize("copy", [None, True])
def test_what_arrives_keeps_its_type_and_shares_no_memory(copy):
    x = X.astype(np.float64)
    moved = sa.ArraySequence([x]).to(xp=bare, copy=copy)
    assert moved.element_type == "float64"
    x[:] = 0
    assert to_numpy(moved[0]).tolist() == X.tolist()


def test_copies_are_copies():
    x = bare.Readable(X.copy())
    copies = [
        sa.sequence_at([x], 0),
        sa.sequence_construct(x, copy=True)[0],
        sa.concat_from_sequence([x], axis=0),
        sa.split(x, [3])[0],
        sa.split_to_sequence(x, [3])[0],
    ]
    x[...] = 0
    assert all(to_numpy(copy).tolist() == X.tolist() for copy in copies)
    assert sa.ArraySequence([x]).to(copy=True)[0] is not x


# To NumPy.


class Exported(bare.BareArray):
    """An array that NumPy reads by DLPack."""

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Refusing(bare.Readable):
    """An array whose export fails, and that NumPy reads by `__array__`."""

    def __dlpack__(self, **options):
        raise BufferError("no export")

    def __dlpack_device__(self):
        return (1, 0)


class Far(Exported):
    """An array on a device, which it leaves when it is asked to."""

    def __dlpack__(self, *, dl_device=None, **options):
        if dl_device != (1, 0):
            raise BufferError("not on this device")
        return self.values.copy().__dlpack__()

    def __dlpack_device__(self):
        return (14, 0)


class Bits(bare.BareArray):
    """An array that shows its bits as if they were its values, as bfloat16 has been shown."""

    def __array__(self, dtype=None, copy=None):
        return self.values.view(np.uint32)


class Flat(bare.BareArray):
    """An array that forgets its shape."""

    def __array__(self, dtype=None, copy=None):
        return self.values.reshape(-1)


def conversions(array):
    return [
        lambda: to_numpy(array),
        lambda: sa.ArraySequence([array]).to(xp="numpy")[0],
        lambda: sa.ArraySequence([array]).to(xp="numpy", copy=True)[0],
    ]


@pytest.mark.parametrize("array_type", [bare.Readable, Exported, Refusing, Far], ids=lambda each: each.__name__)
def test_numpy_reads_what_can_be_read(array_type):
    for convert in conversions(array_type(X.copy())):
        values = convert()
        assert type(values) is np.ndarray
        assert values.dtype == X.dtype
        assert values.tolist() == X.tolist()
        assert values.flags.writeable


@pytest.mark.parametrize("array_type", [bare.BareArray, Bits, Flat], ids=lambda each: each.__name__)
def test_what_numpy_cannot_read_is_refused(array_type):
    for convert in conversions(array_type(X)):
        with pytest.raises(
            TypeError, match=r"^(to_numpy|ArraySequence.to): NumPy cannot read arrays of tests.*convert"
        ):
            convert()


class Masked(Exported):
    """An array some of whose values are masked; what it exports has no mask."""

    def __init__(self, values):
        super().__init__(values)
        self.mask = Exported(self.values == 1)


@pytest.mark.parametrize("target", ["numpy", "array_api_strict"])
def test_masks_are_not_dropped(target):
    pytest.importorskip(target, reason=f"{target} is not installed")
    with pytest.raises(TypeError, match=r"^ArraySequence.to: an array of tests.libraries.bare has masked values"):
        sa.ArraySequence([Masked(X)]).to(xp=target)
    with pytest.raises(TypeError, match=r"^to_numpy: .* masked values"):
        to_numpy(Masked(X))
    assert to_numpy(Masked(X + 2)).tolist() == (X + 2).tolist()


def test_masked_values_are_no_sizes():
    with pytest.raises(TypeError, match=r"^sequence_at: position has masked values"):
        sa.sequence_at([X, X], Masked(np.asarray(1)))
    with pytest.raises(TypeError, match=r"^split: split has masked values"):
        sa.split(X, Masked(np.asarray([1, 2])))
    assert sa.sequence_at([X, X], Masked(np.asarray(0))).tolist() == X.tolist()


# Slices that are arrays of another library.


class Sliced(bare.Readable):
    """An array whose slices are NumPy arrays."""

    def __getitem__(self, key):
        return self.values[key]


def test_chunks_are_arrays_of_the_library():
    for attributes in ({}, {"axis": 1}, {"keepdims": 0}, {"axis": 1, "keepdims": 0}):
        for copy in (None, True):
            chunks = sa.split_to_sequence(Sliced(X), copy=copy, **attributes)
            expected = list(sa.split_to_sequence(X, **attributes))
            assert {type(chunk) for chunk in chunks} == {bare.Readable}
            assert [to_numpy(chunk).tolist() for chunk in chunks] == [chunk.tolist() for chunk in expected]
    assert {type(chunk) for chunk in sa.split(Sliced(X), [1, 2], copy=None)} == {bare.Readable}
    assert {type(chunk) for chunk in sa.unpack(Sliced(X), [0, 1, 3])} == {bare.Readable}


def test_new_chunks_are_arrays_of_the_library(monkeypatch):
    monkeypatch.setattr(bare, "Readable", Sliced)
    results = [
        sa.unpad_sequence(Sliced(X[:, :, None]), [1, 2, 0]),
        sa.concat_each([Sliced(X), Sliced(X[:1])], [Sliced(X[1:]), Sliced(X)]),
        sa.concat_each([Sliced(X), Sliced(X.T)], [Sliced(X), Sliced(X.T)]),
    ]
    for chunks in results:
        assert {type(chunk) for chunk in chunks} == {Sliced}
    assert [to_numpy(chunk).tolist() for chunk in results[1]] == [
        [*X.tolist(), *X[1:].tolist()],
        [X[0].tolist(), *X.tolist()],
    ]


def test_a_join_is_an_array_of_the_library():
    for attributes in ({"axis": 0}, {"axis": 0, "new_axis": 1}):
        joined = sa.concat_from_sequence([Sliced(X)], copy=None, **attributes)
        assert joined.__array_namespace__() is bare
        assert to_numpy(joined).tolist() == (X[None] if "new_axis" in attributes else X).tolist()


def test_slices_that_are_arrays_of_the_library_stay_views():
    x = bare.Readable(X.copy())
    chunks = sa.split_to_sequence(x, 1, copy=False)
    x[...] = 7
    assert [to_numpy(chunk).tolist() for chunk in chunks] == [[[7, 7]]] * 3


def test_views_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match=r"^split_to_sequence: slices of .* are of type ndarray, .* copy=None"):
        sa.split_to_sequence(Sliced(X), 1, copy=False)
    with pytest.raises(ValueError, match=r"^split: slices of .* are of type ndarray"):
        sa.split(Sliced(X), num_outputs=3, copy=False)
    with pytest.raises(ValueError, match=r"^unpack: slices of .* are of type ndarray"):
        sa.unpack(Sliced(X), [0, 3], copy=False)
    with pytest.raises(ValueError, match=r"^concat_from_sequence: joining 1 .* takes a copy"):
        sa.concat_from_sequence([Sliced(X)], axis=0, new_axis=1, copy=False)


# Namespaces of one package.


def namespace(module_name, array_type):
    """Return a namespace whose arrays are of a type; its functions are those of `bare`."""
    made = types.ModuleType(module_name)
    made.asarray = lambda values, dtype=None: array_type(bare.asarray(values, dtype).values)
    made.zeros = lambda shape: array_type(np.zeros(shape))
    made.arange = lambda stop, dtype=None: array_type(np.arange(stop, dtype=dtype.name))
    for name in ("concat", "stack", "reshape", "float32", "int32", "int64"):
        setattr(made, name, getattr(bare, name))
    array_type.__array_namespace__ = lambda self, api_version=None: made
    return made


class Twin(bare.Readable):
    pass


class OtherTwin(bare.Readable):
    pass


TWINS = namespace("twins", Twin), namespace("twins.tensor", OtherTwin)


def test_two_namespaces_of_one_package_are_two_libraries():
    first, second = (sa.ArraySequence([xp.asarray(X)]) for xp in TWINS)
    assert first.to(xp=TWINS[0]) is first
    moved = first.to(xp=TWINS[1])
    assert type(moved[0]) is OtherTwin
    assert moved.namespace is TWINS[1]
    assert to_numpy(moved[0]).tolist() == X.tolist()
    with pytest.raises(TypeError, match=r"element 1 is an array of twins.tensor; the sequence is of twins,"):
        sa.ArraySequence([first[0], second[0]])
    with pytest.raises(ValueError, match=r"^ArraySequence.to: moving from twins .* takes a copy"):
        first.to(xp=TWINS[1], copy=False)


@pytest.mark.parametrize("name", ["torch.twins", "numpy.twins", "jax.twins"])
def test_a_namespace_beside_that_of_a_known_library_is_another_library(name):
    class Third(bare.Readable):
        pass

    failed, _ = battery.failures(namespace(name, Third))
    assert failed.keys() == {"out=", "pickle", "pickle of views"}, failed


def test_another_name_for_a_namespace_is_the_library_of_the_arrays_it_makes(count_calls):
    other = types.ModuleType("twins.compat")
    other.__dict__.update({name: value for name, value in vars(TWINS[0]).items() if not name.startswith("__")})
    made = count_calls(other, "zeros")
    sequence = sa.sequence_insert(sa.sequence_empty(xp=other), TWINS[0].asarray(X))
    assert sequence.namespace is TWINS[0]
    assert sequence.to(xp=other) is sequence
    assert len(made) == 1


def test_a_namespace_that_can_make_no_arrays_says_why():
    broken = types.ModuleType("broken")

    def zeros(shape):
        raise OSError("no driver")

    broken.asarray = broken.concat = broken.stack = broken.zeros = zeros
    with pytest.raises(TypeError, match=r"^sequence_empty: broken cannot make arrays here: no driver"):
        sa.sequence_empty(xp=broken)


# Values that cannot be read.


class Unknown(bare.BareArray):
    """An array whose value nobody knows, and which says so in a way of its own."""

    def __int__(self):
        raise LookupError("no value")


class Deferred(bare.Readable):
    """An array that would be computed."""

    computed = 0

    def compute(self):
        Deferred.computed += 1
        return int(self.values)

    __int__ = compute


@pytest.mark.parametrize("array_type", [Unknown, Deferred])
def test_values_that_cannot_be_read_are_named(array_type):
    one, some = array_type(np.asarray(1)), array_type(np.asarray([1, 2]))
    for operator, name, call in (
        ("sequence_at", "position", lambda: sa.sequence_at([X, X], one)),
        ("sequence_erase", "position", lambda: sa.sequence_erase([X, X], one[...])),
        ("sequence_insert", "position", lambda: sa.sequence_insert([X, X], X, reshaped(one))),
        ("split_to_sequence", "split", lambda: sa.split_to_sequence(X, one)),
        ("split", "split", lambda: sa.split(X, some)),
        ("Split-13", "split", lambda: sa.opset.run("Split", [X, some], opset=13, n_outputs=2)),
    ):
        with pytest.raises(TypeError, match=rf"^{operator}.*: {name} is of type {array_type.__name__}, .*host integer"):
            call()
    assert Deferred.computed == 0


def reshaped(array):
    return bare.reshape(array, (1,))


def test_values_that_torch_cannot_read_are_named(torch):
    fake = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode()
    with fake:
        sizes = torch.empty(2, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"^split: split is of type FakeTensor, .* pass a host integer"):
        sa.split(X, sizes)
    with pytest.raises(TypeError, match=r"^sequence_at: position is of type Tensor, .*vmap"):
        torch.vmap(lambda position: sa.sequence_at([torch.ones(1)] * 3, position))(torch.tensor([1, 2]))


def test_tensors_without_values_are_not_moved(torch):
    fake = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode()
    with fake:
        tensor = torch.empty(2)
    with pytest.raises(TypeError, match=r"^to_numpy: the values of a FakeTensor cannot be read"):
        to_numpy(tensor)
    for target in ("numpy", "dask"):
        with pytest.raises(TypeError, match=r"^ArraySequence.to: the values of a \w+ cannot be read"):
            torch.vmap(lambda x, to=target: sa.ArraySequence([x]).to(xp=to)[0])(torch.ones(3))


def test_bfloat16_of_torch_is_not_read_as_its_bits(torch, monkeypatch):
    tensor = torch.ones(1, dtype=torch.bfloat16)
    assert to_numpy(tensor).astype(np.float32).tolist() == [1.0]
    monkeypatch.setattr("seqarray._dtypes._ml_dtypes", None)
    with pytest.raises(TypeError, match=r"^to_numpy: numpy cannot hold bfloat16; install ml_dtypes"):
        to_numpy(tensor)
    with pytest.raises(TypeError, match=r"^ArraySequence.to: numpy on cpu cannot hold bfloat16; install ml_dtypes"):
        sa.ArraySequence([tensor]).to(xp="numpy")


# Models.


class Strided(bare.Readable):
    """An array that tells how its values lie, but not where."""

    @property
    def strides(self):
        return self.values.strides


@pytest.mark.parametrize("array_type", [bare.Readable, Exported, Refusing, Strided])
def test_outputs_of_models_are_the_caller_s_own(array_type):
    parser = pytest.importorskip("onnx.parser", reason="onnx is not installed")
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        rows (float[3, 2] x) => (float[3, 2] y, float[2, 3] z, seq(float[1, 2]) s) {
            y = Identity (x)
            shape = Constant <value_ints = [2, 3]> ()
            z = Reshape (x, shape)
            s = SplitToSequence (x)
        }""")
    x = array_type(X.copy())
    y, z, chunks = sa.onnx.prepare(model).run([x])
    y[...] = z[...] = 7
    for chunk in chunks:
        chunk[...] = 8
    assert x.values.tolist() == X.tolist()


# What is remembered.


def test_types_are_not_remembered_without_end():
    made = []
    for _ in range(1100):
        array_type = type("Many", (np.ndarray,), {})
        sa.ArraySequence([X.view(array_type)])
        made.append(weakref.ref(array_type))
    del array_type
    gc.collect()
    assert sum(each() is not None for each in made) <= 1024
    assert sa.ArraySequence([X]).namespace is sa.sequence_empty(xp="numpy").namespace


def test_namespaces_are_not_remembered_without_end():
    made = []
    for number in range(300):
        array_type = type("Many", (bare.Readable,), {})
        xp = namespace(f"many{number}", array_type)
        assert sa.sequence_empty(xp=xp).namespace is xp
        assert sa.ArraySequence([array_type(X)]).namespace is xp
        made.append(weakref.ref(array_type))
    del array_type, xp
    gc.collect()
    assert sum(each() is not None for each in made) <= 256
    assert sa.ArraySequence([bare.Readable(X)]).to(xp="numpy")[0].tolist() == X.tolist()


@pytest.mark.backends("numpy", "dask", "cupy")
def test_metadata_of_a_dtype_stay_with_it(backend):
    with_metadata = np.dtype("i1", metadata={"enum": {"A": 1}})
    with backend.current():
        first, plain = backend.array(np.zeros(4, with_metadata)), backend.array(np.zeros(4, "i1"))
        sa.ArraySequence([first])
        for sequence in (
            sa.ArraySequence([plain]),
            sa.split_to_sequence(plain, 2),
            sa.sequence_construct(plain, copy=True),
        ):
            assert sequence.dtype.metadata is None
            assert sequence[0].dtype.metadata is None
            assert sa.concat_from_sequence(sequence, axis=0).dtype.metadata is None


def test_bare_sequences_can_be_pickled():
    again = pickle.loads(pickle.dumps(sa.split_to_sequence(bare.Readable(X), 1, copy=None)))
    assert again.shapes == ((1, 2), (1, 2), (1, 2))
