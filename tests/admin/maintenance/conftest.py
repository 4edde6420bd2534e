"""A cluster of its own for each test: settings of its servers are changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq.testing import LocalCluster


@pytest.fixture
def pair() -> Iterator[LocalCluster]:
    with LocalCluster(2) as running:
        yield running
