"""A message trace as a table."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from pyromq.admin import ConsumeEvent, MessageTrace, SendEvent, TraceEvent, TransactionEvent
from pyromq.admin.views.iso_times import iso_time
from pyromq.cli.show.lines import printable


def trace_as_table(trace: MessageTrace) -> Table:
    """Return the events of a message, in order of time."""
    table = Table("time", "what", "group", "client", "took", "outcome", title=_title(trace), title_justify="left")
    for event in trace.events:
        what, took, outcome = _described(event)
        cells = (iso_time(event.timestamp_ms), what, event.group or "-", event.client, took, outcome)
        table.add_row(*map(_printable, cells), style="red" if _is_bad(event) else None)
    return table


def _title(trace: MessageTrace) -> Text:
    topics = {event.topic for event in trace.events if isinstance(event, SendEvent | TransactionEvent) and event.topic}
    keys = dict.fromkeys(key for event in trace.events for key in event.keys)
    parts = [f"message {trace.message_id}"]
    parts += [f"topic {', '.join(sorted(topics))}"] if topics else []
    parts += [f"keys {' '.join(keys)}"] if keys else []
    return _printable(", ".join(parts))


def _described(event: TraceEvent) -> tuple[str, str, str]:
    if isinstance(event, SendEvent):
        kind = "" if event.message_type == "NORMAL" else f" ({event.message_type.lower()})"
        stored = (
            f"stored on {event.broker}" if event.success else f"stored on {event.broker}, less safely than requested"
        )
        return f"sent{kind}", f"{event.duration_ms} ms", stored
    if isinstance(event, ConsumeEvent):
        times = "" if event.retry_times is None else f", attempt {event.retry_times + 1}"
        took = "-" if event.duration_ms is None else f"{event.duration_ms} ms"
        return f"consumed{times}", took, event.status or "end unknown"
    assert isinstance(event, TransactionEvent)
    asked = "the broker had asked" if event.from_check else "by the producer itself"
    return "transaction", "-", f"{event.state}, {asked}"


def _is_bad(event: TraceEvent) -> bool:
    return isinstance(event, SendEvent | ConsumeEvent) and event.success is False


def _printable(text: str) -> Text:
    """Return text that clients wrote, without markup and control characters."""
    return Text(printable(text))
