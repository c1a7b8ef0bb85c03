"""`seqarray demo`: what it computes on every library, and what it prints."""

import codecs
import importlib
import re

import numpy as np
import pytest

import seqarray as sa
from conftest import BACKENDS
from seqarray.__main__ import main
from seqarray._commands import demo
from seqarray._commands.libraries import find
from seqarray.onnx._demo import make_program
from tests.processes import output_of

#: The beginning of the text: few words, so that libraries which compile for each length are quick.
CIPHER = "Gur Mra bs Clguba"
WORDS = ["The ", "Zen ", "of ", "Python"]


def printed(capsys, monkeypatch, *libraries):
    """The exit status of the demo on some libraries, and the lines that it prints."""
    monkeypatch.setattr("seqarray._commands.libraries.LIBRARIES", dict.fromkeys(libraries))
    status = main(["demo"])
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert max(map(len, lines)) <= 100
    return status, lines


def cells_of(lines, name):
    """The cells of a row of the table."""
    (row,) = [line for line in lines if line.startswith(f"{name}  ")]
    return re.split(r" {2,}", row.strip())


def test_every_library_gives_what_lists_of_python_give(backend):
    outcome = demo.measure(find(BACKENDS[backend.name].partition(".")[0]), demo.Batch(CIPHER), make_program)
    assert outcome.problem == ""
    results = outcome.results
    assert ["".join(map(chr, word)) for word in results["map"]] == WORDS
    assert ["".join(map(chr, word)) for word in results["split"]] == [codecs.encode(word, "rot13") for word in WORDS]
    assert ["".join(map(chr, row)) for row in results["pad"]] == [word.ljust(6) for word in WORDS]
    assert [row.count(True) for row in results["mask"]] == list(map(len, WORDS))
    assert "".join(map(chr, results["join"])) == "The Zen of Python"
    assert "".join(map(chr, results["model"])) == "The Zen of Python"
    assert results["offsets"] == [0, 4, 8, 11, 17]
    assert demo._differences(outcome, demo.Batch(CIPHER).expected()) == []
    assert list(outcome.seconds) == ["split", "map", "pad", "join", "model", "read"]
    assert min(outcome.seconds.values()) > 0


@pytest.mark.backends("numpy", "torch", "cupy")
def test_memory_is_that_of_the_results(backend):
    outcome = demo.measure(find(backend.name), demo.Batch(CIPHER), make_program)
    # int32 codes; the padded array has a mask of bools beside it.
    expected = {"split": (0, 0), "pad": (4 * 6 * 5, 2), "join": (17 * 4, 1), "model": (17 * 4, 1)}
    if backend.name == "cupy":  # whose allocations are rounded up
        assert {step: count for step, (_, count) in outcome.memory.items()} == {
            "map": 4,
            **{step: count for step, (_, count) in expected.items()},
        }
    else:
        assert outcome.memory == {"map": (17 * 4, 4), **expected}


def test_memory_that_results_share_is_counted_with_the_first():
    array, held = np.zeros(4, dtype=np.int32), set()
    assert demo._new_memory([array, array[:2]], held) == (16, 1)
    assert demo._new_memory([array[1:], np.zeros(2, dtype=np.int32)], held) == (8, 1)


def test_the_whole_text_on_numpy(capsys, monkeypatch):
    status, lines = printed(capsys, monkeypatch, "numpy", "nothing_of_that_name", "nor_of_this")
    assert status == 0
    text = "".join(importlib.import_module("this").s.splitlines(keepends=True)[:12])
    assert "".join(demo.zen().cipher) == text
    count, longest = len(text.split()), max(map(len, re.findall(r"\S+\s*", text)))
    assert "The Zen of Python, by Tim Peters" in lines[2]
    size = f"{len(text)} codes"
    words = f"{count} words"
    assert cells_of(lines, "result") == ["result", words, words, f"{count} x {longest}", size, size, "equal"]
    times, memory = cells_of(lines, "numpy"), cells_of(lines, f"  {find('numpy').version}")
    assert all(re.fullmatch(r"[\d.]+ m?s", time) for time in times[1:])
    assert len(times) == 8
    size = f"{4 * len(text)} / 1"
    map_memory, pad_memory = f"{4 * len(text)} / {count}", f"{5 * count * longest} / 2"
    assert memory[1:] == ["none", map_memory, pad_memory, size, size, "equal"]
    assert sum(line.startswith("Equal to Python's lists: numpy; ") for line in lines) == 1
    assert "The words were views of the text, without a copy: numpy." in lines
    assert "  not installed: nothing_of_that_name, nor_of_this" in lines


@pytest.mark.backends("array-api-strict")
def test_long_names_fit_the_width(backend, capsys, monkeypatch):
    status, lines = printed(capsys, monkeypatch, "array_api_strict")
    assert status == 0
    assert len(cells_of(lines, "array_api_strict")) == 8


def test_a_library_that_gives_something_else_is_named(capsys, monkeypatch):
    pack = sa.pack
    monkeypatch.setattr(sa, "pack", lambda words: (pack(words)[0] + 1, pack(words)[1]))
    status, lines = printed(capsys, monkeypatch, "numpy")
    assert status == 1
    assert "DIFFERENT from Python's lists: numpy in join" in lines
    assert cells_of(lines, f"  {find('numpy').version}")[-1] == "DIFFERENT"
    assert any(line.startswith("Equal to Python's lists: none; ") for line in lines)


def test_a_library_that_fails_is_named(capsys, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the device is gone\nand more")

    monkeypatch.setattr(sa, "pad_sequence", fail)
    status, lines = printed(capsys, monkeypatch, "numpy")
    assert status == 1
    assert "  numpy: RuntimeError: the device is gone" in lines
    assert not any(line.startswith("numpy ") for line in lines)


def test_a_library_that_cannot_be_imported_is_named(capsys, monkeypatch, tmp_path):
    (tmp_path / "broken_library.py").write_text("raise RuntimeError('the driver is too old')")
    monkeypatch.syspath_prepend(tmp_path)
    status, lines = printed(capsys, monkeypatch, "numpy", "broken_library")
    assert status == 0
    assert "  broken_library: cannot be imported: RuntimeError: the driver is too old" in lines


def test_without_onnx_it_says_what_to_install():
    lines = output_of("""
import sys
sys.modules["onnx"] = None
import seqarray._commands.libraries as libraries
libraries.LIBRARIES = {"numpy": None}
from seqarray.__main__ import main
assert main(["demo"]) == 0
""").splitlines()
    assert any(line.startswith("  model: ") and line.endswith("pip install onnx") for line in lines)
    assert cells_of(lines, "numpy")[5] == "-"
