"""Plots of a result."""

import re
from itertools import pairwise

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
    for words in ("A Processor", "2026-01-02", "numpy arrays", "onnxruntime, append", "memcpy, reused memory"):
        assert words in picture
    for found in entries_to_plot():
        assert (f"{found['case']}, {found['size']}" in picture) == ("skipped" not in found)


def drawn(*entries):
    """Return the axes of a plot."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from benchmarks import plotting

    return plotting.draw(result_of(*entries)).axes


def test_no_curve_doubles_back():
    curves = [line.get_xdata() for axes in drawn(*entries_to_plot())[:-1] for line in axes.lines]
    assert len(curves) > 10
    for curve in curves:
        assert all(before < after for before, after in pairwise(curve))


def test_every_curve_has_a_label_and_every_label_a_curve():
    for axes in drawn(*entries_to_plot())[:-1]:
        assert axes.get_legend() is None
        assert len({text.get_text() for text in axes.texts}) == len(axes.texts) == len(axes.lines)
        ends = {(line.get_xdata()[-1], line.get_ydata()[-1]) for line in axes.lines}
        assert {text.xy for text in axes.texts} <= ends


def test_labels_do_not_lie_on_each_other():
    for axes in drawn(*entries_to_plot())[:-1]:
        heights = sorted(text.get_position()[1] for text in axes.texts)
        assert all(after - before > 0.05 for before, after in pairwise(heights))


def test_the_legend_has_the_backends_that_are_drawn():
    axes = drawn(*entries_to_plot(), *entries_to_plot("torch"))[-1]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["numpy arrays", "torch arrays"]
    assert drawn()[-1].get_legend() is None


def test_colours_are_those_that_the_colour_blind_can_tell_apart(picture):
    okabe_ito = set("000000 e69f00 56b4e9 009e73 0072b2 d55e00 cc79a7".split())
    colours = set(re.findall(r"(?:stroke|fill): #(\w{6})", picture))
    assert {"0072b2", "e69f00", "d55e00"} <= colours
    assert all(colour in okabe_ito or colour[:2] == colour[2:4] == colour[4:] for colour in colours)


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
    assert "concat-axis0, 3 x" in text
