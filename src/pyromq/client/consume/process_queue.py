"""ProcessQueue: what was pulled from one queue and is not consumed yet; messages are finished one by one, in any order.

A message waits, is handed out in a job, and is unfinished until that job is done with it; one that must come again
waits once more. `settled`, the offset that may be committed, is that of the lowest unfinished message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from pyromq.client.config import FlowControl
from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.blocked_queues import BlockedQueue
from pyromq.protocol.messages.message import MessageExt, MessageQueue


class ProcessQueue(AssignedQueue):
    """The buffer of one queue whose messages go to a listener; `orderly` lets one job at a time have them."""

    def __init__(self, queue: MessageQueue, *, orderly: bool = False) -> None:
        super().__init__(queue)
        self.released = False
        """Given up and committed: somebody else has it by now, so what a late job says is of no account."""
        self.locked = True
        """Whether this client may consume it; those who need a lock clear it until they have one."""
        self.lock_expires = 0.0
        self.consumed_at = 0.0
        self.resting = False
        """Nothing is handed out for a while, after a failure in an orderly queue."""
        self.blocked: BlockedQueue | None = None
        """The message that holds up an orderly queue, from its first failure until it is done."""
        self._orderly = orderly
        self._waiting: deque[MessageExt] = deque()
        self._unfinished: dict[int, MessageExt] = {}  # in the order of offsets: pulls only go up
        self._last_offset = 0
        self._jobs = 0
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._unfinished)

    @property
    def settled(self) -> int | None:
        """The offset of the lowest message that is not done, the next one to be pulled if all are."""
        return next(iter(self._unfinished), self.next_pull)

    @property
    def last_offset(self) -> int:
        """The highest offset held."""
        return self._last_offset

    @property
    def span(self) -> int:
        """How far apart the lowest and the highest message lie that are not done."""
        return self._last_offset - next(iter(self._unfinished)) if self._unfinished else 0

    @property
    def ready(self) -> bool:
        """Whether it has something to hand out now."""
        if not self._waiting or self.paused or self.dropped or not self.locked:
            return False
        return not (self._orderly and (self._jobs or self.resting))

    def is_full(self, flow: FlowControl) -> bool:
        """Tell whether enough is held; one message that takes long must not let offsets run away from it."""
        return super().is_full(flow) or (not self._orderly and self.span > flow.span)

    # --- messages ----------------------------------------------------------------------------------------------------

    def start_at(self, offset: int) -> None:
        """Forget what is held and go on from this offset; what jobs still have is theirs and counts no more."""
        self._waiting.clear()
        self._unfinished.clear()
        self.blocked = None
        self.size = 0
        self.next_pull = offset

    def add(self, messages: Sequence[MessageExt], next_offset: int) -> None:
        """Take in what one pull brought; where the broker sends it back, begin anew."""
        if self.next_pull is not None and next_offset < self.next_pull:
            self.start_at(next_offset)
        self._waiting.extend(messages)
        for message in messages:
            self._unfinished[message.queue_offset] = message
            self.size += message.store_size
        if messages:
            self._last_offset = messages[-1].queue_offset
        self.next_pull = next_offset

    def take(self, most: int) -> list[MessageExt]:
        """Hand out up to so many messages to a new job, in their order; `end_job` must follow."""
        self._jobs += 1
        self._idle.clear()
        waiting = self._waiting
        return [waiting.popleft() for _ in range(min(most, len(waiting)))]

    def finish(self, messages: Iterable[MessageExt]) -> None:
        """Note that messages are done, one way or the other."""
        for message in messages:
            if self._holds(message):
                del self._unfinished[message.queue_offset]
                self.size -= message.store_size
        if self.blocked is not None and self.blocked.queue_offset not in self._unfinished:
            self.blocked = None
        self.room.set()

    def put_back(self, messages: Sequence[MessageExt]) -> None:
        """Have messages handed out again, before those that wait."""
        self._waiting.extendleft(message for message in reversed(messages) if self._holds(message))

    def _holds(self, message: MessageExt) -> bool:
        return self._unfinished.get(message.queue_offset) is message  # else it was forgotten meanwhile

    # --- jobs --------------------------------------------------------------------------------------------------------

    def end_job(self) -> None:
        """Note that a job is over."""
        self._jobs -= 1
        if not self._jobs:
            self._idle.set()

    @property
    def is_idle(self) -> bool:
        """Whether no job has messages of this queue."""
        return not self._jobs

    async def idle(self) -> None:
        """Wait until no job has messages of this queue."""
        await self._idle.wait()
