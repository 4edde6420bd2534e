"""What our own brokers tell each other."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pyromq.errors import RemoteProtocolError
from pyromq.protocol.bodies.clients import SubscriptionGroupConfig
from pyromq.protocol.bodies.routes import DataVersion, TopicConfig


class Epoch(Struct, frozen=True, array_like=True):
    """The time for which one broker was master, from the offset of the log at which it began."""

    number: int
    id: str
    start: int


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


class TableMarks(Struct, frozen=True):
    """How far a slave has followed each table."""

    topics: int = 0
    groups: int = 0
    offsets: int = 0


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
