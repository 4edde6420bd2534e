"""The trace of a message as a timeline: what happened when, and for how long, as bars on one axis."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pyromq.admin.messages.traces import ConsumeEvent, SendEvent, TraceEvent, TransactionEvent

_LEAST_WIDTH = 0.8  # percent, so that a bar can be seen


class TimelineBar(Struct, frozen=True, kw_only=True):
    """One event; start and width are percent of the whole time."""

    kind: str
    """send, consume or transaction."""
    event: TraceEvent
    began_ms: int
    """After the first event."""
    start: float
    width: float
    tone: str
    """good, bad, warn or note."""


class Timeline(Struct, frozen=True, kw_only=True):
    """All events of a message."""

    bars: tuple[TimelineBar, ...]
    span_ms: int


def timeline(events: Sequence[TraceEvent]) -> Timeline:
    """Return events as bars."""
    if not events:
        return Timeline(bars=(), span_ms=0)
    first = min(event.timestamp_ms for event in events)
    span = max(max(event.timestamp_ms + _duration_ms(event) for event in events) - first, 1)
    bars = [_bar(event, event.timestamp_ms - first, span) for event in events]
    return Timeline(bars=tuple(bars), span_ms=span)


def _bar(event: TraceEvent, began_ms: int, span: int) -> TimelineBar:
    width = max(_duration_ms(event) / span * 100, _LEAST_WIDTH)
    return TimelineBar(
        kind=_kind(event),
        event=event,
        began_ms=began_ms,
        start=min(began_ms / span * 100, 100 - width),
        width=width,
        tone=_tone(event),
    )


def _duration_ms(event: TraceEvent) -> int:
    return (event.duration_ms or 0) if isinstance(event, SendEvent | ConsumeEvent) else 0


def _kind(event: TraceEvent) -> str:
    if isinstance(event, SendEvent):
        return "send"
    return "consume" if isinstance(event, ConsumeEvent) else "transaction"


def _tone(event: TraceEvent) -> str:
    if isinstance(event, SendEvent):
        return "good" if event.success else "warn"
    if isinstance(event, ConsumeEvent):
        return "note" if event.success is None else "good" if event.success else "bad"
    if isinstance(event, TransactionEvent) and event.state == "ROLLBACK_MESSAGE":
        return "warn"
    return "note"
