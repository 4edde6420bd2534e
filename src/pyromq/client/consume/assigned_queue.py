"""AssignedQueue: what the buffers of both kinds of consumer have in common, for the code that fills and commits them.

A ProcessQueue feeds a listener; a PollQueue waits until its caller polls.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyromq.client.config import FlowControl
from pyromq.protocol.messages.message import MessageExt, MessageQueue


class AssignedQueue(ABC):
    """One queue that this consumer has now, and the messages pulled from it; offsets are None until it is started."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.paused = False
        self.dropped = False
        """Given up: nothing of it may be handed out any more, and only its release may commit it."""
        self.pull_offset: int | None = None
        """Where the next pull starts."""
        self.committed_offset: int | None = None
        """The last commit that this client knows of; None if there is none, or after a jump."""
        self.committed_is_sure = True
        """False if only a slave could be asked for the committed offset: the master may have a higher one."""
        self.committed_at = ""
        """The address of the broker that was last asked or told about the committed offset."""
        self.deleted_at: int | None = None
        """The life of the topic in which these offsets count: where its broker's log ended when the topic was last
        deleted, 0 if it never was. None if that is not known yet."""
        self.is_recreated = False
        """Whether the topic was deleted while this client had the queue."""
        self.jumps = 0
        """How often the queue was moved to another offset; whoever awaits an answer compares it before and after."""
        self.broker_id = 0
        """Which broker of the group the next pull should go to, as the last answer suggested."""
        self.pulls_from_master = True
        """Whether the last pull went to the master: it may have gone to a slave because the master is away."""
        self.pull_address = ""
        """The address of the broker that the last pull went to."""
        self.newest_ms = 0
        """When the newest message that was pulled was stored, in milliseconds."""
        self.size = 0
        self.pulled_at = 0.0
        """When the last pull was sent, by the clock's monotonic time."""
        self.room = asyncio.Event()
        """Set when there may be room for another pull, or when the queue is resumed; the pull loop waits for it."""

    @property
    @abstractmethod
    def consumed_offset(self) -> int | None:
        """The offset before which everything is consumed: the one to commit."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether it has something to hand out now."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many messages count against the flow control."""

    @abstractmethod
    def start_at(self, offset: int) -> None:
        """Forget all messages and continue at this offset."""

    def jump_to(self, offset: int) -> None:
        """Continue at an offset that a person chose, or where a damaged log ends: commits may follow it backwards."""
        self.jumps += 1
        self.committed_offset = None
        self.start_at(offset)

    def start_over(self) -> None:
        """Forget everything: the topic was deleted, and offsets of one that is created later mean other messages."""
        self.jump_to(0)
        self.pull_offset = self.deleted_at = None
        self.is_recreated = True
        self.newest_ms = 0

    @property
    def may_move_back(self) -> bool:
        """Whether the next commit may move the committed offset back: it is the first one after a jump."""
        return self.jumps > 0 and self.committed_offset is None

    @property
    def offset_to_commit(self) -> int | None:
        """The offset to commit now; None if there is none, or if that would move the committed one back."""
        offset = self.consumed_offset
        if offset is None or (self.committed_offset is not None and offset < self.committed_offset):
            return None
        return offset

    @abstractmethod
    def add(self, messages: Sequence[MessageExt], next_offset: int) -> None:
        """Add the messages of one pull; `next_offset` may lie beyond the last one if some were filtered out."""

    def is_full(self, flow: FlowControl) -> bool:
        """Return True if the next pull should wait."""
        return len(self) >= flow.messages or self.size >= flow.size
