"""Routes are asked for again as time passes."""

from __future__ import annotations

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import fill


async def test_a_producer_hears_of_queues_that_were_added(topic: str) -> None:
    async with (
        LocalCluster() as cluster,
        Producer("p", cluster.namesrv, clock=cluster.clock) as producer,
        await BrokerApi.connect(cluster.namesrv) as api,
    ):
        await fill(producer, topic, 4)
        await api.create_topic(cluster.brokers[0].address, topic, queues=6)
        await cluster.clock.advance_async(seconds=31)

        async def widened() -> bool:
            return len(await producer.queues(topic)) == 6

        await eventually(widened)
