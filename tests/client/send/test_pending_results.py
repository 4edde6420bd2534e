"""Sends of the async producer that nobody waits for at once: each has its result, later."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from pyromq import PendingResult
from pyromq.client.hooks import SendHook
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.errors import BrokerError, ClientError, ConnectionLost, InvalidMessage, PayloadError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.messages.message import Message
from pyromq.remoting.connection import Connection
from pyromq.testing import LocalCluster
from tests.client.helpers import ScriptedBroker, read
from tests.client.send.test_batch_delivery import takes_batches
from tests.client.send.test_send_retries import TOPIC, scripted

WAYS: list[dict[str, Any]] = [{}, {"linger": 0.002}, {"hooks": [SendHook()]}, {"linger": 0.002, "hooks": [SendHook()]}]
IDS = ["plain", "linger", "hooks", "linger and hooks"]
SENDS = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE


async def send_all(producer: Producer, topic: str, count: int, **options: Any) -> list[PendingResult]:
    return [await producer.send_soon(Message(topic=topic, body=b"%d" % one), **options) for one in range(count)]


class Silence:
    """Has a broker keep all sends, without an answer."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.kept = 0
        for code in SENDS:
            broker.handlers[code] = self.keep

    def keep(self, command: RemotingCommand, connection: Connection) -> None:
        self.kept += 1


@pytest.mark.parametrize("options", [*WAYS, {"trace": True}, {"linger": 0.002, "trace": True}])
async def test_every_message_has_its_own_result(
    cluster: LocalCluster, topic: str, group: str, options: dict[str, Any]
) -> None:
    async with Producer("p", cluster.namesrv, max_in_flight=100, **options) as producer:
        sent = await send_all(producer, topic, 700)
        large = await producer.send_soon(Message(topic=topic, body=b"y" * 5000, tags="large"))
        value = await producer.send_soon(topic, {"a": 1}, tags="value", keys="k")
        await producer.flush()
        assert all(one.done() for one in (*sent, large, value))
        results = [one.result() for one in sent]
        assert (await large).status is (await value).status is SendStatus.SEND_OK
        assert results == await asyncio.gather(*sent)
    assert len({one.message_id for one in results}) == 700
    places = {(one.queue, one.queue_offset): one for one in results}
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        messages = [one for one in await read(consumer, 702) if not one.tags]
    for message in messages:
        result = places[message.queue, message.queue_offset]
        assert (message.message_id, message.offset_message_id) == (result.message_id, result.offset_message_id)
        assert message.body == b"%d" % results.index(result)


@pytest.mark.parametrize("options", WAYS, ids=IDS)
async def test_messages_with_a_key_keep_the_order_of_the_calls(
    cluster: LocalCluster, topic: str, options: dict[str, Any]
) -> None:
    async with Producer("p", cluster.namesrv, max_in_flight=10, **options) as producer:
        results = [await one for one in await send_all(producer, topic, 50, order_key="k")]
    assert len({one.queue for one in results}) == 1
    assert [one.queue_offset for one in results] == sorted(one.queue_offset for one in results)


@pytest.mark.parametrize("options", WAYS, ids=IDS)
async def test_a_wrong_message_is_an_error_in_its_result(
    cluster: LocalCluster, topic: str, options: dict[str, Any]
) -> None:
    async with Producer("p", cluster.namesrv, **options) as producer:
        for _ in range(2):  # the second of its kind
            wrong = await producer.send_soon(Message(topic=topic, body=b""))
            right = await producer.send_soon(Message(topic=topic, body=b"x"))
            with pytest.raises(InvalidMessage, match="empty"):
                await wrong
            with pytest.raises(InvalidMessage, match="empty"):
                wrong.result()
            assert (await right).status is SendStatus.SEND_OK
        with pytest.raises(PayloadError):
            await producer.send_soon(topic, object())
        await producer.flush()
        assert producer._in_flight.count == 0
    with pytest.raises(ClientError, match="not open"):
        await producer.send_soon(Message(topic=topic, body=b"x"))


@pytest.mark.parametrize("sending", [{}, {"order_key": "k"}, {"timeout": 3.0}], ids=str)
@pytest.mark.parametrize("options", WAYS, ids=IDS)
async def test_who_sends_faster_than_the_broker_takes_has_to_wait(
    options: dict[str, Any], sending: dict[str, Any]
) -> None:
    async with scripted(0) as (namesrv, (broker,)):
        takes_batches(broker, 0)
        producer = Producer("p", namesrv, max_in_flight=5, retries=0, send_timeout=1.0, **options)
        async with producer:
            await (await producer.send_soon(Message(topic=TOPIC, body=b"x"), **sending))
            Silence(broker)
            sent: list[PendingResult] = []

            async def send_many() -> None:
                for _ in range(20):
                    sent.append(await producer.send_soon(Message(topic=TOPIC, body=b"x"), **sending))

            sender = asyncio.create_task(send_many())
            await asyncio.sleep(0.1)
            assert not sender.done()
            assert len(sent) == producer._in_flight.count == 5
            assert not any(one.done() for one in sent)
            with pytest.raises(asyncio.InvalidStateError, match="on its way"):
                sent[0].result()
            sender.cancel()
            await asyncio.gather(sender, *sent, return_exceptions=True)
            assert producer._in_flight.count == 0
            assert not producer._in_flight.has_waiting


@pytest.mark.parametrize("options", [*WAYS, {"linger": 60.0}])
async def test_closing_sends_what_waits(cluster: LocalCluster, topic: str, options: dict[str, Any]) -> None:
    async with Producer("p", cluster.namesrv, **options) as producer:
        sent = await send_all(producer, topic, 20)
        plain = await send_all(producer, topic, 3, order_key="k")
    assert {one.result().status for one in (*sent, *plain)} == {SendStatus.SEND_OK}


async def test_who_is_cancelled_takes_nothing_from_others(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv, linger=60.0) as producer:
        first, second = await send_all(producer, topic, 2)
        waiting = [asyncio.ensure_future(one) for one in (first, first, second)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await producer.flush()
        assert await waiting[1] == first.result() == await first
        assert await waiting[2] == second.result()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]


@pytest.mark.parametrize("options", WAYS, ids=IDS)
async def test_if_the_broker_goes_away_every_result_says_so(options: dict[str, Any]) -> None:
    async with scripted(0) as (namesrv, (broker,)), Producer("p", namesrv, retries=0, **options) as producer:
        takes_batches(broker, 0)
        await (await producer.send_soon(Message(topic=TOPIC, body=b"x")))
        for code in SENDS:
            broker.handlers[code] = hang_up
        sent = await send_all(producer, TOPIC, 3)
        for one in sent:
            with pytest.raises(ConnectionLost):
                await one
        with pytest.raises(ConnectionLost):
            sent[0].result()


@pytest.mark.parametrize("options", WAYS, ids=IDS)
async def test_a_flush_waits_for_those_who_are_tried_again(options: dict[str, Any]) -> None:
    async with scripted(0) as (namesrv, (broker,)), Producer("p", namesrv, retries=1, **options) as producer:
        takes_batches(broker, 0)
        single = broker.handlers[RequestCode.SEND_MESSAGE_V2]
        await (await producer.send_soon(Message(topic=TOPIC, body=b"x")))

        def hang_up_once(command: RemotingCommand, connection: Connection) -> None:
            broker.handlers[RequestCode.SEND_MESSAGE_V2] = single
            takes_batches(broker, 0)
            connection.abort("as the script says")

        for code in SENDS:
            broker.handlers[code] = hang_up_once
        sent = await send_all(producer, TOPIC, 3)
        await producer.flush()
        assert {one.result().status for one in sent} == {SendStatus.SEND_OK}


async def test_a_failure_that_nobody_looks_at_is_logged_once_for_all(caplog: pytest.LogCaptureFixture) -> None:
    async with scripted(0) as (namesrv, (broker,)), Producer("p", namesrv, retries=0, linger=0.002) as producer:
        takes_batches(broker, 0)
        await (await producer.send_soon(Message(topic=TOPIC, body=b"x")))
        takes_batches(broker, 1)
        for looks in (True, False):
            sent = await send_all(producer, TOPIC, 3)
            await producer.flush()
            if looks:
                with pytest.raises(BrokerError):
                    sent[1].result()
            del sent
            gc.collect()
            assert len([one for one in caplog.records if "never retrieved" in one.message]) == (0 if looks else 1)


async def test_a_long_run_lets_others_have_their_turn(cluster: LocalCluster, topic: str) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with Producer("p", cluster.namesrv, linger=0.002, max_in_flight=100_000) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
        counting = asyncio.create_task(count())
        sent = await send_all(producer, topic, 5000)
        assert turns >= 4, "one for each batch of a thousand"
        counting.cancel()
        results: list[SendResult] = await asyncio.gather(*sent)
    assert len({one.message_id for one in results}) == 5000


def hang_up(command: RemotingCommand, connection: Connection) -> None:
    connection.abort("as the script says")
