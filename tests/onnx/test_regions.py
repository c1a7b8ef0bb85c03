"""Regions: what touches no sequence runs in sessions of onnxruntime, without copies where the memory allows it."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import seqarray as sa
import seqarray.onnx
from seqarray.onnx._run import placement
from seqarray.testing import assert_sequences_equal
from tests.onnx.helpers import boolean, floats, integer, on_all, placed, refuses, text_model

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

#: Three regions: before the sequence, for one element of it, and after it.
AROUND = """agraph (float[N, 4] x, int64[K] lengths) => (float[P, Q] y, seq(float[M, 4]) t) {
    a = Relu(x)
    b = Selu(a)
    c = Add(b, x)
    s = SplitToSequence(c, lengths)
    first = Constant<value_int = 0>()
    e = SequenceAt(s, first)
    f = Elu(e)
    t = SequenceInsert(s, f)
    j = ConcatFromSequence<axis = 0>(t)
    k = Exp(j)
    l = Softmax(k)
    y = Selu(l)
}"""


def engines(program):
    """What runs each node, by the name of its first output."""
    lines = [
        re.fullmatch(r".*\): (\w+).*? = [^#]*(?:# (?:fallback: )?(\S+).*)?", line) for line in str(program).splitlines()
    ]
    return {line[1]: line[2] or "seqarray" for line in lines if line}


DEAD = {
    "at the top": "t = SequenceErase(s, zero) d = Abs(x) e = Elu(d)",
    "in a loop": """t = Loop(two, "", s)<body = b (int64 i, bool c, seq(float[M]) a) => (bool d, seq(float[M]) r) {
        d = Identity(c) r = SequenceErase(a, zero) e = Elu(x) }>""",
    "in a branch": """t = If(yes)<then_branch = a () => (seq(float[M]) r) { r = SequenceErase(s) e = Elu(x) },
        else_branch = b () => (seq(float[M]) q) { q = SequenceErase(s, zero) f = Elu(x) }>""",
    "for every element": "t = SequenceMap(s)<body = b (float[M] a) => (float[M] r) { r = Abs(a) e = Elu(x) }>",
}


@pytest.mark.parametrize("place", DEAD)
def test_what_nothing_reads_does_not_run(place, monkeypatch):
    model = text_model(
        "agraph (seq(float[M]) s, float[M] x) => (seq(float[M]) t) "
        f"<int64 zero = {{0}}, int64 two = {{2}}, bool yes = {{1}}> {{ {DEAD[place]} }}"
    )
    elements = [floats(1), floats(2), floats(3)]
    expected = {"at the top": elements[1:], "in a loop": elements[2:], "in a branch": elements[:2]}
    counts = counted_sessions(monkeypatch)
    (found,) = seqarray.onnx.prepare(model).run([elements, floats(5)])
    assert_sequences_equal(found, expected.get(place, elements))
    assert counts[1] == (3 if place == "for every element" else 0)


def counted_sessions(monkeypatch):
    """Count the sessions that are made, and their runs; the counts are in the list that is returned."""
    counts = [0, 0]

    class Counted(onnxruntime.InferenceSession):
        def __init__(self, *arguments, **options):
            counts[0] += 1
            super().__init__(*arguments, **options)

        def run(self, *arguments, **options):
            counts[1] += 1
            return super().run(*arguments, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Counted)
    return counts


def around_inputs():
    return [np.linspace(-2, 2, 20, dtype=np.float32).reshape(5, 4), integer([2, 3])]


def assert_close(actual, expected, tolerance=1e-5):
    """Assert that outputs are nearly those of another run, of any library."""
    for output, wanted in zip(actual, expected, strict=True):
        pairs = zip(output, wanted, strict=True) if isinstance(wanted, sa.ArraySequence) else [(output, wanted)]
        for array, other in pairs:
            array, other = sa.testing.to_numpy(array), sa.testing.to_numpy(other)
            assert array.dtype == other.dtype
            np.testing.assert_allclose(array, other, rtol=tolerance, atol=tolerance, strict=True)


# What is in a region


def test_what_touches_no_sequence_runs_in_as_few_sessions_as_possible(monkeypatch):
    counts = counted_sessions(monkeypatch)
    program = seqarray.onnx.prepare(text_model(AROUND))
    assert counts == [3, 0]
    found = engines(program)
    assert {name for name, engine in found.items() if engine == "onnxruntime"} == set("abcfkly")
    assert {name for name, engine in found.items() if engine == "seqarray"} == set("setj")
    expected = seqarray.onnx.prepare(text_model(AROUND), fallback="reference").run(around_inputs())
    for _ in range(2):
        assert_close(program.run(around_inputs()), expected)
    assert counts == [3, 6]


@on_all
def test_regions_give_the_same_on_every_library(backend):
    inputs = around_inputs()
    expected = seqarray.onnx.prepare(text_model(AROUND), fallback="reference").run(inputs)
    program = seqarray.onnx.prepare(text_model(AROUND))
    warns = pytest.warns(UserWarning, match=r"fall back .* Selu-6 \(2 times\)")
    with warns if backend.name not in ("numpy", "torch") else pytest.MonkeyPatch.context():
        outputs = program.run([placed(inputs[0], backend), inputs[1]])
    assert outputs[0].dtype == backend.xp.float32
    assert outputs[1].namespace is backend.xp
    assert_close(outputs, expected)
    # What seqarray implements itself stays on the device, and each group of other operators moves once.
    moved = 0 if backend.name in ("numpy", "torch") else 4
    assert program.transfers == (moved, moved)


def test_a_few_kernels_of_seqarray_are_no_region(monkeypatch):
    counts = counted_sessions(monkeypatch)
    program = seqarray.onnx.prepare(
        text_model("agraph (float[N] x) => (seq(float[]) s) { a = Neg(x) b = Add(a, x) s = SequenceConstruct(b) }")
    )
    assert counts == [0, 0]
    assert set(engines(program).values()) == {"seqarray"}


def test_a_region_that_would_depend_on_itself_is_cut(monkeypatch):
    """`c` needs the sequence, and the sequence needs `a`; `d` needs both."""
    counts = counted_sessions(monkeypatch)
    program = seqarray.onnx.prepare(
        text_model(
            """agraph (float[N] x) => (float[N] d, float[N] b) {
                zero = Constant<value_int = 0>()
                a = Selu(x)
                b = Selu(a)
                s = SequenceConstruct(a, b)
                e = SequenceAt(s, zero)
                c = Selu(e)
                d = Add(b, c)
            }"""
        )
    )
    assert counts[0] == 2
    x = floats(-1, 2)
    reference = seqarray.onnx.prepare(text_model("agraph (float[N] x) => (float[N] y) { y = Selu(x) }"))
    (a,) = reference.run([x])
    (b,) = reference.run([a])
    assert_close(program.run([x]), [b + b, b])


BODIES = """agraph (seq(float[]) s, int64 n, bool c) => (seq(float[]) t, seq(float[]) u, float[N] v) {
    zero = Constant<value_int = 0>()
    w = SequenceAt(s, zero)
    t = SequenceMap(s)<body = each (float[A] a) => (float[B] b) { h = Selu(a) b = Elu(h) }>
    u = Loop(n, "", s)<body = loop (int64 i, bool go, seq(float[]) p) => (bool on, seq(float[]) q) {
        on = Identity(go)
        e = SequenceAt(p, zero)
        f = Selu(e)
        g = Add(f, w)
        q = SequenceInsert(p, g)
    }>
    v = If(c)<then_branch = yes () => (float[N] r) { d = SequenceAt(s, zero) r = Selu(d) },
              else_branch = no () => (float[N] k) { k = Elu(w) }>
}"""


@on_all
@pytest.mark.filterwarnings("ignore:some steps fall back")
def test_bodies_have_sessions_that_are_made_once(backend, monkeypatch):
    elements, count = [floats(-1, 2), floats(3)], integer(3)
    expected = [
        seqarray.onnx.prepare(text_model(BODIES), fallback="reference").run([elements, count, boolean(c)])
        for c in (True, False)
    ]
    counts = counted_sessions(monkeypatch)
    program = seqarray.onnx.prepare(text_model(BODIES), xp=backend.xp, device=backend.device)
    for _ in range(2):
        for condition, wanted in zip((True, False), expected, strict=True):
            assert_close(program.run([placed(elements, backend), count, boolean(condition)]), wanted)
    assert counts[0] == 4
    assert counts[1] == 2 * (2 * (2 + 3) + 2)


def test_control_flow_without_sequences_is_in_a_region(monkeypatch):
    counts = counted_sessions(monkeypatch)
    program = seqarray.onnx.prepare(
        text_model(
            """agraph (float[N] x, int64 n, bool c) => (float[N] y) {
                a = If(c)<then_branch = yes () => (float[N] r) { r = Selu(x) },
                          else_branch = no () => (float[N] k) { k = Elu(x) }>
                y = Loop(n, "", a)<body = loop (int64 i, bool go, float[N] p) => (bool on, float[N] q) {
                    on = Identity(go)
                    q = Add(p, x)
                }>
            }"""
        )
    )
    assert counts[0] == 1
    np.testing.assert_allclose(program.run([floats(1, 2), integer(2), boolean(False)])[0], [3, 6])


def test_functions_of_the_model_are_in_regions_too(monkeypatch):
    counts = counted_sessions(monkeypatch)
    model = text_model(
        """agraph (float[N] x) => (float[N] y) { a = my.twice<alpha = 3.0>(x) y = Selu(a) }
        <domain: "my", opset_import: ["": 18]> twice <alpha> (x) => (z) { h = Elu<alpha: float = @alpha>(x) z = Elu(h) }
        """,
        imports=', "my": 1',
    )
    program = seqarray.onnx.prepare(model)
    assert counts[0] == 1
    expected = seqarray.onnx.prepare(model, fallback="reference").run([floats(-1, 2)])
    assert_close(program.run([floats(-1, 2)]), expected)


def test_a_classifier_gives_its_label():
    """What ZipMap makes of the other output is no tensor."""
    model = text_model(
        """agraph (float[N, 2] x) => (int64[N] label) {
            label, p = ai.onnx.ml.LinearClassifier
                <coefficients = [1.0, 2.0, -1.0, 0.5], intercepts = [0.0, 0.1], classlabels_ints = [3, 4]>(x)
            maps = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 4]>(p)
        }""",
        imports=', "ai.onnx.ml": 1',
    )
    program = seqarray.onnx.prepare(model)
    sa.testing.assert_arrays_equal(program.run([floats([1, 2], [-3, 4])], outputs=["label"])[0], integer([3, 4]))


def test_operators_of_other_domains_run():
    model = text_model(
        """agraph (float[N] x) => (seq(float[]) s) { a = com.microsoft.Gelu(x) s = SequenceConstruct(a) }""",
        imports=', "com.microsoft": 1',
    )
    ((y,),) = seqarray.onnx.prepare(model).run([floats(-1, 0, 1)])
    np.testing.assert_allclose(y, [-0.15865526, 0, 0.8413447], rtol=1e-5)
    refuses(
        ValueError,
        lambda: seqarray.onnx.prepare(model, fallback="reference"),
        "node 0 (com.microsoft.Gelu-1)",
        "reference",
    )


PACKED = Path(__file__).parent / "models" / "packed"


@pytest.mark.parametrize("name", ["gru", "lstm", "rnn"])
@pytest.mark.parametrize("backend", ["numpy", "torch"], indirect=True)
def test_recurrent_networks_on_packed_batches_equal_torch(name, backend):
    """The reference ignores the lengths of the sequences."""
    with np.load(PACKED / f"{name}.npz") as stored:
        program = seqarray.onnx.prepare(PACKED / f"{name}.onnx", xp=backend.xp)
        padded, lengths = program.run([backend.array(stored["x"]), backend.array(stored["n"])])
        np.testing.assert_allclose(sa.testing.to_numpy(padded), stored["padded"], rtol=0, atol=1e-5)
        np.testing.assert_array_equal(sa.testing.to_numpy(lengths), stored["lengths"])
    assert program.transfers == (0, 0)
    mentions = [f"{name.upper()}-14", "sequence_lens", "pip install onnxruntime"]
    refuses(ValueError, lambda: seqarray.onnx.prepare(PACKED / f"{name}.onnx", fallback="reference"), *mentions)


# Types and memory


TYPES = [*"float double float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool string bfloat16".split()]


@pytest.mark.parametrize("element_type", TYPES)
@pytest.mark.parametrize("shape", [(), (0, 2), (3, 2)])
@pytest.mark.parametrize("backend", ["numpy", "torch"], indirect=True)
def test_every_type_and_shape_crosses(element_type, shape, backend):
    name = {"float": "float32", "double": "float64"}.get(element_type, element_type)
    if element_type == "string":
        if backend.name != "numpy":
            pytest.skip("torch cannot hold string")
        x = np.full(shape, "ä", dtype=object)
    else:
        x = np.ones(shape).astype(sa.sequence_empty(name, xp="numpy").dtype)
    axes = ", ".join("?" * len(shape))
    text = f"agraph ({element_type}[{axes}] x) => ({element_type}[{axes}] y) {{ y = Transpose(x) }}"
    program = seqarray.onnx.prepare(text_model(text), xp=backend.xp)
    (y,) = program.run([backend.array(x)])
    sa.testing.assert_arrays_equal(y, backend.array(x.T.copy()))
    y[...] = y  # It can be written into.
    assert program.transfers == (0, 0)


@pytest.mark.parametrize("view", [lambda x: x[::-1], lambda x: x[:, ::2], lambda x: x.T, lambda x: x.astype(">f4")])
def test_arrays_of_any_layout_cross(view):
    x = view(np.arange(12, dtype=np.float32).reshape(3, 4))
    x.flags.writeable = False
    program = seqarray.onnx.prepare(text_model("agraph (float[N, M] x) => (float[N, M] y) { y = Elu(x) }"))
    np.testing.assert_array_equal(program.run([x])[0], x)


@pytest.mark.parametrize("backend", ["torch"], indirect=True)
def test_a_gradient_is_kept_by_kernels(backend):
    """A session would lose it."""
    model = text_model(
        "agraph (float[N] x) => (float[N] y) { a = Mul(x, x) b = Mul(a, x) c = Mul(b, x) y = Mul(c, x) }"
    )
    program = seqarray.onnx.prepare(model, xp="torch")
    x = backend.array(floats(2)).requires_grad_()
    (y,) = program.run([x])
    y.sum().backward()
    assert x.grad.tolist() == [5 * 2.0**4]
    assert "onnxruntime" in engines(program).values()


@pytest.mark.parametrize("backend", ["torch"], indirect=True)
def test_constants_of_a_session_are_moved_only_for_kernels(backend, monkeypatch):
    uploads = []
    upload = placement.upload
    monkeypatch.setattr(placement, "upload", lambda array, target: uploads.append(array.shape) or upload(array, target))
    model = text_model("agraph (float[N] x) => (float[M] y) { a = Mul(x, w) b = Mul(a, x) c = Mul(b, x) y = Neg(c) }")
    weights = np.arange(2000, dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    program = seqarray.onnx.prepare(model, xp="torch")
    x = backend.array(floats(2))
    assert program.run([x])[0].tolist() == (-8 * weights).tolist()
    assert uploads == []
    (y,) = program.run([x.requires_grad_()])
    y.sum().backward()
    assert x.grad.tolist() == [-12 * float(weights.sum())]
    program.run([x])
    assert uploads == [(2000,)]


@pytest.mark.parametrize("backend", ["torch"], indirect=True)
def test_lengths_stay_on_the_host(backend):
    model = text_model(
        """agraph (float[N, M] x, float[K] z) => (seq(float[]) s, float[N, M] y) {
            y = Selu(x)
            shape = Shape(y)
            two = Constant<value_ints = [2]>()
            one = Constant<value_ints = [1]>()
            rows = Slice(shape, one, two)
            h = Div(rows, two)
            both = Concat<axis = 0>(h, h)
            s = SplitToSequence(z, both)
        }"""
    )
    program = seqarray.onnx.prepare(model, xp="torch")
    s, _ = program.run([backend.array(np.ones((2, 4), np.float32)), backend.array(floats(1, 2, 3, 4))])
    assert [element.tolist() for element in s] == [[1, 2], [3, 4]]
    assert program.transfers == (0, 0)


def test_weights_are_not_copied(monkeypatch):
    """A large initializer is handed over where it lies, and a small one within the model."""
    handed = {}
    original = onnxruntime.SessionOptions

    class Options(original):
        def add_external_initializers(self, names, values):
            handed.update(zip(names, values, strict=True))
            super().add_external_initializers(names, values)

    monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
    weights = np.arange(2048, dtype=np.float32).reshape(1, 2048)
    model = text_model("agraph (float[N, 1] x) => (float[N, M] y) { a = MatMul(x, w) y = Add(a, b) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(1), "b"))
    program = seqarray.onnx.prepare(model)
    assert [value.shape() for value in handed.values()] == [[1, 2048]]
    assert_close(program.run([floats([2], [3])]), [np.concatenate([weights * 2 + 1, weights * 3 + 1])])


def test_external_data_in_a_body_of_a_region_is_read_by_seqarray(tmp_path, monkeypatch):
    """onnxruntime is given the values, and no name of a file."""
    seen = []

    class Seen(onnxruntime.InferenceSession):
        def __init__(self, content, options, providers):
            seen.append(content)
            super().__init__(content, options, providers=providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Seen)
    model = text_model(
        """agraph (float[N] x, bool c) => (float[N] y) {
            y = If(c)<then_branch = yes () => (float[N] r) { v = Constant<value = float[1] {0}>() r = Mul(x, v) },
                      else_branch = no () => (float[N] k) { k = Elu(x) }>
        }"""
    )
    values = model.graph.node[0].attribute[0].g.node[0].attribute[0].t
    values.Clear()
    values.data_type, values.data_location = onnx.TensorProto.FLOAT, onnx.TensorProto.EXTERNAL
    values.dims.append(1)
    values.external_data.add(key="location", value="values.bin")
    (tmp_path / "values.bin").write_bytes(floats(3).tobytes())
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    program = seqarray.onnx.prepare(tmp_path / "model.onnx")
    assert set(engines(program).values()) == {"onnxruntime"}
    assert program.run([floats(2), boolean(True)])[0].tolist() == [6]
    assert len(seen) == 1
    assert b"values.bin" not in seen[0]
    values.external_data[0].value = "../values.bin"
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "model.onnx").write_bytes(model.SerializeToString())
    refuses(ValueError, lambda: seqarray.onnx.prepare(tmp_path / "inner" / "model.onnx"), "../values.bin")
    assert len(seen) == 1


def test_an_initializer_that_an_input_replaces_is_read_from_the_input():
    model = text_model("agraph (float[N] x, float[1] w = {3}) => (float[N] y) { a = Selu(x) y = Mul(a, w) }")
    program = seqarray.onnx.prepare(model)
    (one,), (other,) = program.run({"x": floats(1)}), program.run({"x": floats(1), "w": floats(6)})
    np.testing.assert_allclose(other, 2 * one)


# On a CUDA device: onnxruntime without a GPU stands for one with it, which the arrays of CuPy on the host allow


class OnDevice:
    """A value of a session on the device, as far as regions use it."""

    def __init__(self, array):
        self.array = array

    @classmethod
    def from_dlpack(cls, array):
        assert array.flags.c_contiguous
        return cls(array)

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def numpy(self):
        return self.array.get()


class Binding:
    """What inputs and outputs of a session are bound to."""

    def __init__(self):
        self.inputs, self.outputs, self.values = {}, {}, []

    def bind_cpu_input(self, name, array):
        self.inputs[name] = array

    def bind_ortvalue_input(self, name, value):
        self.inputs[name] = value

    def bind_output(self, name, kind, index=0):
        self.outputs[name] = (kind, index)

    def get_outputs(self):
        return self.values


@pytest.fixture
def with_cuda(monkeypatch, backend):
    """Let onnxruntime have the CUDA provider, though it computes on the host; what sessions get is in the list."""
    seen = []

    class Session(onnxruntime.InferenceSession):
        def __init__(self, content, options, providers):
            seen.append(providers)
            super().__init__(content, options, providers=["CPUExecutionProvider"])

        def io_binding(self):
            return Binding()

        def run_with_iobinding(self, binding):
            feeds = {name: x.numpy() if isinstance(x, OnDevice) else x for name, x in binding.inputs.items()}
            results = self.run(list(binding.outputs), feeds)
            binding.values = [
                OnDevice(backend.array(result)) if kind == "cuda" else onnxruntime.OrtValue.ortvalue_from_numpy(result)
                for result, (kind, _) in zip(results, binding.outputs.values(), strict=True)
            ]
            seen.append((binding.inputs, binding.outputs))

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(onnxruntime.OrtValue, "from_dlpack", OnDevice.from_dlpack)
    return seen


@pytest.mark.parametrize("backend", ["cupy"], indirect=True)
def test_sessions_read_and_write_arrays_on_a_cuda_device(backend, with_cuda):
    inputs = around_inputs()
    expected = seqarray.onnx.prepare(text_model(AROUND), fallback="reference").run(inputs)
    program = seqarray.onnx.prepare(text_model(AROUND), xp="cupy", device=backend.device)
    provider = [("CUDAExecutionProvider", {"device_id": backend.device.id}), "CPUExecutionProvider"]
    assert with_cuda == [provider] * 3
    assert_close(program.run([backend.array(inputs[0].T.copy()).T, inputs[1]]), expected)
    assert program.transfers == (0, 0)
    for bound, outputs in with_cuda[3:]:
        assert all(isinstance(value, OnDevice) for value in bound.values())
        assert set(outputs.values()) == {("cuda", backend.device.id)}


@pytest.mark.parametrize("backend", ["cupy"], indirect=True)
def test_lengths_come_to_the_host_from_a_cuda_device(backend, with_cuda):
    model = text_model(
        """agraph (float[N, M] x) => (int64[2] shape, bool[N, M] big, float[N, M] y) {
            y = Selu(x)
            shape = Shape(y)
            zero = Constant<value_float = 0.0>()
            big = Greater(y, zero)
        }"""
    )
    program = seqarray.onnx.prepare(model, xp="cupy", device=backend.device)
    shape, big, _ = program.run([backend.array(np.asarray([[1, -1]], np.float32))])
    assert sorted(kind for kind, _ in with_cuda[-1][1].values()) == ["cpu", "cuda", "cuda"]
    sa.testing.assert_arrays_equal(shape, backend.array(integer([1, 2])))
    sa.testing.assert_arrays_equal(big, backend.array(boolean([[True, False]])))


@pytest.mark.parametrize("backend", ["cupy"], indirect=True)
@pytest.mark.filterwarnings("ignore:some steps fall back")
def test_without_the_cuda_provider_values_move(backend):
    program = seqarray.onnx.prepare(text_model(AROUND), xp="cupy", device=backend.device)
    program.run([backend.array(around_inputs()[0]), integer([2, 3])])
    assert program.transfers == (4, 4)


# Errors, limits and options


def test_an_error_of_onnxruntime_names_the_node():
    model = text_model(
        "agraph (float[N] x, int64[K] i) => (float[K] y) { a = Selu(x) [pick] b = GatherElements(a, i) y = Elu(b) }"
    )
    program = seqarray.onnx.prepare(model)
    refuses(
        ValueError,
        lambda: program.run([floats(1), integer([7])]),
        "node 1 (GatherElements-13 'pick')",
        "onnxruntime",
        "Out of range",
    )


def test_what_onnxruntime_refuses_runs_by_the_reference():
    model = text_model("agraph (double[N, M] x) => (double[N, M] y) { y = Hardmax(x) }")
    program = seqarray.onnx.prepare(model)
    assert engines(program) == {"y": "onnx.reference"}
    np.testing.assert_array_equal(program.run([np.asarray([[1.0, 3.0]])])[0], [[0.0, 1.0]])
    model = text_model("agraph (double[N, M] x) => (double[N, M] y) { a = Selu(x) b = Hardmax(a) y = Elu(b) }")
    program = seqarray.onnx.prepare(model)
    assert engines(program)["b"] == "onnx.reference"
    np.testing.assert_array_equal(program.run([np.asarray([[1.0, 3.0]])])[0], [[0.0, 1.0]])


def test_an_older_onnxruntime_runs_what_newer_versions_leave_as_it_was(monkeypatch):
    class Older(onnxruntime.InferenceSession):
        def __init__(self, content, options, providers):
            opset = next(opset.version for opset in onnx.ModelProto.FromString(content).opset_import)
            if opset > 21:
                raise RuntimeError(f"opset {opset} is under development")
            super().__init__(content, options, providers=providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Older)
    text = "agraph (float[N] x) => (float[N] y) { a = Sin(x) b = Erf(a) y = Sin(b) }"
    program = seqarray.onnx.prepare(text_model(text, opset=21))
    assert set(engines(program).values()) == {"onnxruntime"}
    newest = text_model(text.replace("Sin", "Sign"), opset=22)
    assert set(engines(seqarray.onnx.prepare(newest)).values()) == {"onnxruntime"}
    # Sin has a newer version.
    assert set(engines(seqarray.onnx.prepare(text_model(text, opset=22))).values()) == {"onnxruntime", "onnx.reference"}


def test_what_nothing_runs_is_refused_with_both_reasons():
    model = text_model("agraph (float[N] x) => (float[N] y) { y = other.Nothing(x) }", imports=', "other": 1')
    refuses(
        ValueError, lambda: seqarray.onnx.prepare(model), "node 0 (other.Nothing-1)", "onnx.reference", "onnxruntime"
    )


def test_under_limits_each_node_is_bounded_before_it_runs(monkeypatch):
    counts = counted_sessions(monkeypatch)
    text = "agraph (float[N] x, int64[1] r) => (float[M] y) { a = Selu(x) b = Tile(a, r) y = Elu(b) }"
    program = seqarray.onnx.prepare(text_model(text), max_bytes=100_000)
    assert counts[0] == 3
    np.testing.assert_allclose(program.run([floats(0), integer([3])])[0], [0, 0, 0])
    runs = counts[1]
    refuses(ValueError, lambda: program.run([floats(0), integer([2**40])]), "Tile", "max_bytes")
    assert counts[1] == runs + 1
    refuses(
        ValueError,
        lambda: seqarray.onnx.prepare(
            text_model(text.replace("Selu", "com.microsoft.Gelu"), imports=', "com.microsoft": 1'), max_bytes=1000
        ),
        "Gelu",
        "max_bytes",
    )


def test_options_of_onnxruntime_are_used(monkeypatch):
    seen = []

    class Seen(onnxruntime.InferenceSession):
        def __init__(self, content, options, providers):
            seen.append((options, providers))
            super().__init__(content, options, providers=providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Seen)
    options = onnxruntime.SessionOptions()
    providers = ["CPUExecutionProvider"]
    program = seqarray.onnx.prepare(text_model(AROUND), providers=providers, session_options=options)
    assert seen == [(options, providers)] * 3
    assert len(program.run(around_inputs())) == 2


def test_the_number_of_threads_is_bounded(monkeypatch):
    seen = []

    class Seen(onnxruntime.InferenceSession):
        def __init__(self, content, options, providers):
            seen.append(options.intra_op_num_threads)
            super().__init__(content, options, providers=providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Seen)
    nodes = " ".join(
        f"a{i} = Selu(x{i}) s{i} = SequenceConstruct(a{i}) x{i + 1} = SequenceAt(s{i}, zero)" for i in range(18)
    )
    text = f"agraph (float[N] x0) => (float[N] x18) {{ zero = Constant<value_int = 0>() {nodes} }}"
    seqarray.onnx.prepare(text_model(text))
    assert seen == [0] * 16 + [1] * 2
    seen.clear()
    seqarray.onnx.prepare(text_model(text), max_trip_count=1)
    assert seen == [1] * 18


@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        ({"fallback": "numpy"}, ["fallback", "'numpy'", "onnxruntime"]),
        ({"fallback": "reference", "providers": ["CPUExecutionProvider"]}, ["providers", "onnxruntime"]),
        ({"fallback": "error", "session_options": 1}, ["session_options", "onnxruntime"]),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, mentions):
    refuses(ValueError, lambda: seqarray.onnx.prepare(text_model(AROUND), **options), *mentions)


@pytest.mark.parametrize(
    "options",
    [
        {"providers": 3},
        {"providers": "CPUExecutionProvider"},
        {"providers": [3]},
        {"session_options": 3},
        {"session_options": "x"},
    ],
    ids=str,
)
def test_options_that_onnxruntime_does_not_take_are_refused(options):
    """No session could be made with them, and everything would go to the other engine without a word."""
    refuses(TypeError, lambda: seqarray.onnx.prepare(text_model(AROUND), **options), *options)


def test_what_onnxruntime_refuses_is_told_with_the_names_in_the_model():
    model = text_model(
        "agraph (int64[N, M] first, int64[K, L] second) => (int64[P, Q] y) "
        "{ y = com.microsoft.FusedMatMul(first, second) }",
        imports=', "com.microsoft": 1',
    )
    refuses(ValueError, lambda: seqarray.onnx.prepare(model), "node 0", "FusedMatMul", "'first'", "tensor(int64)")


@pytest.mark.parametrize("options", [{}, {"max_trip_count": 9}])
def test_shapes_that_exporters_are_wrong_about(options):
    """Torch writes such into models with loops; onnxruntime itself runs these."""
    model = text_model("""agraph (seq(float[N]) s, int64 n) => (float[K] y, float[I, J] z) <float[A, B] q> {
        zero = Constant<value_int = 0>()
        q = SequenceAt(s, zero)
        y = Relu(q)
        yes = Constant<value = bool {1}>()
        z = Loop(n, yes, q)<body = b (int64 i, bool c, float[A, B, C] v) => (bool d, float[A] w) {
            d = Identity(c) l = SequenceLength(s) f = Cast<to = 1>(l) e = Mul(v, f) w = Unsqueeze(e, zero) }>
    }""")
    program = seqarray.onnx.prepare(model, **options)
    y, z = program.run([[floats(-1, 2), floats(3)], integer(1)])
    np.testing.assert_array_equal(y, floats(0, 2))
    np.testing.assert_array_equal(z, floats([-2, 4]))


# Threads


@pytest.mark.parametrize("backend", ["numpy", "torch"], indirect=True)
def test_one_program_in_sixteen_threads(backend):
    """On NumPy, and on NumPy and torch by turns."""
    xs = [np.full((5, 4), value, np.float32) for value in range(16)]
    program = seqarray.onnx.prepare(text_model(AROUND))
    expected = [program.run([x, integer([2, 3])])[0] for x in xs]
    placed_xs = [backend.array(x) if number % 2 else x for number, x in enumerate(xs)]
    with ThreadPoolExecutor(16) as pool:
        outputs = list(pool.map(lambda number: program.run([placed_xs[number % 16], integer([2, 3])])[0], range(320)))
    for number, output in enumerate(outputs):
        np.testing.assert_array_equal(sa.testing.to_numpy(output), expected[number % 16])


PASSED_ON = {
    "an input": "y = Identity(x)",
    "an input of the same shape": "y = Reshape(x, s)",
    "an input there and back": "u = Unsqueeze(x, a) y = Squeeze(u, a)",
    "an input of the same type": "y = Cast<to = 1>(x)",
    "a constant": "y = Identity(w)",
    "what is computed of constants": "y = Add(w, w)",
    "an input of a branch": "y = If(c) <then_branch = g () => (float[N] t) { t = Identity(x) }, "
    "else_branch = h () => (float[N] t) { t = Neg(x) }>",
    "a part": "y, z = Split<num_outputs = 2>(x)",
}


@pytest.mark.parametrize("nodes", PASSED_ON.values(), ids=PASSED_ON)
def test_what_a_session_passes_on_has_memory_of_its_own(nodes):
    program = sa.onnx.prepare(
        text_model(
            "agraph (float[N] x, bool c) => (float[K] y, float[L] r) "
            "<int64[1] s = {-1}, int64[1] a = {0}, float[4] w = {1, 2, 3, 4}> "
            f"{{ {nodes} e = Exp(x) f = Log(e) g = Exp(f) r = Relu(g) }}"
        )
    )
    assert "onnxruntime" in engines(program).values()
    x, found = floats(1, 2, 3, 4), []
    for _ in range(2):
        y, r = program.run([x, boolean(True)])
        assert y.flags.writeable
        assert r.flags.writeable
        assert not any(np.may_share_memory(*pair) for pair in [(y, x), (r, x), (y, r)])
        found.append((y.tolist(), r.tolist()))
        y[...] = r[...] = -7
    assert found[0] == found[1]
    assert x.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("equation", "is_valid"),
    [("ij->ji", True), (" i j -> j i ", True), ("...j->j...", True), ("ij->", True), ("ij=", False), ("i1", False)],
)
def test_equations_that_onnxruntime_reads_without_end_do_not_come_to_it(equation, is_valid, inside):
    node = f'Einsum <equation = "{equation}"> (x)'
    if inside:
        node = f"If (c) <then_branch = g () => (t) {{ t = {node} }}, else_branch = h () => (u) {{ u = Neg(x) }}>"
    program = sa.onnx.prepare(text_model(f"agraph (float[N, M] x, bool c) => (y) {{ y = {node} }}"))
    x = floats([1, 2, 3], [4, 5, 6])
    if is_valid:
        assert engines(program)["y"] == "onnxruntime"
        np.testing.assert_array_equal(program.run([x, boolean(True)])[0], np.einsum(equation.replace(" ", ""), x))
    else:
        refuses(ValueError, lambda: program.run([x, boolean(True)]), "Einsum", "valid")
