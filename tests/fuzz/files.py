"""Damaged files: `load` gives values that can be read, or an error that names the file."""

from __future__ import annotations

import random
import tempfile
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import seqarray as sa

#: Values of every kind that a file can hold.
VALUES: dict[str, Any] = {
    "x": np.arange(6.0).reshape(2, 3),
    "b": np.asarray([True, False]),
    "t": np.asarray(["a", "bé"], dtype=object),
    "u": np.asarray(["x", "yz"]),
    "s": [np.zeros((1, 2)), np.ones((3, 2))],
    "r": [np.zeros((2, 1)), np.ones(3), np.asarray(2.0)],
    "w": [np.asarray(["a", "b"], dtype=object), np.asarray([["c"]], dtype=object)],
    "d": np.asarray([(1, 2.5)], dtype=[("é", "i4"), ("b", "?")]),
    "m": np.asarray(["2020-01-01"], dtype="datetime64[D]"),
    "n": None,
    "e": sa.sequence_empty("int8"),
}
#: What eight bytes are replaced by.
NUMBERS = (b"\xff" * 8, b"\0" * 8, (1 << 62).to_bytes(8, "little"), b"99999999", b"-1      ")


def damaged(chance: random.Random, content: bytes) -> bytes:
    """Return bytes with one change."""
    data, at = bytearray(content), chance.randrange(len(content))
    match chance.randrange(5):
        case 0:
            data[at] ^= 1 << chance.randrange(8)
        case 1:
            data[at : at + chance.randrange(1, 30)] = b""
        case 2:
            data[at : at + 8] = chance.choice(NUMBERS)
        case 3:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        case 4:
            other = chance.randrange(len(content))
            data[at : at + 8] = data[other : other + 8]
    return bytes(data)


def write_damaged(path: Path, chance: random.Random, whole: bytes, content: dict[str, bytes]) -> None:
    """Write a file of which a byte is wrong, or an entry whose checksum is right."""
    if chance.randrange(4) == 0:
        path.write_bytes(damaged(chance, whole))
        return
    changed = chance.choice([*content, *["seqarray.json"] * 8])
    with zipfile.ZipFile(path, "w", chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name, data in content.items():
            archive.writestr(name, damaged(chance, data) if name == changed else data)


def outcomes(seed: int, cases: int) -> Counter[str]:
    """Return how often a damaged file gave values, an error that names it, or something else."""
    counts: Counter[str] = Counter()
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of old names of dtypes
        path = Path(folder) / "values.npz"
        sa.save(path, **VALUES)
        whole = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
        for _ in range(cases):
            write_damaged(path, chance, whole, content)
            try:
                for value in sa.load(path).values():
                    _read_through(value)
                counts["values"] += 1
            except (TypeError, ValueError) as error:
                counts["error" if str(path) in str(error) else repr(error)] += 1
    return counts


def _read_through(value: Any) -> None:
    """Read all there is of a value."""
    for array in value if isinstance(value, sa.ArraySequence) else () if value is None else (value,):
        repr(array.tolist())


def files(backend: Any, seed: int, cases: int) -> None:
    """Load damaged files; a case is one."""
    del backend
    counts = outcomes(seed, cases)
    assert counts.keys() <= {"values", "error"}, counts
