"""The command ``seqarray demo``, which takes a ragged batch of text through every array library that is installed.

The text is the Zen of Python, by Tim Peters, which is in the public domain, and which every Python has in the module
`this`, enciphered.  The batch is its words, which a table of codes deciphers.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import importlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from time import perf_counter
from typing import Any

import numpy as np

import seqarray as sa
from seqarray._blocks import held_arrays
from seqarray._commands.libraries import NOT_INSTALLED, Found, find_all, in_columns, shortened
from seqarray._libraries import library_of

DESCRIPTION = "Take a ragged batch of text through every array library that is installed, and show what it took."
EPILOG = "Exit status: 1 if a library fails, or gives another result than Python's own lists."

#: The steps, and what each does.
_STEPS = {
    "split": "unpack: the text into words, by their offsets; views where the library has some",
    "map": "sequence_map: a table deciphers each word",
    "pad": "pad_sequence and sequence_mask: the words below one another, and which items are theirs",
    "join": "pack: the words one after the other again, and their offsets",
    "model": "an ONNX model does the same: SplitToSequence, SequenceMap and ConcatFromSequence",
    "read": "all results to NumPy, where lazy libraries do their work; compared with Python's lists",
}
_SPACE = 32
#: How many lines of the text are taken: jax compiles for each length that words have, which takes seconds for all.
_LINES = 12
#: How many words of the text are shown.
_SHOWN = 8
_LEGEND = """
Times are those of the second of two rounds; all is read once.
Below them: bytes / allocations of the memory that a result holds and nothing before it did.
"""


class Batch:
    """The words of a text as codes, and what shall become of them by Python's own means.

    Attributes
    ----------
    cipher : list of str
        The words as they are, each with the space behind it.
    plain : list of str
        The words deciphered.
    """

    def __init__(self, cipher: str) -> None:
        self.cipher = re.findall(r"\S+\s*", cipher)
        self.plain = [codecs.decode(word, "rot13") for word in self.cipher]
        self.lengths = list(map(len, self.cipher))
        self.offsets = [0, *accumulate(self.lengths)]
        self.longest = max(self.lengths)

    def inputs(self) -> tuple[Any, Any]:
        """Return the codes of the text, and the table that deciphers a code, as NumPy arrays."""
        table = codecs.decode("".join(map(chr, range(128))), "rot13")
        return _codes("".join(self.cipher)), _codes(table)

    def expected(self) -> dict[str, Any]:
        """Return the results of the steps, as Python's own lists."""
        plain = "".join(self.plain)
        return {
            "split": [_ordinals(word) for word in self.cipher],
            "map": [_ordinals(word) for word in self.plain],
            "pad": [_ordinals(word.ljust(self.longest)) for word in self.plain],
            "mask": [[place < length for place in range(self.longest)] for length in self.lengths],
            "join": _ordinals(plain),
            "offsets": self.offsets,
            "model": _ordinals(plain),
        }


def _codes(text: str) -> Any:
    return np.asarray(_ordinals(text), dtype=np.int32)


def _ordinals(text: str) -> list[int]:
    return list(map(ord, text))


def zen() -> Batch:
    """Return the words of the first lines of the Zen of Python, enciphered."""
    with contextlib.redirect_stdout(io.StringIO()):  # importing it prints it
        this: Any = importlib.import_module("this")
    return Batch("".join(this.s.splitlines(keepends=True)[:_LINES]))


@dataclass
class Outcome:
    """What the steps took on one library.

    Attributes
    ----------
    seconds : dict of str to float
        How long each step took, by its name.
    memory : dict of str to tuple of int
        How many bytes of memory the result of each step holds that none before held, and in how many allocations; None
        for arrays that have not been computed.
    results : dict
        The results as Python's own lists.
    problem : str
        Why there is no result; "" if there is one.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


def measure(found: Found, batch: Batch, make_program: Callable[[str], Any] | None) -> Outcome:
    """Take a batch through the steps on a library, twice, and return what the second time took.

    The first time, libraries compile and load what they need.
    """
    outcome = Outcome()
    try:
        program = make_program(found.name) if make_program else None
        _take_through(found.name, batch, program)
        outcome, results = _take_through(found.name, batch, program)
        begin = perf_counter()
        on_host = {step: _read(result) for step, result in results.items()}
        outcome.seconds["read"] = perf_counter() - begin
        outcome.results = {step: _as_lists(result) for step, result in on_host.items()}
    except Exception as error:  # each library has errors of its own; the other libraries are shown anyway
        outcome.problem = f"{type(error).__name__}: {error}".splitlines()[0]
    return outcome


def _take_through(name: str, batch: Batch, program: Any) -> tuple[Outcome, dict[str, Any]]:
    """Return what the steps took on a library, but for reading, and their results."""
    text, table = sa.ArraySequence(batch.inputs()).to(xp=name)
    outcome, held = Outcome(), set(_allocations([text, table]))

    def timed(step: str, function: Callable[[], Any], arrays_of: Callable[[Any], Iterable[Any]]) -> Any:
        begin = perf_counter()
        result = function()
        outcome.seconds[step] = perf_counter() - begin
        outcome.memory[step] = _new_memory(list(arrays_of(result)), held)
        return result

    words = timed("split", lambda: sa.unpack(text, batch.offsets), _arrays_of)
    take = partial(words.namespace.take, axis=0)
    decipher = lambda word, codes: take(codes, word)  # noqa: E731
    plain = timed("map", lambda: sa.sequence_map(words, table, body=decipher), _arrays_of)
    padded, mask = timed("pad", lambda: _padded(plain), list)
    joined, offsets = timed("join", lambda: sa.pack(plain), lambda result: [result[0]])
    results = {"split": words, "map": plain, "pad": padded, "mask": mask, "join": joined, "offsets": offsets}
    if program is not None:
        inputs = [text, np.asarray(batch.lengths), table]
        (results["model"],) = timed("model", lambda: program.run(inputs), list)
    return outcome, results


def _padded(words: sa.ArraySequence[Any]) -> tuple[Any, Any]:
    return (
        sa.pad_sequence(words, fill_value=_SPACE),
        sa.sequence_mask(words.lengths(), xp=words.namespace, device=words.device),
    )


def _arrays_of(sequence: sa.ArraySequence[Any]) -> Iterable[Any]:
    """Return the arrays that a sequence holds: of chunks, that which they are chunks of."""
    return held_arrays(sequence._blocks)


def _read(result: Any) -> Any:
    return result.to(xp="numpy") if isinstance(result, sa.ArraySequence) else sa.testing.to_numpy(result)


def _as_lists(result: Any) -> Any:
    return [element.tolist() for element in result] if isinstance(result, sa.ArraySequence) else result.tolist()


def _new_memory(arrays: list[Any], held: set[Any]) -> tuple[int, int] | None:
    """Return how much memory arrays hold that is not held yet, in how many allocations; it is held from now on."""
    if any(library_of(array).is_lazy(array) for array in arrays):
        return None
    new = {key: nbytes for key, nbytes in _allocations(arrays).items() if key not in held}
    held.update(new)
    return sum(new.values()), len(new)


def _allocations(arrays: Iterable[Any]) -> dict[Any, int]:
    """Return the pieces of memory that arrays keep alive, with their sizes in bytes."""
    return dict(library_of(array).held_memory(array) for array in arrays)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to a parser; there are none."""


def run(_: argparse.Namespace) -> int:
    """Run the steps on every library that is installed, print the table, and return the exit status."""
    begin = perf_counter()
    batch = zen()
    print(f"seqarray {sa.__version__} deciphers {len(batch.cipher)} words, which are a ragged batch, on each library:")
    print(f"  {_beginning(batch.cipher)}  ->", flush=True)  # importing the libraries takes a while
    make_program, missing = _model()
    libraries = find_all()
    outcomes = {found.name: measure(found, batch, make_program) for found in libraries if found.library is not None}
    different = {name: _differences(outcome, batch.expected()) for name, outcome in outcomes.items()}
    table = _table(batch, libraries, outcomes, different)
    print(f"  {_beginning(_deciphered(outcomes))}", "", *in_columns(_STEPS.items()), "", sep="\n")
    print(*in_columns(table), _LEGEND, sep="\n")
    print(*_conclusion(libraries, outcomes, different, perf_counter() - begin), sep="\n")
    absent = [found.name for found in libraries if found.problem == NOT_INSTALLED]
    failed = [(name, outcome.problem) for name, outcome in outcomes.items() if outcome.problem]
    lines = [(found.name, found.problem) for found in libraries if found.problem and found.name not in absent]
    lines += [*failed, *(("model", text) for text in missing)]
    if absent:
        lines.append((NOT_INSTALLED, ", ".join(absent)))
    print(*(shortened(f"  {name}: {text}") for name, text in lines), sep="\n")
    return int(bool(failed) or any(different.values()))


def _model() -> tuple[Callable[[str], Any] | None, list[str]]:
    """Return what makes the program of the demo, or None and why there is none."""
    try:
        return importlib.import_module("seqarray.onnx._demo").make_program, []
    except ImportError as error:
        return None, [str(error)]


def _beginning(words: list[str]) -> str:
    return " ".join("".join(words[:_SHOWN]).split())


def _deciphered(outcomes: dict[str, Outcome]) -> list[str]:
    """Return the words as the first library has deciphered them that has."""
    for outcome in outcomes.values():
        if not outcome.problem:
            return ["".join(map(chr, word)) for word in outcome.results["map"]]
    return []


def _differences(outcome: Outcome, expected: dict[str, Any]) -> list[str]:
    """Return the steps whose results are not as expected; none where there are no results."""
    return [step for step, result in outcome.results.items() if result != expected[step]]


def _table(
    batch: Batch, libraries: list[Found], outcomes: dict[str, Outcome], different: dict[str, list[str]]
) -> Iterator[tuple[str, ...]]:
    """Yield the headings, what each step gives, and two rows for each library: times, and memory."""
    size, count = f"{batch.offsets[-1]} codes", len(batch.plain)
    yield ("library", *_STEPS, "total")
    yield ("result", f"{count} words", f"{count} words", f"{count} x {batch.longest}", size, size, "equal", "")
    for found in libraries:
        outcome = outcomes.get(found.name)
        if outcome is None or outcome.problem:
            continue
        times = [_time_text(outcome.seconds[step]) if step in outcome.seconds else "-" for step in _STEPS]
        memory = [_memory_text(outcome.memory[step]) if step in outcome.memory else "-" for step in _STEPS]
        memory[-1] = "DIFFERENT" if different[found.name] else "equal"
        yield (found.name, *times, _time_text(sum(outcome.seconds.values())))
        yield (f"  {found.version}", *memory, "")


def _time_text(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _memory_text(memory: tuple[int, int] | None) -> str:
    return "lazy" if memory is None else f"{memory[0]} / {memory[1]}" if memory[1] else "none"


def _conclusion(
    libraries: list[Found], outcomes: dict[str, Outcome], different: dict[str, list[str]], seconds: float
) -> Iterator[str]:
    """Yield two lines about what the table shows, and one for each library that is wrong."""
    equal = [name for name, outcome in outcomes.items() if not outcome.problem and not different[name]]
    yield f"Equal to Python's lists: {', '.join(equal) or 'none'}; {seconds:.1f} s with imports and a first round."
    views = [
        found.name
        for found in libraries
        if found.library is not None
        and not found.library.slices_are_copies
        and outcomes[found.name].memory.get("split") == (0, 0)
    ]
    yield f"The words were views of the text, without a copy: {', '.join(views) or 'none'}."
    for name, steps in different.items():
        if steps:
            yield f"DIFFERENT from Python's lists: {name} in {', '.join(steps)}"
