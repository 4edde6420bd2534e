"""What holds up an orderly queue: one message that its listener does not take, while the others wait behind it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from pyromq.protocol.messages.message import MessageExt, MessageQueue

logger = logging.getLogger(__name__)

BLOCKED_PROPERTY = "PYROMQ_BLOCKED"
"""Of a consumer's running info: a JSON list of its queues that are held up."""


class BlockedQueue(Struct, frozen=True, kw_only=True):
    """A queue that does not go on, since when and because of which message."""

    queue: MessageQueue
    message_id: str
    queue_offset: int
    since: datetime
    times: int
    """How often the listener has failed with it."""
    cause: str

    def as_dict(self) -> dict[str, object]:
        """Return it with the names that commands show."""
        return {
            **self.queue._asdict(),
            "queue_offset": self.queue_offset,
            "message_id": self.message_id,
            "since": self.since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "times": self.times,
            "cause": self.cause,
        }


def blocked_by(
    message: MessageExt, queue: MessageQueue, cause: str, now: float, before: BlockedQueue | None
) -> BlockedQueue:
    """Return what holds up a queue now; the first failure of a message is logged, the others are only counted."""
    since, times = datetime.fromtimestamp(now, UTC), 0
    if before is not None and before.queue_offset == message.queue_offset:
        since, times = before.since, before.times
    else:
        logger.warning(
            "queue=%d of topic=%s on broker=%s is blocked by message=%s at offset=%d, until its listener takes it: %s",
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


def blocked_property(blocked: Iterable[BlockedQueue]) -> dict[str, str]:
    """Return the property that tells tools of blocked queues; none if there are none."""
    found = [held_up.as_dict() for held_up in blocked]
    return {BLOCKED_PROPERTY: json.dumps(found, ensure_ascii=False)} if found else {}
