"""What a polling consumer does as time passes, with the clock that tests move."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError
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


async def test_two_polls_at_once_are_refused_before_they_count_messages_as_done(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        await read(consumer, 4)
        waiting = asyncio.create_task(consumer.poll(timeout=60))
        await eventually(lambda: consumer._session.ready.idle_since is None)
        for second in (consumer.poll(), anext(consumer)):
            with pytest.raises(ClientError, match="another task or thread is polling this consumer"):
                await second
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await consumer.poll(timeout=0) == [], "a cancelled poll is over"
