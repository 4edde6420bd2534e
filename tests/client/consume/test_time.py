"""What clients do as time passes, with the clock that tests move; and finding messages by time."""

from __future__ import annotations

import asyncio

from pyromq.client.consume.start_from import first_offset_since
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import fill, read


async def test_an_idle_consumer_stays_a_member_for_hours(topic: str, group: str) -> None:
    async with (
        LocalCluster() as cluster,
        Producer("p", cluster.namesrv, clock=cluster.clock) as producer,
        LitePullConsumer(group, cluster.namesrv, {topic: "*"}, clock=cluster.clock) as consumer,
    ):
        await fill(producer, topic, 4)
        await read(consumer, 4)
        await cluster.clock.advance_async(hours=1)
        assert len(consumer.assignment) == 4
        async with await BrokerApi.connect(cluster.namesrv) as api:
            assert await api.consumer_list(cluster.brokers[0].address, group) == [consumer.client_id]
        await producer.send(Message(topic=topic, body=b"still there"))
        assert [message.body for message in await read(consumer, 1)] == [b"still there"]


async def test_auto_commit_comes_every_five_seconds(topic: str, group: str) -> None:
    async with (
        LocalCluster() as cluster,
        Producer("p", cluster.namesrv, clock=cluster.clock) as producer,
        LitePullConsumer(group, cluster.namesrv, {topic: "*"}, clock=cluster.clock) as consumer,
    ):
        await fill(producer, topic, 4)
        await read(consumer, 4)
        assert await consumer.poll(timeout=0) == []

        async def committed() -> int:
            return sum([await consumer.committed(queue) or 0 for queue in consumer.assignment])

        assert await committed() == 0
        await cluster.clock.advance_async(seconds=6)
        assert await committed() == 4


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
