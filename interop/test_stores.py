"""One store directory, written by Apache's broker and ours in turn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.contents import Contents, contents, fill, numbers_in
from interop.peer import Peer
from interop.servers import Broker, Kind, NameServer, free_port
from interop.toolkit import Toolkit
from pyromq.client.net.calls.broker_api import BrokerApi

TOPIC = "exchanged"
GROUP = "half-way"
FEW = 3_000
MANY = 100_000


@pytest.fixture(scope="module")
def namesrv(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Our name server, for Apache's broker too."""
    with NameServer("pyromq", toolkit, tmp_path_factory.mktemp("namesrv")) as server:
        yield server.address


class Exchange:
    """A directory, the address of its brokers, and what it is known to hold."""

    def __init__(self, toolkit: Toolkit, directory: Path, namesrv: str, java: Peer) -> None:
        self._toolkit = toolkit
        self._directory = directory
        self._namesrv = namesrv
        self._java = java
        self._port = free_port()  # the same for all brokers: messages contain the address of the storing one
        self._known: Contents = {}
        self._written = 0
        self._killed = False

    async def turn(self, kind: Kind, count: int, *, kill: bool = False) -> None:
        """Open the store with one kind of broker, check its contents, write more, and stop the broker."""
        with Broker(kind, self._toolkit, self._directory, self._namesrv, port=self._port) as broker:
            if self._known:
                await self._check(broker)
            await fill(self._namesrv, TOPIC, range(self._written, self._written + count))
            self._written += count
            await self._commit(broker)
            self._known = await contents(self._namesrv, broker.address, TOPIC)
            assert numbers_in(self._known) == list(range(self._written))
            self._killed = kill
            if kill:
                broker.kill()

    async def read_by(self, kind: Kind) -> None:
        """Open the store for reading only."""
        with Broker(kind, self._toolkit, self._directory, self._namesrv, port=self._port) as broker:
            await self._check(broker)
            read = self._java.call("Pulls.count", namesrv=self._namesrv, topic=TOPIC)
            assert read == [self._written, self._written]

    def verify(self) -> None:
        """Verify every record, queue entry and index entry with our checker."""
        command = [sys.executable, "-m", "pyromq.cli.main", "store", "verify", str(self._directory / "store")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    async def _check(self, broker: Broker) -> None:
        assert await contents(self._namesrv, broker.address, TOPIC) == self._known
        async with await BrokerApi.connect(self._namesrv) as api:
            for number in range(0, self._written, max(1, self._written // 50)):
                found = await api.query(broker.address, TOPIC, f"k-{number}")
                assert [one.properties["number"] for one in found] == [str(number)]
            for topic, queue_id in self._known:
                half = self._known[topic, queue_id].max_offset // 2
                committed = await api.query_offset(broker.address, GROUP, topic, queue_id)
                # Both kinds save offsets every 5 s, so a killed broker may have lost the last ones.
                assert committed == half or (self._killed and committed is not None and committed < half)

    async def _commit(self, broker: Broker) -> None:
        """Commit half of each queue."""
        async with await BrokerApi.connect(self._namesrv) as api:
            for queue_id in range(4):
                half = await api.max_offset(broker.address, TOPIC, queue_id) // 2
                await api.commit_offset(broker.address, GROUP, TOPIC, queue_id, half)


@pytest.fixture
def exchange(toolkit: Toolkit, tmp_path: Path, namesrv: str, java: Peer) -> Exchange:
    return Exchange(toolkit, tmp_path, namesrv, java)


@pytest.mark.parametrize("kinds", [("apache", "pyromq"), ("pyromq", "apache")], ids="-then-".join)
async def test_a_store_goes_there_and_back_after_clean_stops(exchange: Exchange, kinds: tuple[Kind, Kind]) -> None:
    for kind in (*kinds, kinds[0]):
        await exchange.turn(kind, FEW)
        exchange.verify()
    await exchange.read_by(kinds[1])


@pytest.mark.parametrize("kinds", [("apache", "pyromq"), ("pyromq", "apache")], ids="-then-".join)
async def test_a_store_goes_there_and_back_after_kills(exchange: Exchange, kinds: tuple[Kind, Kind]) -> None:
    for kind in (*kinds, kinds[0]):
        await exchange.turn(kind, FEW, kill=True)
    await exchange.read_by(kinds[1])
    exchange.verify()
    await exchange.read_by(kinds[0])


@pytest.mark.timeout(600)
async def test_300_000_messages_in_one_directory_are_read_by_both(exchange: Exchange) -> None:
    await exchange.turn("apache", MANY)
    await exchange.turn("pyromq", MANY, kill=True)
    await exchange.turn("apache", MANY)
    await exchange.read_by("pyromq")
    exchange.verify()
    await exchange.read_by("apache")
