"""A cluster for the tests of this directory, and messages in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq import Message, blocking
from pyromq.blocking import Portal
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import LocalCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def producer(cluster: LocalCluster) -> Iterator[blocking.Producer]:
    with blocking.Producer(group="pipeline-tests", namesrv=cluster.namesrv) as producer:
        yield producer


def make_topic(cluster: LocalCluster, topic: str, queues: int) -> None:
    """Create a topic with the given number of queues."""

    async def make() -> None:
        async with await BrokerApi.connect(cluster.namesrv) as api:
            for broker in (await api.cluster_info()).broker_addr_table.values():
                await api.create_topic(broker.broker_addrs[0], topic, queues)

    Portal.shared().call(make())


def numbered(topic: str, numbers: range, keys: int = 7) -> list[Message]:
    """Return messages with a number each, and one of some keys."""
    return [
        Message(
            topic=topic,
            body=b'{"number": %d, "cents": %d}' % (number, number * 10),
            tags="even" if number % 2 == 0 else "odd",
            keys=[f"k{number % keys}", f"n{number}"],
            properties={"color": "blue"},
            flag=number,
        )
        for number in numbers
    ]
