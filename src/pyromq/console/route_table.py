"""The table of all routes of the console. A new screen is one line here, and a line in web/navigation.py."""

from __future__ import annotations

from typing import Final

from pyromq.console.screens import login, overview
from pyromq.console.web.route import Route

ROUTES: Final[tuple[Route, ...]] = (
    *login.ROUTES,
    *overview.ROUTES,
)
