"""False slaves, which end with the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from pyromq.broker.server import Broker
from tests.broker.replication.fake_slave import FakeSlave

Attach = Callable[[Broker], Awaitable[FakeSlave]]


@pytest.fixture
async def attach() -> AsyncIterator[Attach]:
    slaves: list[FakeSlave] = []

    async def make(broker: Broker) -> FakeSlave:
        slaves.append(await FakeSlave.connect(broker))
        return slaves[-1]

    yield make
    for slave in slaves:
        await slave.close()
