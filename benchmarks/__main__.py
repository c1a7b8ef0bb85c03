"""``python -m benchmarks``: seqarray beside what its users would otherwise call."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import math
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import comparing, libraries, plotting, reporting, running
from benchmarks.cases import CASES
from benchmarks.libraries.base import Library


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run a subcommand.

    Returns
    -------
    int
        The exit status.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments)
    try:
        importlib.import_module("rich")
    except ImportError:
        print('The benchmarks need rich and matplotlib: pip install -e ".[bench]"', file=sys.stderr)
        return 2
    try:
        return int(options.function(options, arguments))
    except OSError as error:
        raise _usage(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time seqarray's operators on the arrays you have, beside what you would otherwise call.",
        epilog="Start with: python -m benchmarks run --quick",
    )
    commands = parser.add_subparsers(title="commands", required=True)

    command = commands.add_parser("list", help="show cases, backends and peers, and what is missing here")
    command.set_defaults(function=_list)

    command = commands.add_parser(
        "run",
        help="measure, show the table and write a report",
        description="Measure. All contenders of a case take turns in one process; their answers are checked first.",
    )
    command.add_argument("--backends", metavar="NAMES", help="array libraries, with commas (default: all installed)")
    command.add_argument("--peers", metavar="NAMES", help="what to time beside seqarray and the arrays' own library")
    command.add_argument("--cases", metavar="PATTERNS", default="*", help="such as 'concat-*,append' (default: all)")
    command.add_argument("--quick", action="store_true", help="one size of each case, few rounds: about a minute")
    command.add_argument(
        "--seconds", metavar="N", type=_positive, help="how long to measure (default: 420, or 14 if quick)"
    )
    command.add_argument("--device", metavar="NAME", help="where the arrays lie, such as cuda (default: the CPU)")
    command.add_argument(
        "--dtype", metavar="NAME", type=_dtype, default="float32", help="their dtype, of NumPy's (default: float32)"
    )
    command.add_argument(
        "--threads",
        metavar="N",
        type=_count,
        help="threads of every library that lets itself be told (default: its own)",
    )
    command.add_argument(
        "--json", metavar="PATH", type=Path, help="where to write the result (default: in build/benchmarks)"
    )
    command.set_defaults(function=_run)

    command = commands.add_parser("report", help="show a result again, as tables and plots")
    command.add_argument("result", metavar="JSON", type=Path, help="what run has written")
    command.add_argument("--markdown", metavar="PATH", type=Path, help="write the tables as Markdown")
    command.add_argument("--plot", metavar="PATH", type=Path, help="write the plots, as .png or .svg")
    command.add_argument("--readme", metavar="PATH", type=Path, help="write the figures that the README has into it")
    command.set_defaults(function=_report)

    command = commands.add_parser(
        "compare",
        help="show what has become slower between two results",
        description="Compare seqarray's ratio to a peer in two results. Slower means that the quartile ranges are "
        "apart and the median moved by more than the threshold; the exit status is 1 then. Where it moved and the "
        "ranges overlap, it is unclear. The peer is the old result's fastest that both have timed.",
    )
    command.add_argument(
        "--threshold",
        metavar="PERCENT",
        type=_positive,
        default=100 * comparing.THRESHOLD,
        help="how far a median has to move to count (default: %(default)g)",
    )
    command.add_argument("old", metavar="OLD.json", type=Path)
    command.add_argument("new", metavar="NEW.json", type=Path)
    command.set_defaults(function=_compare)
    return parser


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return number


def _dtype(text: str) -> str:
    try:
        kind = np.dtype(text).kind
    except TypeError:
        kind = ""
    if kind not in ("f", "i", "u", "c"):
        raise argparse.ArgumentTypeError(f"{text!r} is no dtype of numbers that NumPy has")
    return np.dtype(text).name


def _console() -> Any:
    from rich.console import Console

    console = Console()
    # A pipe has no width.
    return console if console.is_terminal else Console(width=100)


def _names(given: str | None, known: dict[str, Any], what: str) -> list[str]:
    if given is None:
        return list(known)
    names = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    for name in names or [given]:
        if name not in known:
            raise _usage(f"unknown {what} {name!r}; known are {', '.join(known)}")
    return names


def _use_device(device: str, backends: list[str], peers: list[str]) -> list[str]:
    """Put arrays on a device, and return the peers that have it."""
    for name in backends:
        try:
            libraries.BACKENDS[name].use_device(device)
        except (RuntimeError, ValueError) as error:
            raise _usage(f"--device {device}: {name}: {str(error).splitlines()[0]}; choose with --backends") from None
    there = []
    for name in peers:
        with suppress(RuntimeError, ValueError):
            _all_peers()[name].use_device(device)
            there.append(name)
    return there


def _usage(message: str) -> SystemExit:
    """Print an error of the caller on stderr, and return the exit with status 2 for raising."""
    print(message, file=sys.stderr)
    return SystemExit(2)


def _all_peers() -> dict[str, Library]:
    return {name: peer for peers in libraries.PEERS.values() for name, peer in peers.items()}


def _list(*_: Any) -> int:
    from rich.markup import escape
    from rich.table import Table

    console = _console()
    table = Table("case", "what it does", "sizes", title="cases", title_justify="left")
    for case in CASES:
        table.add_row(case.name, case.title, ", ".join(case.sizes))
    console.print(table)
    for title, known in (("backends", libraries.BACKENDS), ("peers", _all_peers())):
        table = Table("name", "here", title=title, title_justify="left")
        for name, library in known.items():
            table.add_row(name, escape(library.missing() or "yes"))
        console.print(table)
    return 0


def _run(options: argparse.Namespace, arguments: list[str]) -> int:
    console = _console()
    backends = []
    for name in _names(options.backends, libraries.BACKENDS, "backend"):
        missing = libraries.BACKENDS[name].missing()
        if missing:
            console.print(f"backend {name} is left out: {missing}", style="dim", highlight=False, markup=False)
        else:
            backends.append(name)
    peers = _names(options.peers, _all_peers(), "peer")
    if options.device is not None:
        peers = _use_device(options.device, backends, peers)
    for name in peers:
        missing = _all_peers()[name].missing()
        if missing and name not in backends:
            console.print(f"peer {name} is left out: {missing}", style="dim", highlight=False, markup=False)
    for pattern in options.cases.split(","):
        if not any(fnmatch.fnmatch(case.name, pattern.strip()) for case in CASES):
            raise _usage(f"no case matches {pattern.strip()!r}; python -m benchmarks list shows them")
    if options.threads is not None:
        libraries.use_threads(options.threads)
    chosen = running.tasks(options.cases, backends, quick=options.quick, dtype=options.dtype)
    if not chosen:
        console.print(
            f"Nothing to measure: {options.cases!r} on {', '.join(backends) or 'no backend'}.", highlight=False
        )
        return 2
    path = options.json or Path("build", "benchmarks", time.strftime("%Y%m%d-%H%M%S.json"))
    if path.suffix == ".md" or not path.name or path.is_dir():
        raise _usage(f"--json is {str(options.json)!r}; expected a file, beside which the tables are written as .md")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a"):  # a path that cannot be written fails before anything is measured
        pass
    plan = running.QUICK if options.quick else running.Plan()
    if options.seconds is not None:
        plan = replace(plan, seconds=options.seconds)
    command = ["python", "-m", "benchmarks", *arguments]
    if "--json" in command:  # where the result goes is no part of it
        place = command.index("--json")
        del command[place : place + 2]
    with _Progress(console) as progress:
        result = running.run(chosen, peers, plan, command, progress)
    path.write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".md").write_text(reporting.markdown(result))
    reporting.show(result, console, details=not options.quick)
    if result["interrupted"]:
        console.print(f"Interrupted: {len(result['results'])} of {len(chosen)} measurements were kept.", style="bold")
    console.print(
        f"The report is in {path} and {path.with_suffix('.md')}", style="bold", highlight=False, soft_wrap=True
    )
    failed = [record for entry in result["results"] for record in entry["contenders"].values() if "error" in record]
    if result["interrupted"]:
        return 130
    return 1 if failed else 0


def _report(options: argparse.Namespace, *_: Any) -> int:
    result = _load(options.result)
    console = _console()
    if options.markdown:
        options.markdown.write_text(reporting.markdown(result))
        console.print(f"wrote {options.markdown}", highlight=False)
    if options.plot:
        if options.plot.suffix not in (".png", ".svg"):
            raise _usage(f"{options.plot} has to end in .png or .svg")
        try:
            plotting.save(result, options.plot)
        except ModuleNotFoundError:
            raise _usage('plots need matplotlib: pip install -e ".[bench]"') from None
        console.print(f"wrote {options.plot}", highlight=False)
    if options.readme:
        options.readme.write_text(reporting.with_figures(options.readme.read_text(encoding="utf-8"), result), "utf-8")
        console.print(f"wrote {options.readme}", highlight=False)
    if not (options.markdown or options.plot or options.readme):
        reporting.show(result, console)
    return 0


def _compare(options: argparse.Namespace, *_: Any) -> int:
    from rich.table import Table

    console = _console()
    old, new = _load(options.old), _load(options.new)
    changes = comparing.changes(old, new)
    for warning in comparing.warnings(old, new):
        console.print(f"note: {warning}", style="dim", highlight=False, markup=False)
    if not changes:
        console.print("The results have no case in common that both timed against the same peer.")
        return 2
    table = Table("case", "size", "arrays", "against", "old ratio", "new ratio", "change", "verdict")
    verdicts = {change: change.verdict(options.threshold / 100) for change in changes}
    for change in sorted(changes, key=lambda change: -change.moved):
        then, now = ("{1:.3g} ({0:.3g} to {2:.3g})".format(*q) for q in (change.old, change.new))
        table.add_row(
            change.case, change.size, change.backend, change.peer, then, now, f"{change.moved:+.0%}", verdicts[change]
        )
    console.print(table)
    slower, unclear = (list(verdicts.values()).count(verdict) for verdict in ("slower", "unclear"))
    console.print(f"{slower} of {len(changes)} have become slower, {unclear} are unclear")
    broken = [
        f"{entry['case']}, {entry['size']}: {way} fails: {record['error']}"
        for entry in new["results"]
        for way in reporting.WAYS
        if "error" in (record := entry["contenders"].get(way, {}))
    ]
    for text in broken:
        console.print(text, highlight=False, markup=False)
    return 1 if slower or broken else 0


def _load(path: Path) -> dict[str, Any]:
    try:
        result = reporting.load(path)
    except (OSError, ValueError) as error:
        result, reason = {}, str(error)
    else:
        reason = "parts of it are missing"
    parts = {"machine", "interrupted", "results"}
    parts_of_entry = {"case", "title", "size", "backend", "bytes", "contenders"}
    whole = isinstance(result, dict) and parts <= result.keys()
    if not whole or not all(parts_of_entry <= entry.keys() for entry in result["results"]):
        raise _usage(f"{path} is not what run has written: {reason}")
    return result


class _Progress(running.Reporter):
    """A progress bar with the time left."""

    def __init__(self, console: Any) -> None:
        from rich import progress

        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self.row: Any = None

    def __enter__(self) -> _Progress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def start(self, tasks: int) -> None:
        self.row = self.bar.add_task("", total=tasks)

    def task(self, task: running.Task) -> None:
        self.bar.update(self.row, description=f"{task.case.name} {task.size}, {task.backend}")

    def done(self) -> None:
        self.bar.advance(self.row)

    def message(self, text: str) -> None:
        self.bar.console.print(text, style="dim", highlight=False, markup=False)


if __name__ == "__main__":
    sys.exit(main())
