"""Search over all topics and groups, from the box at the top of every page."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pyromq.console.login.roles import UserRole
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit

MOST: Final = 12


async def search(visit: Visit) -> Response:
    """Show the topics and groups whose names hold all words, those that begin so first."""
    words = visit.query.get("q", "").lower().split()[:10]

    def best(names: list[str]) -> list[str]:
        found = [name for name in names if words and all(word in name.lower() for word in words)]
        return sorted(found, key=lambda name: (not name.lower().startswith(words[0]), len(name), name))[:MOST]

    topics = best(list(visit.snapshot.topics))
    groups = best(list(visit.snapshot.groups))
    return await visit.render("search.html", q=visit.query.get("q", ""), found_topics=topics, found_groups=groups)


ROUTES: Final = (Route("GET", "/search", UserRole.VIEWER_WITHOUT_BODIES, search),)
