"""Brokers' answers as values: to a send, a pull, a query by key and a heartbeat."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from pyromq.client.send_result import SendStatus
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.messages.message import MessageExt


class SendAnswer(Struct, frozen=True, gc=False):
    """A broker's answer to a send that it stored."""

    status: SendStatus
    offset_message_id: str
    queue_id: int
    queue_offset: int


class PullStatus(IntEnum):
    """What a pull found; the values are the answer's codes."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MESSAGE = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MESSAGE = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_MOVED = ResponseCode.PULL_OFFSET_MOVED


class PullAnswer(Struct, frozen=True, gc=False):
    """A broker's answer to a pull; the body holds stored records, back to back."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    body: bytes
    deleted_at: int = 0
    """Where the broker's log ended when a topic of this name was last deleted, for a pull that asks; 0 if never."""


class CommittedOffset(Struct, frozen=True, gc=False):
    """What a group has committed of a queue."""

    offset: int | None
    """None if there is none."""
    deleted_at: int | None = None
    """Where the broker's log ended when a topic of this name was last deleted; 0 if never, None if that is unknown."""
    is_sure: bool = True
    """Whether the master says so: a slave may have an older one."""


class KeyPage(Struct, frozen=True):
    """A broker's answer to a query by key, in the order of its log."""

    messages: list[MessageExt]
    """Those with the key."""
    found: list[MessageExt]
    """All, those with another key of the same hash too: the next older ones lie before all of them."""


class BrokerIdentity(Struct, frozen=True):
    """Who a broker is, by its answer to a heartbeat."""

    version: int
    pyromq: str | None
    """Its release if it is PyroMQ's, None for Apache's."""
