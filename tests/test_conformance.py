"""The conformance cases through `opset.run` on every backend: classes, element types, shapes, values, errors."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import seqarray as sa
from tests.helpers import same_device

DATA = Path(__file__).parent / "conformance"

#: The operators of `opset.run`, and which of their inputs is a position or holds sizes: a host integer by nature.
HOST_INPUTS = {
    "Concat": None,
    "ConcatFromSequence": None,
    "SequenceAt": 1,
    "SequenceConstruct": None,
    "SequenceEmpty": None,
    "SequenceErase": 1,
    "SequenceInsert": 2,
    "SequenceLength": None,
    "Split": 1,
    "SplitToSequence": 1,
}

ERRORS = {
    "AxisError": np.exceptions.AxisError,
    "IndexError": IndexError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}

#: How many cases a backend cannot hold; and how many of those with a position or sizes when these lie there as well.
CANNOT_HOLD = {
    "numpy": (0, 0),
    "array-api-strict": (12, 2),
    "torch": (7, 1),
    "jax": (19, 73),
    "jax-x64": (7, 1),
    "dask": (0, 0),
    "cupy": (7, 1),
}


@dataclass(frozen=True)
class Case:
    """One call of an operator."""

    name: str
    op: str
    opset: int
    attributes: dict[str, Any]
    inputs: list[Any]
    #: The values of the outputs; empty for an error.
    expected: list[Any]
    n_outputs: int
    #: Which of the outputs the node asked for.
    requested: list[int]
    raises: str | None
    mentions: list[str]
    hint: str

    def __str__(self):
        return self.name

    @property
    def host_input(self):
        """The place of the position or the sizes among the inputs, if they are given."""
        index = HOST_INPUTS.get(self.op)
        return index if index is not None and index < len(self.inputs) else None

    def element_types(self, *, with_host_input=False):
        """The element types that a backend has to hold to run the case."""
        inputs = [value for i, value in enumerate(self.inputs) if with_host_input or i != self.host_input]
        # A length is of the widest integer that the backend has.
        outputs = self.expected if self.op != "SequenceLength" else []
        return {value.get("dtype") or value["elem_dtype"] for value in [*inputs, *outputs] if value is not None}


def load(entry):
    expected = entry["outputs"] if "outputs" in entry else entry["expected"]
    fails = isinstance(expected, dict)
    count = entry.get("n_outputs", 1) if fails else len(expected)
    names = entry.get("output_names", ["output"] * count)
    return Case(
        name=entry.get("id") or entry["name"],
        op=entry["op"],
        opset=entry["opset"],
        attributes=entry["attrs"],
        inputs=entry["inputs"],
        expected=[] if fails else expected,
        n_outputs=len(names),
        requested=[index for index, name in enumerate(names) if name],
        raises=entry.get("raises"),
        mentions=entry.get("mentions", []),
        hint=entry.get("backend_hint", ""),
    )


def read(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


EXAMPLES = [load(e) for e in read("seed_examples.json") if e["level"] == "op" and e["op"] in HOST_INPUTS]
SPEC_CASES = [load(e) for e in read("spec_cases.json") if "graph" not in e and e["op"] in HOST_INPUTS]
MAPS = [load(e) for e in read("seed_examples.json") if e["level"] == "op" and e["op"] == "SequenceMap"]

CASES = [case for case in EXAMPLES + SPEC_CASES if not case.raises]
ERROR_CASES = [case for case in SPEC_CASES if case.raises]
HOST_INPUT_CASES = [case for case in EXAMPLES + SPEC_CASES if case.host_input is not None]


def values_of(tensor, text=object):
    """A tensor of a case as a NumPy array."""
    data, dtype = tensor["data"], tensor["dtype"]
    match dtype:
        case "string":
            dtype = text
        case "bfloat16":
            dtype = ml_dtypes.bfloat16
        case "complex64" | "complex128":
            data = [complex(*pair) for pair in data]
    return np.asarray(data, dtype=dtype).reshape(tensor["shape"])


def require(backend, element_types):
    """Skip the test where the backend cannot hold one of the types."""
    for element_type in sorted(element_types):
        backend.array(values_of({"dtype": element_type, "shape": [0], "data": []}))


def built(value, backend, make=None, *, placed=True, text=object):
    """A value of a case on the backend; `make` makes its arrays; not `placed`, an empty sequence has no namespace."""
    if value is None:
        return None
    if "seq" in value:
        elements = [built(element, backend, make, text=text) for element in value["seq"]]
        where = {"xp": backend.xp, "device": backend.device} if placed else {}
        return sa.ArraySequence(elements, dtype=value["elem_dtype"], **where)
    return (make or backend.array)(values_of(value, text))


def inputs_of(case, backend, make=None, *, host=True, placed=True, text=object):
    """The inputs of a case on the backend, its position or sizes as NumPy arrays unless they too are to lie there."""
    return [
        values_of(value) if host and index == case.host_input else built(value, backend, make, placed=placed, text=text)
        for index, value in enumerate(case.inputs)
    ]


def run(case, backend, inputs, **options):
    """The requested outputs of a case."""
    options = {"xp": backend.xp, "device": backend.device} | options
    outputs = sa.opset.run(case.op, inputs, case.attributes, opset=case.opset, n_outputs=case.n_outputs, **options)
    assert type(outputs) is tuple
    assert len(outputs) == case.n_outputs
    return [outputs[index] for index in case.requested]


def expected_of(case, backend, *, text=object):
    """The requested outputs of a case as they have to be on the backend."""
    if case.op == "SequenceLength":
        dtype = "int64" if backend.holds("int64") else "int32"
        return [backend.array(values_of(case.expected[0] | {"dtype": dtype}))]
    return [built(value, backend, text=text) for value in case.expected]


def assert_value_equal(actual, expected):
    if not isinstance(expected, sa.ArraySequence):
        sa.testing.assert_arrays_equal(actual, expected)
        return
    sa.testing.assert_sequences_equal(actual, expected)
    # A sequence without elements, too, knows where it is.
    assert actual.namespace is expected.namespace
    assert same_device(actual.device, expected.device)


def assert_runs(case, backend, inputs, *, text=object, **options):
    actual = run(case, backend, inputs, **options)
    for output, wanted in zip(actual, expected_of(case, backend, text=text), strict=True):
        assert_value_equal(output, wanted)


def assert_raises(case, backend, inputs):
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the class is compared exactly below)
        run(case, backend, inputs)
    assert type(caught.value) is ERRORS[case.raises], repr(caught.value)
    missing = [text for text in case.mentions if text not in str(caught.value)]
    assert not missing, f"{missing} not in {str(caught.value)!r}"


# Which cases there are


def test_every_case_of_the_sequence_operators_is_here():
    assert (len(EXAMPLES), len(SPEC_CASES), len(MAPS)) == (50, 157, 8)
    assert (len(CASES), len(ERROR_CASES)) == (50 + 157 - 53, 53)
    assert len({case.name for case in EXAMPLES + SPEC_CASES + MAPS}) == 50 + 157 + 8
    assert {case.op for case in EXAMPLES} == {case.op for case in SPEC_CASES} | {"Concat"} == set(HOST_INPUTS)


@pytest.mark.parametrize("case", ERROR_CASES, ids=str)
def test_every_error_case_says_what_to_mention(case):
    operator, *values = case.mentions
    assert operator.startswith(f"{case.op}-")
    assert values
    assert not case.expected


def test_cases_that_a_backend_cannot_hold_are_counted(backend):
    def lacking(cases, **options):
        return sum(not all(map(backend.holds, case.element_types(**options))) for case in cases)

    counted = lacking(EXAMPLES + SPEC_CASES), lacking(HOST_INPUT_CASES, with_host_input=True)
    assert counted == CANNOT_HOLD[backend.name]


# The cases


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case, backend):
    require(backend, case.element_types())
    assert_runs(case, backend, inputs_of(case, backend))


@pytest.mark.parametrize("case", ERROR_CASES, ids=str)
def test_error_case(case, backend):
    require(backend, case.element_types())
    assert_raises(case, backend, inputs_of(case, backend))


@pytest.mark.backends("numpy", "torch")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case_without_copying(case, backend):
    require(backend, case.element_types())
    assert_runs(case, backend, inputs_of(case, backend), copy=None)


EAGER = ["numpy", "array-api-strict", "torch", "jax", "jax-x64", "cupy"]


@pytest.mark.backends(*EAGER)
@pytest.mark.parametrize("case", HOST_INPUT_CASES, ids=str)
def test_position_or_sizes_as_an_array_of_the_backend(case, backend):
    require(backend, case.element_types(with_host_input=True))
    check = assert_raises if case.raises else assert_runs
    check(case, backend, inputs_of(case, backend, host=False))


@pytest.mark.backends("dask")
@pytest.mark.parametrize("case", [case for case in HOST_INPUT_CASES if not case.raises], ids=str)
def test_lazy_position_or_sizes_are_refused(case, backend):
    with pytest.raises(TypeError, match="pass a host integer"):
        run(case, backend, inputs_of(case, backend, host=False))


def holds_an_empty_sequence(case):
    return any(value is not None and value.get("seq") == [] for value in case.inputs)


@pytest.mark.parametrize("case", list(filter(holds_an_empty_sequence, EXAMPLES + SPEC_CASES)), ids=str)
def test_case_of_an_empty_sequence_that_has_no_namespace_yet(case, backend):
    require(backend, case.element_types())
    inputs = inputs_of(case, backend, placed=False)
    if case.raises:
        assert_raises(case, backend, inputs)
    else:
        assert_runs(case, backend, inputs)


# Memory layouts


def transposed(values, backend):
    """Column-major memory."""
    axes = tuple(range(values.ndim))[::-1]
    return backend.xp.permute_dims(backend.array(np.ascontiguousarray(values.transpose(axes))), axes)


def channels_last(values, backend):
    """The second axis innermost in memory."""
    axes = (0, *range(2, values.ndim), 1)
    return backend.xp.permute_dims(
        backend.array(np.ascontiguousarray(values.transpose(axes))), np.argsort(axes).tolist()
    )


def every_second(values, backend):
    """Gaps between the items of the last axis."""
    return backend.array(np.repeat(values, 2, axis=-1))[..., ::2]


def reversed_memory(values, backend):
    """Negative strides, where the library has them."""
    return backend.xp.flip(backend.array(np.flip(values).copy()))


LAYOUTS = [transposed, channels_last, every_second, reversed_memory]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", [case for case in CASES if "view" in case.hint], ids=str)
def test_case_in_another_memory_layout(case, layout, backend):
    inputs = inputs_of(case, backend, partial(layout, backend=backend))
    assert_runs(case, backend, inputs)
    assert_runs(case, backend, inputs, copy=None)


@pytest.mark.backends("numpy")
def test_the_layouts_are_what_they_say(backend):
    values = np.zeros((2, 3, 4))
    assert [layout(values, backend).strides for layout in LAYOUTS] == [
        (8, 16, 48),
        (96, 8, 24),
        (192, 64, 16),
        (-96, -32, -8),
    ]


# Text


def text_cases():
    return [case for case in CASES if "string" in case.element_types()]


@pytest.mark.backends("numpy")
@pytest.mark.parametrize(("text", "kind"), [(str, "U"), (object, "O"), (np.dtypes.StringDType(), "T")])
@pytest.mark.parametrize("case", text_cases(), ids=str)
def test_text_stays_what_it_is(case, text, kind, backend):
    inputs = inputs_of(case, backend, text=text)
    assert_runs(case, backend, inputs, text=text)
    for output in run(case, backend, inputs):
        for array in output if isinstance(output, sa.ArraySequence) else [output]:
            assert array.dtype.kind == kind


# SequenceMap, whose body is a function here


def identity(backend, *arrays):
    return arrays[0] if len(arrays) == 1 else arrays


def add(backend, a, b):
    with backend.current():
        return a + b


def shape(backend, array):
    return backend.array(np.asarray(array.shape, dtype=np.int64))


BODIES = {
    "test_cc_sequence_map_identity_float": identity,
    "test_cc_sequence_map_identity_int64": identity,
    "test_cc_sequence_map_identity_1_sequence": identity,
    "test_cc_sequence_map_identity_2_sequences": identity,
    "test_cc_sequence_map_identity_1_sequence_1_tensor": identity,
    "test_cc_sequence_map_add_2_sequences": add,
    "test_cc_sequence_map_add_1_sequence_1_tensor": add,
    "test_cc_sequence_map_extract_shapes": shape,
}


def test_every_sequence_map_example_has_a_body():
    assert {case.name for case in MAPS} == set(BODIES)


@pytest.mark.parametrize("case", MAPS, ids=str)
def test_sequence_map(case, backend):
    inputs = [built(value, backend) for value in case.inputs]
    outputs = sa.sequence_map(*inputs, body=partial(BODIES[case.name], backend))
    assert isinstance(outputs, tuple) == (len(case.expected) > 1)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for output, wanted in zip(outputs, case.expected, strict=True):
        sa.testing.assert_sequences_equal(output, built(wanted, backend))
