"""Changes of a model's file, of its fields and of its inputs, made at random."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message

from tests.onnx.fuzz.models import Entry

ODD_INTEGERS = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 16, 255, 2**31 - 1, 2**31, 2**40, 2**63 - 1]
ODD_FLOATS = [0.0, -1.0, 0.5, 1e30, float("inf"), float("nan")]
OPERATORS = (
    "Split SplitToSequence Concat ConcatFromSequence SequenceAt SequenceInsert SequenceErase SequenceEmpty "
    "SequenceLength SequenceConstruct SequenceMap Optional OptionalGetElement OptionalHasElement Identity Loop If Scan "
    "Constant Shape Add Neg Cast Gather Slice Reshape Expand Tile Pad Range ConstantOfShape Unsqueeze Squeeze Where "
    "Transpose ReduceSum MatMul StringConcat StringSplit Einsum DFT RoiAlign ConvTranspose NonZero GatherND Max"
).split()


def passes_the_checker(content: bytes) -> bool:
    """Whether onnx finds nothing wrong with the file of a model."""
    try:
        onnx.checker.check_model(onnx.ModelProto.FromString(content))
    except Exception:
        return False
    return True


def with_other_bytes(content: bytes, chance: random.Random, originals: list[Entry]) -> bytes:
    """A file with some bytes changed, moved, added or left out."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 2)):
        start = chance.randrange(len(data) or 1)
        end = min(len(data), start + chance.randint(1, 16))
        match chance.randrange(10):
            case 0:
                data[start:end] = bytes(chance.randrange(256) for _ in range(end - start))
            case 1:
                del data[start:end]
            case 2:
                data[start:start] = data[start:end] * chance.randint(1, 4)
            case 3:
                del data[start:]
            case 4:
                other = chance.choice(originals).model.SerializeToString(deterministic=True)
                cut = chance.randrange(len(other))
                data[start:end] = other[cut : cut + chance.randint(1, 64)]
            case _:
                if data:
                    data[start] ^= 1 << chance.randrange(8)
    return bytes(data)


def with_other_fields(model: onnx.ModelProto, chance: random.Random, originals: list[Entry]) -> bytes:
    """The file of a model some fields of which are changed."""
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    for _ in range(chance.randint(1, 3)):
        change_field(changed, chance, originals)
    return changed.SerializeToString()


def messages(message: Message) -> list[Message]:
    """A message and all inside it."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if is_repeated(field) else [value]:
                found += messages(inner)
    return found


def is_repeated(field: Any) -> bool:
    """Whether a field holds a list."""
    return bool(field.is_repeated)


def change_field(model: onnx.ModelProto, chance: random.Random, originals: list[Entry]) -> None:
    """Change one field somewhere in a model; nodes and their attributes most often."""
    inside = messages(model)
    wanted = chance.choice([onnx.NodeProto, onnx.NodeProto, onnx.AttributeProto, onnx.TensorProto, Message, Message])
    message = chance.choice([inner for inner in inside if isinstance(inner, wanted)] or inside)
    field = chance.choice(
        [field for field, _ in message.ListFields()]
        if message.ListFields() and chance.random() < 0.85
        else list(message.DESCRIPTOR.fields)
    )
    if is_repeated(field):
        change_list(message, field, inside, chance, originals)
    elif chance.random() < 0.1:
        message.ClearField(field.name)
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(other_message(field, inside, chance, originals))
    else:
        setattr(message, field.name, other_value(message, field, inside, chance))


def change_list(
    message: Message, field: Any, inside: list[Message], chance: random.Random, originals: list[Entry]
) -> None:
    """Leave out, repeat, exchange, change or add an entry of a list."""
    entries_now = list(getattr(message, field.name))
    place = chance.randrange(len(entries_now)) if entries_now else 0

    def another() -> Any:
        if field.message_type is not None:
            return other_message(field, inside, chance, originals)
        return other_value(message, field, inside, chance)

    match chance.randrange(6) if entries_now else 5:
        case 0:
            del entries_now[place]
        case 1:
            entries_now.insert(place, entries_now[chance.randrange(len(entries_now))])
        case 2:
            other = chance.randrange(len(entries_now))
            entries_now[place], entries_now[other] = entries_now[other], entries_now[place]
        case 3 | 4:
            entries_now[place] = another()
        case _:
            entries_now.insert(place, another())
    copies = [
        type(entry).FromString(entry.SerializeToString()) if isinstance(entry, Message) else entry
        for entry in entries_now
    ]
    message.ClearField(field.name)
    getattr(message, field.name).extend(copies)


def other_message(field: Any, inside: list[Message], chance: random.Random, originals: list[Entry]) -> Message:
    """A copy of a message of the type of a field, from the same or another model."""
    donors = inside if chance.random() < 0.5 else messages(chance.choice(originals).model)
    fitting = [donor for donor in donors if donor.DESCRIPTOR is field.message_type]
    kind = field.message_type._concrete_class
    return kind.FromString(chance.choice(fitting).SerializeToString()) if fitting else kind()


def other_value(message: Any, field: Any, inside: list[Message], chance: random.Random) -> Any:
    """A value for a field that is no message: a text, a number or bytes."""
    if field.cpp_type == field.CPPTYPE_STRING:
        if field.name == "raw_data" and message.data_type == onnx.TensorProto.INT64 and chance.random() < 0.8:
            count = len(message.raw_data) // 8
            return np.asarray([chance.choice(ODD_INTEGERS) for _ in range(count)], dtype=np.int64).tobytes()
        if field.type == field.TYPE_BYTES:
            return bytes(chance.randrange(256) for _ in range(chance.choice([0, 1, 4, 8, 9, 64])))
        if field.name == "op_type":
            return chance.choice(OPERATORS)
        nodes = [inner for inner in inside if isinstance(inner, onnx.NodeProto)]
        names = [name for node in nodes for name in [*node.input, *node.output]]
        return chance.choice([*names, "", "axis", "../w", "\x00", "é"])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return chance.choice(ODD_FLOATS)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if field.cpp_type == field.CPPTYPE_ENUM:
        return chance.choice([value.number for value in field.enum_type.values])
    if isinstance(message, onnx.OperatorSetIdProto) and chance.random() < 0.8:
        return chance.randint(1, 28)
    number = chance.choice([*ODD_INTEGERS, chance.randint(-5, 30)])
    bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    signed = field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
    wrapped = number % 2**bits
    return wrapped - 2**bits if signed and wrapped >= 2 ** (bits - 1) else wrapped


def other_inputs(inputs: list[Any], chance: random.Random) -> list[Any]:
    """Inputs one of which is missing, doubled, or of another kind, type, shape or value."""
    if not inputs:
        return [np.zeros(2, dtype=np.float32)]
    place = chance.randrange(len(inputs))
    value = inputs[place]
    match chance.randrange(6):
        case 0:
            del inputs[place]
        case 1:
            inputs.append(value)
        case 2:
            inputs[place] = None
        case 3:
            inputs[place] = [value] if isinstance(value, np.ndarray) else np.zeros(3, dtype=np.float32)
        case 4 if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
            number = chance.choice([-1, 0, 1, 100, 2**24 if value.dtype.itemsize >= 4 else 9])
            # Types without a sign wrap around.
            inputs[place] = np.full(value.shape, number).astype(value.dtype)
        case _ if isinstance(value, np.ndarray):
            inputs[place] = value.reshape(-1)[: chance.randint(0, 2)]
        case _:
            inputs[place] = []
    return inputs
