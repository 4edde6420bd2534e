"""Read what a topic holds, once and without a group: no group's offsets are used or moved."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pyromq.client.net.calls.answers import PullAnswer, PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import NoRoute
from pyromq.protocol.bodies import TopicRouteData
from pyromq.protocol.codes import MASTER_ID, PULL_SUBSCRIPTION_FLAG
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP
from pyromq.protocol.tag_filter import EVERYTHING

PULL_TIMEOUT = 10.0
_MESSAGES_A_PULL = 1000
_BYTES_A_PULL = 1024 * 1024  # Apache's brokers ignore this and keep to their own 32 messages


class TopicReader:
    """Reads the queues of one topic as they are now; later messages are not read."""

    def __init__(self, api: BrokerApi, topic: str, route: TopicRouteData) -> None:
        self.topic = topic
        # Including those without read permission, such as dead letters of RocketMQ 4.9.0: an error is clearer.
        self.queues = sorted(
            MessageQueue(topic, data.broker_name, number)
            for data in route.queue_datas
            for number in range(data.read_queue_nums)
        )
        self._api = api
        self.addresses = {broker.broker_name: _reader(broker.broker_addrs) for broker in route.broker_datas}
        """Where to read from, by broker."""

    @classmethod
    async def open(cls, api: BrokerApi, topic: str) -> TopicReader:
        """Find the topic; raises NoRoute if there is none."""
        return cls(api, topic, await api.route(topic))

    def address(self, queue: MessageQueue) -> str:
        """Return the broker to read a queue from: the master, or else a slave."""
        try:
            return self.addresses[queue.broker_name]
        except KeyError:
            raise NoRoute(f"broker {queue.broker_name!r} is gone") from None

    async def ends(self, queue: MessageQueue) -> tuple[int, int]:
        """Return a queue's first offset, and the one after its last."""
        address = self.address(queue)
        low = await self._api.min_offset(address, self.topic, queue.queue_id)
        return low, await self._api.max_offset(address, self.topic, queue.queue_id)

    async def read(self) -> AsyncIterator[MessageExt]:
        """Yield all messages, queue by queue, each from its beginning."""
        ends = [(queue, *await self.ends(queue)) for queue in self.queues]
        for queue, low, high in ends:
            async for message in self.read_queue(queue, low, high):
                yield message

    async def read_queue(self, queue: MessageQueue, offset: int, end: int) -> AsyncIterator[MessageExt]:
        """Yield the messages of a queue from an offset on, up to `end`."""
        while offset < end:
            answer = await self.pull(queue, offset)
            if answer.status is PullStatus.FOUND:
                for message in decode_messages(answer.body, queue.broker_name):
                    if message.queue_offset < end:
                        yield message
            elif answer.next_offset <= offset:  # the queue has become shorter: it was recreated
                return
            offset = answer.next_offset

    async def pull(self, queue: MessageQueue, offset: int, most: int = _MESSAGES_A_PULL) -> PullAnswer:
        """Pull messages from an offset on, without waiting for new ones."""
        header = PullMessageRequestHeader(
            consumer_group=TOOLS_CONSUMER_GROUP,
            topic=self.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=most,
            sys_flag=PULL_SUBSCRIPTION_FLAG,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=EVERYTHING,
            sub_version=0,
            pyromq_max_bytes=_BYTES_A_PULL,
        )
        return await self._api.pull(self.address(queue), header, timeout=PULL_TIMEOUT)


def _reader(addresses: dict[int, str]) -> str:
    return addresses.get(MASTER_ID) or addresses[min(addresses)]
