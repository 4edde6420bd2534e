"""Topics as an operator sees them, on real brokers."""

from __future__ import annotations

import pytest

from pyromq import LitePullConsumer, Message, Producer
from pyromq.admin import AdminClient, TopicConsumer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import NoRoute
from pyromq.protocol.codes import PERM_READ
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import LocalCluster
from tests.client.helpers import register_broker


async def test_a_topic_is_described_with_what_it_holds_and_who_consumes_it(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    for broker in pair.brokers:
        await admin.api.create_topic(broker.address, topic, 2)
    async with Producer("filling", pair.namesrv) as producer:
        for number in range(3):
            queue = MessageQueue(topic, "broker-b", 1)
            await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
    async with LitePullConsumer(group, pair.namesrv, {topic: "*"}):
        found = await admin.topics.describe(topic)
    assert (found.kind, found.messages, found.order, found.findings) == ("topic", 3, None, ())
    assert [it.queue for it in found.queues] == [
        MessageQueue(topic, name, number) for name in ("broker-a", "broker-b") for number in range(2)
    ]
    empty, full = found.queues[0], found.queues[3]
    assert (empty.messages, empty.last_stored) == (0, None)
    assert (full.min_offset, full.max_offset, full.messages) == (0, 3, 3)
    assert full.last_stored is not None
    assert found.groups == (TopicConsumer(group=group, members=1, lag=3),)
    assert found.settings["broker-a"].read_queue_nums == 2


async def test_what_is_odd_about_a_topic_is_told(pair: LocalCluster, admin: AdminClient, topic: str) -> None:
    await admin.api.create_topic(pair.brokers[0].address, topic, 2, perm=PERM_READ)
    await admin.api.create_topic(pair.brokers[1].address, topic, 3)
    found = await admin.topics.describe(topic)
    assert found.findings == ("broker-a accepts no messages for it", "its brokers have different numbers of queues")
    (summary,) = [it for it in (await admin.topics.list()).topics if it.topic == topic]
    assert (summary.brokers, summary.read_queues, summary.write_queues) == (("broker-a", "broker-b"), 5, 5)
    assert (summary.kind, summary.perm) == ("topic", "r")


async def test_queues_that_are_only_read_are_shown_too(pair: LocalCluster, admin: AdminClient, topic: str) -> None:
    """A topic that is being resized: brokers list only the queues that are written."""
    await admin.topics.create(topic, brokers=["broker-a"], read_queues=2, write_queues=2)
    async with Producer("filling", pair.namesrv) as producer:
        await producer.send(Message(topic=topic, body=b"x"), queue=MessageQueue(topic, "broker-a", 1))
    await anext(admin.topics.resize(topic, 1))
    found = await admin.topics.describe(topic)
    assert [(it.queue.queue_id, it.messages) for it in found.queues] == [(0, 0), (1, 1)]
    assert found.findings == ("broker-a does not write the queues from 1 on any more; `topic resize` takes them away",)
    assert (await admin.topics.plan_delete(topic)).messages == 1


async def test_topics_are_told_apart(pair: LocalCluster, admin: AdminClient, topic: str, group: str) -> None:
    await admin.api.create_topic(pair.brokers[0].address, topic, 1)
    async with LitePullConsumer(group, pair.namesrv, {topic: "*"}):
        kinds = {it.topic: it.kind for it in (await admin.topics.list()).topics}
        assert topic in await admin.topics.names()
    assert kinds[topic] == "topic"
    assert kinds[f"%RETRY%{group}"] == "retry"
    system = ("TBW102", "DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC", "SCHEDULE_TOPIC_XXXX")
    assert {kinds[name] for name in system} == {"system"}


async def test_a_topic_that_nobody_has_is_an_error(admin: AdminClient) -> None:
    with pytest.raises(NoRoute, match="no broker has the topic 'nowhere'"):
        await admin.topics.describe("nowhere")


async def test_a_broker_that_does_not_answer_is_named(topic: str) -> None:
    async with LocalCluster() as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        await api.create_topic(cluster.brokers[0].address, topic, 1)
        await register_broker(api, "broker-z", "127.0.0.1:1", topic)
        async with AdminClient(cluster.namesrv) as admin:
            found, listing = await admin.topics.describe(topic), await admin.topics.list()
    assert found.silent_brokers.keys() == listing.silent_brokers.keys() == {"broker-z"}
    assert found.findings[0].startswith("broker-z does not answer: ")
