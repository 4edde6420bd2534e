"""Headers of requests between our own brokers."""

from __future__ import annotations

from pyromq.protocol.headers import I32, I64, Header


class ReadLogRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """READ_LOG (30031): bytes of the log, as they are."""

    offset: I64
    length: I32


class TableChangesRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """TABLE_CHANGES (30032): what changed in the tables since the marks of the last answer; held until something has.

    The marks also say what the slave has taken over.
    """

    broker_id: I64
    session: str
    """Names the master that gave the marks. To one that is not named, another slave is a new one: it gets all rows."""
    piece: I32
    """Which piece of all rows is wanted."""
    topics: I64
    groups: I64
    offsets: I64
    suspend_ms: I32
