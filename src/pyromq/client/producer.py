"""Producer: sends messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from pyromq.client.address import DEFAULT_NAMESRV
from pyromq.client.config import MAX_MESSAGE_SIZE, ClientConfig
from pyromq.client.delivery import Delivery, DeliveryRules, with_note
from pyromq.client.outgoing import Outbox, Outgoing
from pyromq.client.publish import Select
from pyromq.client.results import SendResult
from pyromq.client.sharing import borrow_instance, return_instance
from pyromq.client.window import Window
from pyromq.clock import Clock, SystemClock, wait_for
from pyromq.errors import ClientError, NotSupported, PyroMQError
from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.names import DEFAULT_PRODUCER_GROUP, check_group, with_namespace

_MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024


class Producer:
    """Sends messages to any topic; safe to use from any number of tasks of one event loop.

    >>> async with Producer(group="shop", namesrv="127.0.0.1:9876") as producer:
    ...     result = await producer.send(Message(topic="orders", body=b"...", tags="created", keys=["o-1"]))

    `retries` counts further attempts on other brokers, all within `send_timeout`. At most `max_in_flight` sends are
    under way at a time; further calls wait their turn, and that waiting does not count as time spent sending.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] = DEFAULT_NAMESRV,
        *,
        send_timeout: float = 3.0,
        retries: int = 2,
        retry_other_broker_when_not_stored: bool = False,
        compress_over: int = 4096,
        topic_queues: int = 4,
        max_message_size: int = MAX_MESSAGE_SIZE,
        max_in_flight: int = 1024,
        namespace: str | None = None,
        instance_name: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        if group == DEFAULT_PRODUCER_GROUP:
            raise ClientError(f"the group name {group} is reserved; choose one of your own")
        check_group(group)
        self.group = with_namespace(group, namespace)
        self._config = ClientConfig(
            namesrv=namesrv, instance_name=instance_name, namespace=namespace, topic_queues=topic_queues
        )
        self._rules = DeliveryRules(
            group=self.group,
            namespace=namespace,
            topic_queues=topic_queues,
            retries=retries,
            retry_not_stored=retry_other_broker_when_not_stored,
        )
        self._clock = clock or SystemClock()
        self._send_timeout = send_timeout
        self._compress_over = compress_over
        self._outbox = Outbox(
            self._clock, max_message_size=max_message_size, compress_over=compress_over, namespace=namespace
        )
        self._window = Window(max_in_flight, _MAX_BYTES_IN_FLIGHT)
        self._opened: Delivery | None = None

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the producer; `async with` does it for you. Nothing is sent, and nobody asked, before the first send."""
        if self._opened is not None:
            raise ClientError("this producer is open already")
        instance = borrow_instance(self._config, self._clock)
        try:
            instance.add_producer(self.group)
        except ClientError:
            await return_instance(instance)
            raise
        instance.start()
        self._opened = Delivery(instance, self._rules)

    async def close(self) -> None:
        """Wait for the sends that are under way, take no more, and leave."""
        delivery, self._opened = self._opened, None
        if delivery is None or delivery.instance.forked:
            return
        with suppress(TimeoutError):  # what takes longer ends with ConnectionLost
            await wait_for(self._clock, self._window.idle(), self._send_timeout)
        await delivery.instance.remove_producer(self.group)
        await return_instance(delivery.instance)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """The id by which brokers know this producer."""
        return self._delivery.instance.client_id

    @property
    def _delivery(self) -> Delivery:
        delivery = self._opened
        if delivery is None:
            raise ClientError("this producer is not open: use it inside `async with`")
        if delivery.instance.forked:
            delivery.instance.check_process()
        return delivery

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        select: Select | None = None,
        timeout: float | None = None,
        delay: timedelta | None = None,
        at: datetime | None = None,
        level: int | None = None,
    ) -> SendResult:
        """Send a message and return where it was stored.

        Messages with the same `order_key` go to the same queue, the one Java's clients choose for that key. Such a
        send, or one to a given `queue` or with a `select` function, is tried once; others up to `retries` more times.

        Raises if nothing was stored, or, after a time-out or a lost connection, if that is unknown: InvalidMessage,
        NoRoute, BrokerError with the broker's code, or RemotingError. A cancelled send may have been stored.
        """
        if delay is not None or at is not None or level is not None:
            raise NotSupported("delayed messages are not there yet: delay=, at= and level= come with a later version")
        delivery = self._delivery
        timeout = self._send_timeout if timeout is None else timeout
        size = len(message.body)
        if not self._window.try_enter(size):
            await self._window.enter(size)
        try:
            outgoing = self._outbox.prepare(message, order_key)
            if size >= self._compress_over:
                await self._outbox.compress(outgoing)
            if order_key is None and queue is None and select is None:
                return await delivery.send_anywhere(outgoing, timeout)
            chosen = await delivery.choose(message, outgoing.topic, order_key=order_key, queue=queue, select=select)
            return await delivery.send_to(chosen, outgoing, timeout)
        finally:
            self._window.leave(size)

    async def send_oneway(
        self,
        message: Message,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        select: Select | None = None,
    ) -> None:
        """Send a message without waiting for an answer: whether it was stored is never known."""
        delivery = self._delivery
        size = len(message.body)
        await self._window.enter(size)
        try:
            outgoing = self._outbox.prepare(message, order_key)
            await self._outbox.compress(outgoing)
            chosen = await delivery.choose(message, outgoing.topic, order_key=order_key, queue=queue, select=select)
            await delivery.send_oneway(chosen, outgoing)
        finally:
            self._window.leave(size)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> list[SendResult]:
        """Send messages of one topic together, in as few requests as the size limit allows; return a result for each.

        A request is stored as a whole or not at all. If one fails, its exception has a note that says how many messages
        were stored before it.
        """
        delivery = self._delivery
        timeout = self._send_timeout if timeout is None else timeout
        results: list[SendResult] = []
        for outgoing in self._outbox.prepare_batches(messages):
            size = len(outgoing.body)
            await self._window.enter(size)
            try:
                results.append(await _send_batch(delivery, messages[0], outgoing, queue, timeout))
            except PyroMQError as error:
                stored = sum(result.message_id.count(",") + 1 for result in results)
                note = f"{stored} of {len(messages)} messages of the batch were stored before this"
                raise with_note(error, note) from error.__cause__
            finally:
                self._window.leave(size)
        return results

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that this topic's messages go to."""
        return await self._delivery.queues(topic)


async def _send_batch(
    delivery: Delivery, first: Message, outgoing: Outgoing, queue: MessageQueue | None, timeout: float
) -> SendResult:
    if queue is None:
        return await delivery.send_anywhere(outgoing, timeout)
    return await delivery.send_to(await delivery.choose(first, outgoing.topic, queue=queue), outgoing, timeout)
