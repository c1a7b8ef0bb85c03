"""What type checkers say of a user's program: errors in the lines that are marked, and nowhere else."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests" / "typing" / "arrays.py"
REFUSED = [number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("# refused")]


def run(*command: str) -> str:
    checker = [sys.executable, "-m", *command, str(PROGRAM)]
    return subprocess.run(checker, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.thorough
def test_mypy() -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    found = re.findall(r"^.*arrays\.py:(\d+): error: ", run("mypy", "--strict"), flags=re.MULTILINE)
    assert sorted({int(line) for line in found}) == REFUSED


@pytest.mark.thorough
def test_pyright() -> None:
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    report = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable))
    found = {error["range"]["start"]["line"] + 1 for error in report["generalDiagnostics"]}
    assert report["summary"]["filesAnalyzed"] > 0
    assert sorted(found) == REFUSED
