"""Making programs of ONNX models: files, malformed models, nesting, domains, constants and external data."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import seqarray as sa
import seqarray.onnx
from tests.onnx.helpers import assert_gives, floats, integer, on_all, refuses, text_model
from tests.processes import output_of

PARTS = "agraph (float[N] x) => (seq(float[]) s, int64 n) { s = SplitToSequence(x) n = SequenceLength(s) }"


# Loading


@pytest.mark.parametrize("form", ["model", "bytes", "path", "text path"])
def test_model_as_proto_bytes_or_path(form, tmp_path):
    model = text_model(PARTS)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    given = {"model": model, "bytes": model.SerializeToString(), "path": path, "text path": str(path)}[form]
    parts, count = seqarray.onnx.prepare(given).run([floats(1, 2)])
    sa.testing.assert_sequences_equal(parts, [floats(1), floats(2)])
    sa.testing.assert_arrays_equal(count, integer(2))


def test_preparing_leaves_the_model_as_it_is_and_does_not_need_it_any_more():
    model = text_model(PARTS)
    before = model.SerializeToString(deterministic=True)
    program = seqarray.onnx.prepare(model)
    assert model.SerializeToString(deterministic=True) == before
    model.Clear()
    assert len(program.run([floats(1, 2, 3)])[0]) == 3


@pytest.mark.parametrize("model", [None, 3, text_model(PARTS).graph, ["model.onnx"]], ids=str)
def test_what_is_no_model_is_refused(model):
    refuses(TypeError, lambda: seqarray.onnx.prepare(model), type(model).__name__)


@pytest.mark.parametrize("content", [b"", b"\xff\xff\xff", b"not a model", text_model(PARTS).SerializeToString()[:-9]])
def test_bytes_that_hold_no_model_are_refused(content, tmp_path):
    with pytest.raises(ValueError, match="model"):
        seqarray.onnx.prepare(content)
    (tmp_path / "broken.onnx").write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.onnx"):
        seqarray.onnx.prepare(tmp_path / "broken.onnx")


def test_public_names_are_what_dir_lists():
    names = {name for name in dir(seqarray.onnx) if not name.startswith("__")}
    assert names == set(seqarray.onnx.__all__) == {"Program", "backend", "from_proto", "lower", "prepare", "to_proto"}


def test_importing_seqarray_does_not_import_onnx():
    code = "import sys, seqarray as sa; before = 'onnx' in sys.modules; sa.onnx.prepare; print(before)"
    assert output_of(code) == "False"


def test_without_onnx_the_error_names_the_extra():
    code = """
import sys
sys.modules["onnx"] = None
import seqarray as sa
try:
    sa.onnx
except ImportError as error:
    print(error)
"""
    assert "pip install onnx" in output_of(code)


# Malformed models


def with_change(change, text=PARTS, **options):
    model = text_model(text, **options)
    change(model)
    return model


def declare_sparse(model):
    values = onnx.numpy_helper.from_array(floats(1), "w")
    sparse = onnx.SparseTensorProto(values=values, dims=[4])
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.asarray([4]), ""))
    model.graph.sparse_initializer.append(sparse)


def node_of(model):
    return model.graph.node[0]


MALFORMED = {
    "no graph": lambda model: model.ClearField("graph"),
    "no opset": lambda model: model.ClearField("opset_import"),
    "opset from the future": lambda model: setattr(model.opset_import[0], "version", 9999),
    "opset 0": lambda model: setattr(model.opset_import[0], "version", 0),
    "format from the future": lambda model: setattr(model, "ir_version", 9999),
    "unknown operator": lambda model: setattr(node_of(model), "op_type", "SplitToNothing"),
    "unknown domain": lambda model: setattr(node_of(model), "domain", "of.nobody"),
    "unknown input": lambda model: node_of(model).input.__setitem__(0, "elsewhere"),
    "too many inputs": lambda model: node_of(model).input.extend(["x", "x", "x"]),
    "no inputs": lambda model: node_of(model).ClearField("input"),
    "too many outputs": lambda model: node_of(model).output.append("more"),
    "no outputs": lambda model: node_of(model).ClearField("output"),
    "nodes out of order": lambda model: model.graph.node.reverse(),
    "output twice": lambda model: model.graph.node.append(node_of(model)),
    "output of nobody": lambda model: setattr(model.graph.output[0], "name", "elsewhere"),
    "unknown attribute": lambda model: node_of(model).attribute.append(helper.make_attribute("depth", 2)),
    "attribute of the wrong type": lambda model: node_of(model).attribute.append(helper.make_attribute("axis", 0.5)),
    "attribute twice": lambda model: node_of(model).attribute.extend([helper.make_attribute("axis", 0)] * 2),
    "attribute of no function": lambda model: node_of(model).attribute.append(
        onnx.AttributeProto(name="axis", type=onnx.AttributeProto.INT, ref_attr_name="k")
    ),
    "input without a type": lambda model: model.graph.input[0].ClearField("type"),
    "input of an unknown type": lambda model: setattr(model.graph.input[0].type.tensor_type, "elem_type", 99),
    "input twice": lambda model: model.graph.input.append(model.graph.input[0]),
    "initializer of an unknown type": lambda model: model.graph.initializer.append(
        TensorProto(name="w", dims=[1], data_type=99, raw_data=b"0000")
    ),
    "initializer with too few bytes": lambda model: model.graph.initializer.append(
        TensorProto(name="w", dims=[100], data_type=TensorProto.FLOAT, raw_data=b"0000")
    ),
    "initializer of a negative length": lambda model: model.graph.initializer.append(
        TensorProto(name="w", dims=[-1], data_type=TensorProto.FLOAT, raw_data=b"0000")
    ),
    "sparse initializer that holds more than it can": declare_sparse,
    "functions of one name": lambda model: model.functions.extend(
        [helper.make_function("local", "f", ["x"], ["y"], [], [helper.make_opsetid("", 18)])] * 2
    ),
}


@pytest.mark.parametrize("change", MALFORMED)
def test_malformed_model_is_refused_before_it_runs(change):
    model = with_change(MALFORMED[change])
    with pytest.raises((TypeError, ValueError)) as caught:
        seqarray.onnx.prepare(model)
    assert type(caught.value) in (TypeError, ValueError)


@pytest.mark.parametrize(
    ("change", "mentions"),
    [
        ("unknown operator", ["SplitToNothing"]),
        ("unknown domain", ["of.nobody"]),
        ("unknown input", ["elsewhere"]),
        ("unknown attribute", ["SplitToSequence", "depth"]),
        ("attribute of the wrong type", ["SplitToSequence", "axis"]),
        ("opset from the future", ["9999"]),
        ("initializer with too few bytes", ["w"]),
    ],
)
def test_error_about_a_malformed_model_names_the_place(change, mentions):
    model = with_change(MALFORMED[change])
    with pytest.raises((TypeError, ValueError)) as caught:
        seqarray.onnx.prepare(model)
    assert all(text in str(caught.value) for text in mentions), str(caught.value)


MORE_OUTPUTS = "a, b, c = Split<num_outputs = 2>(x)"

ABORTING = {
    "graph": f"g (float[4] x) => (float[2] a) {{ {MORE_OUTPUTS} }}",
    "beside an operator of the reference": f"g (float[4] x) => (float[2] a, float[4] y) {{ {MORE_OUTPUTS} "
    "i = Constant<value_ints = [0]>() u = Unsqueeze(x, i) y = Hardmax(u) }",
    "body": "g (float[4] x) => (float[2] y) { t = Constant<value = bool {1}>() y = If(t)<"
    f"then_branch = yes () => (float[2] a) {{ {MORE_OUTPUTS} }}, "
    f"else_branch = no () => (float[2] d) {{ d, e, f = Split<num_outputs = 2>(x) }}> }}",
    "function": 'g (float[4] x) => (float[2] y) { y = local.f(x) } <domain: "local", opset_import: ["": 18]> '
    f"f (x) => (a) {{ {MORE_OUTPUTS} }}",
}


@pytest.mark.parametrize("place", ABORTING)
def test_more_outputs_than_split_makes_do_not_abort_python(place):
    """The shape inference of onnx aborts the process on these."""
    code = """
import sys, numpy as np, onnx, seqarray as sa
try:
    sa.onnx.prepare(onnx.parser.parse_model(sys.argv[1])).run([np.ones(4, dtype=np.float32)])
except ValueError as error:
    print("refused:", error)
"""
    output = output_of(code, f'<ir_version: 10, opset_import: ["": 18, "local": 1]> {ABORTING[place]}')
    assert output.startswith("refused:")
    assert "Split" in output


# Nesting


def nested_ifs(depth):
    """A model of an If inside an If, and so on."""
    model = text_model("agraph (bool c, float[N] x) => (float[N] y0) {}")
    graph = model.graph
    for level in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=[f"y{level}"])
        then_branch, else_branch = (
            node.attribute.add(name=name, type=onnx.AttributeProto.GRAPH).g for name in ("then_branch", "else_branch")
        )
        else_branch.CopyFrom(identity_graph("else", f"z{level}"))
        then_branch.name = f"then {level}"
        then_branch.output.append(helper.make_tensor_value_info(f"y{level + 1}", TensorProto.FLOAT, [None]))
        graph = then_branch
    graph.node.add(op_type="Neg", input=["x"], output=[f"y{depth}"])
    return model


def identity_graph(name, output):
    node = helper.make_node("Identity", ["x"], [output])
    return helper.make_graph([node], name, [], [helper.make_tensor_value_info(output, TensorProto.FLOAT, [None])])


def field(number, content):
    """A field of a protobuf message that holds bytes: the tag, the length, and the bytes."""
    length, lengths = len(content), []
    while length > 127:
        lengths.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 & 127 | 2, *lengths, length]) + content


def nested_bytes(depth):
    """The file of a model of an If inside an If, and so on, deeper than protobuf would write."""
    graph = field(2, b"g")
    for _ in range(depth):
        graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph)))
    return text_model(PARTS).SerializeToString() + field(7, graph)


@pytest.mark.parametrize("place", [b"value_x", b"value_y", b"value_s", b"SplitToSequence", b"agraph", b"axis"])
def test_names_that_are_no_text_are_refused_by_name(place):
    text = "agraph (float[N] value_x) => (float[M] value_y) { value_s = SplitToSequence(value_x) value_y = "
    content = text_model(text + "ConcatFromSequence<axis = 0>(value_s) }").SerializeToString()
    damaged = content.replace(place, b"\xff" + place[1:])
    assert damaged != content
    with pytest.raises(ValueError, match=r"(?i)(node \d|prepare).*utf-8"):
        seqarray.onnx.prepare(damaged)


def test_nesting_of_some_depth_runs():
    (output,) = seqarray.onnx.prepare(nested_ifs(12)).run([np.asarray(True), floats(1)])
    sa.testing.assert_arrays_equal(output, floats(-1))
    (output,) = seqarray.onnx.prepare(nested_ifs(12).SerializeToString()).run([np.asarray(False), floats(1)])
    sa.testing.assert_arrays_equal(output, floats(1))


@pytest.mark.parametrize("depth", [60, 1000])
def test_nesting_without_end_is_refused(depth):
    model = nested_ifs(depth)
    refuses(ValueError, lambda: seqarray.onnx.prepare(model))


@pytest.mark.parametrize("depth", [60, 5000])
def test_nesting_without_end_in_a_file_is_refused(depth):
    content = nested_bytes(depth)
    refuses(ValueError, lambda: seqarray.onnx.prepare(content))


def chain_of_functions(count, calls):
    """A model whose functions each call the one before, several times."""
    body = " ".join(f"y{i + 1} = local.f{{}}(y{i})" for i in range(calls))
    functions = ['<domain: "local", opset_import: ["": 18]> f0 (y0) => (y) { y = Neg(y0) }']
    functions += [
        f'<domain: "local", opset_import: ["": 18, "local": 1]> f{n} (y0) => (y{calls}) {{ '
        f"{body.replace('{}', str(n - 1))} }}"
        for n in range(1, count)
    ]
    graph = f"agraph (float[N] x) => (float[N] y) {{ y = local.f{count - 1}(x) }}"
    return text_model("\n".join([graph, *functions]), imports=', "local": 1')


def test_short_chain_of_functions_runs():
    (output,) = seqarray.onnx.prepare(chain_of_functions(9, 2)).run([floats(1)])
    sa.testing.assert_arrays_equal(output, floats(1))


@pytest.mark.parametrize(("count", "calls"), [(3000, 1), (60, 2)], ids=["long", "doubling"])
def test_functions_that_expand_without_end_are_refused(count, calls, tmp_path):
    onnx.save(chain_of_functions(count, calls), tmp_path / "model.onnx")
    code = """
import sys, seqarray as sa
try:
    sa.onnx.prepare(sys.argv[1])
except ValueError as error:
    print("refused:", error)
"""
    assert output_of(code, tmp_path / "model.onnx").startswith("refused:")


# Domains and names


@pytest.mark.parametrize("imported", ["", "ai.onnx"])
@pytest.mark.parametrize("used", ["", "ai.onnx"])
def test_the_default_domain_has_two_names(imported, used):
    model = text_model(PARTS)
    model.opset_import[0].domain = imported
    for node in model.graph.node:
        node.domain = used
    assert len(seqarray.onnx.prepare(model).run([floats(1, 2)])[0]) == 2


def test_domains_that_are_imported_and_not_used_do_not_matter():
    model = text_model(PARTS, imports=', "of.somebody": 3, "ai.onnx.ml": 3')
    assert len(seqarray.onnx.prepare(model).run([floats(1, 2)])[0]) == 2


# Initializers


WITH_WEIGHT = (
    "agraph (float[N] x) => (float[M] y, float[2] w2) <float[2] w = {1, 2}> { y = Add(x, w) w2 = Identity(w) }"
)


@on_all
def test_initializers(backend):
    assert_gives(text_model(WITH_WEIGHT), [floats(10, 20)], [floats(11, 22), floats(1, 2)], backend)


def test_initializer_of_an_input_is_its_default():
    model = text_model("agraph (float[N] x, float[M] w) => (float[M] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    program = seqarray.onnx.prepare(model)
    for inputs, expected in [
        ([floats(10, 20)], floats(11, 22)),
        ([floats(10, 20), floats(0, 1)], floats(10, 21)),
        ({"x": floats(10, 20)}, floats(11, 22)),
        ({"w": floats(0, 1), "x": floats(10, 20)}, floats(10, 21)),
    ]:
        sa.testing.assert_arrays_equal(program.run(inputs)[0], expected)


@on_all
def test_initializer_as_graph_output(backend):
    model = text_model("agraph () => (float[2] w) <float[2] w = {1, 2}> {}")
    assert_gives(model, [], [floats(1, 2)], backend)


@on_all
def test_graph_input_as_graph_output(backend):
    model = text_model("agraph (float[N] x, seq(float[]) s) => (float[N] x, seq(float[]) s) {}")
    assert_gives(model, [floats(1), [floats(2)]], [floats(1), [floats(2)]], backend)


@pytest.mark.parametrize("form", ["raw", "typed"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint16", "int64", "bool", "complex64"])
def test_initializers_of_every_storage(dtype, form):
    array = np.asarray([0, 1, 3]).astype(dtype)
    tensor = onnx.numpy_helper.from_array(array, "w")
    if form == "typed":
        values = array.view("u2").tolist() if dtype == "float16" else array.tolist()
        tensor = helper.make_tensor("w", tensor.data_type, array.shape, values if dtype != "float16" else array)
    model = text_model("agraph () => (float[3] y) { y = Identity(w) }")
    model.graph.output[0].type.tensor_type.elem_type = tensor.data_type
    model.graph.initializer.append(tensor)
    sa.testing.assert_arrays_equal(seqarray.onnx.prepare(model).run([])[0], array)


def test_initializer_of_text():
    model = text_model("agraph () => (seq(string[]) s) { s = SplitToSequence(w) }")
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.STRING, [2], ["één", "zwei"]))
    (output,) = seqarray.onnx.prepare(model).run([])
    sa.testing.assert_sequences_equal(output, [np.asarray(["één"], dtype=object), np.asarray(["zwei"], dtype=object)])


CONSTANTS = {
    "value": (floats([1, 2], [3, 4]), "value = float[2, 2] {1, 2, 3, 4}"),
    "value_int": (integer(-3), "value_int = -3"),
    "value_ints": (np.asarray([4, 5], dtype=np.int64), "value_ints = [4, 5]"),
    "value_float": (np.asarray(0.5, dtype=np.float32), "value_float = 0.5"),
    "value_floats": (floats(1, 2), "value_floats = [1.0, 2.0]"),
    "value_string": (np.asarray("a b", dtype=object), 'value_string = "a b"'),
    "value_strings": (np.asarray(["a", "", "c"], dtype=object), 'value_strings = ["a", "", "c"]'),
}


@pytest.mark.parametrize("backend", ["numpy", "torch"], indirect=True)
@pytest.mark.parametrize("attribute", CONSTANTS)
def test_constants(attribute, backend):
    array, text = CONSTANTS[attribute]
    backend.array(array)  # skips the test where the backend cannot hold it
    model = text_model(f"agraph () => (float[N] y) {{ y = Constant<{text}>() }}")
    model.graph.output[0].type.CopyFrom(
        helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
    )
    assert_gives(model, [], [array], backend)


@pytest.mark.parametrize("attributes", ["", "<value_int = 1, value_float = 2.0>"], ids=["none", "two"])
def test_constant_of_no_or_several_values_is_refused(attributes):
    model = text_model(f"agraph () => (int64 y) {{ y = Constant{attributes}() }}")
    refuses(ValueError, lambda: seqarray.onnx.prepare(model), "Constant")


@on_all
@pytest.mark.parametrize(
    ("attributes", "part"), [("start = 0", slice(3)), ("start = 1", slice(1, None)), ("end = -1", slice(2))]
)
def test_shapes_and_parts_of_them(attributes, part, backend):
    model = text_model(f"agraph (float[A, B, C] x) => (int64[N] y) {{ y = Shape<{attributes}>(x) }}")
    assert_gives(model, [np.ones((2, 0, 3), dtype=np.float32)], [np.asarray([2, 0, 3], dtype=np.int64)[part]], backend)


# External data


@pytest.fixture
def external(tmp_path):
    """A model below a folder whose weight [1, 2] lies in a file of its own, as a function of that file's location."""
    folder = tmp_path / "models"
    (folder / "inner").mkdir(parents=True)
    weights = floats(1, 2).tobytes()
    for place in (folder / "weights.bin", folder / "inner" / "weights.bin", tmp_path / "weights.bin"):
        place.write_bytes(weights)

    def model(location, **fields):
        made = text_model("agraph (float[N] x) => (float[M] y) { y = Add(x, w) }")
        tensor = made.graph.initializer.add(name="w", dims=[2], data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **fields}.items():
            tensor.external_data.add(key=key, value=str(value))
        (folder / "model.onnx").write_bytes(made.SerializeToString())
        return folder / "model.onnx"

    return model


@pytest.mark.parametrize("location", ["weights.bin", "inner/weights.bin", "./weights.bin"])
@pytest.mark.parametrize("fields", [{}, {"offset": 0, "length": 8}])
def test_external_data_below_the_folder_of_the_model(external, location, fields):
    (output,) = seqarray.onnx.prepare(external(location, **fields)).run([floats(10, 20)])
    sa.testing.assert_arrays_equal(output, floats(11, 22))


def test_external_data_of_a_path_in_another_working_directory(external, monkeypatch):
    path = external("weights.bin")
    monkeypatch.chdir(path.parent)
    (output,) = seqarray.onnx.prepare("model.onnx").run([floats(10, 20)])
    sa.testing.assert_arrays_equal(output, floats(11, 22))


def test_external_data_is_read_once(external):
    path = external("weights.bin")
    program = seqarray.onnx.prepare(path)
    (path.parent / "weights.bin").write_bytes(bytes(8))
    sa.testing.assert_arrays_equal(program.run([floats(0, 0)])[0], floats(1, 2))


@pytest.mark.parametrize(
    "location", ["../weights.bin", "inner/../../weights.bin", "{absolute}", "", "missing.bin", "inner"]
)
def test_external_data_elsewhere_is_refused(external, location, tmp_path):
    path = external(location.replace("{absolute}", str(tmp_path / "models" / "weights.bin")))
    refuses(ValueError, lambda: seqarray.onnx.prepare(path), "w")


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_external_data_behind_a_link_out_of_the_folder_is_refused(external, linked, tmp_path):
    if linked == "file":
        (tmp_path / "models" / "link.bin").symlink_to(tmp_path / "weights.bin")
        path = external("link.bin")
    else:
        (tmp_path / "models" / "link").symlink_to(tmp_path)
        path = external("link/weights.bin")
    refuses(ValueError, lambda: seqarray.onnx.prepare(path), "w")


@pytest.mark.parametrize(
    "fields",
    [{"offset": 4}, {"offset": 100}, {"length": 9}, {"length": 4}, {"offset": -4}, {"length": -1}, {"offset": "x"}],
    ids=str,
)
def test_external_data_of_wrong_bounds_is_refused(external, fields):
    path = external("weights.bin", **fields)
    refuses(ValueError, lambda: seqarray.onnx.prepare(path), "w")


@pytest.mark.parametrize("form", [onnx.ModelProto.FromString, bytes])
def test_external_data_of_a_model_without_a_folder_is_refused(external, form, monkeypatch):
    path = external("weights.bin")
    monkeypatch.chdir(path.parent)  # not even from here
    refuses(ValueError, lambda: seqarray.onnx.prepare(form(path.read_bytes())), "w")


def test_external_data_of_a_constant_inside_a_graph(external):
    path = external("../weights.bin")
    model = onnx.ModelProto.FromString(path.read_bytes())
    inner = text_model("agraph (bool c, float[2] x) => (float[2] y) { y = Neg(x) }")
    constant = helper.make_node("Constant", [], ["k"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(model.graph.initializer[0])
    body = helper.make_graph([constant], "g", [], [helper.make_tensor_value_info("k", 1, [2])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    inner.graph.ClearField("node")
    inner.graph.node.append(node)
    path.write_bytes(inner.SerializeToString())
    refuses(ValueError, lambda: seqarray.onnx.prepare(path))
    path.write_bytes(inner.SerializeToString().replace(b"../weights.bin", b"./weightsk.bin"))
    (path.parent / "weightsk.bin").write_bytes(floats(5, 6).tobytes())
    (output,) = seqarray.onnx.prepare(path).run([np.asarray(True), floats(0, 0)])
    sa.testing.assert_arrays_equal(output, floats(5, 6))
