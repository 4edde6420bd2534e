"""Fixtures for the tests against Apache's own software: servers and clients, started once for all tests."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.network import leave_the_network
from interop.peer import Peer
from interop.servers import Broker, Kind, NameServer
from interop.toolkit import Missing, Toolkit, prepare

_numbers = itertools.count()

_AREAS = {
    "test_java_": "Apache's client",
    "test_python_": "our client",
    "test_transactions": "our transactions",
    "test_mixed": "both clients together",
    "test_compression": "both clients together",
    "test_restarts.py::test_java": "Apache's client",
    "test_restarts": "our client",
    "test_mqadmin": "mqadmin",
    "test_commands": "our commands",
    "test_console": "our console",
    "test_stores": "stores exchanged",
    "test_unfinished": "stores exchanged",
    "test_traces": "traces",
    "test_groups": "groups",
    "test_acl_servers": "mqadmin and Java under our access control",
    "test_tls_servers": "mqadmin and Java over TLS",
    "test_acl": "our client under access control",
    "test_slaves": "our Spark source",
    "test_replication": "replication",
    "test_joining": "replication",
    "test_old_queues.py::test_where_java": "Apache's client",
    "test_old_queues.py::test_java": "Apache's client",
    "test_old_queues": "our client",
}
_SERVERS = {"pyromq": "our servers", "apache": "Apache's servers"}
_areas: dict[str, str] = {}
"""How each test, by its id, is counted."""
_remarks: list[str] = []
"""Further closing lines."""


class Cluster(NamedTuple):
    """A name server and a broker, both of one kind."""

    kind: Kind
    namesrv: str
    broker: str


@pytest.fixture(scope="session")
def toolkit() -> Toolkit:
    try:
        made = prepare()
    except Missing as reason:
        pytest.skip(str(reason))
    if (exposed := leave_the_network()) is not None:
        _remarks.append(exposed)
    return made


@pytest.fixture(scope="session")
def pyromq(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with _cluster("pyromq", toolkit, tmp_path_factory.mktemp("pyromq")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def apache(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with _cluster("apache", toolkit, tmp_path_factory.mktemp("apache")) as cluster:
        yield cluster


@pytest.fixture(params=["pyromq", "apache"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each kind in turn: what holds on ours must hold on the original, else the scenario itself is wrong."""
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def java(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Apache's client with its default settings."""
    with Peer(toolkit, tmp_path_factory.mktemp("java")) as peer:
        yield peer


@pytest.fixture
def name() -> str:
    """A name that no other test uses, for topics and groups."""
    return f"interop-{next(_numbers)}"


@contextmanager
def _cluster(kind: Kind, toolkit: Toolkit, directory: Path) -> Iterator[Cluster]:
    with (
        NameServer(kind, toolkit, directory / "namesrv") as namesrv,
        Broker(kind, toolkit, directory, namesrv.address) as broker,
    ):
        yield Cluster(kind, namesrv.address, broker.address)


# --- the closing lines -----------------------------------------------------------------------------------------------


def pytest_collection_finish(session: pytest.Session) -> None:
    """Record what each test shows, and on whose servers."""
    for item in session.items:
        if isinstance(item, pytest.Function):
            area = next(area for start, area in _AREAS.items() if f"{item.path.name}::{item.name}".startswith(start))
            kind = item.callspec.params.get("cluster") if hasattr(item, "callspec") else None
            _areas[item.nodeid] = f"{area} on {_SERVERS[str(kind)]}" if kind else area


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many scenarios passed in each direction, and why any were skipped."""
    passed = Counter(_areas[report.nodeid] for report in terminalreporter.getreports("passed") if report.when == "call")
    for area, count in Counter(_areas.values()).items():
        terminalreporter.write_line(f"{area}: {passed[area]} of {count} passed")
    for reason in {report.longrepr[2] for report in terminalreporter.getreports("skipped")}:
        terminalreporter.write_line(str(reason))
    for remark in _remarks:
        terminalreporter.write_line(remark)
