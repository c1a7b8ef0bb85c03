"""Plots of a result that answer a question at a glance, readable in black and white."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.cases import CASES
from benchmarks.reporting import TAKEN, WAYS, best_peer, is_limit, is_ours, ratio_quartiles, suffix_of

#: Line and marker of each contender, different without colour.
_STYLES = {
    "seqarray": {"color": "black", "marker": "o", "linewidth": 2.0},
    "seqarray, list": {"color": "black", "marker": "o", "linestyle": "--", "markerfacecolor": "white"},
    "seqarray, construct + join": {"color": "black", "marker": "v", "linestyle": ":"},
    "seqarray, all taken": {"color": "black", "marker": "+", "linestyle": "-."},
    "numpy": {"color": "0.35", "marker": "s"},
    "torch": {"color": "0.35", "marker": "^", "linestyle": "--"},
    "torch (CUDA)": {"color": "0.35", "marker": "^", "linestyle": "--"},
    "cupy": {"color": "0.35", "marker": "s"},
    "onnxruntime": {"color": "0.55", "marker": "D", "linestyle": "-."},
    "onnx-reference": {"color": "0.55", "marker": "x", "linestyle": ":"},
}
_STYLE_OF_OTHERS = {"color": "0.45", "marker": "*", "linestyle": "-"}


def save(result: dict[str, Any], path: Path) -> None:
    """Write the picture; its kind follows from the name (.png, .svg, ...)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(13, 18), height_ratios=(2, 4), layout="constrained")
    timed = [entry["backend"] for entry in result["results"]]
    backend = next((name for name in ("cupy", "numpy") if name in timed), timed[0] if timed else "numpy")
    entries = [entry for entry in result["results"] if entry["backend"] == backend]
    _bandwidth(axes[0, 0], entries)
    _pieces(axes[0, 1], entries)
    _growth(axes[1, 0], entries)
    _ratios(axes[1, 1], entries)
    machine = result["machine"]
    figure.suptitle(f"{backend} arrays on {machine['gpu'] or machine['cpu']}, {machine['date'][:10]}")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _style(name: str) -> dict[str, Any]:
    return _STYLES.get(name, _STYLE_OF_OTHERS)


def _taking_part(entries: list[dict[str, Any]], plot: str) -> list[dict[str, Any]]:
    names = {case.name for case in CASES if case.plot_by == plot}
    return [entry for entry in entries if entry["case"] in names and "skipped" not in entry]


def _curves(entries: list[dict[str, Any]], mode: str = "rotating") -> dict[str, list[tuple[dict[str, Any], float]]]:
    """Return the entries and median times of each contender."""
    curves: dict[str, list[tuple[dict[str, Any], float]]] = {}
    for entry in entries:
        for name, record in entry["contenders"].items():
            if record.get(mode):
                curves.setdefault(name, []).append((entry, measure.quartiles(record[mode])[1]))
    return curves


def _finish(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(True, which="major", color="0.88")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="x-small", framealpha=0.6)


def _bandwidth(axes: Any, entries: list[dict[str, Any]]) -> None:
    for name, curve in _curves(_taking_part(entries, "bytes")).items():
        sizes = [entry["bytes"] for entry, _ in curve]
        rates = [entry["bytes"] / seconds / 1e9 for entry, seconds in curve]
        if is_limit(name):
            style = {"color": "0.75", "linestyle": ":" if "fresh" in name else "-", "linewidth": 1.0}
            style["linewidth"] = 1.0 if "1 thread," in name else 2.0
        else:
            style = dict(_style(name))
        axes.plot(sizes, rates, label=name, **style)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    _finish(axes, "How near the machine's limit? Concat of 3 squares", "bytes of the result", "GB/s of result")


def _pieces(axes: Any, entries: list[dict[str, Any]]) -> None:
    concat = [entry for entry in _taking_part(entries, "pieces") if entry["case"].startswith("concat")]
    for name, curve in _curves(concat).items():
        if not is_limit(name):
            counts = [entry["pieces"] for entry, _ in curve]
            axes.plot(counts, [seconds * 1e6 for _, seconds in curve], label=name, **_style(name))
    axes.set_xscale("log")
    axes.set_yscale("log")
    _finish(axes, "What does a piece cost? Concat of rows of 64", "pieces", "microseconds")


def _growth(axes: Any, entries: list[dict[str, Any]]) -> None:
    for name, curve in _curves(_taking_part(entries, "growth")).items():
        counts = [entry["pieces"] for entry, _ in curve]
        label = "numpy (a list, and one concatenate)" if name == "numpy" else name
        axes.plot(counts, [seconds * 1e3 for _, seconds in curve], label=label, **_style(name))
    axes.set_xscale("log")
    axes.set_yscale("log")
    _finish(axes, "Does repeated insert stay linear?", "inserts", "milliseconds")


def _ratios(axes: Any, entries: list[dict[str, Any]]) -> None:
    """Draw one line for every entry and way of calling seqarray: where each peer stands, seqarray being 1."""
    rows = [
        (entry, ours)
        for entry in entries
        for ours in WAYS
        if ours != TAKEN and best_peer(entry) and entry["contenders"].get(ours, {}).get("rotating")
    ]
    seen = set()
    for row, (entry, ours) in enumerate(reversed(rows)):
        for name in entry["contenders"]:
            if is_ours(name) or is_limit(name):
                continue
            quartiles = ratio_quartiles(entry, name, ours)
            if quartiles is None:
                continue
            lower, middle, upper = quartiles
            style = _style(name)
            axes.errorbar(
                middle,
                row,
                xerr=[[middle - lower], [upper - middle]],
                fmt=style["marker"],
                color=style["color"],
                markersize=5,
                label=None if name in seen else name,
            )
            seen.add(name)
    axes.axvline(1.0, color="black", linewidth=1.0)
    axes.set_xscale("log")
    labels = [f"{entry['case']}{suffix_of(ours)}, {entry['size']}" for entry, ours in reversed(rows)]
    axes.set_yticks(range(len(rows)), labels, fontsize="x-small")
    _finish(axes, "Is it faster? Left of the line seqarray is", "seqarray's time / this library's", "")
