"""A real cluster for the client's tests: one for all that leave it as it was."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from pyromq.client.send.producer import Producer
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


@pytest.fixture
async def producer(cluster: LocalCluster) -> AsyncIterator[Producer]:
    async with Producer("test-producer", cluster.namesrv) as opened:
        yield opened
