"""Batches that go to their broker without a task, and what becomes of those that fail there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.errors import BrokerError, ConnectionLost, RemotingError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.messages.message import Message
from pyromq.remoting.connection import Connection
from pyromq.testing import LocalCluster
from tests.client.helpers import ScriptedBroker
from tests.client.send.test_send_retries import TOPIC, scripted

BATCH = int(RequestCode.SEND_BATCH_MESSAGE)


async def send_together(producer: Producer, topic: str, count: int = 10) -> list[SendResult]:
    sends = [producer.send(Message(topic=topic, body=b"x" * 100)) for _ in range(count)]
    return await asyncio.gather(*sends)


def takes_batches(broker: ScriptedBroker, code: int) -> list[RemotingCommand]:
    """Have a broker answer all batches with a code; return the list that will have them."""
    seen: list[RemotingCommand] = []

    def answer(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        seen.append(command)
        header = SendMessageResponseHeader(msg_id="A,B,C", queue_id=2, queue_offset=40)
        return response(command, code, "as the script says", header)

    broker.handlers[BATCH] = answer
    return seen


async def test_a_full_batch_is_written_before_its_sender_lets_the_loop_run(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv, linger=3600.0, max_in_flight=300) as producer:
        await send_together(producer, topic, 300)  # connects, and knows the kind of message
        linger = producer._session.linger
        assert linger is not None
        connection = producer._delivery.instance.api.remoting.ready(cluster.brokers[0].address)
        assert connection is not None
        written = connection._written
        joined = [linger.join(Message(topic=topic, body=b"x" * 1000)) for _ in range(300)]
        assert connection._written - written > 200_000, "the first, without a turn of the loop"
        assert None not in joined
        results = [await future for future in joined if future is not None]
    assert len({result.message_id for result in results}) == 300


async def test_every_message_of_a_batch_has_the_place_that_the_broker_names() -> None:
    async with scripted(0) as (namesrv, (broker,)), Producer("p", namesrv, linger=0.01) as producer:
        seen = takes_batches(broker, 10)
        for _ in range(2):  # the first connects
            results = await send_together(producer, TOPIC, 4)
            assert [result.offset_message_id for result in results] == ["A", "B", "C", ""]
            assert [result.queue_offset for result in results] == [40, 41, 42, 43]
            assert {(result.status, result.queue.queue_id) for result in results} == {
                (SendStatus.FLUSH_DISK_TIMEOUT, 2)
            }
    assert len(seen) == 2


@pytest.mark.parametrize("code", [1, 14])
async def test_a_batch_that_a_broker_refuses_goes_to_another_with_the_same_ids(code: int) -> None:
    async with scripted(0, 0) as (namesrv, brokers), Producer("p", namesrv, linger=0.01) as producer:
        for broker in brokers:
            takes_batches(broker, 0)
        for _ in range(8):
            await send_together(producer, TOPIC, 3)
        refused, taken = takes_batches(brokers[0], code), takes_batches(brokers[1], 0)
        for _ in range(8):
            results = await send_together(producer, TOPIC, 3)
            assert {(one.status, one.queue.broker_name) for one in results} == {(SendStatus.SEND_OK, "broker-1")}
    assert refused
    assert {command.body for command in refused} < {command.body for command in taken}


async def test_a_batch_that_nobody_takes_fails_as_a_whole_and_leaves_room() -> None:
    options: dict[str, Any] = {"linger": 0.01, "retries": 1, "max_in_flight": 3}
    async with scripted(0) as (namesrv, (broker,)), Producer("p", namesrv, **options) as producer:
        takes_batches(broker, 0)
        await send_together(producer, TOPIC, 3)
        seen = takes_batches(broker, 1)
        sends = [producer.send(Message(topic=TOPIC, body=b"x")) for _ in range(3)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert all(isinstance(outcome, BrokerError) for outcome in outcomes)
        assert "attempts: 2" in str(getattr(outcomes[0], "__notes__", ""))
        assert len(seen) == 2
        takes_batches(broker, 0)
        assert len(await send_together(producer, TOPIC, 3)) == 3


async def test_a_batch_whose_connection_is_lost_is_sent_again() -> None:
    async with scripted(0) as (namesrv, (broker,)), Producer("p", namesrv, linger=0.01) as producer:
        takes_batches(broker, 0)
        await send_together(producer, TOPIC, 3)

        def hang_up(command: RemotingCommand, connection: Connection) -> None:
            takes_batches(broker, 0)
            connection.abort("as the script says")

        broker.handlers[BATCH] = hang_up
        results = await send_together(producer, TOPIC, 3)
        assert {result.status for result in results} == {SendStatus.SEND_OK}


async def test_without_retries_a_lost_connection_is_an_error_for_each() -> None:
    async with scripted(0) as (namesrv, (broker,)), Producer("p", namesrv, linger=0.01, retries=0) as producer:
        takes_batches(broker, 0)
        await send_together(producer, TOPIC, 3)

        def hang_up(command: RemotingCommand, connection: Connection) -> None:
            connection.abort("as the script says")

        broker.handlers[BATCH] = hang_up
        sends = [producer.send(Message(topic=TOPIC, body=b"x")) for _ in range(3)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert all(isinstance(outcome, ConnectionLost) for outcome in outcomes)
        assert all(isinstance(outcome, RemotingError) and outcome.message_id for outcome in outcomes)


async def test_one_who_is_cancelled_takes_nothing_from_the_others(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv, linger=0.01, max_in_flight=5) as producer:
        await send_together(producer, topic, 5)
        sends = [asyncio.create_task(producer.send(Message(topic=topic, body=b"x"))) for _ in range(5)]
        await asyncio.sleep(0)
        sends[2].cancel()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert isinstance(outcomes[2], asyncio.CancelledError)
        assert sum(isinstance(outcome, SendResult) for outcome in outcomes) == 4
        assert len(await send_together(producer, topic, 5)) == 5
