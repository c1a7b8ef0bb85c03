"""Plots of a result."""

import re

import pytest

from benchmarks.cases import CASES
from benchmarks.libraries.base import JOINS
from tests.benchmarks.helpers import entry, record, result_of

pytestmark = pytest.mark.thorough


def entries_to_plot(backend="numpy"):
    """Yield several sizes of the cases that are plotted."""

    def contenders(ours, seconds, **more):
        theirs = {name: record(*[seconds * factor] * 3) for name, factor in more.items()}
        return {ours: record(*[seconds] * 3), "seqarray, construct + join": record(*[seconds * 1.25] * 3), **theirs}

    for case in CASES:
        if case.plot_by:
            for seconds, (size, (pieces, nbytes)) in enumerate(case.amounts.items(), 1):
                peers = {
                    "numpy": 2,
                    "torch": 3,
                    "onnxruntime": 4,
                    "onnx-reference": 5,
                    "another": 6,
                }
                limits = {
                    f"memcpy, {n} thread{'s' * (n > 1)}, {m} memory": 0.5 for n in (1, 2) for m in ("fresh", "reused")
                }
                ours = "seqarray, list" if case.work in JOINS else "seqarray"
                found = contenders(ours, float(seconds), **peers, **(limits if nbytes >= 1 << 20 else {}))
                yield entry(case.name, size, backend, pieces=pieces, bytes=nbytes, contenders=found)
    yield entry("concat-axis0", "too large", backend, contenders={}, skipped="needs about 1 MiB of memory")


def plotted(result, path):
    """Write a picture as .svg with its words kept as words, and return its text."""
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from benchmarks import plotting

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        plotting.save(result, path)
    return path.read_text()


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    """Plot everything of NumPy arrays."""
    return plotted(result_of(*entries_to_plot()), tmp_path_factory.mktemp("picture") / "plots.svg")


def test_plots_name_everything_they_show(picture):
    assert "<svg" in picture
    for words in ("A Processor", "2026-01-02", "numpy arrays", "onnxruntime", "memcpy, 2 threads, reused memory"):
        assert words in picture
    for found in entries_to_plot():
        ways = [name.removeprefix("seqarray") for name in found["contenders"] if name.startswith("seqarray")]
        assert len(ways) == (0 if "skipped" in found else 2)
        assert all(f"{found['case']}{way}, {found['size']}" in picture for way in ways)


def test_plots_are_readable_without_colour(picture):
    colours = re.findall(r"(?:stroke|fill): #(\w\w)(\w\w)(\w\w)", picture)
    assert colours
    assert all(red == green == blue for red, green, blue in colours)


def test_plots_are_saved_as_png_too(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from benchmarks import plotting

    plotting.save(result_of(entry()), tmp_path / "plots.png")
    assert (tmp_path / "plots.png").read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    "entries", [[], [entry("at", "of 16 x (2, 3)", contenders={"seqarray": record(1.0)})]], ids=len
)
def test_plots_of_little_or_nothing(tmp_path, entries):
    assert "<svg" in plotted(result_of(*entries), tmp_path / "plots.svg")


def test_plots_are_of_the_arrays_that_were_timed(tmp_path):
    text = plotted(result_of(*entries_to_plot("torch")), tmp_path / "plots.svg")
    assert "torch arrays" in text
    assert "concat-axis0, list, 3 x" in text
