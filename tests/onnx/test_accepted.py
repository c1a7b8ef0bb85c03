"""Models that onnx's checker or we have refused, and that the standard allows or other runtimes accept."""

import os

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import seqarray as sa
import seqarray.onnx
from tests.onnx.helpers import assert_gives, floats, integer, on_all, refuses, text_model
from tests.onnx.test_conformance import CASES, contained, value_on
from tests.test_conformance import assert_value_equal


def graphs_of(graph):
    """A graph, and those in the attributes of its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_of(attribute.g)


def tensor_type_of(declared):
    """The type of a tensor, of the elements of a sequence, or of what an optional holds."""
    kind = declared.WhichOneof("value")
    return declared.tensor_type if kind == "tensor_type" else tensor_type_of(getattr(declared, kind).elem_type)


def without_shapes(model):
    for graph in graphs_of(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.WhichOneof("value"):
                tensor_type_of(value.type).ClearField("shape")


def without_types_of_outputs(model):
    for output in model.graph.output:
        output.ClearField("type")


def with_negative_lengths(model):
    for graph in graphs_of(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.WhichOneof("value"):
                for dim in tensor_type_of(value.type).shape.dim:
                    if not dim.HasField("dim_value"):
                        dim.dim_value = -1


def without_names(model):
    for graph in graphs_of(model.graph):
        graph.ClearField("name")


@pytest.mark.backends("numpy")
@pytest.mark.parametrize(
    "change", [without_shapes, without_types_of_outputs, with_negative_lengths, without_names], ids=lambda f: f.__name__
)
def test_conformance_cases_that_declare_less(change, backend):
    assert len(CASES) == 222
    for case in CASES:
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        change(model)
        program = sa.onnx.prepare(model, keepdims_with_split="ignore")
        outputs = program.run([value_on(value, backend) for value in case.inputs])
        for output, wanted in zip(outputs, case.expected, strict=True):
            if contained(wanted) is None:
                assert output is None, case.name
            else:
                assert_value_equal(output, value_on(wanted, backend))


def test_an_input_without_a_type_is_refused():
    model = text_model("agraph (float[N] x) => (float[N] y) { y = Neg(x) }")
    model.graph.input[0].ClearField("type")
    refuses(ValueError, lambda: sa.onnx.prepare(model), "type")


def test_initializers_need_not_be_inputs_in_the_first_versions_of_the_format():
    model = text_model("agraph (float[N] x) => (float[N] y) <float[2] w = {1, 2}> { y = Add(x, w) }", opset=8)
    model.ir_version = 3
    (output,) = sa.onnx.prepare(model).run([floats(10, 20)])
    sa.testing.assert_arrays_equal(output, floats(11, 22))


def test_a_function_has_the_version_of_an_operator_that_it_imports():
    """ReduceSum has its axes in an attribute before version 13, and in an input from it on."""
    model = text_model(
        """
        agraph (float[2, 3] x) => (float[] a, float[] b) { a = local.sums(x) b = ReduceSum<keepdims = 0>(x, axes) }
        <domain: "local", opset_import: ["": 11]>
        sums (x) => (y) { y = ReduceSum<axes = [0], keepdims = 0>(x) }
        """,
        opset=13,
        imports=', "local": 1',
    )
    without_shapes(model)
    model.graph.initializer.append(numpy_helper.from_array(integer([1]), "axes"))
    first, second = sa.onnx.prepare(model).run([floats([0, 1, 2], [3, 4, 5])])
    sa.testing.assert_arrays_equal(first, floats(3, 5, 7))
    sa.testing.assert_arrays_equal(second, floats(3, 12))


def test_an_operator_that_the_version_of_a_function_does_not_have_is_refused():
    model = text_model(
        'agraph (float[N] x) => (seq(float[]) y) { y = local.f(x) } <domain: "local", opset_import: ["": 10]> '
        "f (x) => (y) { y = SplitToSequence(x) }",
        imports=', "local": 1',
    )
    refuses(ValueError, lambda: sa.onnx.prepare(model), "SplitToSequence")


# Values of two bits


@pytest.mark.skipif(not hasattr(TensorProto, "INT2"), reason="this onnx has no INT2")
@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_values_of_a_few_bits(dtype, typed):
    values = np.arange(7) % 4 - (2 if dtype.startswith("int") else 0)
    array = values.astype(getattr(ml_dtypes, dtype))
    tensor = numpy_helper.from_array(array, "w")
    if typed:
        tensor = helper.make_tensor("w", tensor.data_type, array.shape, array)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", tensor.data_type, None)],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    (output,) = sa.onnx.prepare(model).run([])
    assert output.dtype == array.dtype
    sa.testing.assert_arrays_equal(output.astype(np.int8), values.astype(np.int8))


# Size


def test_a_model_of_any_size_is_checked_without_its_values(monkeypatch):
    """A model of more than 2 GB, which is the limit of protobuf; here the limit is a smaller one."""
    monkeypatch.setattr(onnx.checker, "MAXIMUM_PROTOBUF", 20_000)
    large = numpy_helper.from_array(np.arange(50_000, dtype=np.float32), "w")
    model = text_model("agraph (float[N] x) => (float[N] y) { y = Add(x, w) }")
    model.graph.initializer.append(large)
    with pytest.raises(ValueError, match="2GiB"):
        onnx.checker.check_model(model)
    (output,) = sa.onnx.prepare(model).run([np.zeros(50_000, dtype=np.float32)])
    sa.testing.assert_arrays_equal(output, np.arange(50_000, dtype=np.float32))


@pytest.mark.parametrize("size", [2, 1000])
def test_values_in_two_fields_are_refused(size):
    tensor = numpy_helper.from_array(np.zeros(size, dtype=np.float32), "w")
    tensor.float_data.extend([1.0] * size)
    model = text_model("agraph (float[N] x) => (float[N] y) { y = Add(x, w) }")
    model.graph.initializer.append(tensor)
    refuses(ValueError, lambda: sa.onnx.prepare(model), "w")


# The caches of model hubs, in which the files of a model are links


@pytest.fixture
def cache(tmp_path):
    """The links to a model and its data, and a function that puts a file into a folder and links it from there."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshots" / "1" / "onnx").mkdir(parents=True)
    links = tmp_path / "snapshots" / "1" / "onnx"
    (tmp_path / "secret").write_bytes(floats(88, 99).tobytes())

    def link(name, content, folder="blobs"):
        blob = tmp_path / folder / name.replace(".", "-")
        blob.write_bytes(content)
        (links / name).symlink_to(os.path.relpath(blob, links))
        return links / name

    return link


def model_with_data(location, **fields):
    model = text_model("agraph (float[N] x) => (float[N] y) { y = Add(x, w) }")
    tensor = model.graph.initializer.add(name="w", dims=[2], data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **fields}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model.SerializeToString()


def test_model_and_data_are_links_into_one_folder(cache):
    path = cache("model.onnx", model_with_data("model.onnx_data"))
    cache("model.onnx_data", floats(1, 2).tobytes())
    (output,) = sa.onnx.prepare(path).run([floats(10, 20)])
    sa.testing.assert_arrays_equal(output, floats(11, 22))


def test_data_beside_the_file_that_a_link_leads_to(cache):
    path = cache("model.onnx", model_with_data("data.bin"))
    (path.resolve().parent / "data.bin").write_bytes(floats(1, 2).tobytes())
    (output,) = sa.onnx.prepare(path).run([floats(10, 20)])
    sa.testing.assert_arrays_equal(output, floats(11, 22))


@pytest.mark.parametrize(
    ("location", "fields"),
    [
        ("stolen", {}),
        ("../../../secret", {}),
        ("../secret", {}),
        ("{folder}/secret", {}),
        ("{folder}/blobs/model-onnx_data", {}),
        ("model.onnx_data", {"offset": 4}),
        ("model.onnx_data", {"offset": 1 << 62, "length": 8}),
        ("model.onnx_data", {"length": 1 << 40}),
    ],
)
def test_data_outside_of_both_folders_is_refused(location, fields, cache, tmp_path):
    path = cache("model.onnx", model_with_data(location.format(folder=tmp_path), **fields))
    cache("model.onnx_data", floats(1, 2).tobytes())
    cache("stolen", floats(88, 99).tobytes(), folder=".")
    refuses(ValueError, lambda: sa.onnx.prepare(path), "tensor 'w'")


# Loops without iterations


LOOP = """agraph (int64 n, float[K, L] x) => (float[N, {graph}] y) {{
    y = Loop(n, "") <body = b (int64 i, bool c) => (bool d, float[{body}] o) {{ d = Identity(c) {item} }}> }}
    <domain: "local", opset_import: ["": 18]> f (x) => (y) {{ y = Neg(x) }}"""

#: How an item is computed of a float[2, 3] x: onnx infers its lengths, its rank, or nothing.
ITEMS = {
    "lengths": "o = Neg(x)",
    "rank": "l = Shape(x) o = Reshape(x, l)",
    "nothing": "o = local.f(x)",
}


def loop_over(item, body, graph):
    model = text_model(LOOP.format(body=body or "A", graph=graph or "C, D", item=ITEMS[item]), imports=', "local": 1')
    (loop,) = model.graph.node
    for declared, text in ((loop.attribute[0].g.output[1], body), (model.graph.output[0], graph)):
        for dim in declared.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.dim_value = -1
        if text is None:
            declared.type.tensor_type.ClearField("shape")
    return model


@on_all
@pytest.mark.parametrize(
    ("item", "body", "graph", "shape"),
    [
        ("lengths", "A, B", "C, D", (0, 2, 3)),
        ("lengths", None, None, (0, 2, 3)),
        ("rank", "A, B", "C, D", (0, 0, 0)),
        ("rank", "2, B", "C, 3", (0, 2, 3)),
        ("rank", None, "2, D", (0, 2, 0)),
        ("rank", "A, 3", None, (0, 0, 3)),
        ("rank", None, None, (0, 0, 0)),
    ],
)
def test_scan_output_without_iterations(item, body, graph, shape, backend):
    """Lengths come from the body, from the graph, or from what onnx infers; others are 0."""
    model = loop_over(item, body, graph)
    x = floats([1, 2, 3], [4, 5, 6])
    assert_gives(model, [integer(0), x], [np.empty(shape, dtype=np.float32)], backend)
    assert_gives(model, [integer(2), x], [np.stack([-x, -x] if item == "lengths" else [x, x])], backend)


@on_all
@pytest.mark.parametrize("scanned", [0, 2])
def test_scan_along_an_axis_without_items(scanned, backend):
    model = text_model(
        "agraph (float[2] s, float[A, B] x) => (float[2] t, float[C, D] y) { t, y = Scan<num_scan_inputs = 1, "
        "scan_input_axes = [1], scan_output_axes = [1], body = b (float[2] p, float[Q] v) => (float[2] q, float[R] o) "
        "{ q = Identity(p) o = Add(v, p) }>(s, x) }"
    )
    without_shapes(model)
    x = np.ones((2, scanned), dtype=np.float32)
    assert_gives(model, [floats(1, 2), x], [floats(1, 2), x + floats([1], [2])], backend)


def test_scan_output_of_unknown_rank_without_iterations_is_refused():
    model = loop_over("nothing", None, None)
    program = sa.onnx.prepare(model)
    refuses(ValueError, lambda: program.run([integer(0), floats([1])]), "Loop", "scan output 0", "rank")
    (output,) = program.run([integer(2), floats([1])])
    sa.testing.assert_arrays_equal(output, floats([[-1]], [[-1]]))


# Values on the host beside values on the device


@on_all
@pytest.mark.parametrize("axis", [0, 1])
def test_gather_of_a_constant_by_indices_on_the_device(axis, backend):
    """Up to 1024 values, a constant is kept on the host; indices from a computation may be on the device."""
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    model = text_model(
        f"agraph (float[N] x) => (float[A, B] y) {{ i = Cast<to = 7>(x) y = Gather<axis = {axis}>(w, i) }}"
    )
    model.graph.initializer.append(numpy_helper.from_array(table, "w"))
    assert_gives(model, [floats(1, 0, -1)], [np.take(table, [1, 0, -1], axis=axis)], backend)
    program = sa.onnx.prepare(model, xp=backend.xp, device=backend.device)
    program.run([backend.array(floats(1))])
    assert program.transfers == (0, 0)


@on_all
def test_gather_of_computed_values_on_the_host_by_indices_on_the_device_is_counted(backend):
    model = text_model(
        "agraph (float[N] x, int64[M] h) => (int64[N] y) { i = Cast<to = 7>(x) s = Add(h, h) y = Gather(s, i) }"
    )
    program = sa.onnx.prepare(model, xp=backend.xp, device=backend.device)
    (output,) = program.run([backend.array(floats(1, 0)), integer([3, 4])])
    sa.testing.assert_arrays_equal(output, backend.array(integer([8, 6])))
    assert program.transfers == (0, 0 if backend.name == "numpy" else 1)


# SplitToSequence with keepdims=0 and a size, as torch exports unbind


UNBIND = """agraph (float[N, M] x, int64{rank} n) => (seq(float[]) y) {{
    y = SplitToSequence<keepdims = 0>(x, n) }}"""


@on_all
def test_keepdims_of_a_split_by_a_size_is_what_is_asked_for(backend):
    x = floats([1, 2], [3, 4])
    model = text_model(UNBIND.format(rank=""))
    with pytest.warns(UserWarning, match=r"node 0 \(SplitToSequence-11\): .*keepdims_with_split"):
        assert_gives(model, [x, integer(1)], [[x[:1], x[1:]]], backend)
    assert_gives(model, [x, integer(1)], [[x[:1], x[1:]]], backend, keepdims_with_split="ignore")
    assert_gives(model, [x, integer(1)], [[x[0], x[1]]], backend, keepdims_with_split="apply")
    assert_gives(
        text_model(UNBIND.format(rank="[2]")),
        [x, integer([1, 1])],
        [[x[:1], x[1:]]],
        backend,
        keepdims_with_split="apply",
    )


def test_chunks_of_several_items_lose_no_axis():
    program = sa.onnx.prepare(text_model(UNBIND.format(rank="")), keepdims_with_split="apply")
    refuses(
        ValueError, lambda: program.run([floats([1], [2]), integer(2)]), "SplitToSequence", "split is 2", "keepdims"
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", ["<keepdims = 0>(x, s)", "<keepdims = 1>(x, t)", "<keepdims = 0>(x)"])
def test_a_split_that_means_one_thing_needs_no_choice(text):
    model = text_model(
        "agraph (float[N] x) => (seq(float[]) y) <int64[2] s = {1, 1}, int64 t = {1}> { y = SplitToSequence"
        + text
        + " }"
    )
    assert len(sa.onnx.prepare(model).run([floats(1, 2)])[0]) == 2


def test_another_choice_about_keepdims_is_refused():
    model = text_model(UNBIND.format(rank=""))
    refuses(ValueError, lambda: sa.onnx.prepare(model, keepdims_with_split="drop"), "'drop'", "'ignore'", "'apply'")
