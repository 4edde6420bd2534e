"""Overview: what is wrong first, then rates, lag, disks and brokers."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from starlette.responses import Response

from pyromq.admin.clusters import BrokerStatus
from pyromq.admin.health.overview import BrokerLoad
from pyromq.console.login.roles import UserRole
from pyromq.console.reading.forecast import seconds_until_full
from pyromq.console.reading.problems import find_trouble
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit

TOP: Final = 5


class BrokerRow(Struct, frozen=True):
    """A broker on the page."""

    status: BrokerStatus
    load: BrokerLoad | None
    full_in: float | None
    """Seconds until its disk is full, as it fills now."""


async def overview(visit: Visit) -> Response:
    """Show the cluster."""
    snapshot, history = visit.snapshot, visit.history
    groups = [group for group in snapshot.groups.values() if not group.is_built_in]
    topics = [topic for topic in snapshot.topics.values() if topic.kind == "topic"]
    rows = [
        BrokerRow(
            status,
            snapshot.loads.get(status.name) if status.is_master else None,
            seconds_until_full(history.points(f"broker/{status.name}/disk", long=True)) if status.is_master else None,
        )
        for status in snapshot.brokers
    ]
    long = visit.query.get("span") == "long"
    return await visit.render(
        "overview.html",
        troubles=find_trouble(snapshot, history),
        brokers=rows,
        long=long,
        rates={name: history.points(name, long=long) for name in ("in", "out")},
        lag=history.points("lag", long=long),
        disks=[load.disk_percent for load in snapshot.loads.values() if load.disk_percent is not None],
        full_in=min((row.full_in for row in rows if row.full_in is not None), default=None),
        busiest=sorted((each for each in topics if each.rate), key=lambda each: -(each.rate or 0.0))[:TOP],
        slowest=sorted((each for each in groups if each.lag), key=lambda each: -each.lag)[:TOP],
        topics=len(topics),
        groups=len(groups),
        members=sum(group.members for group in groups),
    )


ROUTES: Final = (Route("GET", "/", UserRole.VIEWER_WITHOUT_BODIES, overview, live=True),)
