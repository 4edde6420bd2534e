"""Headers about the offsets of queues and the committed offsets of groups."""

from __future__ import annotations

from msgspec import field

from pyromq.protocol.headers import I32, I64, Header


class _QueueRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    topic: str
    queue_id: I32
    broker_name: str | None = field(default=None, name="bname")


class _OffsetResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    offset: I64


class QueryConsumerOffsetRequestHeader(_QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_CONSUMER_OFFSET (14)."""

    consumer_group: str


class QueryConsumerOffsetResponseHeader(_OffsetResponseHeader, frozen=True, kw_only=True, gc=False):
    """The committed offset, and in which life of its topic: see PullMessageRequestHeader. 0 is left out."""

    pyromq_deleted_at: I64 | None = None


class UpdateConsumerOffsetRequestHeader(_QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """UPDATE_CONSUMER_OFFSET (15); `pyromq_forward` is PyroMQ's own: see PULL_FORWARD_FLAG.

    So is `pyromq_reset`: an operator moves the group, and nobody has consumed that far. And so is `pyromq_deleted_at`:
    in which life of the topic this was consumed, see PullMessageRequestHeader. A slave passes on what was committed
    there with `pyromq_last_reset`: the id of the last reset of the group that it has heard of.
    """

    consumer_group: str
    commit_offset: I64
    pyromq_forward: bool | None = None
    pyromq_reset: bool | None = None
    pyromq_deleted_at: I64 | None = None
    pyromq_last_reset: str | None = None


class SearchOffsetByTimestampRequestHeader(_QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """SEARCH_OFFSET_BY_TIMESTAMP (29); `timestamp` in milliseconds."""

    timestamp: I64


class SearchOffsetByTimestampResponseHeader(_OffsetResponseHeader, frozen=True, kw_only=True, gc=False):
    """The queue offset of the message stored nearest to that time."""


class GetMaxOffsetRequestHeader(_QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_MAX_OFFSET (30)."""


class GetMaxOffsetResponseHeader(_OffsetResponseHeader, frozen=True, kw_only=True, gc=False):
    """The queue offset of the next message to be stored."""


class GetMinOffsetRequestHeader(_QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_MIN_OFFSET (31)."""


class GetMinOffsetResponseHeader(_OffsetResponseHeader, frozen=True, kw_only=True, gc=False):
    """The first queue offset that is not deleted."""


class GetEarliestMsgStoretimeRequestHeader(_QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_EARLIEST_MSG_STORETIME (32)."""


class GetEarliestMsgStoretimeResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """When the first message of the queue was stored, in milliseconds; -1 if there is none."""

    timestamp: I64
