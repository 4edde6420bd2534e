"""IdleWatch: finds connections that have gone silent or never finish a frame."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Protocol

from pyromq.clock import Clock
from pyromq.remoting.ticker import Ticker

AT_A_TIME = 1000


class WatchedConnection(Protocol):
    """What the watch needs of a connection."""

    silent_ticks: int
    frame_ticks: int
    unproven_ticks: int

    def age(self) -> None:
        """Count one more tick; start again if bytes moved since the last one."""

    def abort(self, reason: str, level: int = ..., *, cause: str = ...) -> None:
        """Drop the connection, with one line in the log, and count the cause."""


class IdleWatch:
    """Close connections without traffic (after 120 s, as RocketMQ) and those that send a frame too slowly.

    With an `unproven_timeout`, close also those that have not proven in time who they are.
    """

    def __init__(
        self, clock: Clock, idle_timeout: float, frame_timeout: float, unproven_timeout: float | None = None
    ) -> None:
        interval = min(1.0, idle_timeout / 4, frame_timeout / 4)
        self._unproven_timeout = unproven_timeout
        self._unproven_ticks = math.inf if unproven_timeout is None else math.ceil(unproven_timeout / interval)
        self._idle_timeout = idle_timeout
        self._frame_timeout = frame_timeout
        self._idle_ticks = math.ceil(idle_timeout / interval)
        self._frame_ticks = math.ceil(frame_timeout / interval)
        self._connections: set[WatchedConnection] = set()
        self._left: list[WatchedConnection] = []
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
        self._left.clear()

    def _sweep(self) -> bool:
        if not self._left:  # else a very busy loop is still at the last sweep
            self._left = list(self._connections)
            self._go_on()
        return bool(self._connections)

    def _go_on(self) -> None:
        """Look at some connections, and at the others in the next passes of the loop: ten thousand take 30 ms."""
        some, self._left = self._left[:AT_A_TIME], self._left[AT_A_TIME:]
        for connection in some:
            if connection in self._connections:
                self._look_at(connection)
        if self._left:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _look_at(self, connection: WatchedConnection) -> None:
        connection.age()
        if connection.silent_ticks > self._idle_ticks:
            connection.abort(f"no traffic for {self._idle_timeout:g} s", logging.INFO, cause="idle")
        elif connection.frame_ticks > self._frame_ticks:
            connection.abort(f"a frame took longer than {self._frame_timeout:g} s", cause="slow_frame")
        elif connection.unproven_ticks > self._unproven_ticks:
            text = f"no request of a valid account within {self._unproven_timeout:g} s"
            connection.abort(text, logging.INFO, cause="unsigned")
