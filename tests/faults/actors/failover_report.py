"""What rounds of failover.py have shown: how long it took until another master stored something, and what was wrong."""

from __future__ import annotations

import statistics
from collections import Counter

from msgspec import Struct, field

from tests.faults.actors.blows import FAILOVERS, HANDOVERS
from tests.faults.history import Finding


class Blow(Struct):
    """What was done in a round, and how long it took until another master had stored something."""

    how: str
    with_etcd: bool
    seconds: float = 0.0
    """Until the first send was stored by another; not of those that strike several."""
    of_clients: float = 0.0
    """The same of a producer that has to find the new master."""

    def __str__(self) -> str:
        etcd = " and etcd" if self.with_etcd else ""
        times = f": {self.seconds:.2f} s, producers {self.of_clients:.2f} s" if self.seconds else ""
        return f"{self.how}{etcd}{times}"


class SuccessionReport(Struct):
    """What rounds have shown."""

    blows: list[Blow] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.findings or self.problems)

    def add(self, other: SuccessionReport) -> None:
        """Add what other rounds have shown."""
        self.blows += other.blows
        self.figures.update(other.figures)
        self.findings += other.findings
        self.problems += other.problems

    def __str__(self) -> str:
        kinds = Counter(finding.kind for finding in self.findings)
        ways = Counter(blow.how for blow in self.blows)
        lines = [
            f"{len(self.blows)} rounds: " + ", ".join(f"{count} {name}" for name, count in ways.items()),
            ", ".join(f"{count} {name}" for name, count in self.figures.items()),
        ]
        for name, blows in self._classes().items():
            for what, times in (
                ("first stored", [blow.seconds for blow in blows]),
                ("producers", [blow.of_clients for blow in blows]),
            ):
                lines.append(f"  {name} ({len(blows)}), {what}: {_spread(times)}")
        found = ", ".join(f"{number} {kind}" for kind, number in kinds.items()) or "0 lost, 0 deposed, 0 anything"
        return "\n".join([*lines, f"findings: {found}; problems: {len(self.problems)}"])

    def _classes(self) -> dict[str, list[Blow]]:
        kinds = {"failover": FAILOVERS, "handover": HANDOVERS}
        return {
            f"{kind}{' with etcd killed' * with_etcd}": blows
            for kind, ways in kinds.items()
            for with_etcd in (False, True)
            if (blows := [blow for blow in self.blows if blow.how in ways and blow.with_etcd == with_etcd])
        }


def _spread(times: list[float]) -> str:
    return f"median {statistics.median(times):.2f} s, worst {max(times):.2f} s"
