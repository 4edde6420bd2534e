"""Messages: find them by id, key, time, tag, property and body, within a budget; larger searches go to Spark."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pyromq.console.login.roles import UserRole
from pyromq.console.screens.messages.message_search import BUDGET, ENOUGH, SearchResult, SearchWish, moment, run_search
from pyromq.console.web.failures import FormError, Refused
from pyromq.console.web.route import Route
from pyromq.console.web.urls import message_url
from pyromq.console.web.visit import Visit
from pyromq.errors import ClientError, LocalProtocolError, TopicNotFound
from pyromq.pipelines.jobs.jobs import why_unavailable

_MOST_NAMES: Final = 300


async def messages(visit: Visit) -> Response:
    """Show the form, and what it finds."""
    query = visit.query
    if message_id := query.get("id", "").strip():
        return await _by_id(visit, message_id, query.get("topic", "").strip())
    wish = SearchWish.of(query)
    result: SearchResult | None = None
    problem = ""
    if wish.topic:
        try:
            result = await run_search(visit, wish)
        except (LocalProtocolError, ClientError, TopicNotFound, FormError) as error:
            problem = str(error)
    return await visit.render(
        "messages.html",
        status=422 if problem else 200,
        wish=wish,
        result=result,
        problem=problem,
        budget=BUDGET,
        enough=ENOUGH,
        names=sorted(name for name, row in visit.snapshot.topics.items() if row.kind == "topic")[:_MOST_NAMES],
        no_spark=_why_no_spark(visit, wish),
    )


async def _by_id(visit: Visit, message_id: str, topic: str) -> Response:
    found = await visit.admin.messages.get(message_id, topic or None)
    return visit.redirect(message_url(found.topic, message_id))


def _why_no_spark(visit: Visit, wish: SearchWish) -> str:
    """Return why this search cannot become a job; empty if it can."""
    if why := why_unavailable():
        return visit.t(why)
    if visit.bodies.masks.of_topics([wish.topic]) and wish.where:
        return visit.t("Fields of this topic are masked: a job would see them")
    return ""


async def search_with_spark(visit: Visit) -> Response:
    """Start a job that looks at all messages of a topic."""
    form = visit.form
    topic = form.required("topic", visit.t("Topic"))
    wish = SearchWish(topic=topic, where=form.text("where"))
    if why := _why_no_spark(visit, wish):
        raise Refused(why)
    for name in ("since", "until"):
        moment(form.text(name), visit)
    options = {"topics": topic, **{name: form.text(name) for name in ("where", "since", "until")}}
    job = visit.parts.pipelines().start(
        "find", options | {"most": form.number("most", 1000, least=1, most=100_000)}, visit.user.name
    )
    visit.describe("search with Spark", topic, after=options)
    return visit.redirect(f"/pipelines/{job.id}", visit.t("The search runs as a job of its own."))


ROUTES: Final = (
    Route("GET", "/messages", UserRole.VIEWER_WITHOUT_BODIES, messages),
    Route("POST", "/messages/spark", UserRole.ADMIN, search_with_spark),
)
