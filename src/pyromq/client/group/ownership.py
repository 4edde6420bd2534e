"""How queues change hands: who gives one up finishes, commits and unlocks; who takes it up locks, then looks where.

An orderly queue has one consumer at any time: it is taken up only with its lock, and unlocked only when nothing of it
is in hand. For others that would be too strict, as a lock outlives a killed process by a minute: the new owner waits a
few seconds for it, and one second where the group has lost the old owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from pyromq.client.consume.commits import Commits
from pyromq.client.consume.initial_offset import InitialOffset
from pyromq.client.consume.offset_store import OffsetStore
from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.client.group.queue_locks import QueueLocks
from pyromq.clock import Clock, wait_for
from pyromq.errors import BrokerError, PyroMQError
from pyromq.protocol.messages.message import MessageQueue

logger = logging.getLogger(__name__)

GIVE_UP_PATIENCE = 5.0
TAKE_UP_PATIENCE = GIVE_UP_PATIENCE + 1.0
ORPHAN_PATIENCE = 1.0  # where members come and go quickly, it may be in yet other hands


class Ownership:
    """Takes queues up and gives them up for one member; broadcasting, which shares nothing, has no `locks`."""

    def __init__(
        self,
        locks: QueueLocks | None,
        offsets: OffsetStore,
        commits: Commits,
        beginning: InitialOffset,
        clock: Clock,
        *,
        strict: bool,
        is_orphan: Callable[[MessageQueue], bool],
        resume: Callable[[ProcessQueue, int | None], Awaitable[None]],
    ) -> None:
        self._locks = locks
        self._offsets = offsets
        self._commits = commits
        self._beginning = beginning
        self._clock = clock
        self._strict = strict
        self._is_orphan = is_orphan
        self._resume = resume
        self._leaving: dict[ProcessQueue, asyncio.Task[None]] = {}

    # --- taking up ---------------------------------------------------------------------------------------------------

    async def begin(self, held: ProcessQueue) -> None:
        """Become a queue's owner and set it to its start."""
        if self._locks is not None:
            await self._lock(held, self._locks)
        await self._beginning.begin(held)
        held.locked = True
        held.consumed_at = self._clock.now()  # tools read it as the time since which nothing was finished

    async def _lock(self, held: ProcessQueue, locks: QueueLocks) -> None:
        if self._strict:
            await locks.acquire(held, None)
            return
        try:
            if not await locks.acquire(held, ORPHAN_PATIENCE if self._is_orphan(held.queue) else TAKE_UP_PATIENCE):
                logger.info("%s is taken up although its last owner has not unlocked it", held.queue)
        except BrokerError as error:
            logger.info("%s is taken up without a lock: %s", held.queue, error)

    # --- giving up ---------------------------------------------------------------------------------------------------

    def is_leaving(self, queue: MessageQueue) -> bool:
        """Tell whether messages of a queue that was given up are still in hand."""
        return any(held.queue == queue for held in self._leaving)

    async def release(self, held: ProcessQueue) -> None:
        """Let what is in hand end, commit and unlock.

        After 5 s go on without it; an orderly queue stays locked until it has ended.
        """
        try:
            await wait_for(self._clock, held.idle(), GIVE_UP_PATIENCE)
        except TimeoutError:
            if self._strict:
                task = self._leaving[held] = asyncio.create_task(self._release_when_idle(held))
                task.add_done_callback(lambda done: self._leaving.pop(held, None))
                return
            logger.warning("%s is given up while a listener still has messages of it: they come again", held.queue)
        await self._hand_over(held)

    async def _release_when_idle(self, held: ProcessQueue) -> None:
        await held.idle()
        await self._hand_over(held)

    async def _hand_over(self, held: ProcessQueue) -> None:
        held.released = True
        await self._commits.try_commit_last(held)
        if self._locks is not None:
            await self._locks.release([held.queue])

    async def close(self, queues: Iterable[ProcessQueue]) -> None:
        """Give up everything at once; nothing is in hand any more but what no cancelling ends, and all is committed."""
        for held, task in self._leaving.items():
            if not held.is_idle:
                task.cancel()
        await asyncio.gather(*self._leaving.values(), return_exceptions=True)
        if self._locks is not None:
            await self._locks.release([held.queue for held in queues])

    # --- keeping -----------------------------------------------------------------------------------------------------

    async def renew(self, queues: Iterable[ProcessQueue]) -> bool:
        """Renew the locks; return whether all is as it should be, so that nothing need be tried again soon."""
        if self._locks is None:
            return True
        owned = [held for held in (*queues, *self._leaving) if held.pull_offset is not None]
        answered = await self._locks.renew(owned)
        if not self._strict:
            return answered
        for held in owned:
            if held.lock_expires and not held.locked and not held.dropped:
                await self._regain(held)
        return answered and all(held.lock_expires for held in owned)

    async def _regain(self, held: ProcessQueue) -> None:
        """Go on with a queue whose lock was lost for a while: if another one went further, from there."""
        try:
            committed = await self._offsets.load(held.queue)
        except PyroMQError as error:
            logger.warning("%s cannot go on yet: %s", held.queue, error)
            held.lock_expires = 0.0
            return
        consumed = held.consumed_offset
        passed = committed is not None and consumed is not None and committed > consumed
        held.locked = True
        await self._resume(held, committed if passed else None)
