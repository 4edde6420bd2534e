"""A topic that is deleted and recreated while its consumers run: they read the new one from its beginning."""

from __future__ import annotations

import pytest

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.admin import DeleteTopicInBrokerRequestHeader
from pyromq.testing import LocalCluster
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
