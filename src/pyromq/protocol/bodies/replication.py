"""What our own brokers tell each other."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from pyromq.errors import RemoteProtocolError
from pyromq.protocol.bodies.clients import ConsumerFilterData, SubscriptionGroupConfig
from pyromq.protocol.bodies.routes import DataVersion, TopicConfig

T = TypeVar("T")


class Epoch(Struct, frozen=True, array_like=True):
    """The time for which one broker was master, from the offset of the log at which it began."""

    number: int
    id: str
    start: int


class SlaveState(Struct, frozen=True, kw_only=True):
    """A slave, as its master sees it."""

    broker_id: int
    """-1 if it did not say, as Apache's."""
    address: str
    """Where its connection comes from."""
    acknowledged: int
    """Up to where it has the log."""
    has_caught_up: bool
    """Whether it has had the whole log once."""
    behind_seconds: float = 0.0
    """The age of the oldest byte that it lacks; 0 if it lacks none."""


class FollowerState(Struct, frozen=True, kw_only=True):
    """How a slave follows its master."""

    master: str
    """The address of the master that it follows, or last tried to; empty if it knows of none."""
    is_connected: bool
    problem: str = ""
    """Why it does not follow; empty if it does, or nothing is known yet."""
    master_end: int = 0
    """Where the master's log ended when it last said so."""
    silent_seconds: float = 0.0
    """For how long nothing was heard of the master."""


class LastFailover(Struct, frozen=True, kw_only=True):
    """A change of masters."""

    at_ms: int
    took_ms: int
    epoch: int
    how: str
    """`handover`, `forced` or `elected`."""


class BrokerProblem(Struct, frozen=True, kw_only=True):
    """Something that is wrong with a broker, in its own words."""

    cause: str
    """One word for machines, such as disk_full."""
    text: str
    advice: str = ""
    stops_messages: bool = False


class ReplicationState(Struct, frozen=True, kw_only=True):
    """How a broker's log stands (REPLICATION_STATE)."""

    name: str
    broker_id: int
    store: str
    """The id of the directory."""
    is_master: bool
    epochs: list[Epoch]
    min_offset: int
    max_offset: int
    flushed_offset: int
    file_size: int
    ha_address: str
    """Where slaves connect to it."""
    role: str = ""
    """ASYNC_MASTER, SYNC_MASTER or SLAVE: what it is now. Empty from a broker that does not say."""
    version: str = ""
    """The release of PyroMQ that it runs."""
    slaves: list[SlaveState] = []
    """Of a master: the slaves that are connected to it."""
    in_sync: list[str] = []
    """Of a master: which slaves an acknowledgement can rely on, as ids; the members of the set under failover."""
    follows: FollowerState | None = None
    """Of a slave: how it follows its master."""
    last_failover: LastFailover | None = None
    """When this broker last became master while it ran; None if it has not."""
    problems: list[BrokerProblem] = []
    """What is wrong with it at the moment."""


class TableMarks(Struct, frozen=True):
    """How far a slave has followed each table."""

    topics: int = 0
    groups: int = 0
    offsets: int = 0
    filters: int = 0
    locks: int = 0
    delays: int = 0

    def includes(self, other: TableMarks) -> bool:
        """Return True if all changes up to the other marks are within these; the delay levels, which may lag, aside."""
        return (
            self.topics >= other.topics
            and self.groups >= other.groups
            and self.offsets >= other.offsets
            and self.filters >= other.filters
            and self.locks >= other.locks
        )


class QueueLock(Struct, frozen=True, array_like=True):
    """Who consumes a queue in order."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    owner: str
    """The client's id; empty if the queue is free."""


class DelayLevels(Struct, frozen=True):
    """The next entry to deliver of each delay level, and from where on the log may hold deliveries not counted."""

    offsets: dict[int, int]
    log_offset: int | None = None


class ChangedTables(Struct, frozen=True, kw_only=True):
    """Rows of a master's tables that are new, different or gone (TABLE_CHANGES)."""

    session: str
    marks: TableMarks
    is_whole: bool
    """Whether these are all rows, in pieces: what none of them names is gone."""
    has_more: bool = False
    topics: dict[str, TopicConfig] = {}
    topics_removed: dict[str, int] = {}
    """Deleted topics, each with the end of the log when it was deleted; 0 if that is not known any more."""
    topics_version: DataVersion = DataVersion()
    groups: dict[str, SubscriptionGroupConfig] = {}
    groups_removed: list[str] = []
    groups_version: DataVersion = DataVersion()
    offsets: dict[str, dict[int, int]] = {}
    offsets_removed: list[str] = []
    offset_resets: dict[str, str] = {}
    """The id of the last time that an offset of a row went back, or was deleted; of rows that are gone, too."""
    filters: list[ConsumerFilterData] = []
    filters_removed: list[tuple[str, str]] = []
    """Topic and group."""
    locks: list[QueueLock] = []
    delays: DelayLevels | None = None
    log_start: int = 0
    log_end: int = 0
    """Where the master's log begins, and where it ends: progress counts what was delivered before that."""


def encode_tables(tables: ChangedTables) -> bytes:
    """Write changed rows."""
    return msgspec.json.encode(tables)


def decode_tables(data: bytes) -> ChangedTables:
    """Read changed rows; raises RemoteProtocolError."""
    try:
        return msgspec.json.decode(data, type=ChangedTables)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"no rows of tables: {error}") from None


def encode_state(state: ReplicationState) -> bytes:
    """Write a state."""
    return msgspec.json.encode(state)


def decode_state(data: bytes) -> ReplicationState:
    """Read a state; raises RemoteProtocolError."""
    try:
        return msgspec.json.decode(data, type=ReplicationState)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"not the state of a log: {error}") from None


class SteppedDown(Struct, frozen=True, kw_only=True):
    """The answer to STEP_DOWN."""

    is_master: bool
    """Whether the broker that answers still leads, and goes on."""
    epoch: int
    """The number of the last epoch that it knows."""
    end: int
    """Where its log ends."""


class Promotion(Struct, frozen=True, kw_only=True):
    """What PROMOTE_BROKER has done."""

    epoch: int
    start: int
    """The offset of the log at which the epoch begins."""
    role: str
    """ASYNC_MASTER or SYNC_MASTER."""
    took_ms: int
    is_forced: bool
    """Whether the old master did not hand over."""
    old_master: str
    """Its address; empty if none was known."""
    old_master_told: bool
    """Whether it knows that it is no master any more."""
    behind_bytes: int = 0
    """How much of the old master's log, as last heard of, is missing; 0 after a handover."""
    untold: list[str] = []
    """Other slaves that could not be told to leave the old master, by address."""


def encode_answer(answer: SteppedDown | Promotion) -> bytes:
    """Write an answer about a change of masters."""
    return msgspec.json.encode(answer)


def decode_stepped_down(data: bytes) -> SteppedDown:
    """Read the answer to STEP_DOWN; raises RemoteProtocolError."""
    return _decode(data, SteppedDown)


def decode_promotion(data: bytes) -> Promotion:
    """Read the answer to PROMOTE_BROKER; raises RemoteProtocolError."""
    return _decode(data, Promotion)


def _decode(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"not a {kind.__name__}: {error}") from None
