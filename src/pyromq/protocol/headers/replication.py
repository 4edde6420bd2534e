"""Headers of requests between our own brokers."""

from __future__ import annotations

from pyromq.protocol.headers import I32, I64, Header


class ReadLogRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """READ_LOG (30031): bytes of the log, as they are."""

    offset: I64
    length: I32


class PromoteBrokerRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """PROMOTE_BROKER (30033): an operator wants this slave to be master."""

    force: bool = False
    """Also if its master cannot be asked to step down."""


class StepDownRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """STEP_DOWN (30034): a slave that is about to become master, or has become it, tells the others of its name."""

    step: str
    """PREPARE, DONE, GIVE_UP or FOLLOW; see `pyromq.broker.replication.handover`."""
    broker_id: I32
    """The id of that slave, which is free once it is master."""
    address: str
    """Where it is reached."""
    store: str
    """The id of its store's directory."""
    epoch: I64
    """The number of the epoch that it begins; 0 if it has not begun."""
    patience_ms: I32
    """For how long the master waits for it, from the moment at which it was asked."""


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
    filters: I64 = 0
    locks: I64 = 0
    delays: I64 = 0
