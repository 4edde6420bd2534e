"""What a send returns to its caller: a SendResult, or the promise of one (PendingResult)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field

from pyromq.lane.batches import producer_lane
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.message_id import IdRun


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


class Promise(Protocol):
    """What a sender has in its hand, a future of some kind: it is given the outcome once."""

    def done(self) -> bool: ...

    def set_result(self, result: SendResult, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...


class SharedOutcome(Struct, eq=False):
    """The outcome of messages that travel together, for those who wait for one and those who look at it later.

    Many never look, and few look before it is there. So only those who do have a future, and results are made when
    somebody looks at the first one.
    """

    waiting: list[tuple[int, Promise]] = field(default_factory=list)
    """Who waits for a result, each with the number of a message."""
    is_known: bool = False
    """Whether there is one of the following."""
    stored: tuple[SendResult, IdRun] | None = None
    """What results are made of: the one of the whole, and the ids of the messages."""
    results: list[SendResult] | None = None
    failure: asyncio.Future[None] | None = None
    """Has the error. If nobody ever looks at it, asyncio logs it, once for all messages."""

    def done(self) -> bool:
        """Return True if it is known."""
        return self.is_known

    def all(self) -> list[SendResult]:
        """Return a result for each message, or raise what went wrong."""
        if self.results is None:
            if self.failure is not None:
                self.failure.result()
            if self.stored is None:
                raise asyncio.InvalidStateError("the message is still on its way: await its result")
            whole, ids = self.stored
            place = whole.offset_message_id, whole.queue, whole.queue_offset
            self.results = producer_lane().spread(SendResult, whole.status, *place, *ids)
        return self.results

    def set_stored(self, whole: SendResult, ids: IdRun) -> None:
        """Note what the broker said about all of them."""
        self.stored, self.is_known = (whole, ids), True
        if self.waiting:
            self._tell(self.all())

    def set_result(self, result: SendResult, /) -> None:
        """Note the result of a message that travels alone."""
        self.results, self.is_known = [result], True
        self._tell(self.results)

    def _tell(self, results: list[SendResult]) -> None:
        waiting, self.waiting = self.waiting, []
        for number, promise in waiting:
            if not promise.done():
                promise.set_result(results[number])

    def set_exception(self, error: BaseException, /) -> None:
        """Note that none of them was stored, or that nobody knows."""
        self.failure = asyncio.get_running_loop().create_future()
        self.failure.set_exception(error)
        self.is_known = True
        waiting, self.waiting = self.waiting, []
        for _, promise in waiting:
            self.failure.exception()  # somebody sees it, or does not want to
            if not promise.done():
                promise.set_exception(error)


def alone() -> PendingResult:
    """Return the result of a message that travels alone; its outcome is a promise, and waits for being kept."""
    return PendingResult(SharedOutcome(), 0)


class PendingResult(Struct, frozen=True, eq=False, gc=False):
    """The result of a message that is on its way: `await` it, or look whether it is there.

    Whoever awaits it may be cancelled: the message is sent all the same, and others may await it too.
    """

    outcome: SharedOutcome
    number: int

    def done(self) -> bool:
        """Return True if the broker has answered, or the send has failed."""
        return self.outcome.is_known

    def result(self) -> SendResult:
        """Return the result, or raise the error of the send; raises asyncio.InvalidStateError if it is not `done`."""
        outcome = self.outcome
        return (outcome.results or outcome.all())[self.number]

    def tell(self, promise: Promise) -> None:
        """Give the outcome to a promise, now or when it is there."""
        outcome = self.outcome
        if not outcome.is_known:
            outcome.waiting.append((self.number, promise))
        elif outcome.failure is not None:
            promise.set_exception(outcome.failure.exception() or asyncio.CancelledError())
        else:
            promise.set_result(outcome.all()[self.number])

    def future(self) -> asyncio.Future[SendResult]:
        """Return a future of the result, a new one for each call."""
        future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        self.tell(future)
        return future

    def __await__(self) -> Generator[Any, None, SendResult]:
        return self.future().__await__()
