"""LiveHub: renders the pages that are open, once a snapshot, and sends what changed to all browsers that show them.

The cost is that of the different pages, not of the browsers: a hundred people at the overview cost what one does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Final

from pyromq.clock import Clock
from pyromq.console.live.events import Stream, event
from pyromq.console.reading.reader import SnapshotReader
from pyromq.errors import PyroMQError

logger = logging.getLogger(__name__)

MOST_STREAMS: Final = 1000
_ROOM: Final = 2  # each event holds the whole page: a slow browser needs only the last


class View:
    """One page that somebody looks at."""

    def __init__(self, render: Callable[[], Awaitable[str]]) -> None:
        self.render = render
        self.streams: set[Stream] = set()
        self.shown = ""


class LiveHub:
    """All pages that are open."""

    def __init__(self, reader: SnapshotReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._views: dict[Hashable, View] = {}
        self._task: asyncio.Task[None] | None = None
        self._others: set[Stream] = set()
        self._closed = False
        self.renders = 0
        """How many pages were rendered for open browsers."""

    @property
    def count(self) -> int:
        """The number of open streams."""
        return sum(len(view.streams) for view in self._views.values()) + len(self._others)

    @property
    def is_full(self) -> bool:
        """Whether no more streams are taken."""
        return self._closed or self.count >= MOST_STREAMS

    async def follow(self, key: Hashable, render: Callable[[], Awaitable[str]]) -> AsyncIterator[bytes]:
        """Yield events of a page while a browser shows it; pages with the same key are rendered once for all."""
        view = self._views.setdefault(key, View(render))
        stream = Stream(_ROOM)
        view.streams.add(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            yield event("hello", "")
            async for data in stream.events():
                yield data
        finally:
            view.streams.discard(stream)
            if not view.streams and self._views.get(key) is view:
                del self._views[key]

    async def pass_on(self, stream: Stream) -> AsyncIterator[bytes]:
        """Yield the events of a stream that somebody else fills, and end it with the hub."""
        self._others.add(stream)
        try:
            yield event("hello", "")
            async for data in stream.events():
                yield data
        finally:
            self._others.discard(stream)

    async def close(self) -> None:
        """End all streams, and take no more."""
        self._closed = True
        for stream in [*self._others, *(stream for view in self._views.values() for stream in view.streams)]:
            stream.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._views:
            await self._clock.sleep(self._reader.period)
            snapshot = await self._reader.get(self._reader.period / 2)
            tick = event("tick", f"{self._reader.age(snapshot):.1f}")
            for view in list(self._views.values()):
                await self._refresh(view, tick)

    async def _refresh(self, view: View, tick: bytes) -> None:
        try:
            html = await view.render()
        except PyroMQError as error:
            logger.info("a live page cannot be rendered: %s", error)
            return
        except Exception:
            logger.exception("a live page cannot be rendered")
            return
        self.renders += 1
        data = tick if html == view.shown else event("page", html) + tick
        view.shown = html
        for stream in view.streams:
            stream.send(data)
