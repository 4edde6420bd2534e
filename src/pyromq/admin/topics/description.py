"""What is known about topics: values that the operator's client returns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from pyromq.protocol.bodies import QueueData
from pyromq.protocol.codes import PERM_READ, PERM_WRITE
from pyromq.protocol.messages.message import MessageQueue


class TopicSummary(Struct, frozen=True, kw_only=True):
    """One topic in a list of all topics."""

    topic: str
    kind: str
    """`topic`; `retry` or `dead letters` of a group; `system` for RocketMQ's own."""
    brokers: tuple[str, ...]
    read_queues: int
    write_queues: int
    """On all brokers together."""
    perm: str
    """What all brokers allow: r, w or both."""


class TopicListing(Struct, frozen=True, kw_only=True):
    """All topics that brokers have."""

    topics: tuple[TopicSummary, ...]
    silent_brokers: Mapping[str, str]
    """Brokers that did not answer, and why. What only they have is missing."""


class QueueContents(Struct, frozen=True, kw_only=True):
    """What one queue holds."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_stored: datetime | None
    """When its last message was stored; None if it is empty, or not written any more."""

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self.max_offset - self.min_offset


class TopicConsumer(Struct, frozen=True, kw_only=True):
    """A group that consumes a topic, or did so before."""

    group: str
    members: int
    lag: int


class TopicDescription(Struct, frozen=True, kw_only=True):
    """A topic, as brokers and name servers describe it."""

    topic: str
    kind: str
    settings: Mapping[str, QueueData]
    """Its number of queues and its permissions, by broker."""
    order: str | None
    """Its order settings at the name servers, such as `broker-a:4`."""
    queues: tuple[QueueContents, ...]
    groups: tuple[TopicConsumer, ...]
    findings: tuple[str, ...]
    silent_brokers: Mapping[str, str]

    @property
    def messages(self) -> int:
        """The number of messages in all queues."""
        return sum(queue.messages for queue in self.queues)


def perm_text(perm: int) -> str:
    """Return the permissions: r, w, both, or - for neither."""
    return ("r" if perm & PERM_READ else "") + ("w" if perm & PERM_WRITE else "") or "-"
