"""HeldRequests: what writes, kept for the moment in which no broker may take it."""

from __future__ import annotations

from typing import Final

from pyromq.errors import ServiceNotAvailable
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection

_MOST: Final = 20_000
"""Requests that are held; more are refused at once, and their senders try again."""


class HeldRequests:
    """Keeps requests unanswered until `serve` passes them to whatever handles them then, in their order.

    A sender that is refused at once would have used up its attempts before another broker is master.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[RemotingCommand, Connection]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, request: RemotingCommand, connection: Connection) -> None:
        """Keep a request; a handler."""
        if len(self._waiting) >= _MOST:
            raise ServiceNotAvailable("this broker hands over to another one: send again")
        self._waiting.append((request, connection))

    def serve(self) -> None:
        """Have all of them handled now."""
        waiting, self._waiting = self._waiting, []
        for request, connection in waiting:
            if not connection.closed:
                connection.serve_again(request)
