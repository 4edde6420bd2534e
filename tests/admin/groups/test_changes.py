"""Changes to groups: copies of offsets, settings, deletion. Nothing changes unless all brokers answer."""

from __future__ import annotations

import pytest

from pyromq import LitePullConsumer
from pyromq.admin import AdminClient
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ClientError, GroupNotFound, LocalProtocolError
from pyromq.testing import LocalCluster
from tests.admin.groups.helpers import commit, fill, offsets
from tests.client.helpers import register_broker


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
    assert found.findings == ("broker-b does not let the group consume: its consumeEnable is false",)
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
