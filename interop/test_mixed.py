"""Java and Python clients answering each other's requests."""

from __future__ import annotations

import asyncio

from interop.conftest import Cluster
from interop.inbox import Inbox
from interop.peer import Peer
from pyromq import (
    COMMIT,
    UNKNOWN,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)


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
        # Java waits for us in this call, so it must not block our loop.
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
