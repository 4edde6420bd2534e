"""Figures: what a server counts and measures. A figure is one row, beside the part that it describes.

A part lists its rows in a tuple and binds them to itself in `figures()`. A server joins the rows of its parts in one
`Figures`. Every view of a running server is a rendering of that registry: /varz (here), RocketMQ's runtime information
(in the broker), /metrics (console/exposition.py) and later the console. To add a figure, add one row.

What there are many of, such as topics and groups, has rows too: `MetricSeries`, read from one subject after another,
and `SeriesTable`, the rows that share their labels. Only /metrics shows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

S = TypeVar("S")

Scalar: TypeAlias = int | float | str
Value: TypeAlias = Scalar | Sequence[str] | Mapping[str, Scalar]
"""What a row reads: one value, several texts (Kind.TEXT only), or one value for each value of its label."""


class Kind(Enum):
    """How a figure behaves over time."""

    COUNTER = "counter"
    """A number that only grows while the server runs."""
    GAUGE = "gauge"
    """A number that rises and falls."""
    TEXT = "text"
    """Not a number: shown to people, never a metric."""


class Figure(NamedTuple, Generic[S]):
    """One row: the name of a figure, what it means, and how to read it from its subject."""

    name: str
    help: str
    kind: Kind
    read: Callable[[S], Value]
    label: str = ""
    """What its values are keyed by; empty if it has one value."""
    runtime: str = ""
    """RocketMQ's name in the runtime information (request 28), `{}` for the label; empty if it is not shown there."""
    runtime_text: Callable[[Any], str] = str
    """How RocketMQ writes the value there."""
    in_varz: bool = True
    in_metrics: bool = True
    """Whether /metrics has it under a name of ours; a text never is there."""
    metric: str = ""
    """Its name there, where the one that follows from `name` would mislead."""
    exporter: str | Mapping[str, str] = ""
    """rocketmq-exporter's name in /metrics, `{}` for the label, or a name for each value of the label; empty if it has
    none. The value is as it is read: no unit is converted."""


class BoundFigures(NamedTuple, Generic[S]):
    """Rows, and how to get their subject: once for all rows, so that their values agree."""

    rows: Sequence[Figure[S]]
    subject: Callable[[], S]


class Figures:
    """The figures of one server, in the order of its parts."""

    def __init__(self, *parts: BoundFigures[Any]) -> None:
        """Join the figures of all parts; raise ValueError if two rows have the same name."""
        self._parts = parts
        counts = Counter(row.name for row in self.rows)
        if repeated := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"more than one figure is named {', '.join(repeated)}")

    @property
    def rows(self) -> list[Figure[Any]]:
        """All rows, in order."""
        return [row for part in self._parts for row in part.rows]

    def read(self, wanted: Callable[[Figure[Any]], bool] = lambda row: True) -> Iterator[tuple[Figure[Any], Any]]:
        """Yield the wanted rows with their values. A part with no wanted row is not asked."""
        for part in self._parts:
            rows = [row for row in part.rows if wanted(row)]
            if rows:
                subject = part.subject()
                yield from ((row, row.read(subject)) for row in rows)

    def varz(self) -> dict[str, Any]:
        """Return what /varz shows: values by name, fractions with one digit."""
        return {row.name: _rounded(value) for row, value in self.read(lambda row: row.in_varz)}


class MetricSeries(NamedTuple, Generic[S]):
    """One row of a table: a metric that every subject of a kind has, such as every topic."""

    name: str
    """The whole name in /metrics: one of ours, or rocketmq-exporter's."""
    help: str
    kind: Kind
    read: Callable[[S], float | None]
    """Return the value of one subject; None if it has none."""


class SeriesTable(NamedTuple, Generic[S]):
    """Rows whose subjects have the same labels."""

    labels: tuple[str, ...]
    key: Callable[[S], tuple[str, ...]]
    """Return the values of the labels for one subject."""
    rows: Sequence[MetricSeries[S]]


SeriesBatch: TypeAlias = tuple[Sequence[SeriesTable[Any]], Sequence[Any]]
"""Some subjects, few enough to be read at once, and the tables that show them."""


def _rounded(value: Any) -> Any:
    return round(value, 1) if isinstance(value, float) else value
