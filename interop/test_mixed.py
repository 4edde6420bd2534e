"""Java and Python side by side: in one group, and answering each other."""

from __future__ import annotations

import asyncio

import pytest

from interop.conftest import Cluster
from interop.inbox import Inbox, until
from interop.peer import JavaConsumer, Peer
from pyromq import (
    COMMIT,
    UNKNOWN,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
    allocate_averagely,
    allocate_by_circle,
    allocate_by_consistent_hash,
)
from pyromq.client.allocation import Allocate
from pyromq.client.api import BrokerApi

QUEUES = 8
EACH = 5

ALLOCATIONS: dict[str, Allocate] = {
    "AllocateMessageQueueAveragely": allocate_averagely,
    "AllocateMessageQueueAveragelyByCircle": allocate_by_circle,
    "AllocateMessageQueueConsistentHash": allocate_by_consistent_hash(),
}


def javas(consumer: JavaConsumer, topic: str) -> set[int]:
    return {number for queue_topic, _, number in consumer.queues() if queue_topic == topic}


def ours(consumer: PushConsumer) -> set[int]:
    return {queue.queue_id for queue in consumer.assignment}


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("allocation", ALLOCATIONS)
async def test_java_and_python_members_share_the_queues(
    cluster: Cluster, java: Peer, name: str, allocation: str, orderly: bool
) -> None:
    async with await BrokerApi.connect(cluster.namesrv) as api:
        await api.create_topic(cluster.broker, name, QUEUES)
    allocate = ALLOCATIONS[allocation]
    inbox = Inbox()
    with java.push(cluster.namesrv, name, name, allocate=allocation, orderly=orderly) as theirs:
        async with PushConsumer(
            name, cluster.namesrv, {name: "*"}, inbox, allocate=allocate, orderly=orderly
        ) as python:
            await until(lambda: bool(ours(python)) and ours(python) | javas(theirs, name) == set(range(QUEUES)))
            await until(lambda: not ours(python) & javas(theirs, name))
            await fill(cluster, name)
            to_python, to_java = ours(python), javas(theirs, name)
            taken = await inbox.take(EACH * len(to_python))
            assert {one.queue_id for one in taken} == to_python
            assert {fact["queue_id"] for fact in theirs.take(EACH * len(to_java))} == to_java
            assert await inbox.rest() == []
            assert theirs.rest(0.1) == []


async def fill(cluster: Cluster, topic: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        for queue in await producer.queues(topic):
            for number in range(EACH):
                await producer.send(Message(topic=topic, body=b"body %d" % number), queue=queue)


async def test_java_answers_pythons_request(cluster: Cluster, java: Peer, name: str) -> None:
    java.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1)
    async with Producer("python-producers", cluster.namesrv) as producer:
        with java.push(cluster.namesrv, name, name, reply="pong") as consumer:
            consumer.take(1)
            assert (await producer.request(Message(topic=name, body=b"ping"), timeout=10)).body == b"pong"


async def test_python_answers_javas_request(cluster: Cluster, java: Peer, name: str) -> None:
    java.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1)
    inbox = Inbox(reply=b"pong")
    async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"):
        await inbox.take(1)
        # Java waits in this call for us: it must not hold our loop.
        reply = await asyncio.to_thread(java.call, "Sends.request", namesrv=cluster.namesrv, topic=name, body="ping")
    assert reply == "pong"


async def test_python_answers_the_check_of_javas_transaction(cluster: Cluster, java: Peer, name: str) -> None:
    with java.transactions(cluster.namesrv, name) as leaves:
        leaves.send(name, 7, "UNKNOW")
    asked: list[MessageExt] = []

    async def check(message: MessageExt) -> TransactionState:
        asked.append(message)
        return COMMIT

    inbox = Inbox()
    async with (
        TransactionProducer(name, cluster.namesrv, check=check),
        PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"),
    ):
        (found,) = await inbox.take(1, seconds=40)
    assert {one.body for one in asked} == {found.body} == {b"body 7"}
    assert found.keys == ("k-7",)


async def test_java_answers_the_check_of_pythons_transaction(cluster: Cluster, java: Peer, name: str) -> None:
    async with TransactionProducer(name, cluster.namesrv, check=lambda message: UNKNOWN) as leaves:
        message = Message(topic=name, body=b"ours", properties={"check": "COMMIT_MESSAGE"})
        await leaves.send_in_transaction(message, lambda message: UNKNOWN)
    with java.transactions(cluster.namesrv, name) as stays, java.push(cluster.namesrv, name, name) as consumer:
        (found,) = consumer.take(1, seconds=40)
        asked = stays.checked()
    assert asked is not None
    assert asked["body"] == found["body"] == "ours"
