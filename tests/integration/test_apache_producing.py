"""Scenarios of Apache's own integration tests for producers and queries, with our client and brokers.

Each names its class. Async sends are tasks here; a null argument has no counterpart where the signature rules it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pyromq import BrokerError, ClientError, InvalidMessage, Message, MessageQueue, Producer, PushConsumer, SendStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import LocalCluster
from tests.client.helpers import Heard, in_queue_order, stored_count
from tests.integration.conftest import new_topic

COUNT = 20


def messages(topic: str, count: int = COUNT, **options: Any) -> list[Message]:
    return [Message(topic=topic, body=b"%d" % number, **options) for number in range(count)]


def bodies(count: int = COUNT) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


def a_queue_of(broker: str, number: int = 0) -> Any:
    """A selector that picks one queue of a broker."""

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return next(queue for queue in queues if queue[1:] == (broker, number))

    return select


async def heard_by_a_consumer(cluster: LocalCluster, topic: str, count: int) -> Heard:
    heard = Heard()
    async with PushConsumer(f"{topic}-readers", cluster.namesrv, {topic: "*"}, heard, start_from="earliest"):
        await heard.wait_for(count)
    return heard


# --- sends that are awaited together, and one-way sends ---------------------------------------------------------------


async def test_sends_under_way_together_all_arrive(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    """AsyncSendWithOnlySendCallBackIT."""
    results = await asyncio.gather(*[producer.send(message) for message in messages(topic)])
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert sorted((await heard_by_a_consumer(cluster, topic, COUNT)).bodies) == bodies()


@pytest.mark.parametrize("way", ["queue", "select"])
@pytest.mark.parametrize("oneway", [False, True])
async def test_the_caller_picks_a_queue_on_each_broker(
    cluster: LocalCluster, producer: Producer, topic: str, way: str, oneway: bool
) -> None:
    """AsyncSendWithMessageQueueIT and …SelectorIT, OneWaySendWithMQIT, OneWaySendWithSelectorIT."""
    send = producer.send_oneway if oneway else producer.send
    for broker in cluster.brokers:
        queue = MessageQueue(topic, broker.name, 3)
        choice: dict[str, Any] = {"queue": queue} if way == "queue" else {"select": a_queue_of(broker.name, 3)}
        await asyncio.gather(*[send(message, **choice) for message in messages(topic)])
    heard = await heard_by_a_consumer(cluster, topic, 2 * COUNT)
    assert {message.queue for message in heard.messages} == {
        MessageQueue(topic, broker.name, 3) for broker in cluster.brokers
    }
    assert sorted(heard.bodies) == sorted([*bodies(), *bodies()])


async def test_oneway_sends_arrive(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    """OneWaySendIT."""
    for message in messages(topic):
        await producer.send_oneway(message)
    assert sorted((await heard_by_a_consumer(cluster, topic, COUNT)).bodies) == bodies()


@pytest.mark.parametrize("oneway", [False, True])
async def test_what_is_wrong_with_a_choice_comes_out_where_it_is_awaited(
    producer: Producer, topic: str, oneway: bool
) -> None:
    """AsyncSendExceptionIT, OneWaySendExceptionIT."""

    def broken(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        raise KeyError("no such customer")

    send = producer.send_oneway if oneway else producer.send
    (message,) = messages(topic, 1)
    for select, kind in ((broken, KeyError), (lambda queues, message: None, ClientError)):
        task = asyncio.create_task(send(message, select=select))  # type: ignore[arg-type]
        with pytest.raises(kind):
            await task
    with pytest.raises(InvalidMessage, match="the queue is one of topic"):
        await send(message, queue=MessageQueue("another", "broker-a", 0))


async def test_a_queue_that_does_not_exist_is_refused_and_a_negative_one_left_to_the_broker(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    """AsyncSendExceptionIT."""
    (message,) = messages(topic, 1)
    with pytest.raises(BrokerError):
        await producer.send(message, queue=MessageQueue(topic, "broker-a", 100))
    result = await producer.send(message, queue=MessageQueue(topic, "broker-a", -100))
    assert result.status is SendStatus.SEND_OK
    assert 0 <= result.queue.queue_id < 8
    async with await BrokerApi.connect(cluster.namesrv) as api:
        assert await stored_count(api, topic) == 1


async def test_offsets_and_ids_of_one_queue(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    """DLedgerProduceAndConsumeIT, on a broker without DLedger."""
    queue = MessageQueue(topic, "broker-a", 0)
    results = [await producer.send(message, queue=queue) for message in messages(topic, 10)]
    assert [result.queue_offset for result in results] == list(range(10))
    assert all(result.message_id and result.offset_message_id for result in results)
    async with await BrokerApi.connect(cluster.namesrv) as api:
        address = cluster.brokers[0].address
        assert (await api.min_offset(address, topic, 0), await api.max_offset(address, topic, 0)) == (0, 10)
    heard = await heard_by_a_consumer(cluster, topic, 10)
    assert in_queue_order(heard.messages)


# --- what a message may hold ------------------------------------------------------------------------------------------


async def test_the_messages_of_a_batch_are_found_by_either_id_with_all_they_had(producer: Producer, topic: str) -> None:
    """BatchSendIT."""
    options = {"keys": ["123"], "tags": "TAG", "wait": True, "flag": 14, "properties": {"buyerId": "buyer"}}
    results = await producer.send_batch(messages(topic, 100, **options))
    ids, places = [result.message_id for result in results], [result.offset_message_id for result in results]
    assert (len(set(ids)), len(set(places))) == (100, 100)
    for number in (0, 42, 99):
        for known_as in (ids[number], places[number]):
            found = await producer.find(topic, known_as)
            assert found is not None
            assert (found.body, found.tags, found.keys, found.flag) == (b"%d" % number, "TAG", ("123",), 14)
            assert found.properties["buyerId"] == "buyer"
            assert found.properties["WAIT"] == "true"


@pytest.mark.parametrize("size", [1, 128 * 1024])
async def test_bodies_of_many_sizes_are_fine(producer: Producer, topic: str, size: int) -> None:
    """MessageExceptionIT."""
    assert (await producer.send(Message(topic=topic, body=b"x" * size))).status is SendStatus.SEND_OK


@pytest.mark.parametrize(
    "options",
    [{"body": b""}, {"body": None}, {"body": b"x" * (4 * 1024 * 1024 + 1)}, {"topic": ""}, {"topic": None}],
)
async def test_what_no_broker_would_take_is_refused_by_the_client(
    producer: Producer, topic: str, options: dict[str, Any]
) -> None:
    """MessageExceptionIT."""
    with pytest.raises(InvalidMessage):
        await producer.send(Message(**{"topic": topic, "body": b"x", **options}))


@pytest.mark.parametrize("text", ["a" * 10 * 1024, "消" * 10 * 1024])
async def test_long_properties_arrive_unchanged(
    cluster: LocalCluster, producer: Producer, topic: str, text: str
) -> None:
    """MessageExceptionIT, ChinaPropIT, MessageUserPropIT."""
    await producer.send(Message(topic=topic, body=b"x", properties={"key": text, "other": "value"}))
    (message,) = (await heard_by_a_consumer(cluster, topic, 1)).messages
    assert (message.properties["key"], message.properties["other"]) == (text, "value")


async def test_properties_that_no_record_can_hold_are_refused(producer: Producer, topic: str) -> None:
    """ChinaPropIT; the client refuses it before the broker would."""
    with pytest.raises(InvalidMessage, match="more than the limit"):
        await producer.send(Message(topic=topic, body=b"x", properties={"key": "消" * (32 * 1024 + 1)}))


async def test_a_group_is_once_in_a_client(cluster: LocalCluster, topic: str) -> None:
    """ProducerGroupAndInstanceNameValidityIT."""
    async with Producer("shop", cluster.namesrv, instance_name="one"):
        with pytest.raises(ClientError, match="already has a producer in the group 'shop'"):
            await Producer("shop", cluster.namesrv, instance_name="one").start()
        async with Producer("shop", cluster.namesrv, instance_name="two") as other:
            await other.send(Message(topic=topic, body=b"x"))


# --- finding messages -------------------------------------------------------------------------------------------------


async def test_a_received_message_is_viewed_by_its_place(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    """QueryMsgByIdIT, QueryMsgByIdExceptionIT."""
    await producer.send(Message(topic=topic, body=b"x", keys=["k"]))
    (received,) = (await heard_by_a_consumer(cluster, topic, 1)).messages
    found = await producer.find(topic, received.offset_message_id)
    assert found is not None
    assert (found.body, found.keys, found.queue_offset) == (b"x", ("k",), received.queue_offset)
    for wrong in (received.offset_message_id[:-4] + "FFFF", received.offset_message_id[:-1], "", "no id"):
        assert await producer.find(topic, wrong) is None


@pytest.mark.parametrize(("count", "found"), [(20, 20), (500, 2 * 64)])
async def test_messages_are_found_by_key_at_most_64_of_a_broker(
    cluster: LocalCluster, producer: Producer, topic: str, count: int, found: int
) -> None:
    """QueryMsgByKeyIT."""
    await asyncio.gather(*[producer.send(message) for message in messages(topic, count, keys=["key"])])
    async with await BrokerApi.connect(cluster.namesrv) as api:
        by_broker = [await api.query(broker.address, topic, "key", most=count) for broker in cluster.brokers]
    assert sum(map(len, by_broker)) == found
    assert max(map(len, by_broker)) <= 64


async def test_keys_of_topics_with_the_same_hash_are_told_apart(cluster: LocalCluster, producer: Producer) -> None:
    """QueryMsgByKeyIT: `Aa` and `BB` have one hash in Java."""
    first, second = await new_topic(cluster, "collide-Aa"), await new_topic(cluster, "collide-BB")
    for topic in (first, second):
        await producer.send(Message(topic=topic, body=topic.encode(), keys=["Aa"]), select=a_queue_of("broker-a"))
    async with await BrokerApi.connect(cluster.namesrv) as api:
        for topic in (first, second):
            (message,) = await api.query(cluster.brokers[0].address, topic, "Aa")
            assert message.topic == topic
        assert await api.query(cluster.brokers[0].address, first, "BB") == []
