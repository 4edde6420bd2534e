"""Masters and slaves as a table."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from pyromq.admin import BrokerStatus, ClusterStatus
from pyromq.admin.views.iso_times import iso_time
from pyromq.cli.show.group_tables import age
from pyromq.cli.show.lines import printable

_COLUMNS = "cluster broker id role address version epoch writes in_sync log lag behind has follows last_failover"
_NAMES = [column.replace("_", " ") for column in _COLUMNS.split()]


def status_as_tables(status: ClusterStatus) -> Iterator[RenderableType]:
    """Yield what is wrong, then the table of brokers; columns that are empty for all of them are left out."""
    for finding in status.findings:
        yield f"[yellow]! {_safe(finding)}[/]"
    rows = [_cells(broker) for broker in status.brokers]
    shown = [index for index in range(len(_NAMES)) if any(row[index] for row in rows)]
    table = Table(*(_NAMES[index] for index in shown))
    for row, broker in zip(rows, status.brokers, strict=True):
        table.add_row(*(_safe(row[index]) for index in shown), style="bold red" if broker.silence else None)
    yield table if rows else "no name server knows a broker"


def _cells(broker: BrokerStatus) -> list[str]:
    return [
        broker.cluster,
        broker.name,
        str(broker.broker_id),
        broker.role,
        broker.address,
        broker.version or ("does not answer" if broker.silence else ""),
        "" if broker.epoch is None else str(broker.epoch),
        "" if broker.writes == "open" else broker.writes,
        ", ".join(broker.in_sync) or ("none" if broker.role == "SYNC_MASTER" else ""),
        "" if broker.silence else f"{broker.min_offset:,} - {broker.max_offset:,}",
        "" if broker.lag_bytes is None else f"{broker.lag_bytes:,} bytes",
        "" if broker.lag_seconds is None else age(broker.lag_seconds),
        "" if broker.share is None else f"{broker.share:.1%}",
        _followed(broker),
        _failover(broker),
    ]


def _followed(broker: BrokerStatus) -> str:
    if broker.follows is None:
        return ""
    return broker.follows.master if broker.follows.is_connected else "nobody"


def _failover(broker: BrokerStatus) -> str:
    last = broker.last_failover
    return "" if last is None else f"{iso_time(last.at_ms)}, {last.how}, {last.took_ms / 1000:.2f} s"


def _safe(text: str) -> str:
    return escape(printable(text))
