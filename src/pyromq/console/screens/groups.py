"""Groups: search, sort, filter, create."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.responses import Response

from pyromq.admin.health.overview import GroupLoad
from pyromq.console.login.roles import UserRole
from pyromq.console.web.listing import Column, Listing
from pyromq.console.web.route import Route
from pyromq.console.web.urls import group_url
from pyromq.console.web.visit import Visit

KINDS: Final[dict[str, tuple[str, Callable[[GroupLoad], bool]]]] = {
    "own": ("Your groups", lambda group: not group.is_built_in),
    "waiting": ("With messages waiting", lambda group: not group.is_built_in and group.lag > 0),
    "offline": ("Offline", lambda group: not group.is_built_in and not group.members),
    "dead": ("With dead letters", lambda group: group.dead_letters > 0),
    "system": ("System", lambda group: group.is_built_in),
}
COLUMNS: Final = (
    Column("name", lambda group: group.group.lower()),
    Column("members", lambda group: group.members, descending=True),
    Column("lag", lambda group: group.lag, descending=True),
    Column("behind", lambda group: group.behind or 0.0, descending=True),
    Column("rate", lambda group: group.rate, descending=True),
    Column("dead", lambda group: group.dead_letters, descending=True),
)


async def groups(visit: Visit) -> Response:
    """Show all groups of a kind."""
    kind = visit.query.get("kind", "own")
    kind = kind if kind in KINDS else "own"
    rows = list(visit.snapshot.groups.values())
    chosen = [row for row in rows if KINDS[kind][1](row)]
    listing = Listing.of(
        chosen, visit.query, columns=COLUMNS, sort="name", search=lambda row: f"{row.group} {' '.join(row.topics)}"
    )
    counts = {name: sum(map(test, rows)) for name, (_, test) in KINDS.items()}
    return await visit.render(
        "groups.html",
        listing=listing,
        kind=kind,
        kinds=[(name, visit.t(label), counts[name]) for name, (label, _) in KINDS.items()],
    )


async def create(visit: Visit) -> Response:
    """Create a group before its first member is there."""
    group = visit.form.required("group", visit.t("The name"))
    tries = visit.form.number("retry_max_times", 16, least=0, most=1000)
    visit.describe("create group", group, after={"retry_max_times": tries})
    made = await visit.admin.groups.set(group, {"retry_max_times": tries})
    notice = visit.t("Created {group} on {brokers}.", group=group, brokers=", ".join(made))
    return visit.redirect(group_url(group), notice)


ROUTES: Final = (
    Route("GET", "/groups", UserRole.VIEWER_WITHOUT_BODIES, groups, live=True),
    Route("POST", "/groups", UserRole.OPERATOR, create),
)
