"""What sends and pulls come back with."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from msgspec import Struct

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import MessageQueue


class SendStatus(StrEnum):
    """How safely a message was stored; all four mean that the broker has it."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


SEND_STATUSES: dict[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(Struct, frozen=True, gc=False):
    """Where a message was stored. For a batch the ids are joined by commas and the offset is the first message's."""

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int


class TransactionResult(SendResult, frozen=True, gc=True):  # an exception may be part of a cycle
    """Where the first half of a transaction was stored, and how the transaction ended as far as is known here."""

    state: TransactionState
    error: Exception | None = None
    """What the local transaction raised; its state is then UNKNOWN."""


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


class BrokerIdentity(Struct, frozen=True):
    """What a broker tells of itself when it answers a heartbeat."""

    version: int
    pyromq: str | None
    """Its release if it is PyroMQ's, None for Apache's."""
