"""A copy of a message, sent to its group's retry topic: what a client can do where sending back cannot help.

The broker makes a dead letter of it if it was tried as often as the header allows. Java's clients do the same when a
message could not be sent back, and with what an orderly listener gives up.
"""

from __future__ import annotations

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.publish_info import TopicPublishInfo
from pyromq.client.net.routes import Routes
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.compression import COMPRESSED_FLAG, COMPRESSION_TYPE_MASK
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.names import CLIENT_INNER_PRODUCER_GROUP, TBW102, retry_topic, with_namespace

COPY_TIMEOUT = 5.0
FIRST_RETRY_LEVEL = 3
AT_ONCE = 0  # of retries: none is left

# What an earlier journey through a broker left behind, and what only the consumer has seen.
_LEFT_BEHIND = names.TIMER_NAMES | {
    names.TRANSACTION_PREPARED, names.WAIT, names.DELAY, names.REAL_TOPIC, names.REAL_QUEUE_ID, names.CAUSE,
    names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME,
}  # fmt: skip


class RetryCopies:
    """Sends copies on behalf of one group."""

    def __init__(
        self, api: BrokerApi, routes: Routes, group: str, *, max_reconsume: int | None, namespace: str | None
    ) -> None:
        self._api = api
        self._routes = routes
        self._topic = retry_topic(group)
        self._max_reconsume = max_reconsume
        self._namespace = namespace

    async def retry(self, message: MessageExt, queue: MessageQueue, level: int, cause: str) -> None:
        """Have a copy come again, from another broker if there is one: this one has just failed."""
        delay = {names.DELAY: str(level or FIRST_RETRY_LEVEL + message.reconsume_times)}
        target = (await self._queues()).next_elsewhere(queue.broker_name)
        await self._send(message, target, self._properties(message, cause) | delay, self._max_reconsume)

    async def bury(self, message: MessageExt, queue: MessageQueue, cause: str) -> None:
        """Make a copy a dead letter at once, on the broker that the message came from if that is possible."""
        info = await self._queues()
        target = info.next_of(queue.broker_name) or info.next()
        await self._send(message, target, self._properties(message, cause), AT_ONCE)

    async def _queues(self) -> TopicPublishInfo:
        return await self._routes.find_queues(self._topic)

    async def _send(
        self, message: MessageExt, queue: MessageQueue, properties: dict[str, str], limit: int | None
    ) -> None:
        header = SendMessageRequestHeaderV2(
            producer_group=CLIENT_INNER_PRODUCER_GROUP,
            topic=self._topic,
            default_topic=TBW102,
            default_topic_queue_nums=1,
            queue_id=queue.queue_id,
            sys_flag=message.sys_flag & (COMPRESSED_FLAG | COMPRESSION_TYPE_MASK),
            born_timestamp=message.born_timestamp_ms,
            flag=message.flag,
            properties=encode_properties(properties),
            reconsume_times=message.reconsume_times + 1,
            max_reconsume_times=limit,
        )
        await self._api.send(await self._routes.find_master(queue), header, message.stored_body, timeout=COPY_TIMEOUT)

    def _properties(self, message: MessageExt, cause: str) -> dict[str, str]:
        carried = {name: value for name, value in message.properties.items() if name not in _LEFT_BEHIND}
        carried.setdefault(names.RETRY_TOPIC, with_namespace(message.topic, self._namespace))
        carried.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_message_id)
        return carried | ({names.CAUSE: cause} if cause else {})
