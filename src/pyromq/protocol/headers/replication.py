"""Headers of requests between our own brokers."""

from __future__ import annotations

from pyromq.protocol.headers import I32, I64, Header


class ReadLogRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """READ_LOG (30031): bytes of the log, as they are."""

    offset: I64
    length: I32


class TableChangesRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """TABLE_CHANGES (30032): what has changed in the tables since the marks of the last answer.

    It is held until something has. The marks also say what the slave has saved.
    """

    broker_id: I64
    session: str
    """Names the run of the master that gave the marks; of another run they mean nothing."""
    topics: I64
    groups: I64
    offsets: I64
    filters: I64
    suspend_ms: I32
