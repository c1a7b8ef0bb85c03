"""Random graphs of operators on sequences, with loops and branches, and inputs for them."""

import random

import numpy as np
import onnx

from tests.onnx.helpers import boolean, floats, integer, text_model

#: How deep loops and branches are nested.
DEPTH = 2

#: Constants that are positions.
POSITIONS = ("zero", "one", "last")


class Graph:
    """Writes one graph as text; every name is used once."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def statements(self, depth: int, sequences: list[str], tensors: list[str]) -> str:
        """Some statements; the names of their results are appended to the lists."""
        lines = []
        for _ in range(self.chance.randint(1, 6)):
            kinds = [self.change, self.change, self.change, self.read, self.compute]
            kind = self.chance.choice(kinds if depth == DEPTH else [*kinds, self.loop, self.branches])
            lines.append(kind(depth, sequences, tensors))
        return " ".join(lines)

    def change(self, depth: int, sequences: list[str], tensors: list[str]) -> str:
        """A statement that makes a sequence."""
        choose, result = self.chance.choice, self.name()
        position = choose(["", *(f", {name}" for name in POSITIONS)])
        sequence, tensor = choose(sequences), choose(tensors)
        sequences.append(result)
        return f"{result} = " + choose(
            [
                f"SequenceInsert({sequence}, {tensor}{position})",
                f"SequenceInsert({sequence}, {tensor}{position})",
                f"SequenceErase({sequence}{position})",
                f"SequenceConstruct({tensor}, {choose(tensors)})",
                f"SplitToSequence({tensor})",
                f"Identity({sequence})",
                "SequenceEmpty()",
            ]
        )

    def read(self, depth: int, sequences: list[str], tensors: list[str]) -> str:
        """A statement that makes a tensor of a sequence."""
        result, sequence = self.name(), self.chance.choice(sequences)
        tensors.append(result)
        at = f"SequenceAt({sequence}, {self.chance.choice(POSITIONS)})"
        return f"{result} = {self.chance.choice([at, f'ConcatFromSequence<axis = 0>({sequence})'])}"

    def compute(self, depth: int, sequences: list[str], tensors: list[str]) -> str:
        """A statement without sequences, which every engine computes alike; maybe nothing reads its result."""
        result, tensor, other = self.name(), self.chance.choice(tensors), self.chance.choice(tensors)
        tensors.append(result)
        calls = [f"Abs({tensor})", f"Neg({tensor})", f"Concat<axis = 0>({tensor}, {other})", f"Add({tensor}, w)"]
        return f"{result} = {self.chance.choice(calls)}"

    def loop(self, depth: int, sequences: list[str], tensors: list[str]) -> str:
        """A loop that carries one or two sequences."""
        initial = self.chance.choices(sequences, k=self.chance.randint(1, 2))
        carried, number, before, after = [self.name() for _ in initial], self.name(), self.name(), self.name()
        inner = [*sequences[-3:], *carried]
        body = self.statements(depth + 1, inner, list(tensors))
        outputs = [self.name() for _ in initial]
        body += "".join(f" {output} = Identity({self.chance.choice(inner[-4:])})" for output in outputs)
        condition = self.chance.choice([f"Identity({before})", f"Identity({before})", f"Less({number}, one)"])
        inputs_text, outputs_text = (
            ", ".join(f"seq(float[]) {name}" for name in names) for names in (carried, outputs)
        )
        results = [self.name() for _ in initial]
        sequences += results
        return (
            f'{", ".join(results)} = Loop(trips, "", {", ".join(initial)})<body = {self.name()} (int64 {number}, '
            f"bool {before}, {inputs_text}) => (bool {after}, {outputs_text}) {{ {after} = {condition} {body} }}>"
        )

    def branches(self, depth: int, sequences: list[str], tensors: list[str]) -> str:
        """An If that gives a sequence."""
        texts = []
        for name in ("then_branch", "else_branch"):
            inner, output = list(sequences), self.name()
            statements = self.statements(depth + 1, inner, list(tensors))
            texts.append(
                f"{name} = {self.name()} () => (seq(float[]) {output}) {{ {statements} "
                f"{output} = Identity({self.chance.choice(inner[-4:])}) }}"
            )
        result = self.name()
        sequences.append(result)
        return f"{result} = If({self.chance.choice(['yes', 'no'])})<{', '.join(texts)}>"


def random_model(seed: int) -> onnx.ModelProto:
    """The model of a seed, always the same one."""
    graph, sequences = Graph(seed), ["s"]
    statements = graph.statements(0, sequences, ["x", "w"])
    outputs = graph.chance.sample(sequences, min(len(sequences), 3))
    return text_model(
        f"agraph (seq(float[]) s, float[N] x, int64 trips, bool yes, bool no) => "
        f"({', '.join(f'seq(float[]) {name}' for name in outputs)}) "
        f"<float[1] w = {{7}}, int64 zero = {{0}}, int64 one = {{1}}, int64 last = {{-1}}> {{ {statements} }}"
    )


def random_inputs(seed: int) -> dict[str, list[np.ndarray] | np.ndarray]:
    """Inputs of the model of a seed, by name."""
    return {
        "s": [floats(1, 2), floats(3)],
        "x": floats(4, 5),
        "trips": integer(seed % 4),
        "yes": boolean(True),
        "no": boolean(False),
    }
