"""The JSON of message traces."""

from __future__ import annotations

from typing import Any

from pyromq.admin.messages.traces import ConsumeEvent, SendEvent, TraceEvent, TransactionEvent
from pyromq.admin.views.iso_times import iso_time

_NAMES = {SendEvent: "send", ConsumeEvent: "consume", TransactionEvent: "transaction"}
_RENAMED = {"timestamp_ms": "timestamp", "client": "client_address", "broker": "broker_address"}


def trace_event_fields(event: TraceEvent) -> dict[str, Any]:
    """Return the fields of one event of a trace."""
    fields: dict[str, Any] = {"event": _NAMES[type(event)]}
    for name in event.__struct_fields__:
        fields[_RENAMED.get(name, name)] = getattr(event, name)
    fields["timestamp"] = iso_time(event.timestamp_ms)
    return fields
