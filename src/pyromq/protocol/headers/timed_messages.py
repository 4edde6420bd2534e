"""Headers of messages that wait for a time."""

from __future__ import annotations

from msgspec import field

from pyromq.protocol.headers import I32, I64, Header


class RecallMessageRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """RECALL_MESSAGE (370), of RocketMQ 5: cancel what waits; the last field is ours, and quicker than a search."""

    producer_group: str | None = None
    topic: str
    recall_handle: str
    broker_name: str | None = field(default=None, name="bname")
    pyromq_offset_msg_id: str | None = None


class RecallMessageResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """What was cancelled, by its producer's id."""

    msg_id: str


class ListTimedMessagesRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """LIST_TIMED_MESSAGES (30001): what waits, in order of its time, after a message that is due then and is there."""

    topic: str | None = None
    after_ms: I64 = -1
    after_offset: I64 = -1
    max_num: I32 = 32


class ListTimedMessagesResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """Where to go on; the body holds the waiting messages as they are stored."""

    next_ms: I64
    next_offset: I64
    is_last: bool = False
    count: I64 = 0
    """How many messages wait on this broker, of all topics."""
