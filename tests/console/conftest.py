"""A cluster for all tests of the console in one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq.testing import LocalCluster


@pytest.fixture(scope="session")
def console_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings={"enablePropertyFilter": "true"}) as cluster:
        yield cluster
