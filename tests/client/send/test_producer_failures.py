from __future__ import annotations

import asyncio
import re
from collections import Counter

import pytest

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendStatus
from pyromq.clock import SystemClock
from pyromq.errors import ConnectFailed, ConnectionLost, NoMaster, NoRoute, RequestTimeout
from pyromq.namesrv.server import NameServer
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Proxy, ScriptedBroker, register_broker

DEAD = "127.0.0.1:1"


def name_server() -> NameServer:
    return NameServer(host="127.0.0.1", port=0, clock=SystemClock(), data_dir=None)


async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read everything and answer nothing."""
    while await reader.read(65536):
        pass
    writer.close()


async def test_sends_go_to_the_other_broker_while_one_is_down(topic: str) -> None:
    async with LocalCluster(brokers=2) as cluster, Producer("p", cluster.namesrv) as producer:
        for _ in range(16):
            await producer.send(Message(topic=topic, body=b"x"))
        await asyncio.to_thread(cluster.stop_broker, 0)
        results = [await producer.send(Message(topic=topic, body=b"x")) for _ in range(16)]
        assert Counter(result.queue.broker_name for result in results) == {"broker-b": 16}
        assert all(result.status is SendStatus.SEND_OK for result in results)


async def test_an_ordered_send_goes_nowhere_else(topic: str) -> None:
    async with LocalCluster(brokers=2) as cluster, Producer("p", cluster.namesrv) as producer:
        queues = await producer.queues(topic)
        for queue in queues:
            await producer.send(Message(topic=topic, body=b"x"), queue=queue)
        await asyncio.to_thread(cluster.stop_broker, 0)
        on_dead = next(queue for queue in queues if queue.broker_name == "broker-a")
        with pytest.raises((ConnectFailed, ConnectionLost, NoMaster)):
            await producer.send(Message(topic=topic, body=b"x"), queue=on_dead)


async def test_a_producer_survives_the_restart_of_its_only_broker(topic: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
        await asyncio.to_thread(cluster.stop_broker)
        with pytest.raises((ConnectFailed, ConnectionLost)) as failure:
            await producer.send(Message(topic=topic, body=b"x"))
        (note,) = failure.value.__notes__
        assert re.fullmatch(r"attempts: \d+, on broker-a", note), note
        await asyncio.to_thread(cluster.start_broker)
        assert (await producer.send(Message(topic=topic, body=b"x"))).status is SendStatus.SEND_OK


async def test_a_broker_that_does_not_answer_costs_the_time_out_and_no_more(topic: str) -> None:
    hole = await asyncio.start_server(swallow, "127.0.0.1", 0)
    host, port = hole.sockets[0].getsockname()
    async with hole, name_server() as names, await BrokerApi.connect(names.address) as api:
        await register_broker(api, "hole", f"{host}:{port}", topic)
        async with Producer("p", names.address, send_timeout=0.3) as producer:
            with pytest.raises(RequestTimeout, match=f"{host}:{port}") as failure:
                await producer.send(Message(topic=topic, body=b"x"))
            assert failure.value.__notes__ == ["attempts: 1, on hole"]


async def test_no_route_says_that_no_broker_is_registered(topic: str) -> None:
    async with name_server() as names, Producer("p", names.address) as producer:
        with pytest.raises(NoRoute) as failure:
            await producer.send(Message(topic=topic, body=b"x"))
    text = str(failure.value)
    assert f"no broker has the topic '{topic}'" in text
    assert f"{names.address} answers" in text
    assert "no broker is registered (start a broker" in text


async def test_no_route_says_that_brokers_do_not_create_topics(topic: str) -> None:
    async with (
        LocalCluster(settings={"autoCreateTopicEnable": False}) as strict,
        Producer("p", strict.namesrv) as producer,
    ):
        with pytest.raises(NoRoute, match=r"the broker broker-a does not have .*create the topic, or set autoCreate"):
            await producer.send(Message(topic=topic, body=b"x"))


async def test_an_unreachable_broker_address_is_named(topic: str) -> None:
    async with name_server() as names, await BrokerApi.connect(names.address) as api:
        await register_broker(api, "lost", DEAD, topic)
        async with Producer("p", names.address) as producer:
            with pytest.raises(ConnectFailed, match=DEAD):
                await producer.send(Message(topic=topic, body=b"x"))


async def test_unreachable_name_servers_are_all_named(topic: str) -> None:
    async with Producer("p", f"{DEAD};127.0.0.1:2") as producer:
        with pytest.raises(ConnectFailed) as failure:
            await producer.send(Message(topic=topic, body=b"x"))
    assert "no name server answers" in str(failure.value)
    assert DEAD in str(failure.value)
    assert "127.0.0.1:2" in str(failure.value)
    assert "\n" not in str(failure.value)


async def test_the_next_name_server_is_asked_when_one_is_down(cluster: LocalCluster, topic: str) -> None:
    for _ in range(4):  # which one is asked first is chance
        async with Producer("p", f"{DEAD};{cluster.namesrv};127.0.0.1:2") as producer:
            assert (await producer.send(Message(topic=topic, body=b"x"))).status is SendStatus.SEND_OK


async def test_many_sends_to_a_topic_without_a_route_share_one_look_up(topic: str) -> None:
    async with name_server() as names, Producer("p", names.address) as producer:
        sends = [producer.send(Message(topic=topic, body=b"x")) for _ in range(200)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert all(isinstance(outcome, NoRoute) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) < 10


async def test_a_cancelled_send_frees_its_place(topic: str) -> None:
    hole = await asyncio.start_server(swallow, "127.0.0.1", 0)
    host, port = hole.sockets[0].getsockname()
    async with hole, name_server() as names, await BrokerApi.connect(names.address) as api:
        await register_broker(api, "hole", f"{host}:{port}", topic)
        async with Producer("p", names.address, max_in_flight=1) as producer:
            for _ in range(3):
                send = asyncio.create_task(producer.send(Message(topic=topic, body=b"x")))
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(send, 0.1)
            assert producer._in_flight.try_enter(1)
            producer._in_flight.leave(1)


async def test_sends_that_fail_together_each_have_their_own_note(topic: str) -> None:
    connections: list[asyncio.StreamWriter] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await swallow(reader, writer)

    hole = await asyncio.start_server(keep, "127.0.0.1", 0)
    host, port = hole.sockets[0].getsockname()
    async with name_server() as names, await BrokerApi.connect(names.address) as api:
        await register_broker(api, "hole", f"{host}:{port}", topic)
        async with Producer("p", names.address, retries=0) as producer:
            sends = [asyncio.create_task(producer.send(Message(topic=topic, body=b"x"))) for _ in range(5)]
            await eventually(lambda: bool(connections))
            hole.close()
            await asyncio.sleep(0.05)  # let the requests leave
            for writer in connections:
                writer.close()
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
    for outcome in outcomes:
        assert isinstance(outcome, ConnectionLost)
        assert outcome.__notes__ == ["attempts: 1, on hole"]


async def test_a_half_dead_connection_costs_one_send_and_is_not_blamed_on_the_broker(topic: str) -> None:
    clock = SystemClock()
    async with (
        name_server() as names,
        ScriptedBroker(0, clock) as broker,
        Proxy(broker.address) as to_broker,
        Proxy(names.address) as to_names,
        await BrokerApi.connect(names.address) as api,
        Producer("p", to_names.address, send_timeout=0.4) as producer,
    ):
        await register_broker(api, "b", to_broker.address, topic)
        await producer.send(Message(topic=topic, body=b"x"))
        to_broker.freeze()
        to_names.freeze()
        with pytest.raises(RequestTimeout) as failure:
            await producer.send(Message(topic=topic, body=b"x"))
        text = str(failure.value)
        assert f"name server: {to_names.address} answers" in text
        assert f"broker b: {to_broker.address} answers" in text
        for _ in range(4):
            assert (await producer.send(Message(topic=topic, body=b"x"))).status is SendStatus.SEND_OK


async def test_a_hung_name_server_does_not_cost_the_first_send_its_time(topic: str) -> None:
    hung = await asyncio.start_server(swallow, "127.0.0.1", 0)
    address = f"127.0.0.1:{hung.sockets[0].getsockname()[1]}"
    async with hung, LocalCluster() as cluster, Producer("p", f"{address};{cluster.namesrv}") as producer:
        producer._delivery.instance.name_servers._chosen = 0  # else one of the two, by chance
        assert (await producer.send(Message(topic=topic, body=b"x"))).status is SendStatus.SEND_OK
