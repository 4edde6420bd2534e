"""PyroMQ's producer on Apache's broker, and on our own; Java reads back what it sent."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from interop.conftest import Cluster
from interop.inbox import Inbox
from interop.java_side import read
from interop.peer import Peer
from interop.python_side import BODIES, COUNT, messages, send
from interop.servers import BROKER_NAME
from pyromq import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    LitePullConsumer,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import RequestTimeout
from pyromq.testing import eventually


async def test_what_it_sends_java_reads(cluster: Cluster, java: Peer, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        sent = [await producer.send(one) for one in messages(name)]
    found = {fact["body"]: fact for fact in read(java, cluster, name)}
    for number, told in enumerate(sent):
        fact = found[f"body {number}"]
        assert (fact["tags"], fact["keys"]) == ("odd" if number % 2 else "even", f"k-{number}")
        assert fact["properties"]["number"] == str(number)
        assert fact["unique_key"] == told.message_id
        assert (fact["broker"], fact["queue_id"]) == told.queue[1:]
        assert fact["queue_offset"] == told.queue_offset
    assert len(found) == COUNT


async def test_its_one_way_sends_are_stored(cluster: Cluster, java: Peer, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        await producer.send(Message(topic=name, body=b"first"))
        for one in messages(name):
            await producer.send_oneway(one)
        await producer.send(Message(topic=name, body=b"last"))
    assert len(read(java, cluster, name)) == COUNT + 2


async def test_its_batches_are_stored_as_single_messages(cluster: Cluster, java: Peer, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        sent = await producer.send_batch(messages(name))
    found = read(java, cluster, name)
    assert [fact["body"] for fact in found] == [f"body {number}" for number in range(COUNT)]
    assert [told.message_id for told in sent] == [fact["unique_key"] for fact in found]
    assert [told.queue_offset for told in sent] == list(range(COUNT))


async def test_its_lingering_sends_are_stored(cluster: Cluster, java: Peer, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv, linger=0.01) as producer:
        sent = await asyncio.gather(*(producer.send(one) for one in messages(name)))
    found = {fact["unique_key"]: fact["queue_offset"] for fact in read(java, cluster, name)}
    assert found == {told.message_id: told.queue_offset for told in sent}


async def test_it_chooses_the_queue_of_an_order_key_as_java_does(cluster: Cluster, java: Peer, name: str) -> None:
    by_java = java.call("Sends.ordered", namesrv=cluster.namesrv, topic=name, count=12, orders=12)
    async with Producer("python-producers", cluster.namesrv) as producer:
        for number, fact in enumerate(by_java):
            told = await producer.send(Message(topic=name, body=b"x"), order_key=f"order-{number}")
            assert told.queue.queue_id == fact["queue_id"]


async def test_it_sends_to_a_chosen_queue(cluster: Cluster, name: str) -> None:
    await send(cluster, name)
    async with Producer("python-producers", cluster.namesrv) as producer:
        told = await producer.send(Message(topic=name, body=b"x"), queue=MessageQueue(name, BROKER_NAME, 2))
    assert told.queue.queue_id == 2


async def test_java_reads_its_compressed_bodies(cluster: Cluster, java: Peer, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        await producer.send(Message(topic=name, body=b"abc" * 40_000))
    (fact,) = read(java, cluster, name)
    assert fact["body_length"] == 120_000
    assert fact["sys_flag"] & 1


async def test_it_reads_javas_compressed_bodies(cluster: Cluster, java: Peer, name: str) -> None:
    java.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1, repeat=20_000)
    async with LitePullConsumer(name, cluster.namesrv, {name: "*"}, start_from="earliest") as consumer:
        (found,) = await consumer.poll(timeout=20.0)
    assert found.body == b"body 0" * 20_000


async def test_its_delayed_message_comes_when_it_is_due(cluster: Cluster, name: str) -> None:
    await send(cluster, name)
    inbox = Inbox()
    async with (
        Producer("python-producers", cluster.namesrv) as producer,
        PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"),
    ):
        await inbox.take(COUNT)
        await producer.send(Message(topic=name, body=b"late"), level=1)
        (late,) = await inbox.take(1)
    assert late.body == b"late"
    assert late.stored_at - late.born_at >= timedelta(seconds=1)


# --- more -------------------------------------------------------------------------------------------------------------


async def test_it_finds_a_message_by_its_id(cluster: Cluster, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        told = [await producer.send(one) for one in messages(name)]
        found = await producer.find(name, told[7].message_id)
        assert found is not None
        assert (found.body, found.queue_offset) == (b"body 7", told[7].queue_offset)
        assert await producer.find(name, told[7].message_id[:-4] + "FFFF") is None


async def test_it_finds_messages_by_key_and_by_their_place(cluster: Cluster, name: str) -> None:
    async with (
        Producer("python-producers", cluster.namesrv) as producer,
        await BrokerApi.connect(cluster.namesrv) as api,
    ):
        told = [await producer.send(one) for one in messages(name)]
        (by_key,) = await api.query(cluster.broker, name, "k-7")
        assert by_key.message_id == told[7].message_id
        by_place = await api.view(cluster.broker, by_key.physical_offset)
        assert by_place is not None
        assert by_place.body == b"body 7"
        assert await api.query(cluster.broker, name, "k-99") == []


async def test_java_reads_its_namespace(cluster: Cluster, java: Peer, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv, namespace="shop") as producer:
        for one in messages(name):
            await producer.send(one)
    with java.push(cluster.namesrv, name, name, namespace="shop") as consumer:
        assert {fact["body"].encode() for fact in consumer.take(COUNT)} == BODIES


async def test_its_one_way_sends_choose_their_queue(cluster: Cluster, java: Peer, name: str) -> None:
    await send(cluster, name)
    async with Producer("python-producers", cluster.namesrv) as producer:
        for number in range(COUNT):
            await producer.send_oneway(Message(topic=name, body=b"by key"), order_key=f"order-{number % 3}")
        await producer.send_oneway(Message(topic=name, body=b"to a queue"), queue=MessageQueue(name, BROKER_NAME, 2))
        queue = (await producer.send(Message(topic=name, body=b"last"), order_key="order-0")).queue.queue_id
    found = read(java, cluster, name)
    assert [fact["queue_id"] for fact in found if fact["body"] == "to a queue"] == [2]
    by_key = [fact["queue_id"] for fact in found if fact["body"] == "by key"]
    assert len(by_key) == COUNT
    assert queue in by_key


async def test_its_request_without_a_reply_times_out(cluster: Cluster, name: str) -> None:
    await send(cluster, name)
    async with Producer("python-producers", cluster.namesrv) as producer:
        with pytest.raises(RequestTimeout):
            await producer.request(Message(topic=name, body=b"ping"), timeout=1)


async def test_namespaces_are_javas(cluster: Cluster, java: Peer, name: str) -> None:
    java.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=COUNT, namespace="shop")
    inbox = Inbox()
    async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest", namespace="shop"):
        taken = await inbox.take(COUNT)
    assert {one.body for one in taken} == BODIES
    assert {one.topic for one in taken} == {name}


async def test_its_request_gets_its_reply(cluster: Cluster, name: str) -> None:
    await send(cluster, name)
    inbox = Inbox(reply=b"pong")
    async with (
        PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="latest"),
        Producer("python-producers", cluster.namesrv) as producer,
    ):
        await inbox.take(COUNT)
        assert (await producer.request(Message(topic=name, body=b"ping"), timeout=10)).body == b"pong"


async def test_a_transaction_is_delivered_only_once_committed(cluster: Cluster, name: str) -> None:
    await send(cluster, name, b"first")
    inbox = Inbox()
    asked: list[bytes] = []

    async def check(message: MessageExt) -> TransactionState:
        asked.append(message.body)
        return COMMIT if message.body == b"commit later" else ROLLBACK

    async with (
        PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"),
        TransactionProducer(name, cluster.namesrv, check=check) as producer,
    ):
        await inbox.take(COUNT)
        await producer.send_in_transaction(Message(topic=name, body=b"no"), lambda message: ROLLBACK)
        await producer.send_in_transaction(Message(topic=name, body=b"yes"), lambda message: COMMIT)
        assert [one.body for one in await inbox.take(1)] == [b"yes"]
        await producer.send_in_transaction(Message(topic=name, body=b"commit later"), lambda message: UNKNOWN)
        await producer.send_in_transaction(Message(topic=name, body=b"never"), lambda message: UNKNOWN)
        assert [one.body for one in await inbox.take(1)] == [b"commit later"]
        await eventually(lambda: sorted(asked) == [b"commit later", b"never"])
        assert await inbox.rest() == []
