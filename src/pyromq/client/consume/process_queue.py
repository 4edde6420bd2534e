"""ProcessQueue: the messages that were pulled from one queue and not consumed yet; they may finish in any order.

A message waits, is handed out in a job, and stays unfinished until the job is done with it. A message that must be
consumed again goes back to the waiting ones. The offset to commit is that of the lowest unfinished message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from pyromq.client.config import FlowControl
from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.stall_report import BlockedQueue
from pyromq.protocol.messages.message import MessageExt, MessageQueue

LOCK_LIFETIME = 30.0
"""Seconds for which a granted lock counts; the broker's own limit is 60, so the owner stops before another begins."""


class ProcessQueue(AssignedQueue):
    """The buffer of one queue whose messages go to a listener; an orderly queue has at most one job at a time."""

    def __init__(self, queue: MessageQueue, *, orderly: bool = False) -> None:
        super().__init__(queue)
        self.released = False
        """Given up and committed: another member may have it by now, so the outcome of a late job is ignored."""
        self.locked = True
        """Whether this client may consume it; cleared while a lock is needed and missing."""
        self.lock_expires = 0.0
        """By the clock's monotonic time; 0 if this client does not have the lock."""
        self.locked_at = ""
        """The address of the broker that was last asked for the lock."""
        self.consumed_at = 0.0
        self.resting = False
        """Nothing is handed out for some time after a failure in an orderly queue."""
        self.blocked: BlockedQueue | None = None
        """The message that blocks an orderly queue, from its first failure until it is finished."""
        self._orderly = orderly
        self._waiting: deque[MessageExt] = deque()
        self._unfinished: dict[int, MessageExt] = {}  # in the order of offsets, as pulls only go up
        self._last_offset = 0
        self._jobs = 0
        self._idle = asyncio.Event()
        self._is_awaited = False
        """Whether somebody waits for the end of the jobs."""

    def __len__(self) -> int:
        return len(self._unfinished)

    @property
    def consumed_offset(self) -> int | None:
        """The offset of the lowest unfinished message, or of the next pull if all are finished."""
        return next(iter(self._unfinished), self.pull_offset)

    @property
    def last_offset(self) -> int:
        """The highest offset that was pulled."""
        return self._last_offset

    @property
    def span(self) -> int:
        """The distance between the lowest unfinished message and the highest pulled one."""
        return self._last_offset - next(iter(self._unfinished)) if self._unfinished else 0

    @property
    def ready(self) -> bool:
        """Whether it has something to hand out now."""
        if not self._waiting or self.paused or self.dropped or not self.locked:
            return False
        return not (self._orderly and (self._jobs or self.resting))

    def is_full(self, flow: FlowControl) -> bool:
        """Return True if the next pull should wait; offsets must not run far ahead of one slow message."""
        return super().is_full(flow) or (not self._orderly and self.span > flow.span)

    # --- messages ----------------------------------------------------------------------------------------------------

    def start_at(self, offset: int) -> None:
        """Forget all messages and continue at this offset; what becomes of those in jobs is then ignored."""
        self._waiting.clear()
        self._unfinished.clear()
        self.blocked = None
        self.size = 0
        self.pull_offset = offset

    def add(self, messages: Sequence[MessageExt], next_offset: int) -> None:
        """Add the messages of one pull; if the queue has lost its end, start over from there."""
        if self.pull_offset is not None and next_offset < self.pull_offset:
            self.jump_to(next_offset)
        self._waiting.extend(messages)
        for message in messages:
            self._unfinished[message.queue_offset] = message
            self.size += message.store_size
        if messages:
            self._last_offset = messages[-1].queue_offset
        self.pull_offset = next_offset

    def take(self, most: int) -> list[MessageExt]:
        """Hand out up to `most` messages to a new job, in order; `end_job` must follow."""
        self._jobs += 1
        waiting = self._waiting
        if most == 1 and waiting:
            return [waiting.popleft()]
        return [waiting.popleft() for _ in range(min(most, len(waiting)))]

    def finish(self, messages: Iterable[MessageExt]) -> None:
        """Note that these messages need no more work here: consumed, sent back or dropped."""
        unfinished = self._unfinished
        for message in messages:
            offset = message.queue_offset
            if unfinished.get(offset) is message:  # else it was forgotten meanwhile
                del unfinished[offset]
                self.size -= message.store_size
        if self.blocked is not None and self.blocked.queue_offset not in self._unfinished:
            self.blocked = None
        self.room.set()

    def put_back(self, messages: Sequence[MessageExt]) -> None:
        """Let these messages wait again, before all others."""
        held = self._unfinished
        self._waiting.extendleft(one for one in reversed(messages) if held.get(one.queue_offset) is one)

    # --- jobs --------------------------------------------------------------------------------------------------------

    async def begin_alone(self) -> None:
        """Wait until no job has messages of this queue, then count as one; `end_job` must follow."""
        while self._jobs:
            await self.idle()
        self._jobs += 1

    def end_job(self) -> None:
        """Note that a job is over."""
        self._jobs -= 1
        if not self._jobs and self._is_awaited:
            self._is_awaited = False
            self._idle.set()

    @property
    def is_idle(self) -> bool:
        """Whether no job has messages of this queue."""
        return not self._jobs

    async def idle(self) -> None:
        """Wait until no job has messages of this queue."""
        if self._jobs:
            self._is_awaited = True
            self._idle.clear()
            await self._idle.wait()
