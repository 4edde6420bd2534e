"""TransactionProducer: messages that consumers get only if a local transaction is committed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final, Unpack

from pyromq.client.background import Periodic
from pyromq.client.config import ProducerOptions
from pyromq.client.hooks import EndContext
from pyromq.client.net.address import DEFAULT_NAMESRV
from pyromq.client.net.instance import ClientInstance
from pyromq.client.net.publish_info import Select
from pyromq.client.push.outcomes import ROLLBACK
from pyromq.client.results import SendResult, SendStatus, TransactionResult
from pyromq.client.send.delivery import Delivery
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.local_transactions import (
    LocalTransactions,
    TransactionAnswers,
    TransactionFunction,
    TransactionOutcome,
    end_command,
)
from pyromq.client.send.prepare import PreparedMessage
from pyromq.client.send.producer import Producer
from pyromq.clock import wait_for
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.headers.transactions import EndTransactionRequestHeader
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.protocol.messages.message_id import decode_offset_id
from pyromq.protocol.messages.record import TRANSACTION_PREPARED
from pyromq.protocol.names import SELF_TEST_TOPIC, without_namespace

logger = logging.getLogger(__name__)

_MEETING_INTERVAL: Final = 30.0


class TransactionProducer(Producer):
    """Sends messages together with a local transaction: consumers get a message if that is committed, else never.

    >>> async def pay(message: MessageExt) -> TransactionState:      # the local transaction
    ...     return COMMIT if await database.pay(message.keys[0]) else ROLLBACK
    >>> async def was_paid(message: MessageExt) -> TransactionState:  # asked when the broker heard nothing
    ...     return COMMIT if await database.is_paid(message.keys[0]) else ROLLBACK
    >>> async with TransactionProducer("payers", "127.0.0.1:9876", check=was_paid) as producer:
    ...     await producer.send_in_transaction(Message(topic="payments", body=b"...", keys=["o-1"]), pay)

    Brokers ask any producer of the group, also one that was started after another died: `check` must find out from what
    the local transaction left behind, and say UNKNOWN only while that may still be under way. Both functions may be
    async or plain; plain ones run on threads. It takes the options of a Producer too.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] = DEFAULT_NAMESRV,
        *,
        check: TransactionFunction,
        **options: Unpack[ProducerOptions],
    ) -> None:
        if not callable(check):
            raise ClientError("check= must be a function that says how a transaction ended")
        super().__init__(group, namesrv, **options)
        self._check = check
        self._local: LocalTransactions | None = None
        self._answers: TransactionAnswers | None = None
        self._meeting: Periodic | None = None
        self._under_way = InFlightLimit(
            sys.maxsize, sys.maxsize
        )  # unbounded: local transactions may send messages themselves

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the producer; `async with` does it for you. Brokers may ask it about transactions from now on."""
        await super().start()
        local = self._local = LocalTransactions()
        self._answers = TransactionAnswers(self.group, partial(self._judge, local), self._delivery.tell_end)
        instance = self._delivery.instance
        instance.checks[self.group] = self._answers.ask
        self._meeting = Periodic("meeting brokers", self._clock, _MEETING_INTERVAL, partial(_meet_brokers, instance))
        self._meeting.start()
        try:
            await _meet_brokers(instance)
        except PyroMQError as error:
            logger.warning("no broker can ask about transactions yet: %s", error)
            self._meeting.wake()

    async def close(self) -> None:
        """Wait for the transactions that are under way, answer no more questions, and leave.

        One that takes longer than `send_timeout` from now on is left to `check`.
        """
        with suppress(TimeoutError):
            await wait_for(self._clock, self._under_way.idle(), self._send_timeout)
        if self._opened is not None:
            self._opened.instance.checks.pop(self.group, None)
        if self._answers is not None and self._meeting is not None:
            await self._meeting.stop()
            await self._answers.close()
        await super().close()
        if self._local is not None:
            self._local.close()

    async def _judge(self, local: LocalTransactions, message: MessageExt) -> TransactionOutcome:
        message.topic = without_namespace(message.topic, self._config.namespace)
        return await local.judge(self._check, message)

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
        """Store a message that no consumer sees, carry out the local transaction, and tell the broker how it ended.

        `execute` gets the message with its id, as `check` will. Its exception, or None, means UNKNOWN: the broker asks
        `check`, not before `immunity` has passed, by default 6 s. If the message is stored less safely than it should
        be, `execute` is not called and the state is ROLLBACK. Raises what `send` raises if nothing was stored.

        The broker is told once and does not answer; if that is lost, or this is cancelled, it asks `check`.
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
        delivery = self._delivery
        outgoing = self._outbox.prepare(message, order_key, self._system_properties(immunity))
        outgoing.sys_flag |= TRANSACTION_PREPARED
        await self._under_way.enter(0)
        try:
            chosen = await self._prepare(delivery, message, outgoing, order_key, queue, select)
            stored = await self._send_half(delivery, outgoing, chosen, timeout)
            judgement = await self._carry_out(execute, message, outgoing, stored)
            await self._end(delivery, outgoing, stored, judgement)
        finally:
            self._under_way.leave(0)
        return _result(stored, judgement)

    async def _send_half(
        self, delivery: Delivery, outgoing: PreparedMessage, queue: MessageQueue | None, timeout: float | None
    ) -> SendResult:
        timeout = self._send_timeout if timeout is None else timeout
        size = len(outgoing.body)
        await self._window.enter(size)
        try:
            if queue is None:
                return await delivery.send_anywhere(outgoing, timeout)
            return await delivery.send_to(queue, outgoing, timeout)
        finally:
            self._window.leave(size)

    async def _carry_out(
        self, execute: TransactionFunction, message: Message, outgoing: PreparedMessage, stored: SendResult
    ) -> TransactionOutcome:
        if stored.status is SendStatus.SEND_OK and self._local is not None:
            return await self._local.judge(execute, _half(message, outgoing, stored))
        return TransactionOutcome(ROLLBACK, f"the half message was stored with {stored.status}")

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
        outgoing: PreparedMessage,
        order_key: str | None,
        queue: MessageQueue | None,
        select: Select | None,
    ) -> MessageQueue | None:
        """Make a half message ready; return the queue it has to go to, None if any will do."""
        await self._outbox.compress(outgoing)
        await delivery.be_known(outgoing.topic)  # or the broker could not ask
        if order_key is None and queue is None and select is None:
            return None
        return await delivery.choose(message, outgoing.topic, order_key=order_key, queue=queue, select=select)

    async def _end(
        self, delivery: Delivery, half: PreparedMessage, stored: SendResult, judgement: TransactionOutcome
    ) -> None:
        instance = delivery.instance
        try:
            address = await instance.routes.find_master(stored.queue._replace(topic=half.topic))
            header = EndTransactionRequestHeader(
                producer_group=self.group,
                tran_state_table_offset=stored.queue_offset,
                commit_log_offset=decode_offset_id(stored.offset_message_id)[1],
                commit_or_rollback=judgement.state,
                msg_id=stored.message_id,
                transaction_id=stored.message_id,
            )
            delivery.tell_end(
                EndContext(
                    group=self.group,
                    message=half.source,
                    message_id=stored.message_id,
                    address=address,
                    state=judgement.state,
                    from_check=False,
                )
            )
            await instance.api.remoting.oneway(address, end_command(header, judgement.cause))
        except PyroMQError as error:
            logger.warning("the broker will ask about message=%s, it could not be told: %s", stored.message_id, error)


def _result(stored: SendResult, judgement: TransactionOutcome) -> TransactionResult:
    return TransactionResult(
        stored.status,
        stored.message_id,
        stored.offset_message_id,
        stored.queue,
        stored.queue_offset,
        judgement.state,
        judgement.error,
    )


async def _meet_brokers(instance: ClientInstance) -> bool:
    """Tell every broker of this client: any may hold transactions of its groups, from the time before it started."""
    await instance.routes.refresh(SELF_TEST_TOPIC)  # which all brokers have
    return await instance.heartbeats.beat()


def _half(message: Message, outgoing: PreparedMessage, stored: SendResult) -> MessageExt:
    """Return the message as `check` would get it."""
    return MessageExt(
        topic=message.topic,
        stored_body=message.body,
        raw_properties=outgoing.properties.encode(),
        broker_name=stored.queue.broker_name,
        queue_id=stored.queue.queue_id,
        flag=message.flag,
        queue_offset=stored.queue_offset,
        born_timestamp_ms=outgoing.born_timestamp_ms,
        physical_offset=decode_offset_id(stored.offset_message_id)[1],
        raw_store_host=bytes.fromhex(stored.offset_message_id)[:-8],
    )
