"""Half messages as a table."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Column, Table

from pyromq.admin import HalfMessage
from pyromq.admin.views.iso_times import iso_time
from pyromq.admin.views.pending_view import half_message_state


def half_messages_table(halves: Iterable[HalfMessage]) -> Table:
    """Return a table with a row for each half message."""
    table = Table(
        "state", Column("message id", min_width=32), "topic", "keys", "producer group", "born", "checks", "broker"
    )
    for half in halves:
        message = half.message
        cells = (
            half_message_state(half),
            message.message_id,
            half.topic,
            ",".join(message.keys),
            half.group,
            iso_time(message.born_timestamp_ms),
            str(half.checks),
            message.broker_name or "",
        )
        table.add_row(*map(escape, cells))
    return table
