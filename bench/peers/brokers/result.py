"""The rounds of a run: kept as JSON, and read again for medians and ratios."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from ..load.generator import Figures
from .work import Work

QUIET = 0.3
"""Others may use so much of a core; above it a run is disturbed."""
_ENOUGH = 3


class Round(NamedTuple):
    """One run of a load on a peer."""

    work: str
    peer: str
    number: int
    attempt: int
    memory_mib: float
    figures: Figures

    @property
    def is_quiet(self) -> bool:
        return self.figures.neighbours <= QUIET


class Median(NamedTuple):
    """The runs of a peer at one work, condensed."""

    rate: float
    cpu: float
    p50_ms: float
    p99_ms: float
    memory_mib: float
    least_cpu: float
    rates: tuple[float, float]
    """The slowest and the fastest run."""
    runs: int
    disturbed: bool
    """Whether fewer than three runs were quiet; then all count."""


class Ratio(NamedTuple):
    """A peer against another, by medians."""

    rate: float
    cpu: float
    p99: float
    disturbed: bool

    def __str__(self) -> str:
        return f"{self.rate:.2f} / {self.cpu:.2f} / {self.p99:.2f}" + (" ‡" if self.disturbed else "")


class Result:
    """All that a run found."""

    def __init__(self, machine: dict[str, str], command: str, path: Path | None = None) -> None:
        self.machine = machine
        self.command = command
        self.peers: dict[str, dict[str, str]] = {}
        self.missing: dict[str, str] = {}
        self.memory: dict[str, float] = {}
        """Of growth: MiB by what a broker holds."""
        self.rounds: list[Round] = []
        self._path = path

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file that `save` wrote."""
        found: dict[str, Any] = json.loads(path.read_text())
        result = cls(found["machine"], found["command"])
        result.peers, result.missing, result.memory = found["peers"], found["missing"], found["memory"]
        names = Figures._fields
        for one in found["rounds"]:
            figures = Figures(**{name: one["figures"][name] for name in names})
            result.rounds.append(Round(**{**one, "figures": figures}))
        return result

    @classmethod
    def joined(cls, results: Sequence[Result]) -> Result:
        """Return several results as one; where two measured the same, all rounds count."""
        whole = cls(results[0].machine, " and ".join(result.command for result in results))
        for result in results:
            whole.peers |= result.peers
            whole.missing |= result.missing
            whole.memory |= result.memory
            whole.rounds += result.rounds
        return whole

    def save(self) -> None:
        """Write everything to the file, one line for each run."""
        if self._path is None:
            return
        head: dict[str, Any] = {
            "machine": self.machine, "command": self.command, "peers": self.peers, "missing": self.missing,
            "memory": {what: round(mib, 2) for what, mib in self.memory.items()},
        }  # fmt: skip
        lines = [json.dumps({**one._asdict(), "figures": one.figures.as_json()}) for one in self.rounds]
        text = json.dumps(head, indent=1)[:-2] + ',\n "rounds": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
        self._path.write_text(text)

    def works(self) -> list[str]:
        """Return the works that were measured, in order."""
        return list(dict.fromkeys(one.work for one in self.rounds))

    def names(self) -> list[str]:
        """Return the peers that were measured, in order."""
        return list(dict.fromkeys(one.peer for one in self.rounds))

    def median(self, work: str, peer: str) -> Median | None:
        """Condense the runs of a peer, or return None if there is none. Quiet runs count if there are enough."""
        every = [one for one in self.rounds if (one.work, one.peer) == (work, peer)]
        quiet = [one for one in every if one.is_quiet]
        used = quiet if len(quiet) >= min(_ENOUGH, len(every)) else every
        if not used:
            return None

        def middle(of: Callable[[Figures], float]) -> float:
            return statistics.median(of(one.figures) for one in used)

        rates = [one.figures.rate for one in used]
        return Median(
            middle(lambda one: one.rate), middle(lambda one: one.cpu), middle(lambda one: one.p50_ms),
            middle(lambda one: one.p99_ms), statistics.median(one.memory_mib for one in used),
            min(one.figures.cpu for one in used), (min(rates), max(rates)), len(used), used is every and used != quiet,
        )  # fmt: skip

    def ratio(self, work: str, peer: str, to: str) -> Ratio | None:
        """Return a peer's figures in those of another."""
        own, other = self.median(work, peer), self.median(work, to)
        if own is None or other is None:
            return None
        return Ratio(
            own.rate / other.rate, own.cpu / other.cpu, own.p99_ms / other.p99_ms, own.disturbed or other.disturbed
        )

    def summary(self, work: Work) -> str:
        """Return lines for the terminal: each peer, and its ratio to Apache's broker where that ran."""
        lines = []
        for name in self.names():
            if found := self.median(str(work), name):
                ratio = self.ratio(str(work), name, "apache")
                against = f"  {ratio}" if ratio and name != "apache" else ""
                low, high = found.rates
                lines.append(
                    f"  {name:<14} {found.rate:>10,.0f}/s ({low:,.0f}–{high:,.0f})  CPU/M {found.cpu:>7.2f}"
                    f"  p50 {found.p50_ms:.3f}  p99 {found.p99_ms:.3f} ms  {found.memory_mib:,.0f} MiB"
                    f"{'  disturbed' if found.disturbed else ''}{against}"
                )
        return "\n".join(lines)
