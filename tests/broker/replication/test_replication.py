"""A master and its slave, as real brokers over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.blocking import Producer
from pyromq.broker.server import Broker
from pyromq.testing import LocalCluster, wait_until
from pyromq.testing.cluster import LocalBroker


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        yield cluster


def server(broker: LocalBroker) -> Broker:
    assert broker.server is not None
    return broker.server


def log_of(broker: LocalBroker) -> bytes:
    log = server(broker).store.log_bytes
    data, position = b"", log.start
    while position < log.end:
        block = log.read(position, 1 << 20)
        data, position = data + block, position + len(block)
    return data


def send(cluster: LocalCluster, *bodies: bytes, topic: str = "orders") -> None:
    with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        for body in bodies:
            producer.send(Message(topic, body))


def same_logs(cluster: LocalCluster) -> bool:
    one, other = cluster.brokers[0], cluster.slaves[0]
    return bool(server(one).store.max_physical_offset) and log_of(one) == log_of(other)


def test_a_slave_gets_the_log_byte_for_byte(pair: LocalCluster) -> None:
    send(pair, b"one", b"two", b"three")
    wait_until(lambda: same_logs(pair))
    store = server(pair.slaves[0]).store
    assert sum(store.max_offset("orders", queue) for queue in store.queue_ids("orders")) == 3
