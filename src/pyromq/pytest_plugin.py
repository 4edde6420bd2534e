"""The pytest plugin: fixtures for tests that need a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq import testing


@pytest.fixture
def pyromq_cluster() -> Iterator[testing.LocalCluster]:
    """A name server and a broker for this test alone, on free ports, with a temporary directory."""
    with testing.LocalCluster() as cluster:
        yield cluster
