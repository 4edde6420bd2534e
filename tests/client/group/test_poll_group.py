"""Consumers of one group: queues are shared, move when members come and go, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
import time

from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import fill, read


def owners(*consumers: LitePullConsumer) -> list[MessageQueue]:
    return sorted(queue for consumer in consumers for queue in consumer.assignment)


async def test_members_share_the_queues_and_take_over_from_who_leaves(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    subscriptions = {topic: "*"}
    async with LitePullConsumer(group, cluster.namesrv, subscriptions) as first:
        every = await first.queues(topic)
        assert first.assignment == every
        async with LitePullConsumer(group, cluster.namesrv, subscriptions) as second:
            await eventually(lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
            assert owners(first, second) == every
        await eventually(lambda: first.assignment == every)


async def test_a_member_that_dies_is_replaced(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}) as first:
        second = LitePullConsumer(group, cluster.namesrv, {topic: "*"})
        await second.start()
        await eventually(lambda: len(first.assignment) == 2)
        # No goodbye: the connections just close, as those of a killed process do.
        await second._session.membership.stop()
        await second._session.instance._beating.stop()
        await second._session.assignment.stop()
        await second._session.instance.api.close()
        await eventually(lambda: len(first.assignment) == 4)
        await second.close()


async def test_groups_do_not_disturb_each_other(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 8)
    async with (
        LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as one,
        LitePullConsumer(group + "-b", cluster.namesrv, {topic: "*"}, start_from="earliest") as other,
    ):
        assert len(await read(one, 8)) == len(await read(other, 8)) == 8
        assert len(one.assignment) == len(other.assignment) == 4


async def test_nothing_is_lost_while_members_come_and_go(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    found: set[bytes] = set()
    sent: list[bytes] = []

    async def consume(seconds: float) -> None:
        deadline = time.monotonic() + seconds
        async with LitePullConsumer(
            group, cluster.namesrv, {topic: "*"}, start_from="earliest", auto_commit_interval=0.05
        ) as consumer:
            while time.monotonic() < deadline:
                found.update(message.body for message in await consumer.poll(timeout=0.05))

    async def send() -> None:
        for number in range(2000):
            sent.append(b"%d" % number)
            await producer.send(Message(topic=topic, body=sent[-1]))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(send())
        for seconds in (0.3, 0.9, 0.6, 1.5):
            tasks.create_task(consume(seconds))
            await asyncio.sleep(0.1)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as last:
        while messages := await last.poll(timeout=0.3):
            found.update(message.body for message in messages)
    assert found == set(sent)


async def test_a_consumer_survives_the_restart_of_its_broker(topic: str, group: str) -> None:
    async with (
        LocalCluster() as cluster,
        Producer("p", cluster.namesrv) as producer,
        LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer,
    ):
        before = await fill(producer, topic, 40)
        messages = await read(consumer, 40)
        await consumer.commit()
        await asyncio.to_thread(cluster.stop_broker)
        assert await consumer.poll(timeout=0.1) == []
        await asyncio.to_thread(cluster.start_broker)
        await producer.send(Message(topic=topic, body=b"after"))
        messages += await read(consumer, 1)
        assert {message.body for message in messages} == {*before, b"after"}
        # The restarted broker has heard of the member again, and it keeps its queues.
        brokers = consumer._session.instance.heartbeats.brokers
        await eventually(lambda: bool(brokers))
        assert len(consumer.assignment) == 4


async def test_reading_goes_on_where_the_broker_says_when_the_offset_is_gone(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    async with LitePullConsumer(group, cluster.namesrv) as careless:
        for queue in await careless.queues(topic):
            await careless._session.offsets.commit(queue, 1_000_000)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}) as consumer:
        await eventually(lambda: {consumer.position(queue) for queue in consumer.assignment} == {1})  # the end
        sent = await fill(producer, topic, 4)
        assert sorted(message.body for message in await read(consumer, 4)) == sorted(sent)


async def test_two_brokers_are_read_together(topic: str, group: str) -> None:
    async with LocalCluster(brokers=2) as cluster, Producer("p", cluster.namesrv) as producer:
        sent = await fill(producer, topic, 80)
        async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
            await eventually(lambda: len(consumer.assignment) == 8)
            messages = await read(consumer, 80)
    assert sorted(message.body for message in messages) == sorted(sent)
    assert {message.broker_name for message in messages} == {"broker-a", "broker-b"}
