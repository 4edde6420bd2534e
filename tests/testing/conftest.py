"""A cluster for the tests of this folder that leave it as it was, and topics of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq.testing import LocalCluster
from tests.shared_cluster import SharedCluster


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[SharedCluster]:
    cluster = SharedCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def shared(shared_cluster: SharedCluster) -> Iterator[LocalCluster]:
    with shared_cluster.lend() as cluster:
        yield cluster


@pytest.fixture
def topic(pyromq_topic: str) -> str:
    return pyromq_topic
