"""What the slaves have: whether a send may be acknowledged."""

from __future__ import annotations

from pyromq.broker.messages.durability import Copies
from pyromq.broker.replication.ha_server import HaServer
from pyromq.broker.signals import Signal


class AnySlave:
    """RocketMQ's SYNC_MASTER: one slave is enough, whichever it is."""

    def __init__(self, server: HaServer, fall_behind: int) -> None:
        """`fall_behind` is how many bytes may be missing at a slave that is waited for."""
        self._server = server
        self._fall_behind = fall_behind

    @property
    def changed(self) -> Signal[[]]:
        """A slave has confirmed more, has come or has gone."""
        return self._server.changed

    @property
    def is_fenced(self) -> bool:
        """Whether another broker may be master by now; without failover only an operator knows."""
        return False

    def copies(self, end: int) -> Copies:
        """Return whether a slave has the log up to an end."""
        furthest = max((link.acknowledged for link in self._server.links if link.position is not None), default=-1)
        if furthest >= end:
            return Copies.COMPLETE
        return Copies.PENDING if furthest >= 0 and end - furthest < self._fall_behind else Copies.MISSING
