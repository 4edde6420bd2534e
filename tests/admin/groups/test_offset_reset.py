"""Moving a group to other offsets: only at an operator's request, and always in the log."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from pyromq import LitePullConsumer, PushConsumer
from pyromq.admin import AdminClient, ResetTo
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ClientError, GroupNotFound
from pyromq.testing import LocalCluster
from tests.admin.groups.helpers import COUNT, commit, fill, offsets
from tests.client.helpers import Heard, MemoryOffsets


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
        with pytest.raises(ClientError, match="but not to an offset: stop its members first"):
            await admin.groups.plan_reset(group, 2)


async def test_members_that_cannot_be_told_must_be_stopped(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    async with LitePullConsumer(group, pair.namesrv, {topic: "*"}):
        with pytest.raises(ClientError, match="poll and choose their own offsets: stop its members first"):
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
