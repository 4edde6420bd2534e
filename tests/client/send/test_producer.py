from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendStatus
from pyromq.errors import ClientError, InvalidMessage, InvalidName, MessageIllegal
from pyromq.protocol.messages.message import MAX_BODY_SIZE, Message, MessageQueue
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import fill, read, read_topic, stored_count


async def test_a_message_comes_back_as_it_was_sent(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    message = Message(
        topic=topic, body=b"\x00body\xff", tags="created", keys=["o-1", "o-2"], properties={"größe": "7"}, flag=3
    )
    result = await producer.send(message)
    assert result.status is SendStatus.SEND_OK
    (found,) = await read_topic(cluster, topic, 1)
    assert (found.body, found.tags, found.keys, found.flag) == (message.body, "created", ("o-1", "o-2"), 3)
    assert found.properties["größe"] == "7"
    assert found.message_id == result.message_id
    assert found.offset_message_id == result.offset_message_id
    assert (found.queue, found.queue_offset) == (result.queue, result.queue_offset)


async def test_a_message_that_is_sent_twice_has_two_ids(producer: Producer, topic: str) -> None:
    message = Message(topic=topic, body=b"x", keys=["k"])
    ids = {(await producer.send(message, order_key=key)).message_id for key in (None, None, "k", "k")}
    assert len(ids) == 4
    for message_id in ids:
        found = await producer.find(topic, message_id)
        assert found is not None
        assert found.message_id == message_id


async def test_a_new_topic_is_made_with_the_queues_asked_for(cluster: LocalCluster, topic: str) -> None:
    async with Producer("narrow", cluster.namesrv, topic_queues=2) as narrow:
        results = [await narrow.send(Message(topic=topic, body=b"x")) for _ in range(4)]
        assert {result.queue.queue_id for result in results} == {0, 1}
        assert [queue.queue_id for queue in await narrow.queues(topic)] == [0, 1]


async def test_messages_go_to_all_queues_in_turn(producer: Producer, topic: str) -> None:
    results = [await producer.send(Message(topic=topic, body=b"x")) for _ in range(8)]
    assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_messages_of_one_key_go_to_one_queue_and_carry_the_key(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    results = [await producer.send(Message(topic=topic, body=b"x"), order_key="payment") for _ in range(5)]
    assert {result.queue.queue_id for result in results} == {2}  # Java's hash of "payment", by four queues
    assert [result.queue_offset for result in results] == [0, 1, 2, 3, 4]
    for message in await read_topic(cluster, topic, 5):
        assert message.properties["__SHARDINGKEY"] == "payment"


async def test_the_caller_may_name_or_choose_the_queue(producer: Producer, topic: str) -> None:
    message = Message(topic=topic, body=b"x")
    queue = (await producer.queues(topic))[3]
    assert (await producer.send(message, queue=queue)).queue == queue
    assert (await producer.send(message, select=lambda queues, _: queues[1])).queue.queue_id == 1
    with pytest.raises(ClientError, match="only one of"):
        await producer.send(message, order_key="k", queue=queue)
    with pytest.raises(InvalidMessage, match="is one of topic 'other'"):
        await producer.send(message, queue=MessageQueue("other", "broker-a", 0))


async def test_large_bodies_travel_compressed(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    bodies = [b"a" * 4095, b"b" * 4096, b"c" * 100_000]
    for body in bodies:
        await producer.send(Message(topic=topic, body=body), order_key="k")
    found = await read_topic(cluster, topic, 3)
    assert [message.body for message in found] == bodies
    assert [message.sys_flag & 1 for message in found] == [0, 1, 1]
    assert found[2].store_size < 2000


async def test_a_body_that_compression_would_enlarge_travels_as_it_is(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    body = os.urandom(MAX_BODY_SIZE)  # the largest that a broker takes
    await producer.send(Message(topic=topic, body=body))
    (found,) = await read_topic(cluster, topic, 1)
    assert (found.body == body, found.sys_flag & 1) == (True, 0)


@pytest.mark.parametrize("value", [b"x", "x", {"topic": "orders"}, None, MessageQueue("orders", "broker-a", 0)])
@pytest.mark.parametrize("method", ["send", "send_oneway", "request", "send_batch"])
async def test_only_messages_can_be_sent(producer: Producer, method: str, value: Any) -> None:
    argument = [value] if method == "send_batch" else value
    with pytest.raises(InvalidMessage, match=r"only a Message can be sent, not \w+: Message\(topic=\.\.\., body="):
        await getattr(producer, method)(argument)


async def test_a_received_message_is_not_one_to_send(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    await producer.send(Message(topic=topic, body=b"x"))
    received: Any = (await read_topic(cluster, topic, 1))[0]
    for sending in (producer.send(received), producer.send(received, order_key="k")):
        with pytest.raises(InvalidMessage, match="not MessageExt"):
            await sending


async def test_a_batch_is_a_list(producer: Producer, topic: str) -> None:
    with pytest.raises(InvalidMessage, match="a batch is a list of messages, not Message"):
        await producer.send_batch(Message(topic=topic, body=b"x"))  # type: ignore[arg-type]


@pytest.mark.parametrize("queue", [99, "0", ("orders", "broker-a", 0)])
async def test_a_queue_is_not_a_number(producer: Producer, topic: str, queue: Any) -> None:
    message = Message(topic=topic, body=b"x")
    for sending in (producer.send(message, queue=queue), producer.send_oneway(message, queue=queue)):
        with pytest.raises(ClientError, match=rf"queue= takes one of `await producer\.queues\('{topic}'\)`, not "):
            await sending


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"topic": "no spaces"}, "no spaces"),
        ({"topic": "t" * 128}, "128"),
        ({"topic": ""}, "blank"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "nobody may send"),
        ({"body": b""}, "empty"),
        ({"body": b"x" * (4 * 1024 * 1024 + 1)}, "4194304"),
        ({"properties": {"TAGS": "x"}}, "reserved"),
    ],
)
async def test_a_broken_message_is_refused_with_the_reason(
    producer: Producer, topic: str, broken: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        await producer.send(Message(**{"topic": topic, "body": b"x", **broken}))


async def test_an_error_of_the_broker_is_raised_with_its_code(topic: str) -> None:
    async with (
        LocalCluster(settings={"maxMessageSize": 65536}) as small,
        Producer("p", small.namesrv, compress_over=10**9) as producer,
    ):
        with pytest.raises(MessageIllegal) as refused:
            await producer.send(Message(topic=topic, body=b"x" * 100_000))
        assert refused.value.code == 13


async def test_a_oneway_message_arrives(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    for number in range(10):
        await producer.send_oneway(Message(topic=topic, body=b"%d" % number), order_key="k")
    found = await read_topic(cluster, topic, 10)
    assert [message.body for message in found] == [b"%d" % number for number in range(10)]


async def test_a_batch_is_cut_at_the_size_limit_and_keeps_its_order(cluster: LocalCluster, topic: str) -> None:
    bodies = [b"%04d" % number + b"x" * 996 for number in range(100)]
    async with Producer("p", cluster.namesrv, max_message_size=16 * 1024) as producer:
        queue = (await producer.queues(topic))[0]
        results = await producer.send_batch([Message(topic=topic, body=body) for body in bodies], queue=queue)
    assert all(result.queue == queue for result in results)
    found = await read_topic(cluster, topic, 100)
    assert [message.body for message in found] == bodies
    assert [(message.message_id, message.offset_message_id, message.queue_offset) for message in found] == [
        (result.message_id, result.offset_message_id, result.queue_offset) for result in results
    ]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "at least one"),
        ([Message(topic="a", body=b"x"), Message(topic="b", body=b"x")], "one topic"),
        ([Message(topic="a", body=b"x"), Message(topic="a", body=b"x", wait=False)], "wait"),
        ([Message(topic="%RETRY%g", body=b"x")], "retry topic"),
    ],
)
async def test_a_batch_that_brokers_cannot_store_is_refused(
    producer: Producer, messages: list[Message], reason: str
) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        await producer.send_batch(messages)


async def test_any_number_of_sends_at_once_is_fine(cluster: LocalCluster, topic: str) -> None:
    async with Producer("crowd", cluster.namesrv, max_in_flight=100) as producer:
        results = await asyncio.gather(
            *[producer.send(Message(topic=topic, body=b"%d" % number)) for number in range(10_000)]
        )
    places = {(result.queue, result.queue_offset) for result in results}
    assert len(places) == len({result.message_id for result in results}) == 10_000
    async with await BrokerApi.connect(cluster.namesrv) as api:
        assert await stored_count(api, topic) == 10_000


async def test_the_namespace_is_in_the_topic_on_the_wire_only(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv, namespace="shop") as producer:
        result = await producer.send(Message(topic=topic, body=b"x"))
        assert result.queue.topic == topic
        assert (await producer.send(Message(topic=topic, body=b"y"), queue=result.queue)).queue == result.queue
    (found, _) = await read_topic(cluster, f"shop%{topic}", 2)
    assert found.properties["INSTANCE_ID"] == "shop"
    async with LitePullConsumer(
        "g", cluster.namesrv, {topic: "*"}, start_from="earliest", namespace="shop"
    ) as consumer:
        for message in await read(consumer, 2):
            assert message.topic == topic
        assert {queue.topic for queue in consumer.assignment} == {topic}
        assert await consumer.queues(topic) == consumer.assignment
        await consumer.commit()
        assert sum([await consumer.committed(queue) or 0 for queue in consumer.assignment]) == 2


@pytest.mark.parametrize("group", ["", "no spaces", "g" * 256, None, 5])
def test_an_illegal_group_is_refused_at_once(group: Any) -> None:
    with pytest.raises(InvalidName, match="group"):
        Producer(group)


def test_the_reserved_group_is_refused() -> None:
    with pytest.raises(ClientError, match="reserved"):
        Producer("DEFAULT_PRODUCER")


async def test_a_closed_producer_says_so(cluster: LocalCluster, topic: str) -> None:
    producer = Producer("p", cluster.namesrv)
    with pytest.raises(ClientError, match="not open"):
        await producer.send(Message(topic=topic, body=b"x"))
    await producer.start()
    with pytest.raises(ClientError, match="open already"):
        await producer.start()
    await producer.close()
    await producer.close()
    with pytest.raises(ClientError, match="not open"):
        await producer.send(Message(topic=topic, body=b"x"))


async def test_closing_waits_for_the_sends_under_way(cluster: LocalCluster, topic: str) -> None:
    producer = Producer("p", cluster.namesrv)
    await producer.start()
    sends = [asyncio.create_task(producer.send(Message(topic=topic, body=b"x"))) for _ in range(100)]
    await asyncio.sleep(0)
    await producer.close()
    results = await asyncio.gather(*sends)
    assert all(result.status is SendStatus.SEND_OK for result in results)


async def test_brokers_know_the_producer_while_it_is_open(cluster: LocalCluster, topic: str) -> None:
    async with Producer("known", cluster.namesrv) as producer:
        await fill(producer, topic, 1)
        await eventually(lambda: bool(producer._delivery.instance.heartbeats.brokers))
        (hello,) = producer._delivery.instance.heartbeats.brokers.values()
        assert hello.version >= 399
        assert hello.pyromq
