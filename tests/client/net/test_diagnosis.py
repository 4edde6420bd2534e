"""Six broken set-ups: the exception's text names each, with the address and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.diagnosis import diagnose, explain
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.clock import SystemClock
from pyromq.errors import BrokerError, ConnectFailed, NoNameServer, NoRoute, PyroMQError, RequestTimeout
from pyromq.namesrv.server import NameServer
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, register_broker

DEAD = "127.0.0.1:1"


async def failure_of_send(namesrv: str, topic: str, kind: type[PyroMQError], **options: float) -> str:
    async with Producer("p", namesrv, **options) as producer:  # type: ignore[arg-type]
        with pytest.raises(kind) as failure:
            await producer.send(Message(topic=topic, body=b"x"))
    assert "\n" not in str(failure.value)
    return str(failure.value)


@asynccontextmanager
async def broker_at(address: str, topic: str) -> AsyncIterator[str]:
    """A name server that knows of a broker at some address."""
    server = NameServer(host="127.0.0.1", port=0, clock=SystemClock(), data_dir=None)
    async with server as names, await BrokerApi.connect(names.address) as api:
        await register_broker(api, "lost", address, topic)
        yield names.address


async def test_no_name_server(topic: str) -> None:
    text = await failure_of_send(DEAD, topic, ConnectFailed)
    assert text == f"no name server answers: {DEAD} (connection refused); is one running there?"


async def test_a_broker_where_a_name_server_should_be(cluster: LocalCluster, topic: str) -> None:
    text = await failure_of_send(cluster.brokers[0].address, topic, NoNameServer)
    assert text.endswith("(that is a broker; name servers listen on port 9876 by default)")


async def test_one_of_two_name_servers_does_not_answer(topic: str) -> None:
    async with broker_at(DEAD, topic) as namesrv:
        text = await failure_of_send(f"{namesrv};127.0.0.1:2", topic, ConnectFailed)
    assert f"name server: {namesrv} answers, 127.0.0.1:2 (connection refused); route: " in text


async def test_an_address_is_named_no_more_than_twice(topic: str) -> None:
    async with broker_at(DEAD, topic) as namesrv:
        text = await failure_of_send(namesrv, topic, ConnectFailed)
    assert (text.count(DEAD), text.count(namesrv)) == (2, 1)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("%RETRY%nobody", "a broker makes it when a consumer of the group starts: is the group's name right?"),
        ("%DLQ%nobody", "a broker makes it with the group's first dead letter: is the group's name right?"),
        ("rmq_sys_something", "brokers make it themselves, when they need it"),
        ("no such topic", "nobody can create it: the topic name 'no such topic' has characters other than"),
        ("not-yet", "the first message that is sent to it creates it"),
    ],
)
async def test_the_advice_is_what_helps(cluster: LocalCluster, name: str, advice: str) -> None:
    async with await BrokerApi.connect(cluster.namesrv) as api:
        text = explain(await diagnose(api, name))
    assert f"the broker broker-a does not have the topic {name!r} ({advice}" in text


async def test_no_route(topic: str) -> None:
    async with NameServer(host="127.0.0.1", port=0, clock=SystemClock(), data_dir=None) as names:
        text = await failure_of_send(names.address, topic, NoRoute)
    assert "no broker is registered (start a broker with this name server's address)" in text


async def test_an_advertised_address_that_does_not_exist(topic: str) -> None:
    async with broker_at("no-such-host.invalid:10911", topic) as namesrv:
        text = await failure_of_send(namesrv, topic, ConnectFailed)
    assert "cannot connect to no-such-host.invalid:10911" in text
    assert f"route: {topic} is on lost" in text
    assert "is brokerIP1 an address that this machine can reach?" in text


async def test_a_closed_port(topic: str) -> None:
    async with broker_at(DEAD, topic) as namesrv:
        text = await failure_of_send(namesrv, topic, ConnectFailed)
    assert f"broker lost: {DEAD}: connection refused (is the broker running" in text


async def test_no_permission(topic: str) -> None:
    async with LocalCluster() as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        await api.create_topic(cluster.brokers[0].address, topic, perm=4)
        text = await failure_of_send(cluster.namesrv, topic, NoRoute)
        assert f"the topic '{topic}' has no writable queue" in text
        assert f"permission: {topic} may not be written on broker-a (perm 4) (set the topic's perm to 6)" in text


async def test_no_auto_creation(topic: str) -> None:
    async with LocalCluster(settings={"autoCreateTopicEnable": False}) as cluster:
        text = await failure_of_send(cluster.namesrv, topic, NoRoute)
    assert f"the broker broker-a does not have the topic '{topic}' (create the topic, or set autoCreateTopic" in text


async def test_a_broker_that_does_not_answer(topic: str) -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
        writer.close()

    hole = await asyncio.start_server(swallow, "127.0.0.1", 0)
    host, port = hole.sockets[0].getsockname()
    async with hole, broker_at(f"{host}:{port}", topic) as namesrv:
        text = await failure_of_send(namesrv, topic, RequestTimeout, send_timeout=0.2)
    assert f"{host}:{port} accepts connections, but: no answer within " in text
    assert "is it overloaded, or no broker at all?" in text


async def test_sends_that_fail_together_share_one_diagnosis(topic: str) -> None:
    async with broker_at(DEAD, topic) as namesrv, Producer("p", namesrv, retries=0) as producer:
        diagnoses = 0
        diagnose = producer._delivery.instance._diagnose

        async def counted(name: str) -> str:
            nonlocal diagnoses
            diagnoses += 1
            await asyncio.sleep(0.3)  # so that all fail meanwhile, however slow the machine
            return await diagnose(name)

        producer._delivery.instance._diagnose = counted  # type: ignore[method-assign,assignment]
        sends = [producer.send(Message(topic=topic, body=b"x")) for _ in range(100)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert all(isinstance(outcome, ConnectFailed) for outcome in outcomes)
    assert diagnoses < 5


async def test_a_broker_s_own_refusal_is_not_explained_away(topic: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv, retries=0) as producer:
        queue = (await producer.queues(topic))[0]
        with pytest.raises(BrokerError) as failure:
            await producer.send(Message(topic=topic, body=b"x"), queue=queue._replace(queue_id=100))
    assert "name server" not in str(failure.value)


# --- consumers: they go on trying, and the log says once what is wrong ------------------------------------------------


async def warning_of_consumer(
    namesrv: str, topic: str, caplog: pytest.LogCaptureFixture, kind: type[PushConsumer | LitePullConsumer]
) -> str:
    options: dict[str, Any] = {"listener": Heard()} if kind is PushConsumer else {}

    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if "gets no messages of" in record.getMessage()]

    async with kind("g", namesrv, {topic: "*"}, **options) as consumer:
        await eventually(lambda: bool(warnings()))
        await consumer._session.membership.rebalance()  # it tries again, and says nothing new
        (text,) = warnings()
    assert f"group=g gets no messages of topic={topic} yet: " in text
    assert "\n" not in text
    return text


consumers = pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])


@consumers
async def test_a_consumer_without_a_name_server_does_not_start(
    topic: str, kind: type[PushConsumer | LitePullConsumer]
) -> None:
    options: dict[str, Any] = {"listener": Heard()} if kind is PushConsumer else {}
    with pytest.raises(ConnectFailed, match=f"no name server answers: {DEAD}"):
        await kind("g", DEAD, {topic: "*"}, **options).start()


@consumers
async def test_a_consumer_of_a_topic_without_a_route(
    topic: str, caplog: pytest.LogCaptureFixture, kind: type[PushConsumer | LitePullConsumer]
) -> None:
    async with NameServer(host="127.0.0.1", port=0, clock=SystemClock(), data_dir=None) as names:
        text = await warning_of_consumer(names.address, topic, caplog, kind)
    assert "no broker is registered (start a broker with this name server's address)" in text


@consumers
async def test_a_consumer_of_a_topic_that_no_broker_has(
    topic: str, caplog: pytest.LogCaptureFixture, kind: type[PushConsumer | LitePullConsumer]
) -> None:
    async with LocalCluster(settings={"autoCreateTopicEnable": False}) as cluster:
        text = await warning_of_consumer(cluster.namesrv, topic, caplog, kind)
    assert f"the broker broker-a does not have the topic '{topic}' (create the topic, or set autoCreateTopic" in text


@consumers
async def test_a_consumer_of_a_broker_with_a_wrong_advertised_address(
    topic: str, caplog: pytest.LogCaptureFixture, kind: type[PushConsumer | LitePullConsumer]
) -> None:
    async with broker_at("no-such-host.invalid:10911", topic) as namesrv:
        text = await warning_of_consumer(namesrv, topic, caplog, kind)
    assert "cannot connect to no-such-host.invalid:10911" in text
    assert "is brokerIP1 an address that this machine can reach?" in text


@consumers
async def test_a_consumer_of_a_broker_with_a_closed_port(
    topic: str, caplog: pytest.LogCaptureFixture, kind: type[PushConsumer | LitePullConsumer]
) -> None:
    async with broker_at(DEAD, topic) as namesrv:
        text = await warning_of_consumer(namesrv, topic, caplog, kind)
    assert f"broker lost: {DEAD}: connection refused (is the broker running" in text


@consumers
async def test_a_consumer_of_a_topic_that_may_not_be_read(
    topic: str, caplog: pytest.LogCaptureFixture, kind: type[PushConsumer | LitePullConsumer]
) -> None:
    async with LocalCluster() as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        await api.create_topic(cluster.brokers[0].address, topic, perm=2)
        text = await warning_of_consumer(cluster.namesrv, topic, caplog, kind)
    assert "it has no readable queue" in text
    assert f"permission: {topic} may not be read on broker-a (perm 2) (set the topic's perm to 6)" in text


async def test_one_way_sends_and_batches_are_explained_too(topic: str) -> None:
    async with broker_at(DEAD, topic) as namesrv, Producer("p", namesrv) as producer:
        message = Message(topic=topic, body=b"x")
        queue = (await producer.queues(topic))[0]
        for send in (
            producer.send(message, queue=queue),
            producer.send_oneway(message),
            producer.send_batch([message]),
            producer.request(message),
        ):
            with pytest.raises(ConnectFailed, match=rf"cannot connect to {DEAD}: .*\(is the broker running"):
                await send
        with pytest.raises(NoRoute, match=r"broker 'gone' has no master now; name server: .* answers; route: "):
            await producer.send(message, queue=queue._replace(broker_name="gone"))
        async with LitePullConsumer("g", namesrv) as consumer:
            with pytest.raises(NoRoute, match="no broker has the topic 'nowhere'"):
                await consumer.queues("nowhere")
