"""SendResult: what a send returns to its caller."""

from __future__ import annotations

from enum import StrEnum

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
    """Where a message was stored.

    Hooks see one for a whole batch: its ids are joined by commas, and the offset is that of the first message.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int


def results_of_batch(result: SendResult) -> list[SendResult]:
    """Return a result for each message of a batch, in their order: brokers store them one behind the other."""
    places = result.offset_message_id.split(",")
    return [
        SendResult(
            result.status,
            message_id,
            places[number] if number < len(places) else "",
            result.queue,
            result.queue_offset + number,
        )
        for number, message_id in enumerate(result.message_id.split(","))
    ]


class TransactionResult(SendResult, frozen=True, gc=True):  # an exception may be part of a cycle
    """Where a half message was stored, and how its transaction ended, as far as the producer knows."""

    state: TransactionState
    error: BaseException | None = None
    """What the local transaction raised; its state is then UNKNOWN."""
