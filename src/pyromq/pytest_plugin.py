"""The pytest plugin: fixtures for tests that need a cluster, and the option that names a real one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from pyromq import testing

_MARKER = "pyromq(brokers=1, slaves=0, settings=None): what the cluster of this test is like"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--pyromq-namesrv`."""
    parser.getgroup("pyromq").addoption(
        "--pyromq-namesrv",
        metavar="ADDRESS",
        help="the name servers of a real cluster for the fixture pyromq_cluster; default: one of its own for each test",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def pyromq_cluster(request: pytest.FixtureRequest) -> Iterator[testing.LocalCluster | testing.RemoteCluster]:
    """A name server and a broker for this test alone, on free ports, with a temporary directory.

    `@pytest.mark.pyromq(brokers=2, settings={…})` has the options of LocalCluster. With `--pyromq-namesrv` it is that
    real cluster; a test that needs more than a real cluster can do is skipped.
    """
    marker = request.node.get_closest_marker("pyromq")
    options = {} if marker is None else marker.kwargs
    address = request.config.getoption("--pyromq-namesrv")
    if address is None:
        with testing.LocalCluster(**options) as cluster:
            yield cluster
        return
    if options:
        pytest.skip(f"a real cluster is as it is: {', '.join(options)} cannot be chosen")
    with testing.RemoteCluster(address, refuse=pytest.skip) as real:
        yield real


@pytest.fixture
def pyromq_topic() -> str:
    """The name of a topic that nobody else uses, on a real cluster too; the first message creates it."""
    return f"test-{uuid4().hex[:12]}"
