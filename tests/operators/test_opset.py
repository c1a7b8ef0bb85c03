"""`opset.run`: its table of operators against the schemas of the onnx package, its checks, and what it passes on."""

from itertools import chain

import ml_dtypes
import numpy as np
import onnx
import onnx.defs
import pytest

import seqarray as sa
from seqarray.opset import _OPERATORS, _REQUIRED, NEWEST_OPSET
from tests.helpers import same_device

X = np.arange(6, dtype=np.float32)
SEQUENCE = [X, X[:2]]

VERSIONS = [(op_type, since) for op_type, versions in sa.opset.supported().items() for since in versions]
SCHEMAS = {
    (schema.name, schema.since_version): schema
    for schema in onnx.defs.get_all_schemas_with_history()
    if schema.domain == "" and schema.name in sa.opset.supported()
}

# Where the table says more than the schemas, on purpose.

#: Defaults that only the text of an operator gives.
DEFAULTS_IN_THE_TEXT = {("Concat", 1, "axis"): 1, ("Split", 1, "axis"): 0, ("SequenceEmpty", 11, "dtype"): 1}
#: bfloat16 is listed for the result of SplitToSequence-24 but for no operator that could take it.
SEQUENCE_OPERATORS = {op_type for op_type, _ in VERSIONS} - {"Split", "Concat"}
#: Split-1 lists sizes of the type of the data, which is a type of floats.
MORE_TYPES = {("Split", 1, "split"): {"int32", "int64"}}


def element_types(schema, type_str):
    """The element types behind a type or a type parameter of a schema, without ``tensor()`` and ``seq()``."""
    by_parameter = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    names = [t.removeprefix("seq(").strip(")").removeprefix("tensor(") for t in by_parameter.get(type_str, [type_str])]
    return {{"float": "float32", "double": "float64"}.get(name, name) for name in names}


def is_sequence(schema, type_str):
    by_parameter = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return by_parameter.get(type_str, [type_str])[0].startswith("seq(")


# The table against the schemas


def test_supported_versions_are_those_of_onnx():
    supported = {op_type: set(versions) for op_type, versions in sa.opset.supported().items()}
    assert supported == {op_type: {since for name, since in SCHEMAS if name == op_type} for op_type in supported}


def test_supported_versions_are_in_rising_order():
    for versions in sa.opset.supported().values():
        assert list(versions) == sorted(versions)


def test_supported_operators_are_the_sequence_family():
    family = "Construct Empty At Insert Erase Length".split()
    assert set(sa.opset.supported()) == {
        *(f"Sequence{name}" for name in family), "ConcatFromSequence", "SplitToSequence", "Split", "Concat"
    }  # fmt: skip


def test_newest_opset_is_one_that_onnx_has():
    assert onnx.defs.onnx_opset_version() >= NEWEST_OPSET


@pytest.mark.parametrize(("op_type", "since"), VERSIONS)
def test_inputs_are_those_of_the_schema(op_type, since):
    version, schema = _OPERATORS[op_type][since], SCHEMAS[op_type, since]
    kinds = onnx.defs.OpSchema.FormalParameterOption
    assert [(i.name, i.optional, i.sequence) for i in version.inputs] == [
        (i.name, i.option == kinds.Optional, is_sequence(schema, i.type_str)) for i in schema.inputs
    ]
    assert version.variadic == any(i.option == kinds.Variadic for i in schema.inputs)
    if version.variadic:
        assert (len(version.inputs), schema.min_input) == (1, 1)


@pytest.mark.parametrize(("op_type", "since"), VERSIONS)
def test_allowed_types_are_those_of_the_schema(op_type, since):
    schema = SCHEMAS[op_type, since]
    for ours, theirs in zip(_OPERATORS[op_type][since].inputs, schema.inputs, strict=True):
        allowed = element_types(schema, theirs.type_str) | MORE_TYPES.get((op_type, since, ours.name), set())
        if op_type in SEQUENCE_OPERATORS and "float32" in allowed:
            allowed |= {"bfloat16"}
        assert set(ours.types) == allowed
        assert len(ours.types) == len(allowed)


@pytest.mark.parametrize(("op_type", "since"), VERSIONS)
def test_attributes_are_those_of_the_schema(op_type, since):
    schema = SCHEMAS[op_type, since]
    ours = _OPERATORS[op_type][since].attributes
    assert set(ours) == set(schema.attributes)
    for name, attribute in schema.attributes.items():
        assert (ours[name] is _REQUIRED) == attribute.required
        assert isinstance(ours[name], list) == (attribute.type == onnx.defs.OpSchema.AttrType.INTS)
        if attribute.default_value.name:
            assert ours[name] == onnx.helper.get_attribute_value(attribute.default_value)
        elif not attribute.required:
            assert (ours[name] or None) == (DEFAULTS_IN_THE_TEXT.get((op_type, since, name)) or None)


@pytest.mark.parametrize(("op_type", "since"), VERSIONS)
def test_outputs_are_those_of_the_schema(op_type, since):
    schema = SCHEMAS[op_type, since]
    assert _OPERATORS[op_type][since].several_outputs == (schema.max_output > 1)
    assert schema.min_output == 1


# Which version runs


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "opset", "since"),
    [
        ("SequenceInsert", [SEQUENCE, X, np.asarray(9)], {}, 11, 11),
        ("SequenceInsert", [SEQUENCE, X, np.asarray(9)], {}, 12, 11),
        ("SequenceInsert", [SEQUENCE, X, np.asarray(9)], {}, NEWEST_OPSET, 11),
        ("Split", [X, np.asarray([9])], {}, 1, 1),
        ("Split", [X], {"split": [9]}, 2, 2),
        ("Split", [X], {"split": [9]}, 10, 2),
        ("Split", [X], {"split": [9]}, 11, 11),
        ("Split", [X], {"split": [9]}, 12, 11),
        ("Split", [X, np.asarray([9])], {}, 13, 13),
        ("Split", [X, np.asarray([9])], {}, 17, 13),
        ("Split", [X, np.asarray([9])], {}, 18, 18),
        ("Split", [X, np.asarray([9])], {}, NEWEST_OPSET, 18),
        ("SplitToSequence", [X, np.asarray(0)], {}, 11, 11),
        ("SplitToSequence", [X, np.asarray(0)], {}, 23, 11),
        ("SplitToSequence", [X, np.asarray(0)], {}, 24, 24),
        ("SplitToSequence", [X, np.asarray(0)], {}, 28, 24),
        ("Concat", [X], {"axis": 9}, 3, 1),
        ("Concat", [X], {"axis": 9}, 4, 4),
        ("Concat", [X], {"axis": 9}, 12, 11),
        ("Concat", [X], {"axis": 9}, NEWEST_OPSET, 13),
    ],
)
def test_the_newest_version_up_to_the_opset_runs(op_type, inputs, attributes, opset, since):
    with pytest.raises((ValueError, IndexError), match=rf"^{op_type}-{since}: "):
        sa.opset.run(op_type, inputs, attributes, opset=opset)


def test_concat_1_joins_along_axis_1_by_default():
    a, b = np.ones((2, 1), np.float32), np.zeros((2, 2), np.float32)
    (joined,) = sa.opset.run("Concat", [a, b], opset=1)
    sa.testing.assert_arrays_equal(joined, np.asarray([[1, 0, 0], [1, 0, 0]], np.float32))


def test_split_1_splits_along_axis_0_by_default():
    parts = sa.opset.run("Split", [X.reshape(2, 3)], opset=1, n_outputs=2)
    sa.testing.assert_sequences_equal(sa.ArraySequence(parts), [X[None, :3], X[None, 3:]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
def test_split_1_takes_sizes_as_floats_and_as_integers(dtype):
    parts = sa.opset.run("Split", [X, np.asarray([2, 4], dtype)], opset=1, n_outputs=2)
    sa.testing.assert_sequences_equal(sa.ArraySequence(parts), [X[:2], X[2:]])


def test_split_before_18_makes_as_many_equal_parts_as_there_are_outputs():
    for opset in (1, 2, 11, 13):
        parts = sa.opset.run("Split", [X], opset=opset, n_outputs=3)
        sa.testing.assert_sequences_equal(sa.ArraySequence(parts), [X[:2], X[2:4], X[4:]])


def test_attributes_that_are_none_are_absent():
    (part,) = sa.opset.run("Split", [X], {"axis": None, "num_outputs": 1}, opset=18)
    sa.testing.assert_arrays_equal(part, X)


def test_optional_inputs_may_be_none():
    (inserted,) = sa.opset.run("SequenceInsert", [SEQUENCE, X, None], opset=11)
    sa.testing.assert_sequences_equal(inserted, [*SEQUENCE, X])
    (chunks,) = sa.opset.run("SplitToSequence", [X[:2], None], {"keepdims": 0}, opset=11)
    sa.testing.assert_sequences_equal(chunks, [np.asarray(0, np.float32), np.asarray(1, np.float32)])


def test_attributes_take_numpy_integers():
    (joined,) = sa.opset.run("Concat", (X, X), {"axis": np.int64(0)}, opset=13)
    sa.testing.assert_arrays_equal(joined, np.concatenate([X, X]))


def test_split_18_gives_the_outputs_that_the_node_declares():
    parts = sa.opset.run("Split", [X], {"num_outputs": 3}, opset=18, n_outputs=2)
    sa.testing.assert_sequences_equal(sa.ArraySequence(parts), [X[:2], X[2:4]])


# Errors


def assert_refused(error, mentions, op_type, inputs=(), attributes=None, *, opset, **options):
    with pytest.raises(error) as caught:
        sa.opset.run(op_type, list(inputs), attributes, opset=opset, **options)
    assert type(caught.value) is error
    missing = [text for text in mentions if text not in str(caught.value)]
    assert not missing, f"{missing} not in {str(caught.value)!r}"
    return str(caught.value)


def test_an_unknown_operator_is_refused_with_those_that_there_are():
    assert_refused(ValueError, ["'Gather'", *sa.opset.supported()], "Gather", [X], opset=13)


@pytest.mark.parametrize(
    ("op_type", "opset", "lowest"),
    [
        ("SequenceAt", 10, 11),
        ("SplitToSequence", 1, 11),
        ("Split", 0, 1),
        ("Concat", -1, 1),
        ("Split", NEWEST_OPSET + 1, 1),
        ("SequenceEmpty", 1000, 11),
    ],
)
def test_an_opset_out_of_range_is_refused_with_the_range(op_type, opset, lowest):
    mentions = [op_type, f"opset is {opset}", f"[{lowest}, {NEWEST_OPSET}]", str(sa.opset.supported()[op_type][-1])]
    assert_refused(ValueError, mentions, op_type, [X], opset=opset)


@pytest.mark.parametrize("opset", ["13", 13.0, None])
def test_an_opset_of_the_wrong_kind_is_refused(opset):
    assert_refused(TypeError, ["Split", "opset", repr(opset)], "Split", [X], opset=opset)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "opset", "mentions"),
    [
        ("Split", [X], {"num_outputs": 2}, 13, ["Split-13", "'num_outputs'", "axis"]),
        ("Split", [X], {"split": [3, 3]}, 13, ["Split-13", "'split'", "axis"]),
        ("SplitToSequence", [X], {"keepdim": 1}, 11, ["SplitToSequence-11", "'keepdim'", "axis", "keepdims"]),
        ("SequenceAt", [SEQUENCE, 0], {"axis": 0}, 11, ["SequenceAt-11", "'axis'"]),
        ("ConcatFromSequence", [SEQUENCE], {"axis": 0, "": 1}, 11, ["ConcatFromSequence-11", "''", "new_axis"]),
    ],
)
def test_an_unknown_attribute_is_refused_with_those_that_there_are(op_type, inputs, attributes, opset, mentions):
    assert_refused(ValueError, mentions, op_type, inputs, attributes, opset=opset)


@pytest.mark.parametrize(
    ("op_type", "inputs", "opset"),
    [
        ("ConcatFromSequence", [SEQUENCE], 11),
        ("Concat", [X], 4),
        ("Concat", [X], 11),
        ("Concat", [X], 13),
    ],
)
@pytest.mark.parametrize("attributes", [None, {}, {"axis": None}])
def test_a_required_attribute_that_is_missing_is_refused(op_type, inputs, opset, attributes):
    assert_refused(ValueError, [f"{op_type}-{opset}", "'axis'", "required"], op_type, inputs, attributes, opset=opset)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "opset", "mentions"),
    [
        ("Concat", [X], {"axis": "0"}, 13, ["Concat-13", "axis", "'0'", "integer"]),
        ("Concat", [X], {"axis": 0.0}, 13, ["Concat-13", "axis", "0.0", "integer"]),
        ("Concat", [X], {"axis": [0]}, 13, ["Concat-13", "axis", "[0]", "integer"]),
        ("Split", [X], {"split": 2}, 11, ["Split-11", "split", "2", "list of integers"]),
        ("Split", [X], {"split": "24"}, 2, ["Split-2", "split", "'24'", "list of integers"]),
        ("Split", [X], {"split": [2, 4.0]}, 11, ["Split-11", "split[1]", "4.0", "integer"]),
        ("SequenceEmpty", [], {"dtype": "float32"}, 11, ["SequenceEmpty-11", "dtype", "'float32'", "integer"]),
        ("SplitToSequence", [X], {"keepdims": "yes"}, 24, ["SplitToSequence-24", "keepdims", "'yes'"]),
    ],
)
def test_an_attribute_of_the_wrong_kind_is_refused(op_type, inputs, attributes, opset, mentions):
    assert_refused(TypeError, mentions, op_type, inputs, attributes, opset=opset)


@pytest.mark.parametrize(
    ("op_type", "attributes", "mentions"),
    [
        ("SplitToSequence", {"keepdims": 2}, ["keepdims is 2", "0 or 1"]),
        ("SequenceEmpty", {"dtype": 17}, ["dtype is 17 (float8_e4m3fn)", "1 (float32)"]),
        ("SequenceEmpty", {"dtype": 99}, ["dtype is 99", "1 (float32)"]),
        ("Split", {"num_outputs": 0}, ["num_outputs is 0"]),
    ],
)
def test_an_attribute_of_a_wrong_value_is_refused(op_type, attributes, mentions):
    inputs = [] if op_type == "SequenceEmpty" else [X]
    assert_refused(ValueError, mentions, op_type, inputs, attributes, opset=18)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "opset", "mentions"),
    [
        ("SequenceEmpty", [X], {}, 11, ["SequenceEmpty-11", "1 inputs", "expected 0"]),
        ("SequenceLength", [], {}, 11, ["SequenceLength-11", "0 inputs", "expected 1 (input_sequence)"]),
        ("SequenceAt", [SEQUENCE], {}, 11, ["SequenceAt-11", "1 inputs", "expected 2 (input_sequence, position)"]),
        ("SequenceAt", [SEQUENCE, 0, 0], {}, 11, ["SequenceAt-11", "3 inputs", "expected 2"]),
        ("SequenceInsert", [SEQUENCE], {}, 11, ["SequenceInsert-11", "1 inputs", "expected 2 to 3", "[position]"]),
        ("SequenceInsert", [SEQUENCE, X, 0, 0], {}, 11, ["SequenceInsert-11", "4 inputs", "expected 2 to 3"]),
        ("Split", [X, np.asarray([6])], {}, 11, ["Split-11", "2 inputs", "expected 1 (input)"]),
        ("Split", [X, np.asarray([6]), None], {}, 13, ["Split-13", "3 inputs", "expected 1 to 2", "[split]"]),
        ("Concat", [], {"axis": 0}, 13, ["Concat-13", "0 inputs", "at least 1", "inputs"]),
        ("SequenceConstruct", [], {}, 11, ["SequenceConstruct-11", "0 inputs", "at least 1", "inputs"]),
    ],
)
def test_a_wrong_number_of_inputs_is_refused_with_what_is_expected(op_type, inputs, attributes, opset, mentions):
    assert_refused(ValueError, mentions, op_type, inputs, attributes, opset=opset)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "opset", "mentions"),
    [
        ("SequenceAt", [SEQUENCE, None], {}, 11, ["SequenceAt-11", "input 1 (position)"]),
        ("SequenceAt", [None, 0], {}, 11, ["SequenceAt-11", "input 0 (input_sequence)"]),
        ("SequenceInsert", [SEQUENCE, None, 0], {}, 11, ["SequenceInsert-11", "input 1 (tensor)"]),
        ("Split", [None], {}, 18, ["Split-18", "input 0 (input)"]),
        ("Concat", [X, None], {"axis": 0}, 13, ["Concat-13", "input 1 (inputs)"]),
        ("SequenceConstruct", [X, X, None], {}, 11, ["SequenceConstruct-11", "input 2 (inputs)"]),
    ],
)
def test_none_for_a_required_input_is_refused(op_type, inputs, attributes, opset, mentions):
    assert_refused(ValueError, [*mentions, "not optional"], op_type, inputs, attributes, opset=opset)


def test_inputs_are_a_list_or_tuple():
    for inputs in (X, iter([X]), {"input": X}):
        with pytest.raises(TypeError, match=f"^Split-18: inputs .*{type(inputs).__name__}"):
            sa.opset.run("Split", inputs, opset=18)


INT64 = np.arange(6)
INT32_SIZES = np.asarray([2, 4], np.int32)
BFLOAT16 = np.zeros(6, ml_dtypes.bfloat16)
FLOAT8 = np.zeros(6, ml_dtypes.float8_e5m2)
DATES = np.zeros(6, "datetime64[ns]")
RECORDS = np.zeros(6, [("a", np.int8)])
BYTES = np.asarray([b"a"])


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "opset", "mentions"),
    [
        (
            "Split",
            [INT64],
            {},
            1,
            ["input 0 (input)", "tensor(int64)", "tensor(float16), tensor(float), tensor(double)"],
        ),
        ("Concat", [X, INT64], {}, 1, ["input 1 (inputs)", "tensor(int64)", "tensor(float)"]),
        ("Split", [BFLOAT16], {}, 2, ["input 0 (input)", "tensor(bfloat16)", "tensor(float)"]),
        ("Split", [BFLOAT16], {}, 11, ["input 0 (input)", "tensor(bfloat16)", "tensor(float)"]),
        ("Concat", [BFLOAT16], {"axis": 0}, 4, ["input 0 (inputs)", "tensor(bfloat16)", "tensor(float)"]),
        ("Concat", [BFLOAT16], {"axis": 0}, 11, ["input 0 (inputs)", "tensor(bfloat16)", "tensor(float)"]),
        ("Split", [X, INT32_SIZES], {}, 13, ["input 1 (split)", "tensor(int32)", "tensor(int64)"]),
        ("Split", [X, INT32_SIZES], {}, 18, ["input 1 (split)", "tensor(int32)", "tensor(int64)"]),
        ("Split", [X, INT32_SIZES.astype("uint64")], {}, 18, ["input 1 (split)", "tensor(uint64)", "tensor(int64)"]),
        ("Split", [X, np.asarray([2.0, 4.0])], {}, 13, ["input 1 (split)", "tensor(double)", "tensor(int64)"]),
        ("Split", [X, np.asarray([True])], {}, 1, ["input 1 (split)", "tensor(bool)", "tensor(int64)"]),
        ("SplitToSequence", [X, INT32_SIZES.astype("int16")], {}, 11, ["input 1 (split)", "tensor(int16)"]),
        ("SequenceAt", [SEQUENCE, np.asarray(0.0)], {}, 11, ["input 1 (position)", "tensor(double)", "tensor(int32)"]),
        ("SequenceAt", [SEQUENCE, np.asarray(True)], {}, 11, ["input 1 (position)", "tensor(bool)", "tensor(int64)"]),
        ("SequenceErase", [SEQUENCE, np.uint64(0)], {}, 11, ["input 1 (position)", "tensor(uint64)", "tensor(int64)"]),
        ("SplitToSequence", [FLOAT8], {}, 24, ["input 0 (input)", "tensor(float8e5m2)", "tensor(bfloat16)"]),
        ("SequenceInsert", [SEQUENCE, DATES], {}, 11, ["input 1 (tensor)", "datetime64[ns]", "tensor(float)"]),
        ("SequenceAt", [[DATES], 0], {}, 11, ["input 0 (input_sequence)", "datetime64[ns]", "seq(tensor(float))"]),
        ("Concat", [DATES], {"axis": 0}, 13, ["input 0 (inputs)", "datetime64[ns]", "tensor(float)"]),
        ("Split", [RECORDS], {}, 18, ["input 0 (input)", "'a'", "i1", "tensor(float)"]),
        ("SequenceConstruct", [BYTES], {}, 11, ["input 0 (inputs)", "bytes", "tensor(string)"]),
    ],
)
def test_a_type_outside_the_list_of_the_version_is_refused_with_the_list(op_type, inputs, attributes, opset, mentions):
    since = max(version for version in sa.opset.supported()[op_type] if version <= opset)
    assert_refused(TypeError, [f"{op_type}-{since}", *mentions], op_type, inputs, attributes, opset=opset)


@pytest.mark.parametrize("opset", [13, 18])
def test_split_takes_bfloat16_from_13(opset):
    attributes = {"num_outputs": 1} if opset == 18 else {}
    (part,) = sa.opset.run("Split", [BFLOAT16], attributes, opset=opset)
    sa.testing.assert_arrays_equal(part, BFLOAT16)


def test_concat_takes_bfloat16_from_13():
    (joined,) = sa.opset.run("Concat", [BFLOAT16, BFLOAT16], {"axis": 0}, opset=13)
    sa.testing.assert_arrays_equal(joined, np.zeros(12, ml_dtypes.bfloat16))


def test_every_sequence_operator_takes_bfloat16():
    def run(op_type, *inputs, **attributes):
        (output,) = sa.opset.run(op_type, inputs, attributes, opset=11)
        return output

    one = BFLOAT16[:1]
    sequence = run("SequenceConstruct", one)
    sequence = run("SequenceInsert", sequence, one)
    sequence = run("SequenceInsert", run("SequenceEmpty", dtype=16), run("SequenceAt", sequence, 0))
    sequence = run("SequenceInsert", sequence, one, 0)
    assert run("SequenceLength", sequence) == 2
    sa.testing.assert_arrays_equal(run("ConcatFromSequence", run("SequenceErase", sequence), axis=0), one)
    sa.testing.assert_sequences_equal(run("SplitToSequence", BFLOAT16[:2]), [one, one])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_split_to_sequence_takes_both_types_of_sizes(dtype):
    for sizes in ([2, 4], 4):
        (chunks,) = sa.opset.run("SplitToSequence", [X, np.asarray(sizes, dtype)], opset=11)
        assert chunks.sizes() == ((2, 4) if sizes == [2, 4] else (4, 2))


@pytest.mark.parametrize("wrong", [b"a", 1, None, 1.5])
@pytest.mark.parametrize("op_type", ["Split", "SequenceConstruct", "SequenceLength"])
def test_object_arrays_that_hold_something_else_than_str_are_refused(op_type, wrong):
    array = np.asarray(["a", "b", "c", None], dtype=object)
    array[3] = wrong
    inputs = [[array]] if op_type == "SequenceLength" else [array]
    since = sa.opset.supported()[op_type][-1]
    assert_refused(TypeError, [f"{op_type}-{since}", "input 0", repr(wrong), "str"], op_type, inputs, opset=18)


def test_object_arrays_that_hold_str_are_strings():
    text = np.asarray(["a", "bc"], dtype=object)
    (sequence,) = sa.opset.run("SequenceConstruct", [text, np.asarray(["def"])], opset=11)
    assert sequence.element_type == "string"


def test_a_tensor_is_no_sequence_and_a_sequence_no_tensor():
    assert_refused(
        TypeError, ["SequenceLength-11", "input 0 (input_sequence)", "ndarray"], "SequenceLength", [X], opset=11
    )
    sequence = sa.ArraySequence(SEQUENCE)
    assert_refused(TypeError, ["Split-18", "input 0 (input)", "ArraySequence"], "Split", [sequence], opset=18)
    assert_refused(TypeError, ["Split-18", "input 0 (input)", "list"], "Split", [SEQUENCE], opset=18)


def test_an_element_that_is_no_array_is_refused_with_its_index():
    mentions = ["SequenceLength-11", "input 0 (input_sequence)", "element 1", "float"]
    assert_refused(TypeError, mentions, "SequenceLength", [[X, 1.5]], opset=11)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "n_outputs", "mentions"),
    [
        ("Split", [X], {"num_outputs": 2}, 0, ["Split-18", "n_outputs is 0", "at least 1"]),
        ("Split", [X], {"num_outputs": 2}, -1, ["Split-18", "n_outputs is -1", "at least 1"]),
        ("Split", [X], {"num_outputs": 2}, 3, ["Split-18", "num_outputs is 2", "3 outputs"]),
        ("Concat", [X], {"axis": 0}, 2, ["Concat-13", "n_outputs is 2", "expected 1"]),
        ("SequenceLength", [SEQUENCE], {}, 0, ["SequenceLength-11", "n_outputs is 0", "expected 1"]),
    ],
)
def test_a_wrong_number_of_outputs_is_refused(op_type, inputs, attributes, n_outputs, mentions):
    assert_refused(ValueError, mentions, op_type, inputs, attributes, opset=18, n_outputs=n_outputs)


@pytest.mark.parametrize("n_outputs", ["1", 1.0, None])
def test_a_number_of_outputs_of_the_wrong_kind_is_refused(n_outputs):
    assert_refused(TypeError, ["Split-18", "n_outputs", repr(n_outputs)], "Split", [X], opset=18, n_outputs=n_outputs)


def test_split_1_refuses_sizes_that_are_no_integers():
    mentions = ["Split-1", "split[1]", "3.5", "integer"]
    assert_refused(ValueError, mentions, "Split", [X, np.asarray([2.0, 3.5])], opset=1, n_outputs=2)


def test_split_1_refuses_sizes_given_twice():
    mentions = ["Split-1", "split", "input", "attribute"]
    assert_refused(ValueError, mentions, "Split", [X, np.asarray([6])], {"split": [6]}, opset=1)


def test_split_13_does_not_name_an_attribute_that_it_lacks():
    message = assert_refused(TypeError, ["Split-13", "1-D"], "Split", [X, np.asarray(6)], opset=13)
    assert "num_outputs" not in message


def test_an_element_of_another_type_is_refused_with_its_index():
    mentions = ["Concat-13", "1", "int64", "float32"]
    assert_refused(TypeError, mentions, "Concat", [X, INT64], {"axis": 0}, opset=13)


@pytest.mark.parametrize("attributes", [["axis"], "axis", 5])
def test_attributes_are_a_mapping(attributes):
    mentions = ["Split-2", "attributes", type(attributes).__name__]
    assert_refused(TypeError, mentions, "Split", [X], attributes, opset=2)


@pytest.mark.parametrize("position", [2**70, -(2**70)])
def test_a_position_that_no_int64_holds_is_out_of_range(position):
    mentions = ["SequenceAt-11", str(position), "[-2, 1]"]
    assert_refused(IndexError, mentions, "SequenceAt", [SEQUENCE, position], opset=11)


def test_an_error_of_an_axis_stays_one():
    mentions = ["Concat-13", "axis is 2", "[-1, 0]"]
    assert_refused(np.exceptions.AxisError, mentions, "Concat", [X, X], {"axis": 2}, opset=13)


# What is passed on

COPYING = [
    ("SequenceAt", [SEQUENCE, 0], {}, 1),
    ("Split", [X], {"num_outputs": 2}, 2),
    ("Split", [X, np.asarray([2, 4])], {}, 2),
    ("SplitToSequence", [X], {}, 1),
    ("Concat", [X], {"axis": 0}, 1),
    ("ConcatFromSequence", [[X]], {"axis": 0}, 1),
    ("ConcatFromSequence", [[X]], {"axis": 0, "new_axis": 1}, 1),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "n_outputs"), COPYING)
@pytest.mark.parametrize(
    ("options", "shared"), [({}, False), ({"copy": True}, False), ({"copy": None}, True), ({"copy": False}, True)]
)
def test_copy_is_passed_on(op_type, inputs, attributes, n_outputs, options, shared):
    outputs = sa.opset.run(op_type, inputs, attributes, opset=18, n_outputs=n_outputs, **options)
    arrays = list(chain.from_iterable(o if isinstance(o, sa.ArraySequence) else [o] for o in outputs))
    assert [np.shares_memory(array, X) for array in arrays] == [shared] * len(arrays)


@pytest.mark.parametrize(("op_type", "inputs"), [("Concat", [X, X]), ("ConcatFromSequence", [[X, X]])])
def test_copy_false_is_refused_where_a_copy_is_needed(op_type, inputs):
    since = sa.opset.supported()[op_type][-1]
    assert_refused(ValueError, [f"{op_type}-{since}", "copy"], op_type, inputs, {"axis": 0}, opset=13, copy=False)


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "n_outputs"), COPYING)
def test_copy_of_the_wrong_kind_is_refused(op_type, inputs, attributes, n_outputs):
    since = sa.opset.supported()[op_type][-1]
    mentions = [f"{op_type}-{since}", "copy is 1", "True, False or None"]
    assert_refused(TypeError, mentions, op_type, inputs, attributes, opset=NEWEST_OPSET, n_outputs=n_outputs, copy=1)


def test_sequence_empty_is_where_xp_and_device_say(backend):
    (sequence,) = sa.opset.run("SequenceEmpty", [], opset=11, xp=backend.xp, device=backend.device)
    assert (len(sequence), sequence.element_type) == (0, "float32")
    assert sequence.namespace is backend.xp
    assert same_device(sequence.device, backend.device)


def test_sequence_empty_belongs_to_no_namespace_by_default():
    (sequence,) = sa.opset.run("SequenceEmpty", [], {"dtype": 7}, opset=11)
    assert (sequence.element_type, sequence.namespace, sequence.device) == ("int64", None, None)


def test_sequence_empty_refuses_a_type_that_the_namespace_cannot_hold():
    mentions = ["SequenceEmpty-11", "array_api_strict", "string"]
    assert_refused(TypeError, mentions, "SequenceEmpty", [], {"dtype": 8}, opset=11, xp="array_api_strict")


@pytest.mark.parametrize("element_type", ["float32", "string"])
def test_the_length_of_an_empty_sequence_is_where_xp_and_device_say(backend, element_type):
    sequence = sa.sequence_empty(element_type)
    (length,) = sa.opset.run("SequenceLength", [sequence], opset=11, xp=backend.xp, device=backend.device)
    dtype = np.int64 if backend.holds("int64") else np.int32
    sa.testing.assert_arrays_equal(length, backend.array(0, dtype))


def test_the_length_of_a_sequence_with_a_namespace_is_there(backend):
    sequence = [backend.array(X), backend.array(X)]
    (length,) = sa.opset.run("SequenceLength", [sequence], opset=11, xp="numpy")
    dtype = np.int64 if backend.holds("int64") else np.int32
    sa.testing.assert_arrays_equal(length, backend.array(2, dtype))


def test_the_length_of_an_empty_sequence_is_a_numpy_array_by_default():
    (length,) = sa.opset.run("SequenceLength", [[]], opset=11)
    sa.testing.assert_arrays_equal(length, np.asarray(0))


def test_the_length_of_an_empty_sequence_that_only_knows_a_device_is_a_numpy_array():
    (sequence,) = sa.opset.run("SequenceEmpty", [], opset=11, device="cuda:0")
    assert (sequence.namespace, sequence.device) == (None, "cuda:0")
    (length,) = sa.opset.run("SequenceLength", [sequence], opset=11)
    sa.testing.assert_arrays_equal(length, np.asarray(0))
