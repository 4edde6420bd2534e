"""What planning needs to know about queues; brokers and the files of a store both provide it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import is_system_topic
from pyromq.spark.offsets import Offsets


class QueueSource(Protocol):
    """The topics of a cluster or a store; every call raises PyroMQError if there is no answer."""

    def topics(self, names: Sequence[str], pattern: str | None) -> list[str]:
        """Return the named topics, or those that match a pattern, without RocketMQ's own."""

    def queues(self, topics: Iterable[str]) -> list[MessageQueue]:
        """Return the queues of the topics; raise for a topic that does not exist."""

    def min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the first offset still available in each queue."""

    def max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the offset that the next message of each queue will get."""

    def reachable_min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the first offset of each reachable queue."""

    def reachable_max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the current next offset of each reachable queue."""

    def ends_at_brokers(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the next offset of queues that are not among `queues` any more; those of absent brokers are left out.

        The offset is 0 if the queue does not exist.
        """

    def offsets_since(self, queues: Iterable[MessageQueue], timestamp_ms: int, group: str | None) -> Offsets:
        """Return the offset of the first message of each queue that was stored at or after a time."""

    def committed_offsets(self, queues: Iterable[MessageQueue], group: str) -> Offsets:
        """Return the offsets that the group has committed; queues without one are left out."""

    def commit(self, offsets: Offsets, group: str) -> Offsets:
        """Commit a group's progress; return the offsets that were accepted."""

    def wait_for_message(self, positions: Offsets, group: str | None, timeout: float) -> None:
        """Return as soon as a message arrives at one of the positions, or after `timeout` seconds."""


def is_for_patterns(topic: str, pattern: str) -> bool:
    """Return True if a pattern may match a topic: no internal one; %RETRY% and %DLQ% ones only if it starts with %."""
    return not is_system_topic(topic) and (pattern.startswith("%") or not topic.startswith("%"))
