"""The figures as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .rounds import Runs

KAFKA = "Kafka"


class Line(NamedTuple):
    """One way to do a job, compared with Kafka's."""

    work: str
    name: str
    rows: int
    runs: Runs
    kafka: Runs
    at_least: float | None = None
    """The ratio to Kafka's rate that it should reach."""
    slower_by: float | None = None
    """How many seconds longer than Kafka it may take."""

    @property
    def ratio(self) -> float:
        return self.kafka.median / self.runs.median

    @property
    def best_ratio(self) -> float:
        return self.kafka.best / self.runs.best

    def as_json(self) -> dict[str, Any]:
        """Return all measurements."""
        bars = {"at_least": self.at_least, "slower_by": self.slower_by}
        return {
            "work": self.work, "name": self.name, "rows": self.rows, "ratio": round(self.ratio, 3),
            "best_ratio": round(self.best_ratio, 3), **{name: bar for name, bar in bars.items() if bar is not None},
            "runs": [{key: round(value, 3) for key, value in run._asdict().items()} for run in self.runs],
        }  # fmt: skip


def print_rates(lines: Iterable[Line]) -> None:
    """Print rows per second, CPU time and ratios."""
    print(f"\n{'':36} {'rows/s (best)':>19} {'CPU s/million':>14} {'load':>5} {'times Kafka (best)':>19}  wanted")
    for line in lines:
        rate = f"{line.rows / line.runs.median:,.0f} ({line.rows / line.runs.best:,.0f})"
        ratio = "" if line.name == KAFKA else f"{line.ratio:.2f} ({line.best_ratio:.2f})"
        wanted = f"{line.at_least:.1f}" if line.at_least else ""
        cpu = line.runs.cpu / line.rows * 1e6
        figures = f"{rate:>19} {cpu:>14.1f} {line.runs.load:>5.1f} {ratio:>19}"
        print(f"{line.work + ', ' + line.name:36} {figures}  {wanted}", flush=True)


def print_times(lines: Iterable[Line]) -> None:
    """Print seconds, and the difference to Kafka's."""
    print(f"\n{'':36} {'seconds (best)':>19} {'CPU s':>14} {'load':>5} {'more than Kafka':>19}  wanted")
    for line in lines:
        took = f"{line.runs.median:.2f} ({line.runs.best:.2f})"
        differences = line.runs.median - line.kafka.median, line.runs.best - line.kafka.best
        more = "" if line.name == KAFKA else "{:+.2f} ({:+.2f})".format(*differences)
        wanted = f"{line.slower_by:+.1f}" if line.slower_by else ""
        figures = f"{took:>19} {line.runs.cpu:>14.1f} {line.runs.load:>5.1f} {more:>19}"
        print(f"{line.work + ', ' + line.name:36} {figures}  {wanted}", flush=True)
