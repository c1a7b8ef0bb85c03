"""
Where the steps of a model run
==============================

A model with a network before and after its sequences: seqarray runs what touches sequences, and onnxruntime the rest,
in regions as large as they can be. ``Program.steps`` says which step runs where.
"""

import matplotlib.pyplot as plt
import numpy as np
import onnx.parser

import seqarray as sa

model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    recordings (float[N, 8] x, int64[K] lengths, float[8, 16] first, float[16, 4] second) => (float[N, 4] y) {
        wide = MatMul (x, first)
        shifted = Selu (wide)
        smooth = Softplus (shifted)
        parts = SplitToSequence <axis = 0> (smooth, lengths)
        changed = SequenceMap (parts) <body = each (float[M, 16] row) => (float[M, 16] out) {
            centred = MeanVarianceNormalization <axes = [0]> (row)
            out = Tanh (centred)
        }>
        joined = ConcatFromSequence <axis = 0> (changed)
        narrow = MatMul (joined, second)
        y = Softplus (narrow)
    }""")

program = sa.onnx.prepare(model)
print(program)

# %%
# One run, so that it is seen to work:

random = np.random.default_rng(0)
inputs = [
    random.normal(size=(9, 8)).astype(np.float32),
    np.asarray([2, 4, 3]),
    random.normal(size=(8, 16)).astype(np.float32),
    random.normal(size=(16, 4)).astype(np.float32),
]
(y,) = program.run(inputs)
print(y.shape)

# %%
# Each step has a label, an operator, and the engine that runs it; steps of one region are one call of onnxruntime.

COLOURS = {"seqarray": "#0072b2", "onnxruntime": "#e69f00", "onnx.reference": "#8a93a0"}
engines = list(COLOURS)

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
for place, step in enumerate(program.steps):
    axes.barh(place, 0.8, left=engines.index(step.engine) - 0.4, color=COLOURS[step.engine])
    words = "" if step.region is None else f"region {step.region}"
    axes.text(engines.index(step.engine), place, words, ha="center", va="center", fontsize=9)
axes.set(
    xticks=range(len(engines)),
    xticklabels=engines,
    yticks=range(len(program.steps)),
    yticklabels=[step.op_type for step in program.steps],
    xlim=(-0.6, len(engines) - 0.4),
    title="Which engine runs each step, in order from the top",
)
axes.invert_yaxis()
plt.show()
