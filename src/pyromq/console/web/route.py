"""Route: one row of the table of routes. No route without a role."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from starlette.responses import Response

from pyromq.console.login.roles import UserRole

if TYPE_CHECKING:
    from pyromq.console.web.visit import Visit

Handler: TypeAlias = "Callable[[Visit], Awaitable[Response]]"


class Route(NamedTuple):
    """Who may ask for what, and who answers."""

    method: str
    """GET shows, POST changes."""
    path: str
    role: UserRole
    """The first role that may; those above it may too."""
    handler: Handler
    live: bool = False
    """Whether open browsers get the page anew with each snapshot."""
    own_csrf: bool = False
    """Whether the handler works before there is a session, as the login does."""
