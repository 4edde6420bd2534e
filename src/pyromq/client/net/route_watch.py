"""RouteWatch: asks for a route at once when a broker fails, and never more often than a name server should bear."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from pyromq.clock import Clock
from pyromq.errors import PyroMQError

LONGEST_PAUSE: Final = 0.5
_PAUSES: Final = (0.1, 0.2, LONGEST_PAUSE)
_CALM: Final = 5.0  # after that long without a failure the next look-up is made at once again


class _Watched(Struct):
    looks: int = 0
    looked_at: float = 0.0
    task: asyncio.Task[None] | None = None


class RouteWatch:
    """One look-up at a time for each broker name, shared by all who wait, with pauses that grow to half a second."""

    def __init__(self, refresh: Callable[[str], Awaitable[object]], clock: Clock) -> None:
        self._refresh = refresh
        self._clock = clock
        self._watched: dict[str, _Watched] = {}

    async def look(self, topic: str, broker_name: str) -> None:
        """Ask a name server where a broker is now, after a pause if that was asked a moment ago."""
        watched = self._of(broker_name)
        if watched.task is None:
            watched.task = asyncio.get_running_loop().create_task(self._look(watched, topic))
        await asyncio.shield(watched.task)  # whoever gives up must not end it for the others

    def is_calm(self, broker_name: str) -> bool:
        """Return True if a look-up would be made at once."""
        watched = self._of(broker_name)
        return watched.task is None and self._pause(watched) <= 0

    def _of(self, broker_name: str) -> _Watched:
        watched = self._watched.setdefault(broker_name, _Watched())
        if watched.task is None and self._clock.monotonic() - watched.looked_at > _CALM:
            watched.looks = 0
        return watched

    def _pause(self, watched: _Watched) -> float:
        if not watched.looks:
            return 0.0
        pause = _PAUSES[min(watched.looks, len(_PAUSES)) - 1]
        return watched.looked_at + pause - self._clock.monotonic()

    async def _look(self, watched: _Watched, topic: str) -> None:
        try:
            pause = self._pause(watched)
            if pause > 0:
                await self._clock.sleep(pause)
            with suppress(PyroMQError):  # name servers may be away too: then what is known has to do
                await self._refresh(topic)
        finally:
            watched.looks += 1
            watched.looked_at = self._clock.monotonic()
            watched.task = None
