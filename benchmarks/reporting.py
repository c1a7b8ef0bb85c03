"""Tables of a result, on a terminal and as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.cases import CASES, QUESTIONS, question_of
from benchmarks.libraries import PEERS
from benchmarks.libraries.memcpy import Memcpy

OURS = "seqarray"
LIST = "seqarray, list"
CONSTRUCT = "seqarray, construct + join"
TAKEN = "seqarray, all taken"
#: The ways in which seqarray is called, each with ratios of its own.
WAYS = (OURS, LIST, CONSTRUCT, TAKEN)
#: Older results have a pause of 10 ms in place of 50.
MODES = ("rotating", "hot", "pause 2 ms", "pause 10 ms", "pause 50 ms")


def load(path: Path) -> dict[str, Any]:
    """Read a result that `run` has written."""
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def is_ours(name: str) -> bool:
    """Return whether a contender is seqarray."""
    return name.startswith(OURS)


def is_limit(name: str) -> bool:
    """Return whether a contender is the machine's limit and no library."""
    return name.startswith("memcpy")


def suffix_of(ours: str) -> str:
    """Return the words that follow the name of a case in tables: ", list" and the like, or ""."""
    return ours.removeprefix(OURS)


def main_way(entry: dict[str, Any]) -> str:
    """Return the way whose ratios stand beside single times: a list of arrays in joins, else plain seqarray."""
    return next((way for way in WAYS if entry["contenders"].get(way, {}).get("rotating")), OURS)


@dataclass(frozen=True)
class Comparison:
    """seqarray against the fastest peer of one entry."""

    entry: dict[str, Any]
    ours: str
    seconds: float
    peer: str
    lower: float
    ratio: float
    upper: float


def best_peer(entry: dict[str, Any], mode: str = "rotating") -> str | None:
    """Find the fastest contender that is neither seqarray nor the machine's limit."""
    medians = {
        name: measure.quartiles(record[mode])[1]
        for name, record in entry["contenders"].items()
        if record.get(mode) and not is_ours(name) and not is_limit(name)
    }
    return min(medians, key=lambda name: medians[name]) if medians else None


def ratio_quartiles(entry: dict[str, Any], peer: str, ours: str = OURS, mode: str = "rotating") -> Any:
    """Return quartiles of our time over a peer's, round by round; None where one of them was not timed."""
    records = entry["contenders"]
    if not records.get(ours, {}).get(mode) or not records.get(peer, {}).get(mode):
        return None
    return measure.quartiles(measure.ratios(records[ours][mode], records[peer][mode]))


def comparisons(result: dict[str, Any]) -> Iterator[Comparison]:
    """Compare every way of calling seqarray with its best peer, wherever both were timed."""
    for entry in result["results"]:
        peer = best_peer(entry)
        for ours in WAYS:
            quartiles = ratio_quartiles(entry, peer, ours) if peer else None
            if peer and quartiles:
                seconds = measure.quartiles(entry["contenders"][ours]["rotating"])[1]
                yield Comparison(entry, ours, seconds, peer, *quartiles)


def time_text(seconds: float) -> str:
    """Write a time with a unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 0.9995:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


#: The ways in words, behind the title of a case.
WORDS = {OURS: "", LIST: ", of a list", CONSTRUCT: ", and making the sequence", TAKEN: ", every chunk taken"}


def in_words(comparison: Comparison) -> str:
    """Name a case, the way of calling and the size in words."""
    title = comparison.entry["title"].partition(":")[0]
    return f"{title}{WORDS[comparison.ours]}: {comparison.entry['size']}"


def ratio_in_words(lower: float, ratio: float, upper: float) -> str:
    """Say how much faster or slower seqarray is; it is neither where the quartiles are on both sides of 1."""
    if lower <= 1 <= upper:
        return "about as fast"
    return f"{_factor(1 / ratio)} times faster" if ratio < 1 else f"{_factor(ratio)} times slower"


def _factor(factor: float) -> str:
    return f"{factor:,.0f}" if factor >= 99.5 else f"{factor:.2g}" if factor >= 9.95 else f"{factor:.3g}"


def by_question(result: dict[str, Any]) -> dict[str, list[Comparison]]:
    """Group the comparisons by what their cases are asked about, each group with the worst ratio first."""
    groups: dict[str, list[Comparison]] = {question: [] for question in (*QUESTIONS, "others")}
    for comparison in sorted(comparisons(result), key=lambda comparison: -comparison.ratio):
        groups[question_of(comparison.entry["case"])].append(comparison)
    return {question: group for question, group in groups.items() if group}


SUMMARY_TITLE = "seqarray beside the fastest other library"
TEN_LINES_HEADINGS = ("question", "timed", "faster", "even", "slower", "in the middle", "at worst")


def ten_lines(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Make one row for every question: how many comparisons it has, how they end, and the middle and the worst one."""
    rows = []
    for question, group in by_question(result).items():
        ends = [ratio_in_words(c.lower, c.ratio, c.upper).rpartition(" ")[2] for c in group]
        counts = [str(ends.count(end)) for end in ("faster", "fast", "slower")]
        middle, worst = (ratio_in_words(c.lower, c.ratio, c.upper) for c in (group[len(group) // 2], group[0]))
        rows.append((question, str(len(group)), *counts, middle, worst))
    return rows


QUESTION_HEADINGS = ("case", "arrays", "seqarray", "best other", "seqarray is", "ratio (quartiles)")


def question_rows(group: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """Make one row for every comparison about a question."""
    return [
        (
            in_words(c),
            c.entry["backend"],
            time_text(c.seconds),
            c.peer,
            ratio_in_words(c.lower, c.ratio, c.upper),
            f"{c.ratio:.3g} ({c.lower:.3g} to {c.upper:.3g})",
        )
        for c in group
    ]


#: The heading of the table of the README, and the sentence, in which figures are.
_TABLE = re.compile(r"(?<=\n)\| work \| arrays \|.*\n\|.*\n((?:\|.*\n)+)")
_SENTENCE = re.compile(r"8 000 inserts in a loop take \S+ of the time of onnxruntime")


def with_figures(text: str, result: dict[str, Any]) -> str:
    """Return the README with the figures of a result; its table keeps its rows, but for the last three: the worst."""
    ordered = sorted(comparisons(result), key=lambda comparison: comparison.ratio)
    measured = [(row[0], row[1], row[3], row[4]) for row in question_rows(ordered)]
    known, worst = {row[:2]: row for row in measured}, measured[-3:]

    def table(found: re.Match[str]) -> str:
        kept = [tuple(cell.strip() for cell in line.strip("|").split("|"))[:2] for line in found[1].splitlines()[:-3]]
        rows = [known[row] for row in kept if row in known and known[row] not in worst] + worst
        return found[0].removesuffix(found[1]) + "".join(f"| {' | '.join(row)} |\n" for row in rows)

    entries = {(entry["case"], entry["size"], entry["backend"]): entry for entry in result["results"]}
    _, ratio, _ = ratio_quartiles(entries["append", "8000 inserts", "numpy"], "onnxruntime")
    sentence = f"8 000 inserts in a loop take {ratio:.2g} of the time of onnxruntime"
    return _SENTENCE.sub(sentence, _TABLE.sub(table, text))


SUMMARY_HEADINGS = ("case", "size", "arrays", "seqarray", "best other", "ratio (quartiles)")


def summary_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Make one row for every entry and way, the worst ratio first."""
    ordered = sorted(comparisons(result), key=lambda comparison: -comparison.ratio)
    return [
        (
            c.entry["case"] + suffix_of(c.ours),
            c.entry["size"],
            c.entry["backend"],
            time_text(c.seconds),
            c.peer,
            f"{c.ratio:.3g} ({c.lower:.3g} to {c.upper:.3g})",
        )
        for c in ordered
    ]


DETAIL_HEADINGS = (
    *("contender", "time", "GB/s", "seqarray's time / this (quartiles)"),
    *("list / this", "construct + join / this", "all taken / this"),
    *("hot", "after 2 ms", "after 10 ms", "after 50 ms", "first call", "device"),
)


def detail_rows(entry: dict[str, Any]) -> list[tuple[str, ...]]:
    """Make one row for every contender of an entry."""
    rows = []
    for name, record in entry["contenders"].items():
        label = name + (" (recycled memory)" if record["recycled"] and not is_limit(name) else "")
        problem = record.get("error") or record.get("left_out")
        if problem:
            rows.append((label, problem, *[""] * (len(DETAIL_HEADINGS) - 2)))
            continue
        times = {mode: measure.quartiles(record[mode])[1] for mode in MODES if record.get(mode)}
        seconds = times.get("rotating")
        if seconds is None:
            rows.append((label, "not timed", *[""] * (len(DETAIL_HEADINGS) - 2)))
            continue
        rows.append(
            (
                label,
                time_text(seconds) + (" (one call)" if record.get("once") else ""),
                f"{entry['bytes'] / seconds / 1e9:.3g}" if entry["bytes"] >= 1 << 16 else "",
                *(_ratio_text(entry, name, ours) for ours in WAYS),
                *(_time_and_ratio(entry, name, mode, times) for mode in MODES[1:]),
                time_text(record["first_call"]),
                time_text(record["device"]) if "device" in record else "",
            )
        )
    return rows


def _ratio_text(entry: dict[str, Any], name: str, ours: str) -> str:
    beside = name != OURS if ours == OURS else not is_ours(name)
    quartiles = ratio_quartiles(entry, name, ours) if beside else None
    return "" if quartiles is None else _quartiles_text(quartiles)


def _time_and_ratio(entry: dict[str, Any], name: str, mode: str, times: dict[str, float]) -> str:
    """Write a time of one mode, with seqarray's time over it in brackets."""
    if mode not in times:
        return ""
    ours = main_way(entry)
    quartiles = None if name == ours else ratio_quartiles(entry, name, ours, mode)
    return time_text(times[mode]) + ("" if quartiles is None else f" ({quartiles[1]:.3g})")


GROWTH_TITLE = "How time grows with 8 times the inserts"
GROWTH_HEADINGS = ("case", "arrays", "contender", "sizes", "work", "time")


def growth_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Make the rows of how time grows with 8 times the work, where that is the question."""
    growing = {case.name for case in CASES if case.plot_by == "growth"}
    entries = [entry for entry in result["results"] if entry["case"] in growing]
    rows = []
    for large in entries:
        for name, record in large["contenders"].items():
            for small in entries:
                before = small["contenders"].get(name, {}).get("rotating")
                same = (small["case"], small["backend"]) == (large["case"], large["backend"])
                if same and before and record.get("rotating") and large["pieces"] == 8 * small["pieces"]:
                    times = measure.quartiles(record["rotating"])[1] / measure.quartiles(before)[1]
                    sizes = f"{small['size']} -> {large['size']}"
                    rows.append((large["case"], large["backend"], name, sizes, "8 x", f"{times:.3g} x"))
    return rows


SINGLE_TITLE = "Single calls after a pause"
SINGLE_HEADINGS = ("case", "size", "arrays", "pause", "seqarray", "other", "time", "ratio (quartiles)")


def single_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Make the rows of single calls after a pause beside the arrays' own library, where they are the question."""
    single = {case.name for case in CASES if case.single_calls}
    rows = []
    for entry in result["results"]:
        peer = entry["backend"]
        for ours in WAYS:
            for mode in MODES:
                quartiles = ratio_quartiles(entry, peer, ours, mode) if mode.startswith("pause") else None
                if quartiles is None or entry["case"] not in single:
                    continue
                times = [time_text(measure.quartiles(entry["contenders"][name][mode])[1]) for name in (ours, peer)]
                case, pause = entry["case"] + suffix_of(ours), mode.removeprefix("pause ")
                rows.append((case, entry["size"], peer, pause, times[0], peer, times[1], _quartiles_text(quartiles)))
    return rows


def _quartiles_text(quartiles: Sequence[float]) -> str:
    return "{1:.3g} ({0:.3g} to {2:.3g})".format(*quartiles)


def _extra_tables(result: dict[str, Any]) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Yield title, headings and rows of the tables that answer a question of their own, where there are any."""
    for title, headings, rows in (
        (SINGLE_TITLE, SINGLE_HEADINGS, single_rows(result)),
        (GROWTH_TITLE, GROWTH_HEADINGS, growth_rows(result)),
    ):
        if rows:
            yield title, headings, rows


def notes(result: dict[str, Any]) -> list[str]:
    """Return the lines that explain the tables."""
    shown = {name for entry in result["results"] for name in entry["contenders"]}
    modes = {mode for entry in result["results"] for record in entry["contenders"].values() for mode in record}
    pauses = [mode.replace("pause", "after") for mode in MODES if mode.startswith("pause") and mode in modes]
    cache = result["machine"]["last_level_cache_bytes"] >> 20
    texts = [
        (
            "time: median of rounds in which all contenders took turns, on inputs that rotate through more than the "
            f"last-level cache ({cache} MiB) where memory and time allow, from contender to contender; hot: on the "
            "same input again and again"
            + (f"; {', '.join(pauses)}: single calls on that input after a pause" if pauses else "")
            + f"; after {measure.WARM_CALLS} calls, or as many as take {measure.WARM_SECONDS * 1e3:.0f} ms, that are "
            "not timed; first call: with nothing warm. As in timeit, no garbage is collected while the clock runs."
        ),
        (
            "ratio: median of the ratios within a round, and their quartiles; below 1 seqarray is faster. In brackets "
            "behind a time: the same median, of that column; in joins, that of a list. GB/s: bytes of the result."
        ),
        (
            "After a call the threads of torch and onnxruntime spin for a while, and keep a processor busy. In cases "
            f"that use threads, the next contender waits {measure.SETTLE_SECONDS * 1e3:.0f} ms, unless those threads "
            "are its own, and every turn begins with a call that is not timed."
        ),
    ]
    texts.append(
        "list: a join of a list of arrays; construct + join: a sequence is made of the arrays and joined, and both "
        "calls are timed; all taken: every chunk of a split is then taken out; recycled memory: of an earlier result, "
        "so that the first call takes longer."
    )
    if any({OURS, LIST} <= entry["contenders"].keys() for entry in result["results"]):
        texts.append(
            "seqarray, in joins: a sequence that had been joined before. This is no longer timed; brackets behind "
            "times of joins are of it."
        )
    for peers in PEERS.values():
        for name, peer in peers.items():
            if peer.note and name in shown and peer.note not in texts:
                texts.append(peer.note)
    if any(map(is_limit, shown)):
        texts.append(Memcpy.note)
    if result["interrupted"]:
        texts.append("The run was interrupted; what had been measured by then is shown.")
    return texts


def heading(result: dict[str, Any]) -> str:
    """Describe where and with what a result was made."""
    m = result["machine"]
    commit = m["commit"][:12] + m["commit"][40:]  # with the sign of a changed tree
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    threads = ", ".join(f"{name} {count}" for name, count in m["threads"].items())
    return (
        f"{m['date']}, commit {commit or 'unknown'}, {m['cpu']} with {m['cpus']} processors"
        f"{', ' + m['gpu'] if m['gpu'] else ', no GPU'}; Python {m['python']}, {versions}"
        f"{'; threads: ' + threads if threads else ''}"
        f"{'; load average before: ' + str(m['load_average']) if 'load_average' in m else ''}; `{m['command']}`"
    )


def markdown(result: dict[str, Any]) -> str:
    """Write a whole result as Markdown."""
    lines = ["# Benchmark of seqarray", "", heading(result), ""]
    lines += [f"* {note}" for note in notes(result)]
    lines[4:4] = [f"## {SUMMARY_TITLE}", "", *_markdown_table(TEN_LINES_HEADINGS, ten_lines(result)), ""]
    for question, group in by_question(result).items():
        lines += ["", f"## {question.capitalize()}", "", *_markdown_table(QUESTION_HEADINGS, question_rows(group))]
    lines += ["", "## By ratio, worst first", "", *_markdown_table(SUMMARY_HEADINGS, summary_rows(result))]
    for title, headings, rows in _extra_tables(result):
        lines += ["", f"## {title}", "", *_markdown_table(headings, rows)]
    shown = ""
    for entry in result["results"]:
        if entry["title"] != shown:
            shown = entry["title"]
            lines += ["", f"## {entry['case']}: {shown}"]
        lines += ["", f"### {entry['size']}, {entry['backend']} arrays", ""]
        if "skipped" in entry:
            lines.append(f"skipped: {entry['skipped']}")
        else:
            lines += _markdown_table(DETAIL_HEADINGS, detail_rows(entry))
    return "\n".join(lines) + "\n"


def _markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    # A column that is empty in all rows is left out.
    kept = [i for i in range(len(headings)) if any(row[i] for row in rows)] or [0]
    table = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(row[i].replace("|", "\\|") for i in kept) + " |" for row in table]


#: The details that a terminal has room for; Markdown has them all.
_SHOWN_HEADINGS = ("contender", "time", "GB/s", "seqarray / this", "hot", "first call")


def _shown_rows(entry: dict[str, Any]) -> list[tuple[str, ...]]:
    """Make the rows of details that a terminal shows: with ratios of the main way of calling seqarray alone."""
    main = DETAIL_HEADINGS.index("seqarray's time / this (quartiles)") + WAYS.index(main_way(entry))
    kept = (0, 1, 2, main, DETAIL_HEADINGS.index("hot"), DETAIL_HEADINGS.index("first call"))
    return [tuple(row[i] for i in kept) for row in detail_rows(entry)]


def show(result: dict[str, Any], console: Any, *, details: bool = True) -> None:
    """Print a whole result on a terminal: what there is in ten lines, the cases by question, and then the details."""
    console.print(heading(result), style="dim", highlight=False, markup=False)
    console.print(_table(SUMMARY_TITLE, TEN_LINES_HEADINGS, ten_lines(result)))
    for question, group in by_question(result).items():
        console.print(_table(question.capitalize(), QUESTION_HEADINGS[:-1], [row[:-1] for row in question_rows(group)]))
    for title, headings, rows in _extra_tables(result):
        console.print(_table(title, headings, rows))
    for entry in result["results"] if details else ():
        title = f"{entry['case']}: {entry['title']} - {entry['size']}, {entry['backend']} arrays"
        if "skipped" in entry:
            console.print(f"{title}\n  skipped: {entry['skipped']}", highlight=False, markup=False)
        else:
            console.print(_table(title, _SHOWN_HEADINGS, _shown_rows(entry)))
    for note in notes(result):
        console.print(f"* {note}", style="dim", highlight=False)


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Make a table for a terminal, without the columns that are empty in all rows."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    kept = [i for i in range(len(headings)) if any(row[i] for row in rows)] or [0]
    table = Table(title=escape(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1))
    for i in kept:
        figures = all(row[i][:1].isdigit() or not row[i] for row in rows)
        table.add_column(headings[i], justify="right" if figures else "left")
    for row in rows:
        table.add_row(*(escape(row[i]) for i in kept))
    return table
