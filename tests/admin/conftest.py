"""Real clusters for the tests of the operator's client: one broker, or two."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from pyromq.admin import AdminClient
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import LocalCluster
from tests.shared_cluster import SharedCluster


@pytest.fixture
def cluster(shared_cluster: SharedCluster) -> Iterator[LocalCluster]:
    """A cluster that no other test has changed."""
    with shared_cluster.lend() as running:
        yield running


@pytest.fixture
def pair(shared_pair: SharedCluster) -> Iterator[LocalCluster]:
    """Two brokers that no other test has changed."""
    with shared_pair.lend() as running:
        yield running


@pytest.fixture
async def admin(pair: LocalCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(pair.namesrv, clock=pair.clock) as opened:
        yield opened


@pytest.fixture
async def api(pair: LocalCluster) -> AsyncIterator[BrokerApi]:
    async with await BrokerApi.connect(pair.namesrv) as opened:
        yield opened
