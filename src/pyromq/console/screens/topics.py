"""Topics: search, sort, filter, create."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.responses import Response

from pyromq.console.login.roles import UserRole
from pyromq.console.reading.snapshot import TopicRow
from pyromq.console.web.failures import FormError
from pyromq.console.web.listing import Column, Listing
from pyromq.console.web.route import Route
from pyromq.console.web.urls import topic_url
from pyromq.console.web.visit import Visit
from pyromq.protocol.names import MAX_QUEUES

KINDS: Final[dict[str, tuple[str, Callable[[TopicRow], bool]]]] = {
    "normal": ("Normal", lambda row: row.kind == "topic"),
    "retry": ("Retry", lambda row: row.kind == "retry"),
    "dead": ("Dead letters", lambda row: row.kind == "dead letters"),
    "delayed": ("Delayed", lambda row: row.kind == "delayed"),
    "system": ("System", lambda row: row.kind == "system"),
    "all": ("All", lambda row: True),
}
COLUMNS: Final = (
    Column("name", lambda row: row.topic.lower()),
    Column("queues", lambda row: row.read_queues, descending=True),
    Column("rate", lambda row: row.rate or 0.0, descending=True),
    Column("bytes", lambda row: row.byte_rate or 0.0, descending=True),
    Column("groups", lambda row: len(row.groups), descending=True),
)


async def topics(visit: Visit) -> Response:
    """Show all topics of a kind."""
    kind = visit.query.get("kind", "normal")
    kind = kind if kind in KINDS else "normal"
    rows = list(visit.snapshot.topics.values())
    chosen = [row for row in rows if KINDS[kind][1](row)]
    listing = Listing.of(chosen, visit.query, columns=COLUMNS, sort="name", search=lambda row: row.topic)
    counts = {name: sum(map(test, rows)) for name, (_, test) in KINDS.items()}
    return await visit.render(
        "topics.html",
        listing=listing,
        kind=kind,
        kinds=[(name, visit.t(label), counts[name]) for name, (label, _) in KINDS.items()],
        no_rates=visit.unavailable("topic_rates"),
        most_queues=MAX_QUEUES,
    )


async def create(visit: Visit) -> Response:
    """Create a topic."""
    topic = visit.form.required("topic", visit.t("The name"))
    queues = visit.form.number("queues", 8, least=1, most=MAX_QUEUES)
    order, perm = visit.form.flag("order"), visit.form.text("perm", "rw")
    cluster = visit.form.text("cluster") or None
    if perm not in ("rw", "r", "w"):
        raise FormError(visit.t("Choose what the topic allows."))
    visit.describe("create topic", topic)
    made = await visit.admin.topics.create(
        topic, cluster=cluster, read_queues=queues, write_queues=queues, perm=perm, order=order
    )
    visit.describe("create topic", topic, after={broker: config.read_queue_nums for broker, config in made.items()})
    notice = visit.t("Created {topic} on {brokers}.", topic=topic, brokers=", ".join(made))
    return visit.redirect(topic_url(topic), notice)


ROUTES: Final = (
    Route("GET", "/topics", UserRole.VIEWER_WITHOUT_BODIES, topics, live=True),
    Route("POST", "/topics", UserRole.OPERATOR, create),
)
