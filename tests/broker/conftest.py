"""Real brokers on free ports, with a clock that the test moves, and peers that talk to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.store.files import OsFiles
from pyromq.testing import TestClock
from tests.broker.helpers import PATIENT, Peer
from tests.broker.transactions.transaction_peer import GROUP, TransactionPeer

StartBroker = Callable[..., Awaitable[Broker]]
Connect = Callable[[Broker], Awaitable[Peer]]
Join = Callable[..., Awaitable[TransactionPeer]]


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
async def start_broker(clock: TestClock, tmp_path: Path) -> AsyncIterator[StartBroker]:
    """Start brokers with settings by RocketMQ's keys; they stop when the test ends."""
    async with AsyncExitStack() as stack:

        async def start(files: OsFiles | None = None, **settings: Any) -> Broker:
            values = PATIENT | {"listenPort": "0", "storePathRootDir": str(tmp_path / "store")}
            values |= {key: str(value) for key, value in settings.items()}
            return await stack.enter_async_context(Broker(broker_config(values), clock, files))

        yield start


@pytest.fixture
async def broker(start_broker: StartBroker) -> Broker:
    return await start_broker()


@pytest.fixture
async def connect(clock: TestClock) -> AsyncIterator[Connect]:
    """Make peers of brokers, each with a connection of its own."""
    peers: list[Peer] = []

    async def make(broker: Broker) -> Peer:
        peers.append(Peer(broker.address, clock))
        return peers[-1]

    yield make
    for peer in peers:
        await peer.remoting.close()


@pytest.fixture
async def peer(broker: Broker, connect: Connect) -> Peer:
    return await connect(broker)


@pytest.fixture
async def join(clock: TestClock) -> AsyncIterator[Join]:
    """Make producers of transactions that a broker knows, each with a connection of its own."""
    peers: list[TransactionPeer] = []

    async def make(broker: Broker, group: str = GROUP) -> TransactionPeer:
        peers.append(TransactionPeer(broker, clock, group))
        await peers[-1].enter()
        return peers[-1]

    yield make
    for peer in peers:
        await peer.remoting.close()
