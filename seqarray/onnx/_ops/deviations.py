"""Where onnx's reference implementation, or onnxruntime, computes otherwise than the standard says.

The tables were made by comparing both for the cases of ``tests/onnx/operator_cases.py``, and each with onnx's own
tests.  Where they differ, the text of the standard and torch decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx

from seqarray._dtypes import ELEMENT_TYPE_BY_CODE, element_type_of
from seqarray.onnx._ops.node import Node


class Input(NamedTuple):
    """What is known of an input of a node.

    Attributes
    ----------
    is_given : bool
        Whether it is not left out.
    element_type : str or None
        Its element type.
    shape : tuple or None
        Its shape, with None for unknown lengths.
    value : array or None
        Its values.
    """

    is_given: bool = False
    element_type: str | None = None
    shape: tuple[int | None, ...] | None = None
    value: Any = None

    @property
    def rank(self) -> int | None:
        """How many axes it has; None if that is not known."""
        return None if self.shape is None else len(self.shape)


def input_of_type(declared: onnx.TypeProto | None, value: Any = None) -> Input:
    """Return what a declared type tells of an input; an empty type stands for one that is left out."""
    if value is not None:
        return input_of_array(value)
    if declared is None or declared.WhichOneof("value") != "tensor_type":
        return Input(declared is None or bool(declared.WhichOneof("value")))
    tensor = declared.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
    return Input(True, ELEMENT_TYPE_BY_CODE.get(tensor.elem_type), shape)


def input_of_array(array: Any) -> Input:
    """Return what an array tells of an input."""
    if not isinstance(array, np.ndarray):
        return Input(array is not None)
    return Input(True, element_type_of(array.dtype), array.shape, array)


#: The languages in which ASCII letters have capitals, or small letters, that are none.
_OTHER_ASCII_CASES = frozenset({"az", "lt", "tr"})

#: Along an axis, coordinates of so many items are looked at.
_MANY_ITEMS = 1 << 16

#: Whether a node deviates, as far as its attributes and what is known of its inputs tell.
Test = Callable[[Node, Sequence[Input]], bool]


def _always(node: Node, inputs: Sequence[Input]) -> bool:
    return True


def _has_lengths(node: Node, inputs: Sequence[Input]) -> bool:
    return inputs[4].is_given


def _has_options(node: Node, inputs: Sequence[Input]) -> bool:
    defaults = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}[node.proto.op_type]
    activations = [name.lower() for name in node.attributes.get("activations", ())]
    usual = activations in ([], defaults, 2 * defaults)
    return not usual or "clip" in node.attributes or bool(node.attributes.get("input_forget", 0))


def _flattens(node: Node, inputs: Sequence[Input]) -> bool:
    axis, rank = node.attributes.get("axis", 1), inputs[0].rank
    return bool(axis != -1) and rank is not None and axis != rank - 1


def _is_scalar(node: Node, inputs: Sequence[Input]) -> bool:
    return inputs[0].rank == 0


def _is_not_4d(node: Node, inputs: Sequence[Input]) -> bool:
    return inputs[0].rank not in (None, 4)


def _pads_lower(node: Node, inputs: Sequence[Input]) -> bool:
    strides = node.attributes.get("strides", ())
    if node.attributes.get("auto_pad") != "SAME_LOWER":
        return False
    return any(stride > 1 for stride in strides) or _is_not_4d(node, inputs)


def _has_indices(node: Node, inputs: Sequence[Input]) -> bool:
    return node.n_outputs > 1


def _is_of_bytes(node: Node, inputs: Sequence[Input]) -> bool:
    return inputs[0].element_type in ("int8", "uint8")


def _rounds_coordinates(node: Node, inputs: Sequence[Input]) -> bool:
    """Return whether a coordinate in the input that should be whole is not quite, so that a wrong item is taken."""
    shape, scales, sizes = (inputs[0].shape, *(given.value for given in inputs[2:4]))
    if shape is None or None in shape or (sizes is None and scales is None):
        return False
    axes = node.attributes.get("axes", range(len(shape)))
    mode = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    for axis, given in zip(axes, (scales if sizes is None else sizes).tolist(), strict=False):
        length = shape[axis] or 1
        scale = given if sizes is None else given / length
        x = np.arange(min(int(scale * length) if sizes is None else given, _MANY_ITEMS))
        if mode == "align_corners":
            coordinates = x * (length - 1) / max(scale * length - 1, 1)
        else:
            coordinates = x / scale if mode == "asymmetric" else (x + 0.5) / scale - 0.5
        distances = np.abs(coordinates - np.rint(coordinates))
        if bool(np.any((distances != 0) & (distances < 1e-10))):
            return True
    return False


def _is_not_nearest(node: Node, inputs: Sequence[Input]) -> bool:
    default = "nearest" if node.proto.op_type == "Upsample" else "bilinear"
    return bool(node.attributes.get("mode", default) != "nearest")


def _is_cubic_at_border(node: Node, inputs: Sequence[Input]) -> bool:
    return node.attributes.get("mode") == "cubic" and node.attributes.get("padding_mode") == "border"


def _counts_from_end(node: Node, inputs: Sequence[Input]) -> bool:
    return bool(node.attributes.get("axis", 0) < 0)


def _is_empty(node: Node, inputs: Sequence[Input]) -> bool:
    return 0 in (inputs[0].shape or ())


def _has_groups_of_several(node: Node, inputs: Sequence[Input]) -> bool:
    shape = inputs[1].shape or ()
    return bool(node.attributes.get("group", 1) > 1) and len(shape) > 1 and shape[1] not in (None, 1)


def _crops(node: Node, inputs: Sequence[Input]) -> bool:
    pads = inputs[1].value if inputs[1].is_given else None
    return any(pad < 0 for pad in (node.attributes.get("pads", ()) if pads is None else pads.tolist()))


def _has_depth_of_one_axis(node: Node, inputs: Sequence[Input]) -> bool:
    return inputs[1].rank == 1


def _leaves_out_limits(node: Node, inputs: Sequence[Input]) -> bool:
    return not all(limit.is_given for limit in inputs[2:5]) or any(limit.rank == 0 for limit in inputs[2:5])


def _changes_text(node: Node, inputs: Sequence[Input]) -> bool:
    """Return whether texts are empty, of more than ASCII letters, or of several words that may be stopwords."""
    given = node.attributes
    stopwords = given.get("stopwords", ())
    ignores_case = not given.get("is_case_sensitive", 0) and given.get("case_change_action", "NONE") == "NONE"
    if (stopwords and ignores_case) or given.get("locale", "")[:2] in _OTHER_ASCII_CASES:
        return True
    texts = [] if inputs[0].value is None else inputs[0].value.ravel().tolist()
    return any(not text or not text.isascii() or (stopwords and " " in text) for text in texts)


class Deviation(NamedTuple):
    """Versions of an operator, from one before another, whose reference implementation deviates, and in what."""

    since: int
    before: int
    deviates: Test
    text: str


_NEVER = 1 << 30

_RECURRENT = [
    Deviation(1, _NEVER, _has_lengths, "it ignores sequence_lens"),
    Deviation(1, _NEVER, _has_options, "it ignores activations, clip and input_forget"),
]
_ALONG_ONE_AXIS = [Deviation(1, 13, _flattens, "it takes one axis, where versions before 13 flatten")]

#: op_type of the standard to where its reference implementation deviates.
REFERENCE: dict[str, list[Deviation]] = {
    "BatchNormalization": [Deviation(7, 14, _always, "it trains, where versions before 14 do not")],
    "ConvTranspose": [Deviation(1, _NEVER, _has_groups_of_several, "it has no groups of several channels")],
    "Flatten": [Deviation(1, _NEVER, _is_empty, "it does not take inputs without items")],
    "GRU": _RECURRENT,
    "GatherElements": [Deviation(1, _NEVER, _counts_from_end, "it does not take a negative axis")],
    "GlobalMaxPool": [Deviation(1, _NEVER, _is_not_4d, "it takes inputs of four axes only")],
    "GridSample": [
        Deviation(1, 20, _is_not_nearest, "it does not know the modes of versions before 20"),
        Deviation(20, _NEVER, _is_cubic_at_border, "it differs for mode cubic with padding_mode border"),
    ],
    "Hardmax": _ALONG_ONE_AXIS,
    "LSTM": _RECURRENT,
    "LogSoftmax": _ALONG_ONE_AXIS,
    "MaxPool": [
        Deviation(1, _NEVER, _pads_lower, "it differs for auto_pad SAME_LOWER"),
        Deviation(1, _NEVER, _has_indices, "its Indices differ"),
        Deviation(1, _NEVER, _is_of_bytes, "it takes floating-point numbers only"),
    ],
    "NonMaxSuppression": [
        Deviation(1, _NEVER, _leaves_out_limits, "it needs all inputs, and limits of one axis"),
    ],
    "NonZero": [Deviation(1, _NEVER, _is_scalar, "it differs for a scalar")],
    "OneHot": [Deviation(1, _NEVER, _has_depth_of_one_axis, "it takes a depth without axes only")],
    "Pad": [Deviation(1, _NEVER, _crops, "it does not take negative pads")],
    "RNN": _RECURRENT,
    "Resize": [
        Deviation(1, 11, _always, "it has no version before 11"),
        Deviation(11, _NEVER, _rounds_coordinates, "it takes wrong items where coordinates are rounded"),
    ],
    "RoiAlign": [Deviation(1, 16, _always, "it has no version before 16")],
    "Softmax": _ALONG_ONE_AXIS,
    "StringNormalizer": [
        Deviation(1, _NEVER, _changes_text, "it drops empty texts and accents, and takes stopwords out of texts")
    ],
    "Upsample": [
        Deviation(1, 9, _always, "it has no version before 9"),
        Deviation(9, _NEVER, _is_not_nearest, "it has the mode nearest only"),
    ],
}


#: Attributes that make a difference only where the above applies, and for which the process would be changed.
IGNORED_BY_REFERENCE = {"StringNormalizer": "locale"}


def deviation_of_reference(node: Node, inputs: Sequence[Input]) -> str:
    """Return in what the reference implementation of a node deviates, as far as is known; "" if in nothing."""
    if node.domain:
        return ""
    padded = [*inputs, *[Input()] * (8 - len(inputs))]
    for deviation in REFERENCE.get(node.proto.op_type, ()):
        if deviation.since <= node.version < deviation.before and deviation.deviates(node, padded):
            return deviation.text
    return ""


#: An equation of Einsum: labels and at most one ellipsis in each term.
_TERM = rb"[A-Za-z ]*(\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(_TERM + rb"(," + _TERM + rb")*(->" + _TERM + rb")?")


def deviates_in_onnxruntime(proto: onnx.NodeProto) -> bool:
    """Return whether onnxruntime computes a node otherwise than onnx's tests, refuses valid inputs or never ends."""
    if proto.domain not in ("", "ai.onnx"):
        return False
    attributes = {attribute.name: attribute for attribute in proto.attribute}
    match proto.op_type:
        case "DFT" | "STFT":  # It sums in single precision.
            return True
        case "Attention":
            # The products of queries and keys differ, and it refuses lengths of keys beside a mask of four axes.
            return bool(proto.output[3:4] and proto.output[3]) or bool(proto.input[6:7] and proto.input[6])
        case "MaxUnpool":
            return len(proto.input) > 2 and bool(proto.input[2])
        case "ConvInteger":
            return "pads" in attributes and len(proto.input) > 2
        case "Einsum":  # Its shape is looked for without end where there is something else behind a label.
            return "equation" in attributes and not _EQUATION.fullmatch(attributes["equation"].s)
    return False
