"""Makes the models in this folder with scikit-learn and onnxscript, each with inputs for it.

    python tests/onnx/models/others/make_others.py

writes NAME.onnx and NAME.npz for each; scikit-learn 1.9, skl2onnx 1.20 and onnxscript 0.7 were used.
"""

# The dimensions of onnxscript are names in strings, and its branches are statements.
# ruff: noqa: F821, SIM108

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxscript import BOOL, FLOAT, INT64, script
from onnxscript import opset18 as op
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDER = Path(__file__).parent

# The functions of onnxscript have no annotations of results, so the outputs of their models have no types.


@script()
def first_rows(x: FLOAT[N, M], n: INT64):
    """Append rows in a loop."""
    rows = op.SequenceEmpty()
    for i in range(n):
        rows = op.SequenceInsert(rows, op.Gather(x, i, axis=0))
    return op.ConcatFromSequence(rows, axis=0, new_axis=1)


@script()
def sums_of_parts(x: FLOAT[N, M], lengths: INT64[K]):
    """Split by lengths, and work on each part."""
    parts = op.SplitToSequence(x, lengths, axis=0)
    n = op.SequenceLength(parts)
    sums = op.SequenceEmpty()
    for i in range(n):
        part = op.SequenceAt(parts, i)
        sums = op.SequenceInsert(sums, op.ReduceSum(part, op.Constant(value_ints=[0]), keepdims=0))
    return op.ConcatFromSequence(sums, axis=0, new_axis=1)


@script()
def two_or_none(x: FLOAT[N], wanted: BOOL):
    """Choose between two sequences."""
    if wanted:
        chosen = op.SequenceConstruct(x, x)
    else:
        chosen = op.SequenceEmpty()
    return op.SequenceLength(chosen), chosen


@script()
def halves_until(x: FLOAT[N]):
    """Append until a condition holds."""
    halves = op.SequenceConstruct(x)
    y = op.Identity(x)
    goes_on = op.ReduceSum(y, keepdims=0) > 0.1
    while goes_on:
        y = y * 0.5
        halves = op.SequenceInsert(halves, y)
        goes_on = op.ReduceSum(y, keepdims=0) > 0.1
    return op.ConcatFromSequence(halves, axis=0)


@script(default_opset=op)
def parts_of(x: FLOAT[...], n: INT64):
    """Split in a function that the next one calls."""
    return op.SplitToSequence(x, n, axis=0)


@script(default_opset=op)
def parts_side_by_side(x: FLOAT[N, M], n: INT64):
    """Join what a function gives."""
    return op.ConcatFromSequence(parts_of(x, n), axis=1)


def store(name: str, model: onnx.ModelProto, arrays: list[Any]) -> None:
    """Write a model and its inputs."""
    onnx.save(model, FOLDER / f"{name}.onnx")
    np.savez_compressed(
        FOLDER / f"{name}.npz", **{given.name: array for given, array in zip(model.graph.input, arrays, strict=True)}
    )


def main() -> None:
    """Write every model and its inputs."""
    x = np.linspace(0, 1, 18, dtype=np.float32).reshape(6, 3)
    for function, arrays in (
        (first_rows, [x, np.asarray(4)]),
        (sums_of_parts, [x, np.asarray([1, 2, 3])]),
        (two_or_none, [x[1], np.asarray(True)]),
        (halves_until, [x[1]]),
        (parts_side_by_side, [x, np.asarray(2)]),
    ):
        store(function.name, function.to_model_proto(), arrays)
    flowers, kinds = load_iris(return_X_y=True)
    flowers = flowers.astype(np.float32)
    names = np.asarray(["setosa", "versicolor", "virginica"])[kinds]
    for name, estimator, labels in (
        ("names_of_flowers", make_pipeline(StandardScaler(), LogisticRegression()), names),
        ("nearest_flowers", KNeighborsClassifier(3), kinds),
    ):
        estimator.fit(flowers[::3], labels[::3])
        store(name, to_onnx(estimator, flowers[:1], target_opset=17), [flowers[1::9]])


if __name__ == "__main__":
    main()
