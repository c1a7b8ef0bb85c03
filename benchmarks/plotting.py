"""Plots of a result that answer a question at a glance, in colours that the colour-blind can tell apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.cases import CASES
from benchmarks.reporting import by_question, is_limit, main_way

# The colours of Okabe and Ito.
_BLACK, _ORANGE, _SKY, _GREEN, _BLUE, _VERMILION, _PURPLE = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"),
)
_GREY = "#7F7F7F"

#: Colour and marker of each contender.
_STYLES = {
    "seqarray": {"color": _BLUE, "marker": "o", "linewidth": 2.2},
    "seqarray, list": {"color": _BLUE, "marker": "o", "linewidth": 2.2},
    "seqarray, construct + join": {"color": _SKY, "marker": "v"},
    "numpy": {"color": _ORANGE, "marker": "s"},
    "cupy": {"color": _ORANGE, "marker": "s"},
    "torch": {"color": _VERMILION, "marker": "^"},
    "torch (CUDA)": {"color": _VERMILION, "marker": "^"},
    "jax": {"color": _GREEN, "marker": "P"},
    "dask": {"color": _BLACK, "marker": "X"},
    "onnxruntime": {"color": _PURPLE, "marker": "D"},
    "onnx-reference": {"color": _BLACK, "marker": "x"},
}
_STYLE_OF_OTHERS = {"color": _GREY, "marker": "*"}

#: The least distance of two labels, as a part of the height of the axes.
_LABEL_GAP = 0.055

#: x and y of a curve, from small to large x.
Points = list[tuple[float, float]]


def save(result: dict[str, Any], path: Path) -> None:
    """Write the picture; its kind follows from the name (.png, .svg, ...)."""
    figure = draw(result)
    figure.savefig(path, dpi=110)


def draw(result: dict[str, Any]) -> Any:
    """Return the picture as a figure of matplotlib."""
    from matplotlib.figure import Figure

    rows = _ratio_rows(result)
    height = 2.5 + 0.17 * len(rows)
    figure = Figure(figsize=(13, 11 + height), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=(4.5, 4.5, height))
    backends = [entry["backend"] for entry in result["results"]]
    main = next((name for name in ("cupy", "numpy") if name in backends), backends[0] if backends else "numpy")
    entries = [entry for entry in result["results"] if entry["backend"] == main and "skipped" not in entry]
    _bandwidth(figure.add_subplot(grid[0, 0]), entries, main)
    _growth(figure.add_subplot(grid[0, 1]), entries, main)
    for column, backend in enumerate(dict.fromkeys((main, "torch" if "torch" in backends else main))):
        on_backend = [e for e in result["results"] if e["backend"] == backend and "skipped" not in e]
        _pieces(figure.add_subplot(grid[1, column]), on_backend, backend)
    _ratios(figure.add_subplot(grid[2, :]), rows)
    machine, found = result["machine"], [comparison for row in rows.values() for comparison in row]
    faster = sum(comparison.upper < 1 for comparison in found)
    figure.suptitle(
        f"seqarray is faster than the fastest other library in {faster} of the {len(found)} comparisons below.\n"
        f"{machine['gpu'] or machine['cpu']}, {machine['date'][:10]}"
    )
    return figure


def _style(name: str) -> dict[str, Any]:
    return dict(_STYLES.get(name, _STYLE_OF_OTHERS))


def _curves(
    entries: Sequence[dict[str, Any]], plot: str
) -> Iterator[tuple[str, str, list[tuple[dict[str, Any], float]]]]:
    """Yield case, contender and its (entry, median time) in every size: one curve for each case and contender."""
    for case in CASES:
        if case.plot_by != plot:
            continue
        curves: dict[str, list[tuple[dict[str, Any], float]]] = {}
        for entry in (entry for entry in entries if entry["case"] == case.name):
            for name, record in entry["contenders"].items():
                if record.get("rotating"):
                    curves.setdefault(name, []).append((entry, measure.quartiles(record["rotating"])[1]))
        for name, curve in curves.items():
            yield case.name, name, curve


def _lines(axes: Any, curves: dict[str, tuple[Points, dict[str, Any]]]) -> None:
    """Draw curves and write the name of each beside its end, with room between the names."""
    drawn = []
    for name, (points, style) in curves.items():
        points = sorted(points)
        axes.plot([x for x, _ in points], [y for _, y in points], **style)
        drawn.append((name, points[-1], style["color"]))
    axes.get_xlim(), axes.get_ylim()  # which brings the scales up to date with the curves
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = sorted((float(to_axes.transform(end)[1]), name, end, color) for name, end, color in drawn)
    heights: list[float] = []
    for place, *_ in ends:
        heights.append(max(place, heights[-1] + _LABEL_GAP if heights else 0.0))
    highest = 1.0 + _LABEL_GAP
    for i in reversed(range(len(heights))):
        highest = heights[i] = min(heights[i], highest - _LABEL_GAP)
    for height, (_, name, end, color) in zip(heights, ends, strict=True):
        axes.annotate(
            name,
            xy=end,
            xytext=(1.03, height),
            textcoords="axes fraction",
            color=color,
            fontsize="small",
            va="center",
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.5},
            annotation_clip=False,
        )


def _finish(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(True, which="major", color="0.9")


def _bandwidth(axes: Any, entries: Sequence[dict[str, Any]], backend: str) -> None:
    curves: dict[str, tuple[Points, dict[str, Any]]] = {}
    limits: dict[str, dict[float, float]] = {}
    for _, name, curve in _curves(entries, "bytes"):
        points = [(float(entry["bytes"]), entry["bytes"] / seconds / 1e9) for entry, seconds in curve]
        if is_limit(name):
            best = limits.setdefault("memcpy, fresh memory" if "fresh" in name else "memcpy, reused memory", {})
            for x, y in points:
                best[x] = max(y, best.get(x, 0.0))
        else:
            curves[name] = points, _style(name)
    for name, best in limits.items():
        curves[name] = (
            list(best.items()),
            {"color": _GREY, "linestyle": "--" if "fresh" in name else "-", "marker": "_"},
        )
    axes.set_xscale("log")
    axes.set_ylim(0, 1.1 * max((y for points, _ in curves.values() for _, y in points), default=1.0))
    _finish(
        axes, "How near the machine's limit is a concat of 3 squares?", f"bytes of the result, {backend} arrays", "GB/s"
    )
    _lines(axes, curves)


def _pieces(axes: Any, entries: Sequence[dict[str, Any]], backend: str) -> None:
    curves = {
        name: ([(float(entry["pieces"]), seconds * 1e6) for entry, seconds in curve], _style(name))
        for case, name, curve in _curves(entries, "pieces")
        if case.startswith("concat") and not is_limit(name)
    }
    axes.set_xscale("log")
    axes.set_yscale("log")
    _finish(axes, "What does a concat of rows of 64 cost?", f"rows, {backend} arrays", "microseconds")
    _lines(axes, curves)


def _growth(axes: Any, entries: Sequence[dict[str, Any]], backend: str) -> None:
    curves = {}
    for case, name, curve in _curves(entries, "growth"):
        style = _style(name) | {"linestyle": "-" if case == "append" else "--"}
        points = [(float(entry["pieces"]), seconds * 1e3) for entry, seconds in curve]
        curves[f"{name}, {case}"] = points, style
    axes.set_xscale("log")
    axes.set_yscale("log")
    _finish(axes, "Does repeated insert stay linear?", f"inserts, {backend} arrays", "milliseconds")
    _lines(axes, curves)


def _ratio_rows(result: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the comparisons of the main way of calling seqarray, by case and size, in the order of the questions."""
    rows: dict[str, list[Any]] = {}
    for group in by_question(result).values():
        for comparison in group:
            if comparison.ours == main_way(comparison.entry):
                rows.setdefault(f"{comparison.entry['case']}, {comparison.entry['size']}", []).append(comparison)
    return rows


def _ratios(axes: Any, rows: dict[str, list[Any]]) -> None:
    """Draw a line for every case and size: seqarray's time over that of the fastest other library, on each backend."""
    seen = set()
    for row, found in enumerate(reversed(rows.values())):
        for comparison in found:
            backend = comparison.entry["backend"]
            style = _style(backend)
            axes.errorbar(
                comparison.ratio,
                row,
                xerr=[[comparison.ratio - comparison.lower], [comparison.upper - comparison.ratio]],
                fmt=style["marker"],
                color=style["color"],
                markersize=5,
                label=None if backend in seen else f"{backend} arrays",
            )
            seen.add(backend)
    axes.axvline(1.0, color=_BLACK, linewidth=1.0)
    axes.set_xscale("log")
    axes.set_ylim(-1, max(len(rows), 1))
    axes.set_yticks(range(len(rows)), list(reversed(rows)), fontsize="x-small")
    _finish(
        axes, "Left of the line seqarray is faster than the fastest other library.", "seqarray's time / its time", ""
    )
    if seen:
        axes.legend(fontsize="small", loc="best")
