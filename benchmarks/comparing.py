"""Comparing two results: has seqarray become slower?

Times of two runs say little on machines that drift.  What is compared is the ratio to a peer that both runs timed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.reporting import OURS, best_peer, ratio_quartiles

#: A median ratio has to move by more than this to count.
THRESHOLD = 0.05


@dataclass(frozen=True)
class Change:
    """How one case has moved between two results; ratios are seqarray's time over the peer's."""

    case: str
    size: str
    backend: str
    peer: str
    old: tuple[float, float, float]
    new: tuple[float, float, float]

    @property
    def moved(self) -> float:
        """Relative change of the median ratio; above 0 is slower."""
        return self.new[1] / self.old[1] - 1

    @property
    def verdict(self) -> str:
        """ "slower" or "faster" where the quartile ranges are apart and the median moved by more than 5 %."""
        if self.moved > THRESHOLD and self.new[0] > self.old[2]:
            return "slower"
        if self.moved < -THRESHOLD and self.new[2] < self.old[0]:
            return "faster"
        return "same"


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """The changes of all cases that both results hold with a common peer: the old result's fastest, if it is there."""
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
        then, now = ratio_quartiles(before[key], peer), ratio_quartiles(entry, peer)
        # What was called once has no spread to judge by.
        if then and now and not any(e["contenders"][n].get("once") for e in (before[key], entry) for n in (OURS, peer)):
            found.append(Change(*key, peer, then, now))
    return found
