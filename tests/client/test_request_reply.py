"""Request and reply: a message that waits for an answer, and a listener that gives one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyromq import blocking
from pyromq.client.producer import Producer
from pyromq.client.pull_consumer import LitePullConsumer
from pyromq.client.push_consumer import PushConsumer
from pyromq.errors import BrokerError, ClientError, RequestTimeout
from pyromq.protocol.codes import LanguageCode, RequestCode
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.protocol.headers.send import (
    PushReplyMessageToClientRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pyromq.protocol.message import Message, MessageExt
from pyromq.protocol.properties import decode_properties
from pyromq.remoting.connection import Connection
from pyromq.testing import LocalCluster
from tests.client.helpers import eventually, read


class Relay:
    """What a broker does with a reply (325): it pushes it to the client that waits, and answers how that went."""

    def __init__(self, cluster: LocalCluster) -> None:
        server = cluster.brokers[0].server
        assert server is not None
        self._server = server
        self.headers: list[SendMessageRequestHeaderV2] = []
        server._handlers[RequestCode.SEND_REPLY_MESSAGE_V2] = self.relay

    async def relay(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        header = command.header(SendMessageRequestHeaderV2)
        self.headers.append(header)
        wanted = decode_properties(header.properties or "")["REPLY_TO_CLIENT"]
        producers = self._server.clients.producers.values()
        found = [client for group in producers for client in group.values() if client.client_id == wanted]
        if not found:
            raise BrokerError(f"{wanted} is not connected")
        pushed = PushReplyMessageToClientRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=header.properties,
            born_host="/127.0.0.1:5",
            store_host="127.0.0.1:10911",
            store_timestamp=77,
        )
        push = request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed, command.body, language=LanguageCode.JAVA)
        answer = await found[0].connection.request(push, 10.0)
        assert (answer.code, answer.language) == (0, LanguageCode.PYTHON)
        return response(command, header=SendMessageResponseHeader(msg_id="0", queue_id=0, queue_offset=0))


@pytest.fixture
async def relayed() -> AsyncIterator[tuple[LocalCluster, Relay]]:
    async with LocalCluster() as running:
        yield running, Relay(running)


async def test_a_listener_replies_to_a_request(relayed: tuple[LocalCluster, Relay], topic: str, group: str) -> None:
    cluster, relay = relayed

    async def listen(message: MessageExt) -> None:
        assert message.properties["TTL"] == "5000"
        await message.reply(b"you said " + message.body)

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"),
        Producer("asking", cluster.namesrv) as producer,
    ):
        reply = await producer.request(Message(topic=topic, body=b"hello"), timeout=5)
        assert reply.body == b"you said hello"
        assert (reply.topic, reply.store_timestamp_ms) == ("DefaultCluster_REPLY_TOPIC", 77)
        assert (reply.born_host, reply.store_host) == ("127.0.0.1:5", "127.0.0.1:10911")
        assert "ARRIVE_TIME" in reply.properties
        large = await producer.request(Message(topic=topic, body=b"x" * 50_000), timeout=5, order_key="k")
        assert large.body == b"you said " + b"x" * 50_000
        replies = await asyncio.gather(
            *[producer.request(Message(topic=topic, body=b"%d" % number), timeout=5) for number in range(50)]
        )
    assert [reply.body for reply in replies] == [b"you said %d" % number for number in range(50)]
    assert {header.topic for header in relay.headers} == {"DefaultCluster_REPLY_TOPIC"}
    assert decode_properties(relay.headers[0].properties or "")["MSG_TYPE"] == "reply"


async def test_a_plain_listener_replies_without_await(
    relayed: tuple[LocalCluster, Relay], topic: str, group: str
) -> None:
    cluster, _ = relayed

    def listen(message: MessageExt) -> None:
        message.reply(message.body.upper())

    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):

        def ask() -> bytes:
            with blocking.Producer("asking", cluster.namesrv) as producer:
                return producer.request(Message(topic=topic, body=b"hello"), timeout=5).body

        assert await asyncio.to_thread(ask) == b"HELLO"


async def test_no_reply_is_a_time_out_that_says_the_request_is_stored(topic: str) -> None:
    async with LocalCluster() as cluster, Producer("asking", cluster.namesrv, clock=cluster.clock) as producer:
        asking = asyncio.create_task(producer.request(Message(topic=topic, body=b"hello"), timeout=60))
        await asyncio.sleep(0.1)
        await cluster.clock.advance_async(seconds=61)
        with pytest.raises(RequestTimeout, match=r"no reply within 60 s; the request \w+ is stored in"):
            await asking
        assert not producer._delivery.instance.replies._waiting


async def test_a_reply_that_comes_too_late_is_dropped(
    relayed: tuple[LocalCluster, Relay], topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, _ = relayed
    gate, replied = asyncio.Event(), asyncio.Event()

    async def listen(message: MessageExt) -> None:
        await gate.wait()
        await message.reply(b"late")
        replied.set()

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"),
        Producer("asking", cluster.namesrv) as producer,
    ):
        with pytest.raises(RequestTimeout):
            await producer.request(Message(topic=topic, body=b"hello"), timeout=0.3)
        gate.set()
        await asyncio.wait_for(replied.wait(), 10)
    assert "a reply came that nobody waits for" in caplog.text


async def test_only_requests_can_be_replied_to_and_only_in_a_listener(
    relayed: tuple[LocalCluster, Relay], topic: str, group: str
) -> None:
    cluster, _ = relayed
    errors: list[Exception] = []

    async def listen(message: MessageExt) -> None:
        try:
            await message.reply(b"answer")
        except ClientError as error:
            errors.append(error)

    async with Producer("asking", cluster.namesrv) as producer:
        await producer.send(Message(topic=topic, body=b"a statement"))
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
        await eventually(lambda: bool(errors))
    assert "is no request: nobody waits for a reply" in str(errors[0])
    async with LitePullConsumer(f"{group}-b", cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        (message,) = await read(consumer, 1)
        with pytest.raises(ClientError, match="inside the listener"):
            message.reply(b"answer")


async def test_the_broker_relays_replies_by_itself(topic: str, group: str) -> None:
    async def listen(message: MessageExt) -> None:
        await message.reply(b"yes")

    async with (
        LocalCluster() as cluster,
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"),
        Producer("asking", cluster.namesrv) as producer,
    ):
        assert (await producer.request(Message(topic=topic, body=b"?"), timeout=5)).body == b"yes"
