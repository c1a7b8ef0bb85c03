"""Tensors in other files, wherever they are in a model: read from its folder alone, or refused."""

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import seqarray as sa
import seqarray.onnx
from tests.onnx.helpers import floats, refuses

FLOAT = TensorProto.FLOAT


def outside(location="weights.bin", dtype=FLOAT, dims=(2,), **fields):
    """A tensor whose data is in a file."""
    tensor = TensorProto(name="k", data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **fields}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def declared(name, shape=(2,)):
    return helper.make_tensor_value_info(name, FLOAT, list(shape))


def model_of(nodes, *, functions=(), initializers=()):
    graph = helper.make_graph(nodes, "g", [declared("x", [1, 2])], [declared("y", [None, None])], list(initializers))
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 4), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def constant(tensor, name="value"):
    return helper.make_node("Constant", [], ["k"], **{name: tensor})


def in_scan(tensor):
    body = helper.make_graph(
        [constant(tensor), helper.make_node("Max", ["item", "k"], ["r"])], "b", [declared("item")], [declared("r")]
    )
    return model_of([helper.make_node("Scan", ["x"], ["y"], num_scan_inputs=1, body=body)])


def in_a_scan_initializer(tensor):
    body = helper.make_graph(
        [helper.make_node("Max", ["item", "k"], ["r"])], "b", [declared("item")], [declared("r")], [tensor]
    )
    return model_of([helper.make_node("Scan", ["x"], ["y"], num_scan_inputs=1, body=body)])


def in_a_branch_in_a_loop(tensor):
    inner = helper.make_graph([constant(tensor)], "i", [], [declared("k")])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("If", ["go"], ["p"], then_branch=inner, else_branch=inner),
            helper.make_node("Max", ["v", "p"], ["w"]),
        ],
        "b",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", 9, []),
            declared("v", [1, 2]),
        ],
        [helper.make_tensor_value_info("on", 9, []), declared("w", [1, 2])],
    )
    count = numpy_helper.from_array(np.asarray(1), "n")
    return model_of([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], initializers=[count])


def in_a_function(tensor):
    nodes = [constant(tensor), helper.make_node("Max", ["a", "k"], ["b"])]
    function = helper.make_function("local", "f", ["a"], ["b"], nodes, [helper.make_opsetid("", 18)])
    return model_of([helper.make_node("f", ["x"], ["y"], domain="local")], functions=[function])


def in_the_call_of_a_function(tensor):
    node = helper.make_node("Constant", [], ["k"])
    node.attribute.add(name="value", type=AttributeProto.TENSOR, ref_attr_name="t")
    function = helper.make_function(
        "local",
        "f",
        ["a"],
        ["b"],
        [node, helper.make_node("Max", ["a", "k"], ["b"])],
        [helper.make_opsetid("", 18)],
        attributes=["t"],
    )
    return model_of([helper.make_node("f", ["x"], ["y"], domain="local", t=tensor)], functions=[function])


def in_the_default_of_a_function(tensor):
    node = helper.make_node("Constant", [], ["k"])
    node.attribute.add(name="value", type=AttributeProto.TENSOR, ref_attr_name="t")
    function = helper.make_function(
        "local",
        "f",
        ["a"],
        ["b"],
        [node, helper.make_node("Max", ["a", "k"], ["b"])],
        [helper.make_opsetid("", 18)],
        attribute_protos=[helper.make_attribute("t", tensor)],
    )
    return model_of([helper.make_node("f", ["x"], ["y"], domain="local")], functions=[function])


def in_an_attribute(tensor):
    keys, other = (numpy_helper.from_array(array, "keys") for array in (floats(0, 1), floats(7)))
    return model_of(
        [
            helper.make_node(
                "LabelEncoder",
                ["x"],
                ["y"],
                domain="ai.onnx.ml",
                keys_tensor=keys,
                values_tensor=tensor,
                default_tensor=other,
            )
        ]
    )


def sparse(tensor):
    made = onnx.SparseTensorProto(dims=[2])
    made.values.CopyFrom(tensor)
    made.indices.CopyFrom(numpy_helper.from_array(np.arange(2), ""))
    return made


def in_a_sparse_constant(tensor):
    return model_of([constant(sparse(tensor), "sparse_value"), helper.make_node("Max", ["x", "k"], ["y"])])


def in_a_sparse_initializer(tensor):
    model = model_of([helper.make_node("Max", ["x", "k"], ["y"])])
    model.graph.sparse_initializer.append(sparse(tensor))
    return model


def in_an_initializer(tensor):
    return model_of([helper.make_node("Max", ["x", "k"], ["y"])], initializers=[tensor])


PLACES = {
    place.__name__: place
    for place in (
        in_scan,
        in_a_scan_initializer,
        in_a_branch_in_a_loop,
        in_a_function,
        in_the_call_of_a_function,
        in_the_default_of_a_function,
        in_an_attribute,
        in_a_sparse_constant,
        in_a_sparse_initializer,
        in_an_initializer,
    )
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a model; the working directory is another one, with a file of the same name that is a secret."""
    (tmp_path / "model").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "weights.bin").write_bytes(floats(88, 99).tobytes())
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "model"


@pytest.mark.parametrize("place", PLACES)
def test_a_model_without_a_folder_reads_no_file(place, folder):
    model = PLACES[place](outside())
    refuses(ValueError, lambda: seqarray.onnx.prepare(model), "weights.bin", "path")
    refuses(ValueError, lambda: seqarray.onnx.prepare(model.SerializeToString()), "weights.bin", "path")


@pytest.mark.parametrize("place", PLACES)
def test_data_is_read_from_the_folder_of_the_model(place, folder):
    path = folder / "model.onnx"
    path.write_bytes(PLACES[place](outside()).SerializeToString())
    refuses(ValueError, lambda: seqarray.onnx.prepare(path), "weights.bin")
    (folder / "weights.bin").write_bytes(floats(3, 4).tobytes())
    (output,) = seqarray.onnx.prepare(path).run([floats([0, 1])])
    sa.testing.assert_arrays_equal(output, floats([3, 4]))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("location", "fields"),
    [
        ("../here/weights.bin", {}),
        ("{here}/weights.bin", {}),
        ("link.bin", {}),
        ("weights.bin", {"offset": 4}),
        ("weights.bin", {"offset": 1 << 62, "length": 8}),
        ("weights.bin", {"length": 4}),
    ],
)
def test_data_elsewhere_is_refused_anywhere(place, location, fields, folder):
    (folder / "weights.bin").write_bytes(floats(3, 4).tobytes())
    (folder / "link.bin").symlink_to(folder.parent / "here" / "weights.bin")
    path = folder / "model.onnx"
    tensor = outside(location.replace("{here}", str(folder.parent / "here")), **fields)
    path.write_bytes(PLACES[place](tensor).SerializeToString())
    refuses(ValueError, lambda: seqarray.onnx.prepare(path), "tensor 'k'")


def test_data_that_nothing_uses_is_refused_as_well(folder):
    model = model_of([helper.make_node("Neg", ["x"], ["y"])])
    training = model.training_info.add()
    training.algorithm.name = "unused"
    training.algorithm.initializer.append(outside())
    refuses(ValueError, lambda: seqarray.onnx.prepare(model), "weights.bin")


def test_data_counts_before_it_is_read(folder):
    path = folder / "model.onnx"
    (folder / "weights.bin").write_bytes(bytes(1 << 16))
    path.write_bytes(in_an_attribute(outside(dims=[1 << 14])).SerializeToString())
    refuses(ValueError, lambda: seqarray.onnx.prepare(path, max_bytes=1 << 15), "LabelEncoder", "max_bytes")
