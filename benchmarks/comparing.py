"""Comparison of two results: has seqarray become slower?

Machines drift, so times of two runs cannot be compared.  Ratios to a peer that both runs timed can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.reporting import WAYS, best_peer, ratio_quartiles, suffix_of

#: A median ratio has to move by more than this to count, unless another threshold is given.
THRESHOLD = 0.05


@dataclass(frozen=True)
class Change:
    """The change of one case between two results; ratios are seqarray's time over the peer's."""

    case: str
    size: str
    backend: str
    peer: str
    old: tuple[float, float, float]
    new: tuple[float, float, float]

    @property
    def moved(self) -> float:
        """Return the relative change of the median ratio; above 0 is slower."""
        return self.new[1] / self.old[1] - 1

    def verdict(self, threshold: float = THRESHOLD) -> str:
        """Return "slower", "faster", "same", or "unclear" where the median moved but the quartile ranges overlap."""
        if abs(self.moved) <= threshold:
            return "same"
        if self.moved > 0 and self.new[0] > self.old[2]:
            return "slower"
        if self.moved < 0 and self.new[2] < self.old[0]:
            return "faster"
        return "unclear"


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Compare all cases that both results hold with a common peer: the old result's fastest, if it is there."""
    before = {(e["case"], e["size"], e["backend"]): e for e in old["results"]}
    found = []
    for entry in new["results"]:
        key = (entry["case"], entry["size"], entry["backend"])
        if key not in before:
            continue
        common = {n for n, r in entry["contenders"].items() if r.get("rotating")} & set(before[key]["contenders"])
        peer = best_peer({"contenders": {n: r for n, r in before[key]["contenders"].items() if n in common}})
        if peer is None:
            continue
        for ours in WAYS:
            then, now = ratio_quartiles(before[key], peer, ours), ratio_quartiles(entry, peer, ours)
            records = [e["contenders"].get(name, {}) for e in (before[key], entry) for name in (ours, peer)]
            # A single call has no spread to judge by.
            if then and now and not any(record.get("once") for record in records):
                name = entry["case"] + suffix_of(ours)
                found.append(Change(name, entry["size"], entry["backend"], peer, then, now))
    return found


def _cases(result: dict[str, Any]) -> dict[str, None]:
    """Return the names of cases, each with the way in which seqarray was called."""
    return {
        f"{entry['case']} ({way})": None for entry in result["results"] for way in WAYS if way in entry["contenders"]
    }


def warnings(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return what makes two results hard to compare."""
    then, now = old["machine"], new["machine"]
    texts = [
        f"{what} differs: {then.get(what)} and {now.get(what)}"
        for what in ("cpu", "cpus", "gpu")
        if then.get(what) != now.get(what)
    ]
    for name, result in (("old", old), ("new", new)):
        if result["interrupted"]:
            texts.append(f"the {name} run was interrupted")
        load, cpus = result["machine"].get("load_average", 0.0), result["machine"]["cpus"]
        if load > cpus / 2:
            texts.append(f"the {name} run began at a load average of {load:.1f} on {cpus} processors")
    quick = ["--quick" in described["command"] for described in (then, now)]
    if any(quick):
        texts.append(
            "both runs were quick: one size of a case and few rounds; their quartiles say little"
            if all(quick)
            else "one of the runs was quick"
        )
    keys = [{(e["case"], e["size"], e["backend"]) for e in result["results"]} for result in (old, new)]
    if keys[0] != keys[1]:
        texts.append(f"{len(keys[0] ^ keys[1])} cases are in one of the results only")
    before, after = _cases(old), _cases(new)
    if gone := [name for name in before if name not in after]:
        texts.append(f"gone, only the old result has them: {', '.join(gone)}")
    if added := [name for name in after if name not in before]:
        texts.append(f"new, only the new result has them: {', '.join(added)}")
    return texts
