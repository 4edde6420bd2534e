"""Consumers while a master is away: they go on from a slave, with its members, offsets and locks, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from pyromq.broker.server import Broker
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.testing import LocalCluster, eventually
from pyromq.testing.cluster import LocalBroker
from tests.client.helpers import Heard, committed, fill, read

COUNT = 40


@pytest.fixture
async def pair(topic: str) -> AsyncIterator[LocalCluster]:
    """A master and a slave that have a topic with messages."""
    async with LocalCluster(slaves=1) as cluster, Producer("p", cluster.namesrv, clock=cluster.clock) as producer:
        async with await BrokerApi.connect(cluster.namesrv, clock=cluster.clock) as api:
            await api.create_topic(cluster.brokers[0].address, topic)
        await fill(producer, topic, COUNT)
        await level(cluster, topic)
        yield cluster


async def level(cluster: LocalCluster, topic: str) -> None:
    """Wait until the slave has all messages and knows their topic."""
    one, other = _server(cluster.brokers[0]), _server(cluster.slaves[0])
    await eventually(lambda: topic in other.topics.by_name)
    await eventually(lambda: one.store.max_physical_offset == other.store.max_physical_offset)


def _server(broker: LocalBroker) -> Broker:
    assert broker.server is not None
    return broker.server


async def stop_master(cluster: LocalCluster) -> None:
    await asyncio.to_thread(cluster.stop_broker)


async def committed_at(broker: LocalBroker, cluster: LocalCluster, group: str, topic: str) -> int:
    async with await BrokerApi.connect(cluster.namesrv, clock=cluster.clock) as api:
        return sum(await committed(api, broker.address, group, topic))


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_consumer_starts_at_a_slave_and_commits_there(
    pair: LocalCluster, topic: str, group: str, orderly: bool
) -> None:
    await stop_master(pair)
    heard = Heard()
    subscription = {topic: "*"}
    async with PushConsumer(
        group, pair.namesrv, subscription, heard, orderly=orderly, start_from="earliest", clock=pair.clock
    ):
        await heard.wait_for(COUNT)
    assert await committed_at(pair.slaves[0], pair, group, topic) == COUNT
    async with PushConsumer(group, pair.namesrv, subscription, heard, orderly=orderly, clock=pair.clock) as consumer:
        await eventually(lambda: len(consumer.assignment) > 1)
        await pair.clock.advance_async(seconds=5)
    assert len(heard.messages) == COUNT


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_consumer_goes_on_from_the_slave_and_comes_back_to_the_master(
    pair: LocalCluster, topic: str, group: str, orderly: bool
) -> None:
    heard, gate = Heard(), asyncio.Event()

    async def listen(message: MessageExt) -> None:
        if len(heard.messages) >= COUNT // 2:
            await gate.wait()
        await heard(message)

    async with (
        PushConsumer(
            group, pair.namesrv, {topic: "*"}, listen, orderly=orderly, start_from="earliest", clock=pair.clock
        ) as consumer,
        Producer("p", pair.namesrv, clock=pair.clock) as producer,
    ):
        await heard.wait_for(COUNT // 2)
        await stop_master(pair)
        gate.set()
        await heard.wait_for(COUNT)
        await consumer.commit()
        assert await committed_at(pair.slaves[0], pair, group, topic) == COUNT
        await asyncio.to_thread(pair.start_broker)
        await eventually(lambda: _works(producer, topic))
        await heard.wait_for(COUNT + 1)
        await consumer.commit()
    assert await committed_at(pair.brokers[0], pair, group, topic) == COUNT + 1
    assert len(heard.messages) == COUNT + 1


async def _works(producer: Producer, topic: str) -> bool:
    return bool(await producer.send(Message(topic, b"again")))


async def test_a_poll_goes_on_from_the_slave_and_follows_a_promotion(
    pair: LocalCluster, topic: str, group: str
) -> None:
    async with (
        LitePullConsumer(group, pair.namesrv, {topic: "*"}, start_from="earliest", clock=pair.clock) as consumer,
        Producer("p", pair.namesrv, clock=pair.clock, send_timeout=20) as producer,
    ):
        assert len(await read(consumer, COUNT // 2)) == COUNT // 2
        await stop_master(pair)
        assert len(await read(consumer, COUNT // 2)) == COUNT // 2
        await consumer.commit()
        await asyncio.to_thread(pair.promote, pair.slaves[0])
        await fill(producer, topic, 8)
        assert len(await read(consumer, 8)) == 8
        await consumer.commit()
    assert await committed_at(pair.slaves[0], pair, group, topic) == COUNT + 8


@pytest.mark.parametrize("orderly", [False, True])
async def test_members_that_meet_at_a_slave_share_the_queues(
    pair: LocalCluster, topic: str, group: str, orderly: bool
) -> None:
    await stop_master(pair)
    one, other = Heard(), Heard()
    async with (
        PushConsumer(
            group, pair.namesrv, {topic: "*"}, one, orderly=orderly, start_from="earliest", clock=pair.clock
        ) as first,
        PushConsumer(
            group, pair.namesrv, {topic: "*"}, other, orderly=orderly, start_from="earliest", clock=pair.clock
        ) as second,
    ):
        await eventually(lambda: _queues(first, topic) == _queues(second, topic) == 2)
        await eventually(lambda: len(one.messages) + len(other.messages) >= COUNT)
    assert len(one.messages) + len(other.messages) == COUNT


def _queues(consumer: PushConsumer, topic: str) -> int:
    return sum(queue.topic == topic for queue in consumer.assignment)


@pytest.mark.parametrize("kind", ["push", "poll"])
async def test_pulls_do_not_wait_at_a_master_that_hangs(pair: LocalCluster, topic: str, group: str, kind: str) -> None:
    """It still has the connections, as one that was suspended; another is master by now."""
    heard = Heard()
    async with AsyncExitStack() as stack:
        if kind == "push":
            push = PushConsumer(group, pair.namesrv, {topic: "*"}, heard, start_from="earliest", clock=pair.clock)
            instance = (await stack.enter_async_context(push))._session.instance
        else:
            poll = LitePullConsumer(group, pair.namesrv, {topic: "*"}, start_from="earliest", clock=pair.clock)
            instance = (await stack.enter_async_context(poll))._session.instance
            stack.callback(asyncio.create_task(_poll(poll, heard)).cancel)
        await heard.wait_for(COUNT)
        hung = _server(pair.brokers[0])
        await eventually(lambda: hung.service.reading.pulls.waiting._count >= 4)
        hung.service.reading.pulls.waiting.on_arrival = lambda arrivals: None  # type: ignore[method-assign]
        await asyncio.to_thread(pair.demote, pair.brokers[0])
        await asyncio.to_thread(pair.promote, pair.slaves[0])
        instance.refresh_soon()
        await eventually(lambda: _server(pair.slaves[0]).service.reading.pulls.waiting._count >= 4, seconds=10)


async def _poll(consumer: LitePullConsumer, heard: Heard) -> None:
    while True:
        for message in await consumer.poll(timeout=1.0):
            await heard(message)


async def test_orderly_queues_keep_one_owner_when_the_master_goes(pair: LocalCluster, topic: str, group: str) -> None:
    """The second member joins at the slave while a listener of the first still has a message of every queue."""
    busy: set[MessageQueue] = set()
    clashes: list[MessageQueue] = []
    heard, gate = Heard(), asyncio.Event()

    async def listen(message: MessageExt) -> None:
        if message.queue in busy:
            clashes.append(message.queue)
        busy.add(message.queue)
        await gate.wait()
        busy.discard(message.queue)
        await heard(message)

    def member() -> PushConsumer:
        return PushConsumer(
            group, pair.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest", clock=pair.clock
        )

    async with member():
        await eventually(lambda: len(busy) == 4)
        await stop_master(pair)
        async with member():
            await pair.clock.advance_async(seconds=3)
            gate.set()
            await heard.wait_for(COUNT)
    assert not clashes
    assert len(heard.messages) == COUNT


async def test_queues_of_other_brokers_go_on_while_one_is_down(topic: str, group: str) -> None:
    """What the consumer had not committed at the broker that stopped comes again; only what is new is counted."""
    heard = Heard()
    async with (
        LocalCluster(brokers=2) as cluster,
        Producer("p", cluster.namesrv, clock=cluster.clock) as producer,
        PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", clock=cluster.clock),
    ):
        assert await _heard_from(heard, await _send(producer, topic, 16)) == {"broker-a", "broker-b"}
        await asyncio.to_thread(cluster.stop_broker, 0)
        assert await _heard_from(heard, await _send(producer, topic, 16)) == {"broker-b"}
        await asyncio.to_thread(cluster.start_broker, 0)
        await cluster.clock.advance_async(seconds=31)  # routes are refreshed
        assert await _heard_from(heard, await _send(producer, topic, 16)) == {"broker-a", "broker-b"}


async def _send(producer: Producer, topic: str, count: int) -> set[str]:
    """Send so many messages and return their ids."""
    results = await asyncio.gather(*[producer.send(Message(topic, b"x")) for _ in range(count)])
    return {result.message_id for result in results}


async def _heard_from(heard: Heard, ids: set[str]) -> set[str]:
    """Wait for all of these messages and return the brokers that they came from."""
    await eventually(lambda: ids <= {message.message_id for message in heard.messages})
    return {message.queue.broker_name for message in heard.messages if message.message_id in ids}
