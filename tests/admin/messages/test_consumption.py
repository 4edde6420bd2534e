"""Who has consumed a message: each answer from a real group."""

from __future__ import annotations

from collections.abc import AsyncIterator
from unittest.mock import patch

import pytest

from pyromq import DeadLetter, LitePullConsumer, Message, MessageExt, Producer, PushConsumer, RetryLater, Sql
from pyromq.admin import AdminClient, ConsumptionState, GroupConsumption
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import BrokerError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.testing import LocalCluster, eventually


async def sent(cluster: LocalCluster, admin: AdminClient, topic: str) -> MessageExt:
    async with Producer("filling", cluster.namesrv, clock=cluster.clock) as producer:
        result = await producer.send(Message(topic=topic, body=b"x", tags="paid", properties={"n": "1"}))
    return await admin.messages.get(result.message_id, topic)


async def state(admin: AdminClient, message: MessageExt, group: str) -> ConsumptionState:
    return {each.group: each.state for each in await admin.messages.consumed_by(message)}[group]


async def becomes(admin: AdminClient, message: MessageExt, group: str, wanted: ConsumptionState) -> None:
    async def is_so() -> bool:
        return await state(admin, message, group) == wanted

    await eventually(is_so)


@pytest.fixture
async def message(cluster: LocalCluster, single: AdminClient, topic: str) -> MessageExt:
    return await sent(cluster, single, topic)


@pytest.fixture
async def single(cluster: LocalCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(cluster.namesrv, clock=cluster.clock) as opened:
        yield opened


async def test_consumed_by_one_group_and_not_yet_by_another(
    cluster: LocalCluster, single: AdminClient, message: MessageExt, topic: str
) -> None:
    assert await single.messages.consumed_by(message) == []

    async def accept(message: MessageExt) -> None: ...

    async with (
        PushConsumer("quick", cluster.namesrv, {topic: "*"}, accept, start_from="earliest") as quick,
        LitePullConsumer("slow", cluster.namesrv, {topic: "*"}, start_from="earliest", auto_commit=False),
    ):

        async def committed() -> bool:
            await quick.commit()
            return await state(single, message, "quick") == ConsumptionState.CONSUMED

        await eventually(committed)
        assert await single.messages.consumed_by(message) == [
            GroupConsumption(group="quick", state=ConsumptionState.CONSUMED, members=1, committed_offset=1),
            GroupConsumption(group="slow", state=ConsumptionState.NOT_YET, members=1, committed_offset=0),
        ]


@pytest.mark.parametrize("expression", ["other", Sql("n > 5")])
async def test_a_message_that_a_subscription_leaves_out_is_filtered(
    cluster: LocalCluster, single: AdminClient, message: MessageExt, topic: str, group: str, expression: str | Sql
) -> None:
    async def accept(message: MessageExt) -> None: ...

    async with (
        PushConsumer(group, cluster.namesrv, {topic: expression}, accept),
        await BrokerApi.connect(cluster.namesrv) as api,
    ):
        await api.commit_offset(cluster.brokers[0].address, group, topic, message.queue_id, 1)
        assert await state(single, message, group) == ConsumptionState.FILTERED


async def test_a_group_without_members_is_offline_unless_it_has_consumed_it(
    cluster: LocalCluster, single: AdminClient, message: MessageExt, topic: str, group: str
) -> None:
    async with await BrokerApi.connect(cluster.namesrv) as api:
        for offset, wanted in ((0, ConsumptionState.OFFLINE), (1, ConsumptionState.CONSUMED)):
            await api.commit_offset(cluster.brokers[0].address, group, topic, message.queue_id, offset)
            (found,) = await single.messages.consumed_by(message)
            assert (found.state, found.members, found.committed_offset) == (wanted, 0, offset)


@pytest.mark.parametrize(
    ("outcome", "wanted"),
    [
        (RetryLater(3600), ConsumptionState.RETRYING),
        (ValueError("oops"), ConsumptionState.RETRYING),
        (DeadLetter("never"), ConsumptionState.DEAD_LETTER),
    ],
)
async def test_a_failed_message_waits_for_a_retry_or_was_given_up(
    cluster: LocalCluster,
    single: AdminClient,
    message: MessageExt,
    topic: str,
    group: str,
    outcome: Exception,
    wanted: ConsumptionState,
) -> None:
    async def fail(message: MessageExt) -> None:
        raise outcome

    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, fail, start_from="earliest"):
        await becomes(single, message, group, wanted)


async def test_a_retried_message_is_consumed_in_the_end(
    cluster: LocalCluster, single: AdminClient, message: MessageExt, topic: str, group: str
) -> None:
    times = 0

    async def fail_once(message: MessageExt) -> None:
        nonlocal times
        times += 1
        if times == 1:
            raise RetryLater(1)

    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, fail_once, start_from="earliest", clock=cluster.clock
    ) as consumer:
        await becomes(single, message, group, ConsumptionState.RETRYING)
        await cluster.clock.advance_async(seconds=30)
        await eventually(lambda: times == 2)

        async def is_consumed() -> bool:
            await consumer.commit()
            return await state(single, message, group) == ConsumptionState.CONSUMED

        await eventually(is_consumed)


async def test_broadcasting_groups_and_groups_that_cannot_be_asked_are_unknown(
    cluster: LocalCluster, single: AdminClient, message: MessageExt, topic: str, group: str
) -> None:
    async def accept(message: MessageExt) -> None: ...

    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, accept, broadcasting=True):
        (found,) = await single.messages.consumed_by(message)
        assert (found.state, found.members) == (ConsumptionState.UNKNOWN, 1)
        assert found.remark == "it broadcasts: its members keep their offsets themselves"

        def refuse(request: RemotingCommand, connection: Connection) -> RemotingCommand:
            raise BrokerError("not now")

        server = cluster.brokers[0].server
        assert server is not None
        with patch.dict(server.handlers, {RequestCode.GET_CONSUMER_CONNECTION_LIST: refuse}):
            (found,) = await single.messages.consumed_by(message)
        assert (found.state, found.members) == (ConsumptionState.UNKNOWN, None)
        assert "not now" in (found.remark or "")
