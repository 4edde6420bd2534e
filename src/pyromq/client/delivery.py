"""Delivery: takes one prepared message to a broker, or to another one if the first cannot have it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from msgspec import Struct

from pyromq.client.instance import ClientInstance
from pyromq.client.outgoing import Outgoing
from pyromq.client.publish import PublishInfo, Select, queue_by_choice, queue_for_key
from pyromq.client.results import SendResult, SendStatus
from pyromq.errors import BrokerError, ClientError, InvalidMessage, PyroMQError, RequestTimeout
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.names import TBW102, with_namespace, without_namespace

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
_SEND_OK = SendStatus.SEND_OK


class DeliveryRules(Struct, frozen=True, kw_only=True):
    """What a producer was told about its sends."""

    group: str
    namespace: str | None
    topic_queues: int
    retries: int
    retry_not_stored: bool
    """Try another broker also when one has stored the message, but not as safely as it should."""


class Delivery:
    """Sends on behalf of one producer, while it is open."""

    def __init__(self, instance: ClientInstance, rules: DeliveryRules) -> None:
        self.instance = instance
        self._api = instance.api
        self._routes = instance.routes
        self._clock = instance.clock
        self._rules = rules
        self._namespace = rules.namespace

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that a topic's messages go to, as the caller knows them."""
        return self._bare_queues(await self._routes.find_queues(with_namespace(topic, self._namespace)))

    async def choose(
        self,
        message: Message,
        topic: str,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        select: Select | None = None,
    ) -> MessageQueue:
        """Return the queue that the caller named, the one its key or function picks, or else the next in turn."""
        if (order_key is not None) + (queue is not None) + (select is not None) > 1:
            raise ClientError("give only one of order_key=, queue= and select=")
        if queue is not None:
            if queue.topic not in (message.topic, topic):
                raise InvalidMessage(f"the queue is one of topic {queue.topic!r}, the message has {message.topic!r}")
            return queue._replace(topic=topic)
        info = self._routes.publish_info(topic) or await self._routes.find_queues(topic)
        if order_key is not None:
            return queue_for_key(info.queues, order_key)
        if select is not None:
            return queue_by_choice(self._bare_queues(info), message, select)._replace(topic=topic)
        return info.next()

    async def send_anywhere(self, outgoing: Outgoing, timeout: float) -> SendResult:
        """Send to the next queue in turn; if that fails, to other brokers, all within `timeout`."""
        deadline = self._clock.now() + timeout
        info = self._routes.publish_info(outgoing.topic) or await self._routes.find_queues(outgoing.topic)
        queue = info.next()
        tried: list[str] = []
        stored: SendResult | None = None
        while True:
            tried.append(queue.broker_name)
            try:
                result = await self.send_to(queue, outgoing, min(timeout, deadline - self._clock.now()))
            except PyroMQError as error:
                if not _may_work_elsewhere(error) or self._is_last(tried, deadline):
                    if stored is not None:
                        return stored
                    raise with_note(error, f"attempts: {len(tried)}, on {', '.join(tried)}") from error.__cause__
                self.instance.refresh_soon()
            else:
                if result.status is _SEND_OK or not self._rules.retry_not_stored:
                    return result
                stored = result
                if self._is_last(tried, deadline):
                    return stored
            queue = info.next_elsewhere(queue.broker_name)

    def _is_last(self, tried: Sequence[str], deadline: float) -> bool:
        return len(tried) > self._rules.retries or self._clock.now() >= deadline

    async def send_to(self, queue: MessageQueue, outgoing: Outgoing, timeout: float) -> SendResult:
        """Send to one queue, once."""
        if timeout <= 0:
            raise RequestTimeout("no time is left to send the message; it was not sent")
        address = self._routes.master(queue.broker_name) or await self._routes.find_master(queue)
        answer = await self._api.send(address, self._header(outgoing, queue), outgoing.body, timeout=timeout)
        if answer.queue_id != queue.queue_id or self._namespace:
            queue = self._bare(queue)._replace(queue_id=answer.queue_id)
        return SendResult(answer.status, outgoing.message_id, answer.offset_message_id, queue, answer.queue_offset)

    async def send_oneway(self, queue: MessageQueue, outgoing: Outgoing) -> None:
        """Send to one queue and hear nothing of it."""
        address = await self._routes.find_master(queue)
        await self._api.send_oneway(address, self._header(outgoing, queue), outgoing.body)

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self._rules.group,
            topic=outgoing.topic,
            default_topic=TBW102,
            default_topic_queue_nums=self._rules.topic_queues,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=outgoing.born_timestamp_ms,
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=0,
            batch=outgoing.batch,
        )

    def _bare_queues(self, info: PublishInfo) -> list[MessageQueue]:
        return [self._bare(queue) for queue in info.queues]

    def _bare(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=without_namespace(queue.topic, self._namespace))


def with_note(error: PyroMQError, note: str) -> PyroMQError:
    """Return a copy with a note: a lost connection ends all its requests with one and the same exception."""
    noted = copy(error)
    noted.__notes__ = [*getattr(error, "__notes__", ()), note]
    return noted


def _may_work_elsewhere(error: PyroMQError) -> bool:
    return error.code in RETRY_CODES if isinstance(error, BrokerError) else error.retriable
