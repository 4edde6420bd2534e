"""The queues a consumer has now, and the loops that fill them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.pull_loop import PullLoop
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageQueue

Q = TypeVar("Q", bound=AssignedQueue)


class Assignment(Generic[Q]):
    """Takes queues up and gives them up; `release` does what must be done before somebody else has one."""

    def __init__(
        self, new_loop: Callable[[MessageQueue], PullLoop[Q]], release: Callable[[Q], Awaitable[None]]
    ) -> None:
        self._new_loop = new_loop
        self._release = release
        self._loops: dict[MessageQueue, PullLoop[Q]] = {}
        self._releases: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Q]:
        return (loop.held for loop in self._loops.values())

    def __contains__(self, queue: MessageQueue) -> bool:
        return queue in self._loops

    @property
    def topics(self) -> set[str]:
        """The topics of all queues."""
        return {queue.topic for queue in self._loops}

    def loop(self, queue: MessageQueue) -> PullLoop[Q]:
        """Return the loop of an assigned queue."""
        try:
            return self._loops[queue]
        except KeyError:
            raise ClientError(f"{queue} is not assigned to this consumer") from None

    async def replace(self, queues: Iterable[MessageQueue], topic: str | None = None) -> None:
        """Take up the queues that are new, and give up those, of one topic or of all, that are not among these."""
        wanted = set(queues)
        for queue in sorted(wanted - self._loops.keys()):
            loop = self._loops[queue] = self._new_loop(queue)
            loop.start()
        unwanted = [queue for queue in self._loops if topic in (None, queue.topic) and queue not in wanted]
        for queue in unwanted:
            self._drop(self._loops.pop(queue))
        await self._released()

    async def stop(self) -> None:
        """End all loops, and wait for queues that are being given up; the others stay, for a last commit."""
        await asyncio.gather(*[loop.stop() for loop in self._loops.values()])
        await self._released()

    def _drop(self, loop: PullLoop[Q]) -> None:
        loop.held.dropped = True  # from here on nothing of it is handed out, whatever happens below
        release = asyncio.create_task(self._stop_and_release(loop))
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)

    async def _stop_and_release(self, loop: PullLoop[Q]) -> None:
        await loop.stop()
        await self._release(loop.held)

    async def _released(self) -> None:
        # Whoever waits may be cancelled; what was begun is ended, or the next owner would wait and repeat.
        if self._releases:
            await asyncio.shield(asyncio.gather(*self._releases))
