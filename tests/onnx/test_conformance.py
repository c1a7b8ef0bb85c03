"""Every conformance case as a model through `seqarray.onnx`: classes, element types, shapes, values, errors."""

from dataclasses import dataclass, field
from typing import Any

import onnx
import pytest
from onnx import helper

import seqarray as sa
import seqarray.onnx
from seqarray._dtypes import ONNX_TYPES
from tests.onnx.helpers import on_all, text_model
from tests.test_conformance import ERRORS, assert_value_equal, built, read, require, values_of

IR_VERSION = 10

#: The class of the error, and what its message must contain, of cases that have no call of `opset.run` or are refused
#: before it comes to one.
MODEL_ERRORS = {
    "chain-empty-insert-wrong": ("TypeError", ["SequenceInsert", "int64", "float"]),
    "chain-roundtrip-empty": ("ValueError", ["ConcatFromSequence", "empty"]),
    "construct-none": ("ValueError", ["SequenceConstruct", "0"]),
    "loop-scan-output-sequence": ("TypeError", ["Loop", "scan output", "sequence"]),
    "map-first-input-tensor": ("TypeError", ["SequenceMap-17", "sequence"]),
    "map-length-mismatch": ("ValueError", ["SequenceMap-17", "1", "2"]),
    "opt-construct-neither": ("ValueError", ["Optional-15", "type"]),
    "opt-get-none": ("ValueError", ["OptionalGetElement-15", "empty"]),
}


@dataclass(frozen=True)
class ModelCase:
    """A model, values for its inputs in order, and what it gives."""

    name: str
    model: onnx.ModelProto
    inputs: list[Any]
    expected: list[Any]
    raises: str | None = None
    mentions: list[str] = field(default_factory=list)

    def __str__(self):
        return self.name

    @property
    def element_types(self):
        """The element types that a backend has to hold to run the case."""
        values = [contained(value) for value in self.inputs + self.expected]
        return {value.get("dtype") or value["elem_dtype"] for value in values if value is not None}


def contained(value):
    """What an optional holds; other values as they are."""
    return value["optional"] if value is not None and "optional" in value else value


# Cases as models


def tensor_type(element_type, shape=None):
    """The type of a tensor; without a shape it may only be that of the elements of a sequence."""
    return helper.make_tensor_type_proto(ONNX_TYPES[element_type].code, shape)


def type_of(value):
    """The type to declare for a value of a case; lengths are left open."""
    if "seq" in value:
        return helper.make_sequence_type_proto(tensor_type(value["elem_dtype"]))
    if "optional" not in value:
        return tensor_type(value["dtype"], [None] * len(value["shape"]))
    if value["optional"] is not None:
        return helper.make_optional_type_proto(type_of(value["optional"]))
    container, _, element_type = value["kind"].partition(":")
    element = tensor_type(element_type)
    return helper.make_optional_type_proto(helper.make_sequence_type_proto(element) if container == "seq" else element)


def described_type(description):
    """The type that an example describes."""
    match description:
        case {"seq": element}:
            return helper.make_sequence_type_proto(described_type(element))
        case {"optional": element}:
            return helper.make_optional_type_proto(described_type(element))
    return tensor_type(description["tensor"], description["shape"])


def attribute(name, value):
    """The value of an attribute as `onnx.helper` takes it."""
    match value:
        case {"graph": str(text)}:
            return onnx.parser.parse_graph(text)
        case {"graph": graph}:
            inputs, outputs = (
                [helper.make_value_info(name, described_type(of)) for name, of in graph[kind]]
                for kind in ("inputs", "outputs")
            )
            return helper.make_graph([node(described) for described in graph["nodes"]], graph["name"], inputs, outputs)
        case {"dtype": _}:
            return onnx.numpy_helper.from_array(values_of(value))
        case dict():
            # The examples give the type attribute of Optional as optional(T), where the schema asks for T.
            return described_type(value["optional"] if name == "type" and "optional" in value else value)
    return value


def node(described):
    attributes = {name: attribute(name, value) for name, value in described["attrs"].items()}
    return helper.make_node(described["op"], described["inputs"], described["outputs"], **attributes)


def model(nodes, inputs, outputs, opset):
    """A model of one graph; inputs and outputs are pairs of a name and a type."""
    declared = [[helper.make_value_info(*pair) for pair in pairs] for pairs in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *declared)
    return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", opset)])


def example(entry):
    """An entry of seed_examples.json."""
    expected = entry.get("graph_expected", entry["outputs"])
    inputs = [(name, type_of(value)) for name, value in entry["graph_inputs"].items()]
    outputs = [(name, type_of(value)) for name, value in zip(entry["graph_outputs"], expected, strict=True)]
    built_model = model([node(described) for described in entry["nodes"]], inputs, outputs, entry["opset"])
    return ModelCase(entry["name"], built_model, list(entry["graph_inputs"].values()), expected)


def spec_case(entry):
    """An entry of spec_cases.json."""
    fails = isinstance(entry["expected"], dict)
    raises, mentions = MODEL_ERRORS.get(entry["id"], (entry.get("raises"), entry.get("mentions", [])))
    build = graph_model if "graph" in entry else one_node_model
    inputs = [value for value in entry["inputs"] if value is not None]
    return ModelCase(entry["id"], build(entry), inputs, [] if fails else entry["expected"], raises, mentions)


def graph_model(entry):
    return text_model(entry["graph"], opset=entry["opset"])


#: Operators whose first output is a sequence, for a declaration where an error is expected.
SEQUENCE_RESULTS = ("SequenceConstruct", "SequenceErase", "SequenceInsert", "SequenceMap", "SplitToSequence")


def one_node_model(entry):
    expected = entry["expected"]
    inputs = [(f"input{i}", value) for i, value in enumerate(entry["inputs"])]
    if isinstance(expected, dict):
        sequence = helper.make_sequence_type_proto(tensor_type("float32"))
        declared = sequence if entry["op"] in SEQUENCE_RESULTS else tensor_type("float32", [None])
        types = [declared] * entry.get("n_outputs", 1)
    else:
        types = [type_of(value) for value in expected]
    names = entry.get("output_names") or [f"output{i}" for i in range(len(types))]
    described = {"op": entry["op"], "inputs": [name if value is not None else "" for name, value in inputs]}
    nodes = [node(described | {"outputs": names, "attrs": entry["attrs"]})]
    given = [(name, type_of(value)) for name, value in inputs if value is not None]
    return model(nodes, given, zip(filter(None, names), types, strict=True), entry["opset"])


ENTRIES = read("spec_cases.json")
EXAMPLES = [example(entry) for entry in read("seed_examples.json")]
SPEC_CASES = [spec_case(entry) for entry in ENTRIES]
CASES = EXAMPLES + [case for case in SPEC_CASES if not case.raises]
ERROR_CASES = [case for case in SPEC_CASES if case.raises]


def test_every_case_is_here():
    assert (len(EXAMPLES), len(SPEC_CASES)) == (86, 196)
    assert sum("graph" in entry for entry in ENTRIES) == 16
    failing = {entry["id"] for entry in ENTRIES if isinstance(entry["expected"], dict)}
    assert {case.name for case in ERROR_CASES} == failing
    assert len(failing) == 60
    assert all(case.mentions for case in ERROR_CASES)


# The cases


def value_on(value, backend):
    """A value of a case on a backend: an array, an ArraySequence, or None for an empty optional."""
    return built(contained(value), backend)


def run(case, backend):
    program = sa.onnx.prepare(case.model, xp=backend.xp, device=backend.device, keepdims_with_split="ignore")
    return program.run([value_on(value, backend) for value in case.inputs])


@on_all
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case, backend):
    require(backend, case.element_types)
    for output, wanted in zip(run(case, backend), case.expected, strict=True):
        if contained(wanted) is None:
            assert output is None
        else:
            assert_value_equal(output, value_on(wanted, backend))


@on_all
@pytest.mark.parametrize("case", ERROR_CASES, ids=str)
def test_error_case(case, backend):
    require(backend, case.element_types)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the class is compared exactly below)
        run(case, backend)
    assert type(caught.value) is ERRORS[case.raises], repr(caught.value)
    missing = [text for text in case.mentions if text not in str(caught.value)]
    assert not missing, f"{missing} not in {str(caught.value)!r}"
