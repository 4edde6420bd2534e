"""Ownership: how a queue moves from one member of a group to the next.

The old owner finishes its jobs, commits and unlocks the queue. The new owner locks it and then loads the committed
offset. An orderly queue has only one consumer at any time: its owner needs the lock, and unlocks it only when no job
has messages of it. For other queues that would be too strict, because the lock of a killed process lasts for a minute:
their new owner waits a few seconds for the lock, one second if the old owner has left the group, and not at all if
nobody else is in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

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
ORPHAN_PATIENCE = 1.0  # another member may have taken it meanwhile if members come and go quickly


class Ownership:
    """Acquires and releases the queues of one member; a broadcasting consumer shares no queues and has no `locks`."""

    def __init__(
        self,
        locks: QueueLocks | None,
        offsets: OffsetStore,
        commits: Commits,
        initial_offset: InitialOffset,
        clock: Clock,
        *,
        strict: bool,
        is_orphan: Callable[[MessageQueue], bool],
        is_alone: Callable[[MessageQueue], bool],
        resume: Callable[[ProcessQueue, int | None], None],
    ) -> None:
        self._locks = locks
        self._offsets = offsets
        self._commits = commits
        self._initial_offset = initial_offset
        self._clock = clock
        self._strict = strict
        self._is_orphan = is_orphan
        self._is_alone = is_alone
        self._resume = resume
        self._leaving: dict[ProcessQueue, asyncio.Task[None]] = {}

    # --- acquiring ---------------------------------------------------------------------------------------------------

    async def acquire(self, held: ProcessQueue) -> None:
        """Become the owner of a queue and set it to the offset at which it starts."""
        if self._locks is not None:
            await self._lock(held, self._locks)
        await self._initial_offset.apply(held)
        held.locked = not self._is_doubted(held)  # else when its lock is renewed
        held.consumed_at = self._clock.now()  # tools read it as the time of the last finished message

    async def _lock(self, held: ProcessQueue, locks: QueueLocks) -> None:
        if self._strict:
            await locks.acquire(held)
            return
        try:
            if not await locks.acquire(held, partial(self._patience, held.queue)):
                logger.info("%s is consumed although its last owner has not unlocked it", held.queue)
        except BrokerError as error:
            logger.info("%s is consumed without a lock: %s", held.queue, error)

    def _patience(self, queue: MessageQueue) -> float:
        """Return how long to wait for the last owner of a queue to unlock it."""
        if self._is_alone(queue):
            return 0.0
        return ORPHAN_PATIENCE if self._is_orphan(queue) else TAKE_UP_PATIENCE

    # --- releasing ---------------------------------------------------------------------------------------------------

    def is_leaving(self, queue: MessageQueue) -> bool:
        """Return True if jobs still have messages of a queue that was given up."""
        return any(held.queue == queue for held in self._leaving)

    @property
    def leaving(self) -> list[ProcessQueue]:
        """The queues that were given up and are handed over when their jobs have ended."""
        return list(self._leaving)

    async def release(self, held: ProcessQueue) -> None:
        """Wait for the jobs of a queue, commit and unlock it.

        After 5 s continue without waiting; an orderly queue stays locked until its job has ended.
        """
        try:
            await wait_for(self._clock, held.idle(), GIVE_UP_PATIENCE)
        except TimeoutError:
            if self._strict:
                task = self._leaving[held] = asyncio.create_task(self._release_when_idle(held))
                task.add_done_callback(lambda done: self._leaving.pop(held, None))
                return
            logger.warning("%s is given up while a listener has messages of it: they will be redelivered", held.queue)
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
        """Unlock all queues when the consumer closes; all is committed, and only uncancellable jobs still run."""
        for held, task in self._leaving.items():
            if not held.is_idle:
                task.cancel()
        await asyncio.gather(*self._leaving.values(), return_exceptions=True)
        if self._locks is not None:
            await self._locks.release([held.queue for held in queues])

    # --- renewing ----------------------------------------------------------------------------------------------------

    def doubt(self, queues: Iterable[ProcessQueue]) -> None:
        """Consume nothing more of orderly queues until their locks are renewed: another member may have got them."""
        for held in queues:
            if self._strict and self._locks is not None:
                held.locked, held.lock_expires = False, 0.0

    def _is_doubted(self, held: ProcessQueue) -> bool:
        return self._strict and self._locks is not None and not held.lock_expires

    async def renew(self, queues: Iterable[ProcessQueue]) -> bool:
        """Renew the locks; return False if some could not be renewed and should be tried again soon."""
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
        """Continue a queue whose lock was lost; if another member has committed more meanwhile, continue from there."""
        try:
            committed = await self._offsets.load(held.queue)
        except PyroMQError as error:
            logger.warning("%s cannot continue yet: %s", held.queue, error)
            held.lock_expires = 0.0
            return
        if held.dropped:  # given up meanwhile
            return
        consumed = held.consumed_offset
        passed = committed is not None and consumed is not None and committed > consumed
        held.locked = True
        self._resume(held, committed if passed else None)
