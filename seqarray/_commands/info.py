"""The command ``seqarray info``, which shows the array libraries and devices that are usable here."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

from seqarray import __version__
from seqarray._commands.libraries import Found, find_all, in_columns

DESCRIPTION = "Show which array libraries and devices are usable here, and what each can hold."
EPILOG = ""

#: The element types that are shown: those that some libraries cannot hold.
_TYPES = ("string", "bfloat16", "float8_e4m3fn", "int64")
_HEADINGS = ("library", "version", "string", "bfloat16", "float8", "int64", "devices")
_LEGEND = """
yes, no: whether arrays can be of an element type (float8: float8_e4m3fn); some: on some devices.
--json tells it for each device."""
#: How many devices of a library are named.
_MOST_DEVICES = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to a parser."""
    parser.add_argument("--json", action="store_true", help="print all that is known, as JSON")


def run(options: argparse.Namespace) -> int:
    """Print the table, and return the exit status 0."""
    libraries = {found.name: _record(found) for found in find_all()}
    python = sys.version.split()[0]
    if options.json:
        print(json.dumps({"seqarray": __version__, "python": python, "libraries": libraries}, indent=2))
        return 0
    print(f"seqarray {__version__}, Python {python}")
    print(*in_columns([_HEADINGS, *(_row(name, record) for name, record in libraries.items())]), sep="\n")
    print(_LEGEND)
    return 0


def _record(found: Found) -> dict[str, Any]:
    """Return what is known of a library."""
    devices: dict[str, dict[str, bool]] = {}
    if found.library is not None:
        for device in found.library.devices():
            holds = {element_type: bool(found.library.can_hold(element_type, device)) for element_type in _TYPES}
            devices[_device_name(device)] = holds
    return {"version": found.version, "problem": found.problem or None, "devices": devices}


def _row(name: str, record: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of a library, which ends with its devices; a short one with the reason why it has none."""
    if record["problem"]:
        return (name, record["version"], record["problem"])
    devices = record["devices"]
    cells = [_summary({holds[element_type] for holds in devices.values()}) for element_type in _TYPES]
    names = list(devices)
    more = f" and {len(names) - _MOST_DEVICES} more" if len(names) > _MOST_DEVICES else ""
    return (name, record["version"], *cells, ", ".join(names[:_MOST_DEVICES]) + more)


def _summary(answers: set[bool]) -> str:
    return "some" if len(answers) > 1 else "yes" if True in answers else "no"


def _device_name(device: Any) -> str:
    """Return what a library calls a device, without the name of its class."""
    text = str(device)
    quoted = re.fullmatch(r"[\w.]+\('(.*)'\)", text)
    return quoted[1] if quoted else text
