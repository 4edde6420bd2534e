"""Ticker: counts time in ticks. It needs one timer for everything that waits, and none while nothing waits."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyromq.clock import Clock, TimerHandle

logger = logging.getLogger(__name__)


class Ticker:
    """Call `sweep` every `interval` seconds until it returns False. Call `start` again when there is new work.

    Ages are counted in ticks, not read from the clock, so setting the machine's time does not end a request.
    """

    def __init__(self, clock: Clock, interval: float, sweep: Callable[[], bool]) -> None:
        self.count = 0
        self._clock = clock
        self._interval = interval
        self._sweep = sweep
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Start to tick, unless it already does."""
        if self._timer is None:
            self._timer = self._clock.call_later(self._interval, self._tick)

    def stop(self) -> None:
        """Stop ticking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        self.count += 1
        try:
            goes_on = self._sweep()
        except Exception:  # else nothing would ever time out again
            logger.exception("a sweep failed")
            goes_on = True
        if goes_on:
            self.start()
