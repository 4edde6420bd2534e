"""Where etcd is: the forms of `failover`."""

from __future__ import annotations

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.config.etcd_address import parse_endpoints
from pyromq.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("etcd://one:2379", ("one:2379",)),
        ("etcd://one:1,two:2,three", ("one:1", "two:2", "three:2379")),
        ("etcd://one:2379/", ("one:2379",)),
        ("etcd://[::1]:2379,[::1]", ("[::1]:2379", "[::1]:2379")),
    ],
)
def test_endpoints(text: str, endpoints: tuple[str, ...]) -> None:
    assert parse_endpoints(text) == endpoints


@pytest.mark.parametrize(
    "text", ["etcd://", "one:2379", "etcd://one:port", "etcd://one:0", "etcd://u:p@one:1", "etcd://a/b"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="failover"):
        parse_endpoints(text)


SET = {"failover": "etcd://one:2379", "brokerId": "1", "brokerRole": "SYNC_MASTER"}


def test_failover_starts_as_a_slave() -> None:
    config = broker_config(SET)
    assert config.is_slave
    assert config.etcd.scheme == "http"
    assert broker_config({**SET, "failoverCaFile": "/ca.pem"}).etcd.scheme == "https"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"brokerId": "0"}, "brokerId"),
        ({"brokerRole": "SLAVE"}, "SYNC_MASTER"),
        ({"brokerRole": "ASYNC_MASTER"}, "failoverMayLose"),
        ({"failover": "zookeeper://one"}, "etcd://"),
    ],
)
def test_what_would_lose_messages_is_refused(changed: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        broker_config({**SET, **changed})


def test_losing_messages_can_be_allowed() -> None:
    assert broker_config({**SET, "brokerRole": "ASYNC_MASTER", "failoverMayLose": "true"}).failover_may_lose
