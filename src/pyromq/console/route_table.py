"""The table of all routes of the console. A new screen is one line here, and a line in web/navigation.py."""

from __future__ import annotations

from typing import Final

from pyromq.console.screens import group, groups, login, overview, search, tail, topic, topics
from pyromq.console.web.route import Route

ROUTES: Final[tuple[Route, ...]] = (
    *login.ROUTES,
    *overview.ROUTES,
    *topics.ROUTES,
    *topic.ROUTES,
    *tail.ROUTES,
    *groups.ROUTES,
    *group.ROUTES,
    *search.ROUTES,
)
