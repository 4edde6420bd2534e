"""Headers for messages that are delivered at a given time."""

from __future__ import annotations

from msgspec import field

from pyromq.protocol.headers import I32, I64, Header


class RecallMessageRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """RECALL_MESSAGE (370), from RocketMQ 5: cancel a waiting message. The last field is ours and saves a search."""

    producer_group: str | None = None
    topic: str
    recall_handle: str
    broker_name: str | None = field(default=None, name="bname")
    pyromq_offset_msg_id: str | None = None


class RecallMessageResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The producer's id of the cancelled message."""

    msg_id: str


class ListTimedMessagesRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """LIST_TIMED_MESSAGES (30001): waiting messages by due time, after the one with this due time and offset."""

    topic: str | None = None
    after_ms: I64 = -1
    after_offset: I64 = -1
    max_num: I32 = 32


class ListTimedMessagesResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """Where the next page starts; the body holds the waiting messages as stored records."""

    next_ms: I64
    next_offset: I64
    is_last: bool = False
    count: I64 = 0
    """The number of messages waiting on this broker, of all topics."""
