"""The setting of Apache's integration tests: a name server, two brokers, topics with 8 queues on each."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from pyromq import Producer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import LocalCluster

QUEUES = 8
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, settings={"enablePropertyFilter": True}) as running:
        yield running


@pytest.fixture
async def topic(cluster: LocalCluster) -> str:
    """A new topic with 8 queues on each of two brokers."""
    return await new_topic(cluster, f"scenario-{next(_numbers)}")


async def new_topic(cluster: LocalCluster, name: str) -> str:
    """Create a topic on all brokers and return its name."""
    async with await BrokerApi.connect(cluster.namesrv) as api:
        for broker in cluster.brokers:
            await api.create_topic(broker.address, name, queues=QUEUES)
    return name


@pytest.fixture
async def producer(cluster: LocalCluster) -> AsyncIterator[Producer]:
    async with Producer("scenarios", cluster.namesrv) as opened:
        yield opened
