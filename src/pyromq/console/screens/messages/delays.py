"""Delays: messages that wait for their time, as a histogram and one by one, and what waits at delay levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from starlette.responses import Response

from pyromq.admin.messages.level_loads import LevelLoad
from pyromq.admin.timed_messages import DelayHistogram, TimedMessage
from pyromq.console.login.roles import UserRole
from pyromq.console.web.failures import NotFound
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit
from pyromq.errors import AccessDenied, NotSupported

MOST_COUNTED: Final = 5_000
MOST_SHOWN: Final = 50
_HOUR_MS: Final = 3_600_000


class Waiting(Struct, frozen=True, kw_only=True):
    """What waits for a time of its own."""

    histogram: DelayHistogram
    rows: tuple[TimedMessage, ...]
    """Those that are due first."""
    soon: int
    """Due within an hour, as far as it was counted."""


async def delays(visit: Visit) -> Response:
    """Show what waits."""
    topic = visit.query.get("topic", "").strip()
    reason = visit.unavailable("timed_messages")
    waiting: Waiting | None = None
    try:
        waiting = None if reason else await _waiting(visit, topic)
    except NotSupported as error:
        reason = str(error)
    levels = () if topic else await _levels(visit)
    return await visit.render(
        "delays.html",
        waiting=waiting,
        levels=levels,
        reason=reason,
        topic=topic,
        topics=sorted({row.topic for row in waiting.rows} | ({topic} if topic else set())) if waiting else [],
        next_due=_next_due(waiting, levels),
        now_ms=visit.parts.clock.now_ms(),
        most=MOST_COUNTED,
    )


async def _waiting(visit: Visit, topic: str) -> Waiting:
    timed, limit = visit.admin.timed_messages, visit.parts.clock.now_ms() + _HOUR_MS
    histogram = await timed.histogram(topic or None, most=MOST_COUNTED)
    rows = [message async for message in timed.pending(topic or None, most=MOST_SHOWN)]
    rows.sort(key=lambda message: message.due_ms)
    upto = [
        count for place, count in enumerate(histogram.counts) if histogram.start_ms + place * histogram.step_ms < limit
    ]
    return Waiting(histogram=histogram, rows=tuple(rows[:MOST_SHOWN]), soon=sum(upto))


async def _levels(visit: Visit) -> tuple[LevelLoad, ...]:
    try:
        return await visit.admin.timed_messages.levels()
    except AccessDenied:  # an account without the right to ask brokers about themselves
        return ()


def _next_due(waiting: Waiting | None, levels: Sequence[LevelLoad]) -> tuple[int, str] | None:
    """Return when the next message is due, and its topic."""
    found = [(load.next_due_ms, load.next_topic) for load in levels if load.next_due_ms is not None]
    found += [(row.due_ms, row.topic) for row in (waiting.rows if waiting else ())[:1]]
    return min(found, default=None)


async def cancel(visit: Visit) -> Response:
    """Cancel a message before it is delivered."""
    message_id, topic = visit.path["message_id"], visit.form.text("topic")
    brokers = await visit.admin.timed_messages.cancel(message_id, topic)
    visit.describe("cancel delayed message", message_id, before={"topic": topic, "brokers": brokers})
    if not brokers:
        raise NotFound(visit.t("No such message waits any more: it was delivered or canceled."))
    return visit.redirect("/delays", visit.t("Canceled {id}: it will not be delivered.", id=message_id))


ROUTES: Final = (
    Route("GET", "/delays", UserRole.VIEWER_WITHOUT_BODIES, delays, live=True),
    Route("POST", "/delays/{message_id}/cancel", UserRole.OPERATOR, cancel),
)
