"""Pace: no more than so many messages a second, evenly spread."""

from __future__ import annotations

from pyromq.clock import Clock

_CREDIT = 0.02  # seconds that a late caller may catch up: 2 % more in any one second, but the rate holds on the whole


class RateLimit:
    """Lets messages pass at a rate."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._interval = 1 / rate
        self._clock = clock
        self._due = clock.now()

    async def turn(self) -> None:
        """Wait until the next message may pass; one caller at a time."""
        now = self._clock.now()
        self._due = max(self._due, now - _CREDIT)
        if self._due > now:
            await self._clock.sleep(self._due - now)

    def passed(self, count: int) -> None:
        """Note that so many messages went."""
        self._due += count * self._interval
