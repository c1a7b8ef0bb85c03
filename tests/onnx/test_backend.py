"""onnx's own backend tests of models that use the sequence family, through its runner and a strict comparison."""

import re
import sys
import unittest
import warnings
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

import seqarray.onnx
from tests.onnx.helpers import assert_output, on_all, placed, read_value, writable

KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator"]

#: Tests whose model is about the family; the expansions of SequenceMap are among them.
DIRECT = re.compile(
    r"test_(sequence_|split|concat_|optional_|identity_(sequence|opt)$|if_(seq|opt)$|loop13_seq$|loop16_seq_none$"
    r"|GLU|operator_(chunk|concat2)$)"
)

#: Modules of onnx with tests of pooling alone: their import computes the results in Python for seconds.
POOLING = [f"onnx.backend.test.case.node.{name}" for name in ("averagepool", "lppool", "maxpool")]


@contextmanager
def without_pooling():
    """Have onnx take these modules for imported."""
    left_out = [name for name in POOLING if name not in sys.modules]
    sys.modules.update({name: ModuleType(name) for name in left_out})
    yield
    for name in left_out:
        del sys.modules[name]


with warnings.catch_warnings(), without_pooling():
    # Making the data of some other tests overflows and divides by zero on purpose.
    warnings.simplefilter("ignore", RuntimeWarning)
    CASES = {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def operators(nodes):
    """The operators of nodes, and of the graphs in their attributes."""
    found = set()
    for node in nodes:
        found.add(node.op_type)
        for attribute in node.attribute:
            found |= operators(attribute.g.node)
    return found


@cache
def model_of(name):
    case = CASES[name]
    return case.model or onnx.load(Path(case.model_dir) / "model.onnx")


def data_sets(name):
    """The inputs and outputs of every data set of a test, as NumPy arrays, lists of them or None."""
    case, graph = CASES[name], model_of(name).graph
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [as_values(value) for value in inputs], [as_values(value) for value in outputs]
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        yield read_values(folder, "input", graph.input), read_values(folder, "output", graph.output)


def as_values(value):
    return writable(onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value)


def read_values(folder, kind, declared):
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [read_value(folder / f"{kind}_{index}.pb", declared[index].type) for index in range(count)]


DIRECT_NAMES = sorted(filter(DIRECT.match, CASES))
EXPANDED_NAMES = sorted(
    name
    for name in CASES
    if "_expanded" in name and name not in DIRECT_NAMES and operators(model_of(name).graph.node) & {"Split", "Concat"}
)

#: onnx's runner, as one class with a method per test and device, the other tests among them as skipped ones.
with without_pooling():
    FOUND = BackendTest(seqarray.onnx.backend, __name__)
RUNNER = FOUND.include(f"^({'|'.join(DIRECT_NAMES + EXPANDED_NAMES)})_").tests
RUNNER.__test__ = False

#: The one test that the runner can pass with no backend: it takes the length of an element without any.
HAS_ELEMENT_OF_RANK_0 = "test_loop16_seq_none"


def test_no_test_is_lost():
    assert (len(DIRECT_NAMES), len(EXPANDED_NAMES)) == (74, 195)
    methods = [getattr(RUNNER, f"{name}_{device}") for name in DIRECT_NAMES for device in ("cpu", "cuda")]
    assert len(methods) == 2 * 74


def passes(name, device):
    """Run one of the runner's tests; whether it passed, rather than being skipped by the runner."""
    result = unittest.TestResult()
    RUNNER(f"{name}_{device}").run(result)
    # Python 3.12.1 does not count a test that is skipped.
    assert result.testsRun == 1 or len(result.skipped) == 1
    problems = [trace for _, trace in result.failures + result.errors]
    assert not problems, problems[0]
    return not result.skipped


@pytest.mark.parametrize("name", [name for name in DIRECT_NAMES + EXPANDED_NAMES if name != HAS_ELEMENT_OF_RANK_0])
def test_through_the_runner(name):
    assert passes(name, "cpu")


def test_the_runner_cannot_compare_elements_of_rank_0():
    ((_, expected),) = data_sets(HAS_ELEMENT_OF_RANK_0)
    with pytest.raises(TypeError, match="Unable to compare"):
        BackendTest.assert_similar_outputs(expected, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", DIRECT_NAMES)
def test_through_the_runner_on_a_gpu(name):
    assert passes(name, "cuda") == seqarray.onnx.backend.supports_device("CUDA")


def assert_passes_strictly(name, backend, fallback):
    case, model = CASES[name], model_of(name)
    program = seqarray.onnx.prepare(model, xp=backend.xp, device=backend.device, fallback=fallback)
    seen = 0
    for inputs, expected in data_sets(name):
        actual = program.run([placed(value, backend) for value in inputs])
        for output, wanted, declared in zip(actual, expected, model.graph.output, strict=True):
            assert_output(output, wanted, declared.type, backend, rtol=case.rtol, atol=case.atol)
        seen += 1
    assert seen


@on_all
@pytest.mark.parametrize("name", DIRECT_NAMES)
def test_strictly_without_fallback(name, backend):
    assert_passes_strictly(name, backend, fallback="error")


@pytest.mark.parametrize("backend", ["numpy"], indirect=True)
@pytest.mark.parametrize("name", EXPANDED_NAMES)
def test_expanded_function_strictly(name, backend):
    assert_passes_strictly(name, backend, fallback="reference")


# The backend itself


def split_node():
    return onnx.helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)


def test_devices():
    assert seqarray.onnx.backend.supports_device("CPU")
    assert seqarray.onnx.backend.supports_device("CPU:0")
    assert not seqarray.onnx.backend.supports_device("TPU")


def test_run_node_gives_a_tuple_in_which_sequences_are_lists():
    outputs = seqarray.onnx.backend.run_node(split_node(), [np.arange(2.0)])
    assert isinstance(outputs, tuple)
    (sequence,) = outputs
    assert type(sequence) is list
    np.testing.assert_array_equal(sequence, [[0.0], [1.0]], strict=True)


def test_run_node_leaves_out_inputs_without_a_name():
    node = onnx.helper.make_node("SequenceInsert", ["s", "x", ""], ["t"])
    (sequence,) = seqarray.onnx.backend.run_node(node, [[np.arange(2)], np.arange(3)])
    assert [len(element) for element in sequence] == [2, 3]


def test_run_node_of_an_opset_version():
    node = onnx.helper.make_node("Split", ["x"], ["a", "b"])
    a, b = seqarray.onnx.backend.run_node(node, [np.arange(4)], opset_version=13)
    np.testing.assert_array_equal([a, b], [[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="num_outputs"):
        seqarray.onnx.backend.run_node(node, [np.arange(4)], opset_version=18)


def test_run_model_and_prepare_give_the_same():
    model = model_of("test_sequence_model1")
    ((inputs, expected),) = data_sets("test_sequence_model1")
    for outputs in (
        seqarray.onnx.backend.run_model(model, inputs),
        seqarray.onnx.backend.prepare(model).run(inputs),
        seqarray.onnx.backend.prepare(model, "CPU").run(inputs),
    ):
        assert len(outputs) == len(expected)
        np.testing.assert_array_equal(outputs[0], expected[0], strict=True)


def test_a_device_that_is_not_there_is_refused():
    assert not seqarray.onnx.backend.supports_device("TPU")
    with pytest.raises(ValueError, match="TPU"):
        seqarray.onnx.backend.prepare(model_of("test_sequence_model1"), "TPU")


def test_malformed_node_is_refused():
    with pytest.raises(ValueError, match="SplitToSequence"):
        seqarray.onnx.backend.run_node(onnx.helper.make_node("SplitToSequence", [], ["s"]), [])
