"""Consumers whose broker is restarted: it has forgotten its clients and who held which queue lock."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.inbox import Inbox
from interop.peer import Peer
from interop.servers import Broker, Kind, NameServer, free_port
from interop.toolkit import Toolkit
from pyromq import Message, Producer, PushConsumer
from pyromq.errors import PyroMQError

COUNT = 40
pytestmark = pytest.mark.timeout(300)  # Apache's broker starts slowly, and Java takes 30 s to give up a pull
KEYS = 8


@pytest.fixture(params=["pyromq", "apache"])
def cluster(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


class Restarted:
    """A broker that restarts at the same address."""

    def __init__(self, kind: Kind, toolkit: Toolkit, directory: Path, namesrv: str) -> None:
        self._place = (kind, toolkit, directory, namesrv)
        self._port = free_port()
        self.namesrv = namesrv
        self.broker = self._start()

    def restart(self) -> None:
        self.broker.stop()
        self.broker = self._start()

    def _start(self) -> Broker:
        return Broker(*self._place, port=self._port)


@contextmanager
def running(kind: Kind, toolkit: Toolkit, directory: Path) -> Iterator[Restarted]:
    with NameServer(kind, toolkit, directory / "namesrv") as namesrv:
        restarted = Restarted(kind, toolkit, directory, namesrv.address)
        try:
            yield restarted
        finally:
            restarted.broker.stop()


async def send(namesrv: str, topic: str, numbers: range) -> None:
    """Send numbers in order, equal keys to the same queue, each until it is stored."""
    async with Producer("python-producers", namesrv) as producer:
        for number in numbers:
            message = Message(topic=topic, body=b"%d" % number)
            async with asyncio.timeout(60):
                while True:
                    try:
                        await producer.send(message, order_key=f"key-{number % KEYS}")
                        break
                    except PyroMQError:
                        await asyncio.sleep(0.1)


def check_order(bodies: list[str]) -> None:
    """Check that every number arrived once, in order for each key."""
    assert sorted(map(int, bodies)) == list(range(2 * COUNT))
    by_key = defaultdict(list)
    for body in bodies:
        by_key[int(body) % KEYS].append(int(body))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_java_goes_on_after_a_restart(
    cluster: Kind, toolkit: Toolkit, tmp_path: Path, java: Peer, name: str, orderly: bool
) -> None:
    with running(cluster, toolkit, tmp_path) as server:
        asyncio.run(send(server.namesrv, name, range(COUNT)))
        with java.push(server.namesrv, name, name, orderly=orderly) as consumer:
            bodies = [fact["body"] for fact in consumer.take(COUNT)]
            consumer.rest()  # for its offsets to arrive
            server.restart()
            asyncio.run(send(server.namesrv, name, range(COUNT, 2 * COUNT)))
            bodies += [fact["body"] for fact in consumer.take(COUNT, seconds=60)]
            assert consumer.rest() == []
    check_order(bodies if orderly else sorted(bodies, key=int))


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_ours_goes_on_after_a_restart(
    cluster: Kind, toolkit: Toolkit, tmp_path: Path, name: str, orderly: bool
) -> None:
    with running(cluster, toolkit, tmp_path) as server:
        await send(server.namesrv, name, range(COUNT))
        inbox = Inbox()
        async with PushConsumer(
            name, server.namesrv, {name: "*"}, inbox, orderly=orderly, start_from="earliest"
        ) as consumer:
            bodies = [one.body.decode() for one in await inbox.take(COUNT)]
            await consumer.commit()
            await asyncio.to_thread(server.restart)
            await send(server.namesrv, name, range(COUNT, 2 * COUNT))
            bodies += [one.body.decode() for one in await inbox.take(COUNT, seconds=60)]
            assert await inbox.rest() == []
    check_order(bodies if orderly else sorted(bodies, key=int))
