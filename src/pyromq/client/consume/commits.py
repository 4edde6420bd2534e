"""Commits: a group's progress goes to its store, one queue after the other, and only where it changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from pyromq.client.background import FailureLog
from pyromq.client.consume.assigned_queue import AssignedQueue, PollQueue
from pyromq.client.consume.offset_store import OffsetStore
from pyromq.errors import PyroMQError

logger = logging.getLogger(__name__)


class Commits:
    """Commits what was handed out, or only what the caller came back from; one commit at a time.

    One after the other on purpose: when several first commits of a group arrive at once, Apache's broker can lose one.
    """

    def __init__(self, offsets: OffsetStore) -> None:
        self._offsets = offsets
        self._lock = asyncio.Lock()
        self._log = FailureLog(logger, "committing offsets")

    async def handed_out(self, queues: Iterable[PollQueue]) -> None:
        """Commit all that was handed out before this call; raises if a broker could not be told."""
        positions = [(held, held.position) for held in queues]
        async with self._lock:
            for held, position in positions:
                if position is not None and not held.dropped:
                    await self._commit(held, position)
                    held.settle_up_to(position)

    async def finished(self, queues: Iterable[AssignedQueue]) -> None:
        """Commit what is consumed; raises if a broker could not be told."""
        async with self._lock:
            for held in list(queues):
                if held.settled is not None and not held.dropped:
                    await self._commit(held, held.settled)

    async def settled(self, queues: Iterable[AssignedQueue]) -> bool:
        """Commit what the caller is done with; log what could not be committed and return whether all was."""
        failed: set[str] = set()
        async with self._lock:
            for held in list(queues):
                broker = held.queue.broker_name
                if broker not in failed and not held.dropped and not await self._try_commit(held):
                    failed.add(broker)  # its other queues wait for the next time
        if not failed:
            self._log.worked()
        return not failed

    async def release(self, held: AssignedQueue) -> None:
        """Commit the last of a queue that was given up, so that its next owner starts there."""
        async with self._lock:
            await self._try_commit(held)

    async def _try_commit(self, held: AssignedQueue) -> bool:
        if held.settled is None:
            return True
        try:
            await self._commit(held, held.settled)
        except PyroMQError as error:
            self._log.failed(error)
            return False
        return True

    async def _commit(self, held: AssignedQueue, offset: int) -> None:
        if offset != held.committed:
            await self._offsets.commit(held.queue, offset)
            held.committed = offset
