"""RateLimit: at most a given number of messages per second, evenly spread."""

from __future__ import annotations

from pyromq.clock import Clock

_CREDIT = 0.02  # seconds that a late caller may catch up: up to 2 % more in one second, but not on average


class RateLimit:
    """Limits messages to a rate."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._interval = 1 / rate
        self._clock = clock
        self._due = clock.monotonic()

    async def wait(self) -> None:
        """Wait until the next message may be processed; one caller at a time."""
        now = self._clock.monotonic()
        self._due = max(self._due, now - _CREDIT)
        if self._due > now:
            await self._clock.sleep(self._due - now)

    def count(self, messages: int) -> None:
        """Note that so many messages were processed."""
        self._due += messages * self._interval
