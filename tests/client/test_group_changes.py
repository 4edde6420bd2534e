"""What operators change about groups: offsets, settings, their end; always because they say so, and in the log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from pyromq import LitePullConsumer, Message, Producer, PushConsumer
from pyromq.admin import AdminClient, ResetTo
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ClientError, GroupNotFound, LocalProtocolError
from pyromq.testing import LocalCluster
from tests.client.helpers import Heard, MemoryOffsets, committed, register_broker

COUNT = 5


@pytest.fixture
async def api(pair: LocalCluster) -> AsyncIterator[BrokerApi]:
    async with await BrokerApi.connect(pair.namesrv) as opened:
        yield opened


async def fill(cluster: LocalCluster, api: BrokerApi, topic: str, count: int = COUNT) -> None:
    """Send to one queue on each broker."""
    for broker in cluster.brokers:
        await api.create_topic(broker.address, topic, 1)
    async with Producer("filling", cluster.namesrv, clock=cluster.clock) as producer:
        for place in await producer.queues(topic):
            for number in range(count):
                await producer.send(Message(topic=topic, body=b"%d" % number), queue=place)


async def commit(cluster: LocalCluster, api: BrokerApi, group: str, topic: str, offset: int) -> None:
    for broker in cluster.brokers:
        await api.commit_offset(broker.address, group, topic, 0, offset)


async def offsets(cluster: LocalCluster, api: BrokerApi, group: str, topic: str) -> list[int]:
    return [(await committed(api, broker.address, group, topic))[0] for broker in cluster.brokers]


@pytest.mark.parametrize(
    ("to", "expected"), [("earliest", 0), ("latest", COUNT), (2, 2), (99, COUNT)], ids=["earliest", "latest", "2", "99"]
)
async def test_a_group_without_members_is_committed_elsewhere(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str, to: ResetTo, expected: int
) -> None:
    await fill(pair, api, topic)
    await commit(pair, api, group, topic, 3)
    plan = await admin.groups.plan_reset(group, to)
    assert [(move.before, move.after) for move in plan.moves] == [(3, expected)] * 2
    assert (plan.again, plan.skipped) == (2 * max(3 - expected, 0), 2 * max(expected - 3, 0))
    assert await offsets(pair, api, group, topic) == [3, 3], "a plan changes nothing"
    async with LitePullConsumer(group, pair.namesrv, {topic: "*"}, auto_commit=False):
        with pytest.raises(ClientError, match="cannot be moved as planned: stop its members first"):
            await admin.groups.reset(plan)
    await admin.groups.reset(plan)
    assert await offsets(pair, api, group, topic) == [expected] * 2


async def test_a_time_means_the_first_message_since(api: BrokerApi, topic: str, group: str) -> None:
    async with LocalCluster() as cluster, await BrokerApi.connect(cluster.namesrv) as own:
        await fill(cluster, own, topic, 3)
        await cluster.clock.advance_async(hours=1)
        moment = datetime.fromtimestamp(cluster.clock.now(), UTC)
        await fill(cluster, own, topic, 3)
        await commit(cluster, own, group, topic, 6)
        async with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
            await admin.groups.reset(await admin.groups.plan_reset(group, moment))
        assert await offsets(cluster, own, group, topic) == [3]


async def test_a_move_back_is_in_the_log_of_the_broker_and_of_the_operator(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyromq")
    await fill(pair, api, topic)
    await commit(pair, api, group, topic, 3)
    await admin.groups.reset(await admin.groups.plan_reset(group, "earliest"))
    moved = [record.getMessage() for record in caplog.records if group in record.getMessage()]
    assert sum("committed offset moved back" in line and "by=127.0.0.1:" in line for line in moved) == 2
    assert sum("offset reset" in line and "from=3 to=0" in line for line in moved) == 2


async def test_members_with_a_listener_are_told_and_get_messages_again(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    heard = Heard()
    async with PushConsumer(group, pair.namesrv, {topic: "*"}, heard, start_from="earliest") as consumer:
        await heard.wait_for(2 * COUNT)
        await consumer.commit()
        plan = await admin.groups.plan_reset(group, "earliest", [topic])
        assert plan.members == (consumer.client_id,)
        moves = await admin.groups.reset(plan)
        assert [(move.before, move.after) for move in moves] == [(COUNT, 0)] * 2
        await heard.wait_for(4 * COUNT)
        with pytest.raises(ClientError, match="but no offset: stop its members first"):
            await admin.groups.plan_reset(group, 2)


async def test_members_that_cannot_be_told_must_be_stopped(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    async with LitePullConsumer(group, pair.namesrv, {topic: "*"}):
        with pytest.raises(ClientError, match="poll, and decide themselves where: stop its members first"):
            await admin.groups.plan_reset(group, "earliest")
    kept = MemoryOffsets()
    async with PushConsumer(f"{group}-b", pair.namesrv, {topic: "*"}, Heard(), broadcasting=True, offset_store=kept):
        with pytest.raises(ClientError, match="is broadcasting"):
            await admin.groups.plan_reset(f"{group}-b", "earliest")


async def test_a_topic_can_be_chosen_and_a_group_without_offsets_needs_one(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    await fill(pair, api, f"{topic}-b")
    await commit(pair, api, group, topic, 3)
    await admin.groups.reset(await admin.groups.plan_reset(group, "latest", [f"{topic}-b"]))
    assert await offsets(pair, api, group, topic) == [3, 3]
    assert await offsets(pair, api, group, f"{topic}-b") == [COUNT, COUNT]
    await admin.groups.set(f"{group}-new", {})
    with pytest.raises(ClientError, match="has no offsets; name a topic"):
        await admin.groups.plan_reset(f"{group}-new", "latest")
    with pytest.raises(GroupNotFound):
        await admin.groups.plan_reset(f"{group}-unknown", "latest")


async def test_a_group_gets_the_offsets_of_another(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    await fill(pair, api, f"{topic}-b")
    await commit(pair, api, group, topic, 3)
    await commit(pair, api, group, f"{topic}-b", 4)
    plan = await admin.groups.plan_clone(group, f"{group}-b", topic)
    assert plan == {"broker-a": [topic], "broker-b": [topic]}
    assert await offsets(pair, api, f"{group}-b", topic) == [0, 0]
    assert await admin.groups.clone(group, f"{group}-b", topic) == plan
    assert await offsets(pair, api, f"{group}-b", topic) == [3, 3]
    assert await offsets(pair, api, f"{group}-b", f"{topic}-b") == [0, 0]
    await admin.groups.clone(group, f"{group}-c")
    assert await offsets(pair, api, f"{group}-c", f"{topic}-b") == [4, 4]
    with pytest.raises(ClientError, match="has no offsets of nowhere"):
        await admin.groups.clone(group, f"{group}-b", "nowhere")
    async with LitePullConsumer(f"{group}-b", pair.namesrv, {topic: "*"}) as consumer:
        with pytest.raises(ClientError, match=f"stop its members first: {consumer.client_id}"):
            await admin.groups.clone(group, f"{group}-b")


async def test_settings_are_changed_one_by_one(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await admin.groups.set(group, {"retry_max_times": 5})
    plan = await admin.groups.plan_set(group, {"consume_enable": False}, broker="broker-b")
    assert plan.keys() == {"broker-b"}
    assert (await admin.groups.describe(group)).findings == ()
    await admin.groups.set(group, {"consume_enable": False}, broker="broker-b")
    found = await admin.groups.describe(group)
    assert {name: (it.consume_enable, it.retry_max_times) for name, it in found.settings.items()} == {
        "broker-a": (True, 5),
        "broker-b": (False, 5),
    }
    assert found.findings == ("broker-b lets the group consume nothing: its consumeEnable is false",)
    with pytest.raises(ClientError, match="no setting 'retry_max'; did you mean retry_max_times"):
        await admin.groups.set(group, {"retry_max": 1})
    with pytest.raises(ClientError, match="no broker 'broker-x' with a master; there are broker-a, broker-b"):
        await admin.groups.set(group, {}, broker="broker-x")
    with pytest.raises(LocalProtocolError):
        await admin.groups.set("no such name", {})


async def test_a_group_is_forgotten_with_its_offsets(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    async with LitePullConsumer(group, pair.namesrv, {topic: "*"}):
        with pytest.raises(ClientError, match="cannot be deleted: stop its members first"):
            await admin.groups.delete(group)
    await commit(pair, api, group, topic, 3)
    assert await admin.groups.plan_delete(group) == ["broker-a", "broker-b"]
    assert await admin.groups.delete(group) == ["broker-a", "broker-b"]
    with pytest.raises(GroupNotFound):
        await admin.groups.describe(group)
    with pytest.raises(GroupNotFound):
        await admin.groups.delete(group)
    with pytest.raises(ClientError, match="RocketMQ's own"):
        await admin.groups.delete("TOOLS_CONSUMER")


async def test_nothing_is_changed_while_a_broker_is_away(topic: str, group: str) -> None:
    async with LocalCluster() as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        await fill(cluster, api, topic)
        await commit(cluster, api, group, topic, 3)
        await register_broker(api, "broker-z", "127.0.0.1:1")
        async with AdminClient(cluster.namesrv) as admin:
            with pytest.raises(ClientError, match="broker-z does not answer"):
                await admin.groups.plan_reset(group, "earliest")
            for change in (admin.groups.delete(group), admin.groups.clone(group, "b"), admin.groups.set(group, {})):
                with pytest.raises(ClientError, match="broker-z does not answer, so nothing was changed"):
                    await change
        assert await offsets(cluster, api, group, topic) == [3]
