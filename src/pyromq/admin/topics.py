"""List and describe topics on all brokers: what their queues hold, and who consumes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from pyromq.admin.groups.snapshot import EPOCH
from pyromq.admin.masters import Masters, gather_limited
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.bodies import (
    ClusterInfo,
    QueueData,
    TopicConfig,
    TopicOffset,
)
from pyromq.protocol.codes import MASTER_ID, PERM_READ, PERM_WRITE
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import DLQ_PREFIX, REPLY_SUFFIX, RETRY_PREFIX, is_system_topic


class TopicSummary(Struct, frozen=True, kw_only=True):
    """One topic in a list of all topics."""

    topic: str
    kind: str
    """`topic`; `retry` or `dead letters` of a group; `system` for RocketMQ's own."""
    brokers: tuple[str, ...]
    read_queues: int
    write_queues: int
    """On all brokers together."""
    perm: str
    """What all brokers allow: r, w or both."""


class TopicListing(Struct, frozen=True, kw_only=True):
    """All topics that brokers have."""

    topics: tuple[TopicSummary, ...]
    silent_brokers: Mapping[str, str]
    """Brokers that did not answer, and why. What only they have is missing."""


class QueueContents(Struct, frozen=True, kw_only=True):
    """What one queue holds."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_stored: datetime | None
    """When its last message was stored; None if it is empty."""

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self.max_offset - self.min_offset


class TopicConsumer(Struct, frozen=True, kw_only=True):
    """A group that consumes a topic, or did so before."""

    group: str
    members: int
    lag: int


class TopicDescription(Struct, frozen=True, kw_only=True):
    """A topic, as brokers and name servers describe it."""

    topic: str
    kind: str
    settings: Mapping[str, QueueData]
    """Its number of queues and its permissions, by broker."""
    order: str | None
    """Its order settings at the name servers, such as `broker-a:4`."""
    queues: tuple[QueueContents, ...]
    groups: tuple[TopicConsumer, ...]
    findings: tuple[str, ...]
    silent_brokers: Mapping[str, str]

    @property
    def messages(self) -> int:
        """The number of messages in all queues."""
        return sum(queue.messages for queue in self.queues)


class Topics:
    """Lists and describes topics."""

    def __init__(self, api: BrokerApi) -> None:
        self._api = api
        self._calls = AdminCalls(api.remoting)

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
            _summary(name, _kind(name, cluster), {at: table[name] for at, table in tables.items() if name in table})
            for name in names
        )
        return TopicListing(topics=tuple(topics), silent_brokers=masters.silent)

    async def describe(self, topic: str) -> TopicDescription:
        """Return everything that is known about a topic; raises NoRoute if no broker has it."""
        route, cluster = await asyncio.gather(self._api.route(topic), self._api.cluster_info())
        settings = {data.broker_name: data for data in sorted(route.queue_datas, key=lambda data: data.broker_name)}
        addresses = {data.broker_name: data.broker_addrs.get(MASTER_ID) for data in route.broker_datas}
        masters = Masters({name: addresses.get(name) for name in settings})
        ends = await masters.ask(lambda address: self._calls.topic_ends(address, topic))
        groups = await self._consumers(masters, topic)
        queues = [_contents(*item) for table in ends.values() if table for item in table.items()]
        return TopicDescription(
            topic=topic,
            kind=_kind(topic, cluster),
            settings=settings,
            order=route.order_topic_conf or None,
            queues=tuple(sorted(queues, key=lambda contents: contents.queue)),
            groups=groups,
            findings=tuple(_findings(settings, masters.silent)),
            silent_brokers=masters.silent,
        )

    async def _consumers(self, masters: Masters, topic: str) -> tuple[TopicConsumer, ...]:
        known = await masters.ask(lambda address: self._calls.topic_groups(address, topic))
        names = sorted({name for groups in known.values() for name in groups})
        return tuple(await gather_limited(names, lambda name: self._consumer(masters, topic, name)))

    async def _consumer(self, masters: Masters, topic: str, group: str) -> TopicConsumer:
        stats = await masters.ask(lambda address: self._calls.consume_stats(address, group, topic))
        online = await masters.ask(lambda address: self._calls.group_connections(address, group))
        rows = [row for answer in stats.values() for row in answer.offset_table.values()]
        ids = {member.client_id for found in online.values() if found for member in found.connection_set}
        lag = sum(max(row.broker_offset - row.consumer_offset, 0) for row in rows)
        return TopicConsumer(group=group, members=len(ids), lag=lag)


def _kind(topic: str, cluster: ClusterInfo) -> str:
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


def perm_text(perm: int) -> str:
    """Return the permissions: r, w, both, or - for neither."""
    return ("r" if perm & PERM_READ else "") + ("w" if perm & PERM_WRITE else "") or "-"


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
            yield f"{broker} has {hidden} queues that are written but never read"
    if len({(data.read_queue_nums, data.write_queue_nums) for data in settings.values()}) > 1:
        yield "its brokers have different numbers of queues"
