"""Deadlines of all outstanding requests of a server or client, swept by one timer.

A timer for each request costs 4 µs of the client's 14 µs a message (measured with 32 in flight).
"""

from __future__ import annotations

import math
from typing import Protocol

from pyromq.clock import Clock
from pyromq.remoting.ticker import Ticker

TICK = 0.05


class Waiting(Protocol):
    """Someone with outstanding requests."""

    def expire(self, tick: int) -> bool:
        """End the requests whose deadline is `tick` or earlier; return whether any request is still outstanding."""


class Deadlines:
    """Tell each waiting connection when to give up: never early, and late by at most two ticks."""

    def __init__(self, clock: Clock) -> None:
        self._waiting: set[Waiting] = set()
        self._ticker = Ticker(clock, TICK, self._sweep)

    def watch(self, waiting: Waiting) -> None:
        """Let `waiting` hear of every tick, until it says that it has nothing outstanding."""
        self._waiting.add(waiting)
        self._ticker.start()

    def after(self, timeout: float) -> int:
        """Return the tick at which `timeout` seconds have surely passed."""
        return self._ticker.count + math.ceil(timeout / TICK) + 1

    def stop(self) -> None:
        """Sweep no more."""
        self._ticker.stop()
        self._waiting.clear()

    def _sweep(self) -> bool:
        tick = self._ticker.count
        self._waiting = {waiting for waiting in self._waiting if waiting.expire(tick)}
        return bool(self._waiting)
