"""Estimates of what the operators of onnx.reference take, compared with what they make in onnx's own tests."""

import importlib
import warnings

import numpy as np
import pytest

import seqarray as sa
import seqarray.onnx
from seqarray.onnx._ops import reference

#: Operators without an estimate, which do not run under limits.
UNKNOWN = {
    "Adagrad", "Adam", "Attention", "CausalConvWithState", "DeformConv", "FlexAttention", "ImageDecoder",
    "LinearAttention", "Momentum", "RegexFullMatch", "RotaryEmbedding", "SwiGLU", "TreeEnsemble",
}  # fmt: skip


def node_cases():
    """The tests of single nodes in the onnx package, with inputs."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return [case for case in found if case.model is not None and len(case.model.graph.node) == 1]


@pytest.mark.thorough
def test_no_operator_makes_more_than_is_estimated(monkeypatch):
    estimates = []

    def recorded(node, inputs, estimate=reference.estimated_nbytes):
        estimates.append(estimate(node, inputs))
        return estimates[-1]

    monkeypatch.setattr(reference, "estimated_nbytes", recorded)
    checked, low, refused = 0, [], {}
    for case in node_cases():
        try:
            program = seqarray.onnx.prepare(case.model)
        except (TypeError, ValueError):
            continue  # Nothing runs it.
        if not program._fallbacks:
            continue
        operator = case.model.graph.node[0].op_type
        estimates.clear()
        try:
            limited = seqarray.onnx.prepare(case.model, max_bytes=1 << 34, max_trip_count=1000, max_seconds=600)
            outputs = limited.run(list(case.data_sets[0][0]))
        except (IndexError, TypeError, ValueError) as error:
            if "does not run under" in str(error) or "do not run under" in str(error) or "cannot be told" in str(error):
                refused.setdefault(operator, str(error))
            continue
        checked += 1
        largest = max((np.asarray(x).nbytes for x in outputs if not isinstance(x, sa.ArraySequence)), default=0)
        if estimates and estimates[-1] < largest:
            low.append((case.name, estimates[-1], largest))
    assert low == []
    assert refused.keys() <= UNKNOWN, refused
    assert checked > 300


@pytest.mark.parametrize(("operator", "module"), [("Attention", "attention"), ("ImageDecoder", "image_decoder")])
def test_operators_without_an_estimate_are_named(operator, module):
    from onnx.backend.test.case import node

    importlib.import_module(f"{node.__name__}.{module}")  # adds its tests to those below
    model = next(case.model for case in node._NodeTestCases if case.model.graph.node[0].op_type == operator)
    with pytest.raises(ValueError, match=f"{operator}.*max_bytes"):
        seqarray.onnx.prepare(model, max_bytes=1 << 34)
