"""The pytest plugin: fixtures for tests that need a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq import testing


@pytest.fixture
def pyromq_cluster() -> Iterator[testing.LocalCluster]:
    """Give a name server and a broker of the test's own, on free ports and a temporary directory."""
    with testing.LocalCluster() as cluster:
        yield cluster
