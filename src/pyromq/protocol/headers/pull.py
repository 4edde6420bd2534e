"""Headers for reading messages: by queue offset, by key, by physical offset."""

from __future__ import annotations

from typing import Final

from msgspec import field

from pyromq.protocol.headers import I32, I64, Header

MAX_PULL_BYTES: Final = 8 << 20
"""Bytes of an answer, at most, to a request that sets `pyromq_max_bytes`."""
MAX_PULL_QUEUES: Final = 256
"""Queues that PULL_QUEUES may name."""


class PullMessageRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """PULL_MESSAGE (11), with two fields of PyroMQ's own: `pyromq_max_bytes` replaces the broker's default limits.

    `pyromq_deleted_at` tells topics of one name apart: where the broker's log ended when the last one was deleted, as
    far as the client knows. A client that does not know asks with -1.
    """

    consumer_group: str
    topic: str
    queue_id: I32
    queue_offset: I64
    max_msg_nums: I32
    sys_flag: I32
    commit_offset: I64
    suspend_timeout_millis: I64
    subscription: str | None = None
    sub_version: I64
    expression_type: str | None = None
    broker_name: str | None = field(default=None, name="bname")
    pyromq_max_bytes: I64 | None = None
    pyromq_deleted_at: I64 | None = None

    @property
    def max_bytes(self) -> int | None:
        """The most bytes that the client wants, as far as that is allowed; None if the broker decides."""
        wanted = self.pyromq_max_bytes
        return min(wanted, MAX_PULL_BYTES) if wanted is not None and wanted > 0 else None


class PullMessageResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The answer to a pull, with or without messages; `pyromq_deleted_at` is for those who ask, 0 is left out."""

    suggest_which_broker_id: I64
    next_begin_offset: I64
    min_offset: I64
    max_offset: I64
    pyromq_deleted_at: I64 | None = None


class PullQueuesRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """PULL_QUEUES (30020): messages of several queues; `ranges` are `queue:start:stop`, separated by commas."""

    consumer_group: str
    topic: str
    ranges: str
    subscription: str | None = None
    max_msg_nums: I32
    max_bytes: I64


class PullQueuesResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The answer to PULL_QUEUES; offsets are in the order of `ranges`, separated by commas.

    The body has the messages in the order of the log, then the size of each in four bytes.
    """

    count: I32
    suggest_which_broker_id: I64
    next_offsets: str
    min_offsets: str
    max_offsets: str


class QueryMessageRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """QUERY_MESSAGE (12): by key, or by unique key.

    `pyromq_before` asks for messages before an offset of the log: the ones that follow an earlier answer.
    """

    topic: str
    key: str
    max_num: I32
    begin_timestamp: I64
    end_timestamp: I64
    unique_key_query: bool = field(default=False, name="_UNIQUE_KEY_QUERY")
    pyromq_before: I64 | None = None


class QueryMessageResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The end of the key index; the messages are in the body."""

    index_last_update_timestamp: I64
    index_last_update_phyoffset: I64


class ViewMessageByIdRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """VIEW_MESSAGE_BY_ID (33); `offset` is the message's physical offset."""

    offset: I64
