"""Our broker and clients talk to each other: replies, and requests of administrators to consumers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from uuid import uuid4

import pytest

from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import BrokerError
from pyromq.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumeResult,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    decode,
)
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.remoting.client import RemotingClient
from pyromq.testing import LocalCluster, eventually

TOPIC = "orders"


class Admin:
    """Sends the requests of mqadmin to a broker."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._remoting = RemotingClient(cluster.clock)
        self._address = cluster.brokers[0].address

    async def ask(self, code: int, fields: Mapping[str, str]) -> RemotingCommand:
        answer = await self._remoting.request(self._address, request(code, fields), 20.0)
        if answer.code:
            raise BrokerError(answer.remark or "", answer.code)
        return answer

    async def client_id(self, group: str) -> str:
        answer = await self.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
        return decode(ConsumerConnection, answer.body).connection_set[0].client_id

    async def close(self) -> None:
        await self._remoting.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture
async def admin(cluster: LocalCluster) -> AsyncIterator[Admin]:
    made = Admin(cluster)
    yield made
    await made.close()


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


async def test_a_request_is_answered_by_a_listener_and_the_reply_is_stored(cluster: LocalCluster, group: str) -> None:
    async def listen(message: MessageExt) -> None:
        await message.reply(b"you said " + message.body)

    server = cluster.brokers[0].server
    assert server is not None
    before = server.store.max_offset("DefaultCluster_REPLY_TOPIC", 0)
    async with (
        PushConsumer(group, cluster.namesrv, {"questions": "*"}, listen, start_from="earliest"),
        Producer("asking", cluster.namesrv) as producer,
    ):
        reply = await producer.request(Message(topic="questions", body=b"hello"), timeout=20)
        assert reply.body == b"you said hello"
        assert (reply.topic, reply.store_host) == ("DefaultCluster_REPLY_TOPIC", cluster.brokers[0].address)
        assert {"PUSH_REPLY_TIME", "ARRIVE_TIME"} <= reply.properties.keys()
        large = await producer.request(Message(topic="questions", body=b"x" * 50_000), timeout=20)
        assert large.body == b"you said " + b"x" * 50_000
        texts = [b"%d" % number for number in range(50)]
        asked = [producer.request(Message(topic="questions", body=text), timeout=20) for text in texts]
        assert [reply.body for reply in await asyncio.gather(*asked)] == [b"you said " + text for text in texts]
    assert server.store.max_offset("DefaultCluster_REPLY_TOPIC", 0) == before + 52


async def test_a_listener_hears_that_who_asked_has_gone(cluster: LocalCluster, group: str) -> None:
    errors: list[BrokerError] = []
    gone, told = asyncio.Event(), asyncio.Event()

    async def listen(message: MessageExt) -> None:
        await gone.wait()
        try:
            await message.reply(b"too late")
        except BrokerError as error:
            errors.append(error)
            told.set()

    topic = f"questions-{uuid4().hex[:8]}"
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
        async with Producer("asking", cluster.namesrv) as producer:
            asking = asyncio.create_task(producer.request(Message(topic=topic, body=b"hello"), timeout=20))
            server = cluster.brokers[0].server
            assert server is not None
            await eventually(lambda: any(server.store.max_offset(topic, queue_id) for queue_id in range(4)))
            asking.cancel()
        gone.set()
        await eventually(told.is_set)
    assert "is not connected to this broker" in errors[0].remark


async def test_a_consumer_is_asked_through_its_broker(cluster: LocalCluster, admin: Admin, group: str) -> None:
    bodies: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        bodies.append(message.body)

    async with (
        Producer("shop", cluster.namesrv) as producer,
        PushConsumer(group, cluster.namesrv, {TOPIC: "*"}, listen, start_from="earliest"),
    ):
        sent = await producer.send(Message(topic=TOPIC, body=b"once"))
        await eventually(lambda: bodies == [b"once"])
        client_id = await admin.client_id(group)
        asked = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "true"}
        answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, asked)
        info = decode(ConsumerRunningInfo, answer.body)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert {queue.topic for queue in info.mq_table} >= {TOPIC}
        assert info.jstack

        answer = await admin.ask(
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            {"consumerGroup": group, "clientId": client_id, "msgId": sent.offset_message_id},
        )
        assert decode(ConsumeMessageDirectlyResult, answer.body).consume_result is ConsumeResult.CR_SUCCESS
        assert bodies == [b"once", b"once"]

        answer = await admin.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": TOPIC, "group": group})
        table = decode(GetConsumerStatusBody, answer.body).consumer_table[client_id]
        assert table[sent.queue] == sent.queue_offset + 1


async def test_a_group_that_is_reset_consumes_again_and_commits_it(
    cluster: LocalCluster, admin: Admin, group: str
) -> None:
    bodies: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        bodies.append(message.body)

    server = cluster.brokers[0].server
    assert server is not None
    topic = f"again-{uuid4().hex[:8]}"
    async with Producer("shop", cluster.namesrv) as producer:
        for number in range(8):
            await producer.send(Message(topic=topic, body=b"%d" % number))
    queues = server.topics.find(topic).write_queues
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest") as consumer:
        await eventually(lambda: len(bodies) == 8)
        await consumer.commit()
        await eventually(lambda: len(server.offsets.of(group, topic)) == queues)
        fields = {"topic": topic, "group": group, "timestamp": "0", "isForce": "true"}
        await admin.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        await eventually(lambda: len(bodies) == 16)
    assert sorted(bodies[:8]) == sorted(bodies[8:])
    committed = server.offsets.of(group, topic)
    assert {queue_id: server.store.max_offset(topic, queue_id) for queue_id in range(queues)} == committed
