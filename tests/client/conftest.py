"""A real cluster and a producer for the client's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from pyromq.client.send.producer import Producer
from pyromq.testing import LocalCluster
from tests.shared_cluster import SharedCluster


@pytest.fixture
def cluster(shared_cluster: SharedCluster) -> Iterator[LocalCluster]:
    """A cluster that no other test has changed."""
    with shared_cluster.lend() as running:
        yield running


@pytest.fixture
async def producer(cluster: LocalCluster) -> AsyncIterator[Producer]:
    async with Producer("test-producer", cluster.namesrv) as opened:
        yield opened
