"""Real clusters for the tests of the operator's client: one broker, or two."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from pyromq.admin import AdminClient
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import LocalCluster

_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    """A group that no other test uses."""
    return f"group-{next(_numbers)}"


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    """Two brokers."""
    with LocalCluster(brokers=2) as running:
        yield running


@pytest.fixture
async def admin(pair: LocalCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(pair.namesrv, clock=pair.clock) as opened:
        yield opened


@pytest.fixture
async def api(pair: LocalCluster) -> AsyncIterator[BrokerApi]:
    async with await BrokerApi.connect(pair.namesrv) as opened:
        yield opened
