"""The table of metrics in docs/metrics.md, as the rows of the figures have it.

python -m tests.console.monitoring.metric_table     prints it
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.replication.follower import _FIGURES as OF_SLAVES
from pyromq.broker.server import Broker
from pyromq.broker.stats.series import ALL_TABLES
from pyromq.console.monitoring.exposition import metric_name
from pyromq.console.monitoring.loop_lag import LoopLag
from pyromq.figures import Figure, Kind
from pyromq.namesrv.server import NameServer
from pyromq.testing import TestClock


class MetricRow(NamedTuple):
    """One line of the table."""

    name: str
    label: str
    kind: str
    help: str

    def __str__(self) -> str:
        label = f"{{{self.label}}}" if self.label else ""
        return f"| `{self.name}{label}` | {self.kind} | {self.help} |"


def _of_figures(rows: Iterable[Figure[Any]], prefix: str) -> Iterator[MetricRow]:
    for row in rows:
        if row.kind is not Kind.TEXT and row.in_metrics:
            yield MetricRow(metric_name(row, prefix).name, row.label, row.kind.value, row.help)


def _of_exporter(rows: Iterable[Figure[Any]]) -> Iterator[str]:
    for row in rows:
        if isinstance(row.exporter, str):
            if row.exporter:
                yield row.exporter.replace("{}", "*") if row.label else row.exporter
        else:
            yield from row.exporter.values()


class Tables(NamedTuple):
    """Our own metrics by subject, and the names that we share with rocketmq-exporter."""

    process: list[MetricRow]
    broker: list[MetricRow]
    series: list[MetricRow]
    name_server: list[MetricRow]
    shared: list[str]

    @property
    def lines(self) -> list[str]:
        """All lines, as the page has them."""
        own = (*self.process, *self.broker, *self.series, *self.name_server)
        return [*map(str, own), *(f"- `{name}`" for name in self.shared)]


def tables(broker: Broker, name_server: NameServer) -> Tables:
    """Return the tables of a master, of what only slaves have, and of a name server."""
    rows = [
        MetricRow(row.name, ", ".join(table.labels), row.kind.value, row.help)
        for table in ALL_TABLES
        for row in table.rows
    ]
    others = [row.name for row in rows if not row.name.startswith("pyromq_")]
    return Tables(
        process=[*_of_figures(LoopLag().figures().rows, "pyromq")],
        broker=[*_of_figures([*broker.figures().rows, *OF_SLAVES], "pyromq_broker")],
        series=[row for row in rows if row.name.startswith("pyromq_")],
        name_server=[*_of_figures(name_server.figures().rows, "pyromq_namesrv")],
        shared=sorted([*_of_exporter(broker.figures().rows), *others]),
    )


async def _print() -> None:
    with tempfile.TemporaryDirectory() as directory:
        clock = TestClock()
        values = {"listenPort": "0", "storePathRootDir": str(Path(directory) / "store")}
        async with (
            Broker(broker_config(values), clock) as broker,
            NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None) as name_server,
        ):
            print("\n".join(tables(broker, name_server).lines))


if __name__ == "__main__":
    asyncio.run(_print())
