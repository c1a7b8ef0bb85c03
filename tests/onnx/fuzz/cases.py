"""Damaged models by seed, and those that are kept because they were once a finding."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import onnx

from tests.onnx.fuzz.damage import other_inputs, passes_the_checker, with_other_bytes, with_other_fields
from tests.onnx.fuzz.models import Entry, entries

#: Cases that once were a finding.
KEPT = Path(__file__).with_name("kept_cases.json")


class Case(NamedTuple):
    """A damaged model in one of the forms that `prepare` takes, and inputs."""

    form: str
    content: bytes
    inputs: list[Any]


def case_of(seed: int, originals: list[Entry]) -> Case:
    """The case of a seed."""
    if seed < 0:
        return kept_cases()[-seed - 1]
    chance = random.Random(seed)
    entry = chance.choice(originals)
    if chance.random() < 0.15:
        content = with_other_bytes(entry.model.SerializeToString(deterministic=True), chance, originals)
        form = "bytes"
    else:
        # Most of what is changed at random is refused by onnx's checker: mostly that is too early to be of interest.
        for _ in range(chance.choice([1, 12, 12])):
            content = with_other_fields(entry.model, chance, originals)
            if passes_the_checker(content):
                break
        form = chance.choice(["bytes", "bytes", "model", "path"])
    inputs = list(entry.inputs)
    if chance.random() < 0.2:
        inputs = other_inputs(inputs, chance)
    return Case(form, content, inputs)


def kept_cases() -> list[Case]:
    """The cases that once were findings."""
    return [
        Case(kept["form"], base64.b64decode(kept["model"]), [unwritten(value) for value in kept["inputs"]])
        for kept in json.loads(KEPT.read_text(encoding="utf-8"))
    ]


def keep(seed: int, reason: str) -> None:
    """Add the case of a seed to the file of those that once were findings."""
    case = case_of(seed, entries())
    cases = json.loads(KEPT.read_text(encoding="utf-8"))
    model = base64.b64encode(case.content).decode()
    cases.append({"found": reason, "form": case.form, "model": model, "inputs": [written(v) for v in case.inputs]})
    lines = ",\n".join(json.dumps(case) for case in cases)
    KEPT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def written(value: Any) -> Any:
    """An input as JSON: null, a list, or a tensor of ONNX as text."""
    if isinstance(value, list):
        return [written(element) for element in value]
    return None if value is None else base64.b64encode(onnx.numpy_helper.from_array(value).SerializeToString()).decode()


def unwritten(value: Any) -> Any:
    """An input from JSON."""
    if isinstance(value, list):
        return [unwritten(element) for element in value]
    if value is None:
        return None
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(base64.b64decode(value))).copy()
