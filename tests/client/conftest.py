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
    # Patient: on a machine that is busy with other tests even a connection may take seconds.
    async with Producer("test-producer", cluster.namesrv, send_timeout=30.0) as opened:
        yield opened
