"""What our own brokers tell each other."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pyromq.errors import RemoteProtocolError


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


def encode_state(state: ReplicationState) -> bytes:
    """Write a state."""
    return msgspec.json.encode(state)


def decode_state(data: bytes) -> ReplicationState:
    """Read a state; raises RemoteProtocolError."""
    try:
        return msgspec.json.decode(data, type=ReplicationState)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"not the state of a log: {error}") from None
