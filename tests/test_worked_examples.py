"""The worked examples: each shows what it says, says in one line what is missing, and notices a wrong result."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_arrays_equal, to_numpy
from tests.helpers import library_of

DOCS = Path(__file__).parents[1] / "docs"


def load(name: str) -> Any:
    """A worked example as a module."""
    spec = importlib.util.spec_from_file_location(f"docs.examples.{name}", DOCS / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A worked example as a command."""
    command = [sys.executable, "-W", "error", DOCS / "examples" / f"{name}.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


# A ragged batch.


def test_a_ragged_batch_on_every_backend(backend, capsys):
    example, library = load("ragged_batch"), library_of(backend.xp)
    assert example.main(["--xp", library]) == 0
    first, *lines, last = capsys.readouterr().out.splitlines()
    lengths = [len(example.token_features(path)) for path in example.FILES]
    assert min(lengths) > 50
    assert first == f"{sum(lengths)} tokens of 5 texts, worked on by {library}"
    assert last == "as when each is worked on alone"
    offset = 0
    for path, length, line in zip(example.FILES, lengths, lines, strict=True):
        assert line.startswith(f"{path.name}: {length} tokens from row {offset}; mean column 0.")
        offset += length


def test_a_ragged_batch_comes_apart_as_it_was(backend):
    example = load("ragged_batch")
    texts = sa.ArraySequence([np.asarray([[1, 8, 2, 4]], "f4"), np.empty((0, 4), "f4"), np.full((2, 4), 2, "f4")])
    with backend.current():
        results, offsets = example.scaled(texts, backend.xp, backend.device)
    assert offsets == [0, 1, 1]
    expected = [np.asarray([[0.5, 1, 1, 1]], "f4"), np.empty((0, 4), "f4"), np.asarray([[1, 0.25, 1, 0.5]] * 2, "f4")]
    sa.testing.assert_sequences_equal(results, expected)


def test_a_ragged_batch_of_other_texts_as_a_command(tmp_path):
    (tmp_path / "short.py").write_text("x = 1\n")
    done = run("ragged_batch", str(tmp_path / "short.py"), str(DOCS / "examples" / "ragged_batch.py"))
    assert (done.returncode, done.stderr) == (0, "")
    # What the tokenizer finds: the encoding, x, =, 1, the end of the line and that of the file.
    assert "\nshort.py: 6 tokens from row 0; " in done.stdout
    assert "\nragged_batch.py: " in done.stdout


def test_a_ragged_batch_notices_a_wrong_result(monkeypatch, capsys):
    example = load("ragged_batch")
    scaled = example.scaled
    monkeypatch.setattr(example, "scaled", lambda texts, *where: scaled(sa.sequence_map(texts, body=np.sqrt), *where))
    assert example.main([]) == 1
    assert "DIFFERENT" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--xp", "nothing"], r"--xp nothing: it is not installed\n"),
        (["--device", "cuda:99"], r"ArraySequence\.to: numpy has no device 'cuda:99': .*\n"),
        (["missing.py"], r"\[Errno 2\] No such file or directory: 'missing\.py'\n"),
    ],
)
def test_a_ragged_batch_says_what_is_missing(arguments, message):
    done = run("ragged_batch", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(message, done.stderr)


# Detections.


def test_detections_as_a_command():
    done = run("detections")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "boxes of 4 images: (5, 0, 2, 1)",
        "image 0: box [12, 11, 52, 50], score 0.90",
        "image 0: box [61, 22, 90, 78], score 0.70",
        "image 3: box [30, 30, 40, 40], score 0.95",
        "3 detections, in arrays of shapes (3, 4) and (3,)",
    ]


def test_images_without_any_detection():
    example = load("detections")
    boxes = sa.ArraySequence([np.empty((0, 4), "f4"), np.asarray([[0, 0, 1, 1]], "f4")])
    scores = sa.ArraySequence([np.empty(0, "f4"), np.asarray([0.1], "f4")])
    images, boxes, scores = example.detected(boxes, scores)
    assert_arrays_equal(images, np.empty(0, np.int64))
    assert_arrays_equal(boxes, np.empty((0, 4), "f4"))
    assert_arrays_equal(scores, np.empty(0, "f4"))


def test_every_box_that_is_dropped_overlaps_a_better_one_that_is_kept():
    example = load("detections")
    random = np.random.default_rng(0)
    corners = random.uniform(0, 50, (60, 2))
    boxes = np.concatenate([corners, corners + random.uniform(10, 40, (60, 2))], axis=1)
    scores = random.permutation(60) / 60
    kept_boxes, kept_scores = example.best_boxes(boxes, scores)
    assert 1 < len(kept_scores) < np.sum(scores >= 0.5)
    assert np.all(np.diff(kept_scores) < 0)
    for box, score in zip(boxes, scores, strict=True):
        overlaps = example.overlap(box, kept_boxes)
        others = overlaps[kept_scores > score]
        assert (score in kept_scores) == (score >= 0.5 and np.all(others <= 0.5))
        assert (score in kept_scores) == (overlaps[kept_scores == score].tolist() == [1.0])


# A function for every namespace.


def test_a_generic_function_on_every_backend(backend):
    example = load("generic")
    scores = backend.array([0.0, np.log(3.0), 5.0, 1.0, 1.0, 1.0, 1.0], "float32")
    with backend.current():
        result = example.segment_softmax(scores, [2, 1, 4])
    assert type(result) is type(scores)
    assert result.dtype == scores.dtype
    assert sa.ArraySequence([result]).device == sa.ArraySequence([scores]).device
    np.testing.assert_allclose(to_numpy(result), [0.25, 0.75, 1, 0.25, 0.25, 0.25, 0.25], rtol=1e-6)


def test_a_generic_function_as_a_command():
    done = run("generic")
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert set(lines) == set(load("generic").LIBRARIES)
    for name, line in lines.items():
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            assert line == "not installed"
        elif line != "no usable GPU":
            assert re.fullmatch(r"[\w.]+, 0\.14 0\.63 0\.23 1\.00 0\.04 0\.04 0\.02 0\.89", line)


def test_a_generic_function_leaves_out_what_is_not_installed(monkeypatch, capsys):
    example = load("generic")
    monkeypatch.setattr(example, "LIBRARIES", ["nothing", "numpy"])
    assert example.main() == 0
    assert re.fullmatch(r"nothing: not installed\nnumpy: numpy\.ndarray, [\d. ]+\n", capsys.readouterr().out)


def test_a_generic_function_notices_a_wrong_result(monkeypatch, capsys):
    example = load("generic")
    monkeypatch.setattr(example, "LIBRARIES", ["numpy"])
    monkeypatch.setattr(example, "LENGTHS", [4, 0, 4])
    monkeypatch.setattr(example, "segment_softmax", lambda scores, lengths: scores)
    assert example.main() == 1
    assert "DIFFERENT" in capsys.readouterr().out


# Beyond one machine; tests/test_cluster.py has what happens on a cluster.


def test_beyond_one_machine_on_every_backend(backend):
    example = load("beyond_one_machine")
    x = backend.array(np.arange(10.0)[:, None] * np.ones((1, 3)), "float32")
    with backend.current():
        assert float(example.total_rise(x, [4, 1, 5])) == 3 * (6 + 10)


def test_beyond_one_machine_on_one_array():
    done = run("beyond_one_machine", "--on", "numpy", "--megabytes", "64")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "64 MB in 4 recordings, on numpy\ntotal 9826000000: right\n"


def test_beyond_one_machine_notices_a_wrong_result(monkeypatch, capsys):
    example = load("beyond_one_machine")
    monkeypatch.setattr(example, "total_rise", lambda x, lengths: x.sum())
    assert example.main(["--on", "numpy", "--megabytes", "64"]) == 1
    assert "WRONG, expected" in capsys.readouterr().out


@pytest.mark.parametrize(("place", "module"), [("cluster", "distributed"), ("cupy", "cupy")])
def test_beyond_one_machine_says_what_is_missing(monkeypatch, place, module):
    monkeypatch.setitem(sys.modules, module, None)
    if place == "cluster":
        pytest.importorskip("dask", reason="dask is not installed")
    message = load("beyond_one_machine").main(["--on", place])
    assert message.startswith(f"--on {place} needs ")
    assert module in message
    assert "\n" not in message


# The page about it.


def test_the_page_has_the_function_of_the_script_and_links_that_lead_to_files():
    page = (DOCS / "beyond_one_machine.md").read_text(encoding="utf-8")
    script = (DOCS / "examples" / "beyond_one_machine.py").read_text(encoding="utf-8")
    for line in re.search(r"def total_rise.*?\n\n", page.replace("```", "\n"), flags=re.DOTALL)[0].strip().splitlines():
        assert line in script
    links = re.findall(r"\]\(([^)#\s]+)", page)
    assert len(links) >= 2
    assert all((DOCS / link).is_file() for link in links)
    commands = re.findall(r"    python docs/examples/beyond_one_machine\.py (--on .*)", page)
    assert [command.split()[1] for command in commands] == ["numpy", "cupy", "cluster"]
