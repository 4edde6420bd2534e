"""PyroMQ's client in modes that it does not use by default: binary headers, and a broker's fast port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.conftest import Cluster
from interop.inbox import Inbox
from interop.python_side import BODIES, COUNT, messages, poll
from interop.servers import HOST, Broker, NameServer
from interop.toolkit import Toolkit
from pyromq import (
    COMMIT,
    UNKNOWN,
    LitePullConsumer,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    RetryLater,
    Sql,
    TransactionProducer,
    TransactionState,
)
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, SerializeType
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.testing import eventually

FAST_PORT_BELOW = 2
BINARY = "-Drocketmq.serialize.type=ROCKETMQ"


@pytest.fixture(params=["binary-headers", "fast-port"])
def variant(request: pytest.FixtureRequest, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    used = (_binary_headers if request.param == "binary-headers" else _fast_port)(cluster, monkeypatch)
    yield
    assert len(used) > 2, "nothing went this way"


def _binary_headers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Send every request with a binary header; answers have the same form."""
    used = []
    encode = RemotingCommand.encode

    def encode_binary(command: RemotingCommand) -> bytes:
        used.append(command.code)
        command.serialize = SerializeType.ROCKETMQ
        return encode(command)

    monkeypatch.setattr(RemotingCommand, "encode", encode_binary)
    return used


def _fast_port(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Send everything except pulls to the fast port."""
    used = []
    _, _, port = cluster.broker.rpartition(":")
    fast = f"{HOST}:{int(port) - FAST_PORT_BELOW}"
    request = RemotingClient.request

    async def request_fast(
        self: RemotingClient, address: str, command: RemotingCommand, timeout: float = 3.0
    ) -> RemotingCommand:
        if address == cluster.broker and command.code != RequestCode.PULL_MESSAGE:
            used.append(command.code)
            address = fast
        return await request(self, address, command, timeout)

    def not_ready(self: RemotingClient, address: str | None) -> Connection | None:
        return None  # a fast send would go to the usual port

    monkeypatch.setattr(RemotingClient, "request", request_fast)
    monkeypatch.setattr(RemotingClient, "ready", not_ready)
    return used


@pytest.mark.usefixtures("variant")
async def test_what_is_sent_is_pushed(cluster: Cluster, name: str) -> None:
    inbox = Inbox()
    async with Producer("python-producers", cluster.namesrv) as producer:
        for one in messages(name):
            await producer.send(one)
        await producer.send_batch(messages(name, b"more"))
        async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"):
            taken = {one.body for one in await inbox.take(2 * COUNT)}
    assert taken == BODIES | {b"more %d" % number for number in range(COUNT)}


@pytest.mark.usefixtures("variant")
async def test_what_is_polled_is_filtered_and_committed(cluster: Cluster, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        for one in messages(name):
            await producer.send(one)
        found = await producer.find(name, (await producer.send(Message(topic=name, body=b"x"))).message_id)
        assert found is not None
    wanted = {name: Sql("number >= 18")}
    for expected in ({b"body 18", b"body 19"}, set()):
        async with LitePullConsumer(name, cluster.namesrv, wanted, start_from="earliest") as consumer:
            assert {one.body for one in await poll(consumer, len(expected))} == expected
            assert await consumer.poll(timeout=0.5) == []
            await consumer.commit()


@pytest.mark.usefixtures("variant")
async def test_an_orderly_consumer_gets_what_failed_again(cluster: Cluster, name: str) -> None:
    inbox = Inbox(lambda message: RetryLater(delay=0.1) if message.reconsume_times < 1 else None)
    async with (
        Producer("python-producers", cluster.namesrv) as producer,
        PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, orderly=True, start_from="earliest"),
    ):
        await producer.send_batch(messages(name)[:3])
        assert [one.body for one in await inbox.take(6)] == [b"body %d" % n for n in (0, 0, 1, 1, 2, 2)]


@pytest.mark.usefixtures("variant")
async def test_a_transaction_is_asked_about(cluster: Cluster, name: str) -> None:
    asked: list[bytes] = []

    async def check(message: MessageExt) -> TransactionState:
        asked.append(message.body)
        return COMMIT

    inbox = Inbox()
    async with (
        TransactionProducer(name, cluster.namesrv, check=check) as producer,
        PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"),
    ):
        await producer.send_in_transaction(Message(topic=name, body=b"at once"), lambda message: COMMIT)
        await producer.send_in_transaction(Message(topic=name, body=b"later"), lambda message: UNKNOWN)
        assert {one.body for one in await inbox.take(2, seconds=40)} == {b"at once", b"later"}
    assert asked == [b"later"]


# --- Apache's broker with binary headers, at our name server ----------------------------------------------------------


@pytest.fixture(scope="module")
def binary_broker(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("binary")
    with (
        NameServer("pyromq", toolkit, directory / "namesrv") as namesrv,
        Broker("apache", toolkit, directory, namesrv.address, options=[BINARY]) as broker,
    ):
        yield Cluster("apache", namesrv.address, broker.address)


async def test_a_broker_that_asks_in_binary_is_answered(binary_broker: Cluster, name: str) -> None:
    """It registers at our name server, notifies group members, and checks transactions."""
    await test_a_transaction_is_asked_about(binary_broker, name)
    one, two = Inbox(), Inbox()
    async with (
        PushConsumer(f"{name}-both", binary_broker.namesrv, {name: "*"}, one, start_from="earliest") as first,
        PushConsumer(f"{name}-both", binary_broker.namesrv, {name: "*"}, two, start_from="earliest") as second,
    ):
        await eventually(lambda: (len(first.assignment), len(second.assignment)) == (2, 2))
