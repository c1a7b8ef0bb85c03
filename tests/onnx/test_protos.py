"""Values as TensorProto, SequenceProto and OptionalProto, and these as inputs of programs."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import seqarray as sa
from seqarray._dtypes import ONNX_TYPES
from seqarray.testing import assert_arrays_equal, assert_sequences_equal, to_numpy
from tests.onnx.helpers import floats, refuses, text_model


def values_of(element_type, count=6):
    if element_type == "string":
        return np.asarray([f"é{i}" for i in range(count)], dtype=object)
    return np.arange(count).astype(sa.sequence_empty(element_type, xp="numpy").dtype)


@pytest.mark.parametrize("element_type", ONNX_TYPES)
def test_values_of_every_type_and_library_come_back(element_type, backend):
    if not backend.holds(element_type):
        pytest.skip(f"{backend.name} cannot hold {element_type}")
    values = values_of(element_type)
    matrix, one = backend.array(values.reshape(2, 3)), backend.array(values[1:2].reshape(()))
    proto = sa.onnx.to_proto(matrix, "m")
    assert (type(proto), proto.name) == (onnx.TensorProto, "m")
    assert_arrays_equal(sa.onnx.from_proto(proto), to_numpy(matrix))
    for sequence in ([matrix, one], sa.ArraySequence([one])):
        proto = sa.onnx.to_proto(sequence)
        assert (type(proto), proto.elem_type, proto.name) == (onnx.SequenceProto, onnx.SequenceProto.TENSOR, "")
        assert_sequences_equal(sa.onnx.from_proto(proto), [to_numpy(element) for element in sequence])


def test_protos_are_those_of_onnx():
    x, parts = floats(1, 2), [floats(1), floats(2, 3)]
    assert sa.onnx.to_proto(x, "x") == numpy_helper.from_array(x, "x")
    assert_sequences_equal(sa.ArraySequence(numpy_helper.to_list(sa.onnx.to_proto(parts, "s"))), parts)
    assert_sequences_equal(sa.onnx.from_proto(numpy_helper.from_list(parts, "s")), parts)
    for value in (x, parts, None):
        optional = numpy_helper.from_optional(value, "o")
        read = sa.onnx.from_proto(optional)
        assert read is None if value is None else len(read) == len(value)
    assert numpy_helper.to_optional(sa.onnx.to_proto(None)) is None


def test_an_empty_sequence_of_no_type_is_of_float32():
    proto = sa.onnx.to_proto(sa.sequence_empty("int64"))
    assert len(proto.tensor_values) == 0
    assert sa.onnx.from_proto(proto).element_type == "float32"


def test_what_is_no_value_is_refused():
    refuses(TypeError, lambda: sa.onnx.to_proto({}), "to_proto")
    refuses(TypeError, lambda: sa.onnx.to_proto([1]), "to_proto", "element 0")
    refuses(TypeError, lambda: sa.onnx.to_proto(np.zeros(1, "M8[s]")), "to_proto", "datetime64")
    refuses(TypeError, lambda: sa.onnx.to_proto(np.asarray([1, "a"], dtype=object)), "to_proto", "holds 1")
    refuses(TypeError, lambda: sa.onnx.from_proto(np.zeros(1)), "from_proto", "ndarray")
    refuses(TypeError, lambda: sa.onnx.from_proto(onnx.ModelProto()), "from_proto", "ModelProto")
    mixed = onnx.SequenceProto(tensor_values=[numpy_helper.from_array(np.zeros(1, t)) for t in ("f4", "f8")])
    refuses(TypeError, lambda: sa.onnx.from_proto(mixed), "from_proto", "element 1")


def test_messages_that_hold_something_else_are_refused():
    nested = onnx.SequenceProto(name="n", elem_type=onnx.SequenceProto.SEQUENCE, sequence_values=[onnx.SequenceProto()])
    refuses(ValueError, lambda: sa.onnx.from_proto(nested), "'n'", "SEQUENCE")
    sparse = onnx.OptionalProto(name="o", elem_type=onnx.OptionalProto.SPARSE_TENSOR)
    refuses(ValueError, lambda: sa.onnx.from_proto(sparse), "'o'", "SPARSE_TENSOR")
    short = onnx.TensorProto(name="t", data_type=1, dims=[1 << 40], raw_data=b"1234")
    refuses(ValueError, lambda: sa.onnx.from_proto(short), "'t'", "holds 4")
    elsewhere = onnx.TensorProto(name="t", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    refuses(ValueError, lambda: sa.onnx.from_proto(elsewhere), "'t'", "file")


KINDS = """agraph (float[N] x, seq(float[M]) s, seq(int64[M]) e, optional(float[N]) p)
    => (float[N] y, seq(float[M]) t, seq(int64[M]) f, optional(float[N]) q) {
    y = Neg(x) t = Identity(s) f = Identity(e) q = Identity(p)
}"""


@pytest.mark.parametrize("backend", ["numpy", "torch"], indirect=True)
def test_programs_take_protos_as_inputs(backend):
    program = sa.onnx.prepare(text_model(KINDS), xp=backend.xp)
    parts = [floats(1), floats(2, 3)]
    values = {"x": floats(1, 2), "s": parts, "e": sa.sequence_empty("int64"), "p": None}
    for optional in (None, floats(5)):
        protos = {name: sa.onnx.to_proto(value, name) for name, value in values.items()}
        protos["p"] = numpy_helper.from_optional(optional, "p")
        for inputs in (protos, list(protos.values())):
            y, t, f, q = program.run(inputs)
            assert_arrays_equal(y, backend.array(floats(-1, -2)))
            assert_sequences_equal(t, [backend.array(part) for part in parts])
            assert (len(f), f.element_type) == (0, "int64")
            assert q is None if optional is None else q.tolist() == [5]


def test_protos_that_do_not_fit_are_refused():
    program = sa.onnx.prepare(text_model("agraph (float[N] x) => (float[N] y) { y = Neg(x) }"))
    refuses(TypeError, lambda: program.run([sa.onnx.to_proto(np.zeros(1))]), "input 'x'", "float64")
    refuses(TypeError, lambda: program.run([sa.onnx.to_proto([floats(1)])]), "input 'x'")
    short = onnx.TensorProto(data_type=1, dims=[2], raw_data=b"1234")
    refuses(ValueError, lambda: program.run([short]), "input 'x'", "holds 4")


def test_programs_take_what_was_loaded(tmp_path):
    program = sa.onnx.prepare(text_model(KINDS))
    sa.save(tmp_path / "in.npz", x=floats(1, 2), s=[floats(1), floats(2, 3)], e=sa.sequence_empty("int64"), p=None)
    outputs = program.run(sa.load(tmp_path / "in.npz"))
    names = [output.name for output in program.outputs]
    sa.save(tmp_path / "out.npz", **dict(zip(names, outputs, strict=True)))
    y, t, f, q = sa.load(tmp_path / "out.npz").values()
    assert_arrays_equal(y, floats(-1, -2))
    assert_sequences_equal(t, [floats(1), floats(2, 3)])
    assert (len(f), f.element_type, q) == (0, "int64", None)


def test_errors_name_the_function_and_the_element():
    short = onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[3], raw_data=b"1234")
    whole = onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[1], raw_data=b"1234")
    refuses(ValueError, lambda: sa.onnx.from_proto(short), "from_proto: tensor ''", "(3,)", "12", "4")
    several = onnx.SequenceProto(name="s", elem_type=onnx.SequenceProto.TENSOR, tensor_values=[whole, short])
    refuses(ValueError, lambda: sa.onnx.from_proto(several), "from_proto: sequence 's': element 1", "(3,)")
    outside = onnx.TensorProto(name="t", data_type=onnx.TensorProto.FLOAT, dims=[1], data_location=1)
    outside.external_data.add(key="location", value="data.bin")
    refuses(ValueError, lambda: sa.onnx.from_proto(outside), "from_proto: tensor 't'", "'data.bin'", "path")
