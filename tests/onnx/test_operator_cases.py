"""Single operators: programs give what onnxruntime gives, and the reference runs only where it is right.

All cases, not the first few of each operator only, are compared by ``python -m tests.onnx.operator_cases``.
"""

import warnings

import pytest

import seqarray.onnx
from seqarray.onnx._compiler import _KERNELS
from seqarray.onnx._ops.deviations import REFERENCE
from tests.onnx.operator_cases import cases, difference, run_onnxruntime

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)
    CASES = cases()

#: The last case of each operator that has a kernel of its own here, and of some that have none.
COMPARED = [*_KERNELS, "Conv", "DFT", "GRU", "GridSample", "LSTM", "NonMaxSuppression", "RNN", "Resize", "TopK"]
SELECTED = list({case.op_type: case for case in CASES if case.op_type in COMPARED}.values())
#: The first and the last case of each version of the operators whose reference implementation deviates somewhere.
DEVIATING = [
    *{(case.op_type, case.opset): case for case in CASES[::-1] if case.op_type in REFERENCE}.values(),
    *{(case.op_type, case.opset): case for case in CASES if case.op_type in REFERENCE}.values(),
]


@pytest.mark.parametrize("case", SELECTED, ids=str)
def test_a_program_gives_what_onnxruntime_gives(case):
    program = seqarray.onnx.prepare(case.model())
    assert difference(program.run(case.feeds()), run_onnxruntime(case)) == ""


@pytest.mark.parametrize("case", DEVIATING, ids=str)
def test_the_reference_gives_what_onnxruntime_gives_or_is_refused(case):
    try:
        outputs = seqarray.onnx.prepare(case.model(), fallback="reference").run(case.feeds())
    except ValueError as error:
        found = "" if "pip install onnxruntime" in str(error) and case.op_type in str(error) else str(error)
    else:
        found = difference(outputs, run_onnxruntime(case))
    assert found == ""


@pytest.mark.parametrize("op_type", sorted({*REFERENCE} - {"Pad", "Upsample"}))
def test_every_deviation_is_met_by_a_case(op_type):
    """What the reference deviates in is refused, when the program is prepared if the attributes tell."""
    refused = 0
    for case in CASES:
        if case.op_type == op_type:
            try:
                seqarray.onnx.prepare(case.model(), fallback="reference")
            except ValueError as error:
                refused += "does not follow the standard" in str(error)
    assert refused or op_type == "Resize"
