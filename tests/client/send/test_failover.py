"""Sends while a master is away, and when a slave has taken over: the same send goes to the new master."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Container
from typing import Any

import pytest

from pyromq.client.listener.outcomes import COMMIT
from pyromq.client.net.calls.answers import SendAnswer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.client.send.transaction_producer import TransactionProducer
from pyromq.client.send_result import SendStatus
from pyromq.errors import BrokerError, ConnectFailed, ConnectionLost, FateUnknown, NoMaster
from pyromq.protocol.bodies import TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.send import STORED_HERE
from pyromq.protocol.messages.message import Message
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import HandlerResult
from pyromq.testing import LocalCluster, eventually
from pyromq.testing.cluster import LocalBroker
from tests.client.helpers import register_broker


@pytest.fixture
async def pair() -> AsyncIterator[LocalCluster]:
    async with LocalCluster(slaves=1) as cluster:
        yield cluster


def count_look_ups(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the topic of each question for a route is added from now on."""
    api, asked = producer._delivery.instance.api, []
    ask = api.route

    async def route(topic: str, **options: float) -> TopicRouteData:
        asked.append(topic)
        return await ask(topic, **options)

    monkeypatch.setattr(api, "route", route)
    return asked


async def level(cluster: LocalCluster) -> None:
    """Wait until the slave has all of its master's log."""
    one, other = cluster.brokers[0].server, cluster.slaves[0].server
    assert one is not None
    assert other is not None
    await eventually(lambda: one.store.max_physical_offset == other.store.max_physical_offset)


def _topics(broker: LocalBroker) -> Container[str]:
    assert broker.server is not None
    return broker.server.topics.by_name


async def take_over(cluster: LocalCluster) -> None:
    await asyncio.to_thread(cluster.stop_broker)
    await asyncio.to_thread(cluster.promote, cluster.slaves[0])


@pytest.mark.parametrize("order_key", [None, "one customer"])
async def test_the_first_refused_send_goes_to_the_new_master(
    pair: LocalCluster, topic: str, order_key: str | None
) -> None:
    async with Producer("p", pair.namesrv, clock=pair.clock) as producer:
        before = await producer.send(Message(topic, b"one"), order_key="one customer")
        await level(pair)
        await take_over(pair)
        sent = await producer.send(Message(topic, b"two"), order_key=order_key)
        assert sent.status is SendStatus.SEND_OK
        if order_key:
            assert (sent.queue, sent.queue_offset) == (before.queue, before.queue_offset + 1)
        server = pair.slaves[0].server
        assert server is not None
        assert server.store.max_offset(topic, sent.queue.queue_id) == sent.queue_offset + 1


@pytest.mark.parametrize("order_key", [None, "one customer"])
async def test_sends_wait_for_the_next_master(
    pair: LocalCluster, topic: str, order_key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planned handover takes part of a second: no send fails because of it, and the name server is not stormed."""
    async with Producer("p", pair.namesrv, clock=pair.clock, send_timeout=20) as producer:
        await producer.send(Message(topic, b"one"), order_key="one customer")
        await level(pair)
        await asyncio.to_thread(pair.stop_broker)
        asked = count_look_ups(producer, monkeypatch)
        sends = [
            asyncio.create_task(producer.send(Message(topic, b"%d" % number), order_key=order_key))
            for number in range(100)
        ]
        await asyncio.sleep(0.5)
        assert not any(send.done() for send in sends)
        assert 0 < len(asked) < 40  # a few a second, and not one for each send
        await asyncio.to_thread(pair.promote, pair.slaves[0])
        assert {result.status for result in await asyncio.gather(*sends)} == {SendStatus.SEND_OK}


async def test_a_demoted_master_that_still_answers_leads_to_the_new_one(pair: LocalCluster, topic: str) -> None:
    async with Producer("p", pair.namesrv, clock=pair.clock, send_timeout=20) as producer:
        await producer.send(Message(topic, b"one"))
        await level(pair)
        await asyncio.to_thread(pair.demote, pair.brokers[0])
        send = asyncio.create_task(producer.send(Message(topic, b"two")))
        await asyncio.to_thread(pair.promote, pair.slaves[0])
        assert (await send).status is SendStatus.SEND_OK


@pytest.mark.parametrize("order_key", [None, "one customer"])
@pytest.mark.parametrize("knew_slave", [True, False])
async def test_a_new_master_is_found_although_the_known_route_is_older_than_its_slave(
    pair: LocalCluster, topic: str, order_key: str | None, knew_slave: bool
) -> None:
    """As in a rolling restart: the route was asked for while the slave was away, and several times a moment ago."""
    async with Producer("p", pair.namesrv, clock=pair.clock) as producer:
        if knew_slave:
            await producer.send(Message(topic, b"one"))
            await level(pair)
        await asyncio.to_thread(pair.stop_broker, pair.slaves[0])
        await producer.send(Message(topic, b"two"))
        for _ in range(3):
            await producer._delivery._routes.watch.look(topic, "broker-a")
        await asyncio.to_thread(pair.start_broker, pair.slaves[0])
        await level(pair)
        await asyncio.to_thread(pair.demote, pair.brokers[0])
        await asyncio.to_thread(pair.promote, pair.slaves[0])
        assert (await producer.send(Message(topic, b"three"), order_key=order_key)).status is SendStatus.SEND_OK


@pytest.mark.parametrize("order_key", [None, "one customer"])
@pytest.mark.parametrize("retries", [0, 2])
async def test_what_a_deposed_master_has_stored_is_sent_again_only_by_those_who_retry(
    pair: LocalCluster, topic: str, order_key: str | None, retries: int
) -> None:
    async with Producer("p", pair.namesrv, clock=pair.clock, retries=retries) as producer:
        await producer.send(Message(topic, b"one"))
        server = pair.brokers[0].server
        assert server is not None
        send, asked = server.handlers[RequestCode.SEND_MESSAGE_V2], 0

        def refuse_first(command: RemotingCommand, connection: Connection) -> HandlerResult:
            nonlocal asked
            asked += 1
            if asked > 1:
                return send(command, connection)
            return response(command, ResponseCode.SERVICE_NOT_AVAILABLE, "who knows", {STORED_HERE: "true"})

        server.handlers[RequestCode.SEND_MESSAGE_V2] = refuse_first
        sending = producer.send(Message(topic, b"two"), order_key=order_key)
        if retries and order_key is None:
            assert (await sending).status is SendStatus.SEND_OK
        else:
            with pytest.raises(FateUnknown):
                await sending
            assert asked == 1


async def test_a_producer_that_starts_without_a_master_says_so_or_waits(pair: LocalCluster, topic: str) -> None:
    async with Producer("p", pair.namesrv, clock=pair.clock) as producer:
        await producer.send(Message(topic, b"one"))
        await level(pair)
    await asyncio.to_thread(pair.stop_broker)
    async with Producer("p", pair.namesrv, clock=pair.clock, send_timeout=0.6) as producer:
        with pytest.raises(NoMaster, match=f"'{topic}' cannot be written: broker broker-a has no master now"):
            await producer.send(Message(topic, b"two"))
    async with Producer("p", pair.namesrv, clock=pair.clock, send_timeout=20) as producer:
        send = asyncio.create_task(producer.send(Message(topic, b"two")))
        await asyncio.to_thread(pair.promote, pair.slaves[0])
        assert (await send).status is SendStatus.SEND_OK


async def test_an_ordered_send_whose_route_is_known_to_lack_a_master_waits_too(pair: LocalCluster, topic: str) -> None:
    async with Producer("p", pair.namesrv, clock=pair.clock, send_timeout=20) as producer:
        await producer.send(Message(topic, b"one"))
        await level(pair)
        await asyncio.to_thread(pair.stop_broker)
        await producer._delivery.instance.routes.refresh(topic)
        send = asyncio.create_task(producer.send(Message(topic, b"two"), order_key="one customer"))
        await asyncio.to_thread(pair.promote, pair.slaves[0])
        assert (await send).status is SendStatus.SEND_OK


async def test_a_send_that_finds_no_master_in_its_time_fails_with_the_reason(pair: LocalCluster, topic: str) -> None:
    async with Producer("p", pair.namesrv, clock=pair.clock, send_timeout=0.5) as producer:
        await producer.send(Message(topic, b"one"))
        await asyncio.to_thread(pair.stop_broker)
        with pytest.raises((ConnectFailed, ConnectionLost, NoMaster)) as failure:
            await producer.send(Message(topic, b"two"))
        assert "has no master now" in str(failure.value)


async def test_a_transaction_is_ended_at_the_new_master(pair: LocalCluster, topic: str) -> None:
    async def execute(message: object) -> object:
        await level(pair)
        await eventually(lambda: topic in _topics(pair.slaves[0]))
        await take_over(pair)
        return COMMIT

    async with await BrokerApi.connect(pair.namesrv, clock=pair.clock) as api:
        await api.create_topic(pair.brokers[0].address, topic)
    async with TransactionProducer("p", pair.namesrv, check=lambda message: None, clock=pair.clock) as producer:
        result = await producer.send_in_transaction(Message(topic, b"one"), execute)
        assert result.state is COMMIT
        server = pair.slaves[0].server
        assert server is not None
        store = server.store
        await eventually(lambda: sum(store.max_offset(topic, queue) for queue in store.queue_ids(topic)) == 1)


async def test_a_dead_broker_is_gone_around_before_the_name_server_notices(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the machines of two brokers were gone: they stay registered for two minutes."""
    async with (
        LocalCluster() as cluster,
        await BrokerApi.connect(cluster.namesrv) as api,
        Producer("p", cluster.namesrv, clock=cluster.clock) as producer,
    ):
        for name, address in (("gone", "127.0.0.1:1"), ("gone-too", "127.0.0.1:2")):
            await register_broker(api, name, address, topic)
        await api.create_topic(cluster.brokers[0].address, topic)
        attempts: Counter[str] = Counter()
        send = producer._delivery._api.send

        async def counted(address: str, *arguments: Any, **options: Any) -> SendAnswer:
            attempts[address] += 1
            return await send(address, *arguments, **options)

        monkeypatch.setattr(producer._delivery._api, "send", counted)
        results = [await producer.send(Message(topic, b"x")) for _ in range(48)]
        assert {result.queue.broker_name for result in results} == {"broker-a"}
        assert attempts["127.0.0.1:1"] <= 1
        assert attempts["127.0.0.1:2"] <= 1


async def test_a_slave_that_is_asked_to_store_says_who_does(pair: LocalCluster, topic: str) -> None:
    async with Producer("p", pair.namesrv, clock=pair.clock, send_timeout=0.4) as producer:
        await producer.send(Message(topic, b"one"))
        await level(pair)
        await asyncio.to_thread(pair.demote, pair.brokers[0])
        with pytest.raises((BrokerError, NoMaster)):
            await producer.send(Message(topic, b"two"))
