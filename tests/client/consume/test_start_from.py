"""Finding messages by time."""

from __future__ import annotations

import asyncio

from pyromq.client.consume.start_from import first_offset_since
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster
from tests.client.helpers import read


async def test_every_time_finds_the_first_message_stored_since(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = (await producer.queues(topic))[0]
    for _ in range(30):  # bursts within a millisecond, and gaps
        await asyncio.gather(*[producer.send(Message(topic=topic, body=b"x"), queue=queue) for _ in range(10)])
        await cluster.clock.advance_async(seconds=0.003)
    async with LitePullConsumer(group, cluster.namesrv, start_from="earliest") as consumer:
        await consumer.assign([queue])
        times = [message.store_timestamp_ms for message in await read(consumer, 300)]
    assert len(set(times)) < 300, "some must share a millisecond, or this shows nothing"
    address = cluster.brokers[0].address
    async with await BrokerApi.connect(cluster.namesrv) as api:
        for wanted in {time + step for time in times for step in (-1, 0, 1)}:
            expected = next((offset for offset, time in enumerate(times) if time >= wanted), 300)
            assert await first_offset_since(api, address, group, topic, queue.queue_id, wanted) == expected
