"""What keeps a queue's committed offset from moving, as a consumer reports it to tools.

The committed offset stays before the lowest unfinished message, however many later ones are finished. That message may
be with a slow listener (`MessageInProgress`), or the listener of an orderly queue may fail with it again and again
(`BlockedQueue`). A polling consumer reports since when nobody has polled. All are properties of its running info.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from msgspec import Struct

from pyromq.protocol.bodies import ConsumerRunningInfo
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.unreadable import UNREADABLE

logger = logging.getLogger(__name__)

T = TypeVar("T")

BLOCKED_PROPERTY = "PYROMQ_BLOCKED"
"""A JSON list of the consumer's blocked queues."""

IN_PROGRESS_PROPERTY = "PYROMQ_HEADS"
"""A JSON list of the queues whose lowest unfinished message is with the listener."""

IDLE_CALLER_PROPERTY = "PYROMQ_AWAY_SINCE"
"""The time in milliseconds since which the caller of a polling consumer has not polled."""


class BlockedQueue(Struct, frozen=True, kw_only=True):
    """An orderly queue that does not advance, with the message that blocks it."""

    queue: MessageQueue
    message_id: str
    queue_offset: int
    since: datetime
    times: int
    """How often the listener has failed with the message."""
    cause: str

    def as_dict(self) -> dict[str, object]:
        """Return its fields under the names that commands show."""
        return {
            **self.queue._asdict(),
            "queue_offset": self.queue_offset,
            "message_id": self.message_id,
            "since": self.since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "times": self.times,
            "cause": self.cause,
        }


class MessageInProgress(Struct, frozen=True, kw_only=True):
    """The lowest unfinished message of a queue, while the listener has it."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    since_ms: int

    @property
    def queue(self) -> MessageQueue:
        """The queue it comes from."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


def blocked_by(
    message: MessageExt, queue: MessageQueue, cause: str, now: float, before: BlockedQueue | None
) -> BlockedQueue:
    """Return the state of a queue that a message blocks now; only its first failure is logged, the others counted."""
    since, times = datetime.fromtimestamp(now, UTC), 0
    if before is not None and before.queue_offset == message.queue_offset:
        since, times = before.since, before.times
    else:
        logger.warning(
            "queue=%d of topic=%s on broker=%s is blocked by message=%s at offset=%d until its listener accepts it: %s",
            queue.queue_id, queue.topic, queue.broker_name, message.message_id, message.queue_offset, cause,
        )  # fmt: skip
    return BlockedQueue(
        queue=queue,
        message_id=message.message_id,
        queue_offset=message.queue_offset,
        since=since,
        times=times + 1,
        cause=cause,
    )


# --- as consumers write it --------------------------------------------------------------------------------------------


def blocked_property(blocked: Iterable[BlockedQueue]) -> dict[str, str]:
    """Return the property that reports blocked queues, or no property if there are none."""
    found = [one.as_dict() for one in blocked]
    return {BLOCKED_PROPERTY: json.dumps(found, ensure_ascii=False)} if found else {}


def in_progress_property(messages: Iterable[MessageInProgress]) -> dict[str, str]:
    """Return the property that reports messages in progress, or no property if there are none."""
    found = [msgspec.to_builtins(message) for message in messages]
    return {IN_PROGRESS_PROPERTY: json.dumps(found)} if found else {}


def idle_caller_property(since: float | None) -> dict[str, str]:
    """Return the property that reports since when the caller has not polled; no property while it waits in a poll."""
    return {} if since is None else {IDLE_CALLER_PROPERTY: str(int(since * 1000))}


# --- as tools read it -------------------------------------------------------------------------------------------------


class _BlockedRow(Struct, frozen=True, kw_only=True):
    """The fields that `BlockedQueue.as_dict` writes."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    since: datetime
    times: int
    cause: str


def blocked_queues(info: ConsumerRunningInfo) -> dict[MessageQueue, BlockedQueue]:
    """Return the blocked queues that a consumer reports; only PyroMQ's consumers report them."""
    found = {}
    for row in _rows(info, BLOCKED_PROPERTY, list[_BlockedRow]):
        queue = MessageQueue(row.topic, row.broker_name, row.queue_id)
        found[queue] = BlockedQueue(
            queue=queue,
            message_id=row.message_id,
            queue_offset=row.queue_offset,
            since=row.since,
            times=row.times,
            cause=row.cause,
        )
    return found


def messages_in_progress(info: ConsumerRunningInfo) -> dict[MessageQueue, MessageInProgress]:
    """Return the messages in progress that a consumer reports; only PyroMQ's consumers report them."""
    return {message.queue: message for message in _rows(info, IN_PROGRESS_PROPERTY, list[MessageInProgress])}


def idle_caller_since_ms(info: ConsumerRunningInfo) -> int:
    """Return since when a polling consumer has not been polled; 0 if it waits for messages or does not report it."""
    text = info.properties.get(IDLE_CALLER_PROPERTY, "")
    return int(text) if text.isdecimal() else 0


def _rows(info: ConsumerRunningInfo, name: str, kind: type[list[T]]) -> list[T]:
    try:
        return msgspec.json.decode(info.properties.get(name, "[]"), type=kind)
    except UNREADABLE:  # written by another release, or by another product
        return []
