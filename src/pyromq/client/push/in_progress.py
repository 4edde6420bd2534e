"""The head of a queue inside a consumer: its lowest message that is not done, and since when the listener has it.

The committed offset stays before it, however many later ones are done: one slow message holds back a queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Struct

from pyromq.client.consume.blocked_queues import BLOCKED_PROPERTY, BlockedQueue
from pyromq.client.push.workers import Job
from pyromq.protocol.bodies import ConsumerRunningInfo
from pyromq.protocol.messages.message import MessageQueue

T = TypeVar("T")

HEADS_PROPERTY = "PYROMQ_HEADS"
"""Of a consumer's running info: a JSON list of its queues whose head is with the listener."""

AWAY_PROPERTY = "PYROMQ_AWAY_SINCE"
"""Of a polling consumer's running info: since when, in milliseconds, its caller has not polled."""


class MessageInProgress(Struct, frozen=True, kw_only=True):
    """A message that its listener has."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    since_ms: int

    @property
    def queue(self) -> MessageQueue:
        """Where it comes from."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


def as_property(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the property that tells tools which heads are being worked on; none if there are none."""
    found = [msgspec.to_builtins(head) for job in jobs if (head := _head(job)) is not None]
    return {HEADS_PROPERTY: json.dumps(found)} if found else {}


def _head(job: Job) -> MessageInProgress | None:
    held = job.held
    for message in job.messages if job.listening else ():
        if message.queue_offset == held.settled:
            return MessageInProgress(
                **held.queue._asdict(),
                queue_offset=message.queue_offset,
                message_id=message.message_id,
                since_ms=int(job.started * 1000),
            )
    return None


def away_property(since: float | None) -> dict[str, str]:
    """Return the property that tells tools since when the caller of a polling consumer has not come back."""
    return {} if since is None else {AWAY_PROPERTY: str(int(since * 1000))}


# --- as tools read it ------------------------------------------------------------------------------------------------


class _BlockedRow(Struct, frozen=True, kw_only=True):
    """What `BlockedQueue.as_dict` writes."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    since: datetime
    times: int
    cause: str


def messages_in_progress(info: ConsumerRunningInfo) -> dict[MessageQueue, MessageInProgress]:
    """Return the heads that a consumer says its listener has; only ours say so."""
    return {head.queue: head for head in _rows(info, HEADS_PROPERTY, list[MessageInProgress])}


def away_since_ms(info: ConsumerRunningInfo) -> int:
    """Return since when a polling consumer of ours has not been polled, 0 if it waits for messages or does not say."""
    text = info.properties.get(AWAY_PROPERTY, "")
    return int(text) if text.isdecimal() else 0


def blocked_of(info: ConsumerRunningInfo) -> dict[MessageQueue, BlockedQueue]:
    """Return the orderly queues that a consumer says a failing message holds up; only ours say so."""
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


def _rows(info: ConsumerRunningInfo, name: str, kind: type[list[T]]) -> list[T]:
    try:
        return msgspec.json.decode(info.properties.get(name, "[]"), type=kind)
    except msgspec.DecodeError:  # of another release, or not ours at all
        return []
