"""What our own brokers say about the activity of all topics and groups at once: for `pyromq top` and `check`."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from pyromq.errors import RemoteProtocolError
from pyromq.protocol.bodies.clients import MessageModel

T = TypeVar("T")


class TopicActivity(Struct, frozen=True, array_like=True):
    """What a broker counted of one topic."""

    puts: int
    """Messages stored since the broker started."""
    put_bytes: int
    rate: float
    """Messages stored a second, in the last minute."""
    held: int | None = None
    """Messages in its queues; only of topics with dead letters."""


class GroupActivity(Struct, frozen=True, array_like=True):
    """How far one group is at a broker."""

    members: tuple[str, ...]
    """The ids of the clients that are online."""
    model: MessageModel | None
    """None if no member is online."""
    lag: int
    """Messages that wait for it in all queues; of a broadcasting group the broker does not know."""
    oldest_ms: int | None
    """When the first of them was stored; None if none waits, or it could not be read."""
    gets: int
    """Messages delivered to it since the broker started."""
    rate: float
    """Messages delivered to it a second, in the last minute."""
    topics: tuple[str, ...] = ()
    """What its members subscribe to; without members, the topics that it has offsets of."""


class TopicActivities(Struct, frozen=True):
    """Topics of a broker, by name (TOPIC_ACTIVITY)."""

    topics: dict[str, TopicActivity]


class GroupActivities(Struct, frozen=True):
    """All groups of a broker, by name (GROUP_ACTIVITY)."""

    now_ms: int
    """The broker's clock."""
    groups: dict[str, GroupActivity]


def encode_activity(body: TopicActivities | GroupActivities) -> bytes:
    """Write activity."""
    return msgspec.json.encode(body)


def decode_activity(kind: type[T], data: bytes) -> T:
    """Read activity; raises RemoteProtocolError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"{kind.__name__}: {error}") from None
