"""List and describe topics on all brokers: what their queues hold, and who consumes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta

from pyromq.admin.groups.snapshot import EPOCH
from pyromq.admin.masters import Masters
from pyromq.admin.topics.consumers import find_consumers
from pyromq.admin.topics.description import QueueContents, TopicDescription, TopicListing, TopicSummary, perm_text
from pyromq.admin.topics.order_setting import OrderSetting
from pyromq.admin.topics.queue_ends import find_ends
from pyromq.admin.topics.resize import TopicResizes
from pyromq.protocol.bodies import (
    ClusterInfo,
    QueueData,
    TopicConfig,
    TopicOffset,
)
from pyromq.protocol.codes import MASTER_ID, PERM_READ, PERM_WRITE
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import DLQ_PREFIX, REPLY_SUFFIX, RETRY_PREFIX, is_system_topic


class Topics(TopicResizes):
    """Lists, describes and changes topics.

    >>> async with AdminClient("127.0.0.1:9876") as admin:
    ...     await admin.topics.create("orders", read_queues=8, write_queues=8)
    ...     print((await admin.topics.describe("orders")).messages)
    """

    async def names(self) -> list[str]:
        """Return the names of all topics that a name server knows, including the system's."""
        return await self._api.topic_list()

    async def list(self) -> TopicListing:
        """Return all topics of all brokers."""
        cluster = await self._api.cluster_info()
        masters = await Masters.find(self._api)
        tables = await masters.ask(self._calls.topic_configs)
        names = sorted({name for table in tables.values() for name in table})
        topics = (
            _summary(
                name, topic_kind(name, cluster), {at: table[name] for at, table in tables.items() if name in table}
            )
            for name in names
        )
        return TopicListing(topics=tuple(topics), silent_brokers=masters.silent)

    async def describe(self, topic: str) -> TopicDescription:
        """Return everything that is known about a topic; raises NoRoute if no broker has it."""
        route, cluster = await asyncio.gather(self._api.route(topic), self._api.cluster_info())
        settings = {data.broker_name: data for data in sorted(route.queue_datas, key=lambda data: data.broker_name)}
        addresses = {data.broker_name: data.broker_addrs.get(MASTER_ID) for data in route.broker_datas}
        masters = Masters({name: addresses.get(name) for name in settings})
        ends = await find_ends(self._api, masters, topic, settings)
        groups = await find_consumers(self._calls, masters, topic)
        queues = [_contents(*item) for item in ends.items()]
        return TopicDescription(
            topic=topic,
            kind=topic_kind(topic, cluster),
            settings=settings,
            order=await OrderSetting(self._namesrv, topic).get(),
            queues=tuple(sorted(queues, key=lambda contents: contents.queue)),
            groups=groups,
            findings=tuple(_findings(settings, masters.silent)),
            silent_brokers=masters.silent,
        )


def topic_kind(topic: str, cluster: ClusterInfo) -> str:
    """Return what a topic is for: see TopicSummary."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DLQ_PREFIX):
        return "dead letters"
    # Each cluster and broker has a topic of its own name, and a cluster also has one for replies.
    own = {*cluster.cluster_addr_table, *cluster.broker_addr_table}
    return "system" if is_system_topic(topic) or topic.removesuffix(REPLY_SUFFIX) in own else "topic"


def _summary(topic: str, kind: str, configs: Mapping[str, TopicConfig]) -> TopicSummary:
    common = PERM_READ | PERM_WRITE
    for config in configs.values():
        common &= config.perm
    return TopicSummary(
        topic=topic,
        kind=kind,
        brokers=tuple(configs),
        read_queues=sum(config.read_queue_nums for config in configs.values()),
        write_queues=sum(config.write_queue_nums for config in configs.values()),
        perm=perm_text(common),
    )


def _contents(queue: MessageQueue, ends: TopicOffset) -> QueueContents:
    stored_ms = ends.last_update_timestamp
    return QueueContents(
        queue=queue,
        min_offset=ends.min_offset,
        max_offset=ends.max_offset,
        last_stored=EPOCH + timedelta(milliseconds=stored_ms) if stored_ms > 0 else None,
    )


def _findings(settings: Mapping[str, QueueData], silent: Mapping[str, str]) -> Iterable[str]:
    for broker, reason in silent.items():
        yield f"{broker} does not answer: {reason}"
    for broker, data in settings.items():
        if not data.perm & PERM_WRITE:
            yield f"{broker} accepts no messages for it"
        if not data.perm & PERM_READ:
            yield f"{broker} does not let anyone read it"
        if data.read_queue_nums < data.write_queue_nums:
            hidden = data.write_queue_nums - data.read_queue_nums
            queues = "1 queue that is" if hidden == 1 else f"{hidden} queues that are"
            yield f"{broker} has {queues} written but never read"
        if data.read_queue_nums > data.write_queue_nums:
            first = data.write_queue_nums
            yield f"{broker} does not write the queues from {first} on any more; `topic resize` takes them away"
    if len({(data.read_queue_nums, data.write_queue_nums) for data in settings.values()}) > 1:
        yield "its brokers have different numbers of queues"
