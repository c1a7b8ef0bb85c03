"""onnxruntime, and onnx's ReferenceEvaluator: models of one node."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from benchmarks import machine, models
from benchmarks.libraries.base import Library, Sizes, Work


class OnnxRuntime(Library):
    """onnxruntime: models of one node, on the CPU."""

    name, module, pip = "onnxruntime", "onnxruntime", "onnxruntime onnx"
    packages = ("onnxruntime", "onnx")
    beside = ("numpy",)
    recycles = True
    spins = "onnxruntime"
    note = (
        "onnxruntime, onnx-reference: models of one node (Loop with SequenceInsert for inserts); session time included."
    )

    def missing(self) -> str:
        for module in (self.module, "onnx"):
            try:
                importlib.import_module(module)
            except ImportError:
                return f"not installed (pip install {self.pip})"
        return ""

    thread_count = machine.cpu_count()

    def threads(self) -> int | None:
        return self.thread_count if "onnxruntime" in sys.modules else None

    def use_threads(self, count: int) -> None:
        self.thread_count = count

    def holds(self, dtype: np.dtype) -> bool:
        return dtype == np.float32  # as the models declare it

    @cache  # noqa: B019 - there is one instance
    def session(self, text: str) -> Callable[[dict[str, Any]], list[Any]]:
        """Return a function that runs a model, given as ONNX text, on named inputs."""
        ort = importlib.import_module("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = self.thread_count
        options.log_severity_level = 3
        model = importlib.import_module("onnx.parser").parse_model(text)
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda inputs: session.run(None, inputs)

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        return self._join(arrays, axis, 0)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        return self._join(arrays, axis, 1)

    def _join(self, arrays: list[np.ndarray], axis: int, new_axis: int) -> Work:
        run = self.session(
            '<ir_version: 8, opset_import: ["" : 17]> join (seq(float[]) x) => (float[] y)'
            f"{{ y = ConcatFromSequence <axis = {axis}, new_axis = {new_axis}> (x) }}"
        )
        return lambda: run({"x": arrays})[0]

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        declared, inputs = self._sizes(sizes)
        run = self.session(
            f'<ir_version: 8, opset_import: ["" : 17]> cut (float[] x{declared}) => (seq(float[]) y)'
            f"{{ y = SplitToSequence <axis = {axis}> (x{', sizes' * bool(inputs)}) }}"
        )
        return lambda: run({"x": x, **inputs})[0]

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        declared, inputs = self._sizes(sizes)
        run = self.session(
            f'<ir_version: 8, opset_import: ["" : 17]> trip (float[] x{declared}) => (float[] y)'
            f"{{ s = SplitToSequence <axis = {axis}> (x{', sizes' * bool(inputs)})"
            f" y = ConcatFromSequence <axis = {axis}> (s) }}"
        )
        return lambda: run({"x": x, **inputs})[0]

    def _sizes(self, sizes: Sizes) -> tuple[str, dict[str, np.ndarray]]:
        """Return how a model declares the sizes, and what is fed for them."""
        if sizes is None:
            return "", {}
        given = np.asarray(sizes, dtype=np.int64)
        return f", int64{'[n]' * given.ndim} sizes", {"sizes": given}

    def append(self, count: int, element: np.ndarray) -> Work:
        run = self.session(models.LOOP)
        return lambda: run({"count": np.asarray(count), "element": element})[0]

    def at(self, arrays: list[np.ndarray]) -> Work:
        run = self.session(
            '<ir_version: 8, opset_import: ["" : 17]> at (seq(float[]) x, int64 i) => (float[] y)'
            "{ y = SequenceAt (x, i) }"
        )
        position = np.asarray(len(arrays) // 2)
        return lambda: run({"x": arrays, "i": position})[0]

    def model(self, answer: np.ndarray, text: str, inputs: dict[str, np.ndarray]) -> Work:
        del answer
        run = self.session(text)
        return lambda: run(inputs)[0]


class OnnxReference(OnnxRuntime):
    """onnx's ReferenceEvaluator."""

    name, module, pip = "onnx-reference", "onnx.reference", "onnx"
    packages = ("onnx",)
    recycles = False
    spins = ""
    note = ""

    def missing(self) -> str:
        return Library.missing(self)

    def threads(self) -> None:
        return None

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        views = super().split(x, sizes, axis)
        return lambda: [chunk.copy() for chunk in views()]

    @cache  # noqa: B019
    def session(self, text: str) -> Callable[[dict[str, Any]], list[Any]]:
        model = importlib.import_module("onnx.parser").parse_model(text)
        evaluator = importlib.import_module("onnx.reference").ReferenceEvaluator(model)
        return lambda inputs: evaluator.run(None, inputs)


LIBRARIES = [OnnxRuntime(), OnnxReference()]
