"""What planning asks about queues, whoever answers: brokers, or the files of a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import is_system_topic
from pyromq.spark.offsets import Offsets


class QueueSource(Protocol):
    """The topics of a cluster or of a store; every call raises PyroMQError where there is no answer."""

    def topics(self, names: Sequence[str], pattern: str | None) -> list[str]:
        """Return the topics named, or those that match a pattern, without RocketMQ's own."""

    def queues(self, topics: Iterable[str]) -> list[MessageQueue]:
        """Return the queues of these topics; raise for a topic that does not exist."""

    def min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the first offset of each queue that is still there."""

    def max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the offset that the next message of each queue will get."""

    def reachable_min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the first offset of the queues that can be asked."""

    def reachable_max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the next offset of the queues that can be asked, as it is now."""

    def offsets_since(self, queues: Iterable[MessageQueue], timestamp_ms: int, group: str | None) -> Offsets:
        """Return the offset of the first message of each queue that was stored at or after a time."""

    def committed_offsets(self, queues: Iterable[MessageQueue], group: str) -> Offsets:
        """Return what the group has committed; queues of which it has committed nothing are left out."""

    def commit(self, offsets: Offsets, group: str) -> Offsets:
        """Show a group's progress; return what was taken."""

    def wait_for_message(self, positions: Offsets, group: str | None, timeout: float) -> None:
        """Return as soon as a message arrives at one of these positions, after `timeout` seconds at the latest."""


def is_for_patterns(topic: str, pattern: str) -> bool:
    """Tell whether a pattern may mean a topic: never RocketMQ's own, retries and dead letters if it begins with %."""
    return not is_system_topic(topic) and (pattern.startswith("%") or not topic.startswith("%"))
