"""The queues a consumer has now, and the loops that fill them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.pull_loop import PullLoop
from pyromq.client.consume.queue_changes import QueueChanges
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageQueue

Q = TypeVar("Q", bound=AssignedQueue)


class Assignment(Generic[Q]):
    """Starts and stops the pull loops of queues; `release` is called before another member gets a queue.

    Once it is stopped, it starts nothing any more.
    """

    def __init__(
        self,
        new_loop: Callable[[MessageQueue], PullLoop[Q]],
        release: Callable[[Q], Awaitable[None]],
        changes: QueueChanges | None = None,
    ) -> None:
        self._new_loop = new_loop
        self._release = release
        self._changes = changes or QueueChanges()
        self._loops: dict[MessageQueue, PullLoop[Q]] = {}
        self._releases: dict[asyncio.Task[None], Q] = {}
        self._stopped = False

    def __iter__(self) -> Iterator[Q]:
        return (loop.held for loop in self._loops.values())

    def __contains__(self, queue: MessageQueue) -> bool:
        return queue in self._loops

    @property
    def leaving(self) -> list[Q]:
        """The queues that are being given up and may still be committed."""
        return list(self._releases.values())

    @property
    def topics(self) -> set[str]:
        """The topics of all queues."""
        return {queue.topic for queue in self._loops}

    def find(self, queue: MessageQueue) -> Q | None:
        """Return an assigned queue, None if it is not assigned to this consumer."""
        loop = self._loops.get(queue)
        return None if loop is None else loop.held

    def loop(self, queue: MessageQueue) -> PullLoop[Q]:
        """Return the loop of an assigned queue."""
        try:
            return self._loops[queue]
        except KeyError:
            raise ClientError(f"{queue} is not assigned to this consumer") from None

    async def replace(self, queues: Iterable[MessageQueue], topic: str | None = None) -> None:
        """Start the queues that are new, and give up all others, of one topic or of every topic."""
        if self._stopped:
            return
        wanted = set(queues)
        new = sorted(wanted - self._loops.keys())
        for queue in new:
            loop = self._loops[queue] = self._new_loop(queue)
            loop.start()
        unwanted = [queue for queue in self._loops if topic in (None, queue.topic) and queue not in wanted]
        if unwanted:
            await self._changes.revoked(unwanted)
        for queue in unwanted:
            if queue in self._loops:
                self._drop(self._loops.pop(queue))
        await self._released()
        if new:
            await self._changes.assigned(new)

    def follow_routes(self) -> None:
        """Let pulls that wait at a deposed master go elsewhere."""
        for loop in self._loops.values():
            loop.follow_route()

    async def stop(self) -> None:
        """Stop all loops and wait for queues that are being given up; the others stay, for a last commit."""
        self._stopped = True
        await asyncio.gather(*[loop.stop() for loop in self._loops.values()])
        await self._released()

    def _drop(self, loop: PullLoop[Q]) -> None:
        loop.held.dropped = True  # nothing of it is handed out from here on, whatever happens below
        release = asyncio.create_task(self._stop_and_release(loop))
        self._releases[release] = loop.held
        release.add_done_callback(self._releases.pop)

    async def _stop_and_release(self, loop: PullLoop[Q]) -> None:
        await loop.stop()
        await self._release(loop.held)

    async def _released(self) -> None:
        # The waiting task may be cancelled; a release that has begun must end, or the next owner gets messages again.
        if self._releases:
            await asyncio.shield(asyncio.gather(*self._releases))
