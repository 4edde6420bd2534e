"""What tests of changes to groups share: messages on two brokers, and committed offsets."""

from __future__ import annotations

from pyromq import Message, Producer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import LocalCluster
from tests.client.helpers import committed

COUNT = 5


async def fill(cluster: LocalCluster, api: BrokerApi, topic: str, count: int = COUNT) -> None:
    """Send to one queue on each broker."""
    for broker in cluster.brokers:
        await api.create_topic(broker.address, topic, 1)
    async with Producer("filling", cluster.namesrv, clock=cluster.clock) as producer:
        for place in await producer.queues(topic):
            for number in range(count):
                await producer.send(Message(topic=topic, body=b"%d" % number), queue=place)


async def commit(cluster: LocalCluster, api: BrokerApi, group: str, topic: str, offset: int) -> None:
    for broker in cluster.brokers:
        await api.commit_offset(broker.address, group, topic, 0, offset)


async def offsets(cluster: LocalCluster, api: BrokerApi, group: str, topic: str) -> list[int]:
    return [(await committed(api, broker.address, group, topic))[0] for broker in cluster.brokers]
