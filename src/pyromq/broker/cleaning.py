"""Has the store cleaned again and again, a little at a time, so that no send waits for it."""

from __future__ import annotations

import asyncio

from pyromq.clock import Clock
from pyromq.remoting.ticker import Ticker
from pyromq.store.retention.cleaner import Cleaner


class Cleaning:
    """A pass over disk and log every so often; the queues follow in small steps between other work of the loop."""

    def __init__(self, cleaner: Cleaner, clock: Clock, period: float) -> None:
        self._cleaner = cleaner
        self._ticker = Ticker(clock, period, self._tick)
        self._step: asyncio.Handle | None = None

    def start(self) -> None:
        """Begin; the first pass comes after one period."""
        self._ticker.start()

    def stop(self) -> None:
        """Make no more passes."""
        self._ticker.stop()
        if self._step is not None:
            self._step.cancel()

    def delete_soon(self) -> None:
        """Remove expired files now and in the passes to come, whatever the hour."""
        self._cleaner.delete_soon()
        self._follow()

    def _tick(self) -> bool:
        self._cleaner.run()
        self._follow()
        return True

    def _follow(self) -> None:
        if self._step is None:
            self._go_on()

    def _go_on(self) -> None:
        more = self._cleaner.go_on()
        self._step = asyncio.get_running_loop().call_soon(self._go_on) if more else None
