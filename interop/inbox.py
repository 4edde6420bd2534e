"""A listener for our push consumers that keeps the messages it receives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pyromq import MessageExt

Answer = Callable[[MessageExt], Exception | None]


class Inbox:
    """Collects messages; `answer` returns what to raise for each, `reply` what to answer to a request."""

    def __init__(self, answer: Answer = lambda message: None, reply: bytes | None = None) -> None:
        self._answer = answer
        self._reply = reply
        self._messages: asyncio.Queue[MessageExt] = asyncio.Queue()

    async def __call__(self, message: MessageExt) -> None:
        self._messages.put_nowait(message)
        if self._reply is not None and "CORRELATION_ID" in message.properties:
            await message.reply(self._reply)
        if (failure := self._answer(message)) is not None:
            raise failure

    async def take(self, count: int, seconds: float = 30.0) -> list[MessageExt]:
        """Wait for `count` messages."""
        taken: list[MessageExt] = []
        try:
            async with asyncio.timeout(seconds):
                while len(taken) < count:
                    taken.append(await self._messages.get())
        except TimeoutError:
            raise AssertionError(f"only {len(taken)} of {count} messages came") from None
        return taken

    async def take_all(self, bodies: set[bytes], seconds: float = 30.0) -> None:
        """Wait until all of these have arrived; repeats are allowed."""
        missing = set(bodies)
        async with asyncio.timeout(seconds):
            while missing:
                missing.discard((await self._messages.get()).body)

    async def rest(self, seconds: float = 1.0) -> list[MessageExt]:
        """Return what arrives within a time in which nothing should."""
        await asyncio.sleep(seconds)
        return [self._messages.get_nowait() for _ in range(self._messages.qsize())]
