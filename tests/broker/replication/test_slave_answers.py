"""What a slave answers consumers: while it follows its master, and while that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyromq.broker.server import Broker
from pyromq.client.net.calls.answers import PullAnswer, PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.errors import ServiceNotAvailable
from pyromq.protocol.codes import PULL_SUBSCRIPTION_FLAG, PULL_SUSPEND_FLAG
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.testing import LocalCluster, eventually

TOPIC = "orders"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)


@pytest.fixture
async def pair() -> AsyncIterator[LocalCluster]:
    """A master and a slave with three messages in one queue."""
    async with LocalCluster(slaves=1) as cluster:
        async with await BrokerApi.connect(cluster.namesrv, clock=cluster.clock) as api:
            await api.create_topic(cluster.brokers[0].address, TOPIC, queues=1)
        await send(cluster, 3)
        slave = server(cluster)
        await eventually(lambda: TOPIC in slave.topics.by_name and slave.store.max_offset(TOPIC, 0) == 3)
        yield cluster


@pytest.fixture
async def api(pair: LocalCluster) -> AsyncIterator[BrokerApi]:
    async with await BrokerApi.connect(pair.namesrv, clock=pair.clock) as opened:
        yield opened


async def send(cluster: LocalCluster, count: int) -> None:
    async with Producer("p", cluster.namesrv, clock=cluster.clock) as producer:
        for number in range(count):
            await producer.send(Message(TOPIC, b"%d" % number))


def server(cluster: LocalCluster) -> Broker:
    slave = cluster.slaves[0].server
    assert slave is not None
    return slave


async def pull(api: BrokerApi, address: str, offset: int, wait_ms: int = 0) -> PullAnswer:
    header = PullMessageRequestHeader(
        consumer_group="billing",
        topic=TOPIC,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=PULL_SUBSCRIPTION_FLAG | (PULL_SUSPEND_FLAG if wait_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=wait_ms,
        subscription="*",
        sub_version=0,
    )
    return await api.pull(address, header, timeout=30.0)


async def test_a_slave_gives_locks_only_while_its_master_is_away(pair: LocalCluster, api: BrokerApi) -> None:
    slave = pair.slaves[0].address
    with pytest.raises(ServiceNotAvailable, match="follows its master"):
        await api.lock(slave, "billing", "one", [QUEUE])
    await asyncio.to_thread(pair.stop_broker)
    await eventually(lambda: not server(pair)._follower.is_connected)
    assert await api.lock(slave, "billing", "one", [QUEUE]) == [QUEUE]
    assert await api.lock(slave, "billing", "other", [QUEUE]) == []
    await api.unlock(slave, "billing", "one", [QUEUE])
    assert await api.lock(slave, "billing", "other", [QUEUE]) == [QUEUE]


async def test_a_slave_that_lags_moves_no_consumer_back(pair: LocalCluster, api: BrokerApi) -> None:
    """RocketMQ's clients would follow such an answer, and commit it."""
    slave = pair.slaves[0].address
    answer = await pull(api, slave, 5)
    assert (answer.status, answer.next_offset) == (PullStatus.NO_NEW_MESSAGE, 5)
    waiting = asyncio.create_task(pull(api, slave, 4, wait_ms=20_000))
    await send(pair, 2)
    while not (answer := await waiting).body:  # the message before the one that it waits for wakes it too
        assert (answer.status, answer.next_offset) == (PullStatus.NO_NEW_MESSAGE, 4)
        waiting = asyncio.create_task(pull(api, slave, 4, wait_ms=20_000))
    assert answer.next_offset == 5


async def test_a_slave_with_fewer_messages_sends_consumers_to_its_master(pair: LocalCluster, api: BrokerApi) -> None:
    slave = pair.slaves[0]
    queue = server(pair).store._queues.find(TOPIC, 0)
    assert queue is not None
    queue.min_offset = 2
    answer = await pull(api, slave.address, 0)
    assert (answer.status, answer.next_offset, answer.suggested_broker_id) == (PullStatus.NO_MATCHED_MESSAGE, 0, 0)
    await asyncio.to_thread(pair.stop_broker)
    await eventually(lambda: not server(pair)._follower.is_connected)
    answer = await pull(api, slave.address, 0)
    assert (answer.status, answer.next_offset) == (PullStatus.OFFSET_MOVED, 2)
