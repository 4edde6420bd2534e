"""The short way of plain sends: what it puts on the wire, who takes it, and what follows when it fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.client.hooks import SendHook
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendStatus
from pyromq.errors import BrokerError, ConnectionLost, InvalidMessage
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster, TestClock
from tests.client.send.test_send_retries import TOPIC, scripted


async def warm(producer: Producer, topic: str, **options: Any) -> None:
    """Send one message of a kind, so that the way is open for the next."""
    await producer.send(Message(topic=topic, body=b"first", **options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tags": "created"},
        {"tags": 'größe "%d" \\'},
        {"keys": ["o-1"]},
        {"keys": ["o-1", '"%s"', "100%"], "tags": "paid"},
        {"wait": False, "keys": "single"},
    ],
)
@pytest.mark.parametrize("namespace", [None, "shop"])
async def test_both_ways_put_the_same_bytes_on_the_wire(
    cluster: LocalCluster, topic: str, options: dict[str, Any], namespace: str | None
) -> None:
    message = Message(topic=topic, body=b"body", **options)
    async with Producer("p", cluster.namesrv, namespace=namespace, topic_queues=3) as producer:
        await warm(producer, topic, **options)
        delivery, preparer, fast_send = producer._delivery, producer._preparer, producer._session.fast_send
        assert fast_send is not None
        address = cluster.brokers[0].address
        connection = delivery.instance.api.remoting.ready(address)
        assert connection is not None
        future: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        sent = fast_send.try_send(message, future)
        assert sent is not None
        queue, message_id, now_ms, _ = sent
        (short,) = connection._parts
        assert (await future).code == 0

        prepared = preparer.prepare(message, made=(message_id, now_ms))
        general = request(RequestCode.SEND_MESSAGE_V2, delivery.header(prepared, queue), prepared.body)
        general.opaque = connection._outstanding.opaque
        assert short == general.encode()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"properties": {"a": "b"}}, "has properties of its own"),
        ({"flag": 7}, "has a flag"),
        ({"body": b"x" * 5000}, "is to be compressed"),
        ({"keys": ["größe"]}, "has keys that are not plain text"),
        ({"keys": ["x" * 2000]}, "has very long keys"),
        ({"tags": "x" * 2000}, "has a very long tag"),
    ],
)
async def test_what_is_not_plain_goes_the_general_way(
    producer: Producer, topic: str, options: dict[str, Any], reason: str
) -> None:
    await warm(producer, topic)
    message = Message(**{"topic": topic, "body": b"x", **options})
    assert producer._session.fast_send is not None
    future: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
    assert producer._session.fast_send.try_send(message, future) is None, reason
    assert (await producer.send(message)).status is SendStatus.SEND_OK


@pytest.mark.parametrize(
    "options",
    [
        {"body": b""},
        {"keys": ["a b"]},
        {"keys": [""]},
        {"keys": [7]},
        {"keys": ["a\x01"]},
        {"tags": 7},
        {"tags": ["a"]},
    ],
)
async def test_a_broken_message_is_refused_also_where_others_of_its_kind_went(
    producer: Producer, topic: str, options: dict[str, Any]
) -> None:
    await warm(producer, topic)
    await warm(producer, topic, keys=["good"])
    with pytest.raises(InvalidMessage):
        await producer.send(Message(**{"topic": topic, "body": b"x", **options}))


async def test_with_hooks_every_send_goes_the_general_way(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv, hooks=[SendHook()]) as producer:
        assert producer._session.fast_send is None
        await warm(producer, topic)


async def test_queues_are_taken_in_turn_by_both_ways_together(producer: Producer, topic: str) -> None:
    results = [await producer.send(Message(topic=topic, body=b"x", flag=number % 2)) for number in range(8)]
    assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {result.queue_offset for result in results} == {0, 1}


async def test_a_failed_send_goes_to_the_next_broker_with_the_same_id() -> None:
    async with scripted(0, 0) as (namesrv, brokers), Producer("p", namesrv) as producer:
        for _ in range(8):
            await warm(producer, TOPIC)
        brokers[0]._code = 1
        results = [await producer.send(Message(topic=TOPIC, body=b"x")) for _ in range(8)]
        assert {result.queue.broker_name for result in results} == {"broker-1"}
        assert len({result.message_id for result in results}) == 8
        assert brokers[0].sends > 4
        for broker in brokers:
            assert len(broker.message_ids) - len(set(broker.message_ids)) == 0
        assert set(brokers[0].message_ids[4:]) <= {result.message_id for result in results}


async def test_setting_the_machines_clock_during_a_send_costs_no_retry() -> None:
    clock = TestClock()
    async with scripted(0, 0) as (namesrv, brokers), Producer("p", namesrv, clock=clock) as producer:
        for _ in range(8):
            await warm(producer, TOPIC)
        brokers[0]._code = 1
        for _ in range(8):
            sending = asyncio.create_task(producer.send(Message(topic=TOPIC, body=b"x")))
            await asyncio.sleep(0)
            clock.set_wall_clock(minutes=10)
            assert (await sending).queue.broker_name == "broker-1"
        assert brokers[0].sends > 4


async def test_a_refusal_is_raised_with_the_attempts_in_a_note() -> None:
    async with scripted(0) as (namesrv, (broker,)), Producer("p", namesrv) as producer:
        await warm(producer, TOPIC)
        broker._code = 13
        with pytest.raises(BrokerError) as failure:
            await producer.send(Message(topic=TOPIC, body=b"x"))
        assert failure.value.__notes__ == ["attempts: 1, on broker-0"]


async def test_sends_on_a_connection_that_is_lost_are_tried_again_or_explained(cluster: LocalCluster) -> None:
    async with scripted(0) as (namesrv, (broker,)), Producer("p", namesrv, retries=0) as producer:
        await warm(producer, TOPIC)
        connection = producer._delivery.instance.api.remoting.ready(broker.address)
        assert connection is not None
        sends = [asyncio.create_task(producer.send(Message(topic=TOPIC, body=b"x"))) for _ in range(3)]
        await asyncio.sleep(0)
        connection.abort("as the test wants it")
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert all(isinstance(outcome, ConnectionLost) for outcome in outcomes)
        assert "broker-0" in str(outcomes[0])
        assert (await producer.send(Message(topic=TOPIC, body=b"x"))).status is SendStatus.SEND_OK
