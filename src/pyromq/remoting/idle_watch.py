"""IdleWatch: finds connections that have gone silent or never finish a frame."""

from __future__ import annotations

import logging
import math
from typing import Protocol

from pyromq.clock import Clock
from pyromq.remoting.ticker import Ticker


class WatchedConnection(Protocol):
    """What the watch needs of a connection."""

    silent_ticks: int
    frame_ticks: int

    def age(self) -> None:
        """Count one more tick; start again if bytes moved since the last one."""

    def abort(self, reason: str, level: int = ...) -> None:
        """Drop the connection, with one line in the log."""


class IdleWatch:
    """Close connections without traffic (after 120 s, as RocketMQ) and those that send a frame too slowly."""

    def __init__(self, clock: Clock, idle_timeout: float, frame_timeout: float) -> None:
        interval = min(1.0, idle_timeout / 4, frame_timeout / 4)
        self._idle_timeout = idle_timeout
        self._frame_timeout = frame_timeout
        self._idle_ticks = math.ceil(idle_timeout / interval)
        self._frame_ticks = math.ceil(frame_timeout / interval)
        self._connections: set[WatchedConnection] = set()
        self._ticker = Ticker(clock, interval, self._sweep)

    def add(self, connection: WatchedConnection) -> None:
        """Start to watch `connection`."""
        self._connections.add(connection)
        self._ticker.start()

    def remove(self, connection: WatchedConnection) -> None:
        """Stop watching `connection`."""
        self._connections.discard(connection)

    def stop(self) -> None:
        """Stop watching all connections."""
        self._ticker.stop()
        self._connections.clear()

    def _sweep(self) -> bool:
        for connection in list(self._connections):
            connection.age()
            if connection.silent_ticks > self._idle_ticks:
                connection.abort(f"no traffic for {self._idle_timeout:g} s", logging.INFO)
            elif connection.frame_ticks > self._frame_ticks:
                connection.abort(f"a frame took longer than {self._frame_timeout:g} s")
        return bool(self._connections)
