"""Request and reply: a message that waits for an answer, and a listener that gives one."""

from __future__ import annotations

import asyncio

import pytest

from pyromq import blocking
from pyromq.admin import AdminClient
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.reply.requester import pushed_reply
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError, RequestTimeout
from pyromq.protocol.headers.send import PushReplyMessageToClientRequestHeader
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import read

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"


async def test_a_listener_replies_to_a_request(cluster: LocalCluster, topic: str, group: str) -> None:
    async def listen(message: MessageExt) -> None:
        assert message.properties["TTL"] == "5000"
        await message.reply(b"you said " + message.body)

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"),
        Producer("asking", cluster.namesrv) as producer,
    ):
        reply = await producer.request(Message(topic=topic, body=b"hello"), timeout=5)
        assert reply.body == b"you said hello"
        assert reply.topic == REPLY_TOPIC
        assert reply.born_host.startswith("127.0.0.1:")
        assert reply.store_host == cluster.brokers[0].address
        assert int(reply.properties["PUSH_REPLY_TIME"]) <= int(reply.properties["ARRIVE_TIME"])
        large = await producer.request(Message(topic=topic, body=b"x" * 50_000), timeout=5, order_key="k")
        assert large.body == b"you said " + b"x" * 50_000
        replies = await asyncio.gather(
            *[producer.request(Message(topic=topic, body=b"%d" % number), timeout=5) for number in range(50)]
        )
    assert [reply.body for reply in replies] == [b"you said %d" % number for number in range(50)]


async def test_the_broker_keeps_replies(cluster: LocalCluster, topic: str, group: str) -> None:
    async def listen(message: MessageExt) -> None:
        await message.reply(f"kept for {topic}".encode())

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"),
        Producer("asking", cluster.namesrv) as producer,
        AdminClient(cluster.namesrv) as admin,
    ):
        reply = await producer.request(Message(topic=topic, body=b"?"), timeout=5)
        (kept,) = [message async for message in admin.read(REPLY_TOPIC) if message.body == reply.body]
    assert kept.properties["MSG_TYPE"] == "reply"
    assert kept.properties["CORRELATION_ID"] == reply.properties["CORRELATION_ID"]


def test_javas_way_to_write_addresses_is_read() -> None:
    header = PushReplyMessageToClientRequestHeader(
        producer_group="asking",
        topic=REPLY_TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        born_host="/127.0.0.1:5",
        store_host="127.0.0.1:10911",
        store_timestamp=77,
    )
    reply = pushed_reply(header, b"x", now_ms=78)
    assert (reply.born_host, reply.store_host) == ("127.0.0.1:5", "127.0.0.1:10911")
    assert (reply.store_timestamp_ms, reply.properties["ARRIVE_TIME"]) == (77, "78")


async def test_a_plain_listener_replies_without_await(cluster: LocalCluster, topic: str, group: str) -> None:
    def listen(message: MessageExt) -> None:
        message.reply(message.body.upper())

    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):

        def ask() -> bytes:
            with blocking.Producer("asking", cluster.namesrv) as producer:
                return producer.request(Message(topic=topic, body=b"hello"), timeout=5).body

        assert await asyncio.to_thread(ask) == b"HELLO"


def _is_stored(cluster: LocalCluster, topic: str) -> bool:
    server = cluster.brokers[0].server
    known = server.topics.get(topic) if server else None
    return known is not None and known.puts == 1


async def test_no_reply_is_a_time_out_that_says_the_request_is_stored(topic: str) -> None:
    async with LocalCluster() as cluster, Producer("asking", cluster.namesrv, clock=cluster.clock) as producer:
        asking = asyncio.create_task(producer.request(Message(topic=topic, body=b"hello"), timeout=60))
        await eventually(lambda: bool(producer._delivery.instance.replies._waiting) and _is_stored(cluster, topic))
        await cluster.clock.advance_async(seconds=61)
        with pytest.raises(RequestTimeout, match=r"no reply within 60 s; the request \w+ is stored in"):
            await asking
        assert not producer._delivery.instance.replies._waiting


async def test_a_reply_that_comes_too_late_is_dropped(
    cluster: LocalCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert "no request waits for the reply" in caplog.text


async def test_only_requests_can_be_replied_to_and_only_in_a_listener(
    cluster: LocalCluster, topic: str, group: str
) -> None:
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
    assert "is not a request: nobody waits for a reply" in str(errors[0])
    async with LitePullConsumer(f"{group}-b", cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        (message,) = await read(consumer, 1)
        with pytest.raises(ClientError, match="inside the listener"):
            message.reply(b"answer")
