"""Streams of server-sent events to browsers. A slow browser misses events; it never holds up others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse

KEEP_ALIVE: Final = 20.0
"""Seconds without an event after which a comment is sent, so that proxies keep the connection open."""


def event(name: str, data: str) -> bytes:
    """Return one event; data may have many lines."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()


class Stream:
    """The events that one browser has not yet received."""

    def __init__(self, room: int) -> None:
        self._waiting: deque[bytes] = deque(maxlen=room)
        self._arrived = asyncio.Event()
        self._closed = False
        self.missed = 0
        """Events that were dropped because the browser was too slow."""

    def send(self, data: bytes) -> None:
        """Add an event; if there is no room, the oldest goes."""
        if len(self._waiting) == self._waiting.maxlen:
            self.missed += 1
        self._waiting.append(data)
        self._arrived.set()

    def close(self) -> None:
        """End the stream when what waits was sent."""
        self._closed = True
        self._arrived.set()

    async def events(self) -> AsyncIterator[bytes]:
        """Yield events until the stream is closed."""
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._closed:
                return
            self._arrived.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE):
                    await self._arrived.wait()
            except TimeoutError:
                yield b": still here\n\n"


def event_response(events: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the response of a stream."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
