"""The live tail of a topic: new messages as they come, filtered by tag, SQL and body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from starlette.responses import Response

from pyromq.admin.messages.search import SearchFilter
from pyromq.console.live.events import event, event_response
from pyromq.console.live.tails import MOST_TAILS, Filter
from pyromq.console.login.roles import UserRole
from pyromq.console.web.failures import NotFound, WebError
from pyromq.console.web.route import Route
from pyromq.console.web.templating import render
from pyromq.console.web.visit import Visit
from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import MessageExt


async def tail(visit: Visit) -> Response:
    """Show the page, which then follows the topic."""
    topic = visit.path["topic"]
    if not visit.user.sees_topic(topic):
        raise NotFound(visit.t("No broker has the topic {topic}.", topic=topic))
    asked = {name: visit.query.get(name, "") for name in ("tags", "where", "contains")}
    return await visit.render("topic_tail.html", tab="tail", topic=topic, asked=asked)


async def events(visit: Visit) -> Response:
    """Send new messages; a wrong filter is the only event then."""
    try:
        wanted = _filter(visit)
        if visit.parts.hub.is_full or visit.parts.tails.count >= MOST_TAILS:
            raise WebError(visit.t("Too many tails are open."))
        api = visit.admin.api
    except PyroMQError as error:
        return event_response(_only(event("end", str(error))))
    followed = visit.parts.tails.follow(api, visit.path["topic"], wanted, visit.parts.hub.pass_on)
    return event_response(followed)


def _filter(visit: Visit) -> Filter:
    tags, where, contains = (visit.query.get(name, "").strip() for name in ("tags", "where", "contains"))
    bodies, t, account = visit.bodies, visit.t, visit.user.account
    chosen = SearchFilter(
        tags=tags or None, where=where or None, contains=contains.encode() if contains else None
    ).prepare(bodies.seen)

    def rows(messages: Sequence[MessageExt]) -> str:
        shown = [(message, bodies.render(message)) for message in messages]
        return render("tail_rows.html", {"t": t, "rows": shown})

    def status(seen: int, skipped: int) -> str:
        if skipped:
            return t(
                "{seen} messages since you began, {skipped} of them not shown", seen=f"{seen:,}", skipped=f"{skipped:,}"
            )
        return t("{seen} messages since you began", seen=f"{seen:,}")

    who = None if account is None else account.access_key
    return Filter((tags, where, contains, t.language, bodies.shows_bodies, who), chosen, rows, status)


async def _only(data: bytes) -> AsyncIterator[bytes]:
    yield data


ROUTES: Final = (
    Route("GET", "/topics/{topic}/tail", UserRole.VIEWER, tail),
    Route("GET", "/topics/{topic}/tail/events", UserRole.VIEWER, events),
)
