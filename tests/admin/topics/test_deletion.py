"""Topics deleted from real brokers, slaves and name servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq import LitePullConsumer, Message, Producer, blocking
from pyromq.admin import AdminClient, TopicConsumer
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.errors import ClientError, NoRoute
from pyromq.testing import LocalCluster, wait_until
from tests.broker.replication.test_replication import server
from tests.client.helpers import register_broker


async def fill(cluster: LocalCluster, topic: str, count: int = 3) -> None:
    async with Producer("filling", cluster.namesrv) as producer:
        for number in range(count):
            await producer.send(Message(topic=topic, body=b"%d" % number))


async def commit(cluster: LocalCluster, group: str, *topics: str) -> None:
    """Let a group consume topics and leave."""
    wanted = dict.fromkeys(topics, "*")
    async with LitePullConsumer(group, cluster.namesrv, wanted, start_from="earliest") as consumer:
        got = 0
        while got < 3 * len(topics):
            got += len(await consumer.poll())
        await consumer.commit()


async def test_all_of_a_topic_goes_and_what_others_need_stays(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    other, busy = f"{topic}-other", f"{group}-busy"
    for name in (topic, other):
        await admin.topics.create(name, read_queues=2, write_queues=2, order=True)
        await fill(pair, name)
    await commit(pair, group, topic)
    await commit(pair, busy, topic, other)
    await fill(pair, topic, 2)
    plan = await admin.topics.plan_delete(topic)
    assert plan.brokers == {broker.name: (broker.address,) for broker in pair.brokers}
    assert (plan.queues, plan.messages, plan.order) == (4, 5, "broker-a:2;broker-b:2")
    assert plan.groups == (
        TopicConsumer(group=group, members=0, lag=2),
        TopicConsumer(group=busy, members=0, lag=2),
    )
    assert plan.retry_topics == (f"%RETRY%{group}",)
    assert plan.name_servers == (pair.namesrv,)
    assert (await admin.topics.describe(topic)).messages == 5

    assert await admin.topics.delete(topic) == plan
    names = await admin.topics.names()
    assert {topic, f"%RETRY%{group}"}.isdisjoint(names)
    assert {other, f"%RETRY%{busy}"} <= {*names}
    calls = AdminCalls(admin.api.remoting)
    for broker in pair.brokers:
        kept = {key.partition("@")[0] for key in await calls.committed_offsets(broker.address)}
        assert topic not in kept
        assert other in kept
    with pytest.raises(NoRoute):
        await admin.topics.delete(topic)
    await admin.topics.create(topic)
    found = await admin.topics.describe(topic)
    assert (found.messages, found.groups, found.order) == (0, (), None)


async def test_a_group_that_is_online_keeps_its_retries(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    await admin.topics.create(topic)
    async with LitePullConsumer(group, pair.namesrv, {topic: "*"}):
        plan = await admin.topics.plan_delete(topic)
    assert [(it.group, it.members) for it in plan.groups] == [(group, 1)]
    assert plan.retry_topics == ()


async def test_a_route_without_a_broker_can_be_deleted(topic: str) -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.namesrv) as admin:
        # Another name for the same broker: it has no such topic, as if Apache's name server had kept the route.
        await register_broker(admin.api, "broker-old", cluster.brokers[0].address, topic)
        assert topic in await admin.topics.names()
        gone = await admin.topics.delete(topic)
        assert (gone.brokers, gone.messages) == ({}, 0)
        assert topic not in await admin.topics.names()


async def test_what_must_not_go_stays(admin: AdminClient) -> None:
    for name in ("TBW102", "DefaultCluster", "broker-a"):
        with pytest.raises(ClientError, match="RocketMQ's own"):
            await admin.topics.delete(name)
    with pytest.raises(NoRoute, match="no broker has the topic 'nowhere'"):
        await admin.topics.plan_delete("nowhere")


def test_slaves_delete_it_too(tmp_path: Path) -> None:
    with (
        LocalCluster(slaves=1, data=tmp_path, settings={"brokerRole": "SYNC_MASTER"}) as cluster,
        blocking.AdminClient(cluster.namesrv) as admin,
        blocking.Producer("shop", cluster.namesrv) as producer,
    ):
        wait_until(lambda: server(cluster.brokers[0]).replication.in_sync())
        admin.topics.create("orders")
        producer.send(Message("orders", b"one"))
        slave = cluster.slaves[0]
        wait_until(lambda: server(slave).topics.get("orders") is not None)
        gone = admin.topics.delete("orders")
        assert gone.brokers == {"broker-a": (cluster.brokers[0].address, slave.address)}
        assert gone.silent_slaves == {}
        assert server(slave).topics.get("orders") is None
