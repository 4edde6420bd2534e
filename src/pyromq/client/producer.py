"""Producer: sends messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from pyromq.client.address import DEFAULT_NAMESRV
from pyromq.client.config import MAX_MESSAGE_SIZE, ClientConfig
from pyromq.client.instance import ClientInstance
from pyromq.client.outgoing import Outbox, Outgoing
from pyromq.client.publish import PublishInfo, Select, queue_by_choice, queue_for_key
from pyromq.client.results import SendResult, SendStatus
from pyromq.client.window import Window
from pyromq.clock import Clock, SystemClock, wait_for
from pyromq.errors import BrokerError, ClientError, InvalidMessage, NotSupported, PyroMQError, RequestTimeout
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.names import DEFAULT_PRODUCER_GROUP, TBW102, check_group, with_namespace, without_namespace

# Answers that another broker may not give. SYSTEM_BUSY is not among them: more sends would not help.
RETRY_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)
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
        self._namespace = namespace
        self._clock = clock or SystemClock()
        self._send_timeout = send_timeout
        self._retries = retries
        self._retry_not_stored = retry_other_broker_when_not_stored
        self._compress_over = compress_over
        self._outbox = Outbox(
            self._clock, max_message_size=max_message_size, compress_over=compress_over, namespace=namespace
        )
        self._window = Window(max_in_flight, _MAX_BYTES_IN_FLIGHT)
        self._opened: ClientInstance | None = None

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the producer; `async with` does it for you. Nothing is sent, and nobody asked, before the first send."""
        if self._opened is not None:
            raise ClientError("this producer is open already")
        instance = ClientInstance(self._config, self._clock)
        instance.add_producer(self.group)
        instance.start()
        self._opened = instance

    async def close(self) -> None:
        """Wait for the sends that are under way, take no more, and leave."""
        instance, self._opened = self._opened, None
        if instance is None or instance.forked:
            return
        with suppress(TimeoutError):  # what takes longer ends with ConnectionLost
            await wait_for(self._clock, self._window.idle(), self._send_timeout)
        await instance.close()

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
        return self._instance.client_id

    @property
    def _instance(self) -> ClientInstance:
        instance = self._opened
        if instance is None:
            raise ClientError("this producer is not open: use it inside `async with`")
        if instance.forked:
            instance.check_process()
        return instance

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
        instance = self._instance
        timeout = self._send_timeout if timeout is None else timeout
        size = len(message.body)
        if not self._window.try_enter(size):
            await self._window.enter(size)
        try:
            outgoing = self._outbox.prepare(message, order_key)
            if size >= self._compress_over:
                await self._outbox.compress(outgoing)
            if order_key is None and queue is None and select is None:
                return await self._send_anywhere(instance, outgoing, timeout)
            chosen = await self._choose(instance, message, outgoing.topic, order_key, queue, select)
            return await self._attempt(instance, outgoing, chosen, timeout)
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
        instance = self._instance
        outgoing = self._outbox.prepare(message, order_key)
        await self._outbox.compress(outgoing)
        chosen = await self._choose(instance, message, outgoing.topic, order_key, queue, select)
        address = await instance.routes.find_master(chosen)
        await instance.api.send_oneway(address, self._header(outgoing, chosen), outgoing.body)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> list[SendResult]:
        """Send messages of one topic together, in as few requests as the size limit allows; return a result for each.

        A request is stored as a whole or not at all. If one fails, its exception has a note that says how many messages
        were stored before it.
        """
        instance = self._instance
        timeout = self._send_timeout if timeout is None else timeout
        results: list[SendResult] = []
        for outgoing in self._outbox.prepare_batches(messages):
            size = len(outgoing.body)
            await self._window.enter(size)
            try:
                results.append(await self._send_batch(instance, outgoing, messages[0], queue, timeout))
            except PyroMQError as error:
                stored = sum(result.message_id.count(",") + 1 for result in results)
                error.add_note(f"{stored} of {len(messages)} messages of the batch were stored before this")
                raise
            finally:
                self._window.leave(size)
        return results

    async def _send_batch(
        self,
        instance: ClientInstance,
        outgoing: Outgoing,
        first: Message,
        queue: MessageQueue | None,
        timeout: float,
    ) -> SendResult:
        if queue is None:
            return await self._send_anywhere(instance, outgoing, timeout)
        chosen = await self._choose(instance, first, outgoing.topic, None, queue, None)
        return await self._attempt(instance, outgoing, chosen, timeout)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that this topic's messages go to."""
        instance = self._instance
        info = await instance.routes.find_queues(with_namespace(topic, self._namespace))
        return self._bare_queues(info)

    # --- one send ----------------------------------------------------------------------------------------------------

    async def _choose(
        self,
        instance: ClientInstance,
        message: Message,
        topic: str,
        order_key: str | None,
        queue: MessageQueue | None,
        select: Select | None,
    ) -> MessageQueue:
        if (order_key is not None) + (queue is not None) + (select is not None) > 1:
            raise ClientError("give only one of order_key=, queue= and select=")
        if queue is not None:
            return self._checked_queue(message, topic, queue)
        info = instance.routes.publish_info(topic) or await instance.routes.find_queues(topic)
        if order_key is not None:
            return queue_for_key(info.queues, order_key)
        if select is not None:
            return queue_by_choice(self._bare_queues(info), message, select)._replace(topic=topic)
        return info.next()

    def _checked_queue(self, message: Message, topic: str, queue: MessageQueue) -> MessageQueue:
        if queue.topic not in (message.topic, topic):
            raise InvalidMessage(f"the queue belongs to the topic {queue.topic!r}, the message to {message.topic!r}")
        return queue._replace(topic=topic)

    def _bare_queues(self, info: PublishInfo) -> list[MessageQueue]:
        return [queue._replace(topic=without_namespace(queue.topic, self._namespace)) for queue in info.queues]

    async def _send_anywhere(self, instance: ClientInstance, outgoing: Outgoing, timeout: float) -> SendResult:
        """Send to the next queue in turn; if that fails, try other brokers within the time there is."""
        deadline = self._clock.now() + timeout
        info = instance.routes.publish_info(outgoing.topic) or await instance.routes.find_queues(outgoing.topic)
        queue = info.next()
        tried: list[str] = []
        stored: SendResult | None = None
        while True:
            tried.append(queue.broker_name)
            try:
                result = await self._attempt(instance, outgoing, queue, deadline - self._clock.now())
            except PyroMQError as error:
                if not _may_work_elsewhere(error) or self._is_last(tried, deadline):
                    if stored is not None:
                        return stored
                    error.add_note(f"attempts: {len(tried)}, on {', '.join(tried)}")
                    raise
                instance.refresh_soon()
            else:
                if result.status is SendStatus.SEND_OK or not self._retry_not_stored or self._is_last(tried, deadline):
                    return result
                stored = result
            queue = info.next_elsewhere(queue.broker_name)

    def _is_last(self, tried: Sequence[str], deadline: float) -> bool:
        return len(tried) > self._retries or self._clock.now() >= deadline

    async def _attempt(
        self, instance: ClientInstance, outgoing: Outgoing, queue: MessageQueue, timeout: float
    ) -> SendResult:
        if timeout <= 0:
            raise RequestTimeout("no time is left to send the message; it was not sent")
        address = instance.routes.master(queue.broker_name) or await instance.routes.find_master(queue)
        answer = await instance.api.send(address, self._header(outgoing, queue), outgoing.body, timeout=timeout)
        if answer.queue_id != queue.queue_id or self._namespace:
            queue = MessageQueue(without_namespace(queue.topic, self._namespace), queue.broker_name, answer.queue_id)
        return SendResult(answer.status, outgoing.message_id, answer.offset_message_id, queue, answer.queue_offset)

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self.group,
            topic=outgoing.topic,
            default_topic=TBW102,
            default_topic_queue_nums=self._config.topic_queues,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=outgoing.born_timestamp_ms,
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=0,
            batch=outgoing.batch,
        )


def _may_work_elsewhere(error: PyroMQError) -> bool:
    return error.code in RETRY_CODES if isinstance(error, BrokerError) else error.retriable
