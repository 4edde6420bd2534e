"""Watched: the servers of this process that pages tell about. Pages are there before the servers are, and after."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pyromq.broker.server import Broker
from pyromq.namesrv.server import NameServer

STARTING: Final = "it is starting"
STOPPING: Final = "it is stopping"


class Watched:
    """What runs in this process at the moment."""

    def __init__(self) -> None:
        self.name_server: NameServer | None = None
        self.brokers: list[Broker] = []
        self.pause = STARTING
        """Why nothing is served at the moment; empty while something is."""

    def problems(self) -> list[dict[str, Any]]:
        """Return what is wrong with the servers at the moment."""
        watches = [(broker.address, broker.health.watch) for broker in self.brokers]
        if self.name_server is not None:
            watches.insert(0, (self.name_server.address, self.name_server.watch))
        return [
            {"server": address, **problem._asdict(), "since_seconds": round(watch.seconds(problem.cause), 1)}
            for address, watch in watches
            for problem in watch.look()
        ]

    def reasons_not_ready(self) -> dict[str, str]:
        """Return why clients are not served, by server; empty if all are.

        A master has to take messages. A slave takes none by its nature, and is ready while its store works.
        """
        if self.pause:
            return {"server": self.pause}
        found = {broker.address: broker.health.refusal() for broker in self.brokers}
        return {address: str(problem) for address, problem in found.items() if problem is not None}

    def run(self, name_server: NameServer | None, brokers: Iterable[Broker] = ()) -> None:
        """Show these servers, which are at work."""
        self.name_server = name_server
        self.brokers = list(brokers)
        self.pause = ""

    def stop(self) -> None:
        """Show nothing any more: the servers are about to be closed."""
        self.name_server = None
        self.brokers = []
        self.pause = STOPPING
