"""Queues whose oldest messages have expired: where new groups start, and what happens to groups left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.conftest import Cluster
from interop.inbox import Inbox
from interop.peer import Fact, Peer
from interop.python_side import poll
from interop.servers import BROKER_NAME, Broker, Kind, NameServer, free_port
from interop.toolkit import Toolkit
from pyromq import LitePullConsumer, Message, MessageExt, Producer, PushConsumer
from pyromq.client.consume.start_from import StartFrom
from pyromq.client.net.calls.broker_api import BrokerApi

TOPIC = "old"
EARLY, LATE = 150, 20
BODY = 3_000  # small enough not to be compressed
SMALL_FILES = {"mappedFileSizeCommitLog": str(128 << 10)}
EXPIRED_FILES = 2


class Aged(NamedTuple):
    """A topic with one queue whose early messages have expired."""

    sent: list[int]
    """The numbers of all its messages; a number is also the offset."""
    oldest: int
    """The oldest remaining message."""
    late_since_ms: int
    """A whole second between the early and the late messages; Java has no finer times here."""

    def wanted(self, where: str) -> list[int]:
        """Return the messages of a group that starts there."""
        return self.sent[{"first": self.oldest, "time": EARLY, "last": len(self.sent)}[where] :]

    async def send_one(self, namesrv: str) -> int:
        """Send one more message and return its number."""
        number = len(self.sent)
        await fill(namesrv, range(number, number + 1))
        self.sent.append(number)
        return number


_aged: dict[Kind, Aged] = {}


@pytest.fixture(scope="module", params=["pyromq", "apache"])
def cluster(
    request: pytest.FixtureRequest, toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("old")
    kind: Kind = request.param
    port = free_port()
    with NameServer(kind, toolkit, directory / "namesrv") as namesrv:
        with Broker(kind, toolkit, directory, namesrv.address, SMALL_FILES, port) as broker:
            asyncio.run(make_topic(namesrv.address, broker.address))
            asyncio.run(fill(namesrv.address, range(EARLY)))
        expire(broker.store / "commitlog")
        with Broker(kind, toolkit, directory, namesrv.address, SMALL_FILES, port) as broker:
            late_since_ms = next_second_ms()
            asyncio.run(fill(namesrv.address, range(EARLY, EARLY + LATE)))
            oldest = asyncio.run(min_offset(namesrv.address, broker.address))
            assert 0 < oldest < EARLY
            _aged[kind] = Aged(list(range(EARLY + LATE)), oldest, late_since_ms)
            yield Cluster(kind, namesrv.address, broker.address)


async def make_topic(namesrv: str, broker: str) -> None:
    async with await BrokerApi.connect(namesrv) as api:
        await api.create_topic(broker, TOPIC, 1)


async def fill(namesrv: str, numbers: range) -> None:
    async with Producer("python-producers", namesrv) as producer:
        for number in numbers:
            body = b"%d" % number
            await producer.send(Message(topic=TOPIC, body=body.ljust(BODY), properties={"number": str(number)}))


async def min_offset(namesrv: str, broker: str) -> int:
    async with await BrokerApi.connect(namesrv) as api:
        return await api.min_offset(broker, TOPIC, 0)


def expire(log: Path) -> None:
    """Remove the oldest files as a broker does; Apache's takes at least a minute."""
    for file in sorted(log.iterdir())[:EXPIRED_FILES]:
        file.unlink()


def next_second_ms() -> int:
    """Wait for the start of a whole second and return its time."""
    second = int(time.time()) + 1
    while time.time() < second + 0.01:
        time.sleep(0.01)
    return second * 1000


@pytest.fixture
def aged(cluster: Cluster) -> Aged:
    return _aged[cluster.kind]


WHERE = {"first": "CONSUME_FROM_FIRST_OFFSET", "last": "CONSUME_FROM_LAST_OFFSET", "time": "CONSUME_FROM_TIMESTAMP"}


def start_from(where: str, aged: Aged) -> StartFrom:
    if where == "time":
        return datetime.fromtimestamp(aged.late_since_ms / 1000, UTC)
    return "earliest" if where == "first" else "latest"


def numbers_of(facts: list[Fact]) -> list[int]:
    return sorted(int(fact["properties"]["number"]) for fact in facts)


def numbers(messages: list[MessageExt]) -> list[int]:
    return sorted(int(one.properties["number"]) for one in messages)


@pytest.mark.parametrize("where", WHERE)
def test_where_javas_push_consumer_begins(cluster: Cluster, java: Peer, aged: Aged, name: str, where: str) -> None:
    wanted = aged.wanted(where)
    options = {"from": WHERE[where], "since": aged.late_since_ms}
    with java.push(cluster.namesrv, name, TOPIC, **options) as consumer:
        assert numbers_of(consumer.take(len(wanted))) == wanted
        assert consumer.rest() == []
        number = asyncio.run(aged.send_one(cluster.namesrv))
        assert numbers_of(consumer.take(1)) == [number]


@pytest.mark.parametrize("where", ["first", "time"])
def test_where_javas_lite_pull_consumer_begins(cluster: Cluster, java: Peer, aged: Aged, name: str, where: str) -> None:
    wanted = aged.wanted(where)
    options = {"from": WHERE[where], "since": aged.late_since_ms, "count": len(wanted)}
    found = java.call("Lite.read", namesrv=cluster.namesrv, group=name, topic=TOPIC, **options)
    assert numbers_of(found) == wanted


def test_java_goes_on_with_the_oldest_message_if_its_own_has_expired(
    cluster: Cluster, java: Peer, aged: Aged, name: str
) -> None:
    place = {"topic": TOPIC, "broker": BROKER_NAME, "queue": 0, "group": name}
    assert java.call("Pulls.commit", namesrv=cluster.namesrv, offset=1, **place) == 1
    wanted = aged.wanted("first")
    with java.push(cluster.namesrv, name, TOPIC) as consumer:
        assert numbers_of(consumer.take(len(wanted), seconds=60)) == wanted


def test_java_is_told_of_an_expired_offset(cluster: Cluster, java: Peer, aged: Aged) -> None:
    place = {"topic": TOPIC, "broker": BROKER_NAME, "queue": 0}
    status, next_offset, low, *_ = java.call("Pulls.once", namesrv=cluster.namesrv, offset=1, **place)
    assert (status, next_offset, low) == ("OFFSET_ILLEGAL", aged.oldest, aged.oldest)
    low, _, at_time, earliest = java.call("Pulls.offsets", namesrv=cluster.namesrv, time=aged.late_since_ms, **place)
    assert (low, at_time) == (aged.oldest, EARLY)
    assert earliest < aged.late_since_ms


@pytest.mark.parametrize("where", WHERE)
async def test_where_our_push_consumer_begins(cluster: Cluster, aged: Aged, name: str, where: str) -> None:
    wanted = aged.wanted(where)
    inbox = Inbox()
    async with PushConsumer(name, cluster.namesrv, {TOPIC: "*"}, inbox, start_from=start_from(where, aged)):
        assert numbers(await inbox.take(len(wanted))) == wanted
        assert await inbox.rest() == []
        number = await aged.send_one(cluster.namesrv)
        assert numbers(await inbox.take(1)) == [number]


@pytest.mark.parametrize("where", WHERE)
async def test_where_our_lite_pull_consumer_begins(cluster: Cluster, aged: Aged, name: str, where: str) -> None:
    wanted = aged.wanted(where)
    async with LitePullConsumer(name, cluster.namesrv, {TOPIC: "*"}, start_from=start_from(where, aged)) as consumer:
        assert numbers(await poll(consumer, len(wanted))) == wanted
        assert await consumer.poll(timeout=1.0) == []
        number = await aged.send_one(cluster.namesrv)
        assert numbers(await poll(consumer, 1)) == [number]


async def test_ours_goes_on_with_the_oldest_message_if_its_own_has_expired(
    cluster: Cluster, aged: Aged, name: str
) -> None:
    async with await BrokerApi.connect(cluster.namesrv) as api:
        await api.commit_offset(cluster.broker, name, TOPIC, 0, 1)
    inbox = Inbox()
    wanted = aged.wanted("first")
    async with PushConsumer(name, cluster.namesrv, {TOPIC: "*"}, inbox, start_from="latest"):
        assert numbers(await inbox.take(len(wanted), seconds=60)) == wanted
