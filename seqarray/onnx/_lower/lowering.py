"""Models without sequences, made of models with them: for runtimes that have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from seqarray._dtypes import ONNX_TYPES, element_type_of
from seqarray.onnx._load.model import Model, function_key, graphs_of, load
from seqarray.onnx._load.pruning import needed_for
from seqarray.onnx._load.type_protos import ValueType, value_type
from seqarray.onnx._lower.builder import Builder, Tensor, Tensors, Value
from seqarray.onnx._lower.graphs import Lowering, initializer
from seqarray.onnx._run.placement import download
from seqarray.onnx._scope import Scope

#: Initializers need not be inputs from this version of the format on.
_IR_VERSION = 4


def lower(
    model: Any, inputs: Mapping[str, Any] | Sequence[Any] = (), *, keepdims_with_split: str = "ignore"
) -> onnx.ModelProto:
    """Rewrite a model without sequences and optionals, for inputs of fixed shapes.

    A sequence becomes its elements, so their number has to be known: lengths of the axes along which tensors are split,
    numbers of iterations, positions.  Loops that carry sequences are unrolled; others stay, like all other nodes.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        The model.
    inputs : mapping or sequence
        What is known of the inputs, by name or in order: the shape of a tensor as a tuple, or an array that is an
        example; for a sequence, a list of these; None for an optional that is absent.  Of an example of integers or
        bools, the values are used where a length, a position, a number of iterations or a condition depends on them;
        the input is then a constant of the new model, and no input any more.  An input that is left out has its default
        or its declared shape.
    keepdims_with_split : {"ignore", "apply"}, default "ignore"
        As for `prepare`.

    Returns
    -------
    onnx.ModelProto
        The new model.  A sequence `s` among the inputs or outputs has become the tensors `s.0`, `s.1`, ...

    Raises
    ------
    ValueError
        If something that has to be known is not; the message names the node and what it needs.
    TypeError
        If an argument is of the wrong kind.

    Examples
    --------
    >>> import numpy as np
    >>> import onnx.parser
    >>> import seqarray as sa
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     twice (float[N] x, int64[M] sizes) => (float[K] y) {
    ...         s = SplitToSequence(x, sizes)
    ...         t = SequenceErase(s)
    ...         y = ConcatFromSequence<axis = 0>(t)
    ...     }''')
    >>> lowered = sa.onnx.lower(model, {"x": (6,), "sizes": np.asarray([1, 2, 3])})
    >>> [node.op_type for node in lowered.graph.node], [value.name for value in lowered.graph.input]
    (['Split', 'Concat', 'Identity'], ['x'])
    """
    if keepdims_with_split not in ("ignore", "apply"):
        raise ValueError(f"lower: keepdims_with_split is {keepdims_with_split!r}; expected 'ignore' or 'apply'")
    loaded = load(model)
    given = _by_name(inputs, loaded.graph)
    fixed: frozenset[str] = frozenset()
    while True:
        builder = Builder(loaded, fixed, opsets=dict(loaded.opsets))
        lowered = _lowered(builder, given, keepdims_with_split == "apply")
        if builder.read <= fixed:
            return lowered
        # What an example decides has to be a constant from the beginning.
        fixed |= builder.read


def _by_name(inputs: Mapping[str, Any] | Sequence[Any], graph: onnx.GraphProto) -> dict[str, Any]:
    """Return what is given of the inputs by name."""
    names = [value.name for value in graph.input]
    if isinstance(inputs, Mapping):
        for name in inputs:
            if name not in names:
                raise ValueError(f"lower: the model has no input {name!r}; it has {', '.join(names) or 'none'}")
        return dict(inputs)
    if isinstance(inputs, (str, bytes)) or not isinstance(inputs, Sequence):
        raise TypeError(f"lower: inputs is a {type(inputs).__name__}; expected a dict, or a list or tuple")
    if len(inputs) > len(names):
        raise ValueError(f"lower: got {len(inputs)} inputs; the model has {len(names)}")
    return dict(zip(names, inputs, strict=False))


def _lowered(builder: Builder, given: Mapping[str, Any], applies_keepdims: bool) -> onnx.ModelProto:
    """Return the lowered model."""
    graph, model = builder.model.graph, builder.model
    for name in {value.name for value in (*graph.input, *graph.output)}:
        builder.fresh(name)
    builder.outputs = frozenset(value.name for value in graph.output)
    values: dict[str, Value] = {}
    inputs: list[onnx.ValueInfoProto] = []
    defaults = {tensor.name: tensor for tensor in graph.initializer}
    for declared in graph.input:
        name, kind = declared.name, value_type(declared.type, f"lower: input {declared.name!r}")
        if name not in given and name in defaults:
            values[name] = initializer(builder, defaults[name], model.folder)
        else:
            values[name] = _input(builder, name, kind, given.get(name, _Missing), inputs)
    results = Lowering(builder, applies_keepdims).graph(graph, values, Scope(model.opsets))
    outputs: list[onnx.ValueInfoProto] = []
    for output, value in zip(graph.output, results, strict=True):
        if isinstance(value, Tensors):
            for index, tensor in enumerate(value.elements):
                outputs.append(_output(builder, f"{output.name}.{index}", tensor, onnx.TypeProto()))
        elif value is not None:
            outputs.append(_output(builder, output.name, value, output.type))
    return _pruned(builder, inputs, outputs)


class _Missing:
    """Stands for an input of which nothing is given."""


def _input(
    builder: Builder,
    name: str,
    kind: ValueType,
    given: Any,
    inputs: list[onnx.ValueInfoProto],
) -> Value:
    """Return the value that an input stands for, and append the inputs of the lowered graph."""
    if given is None:
        if not kind.optional:
            raise ValueError(f"lower: input {name!r} is None; expected {kind}")
        return None
    if given is _Missing and (kind.sequence or kind.optional):
        raise ValueError(
            f"lower: input {name!r} is missing; it is {kind}, of which the number of tensors must be known"
        )
    if not kind.sequence:
        return _tensor_input(builder, name, kind, given, inputs)
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(f"lower: input {name!r} is a {type(given).__name__}; expected a list of shapes or arrays")
    element = ValueType(kind.element_type)
    elements = [
        _tensor_input(builder, builder.fresh(f"{name}.{index}"), element, item, inputs)
        for index, item in enumerate(given)
    ]
    return Tensors(tuple(elements), kind.element_type)


def _tensor_input(
    builder: Builder, name: str, kind: ValueType, given: Any, inputs: list[onnx.ValueInfoProto]
) -> Tensor:
    """Return the tensor that an input stands for."""
    label, value = f"lower: input {name!r}", None
    if kind.element_type is None:
        raise ValueError(f"{label} has no element type")
    shape: Sequence[int | str | None] | None
    if given is _Missing:
        shape = kind.shape
    elif hasattr(given, "shape") and hasattr(given, "dtype"):
        shape, value = tuple(given.shape), download(given)
        if element_type_of(value.dtype) != kind.element_type:
            raise TypeError(f"{label} is an array of {element_type_of(value.dtype)}; expected {kind}")
    elif isinstance(given, Sequence) and all(isinstance(length, (int, np.integer)) for length in given):
        shape = tuple(int(length) for length in given)
    else:
        raise TypeError(f"{label} is {given!r}; expected a shape or an array")
    if given is not _Missing and kind.shape is not None and shape is not None:
        fits = len(shape) == len(kind.shape) and all(shape[axis] == length for axis, length in kind.lengths)
        if not fits:
            raise ValueError(f"{label} has shape {tuple(shape)}; expected {kind}")
    if value is not None and name in builder.fixed:
        return builder.constant(value)
    proto = helper.make_tensor_type_proto(ONNX_TYPES[kind.element_type].code, shape)
    inputs.append(helper.make_value_info(name, proto))
    if value is None or value.dtype.kind not in "biu":
        return Tensor(name, proto)
    return Tensor(name, proto, value, frozenset({name}))


def _output(builder: Builder, name: str, tensor: Tensor, original: onnx.TypeProto) -> onnx.ValueInfoProto:
    """Return an output of the lowered graph, which gets a node for it; its type is known or the original one."""
    source = builder.name_of(tensor, f"lower: output {name!r}")
    if source != name:  # an input may be an output
        name = builder.fresh(name) if name not in builder.outputs else name
        builder.nodes.append(helper.make_node("Identity", [source], [name]))
    declared = onnx.TypeProto()
    declared.CopyFrom(original if tensor.shape is None and original.HasField("tensor_type") else tensor.type)
    if tensor.shape_of_inputs - builder.fixed:
        # Examples have shown this shape, but others may come.
        for dim in declared.tensor_type.shape.dim:
            dim.Clear()
    return helper.make_value_info(name, declared)


def _pruned(builder: Builder, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    """Return the lowered model without nodes and constants that nothing needs."""
    original: Model = builder.model
    graph = helper.make_graph(builder.nodes, original.graph.name or "lowered", inputs, outputs, builder.initializers)
    needed = needed_for(graph, [output.name for output in outputs])
    nodes = [node for index, node in enumerate(graph.node) if index in needed.nodes]
    constants = [tensor for tensor in graph.initializer if tensor.name in needed.names]
    lowered = onnx.ModelProto(ir_version=max(original.proto.ir_version, _IR_VERSION), producer_name="seqarray")
    lowered.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in builder.opsets.items())
    lowered.graph.CopyFrom(helper.make_graph(nodes, graph.name, inputs, outputs, constants))
    lowered.metadata_props.extend(original.proto.metadata_props)
    lowered.functions.extend(original.functions[key] for key in _called(lowered.graph.node, original))
    return lowered


def _called(nodes: Any, model: Model) -> list[Any]:
    """Return the keys of the functions that nodes, their graphs and the functions themselves call."""
    called: dict[Any, None] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        waiting += [inner for a in node.attribute for graph in graphs_of(a) for inner in graph.node]
        key = function_key(node)
        if key in model.functions and key not in called:
            called[key] = None
            waiting += model.functions[key].node
    return list(called)
