"""The table of all routes of the console. A new screen is one line here, and a line in web/navigation.py."""

from __future__ import annotations

from typing import Final

from pyromq.console.screens import (
    access,
    audit,
    clients,
    configuration,
    group,
    groups,
    login,
    overview,
    pipelines,
    search,
    tail,
    topic,
    topics,
)
from pyromq.console.screens.messages import dead_letters, delays, message, messages, transactions
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
    *messages.ROUTES,
    *message.ROUTES,
    *dead_letters.ROUTES,
    *delays.ROUTES,
    *transactions.ROUTES,
    *clients.ROUTES,
    *pipelines.ROUTES,
    *configuration.ROUTES,
    *access.ROUTES,
    *audit.ROUTES,
)
