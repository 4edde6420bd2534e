"""TransactionProducer: consumers receive its messages if and only if the local transactions commit."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Unpack

from pyromq.client.config import ProducerOptions
from pyromq.client.hooks import EndContext
from pyromq.client.listener.outcomes import ROLLBACK
from pyromq.client.net.publish_info import Select
from pyromq.client.send.delivery import Delivery
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.local_transactions import (
    LocalTransactions,
    TransactionFunction,
    TransactionOutcome,
)
from pyromq.client.send.prepare import PreparedMessage
from pyromq.client.send.producer import Producer
from pyromq.client.send.transaction_session import TransactionSession
from pyromq.client.send_result import SendResult, SendStatus, TransactionResult
from pyromq.clock import wait_for
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.headers.transactions import EndTransactionRequestHeader
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.protocol.messages.message_id import decode_offset_id
from pyromq.protocol.messages.record import TRANSACTION_PREPARED

logger = logging.getLogger(__name__)


class TransactionProducer(Producer):
    """Sends messages with a local transaction: consumers receive a message if and only if the transaction commits.

    >>> async def pay(message: MessageExt) -> TransactionState:      # the local transaction
    ...     return COMMIT if await database.pay(message.keys[0]) else ROLLBACK
    >>> async def was_paid(message: MessageExt) -> TransactionState:  # asked if the broker heard nothing
    ...     return COMMIT if await database.is_paid(message.keys[0]) else ROLLBACK
    >>> async with TransactionProducer("payers", "127.0.0.1:9876", check=was_paid) as producer:
    ...     await producer.send_in_transaction(Message(topic="payments", body=b"...", keys=["o-1"]), pay)

    Brokers ask any producer of the group, also one that was started after another crashed. So `check` must look at what
    the local transaction left behind, and return UNKNOWN only while it may still be running. Both functions may be
    async or plain; plain ones run on threads. All options of a Producer apply.

    `close` waits for running transactions, but no longer than `send_timeout`; `check` decides the rest.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        check: TransactionFunction,
        **options: Unpack[ProducerOptions],
    ) -> None:
        if not callable(check):
            raise ClientError("check= must be a function that says how a transaction ended")
        super().__init__(group, namesrv, **options)
        self._check = check
        self._under_way = InFlightLimit(sys.maxsize, sys.maxsize)  # unbounded: local transactions may send messages

    def _make_session(self) -> TransactionSession:
        return TransactionSession(
            self._settings, self._preparer, self._in_flight, self._clock, self._tracing, self._spans, self._check
        )

    @property
    def _transactions(self) -> TransactionSession:
        session = self._session
        assert isinstance(session, TransactionSession)
        return session

    async def _close(self, *, failed: bool) -> None:
        try:
            with suppress(TimeoutError):  # the running ones may still send
                await wait_for(self._clock, self._under_way.idle(), self._send_timeout)
        finally:
            await super()._close(failed=failed)

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send_in_transaction(
        self,
        message: Message,
        execute: TransactionFunction,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        select: Select | None = None,
        immunity: timedelta | float | None = None,
        timeout: float | None = None,
    ) -> TransactionResult:
        """Store a message that consumers do not see yet, run the local transaction, and tell the broker how it ended.

        `execute` gets the message with its id, as `check` does. If it raises or returns None, the state is UNKNOWN and
        the broker asks `check`, but not before `immunity` has passed (6 s by default). If the message is stored less
        safely than requested, `execute` is not called and the state is ROLLBACK. If nothing is stored, this raises the
        errors of `send`.

        The broker is told once and does not answer. If that is lost, or this call is cancelled, it asks `check`.
        """
        sending = self._send_in_transaction(message, execute, order_key, queue, select, immunity, timeout)
        return await (sending if self._spans is None else self._spans.around([message], sending, "transaction"))

    async def _send_in_transaction(
        self,
        message: Message,
        execute: TransactionFunction,
        order_key: str | None,
        queue: MessageQueue | None,
        select: Select | None,
        immunity: timedelta | float | None,
        timeout: float | None,
    ) -> TransactionResult:
        session = self._transactions
        delivery = session.delivery
        prepared = self._preparer.prepare(message, order_key, self._system_properties(immunity))
        prepared.sys_flag |= TRANSACTION_PREPARED
        await self._under_way.enter(0)
        try:
            chosen = await self._prepare(delivery, message, prepared, order_key, queue, select)
            stored = await self._send_half(delivery, prepared, chosen, timeout)
            outcome = await _carry_out(session.local, execute, message, prepared, stored)
            await self._end(delivery, prepared, stored, outcome)
        finally:
            self._under_way.leave(0)
        return _result(stored, outcome)

    async def _send_half(
        self, delivery: Delivery, prepared: PreparedMessage, queue: MessageQueue | None, timeout: float | None
    ) -> SendResult:
        timeout = self._send_timeout if timeout is None else timeout
        size = len(prepared.body)
        await self._in_flight.enter(size)
        try:
            if queue is None:
                return await delivery.send_anywhere(prepared, timeout)
            return await delivery.send_to(queue, prepared, timeout)
        finally:
            self._in_flight.leave(size)

    def _system_properties(self, immunity: timedelta | float | None) -> dict[str, str]:
        properties = {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: self.group}
        if immunity is not None:
            seconds = immunity.total_seconds() if isinstance(immunity, timedelta) else immunity
            properties[names.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(max(0, round(seconds)))
        return properties

    async def _prepare(
        self,
        delivery: Delivery,
        message: Message,
        prepared: PreparedMessage,
        order_key: str | None,
        queue: MessageQueue | None,
        select: Select | None,
    ) -> MessageQueue | None:
        """Prepare a half message; return its queue, None if any queue will do."""
        await self._preparer.compress(prepared)
        await delivery.announce(prepared.topic)  # otherwise the broker could not ask
        if order_key is None and queue is None and select is None:
            return None
        return await delivery.choose(message, prepared.topic, order_key=order_key, queue=queue, select=select)

    async def _end(
        self, delivery: Delivery, half: PreparedMessage, stored: SendResult, outcome: TransactionOutcome
    ) -> None:
        queue = stored.queue._replace(topic=half.topic)
        header = EndTransactionRequestHeader(
            producer_group=self.group,
            tran_state_table_offset=stored.queue_offset,
            commit_log_offset=decode_offset_id(stored.offset_message_id)[1],
            commit_or_rollback=outcome.state,
            msg_id=stored.message_id,
            transaction_id=stored.message_id,
        )
        address = delivery.instance.routes.master(queue.broker_name) or ""
        delivery.run_end_hooks(
            EndContext(
                group=self.group,
                message=half.source,
                message_id=stored.message_id,
                address=address,
                state=outcome.state,
                from_check=False,
            )
        )
        try:
            await delivery.end_transaction(queue, header, outcome.cause, self._send_timeout)
        except PyroMQError as error:
            logger.warning(
                "could not tell the broker how the transaction of message=%s ended; it will ask: %s",
                stored.message_id,
                error,
            )


async def _carry_out(
    local: LocalTransactions,
    execute: TransactionFunction,
    message: Message,
    prepared: PreparedMessage,
    stored: SendResult,
) -> TransactionOutcome:
    if stored.status is SendStatus.SEND_OK:
        return await local.run(execute, _half(message, prepared, stored))
    return TransactionOutcome(ROLLBACK, f"the half message was stored with {stored.status}")


def _result(stored: SendResult, outcome: TransactionOutcome) -> TransactionResult:
    return TransactionResult(
        stored.status,
        stored.message_id,
        stored.offset_message_id,
        stored.queue,
        stored.queue_offset,
        outcome.state,
        outcome.error,
    )


def _half(message: Message, prepared: PreparedMessage, stored: SendResult) -> MessageExt:
    """Return the half message as `check` would get it."""
    return MessageExt(
        topic=message.topic,
        stored_body=message.body,
        raw_properties=prepared.properties.encode(),
        broker_name=stored.queue.broker_name,
        queue_id=stored.queue.queue_id,
        flag=message.flag,
        queue_offset=stored.queue_offset,
        born_timestamp_ms=prepared.born_timestamp_ms,
        physical_offset=decode_offset_id(stored.offset_message_id)[1],
        raw_store_host=bytes.fromhex(stored.offset_message_id)[:-8],
    )
