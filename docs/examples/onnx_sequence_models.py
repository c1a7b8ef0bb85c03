"""Run the sequence models that the onnx package carries, node by node, on an array library of your choice.

    python docs/examples/onnx_sequence_models.py [--backend torch] [MODEL ...]

A MODEL is the name of one of these models, or a folder like theirs: model.onnx, and in test_data_set_* its stored
inputs and outputs.  What the nodes compute has to equal the stored outputs in dtype, shape and every value.
"""

import argparse
import importlib
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import seqarray as sa

NAMESPACES = {
    "numpy": "numpy",
    "torch": "torch",
    "jax": "jax.numpy",
    "dask": "dask.array",
    "cupy": "cupy",
    "array_api_strict": "array_api_strict",
}

ONNX_MODELS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "simple"

#: The input of an operator that holds positions or sizes.  They say what to do, so they stay on the host.
HOST_INPUT = {"SequenceAt": 1, "SequenceErase": 1, "SequenceInsert": 2, "SplitToSequence": 1}


def run_model(model, inputs, xp):
    """The outputs of a model for NumPy inputs, computed on the array namespace `xp`, by name."""
    graph, opset = model.graph, model.opset_import[0].version
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    without_value = [declared.name for declared in graph.input if declared.name not in values]
    values |= zip(without_value, inputs, strict=True)

    on_host = {name for node in graph.node for name in node.input[HOST_INPUT.get(node.op_type, len(node.input)) :]}
    for name in values.keys() - on_host:
        values[name] = xp.asarray(values[name])  # the only move to the array library

    for node in graph.node:
        arguments = [values[name] if name else None for name in node.input]
        attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        outputs = sa.opset.run(node.op_type, arguments, attributes, opset=opset, n_outputs=len(node.output), xp=xp)
        values |= zip(node.output, outputs, strict=True)
    return {output.name: values[output.name] for output in graph.output}


def reproduces(model, data_set, xp):
    """Whether a model gives the stored outputs of a data set; prints a line that says so."""
    inputs, expected = load_arrays(data_set, "input"), load_arrays(data_set, "output")
    outputs = run_model(model, inputs, xp)
    shown = ", ".join(f"{name}: {array.dtype} {tuple(array.shape)}" for name, array in outputs.items())
    try:
        for array, stored in zip(outputs.values(), expected, strict=True):
            np.testing.assert_array_equal(sa.testing.to_numpy(array), stored, strict=True)
        verdict = "equal"
    except AssertionError as difference:
        verdict = f"DIFFERENT{difference}"
    operators = " ".join(node.op_type for node in model.graph.node)
    print(f"{data_set.parent.name}: {operators} -> {shown}, {verdict}")
    return verdict == "equal"


def load_arrays(data_set, kind):
    """The arrays in input_0.pb, input_1.pb, ... (or output_0.pb, ...) of a data set."""
    paths = sorted(data_set.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.removeprefix(f"{kind}_")))
    # onnx gives read-only memory, which torch does not take without a warning; hence the copies.
    return [numpy_helper.to_array(onnx.load_tensor(path)).copy() for path in paths]


def main(arguments=None):
    """The exit status: 0 if every model reproduces every stored output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=NAMESPACES, default="numpy", help="the array library; default numpy")
    parser.add_argument("models", metavar="MODEL", nargs="*", help="default: test_sequence_model1 to 8")
    options = parser.parse_args(arguments)

    if options.backend == "jax":  # without this, jax has no int64, which some of the stored outputs are
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    xp = importlib.import_module(NAMESPACES[options.backend])

    equal = []
    for name in options.models or [f"test_sequence_model{number}" for number in range(1, 9)]:
        folder = Path(name) if Path(name).is_dir() else ONNX_MODELS / name
        model = onnx.load(folder / "model.onnx")
        equal += [reproduces(model, data_set, xp) for data_set in sorted(folder.glob("test_data_set_*"))]
    print(f"{options.backend}: {sum(equal)} of {len(equal)} equal")
    return 0 if equal and all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
