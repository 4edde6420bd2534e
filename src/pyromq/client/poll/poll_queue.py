"""PollQueue: the messages that were pulled from one queue and not handed out yet, and how far each step has come.

    consumed_offset ≤ position ≤ pull_offset

`pull_offset` is where the next pull starts. Everything before `position` was handed out. Everything before
`consumed_offset` is done: the caller has polled again since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.protocol.messages.message import MessageExt, MessageQueue


class PollQueue(AssignedQueue):
    """The buffer of one queue whose messages the caller polls."""

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(queue)
        self.position: int | None = None
        self._consumed: int | None = None
        self._messages: deque[MessageExt] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def consumed_offset(self) -> int | None:
        """The offset before which the caller is done with everything."""
        return self._consumed

    @property
    def ready(self) -> bool:
        """Whether it has something to hand out now."""
        return bool(self._messages) and not self.paused and not self.dropped

    def start_at(self, offset: int) -> None:
        """Forget all messages and continue at this offset."""
        self._messages.clear()
        self.size = 0
        self.pull_offset = self.position = self._consumed = offset

    def add(self, messages: Sequence[MessageExt], next_offset: int) -> None:
        """Add the messages of one pull; if the queue has lost its end, start over from there."""
        if self.pull_offset is not None and next_offset < self.pull_offset:
            self.jump_to(next_offset)
        self._messages.extend(messages)
        self.size += sum(message.store_size for message in messages)
        self.pull_offset = next_offset
        if not self._messages:
            self._skip_to(next_offset)

    def _skip_to(self, offset: int) -> None:
        # The caller gets nothing from before this offset, but it may still work on what it got earlier.
        if self._consumed == self.position:
            self._consumed = offset
        self.position = offset

    def take(self, most: int) -> list[MessageExt]:
        """Hand out up to `most` messages in order."""
        count = min(most, len(self._messages))
        messages = [self._messages.popleft() for _ in range(count)]
        if messages:
            self.size -= sum(message.store_size for message in messages)
            self.position = messages[-1].queue_offset + 1 if self._messages else self.pull_offset
        return messages

    def mark_consumed(self) -> None:
        """Note that the caller is done with everything that was handed out."""
        self._consumed = self.position

    def mark_consumed_up_to(self, offset: int) -> None:
        """Note that the caller is done with everything before an offset, unless it has seeked elsewhere meanwhile."""
        if self._consumed is not None and self.position is not None and self._consumed < offset <= self.position:
            self._consumed = offset
