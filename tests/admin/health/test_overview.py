"""The overview of a cluster agrees with what is known about each group."""

from __future__ import annotations

import asyncio

import pytest

from pyromq import Message, Producer, PushConsumer
from pyromq.admin import AdminClient, GroupLoad, Level, Overview
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.bodies import MessageModel
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.names import dlq_topic
from pyromq.testing import LocalCluster, eventually
from tests.admin.groups.helpers import commit, fill
from tests.client.helpers import Heard, MemoryOffsets, register_broker


def of(overview: Overview, group: str) -> GroupLoad:
    return next(one for one in overview.groups if one.group == group)


async def check_agreement(admin: AdminClient, group: str) -> GroupLoad:
    """Compare the overview with the group's description: to the message, and to the second."""
    load = of(await admin.overview(), group)
    described = await admin.groups.describe(group, watch=0)
    assert (load.lag, load.members, load.model) == (described.lag, len(described.members), described.model)
    assert load.behind == pytest.approx(described.behind or 0, abs=1)
    return load


async def test_a_group_without_members_has_the_lag_of_its_description(topic: str, group: str) -> None:
    async with LocalCluster(brokers=2) as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        await fill(cluster, api, topic)
        await cluster.clock.advance_async(seconds=100)
        await commit(cluster, api, group, topic, 2)
        async with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
            load = await check_agreement(admin, group)
        assert (load.lag, load.members) == (6, 0)
        assert load.behind == pytest.approx(100, abs=5)


async def test_two_stalled_queues_agree_with_the_description(topic: str, group: str) -> None:
    stop = asyncio.Event()

    async def stall(_: object) -> None:
        await stop.wait()

    async with LocalCluster(brokers=2) as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        await fill(cluster, api, topic)
        async with (
            AdminClient(cluster.namesrv, clock=cluster.clock) as admin,
            PushConsumer(group, cluster.namesrv, {topic: "*"}, stall, start_from="earliest"),
        ):
            await eventually(lambda: _has_all(admin, group, 10))
            await cluster.clock.advance_async(seconds=30)
            load = await check_agreement(admin, group)
            assert (load.lag, load.members) == (10, 1)
            stop.set()


async def _has_all(admin: AdminClient, group: str, lag: int) -> bool:
    found = await admin.groups.describe(group, watch=0)
    return found.lag == lag and len(found.members) == 1


async def test_a_topic_that_a_group_no_longer_consumes_does_not_count(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    old = f"{topic}-old"
    await api.create_topic(pair.brokers[0].address, old, 1)
    await api.create_topic(pair.brokers[1].address, topic, 1)
    async with Producer("filling", pair.namesrv) as producer:
        await producer.send(Message(topic=old, body=b"x"))
    await api.commit_offset(pair.brokers[0].address, group, old, 0, 0)
    heard = Heard()
    async with PushConsumer(group, pair.namesrv, {topic: "*"}, heard):
        await eventually(lambda: _has_all(admin, group, 0))
        await check_agreement(admin, group)


async def test_of_a_broadcasting_group_the_members_are_asked(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    heard = Heard()
    async with PushConsumer(
        group,
        pair.namesrv,
        {topic: "*"},
        heard,
        broadcasting=True,
        start_from="earliest",
        offset_store=MemoryOffsets(),
    ):
        await heard.wait_for(10)
        load = await check_agreement(admin, group)
    assert load.model is MessageModel.BROADCASTING


async def test_dead_letters_and_topics_are_counted(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    await commit(pair, api, group, topic, 5)
    await api.create_topic(pair.brokers[0].address, dlq_topic(group), 1)
    async with Producer("filling", pair.namesrv) as producer:
        await producer.send(Message(topic=dlq_topic(group), body=b"x"))
    overview = await admin.overview()
    assert of(overview, group).dead_letters == 1
    assert {one.topic: one.puts for one in overview.topics}[topic] == 10
    assert [one.name for one in overview.brokers] == ["broker-a", "broker-b"]
    assert all(one.disk_percent is not None for one in overview.brokers)
    assert all(abs(seconds) < 5 for seconds in overview.clock_differences.values())


async def test_rates_are_those_since_an_earlier_overview(topic: str) -> None:
    async with LocalCluster() as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        async with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
            await fill(cluster, api, topic, 1)
            before = await admin.overview()
            await fill(cluster, api, topic, 30)
            await cluster.clock.advance_async(seconds=10)
            after = await admin.overview()
        now = after.since(before)
        seconds = after.taken - before.taken
        rates = {one.topic: one.rate for one in now.topics}
        assert rates[topic] == pytest.approx(30 / seconds)
        assert now.brokers[0].put_rate == pytest.approx(30 / seconds)
        assert before.since(after) is before


async def test_a_broker_of_apache_is_asked_group_by_group(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    await commit(pair, api, group, topic, 1)
    for broker in pair.brokers:
        assert broker.server is not None
        for code in (RequestCode.TOPIC_ACTIVITY, RequestCode.GROUP_ACTIVITY):
            broker.server.handlers.pop(code)
    overview = await admin.overview()
    assert (of(overview, group).lag, overview.topics, overview.clock_differences) == (8, (), {})
    assert overview.brokers_without_topics == ("broker-a", "broker-b")
    await check_agreement(admin, group)


async def test_a_broker_that_does_not_answer_is_named() -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.namesrv) as admin:
        await register_broker(admin.api, "broker-z", "127.0.0.1:1")
        overview = await admin.overview()
        assert [one.name for one in overview.brokers] == ["broker-a"]
        assert list(overview.silent_brokers) == ["broker-z"]
        report = await admin.check()
        assert report.level is Level.CRITICAL
        assert report.results[0].text == "the master of broker-z not answering"
