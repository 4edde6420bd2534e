"""The queues a consumer has now: their buffers, the loops that fill them, and taking messages out in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

from pyromq.client.process_queue import ProcessQueue
from pyromq.client.pull_loop import PullLoop
from pyromq.errors import ClientError
from pyromq.protocol.message import MessageExt, MessageQueue


class Assignment:
    """Hands out what the loops pulled: in order within a queue, in turn among queues."""

    def __init__(
        self, new_loop: Callable[[ProcessQueue], PullLoop], release: Callable[[ProcessQueue], Awaitable[None]]
    ) -> None:
        self.arrival = asyncio.Event()
        """Set while there is something to take."""
        self._new_loop = new_loop
        self._release = release
        self._loops: dict[MessageQueue, PullLoop] = {}
        self._ready: dict[ProcessQueue, None] = {}
        self._handed_out: dict[ProcessQueue, None] = {}

    def __iter__(self) -> Iterator[ProcessQueue]:
        return (loop.held for loop in self._loops.values())

    def __contains__(self, queue: MessageQueue) -> bool:
        return queue in self._loops

    def loop(self, queue: MessageQueue) -> PullLoop:
        """Return the loop of an assigned queue."""
        try:
            return self._loops[queue]
        except KeyError:
            raise ClientError(f"{queue} is not assigned to this consumer") from None

    # --- queues come and go ------------------------------------------------------------------------------------------

    async def replace(self, queues: Iterable[MessageQueue], topic: str | None = None) -> None:
        """Give up the queues, of one topic or of all, that are not among these, then take up the new ones."""
        wanted = set(queues)
        for queue in [queue for queue in self._loops if topic in (None, queue.topic)]:
            if queue not in wanted:
                await self._drop(queue)
        for queue in sorted(wanted - self._loops.keys()):
            loop = self._loops[queue] = self._new_loop(ProcessQueue(queue))
            loop.start()

    async def stop(self) -> None:
        """End all loops and hand out nothing more; wake whoever waits for messages."""
        self._ready.clear()
        self.arrival.set()
        for loop in self._loops.values():
            await loop.stop()

    async def _drop(self, queue: MessageQueue) -> None:
        loop = self._loops.pop(queue)
        loop.held.dropped = True  # from here on nothing of it is handed out, whatever happens below
        self._ready.pop(loop.held, None)
        self._handed_out.pop(loop.held, None)
        await loop.stop()
        await self._release(loop.held)

    # --- messages ----------------------------------------------------------------------------------------------------

    def note_messages(self, held: ProcessQueue) -> None:
        """Hear that a queue has something to hand out."""
        if held.ready:
            self._ready[held] = None
            self.arrival.set()

    def take(self, most: int) -> list[MessageExt]:
        """Hand out up to so many messages of the queues whose turn it is."""
        messages: list[MessageExt] = []
        while self._ready and len(messages) < most:
            held = next(iter(self._ready))
            del self._ready[held]
            if held.ready:
                messages += held.take(most - len(messages))
                self._handed_out[held] = None
                self._loops[held.queue].wake()
            if held.ready:
                self._ready[held] = None  # to the end of the line
        if not self._ready:
            self.arrival.clear()
        return messages

    def settle(self) -> None:
        """Note that the caller is done with all that was handed out."""
        for held in self._handed_out:
            held.settle()
        self._handed_out.clear()
