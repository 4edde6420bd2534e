"""One consumer handles one message now, asked through the broker that has the message."""

from __future__ import annotations

import pytest

from pyromq import LitePullConsumer, Message, MessageExt, Producer, PushConsumer
from pyromq.admin import AdminClient
from pyromq.errors import BrokerError, ClientError
from pyromq.testing import LocalCluster


async def sent(cluster: LocalCluster, topic: str) -> str:
    async with Producer("filling", cluster.namesrv, clock=cluster.clock) as producer:
        return (await producer.send(Message(topic=topic, body=b"x"))).message_id


async def test_the_listener_gets_it_and_its_answer_comes_back(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    message_id = await sent(pair, topic)
    seen: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        seen.append(message.body)
        if len(seen) > 1:
            raise ValueError("twice is too much")

    async with PushConsumer(group, pair.namesrv, {topic: "never"}, listen) as consumer:
        wanted = {"topic": topic, "group": group, "client_id": consumer.client_id}
        plan = await admin.messages.plan_consume(message_id, **wanted)
        assert (plan.message.message_id, plan.client_id, plan.language) == (message_id, consumer.client_id, "PYTHON")
        assert seen == []
        done = await admin.messages.consume(message_id, **wanted)
        assert (done.message_id, done.client_id, done.result) == (message_id, consumer.client_id, "CR_SUCCESS")
        assert done.succeeded
        failed = await admin.messages.consume(message_id, **wanted)
        assert (failed.result, failed.succeeded) == ("CR_THROW_EXCEPTION", False)
        assert (failed.remark or "").startswith("ValueError: twice is too much (test_direct_consumption.py:")
    assert seen == [b"x", b"x"]


async def test_a_consumer_that_is_not_there_is_named_with_those_that_are(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    message_id = await sent(pair, topic)
    with pytest.raises(ClientError, match=r"client nobody of group .* it has no members there"):
        await admin.messages.consume(message_id, topic=topic, group=group, client_id="nobody")
    async with LitePullConsumer(group, pair.namesrv, {topic: "*"}) as consumer:
        with pytest.raises(ClientError, match=f"it has {consumer.client_id}"):
            await admin.messages.plan_consume(message_id, topic=topic, group=group, client_id="nobody")
        with pytest.raises(BrokerError, match="polls and has no listener"):
            await admin.messages.consume(message_id, topic=topic, group=group, client_id=consumer.client_id)
