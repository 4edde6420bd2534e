"""A topic that is deleted and recreated while its consumers run: they read the new one from its beginning."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq.client.config import FlowControl
from pyromq.client.consume.offset_store import LocalOffsets
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.admin import DeleteTopicInBrokerRequestHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, fill, read


async def recreate(cluster: LocalCluster, topic: str) -> None:
    address = cluster.brokers[0].address
    async with await BrokerApi.connect(cluster.namesrv) as api:
        command = request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequestHeader(topic=topic))
        await api.call(address, command, 5.0)
        await api.create_topic(address, topic)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_listener_gets_all_messages_of_a_recreated_topic(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, orderly: bool
) -> None:
    heard = Heard()
    await fill(producer, topic, 40)
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, heard, orderly=orderly, start_from="earliest"
    ) as consumer:
        await heard.wait_for(40)
        await recreate(cluster, topic)
        await fill(producer, topic, 60)  # more than before: the old offsets exist again
        await heard.wait_for(100)
        await consumer.commit()
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest"):
        await fill(producer, topic, 4)
        await heard.wait_for(104)
    assert len(heard.messages) == 104


async def test_a_poll_returns_all_messages_of_a_recreated_topic(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 40)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        await read(consumer, 40)
        await recreate(cluster, topic)
        sent = await fill(producer, topic, 60)
        assert sorted(message.body for message in await read(consumer, 60)) == sorted(sent)


class Slow(Heard):
    """A listener that waits until it is told to go on, so that its consumer stops pulling."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = asyncio.Event()

    async def __call__(self, message: MessageExt) -> None:
        await super().__call__(message)
        await self.may_go_on.wait()

    def count(self, tag: str) -> int:
        return sum(message.tags == tag for message in self.messages)


@pytest.mark.parametrize("kind", ["concurrent", "orderly", "broadcasting"])
async def test_a_listener_that_does_not_see_the_deletion_gets_all_messages_of_the_next_topic(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, kind: str, tmp_path: Path
) -> None:
    """No pull is held meanwhile, and the next topic has just as many messages: no offset is out of range."""
    slow = Slow()
    await fill(producer, topic, 40)

    def consumer() -> PushConsumer:
        return PushConsumer(
            group,
            cluster.namesrv,
            {topic: "*"},
            slow,
            orderly=kind == "orderly",
            broadcasting=kind == "broadcasting",
            offset_store=LocalOffsets(tmp_path / "offsets.json") if kind == "broadcasting" else None,
            flow_control=FlowControl(messages=10),
            concurrency=40,
            start_from="earliest",
        )

    async with consumer() as first:
        await slow.wait_for(4 if kind == "orderly" else 40)
        await recreate(cluster, topic)
        await fill(producer, topic, 40, tags=["next"])
        slow.may_go_on.set()
        await eventually(lambda: slow.count("next") == 40)
        await first.commit()
    async with consumer():
        await fill(producer, topic, 4, tags=["last"])
        await eventually(lambda: slow.count("last") == 4)
    assert slow.count("next") == 40


async def test_a_caller_that_polls_too_late_to_see_the_deletion_gets_all_messages_of_the_next_topic(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 40)
    flow = FlowControl(messages=10)
    async with LitePullConsumer(
        group, cluster.namesrv, {topic: "*"}, start_from="earliest", flow_control=flow
    ) as consumer:
        await eventually(lambda: [len(held) for held in consumer._session.assignment] == [10] * 4)
        await recreate(cluster, topic)
        sent = await fill(producer, topic, 40, tags=["next"])
        messages = await read(consumer, 40 + 40)
        assert sorted(message.body for message in messages if message.tags == "next") == sorted(sent)
