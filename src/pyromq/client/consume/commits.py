"""Commits: writes a group's progress to its offset store, one queue after another and only what has changed.

A committed offset moves back only after a jump: a seek, an operator's reset, or a queue that has lost its end. Two
members may have a queue for a moment, if its broker was restarted and has forgotten their locks: each tells the broker
to keep the higher of their offsets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from pyromq.client.background import FailureLog, is_being_cancelled
from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.offset_store import BrokerOffsets, OffsetStore
from pyromq.client.net.calls.answers import CommittedOffset
from pyromq.protocol.messages.message import MessageQueue

logger = logging.getLogger(__name__)


class Commits:
    """Commits the progress of queues, one commit at a time.

    If several first commits of a group arrive at once, Apache's broker can lose one.
    """

    def __init__(self, offsets: OffsetStore) -> None:
        self._offsets = offsets
        self._lock = asyncio.Lock()
        self._log = FailureLog(logger, "committing offsets")

    async def commit_up_to(self, held: AssignedQueue, offset: int) -> bool:
        """Commit an offset of one queue; return False if the queue was given up. Raises if the store fails."""
        async with self._lock:
            if held.dropped:
                return False
            await self._commit(held, offset)
            return True

    async def commit_consumed(self, queues: Iterable[AssignedQueue]) -> None:
        """Commit what is done in each queue; raises if the store fails."""
        async with self._lock:
            for held in list(queues):
                if held.consumed_offset is not None and not held.dropped:
                    await self._commit(held, held.consumed_offset)

    async def try_commit_consumed(self, queues: Iterable[AssignedQueue]) -> bool:
        """Commit what is done in each queue; log failures and return True if there were none."""
        failed: set[str] = set()
        async with self._lock:
            for held in list(queues):
                broker = held.queue.broker_name
                if broker not in failed and not held.dropped and not await self._try_commit(held):
                    failed.add(broker)  # its other queues wait for the next time
        if not failed:
            self._log.worked()
        return not failed

    async def try_commit_last(self, held: AssignedQueue) -> None:
        """Commit what is done in a queue that was given up, so that its next owner starts there."""
        async with self._lock:
            await self._try_commit(held)

    async def _try_commit(self, held: AssignedQueue) -> bool:
        if held.consumed_offset is None:
            return True
        try:
            await self._commit(held, held.consumed_offset)
        except (Exception, asyncio.CancelledError) as error:  # a user's own store may raise anything
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            self._log.failed(error)
            return False
        return True

    async def _commit(self, held: AssignedQueue, offset: int) -> None:
        jumps = held.jumps
        if self._is_kept_elsewhere(held) or not held.committed_is_sure:
            found = await self._confirm(held.queue)
            held.committed_is_sure = found.is_sure
            if held.jumps == jumps and not held.may_move_back:
                held.committed_offset = found.offset
        known = held.committed_offset
        if known is not None and offset <= known:
            return
        if isinstance(self._offsets, BrokerOffsets):
            forward, deleted_at = not held.may_move_back, held.deleted_at
            await self._offsets.commit(held.queue, offset, forward=forward, deleted_at=deleted_at)
        else:
            await self._offsets.commit(held.queue, offset)
        if held.jumps == jumps:
            held.committed_offset = offset

    def _is_kept_elsewhere(self, held: AssignedQueue) -> bool:
        """Return True if another broker keeps the offset now: what was committed last may not have reached it."""
        if not isinstance(self._offsets, BrokerOffsets):
            return False
        before, held.committed_at = held.committed_at, self._offsets.keeper_address(held.queue)
        return bool(before) and before != held.committed_at

    async def _confirm(self, queue: MessageQueue) -> CommittedOffset:
        """Return the committed offset, and whether that is sure: a slave, which commits forward, may lag."""
        if isinstance(self._offsets, BrokerOffsets):
            return await self._offsets.load_with_source(queue)
        return CommittedOffset(await self._offsets.load(queue))
