"""Commands take their account from the environment and sign every request with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.spark.read.brokers.broker_queues import connect
from pyromq.testing import LocalCluster
from tests.cli.conftest import one_line_error, pyromq_here
from tests.client.signed_requests import SHOP, Requests

VARIABLES = {"PYROMQ_ACCESS_KEY": SHOP.access_key, "PYROMQ_SECRET_KEY": SHOP.secret_key}


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with an account."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


COMMANDS = [
    ("send", "orders", "a body", "--key", "k"),
    ("tail", "orders", "--from", "earliest", "--count", "1"),
    ("tail", "orders", "--from", "earliest", "--count", "1", "--group", "audit"),
    ("topic", "list"),
    ("topic", "describe", "orders"),
    ("group", "list"),
    ("dlq", "list"),
    ("message", "pending"),
    ("transaction", "list"),
    ("bench", "end-to-end", "--duration", "0.2", "--warm-up", "0", "--rate", "50"),
]


@pytest.mark.usefixtures("account")
def test_every_command_signs_what_it_asks(servers: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in COMMANDS:
        requests = Requests(monkeypatch)
        done = pyromq_here(*command, "-n", servers.namesrv)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert requests.accounts()["shop-app"], command


def test_half_an_account_is_one_line(servers: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYROMQ_ACCESS_KEY", raising=False)
    monkeypatch.setenv("PYROMQ_SECRET_KEY", "hunter2")
    done = pyromq_here("topic", "list", "-n", servers.namesrv)
    assert one_line_error(done) == (
        "pyromq: PYROMQ_ACCESS_KEY is not set: an account is PYROMQ_ACCESS_KEY and PYROMQ_SECRET_KEY"
    )


@pytest.mark.usefixtures("account")
def test_pipelines_hand_the_account_to_spark_and_use_it_themselves(servers: LocalCluster) -> None:
    options = cluster(servers.namesrv)
    assert options == {"namesrv": servers.namesrv, "accessKey": SHOP.access_key, "secretKey": SHOP.secret_key}
    assert brokers_of(options) is connect(servers.namesrv, SHOP)


def test_pipelines_without_an_account_sign_nothing(servers: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert cluster(servers.namesrv) == {"namesrv": servers.namesrv}
    assert brokers_of({"namesrv": servers.namesrv}) is connect(servers.namesrv)
