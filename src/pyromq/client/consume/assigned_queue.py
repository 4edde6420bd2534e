"""PollQueue: what was pulled from one queue and is not handed out yet, and how far each step has come.

    settled ≤ position ≤ next_pull

`next_pull` is where the next pull starts; before `position` everything was handed out; before `settled` the caller came
back for more, which says that it is done with it. Offsets are None until it is known where to start.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

from pyromq.client.config import FlowControl
from pyromq.protocol.messages.message import MessageExt, MessageQueue


class AssignedQueue(ABC):
    """One assigned queue, as those that fill it and those that commit it see it."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.paused = False
        self.dropped = False
        """Given up: whatever still holds it must neither hand out nor commit."""
        self.next_pull: int | None = None
        self.committed: int | None = None
        """What the broker has, as far as this client knows."""
        self.broker_id = 0
        """Which broker of the group the next pull should go to; the last answer said so."""
        self.size = 0
        self.pulled_at = 0.0
        self.room = asyncio.Event()
        """Set by whoever makes room, or resumes it: the loop that pulls looks again then."""

    @property
    @abstractmethod
    def settled(self) -> int | None:
        """The offset before which everything is done."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether it has something to hand out now."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many messages count as held."""

    @abstractmethod
    def start_at(self, offset: int) -> None:
        """Forget what is held and go on from this offset."""

    @abstractmethod
    def add(self, messages: Sequence[MessageExt], next_offset: int) -> None:
        """Take in what one pull brought; `next_offset` may lie beyond the last one, where some were filtered out."""

    def is_full(self, flow: FlowControl) -> bool:
        """Tell whether enough is held that the next pull should wait."""
        return len(self) >= flow.messages or self.size >= flow.size


class PollQueue(AssignedQueue):
    """The buffer of one queue whose messages the caller asks for."""

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(queue)
        self.position: int | None = None
        self._settled: int | None = None
        self._messages: deque[MessageExt] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def settled(self) -> int | None:
        """The offset before which the caller is done with everything."""
        return self._settled

    @property
    def ready(self) -> bool:
        """Whether it has something to hand out now."""
        return bool(self._messages) and not self.paused and not self.dropped

    def start_at(self, offset: int) -> None:
        """Forget what is held and go on from this offset."""
        self._messages.clear()
        self.size = 0
        self.next_pull = self.position = self._settled = offset

    def add(self, messages: Sequence[MessageExt], next_offset: int) -> None:
        """Take in what one pull brought."""
        self._messages.extend(messages)
        self.size += sum(message.store_size for message in messages)
        self.next_pull = next_offset
        if not self._messages:
            self._skip_to(next_offset)

    def _skip_to(self, offset: int) -> None:
        # Nothing before this offset is left for the caller; only what it still works on keeps `settled` back.
        if self._settled == self.position:
            self._settled = offset
        self.position = offset

    def take(self, most: int) -> list[MessageExt]:
        """Hand out up to so many messages, in their order."""
        count = min(most, len(self._messages))
        messages = [self._messages.popleft() for _ in range(count)]
        if messages:
            self.size -= sum(message.store_size for message in messages)
            self.position = messages[-1].queue_offset + 1 if self._messages else self.next_pull
        return messages

    def settle(self) -> None:
        """Note that the caller is done with all that was handed out."""
        self._settled = self.position

    def settle_up_to(self, offset: int) -> None:
        """Note that the caller is done with what lies before an offset, unless it has jumped elsewhere meanwhile."""
        if self._settled is not None and self.position is not None and self._settled < offset <= self.position:
            self._settled = offset
