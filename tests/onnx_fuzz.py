"""Runs damaged ONNX models in processes of their own: each has to give a result or one of the errors we name.

    python tests/onnx_fuzz.py [--count 5000] [--first 0] [--seed 17 ...]
    python tests/onnx_fuzz.py --keep 17 "what went wrong"

Every seed is one damaged model and inputs for it, always the same ones: bytes changed anywhere in a model's file, or
fields of it set to odd values, other names, or parts of other models.  A process that crashes, hangs, takes memory
without bounds or raises anything else is reported with the seed.  Exit status 1 if there is such a seed.

Seeds give other cases once a model is added here or to the conformance cases.  So what was once wrong is kept as it is,
with --keep, in onnx_fuzz_cases.json; seeds -1, -2 and so on are these cases, and every run begins with them.
"""

from __future__ import annotations

import argparse
import base64
import json
import queue
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from google.protobuf.message import Message

ROOT = Path(__file__).parents[1]
#: Cases that once were a finding.
KEPT = Path(__file__).with_name("onnx_fuzz_cases.json")

#: The limits that a program gets, and within which a process has to stay.
MAX_TRIP_COUNT = 30
MAX_BYTES = 1 << 20
MAX_GROWTH = 64 << 20
MAX_ADDRESSES = 3 << 30
MAX_SECONDS = 5.0

#: Seeds that one process works on.
BATCH = 75
WORKERS = 2

NAMED_ERRORS = (ValueError, TypeError, IndexError, np.exceptions.AxisError)
#: How Python words errors of its own.
ACCIDENT = re.compile(
    r"^'[^']*' object |object has no attribute|object is not|cannot be interpreted|(list|tuple) index out of range"
    r"|unhashable|unsupported operand|(positional|keyword) argument|values to unpack|zip\(\) arg|not supported between"
)
PACKAGE = ROOT / "seqarray"
HARMLESS = {"result", *(error.__name__ for error in NAMED_ERRORS)}


# What is damaged


class Entry(NamedTuple):
    """A model that works, and inputs for it."""

    model: onnx.ModelProto
    inputs: list[Any]


FURTHER_MODELS = [
    # Functions that call functions, with attributes; optionals carried by a loop; a body with captures.
    """
    agraph (int64 n, float[N] x, optional(float[N]) o) => (seq(float[]) s, float[M] y, optional(float[N]) p)
    <float[2] w = {1, 2}> {
        s = local.parts<size = 2>(x)
        z = SequenceMap(s, w)<body = b (float[K] a, float[2] v) => (float[L] c) { c = Concat<axis = 0>(a, v, x) }>
        y = ConcatFromSequence<axis = 0>(z)
        p = Loop(n, "", o)<body = l (int64 i, bool c, optional(float[N]) q) => (bool c2, optional(float[N]) r) {
            c2 = Identity(c)
            has = OptionalHasElement(q)
            v = If(has)<
                then_branch = t () => (float[N] a) { a = OptionalGetElement(q) },
                else_branch = e () => (float[N] b) { b = Neg(x) }
            >
            r = Optional(v)
        }>
    }
    <domain: "local", opset_import: ["": 18, "local": 1]>
    parts <size: int = 1> (x) => (s) {
        d = local.double(x)
        n = Constant<value_int: int = @size>()
        s = SplitToSequence<axis = 0>(d, n)
    }
    <domain: "local", opset_import: ["": 18]>
    double (x) => (y) { y = Add(x, x) }
    """,
    # What makes large results, and the reference's operators.
    """
    agraph (int64 n, float[N] x, optional(float[N]) o) => (float[M] y, int64[K] r, float[P, Q] h, float[R, N] e) {
        length = Constant<value_ints = [3]>()
        filled = ConstantOfShape(length)
        times = Constant<value_ints = [2]>()
        tiled = Tile(x, times)
        joined = Concat<axis = 0>(filled, tiled)
        around = Constant<value_ints = [1, 2]>()
        y = Pad(joined, around)
        zero = Constant<value_int = 0>()
        one = Constant<value_int = 1>()
        r = Range(zero, n, one)
        axes = Constant<value_ints = [0]>()
        row = Unsqueeze(x, axes)
        h = Hardmax(row)
        shape = Constant<value_ints = [4, 1]>()
        e = Expand(row, shape)
    }
    """,
    # What grows until the limit is passed, in arrays and in sequences.
    """
    agraph (int64 n, float[N] x, optional(float[N]) o) => (float[M] y, seq(float[]) t, int64 l) {
        times = Constant<value_int = 20>()
        y = Loop(times, "", x)<body = body (int64 i, bool c, float[N] a) => (bool c2, float[M] b) {
            c2 = Identity(c)
            s = SequenceConstruct(a, a, a)
            erased = SequenceErase(s)
            r = SequenceMap(erased)<body = each (float[K] d) => (float[K] e) { e = Neg(d) }>
            b = ConcatFromSequence<axis = 0>(r)
        }>
        empty = SequenceEmpty()
        t = Loop(times, "", empty)<body = other (int64 j, bool d, seq(float[]) u) => (bool d2, seq(float[]) v) {
            d2 = Identity(d)
            w = SequenceInsert(u, x)
            f = Concat<axis = 0>(y, y)
            v = SequenceInsert(w, f)
        }>
        l = SequenceLength(t)
    }
    """,
    # Loops inside a loop, which end on a count, on a condition, and on both; a scan output; text.
    """
    agraph (int64 n, float[N] x, optional(float[N]) o) => (float[M] y, float[K, L] scan, seq(string[]) t) {
        words = Constant<value_strings = ["a", "bc", "def"]>()
        t = SplitToSequence(words)
        go = Constant<value = bool {1}>()
        y, scan = Loop(n, go, x)<body = outer (int64 i, bool c, float[N] a) => (bool c2, float[N] b, float[N] e) {
            c2 = Identity(c)
            p = Loop(n, "", a)<body = middle (int64 j, bool d, float[N] q) => (bool d2, float[N] r) {
                d2 = Less(j, n)
                r = Loop("", d2, q)<body = inner (int64 k, bool f, float[N] u) => (bool f2, float[N] v) {
                    f2 = Less(k, j)
                    v = Add(u, x)
                }>
            }>
            b = Identity(p)
            e = Relu(p)
        }>
    }
    """,
]


def entries() -> list[Entry]:
    """The models of the tests and those of the onnx package that have sequences, larger ones several times."""
    return [*exported_entries()] * 12 + [*onnx_entries()] * 6 + [*conformance_entries()] + [*further_entries()] * 30


def exported_entries() -> Iterator[Entry]:
    """The models exported from torch."""
    from tests.test_onnx_exported import FOLDER, NAMES, data_sets

    for name in NAMES:
        inputs, _ = data_sets(name)[0]
        yield Entry(onnx.load(FOLDER / f"{name}.onnx"), list(inputs.values()))


def onnx_entries() -> Iterator[Entry]:
    """The sequence models in the onnx package."""
    from tests.onnx_helpers import read_value

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "simple"
    for path in sorted(folder.glob("test_sequence_model*/model.onnx")):
        model = onnx.load(path)
        data = path.parent / "test_data_set_0"
        inputs = enumerate(model.graph.input[: len(list(data.glob("input_*.pb")))])
        yield Entry(model, [read_value(data / f"input_{index}.pb", declared.type) for index, declared in inputs])


def conformance_entries() -> Iterator[Entry]:
    """The conformance cases as models, those that fail included."""
    from tests.test_onnx_conformance import EXAMPLES, SPEC_CASES, contained, values_of

    for case in EXAMPLES + SPEC_CASES:
        values = map(contained, case.inputs)
        yield Entry(
            case.model,
            [
                [values_of(element) for element in value["seq"]]
                if value is not None and "seq" in value
                else (None if value is None else values_of(value))
                for value in values
            ],
        )


def further_entries() -> Iterator[Entry]:
    """Models with what the others lack."""
    from tests.onnx_helpers import text_model

    x = np.asarray([1, 2, 3], dtype=np.float32)
    for text in FURTHER_MODELS:
        yield Entry(text_model(text, imports=', "local": 1'), [np.asarray(2), x, None])


# How it is damaged


class Case(NamedTuple):
    """A damaged model in one of the forms that `prepare` takes, and inputs."""

    form: str
    content: bytes
    inputs: list[Any]


ODD_INTEGERS = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 16, 255, 2**31 - 1, 2**31, 2**40, 2**63 - 1]
ODD_FLOATS = [0.0, -1.0, 0.5, 1e30, float("inf"), float("nan")]
OPERATORS = (
    "Split SplitToSequence Concat ConcatFromSequence SequenceAt SequenceInsert SequenceErase SequenceEmpty "
    "SequenceLength SequenceConstruct SequenceMap Optional OptionalGetElement OptionalHasElement Identity Loop If Scan "
    "Constant Shape Add Neg Cast Gather Slice Reshape Expand Tile Pad Range ConstantOfShape Unsqueeze Squeeze Where "
    "Transpose ReduceSum MatMul"
).split()


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
            inputs[place] = np.full_like(
                value, chance.choice([-1, 0, 1, 100, 2**24 if value.dtype.itemsize >= 4 else 9])
            )
        case _ if isinstance(value, np.ndarray):
            inputs[place] = value.reshape(-1)[: chance.randint(0, 2)]
        case _:
            inputs[place] = []
    return inputs


# What is kept


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


# Running a case


def outcome_of(case: Case, folder: Path) -> tuple[str, str]:
    """What becomes of a case: "result" or the class of the error, and more about it."""
    import seqarray.onnx

    model: Any = case.content
    try:
        if case.form == "model":
            model = onnx.ModelProto.FromString(case.content)
        elif case.form == "path":
            model = folder / "model.onnx"
            model.write_bytes(case.content)
        stage = "preparing"
        program = seqarray.onnx.prepare(model, max_trip_count=MAX_TRIP_COUNT, max_bytes=MAX_BYTES)
        stage = "running"
        outputs = program.run(case.inputs)
        assert type(outputs) is list
    except MemoryError as error:
        return "MemoryError", repr(error)
    except Exception as error:
        if "enough memory" in str(error):  # the limit has to be there first
            return "MemoryError", repr(error)
        accident = accident_in(error)
        return ("accident" if accident else type(error).__name__), f"{stage}: {error!r}{accident}"
    return "result", ""


def accident_in(error: BaseException) -> str:
    """What was raised in seqarray by no `raise` of it, and where; "" if it was raised on purpose, or by others."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    if type(error).__module__ != "builtins" or not frames or not Path(frames[-1].filename).is_relative_to(PACKAGE):
        return ""
    if isinstance(error, NAMED_ERRORS) and not ACCIDENT.search(str(error)):
        return ""
    return f" from {error!r} at {frames[-1].filename}:{frames[-1].lineno}"


def work() -> None:
    """Run the seeds that come in, one a line, and say what becomes of each."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    originals = entries()
    for entry in originals[:40]:  # what is imported and cached at the first use of it is not growth
        outcome_of(Case("bytes", entry.model.SerializeToString(), entry.inputs), Path())
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 (no file that pathlib would open better)
        addresses = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (addresses + MAX_ADDRESSES,) * 2)
    before = peak_memory()
    with tempfile.TemporaryDirectory() as folder:
        print("ready", flush=True)
        for line in sys.stdin:
            seed = int(line)
            outcome, note = outcome_of(case_of(seed, originals), Path(folder))
            growth = peak_memory() - before
            if growth > MAX_GROWTH:
                outcome, note = "memory", f"{growth} bytes more than before; {outcome} {note}"
            print(json.dumps({"seed": seed, "outcome": outcome, "note": note[:2000]}), flush=True)
            if outcome == "memory":
                return  # the peak would be counted against every seed that follows


def peak_memory() -> int:
    """The largest number of bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Watching the processes that run them


class Finding(NamedTuple):
    """A seed and what is wrong with it."""

    seed: int
    outcome: str
    note: str


class Worker:
    """A process that works on seeds, one at a time."""

    def __init__(self, command: list[str]) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed in `end`)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=ROOT
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def next_line(self, seconds: float) -> str | None:
        """The next line it writes; "" if it has ended, None if it takes too long."""
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def outcome_of(self, seed: int, seconds: float) -> Finding:
        """What becomes of a seed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{seed}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return Finding(seed, "crash", self.last_words())
        line = self.next_line(seconds)
        if line is None:
            return Finding(seed, "hang", f"no answer after {seconds} s")
        return Finding(**json.loads(line)) if line else Finding(seed, "crash", self.last_words())

    def last_words(self) -> str:
        """How the process ended."""
        status = self.process.wait()
        self.errors.seek(0)
        return f"exit status {status}: {self.errors.read()[-1000:]}"

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            assert stream is not None
            stream.close()


WORK = [sys.executable, "-X", "faulthandler", str(Path(__file__)), "--work"]


def watch(
    seeds: Iterable[int], command: list[str] = WORK, *, seconds: float = MAX_SECONDS, batch: int = BATCH
) -> Iterator[Finding]:
    """What becomes of each seed, in processes that are replaced after a batch and after a crash or a hang.

    A seed that takes too long is tried again in a new process, so that a busy machine does not make one a finding.
    """
    waiting = [(seed, False) for seed in reversed(list(seeds))]
    while waiting:
        worker = Worker(command)
        try:
            if worker.next_line(60) != "ready\n":
                raise RuntimeError(f"a process did not start: {worker.last_words()}")
            for _ in range(batch):
                if not waiting:
                    break
                seed, again = waiting.pop()
                finding = worker.outcome_of(seed, seconds)
                if finding.outcome == "hang" and not again:
                    waiting.append((seed, True))
                    break
                yield finding
                if finding.outcome in ("hang", "crash", "memory"):
                    break
        finally:
            worker.end()


def watch_several(seeds: list[int], report: Callable[[Finding], None]) -> None:
    """Watch as many processes at once as there are to be."""
    failures: list[BaseException] = []

    def share(number: int) -> None:
        try:
            for finding in watch(seeds[number::WORKERS]):
                report(finding)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=share, args=(number,)) for number in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 if every seed gives a result or one of the errors we name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="how many seeds; default 300")
    parser.add_argument("--first", type=int, default=0, help="the first of them; default 0")
    parser.add_argument("--seed", type=int, action="append", help="this seed only (may be given repeatedly)")
    parser.add_argument("--keep", nargs=2, metavar=("SEED", "REASON"), help="add a seed to those that are run always")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        work()
        return 0
    if options.keep:
        keep(int(options.keep[0]), options.keep[1])
        return 0

    kept = range(-1, -len(kept_cases()) - 1, -1)
    seeds = options.seed or [*kept, *range(options.first, options.first + options.count)]
    outcomes: Counter[str] = Counter()
    lock = threading.Lock()

    def report(finding: Finding) -> None:
        with lock:
            outcomes[finding.outcome] += 1
            if finding.outcome not in HARMLESS:
                print(f"seed {finding.seed}: {finding.outcome}: {finding.note}", flush=True)

    watch_several(seeds, report)
    findings = sum(count for outcome, count in outcomes.items() if outcome not in HARMLESS)
    print(f"{sum(outcomes.values())} seeds: {dict(outcomes.most_common())}; {findings} findings")
    return 1 if findings or sum(outcomes.values()) != len(seeds) else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
