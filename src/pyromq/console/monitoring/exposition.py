"""The text that Prometheus reads, made from the rows of figures (pyromq/figures.py).

    a Figure of a broker    pyromq_broker_<name>, with `_ms` and `_percent` as seconds and ratios, `_total` for counters
    its name in Apache's    rocketmq_…, beside it and as rocketmq-exporter exports it: a gauge, no unit converted
    a Series                under its own name

Lines are collected by family, because all lines of a metric must follow each other. prometheus-client makes such a page
in one call, which holds up the event loop for as long as there are topics; here a page grows by a few lines at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pyromq.figures import Figure, Kind, SeriesBatch

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PIECE_LINES: Final = 500
"""Lines of a page that are joined at once, in less than a millisecond."""

_UNITS: Final = (("_ms", "_seconds", 1000), ("_percent", "_ratio", 100))


class MetricName(NamedTuple):
    """What a row is called in /metrics, and by how much its value is divided."""

    name: str
    divisor: int


def metric_name(row: Figure[Any], prefix: str) -> MetricName:
    """Return the name of a figure among our own metrics, by Prometheus' customs: base units, `_total` of counters."""
    name, divisor = row.name, 1
    for suffix, unit, factor in _UNITS:
        if name.endswith(suffix):
            name, divisor = name.removesuffix(suffix) + unit, factor
    name = row.metric or name
    if row.kind is Kind.COUNTER:
        name += "_total"
    return MetricName(f"{prefix}_{name}", divisor)


def exporter_name(row: Figure[Any], label: str = "") -> str:
    """Return rocketmq-exporter's name of a figure, or of its value for a label; empty if it has none."""
    if isinstance(row.exporter, str):
        return row.exporter.format(label)
    return row.exporter.get(label, "")


def label_text(labels: Mapping[str, str]) -> str:
    """Return labels as they stand between the braces."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())


def escape(value: str) -> str:
    """Return the value of a label; names that peers make up may hold anything."""
    if '"' in value or "\\" in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


class MetricsPage:
    """The lines of all metrics, by family."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def add(self, name: str, help: str, kind: Kind, labels: str, value: float) -> None:
        """Add one line."""
        self._lines(name, help, kind).append(
            f"{name}{{{labels}}} {_number(value)}" if labels else f"{name} {_number(value)}"
        )

    def add_figures(self, values: Iterable[tuple[Figure[Any], Any]], prefix: str, labels: str) -> None:
        """Add the figures of a server, each under our name and, if it has one, under rocketmq-exporter's."""
        for row, value in values:
            if row.kind is Kind.TEXT:
                continue
            name, divisor = metric_name(row, prefix)
            for key, number in value.items() if row.label else (("", value),):
                if row.in_metrics:
                    own = f'{labels},{row.label}="{escape(str(key))}"' if row.label else labels
                    self.add(name, row.help, row.kind, own, number / divisor if divisor > 1 else number)
                if other := exporter_name(row, key):
                    self.add(other, row.help, Kind.GAUGE, labels, number)

    def add_batch(self, batch: SeriesBatch, labels: str) -> None:
        """Add the series of some topics, groups or queues."""
        tables, subjects = batch
        for table in tables:
            lines = [(row.read, row.name, self._lines(row.name, row.help, row.kind)) for row in table.rows]
            for subject in subjects:
                pairs = zip(table.labels, table.key(subject), strict=True)
                text = "".join(f',{name}="{escape(value)}"' for name, value in pairs)
                for read, name, rows in lines:
                    value = read(subject)
                    if value is not None:
                        rows.append(f"{name}{{{labels}{text}}} {_number(value)}")

    def pieces(self) -> Iterator[bytes]:
        """Yield the page in pieces."""
        for lines in self._families.values():
            for start in range(0, len(lines), PIECE_LINES):
                yield ("\n".join(lines[start : start + PIECE_LINES]) + "\n").encode()

    def _lines(self, name: str, help: str, kind: Kind) -> list[str]:
        lines = self._families.get(name)
        if lines is None:
            lines = self._families[name] = [f"# HELP {name} {help}", f"# TYPE {name} {_type(name, kind)}"]
        return lines


def _type(name: str, kind: Kind) -> str:
    """Return the type of a metric; names of rocketmq-exporter's that are against the customs have a type that fits."""
    if name.endswith("_count"):
        return "untyped"  # the suffix belongs to histograms and summaries
    return "counter" if name.endswith("_total") else kind.value


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)
