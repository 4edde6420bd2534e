"""Damage in one broker's log is healed from the other's copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pyromq.broker.replication.rescue import healing
from pyromq.testing import LocalCluster, wait_until
from pyromq.testing.cluster import LocalBroker
from tests.broker.replication.test_replication import log_of, same_logs, send, server
from tests.store.helpers import bodies

FILE_SIZE = 1 << 16
SETTINGS = {"mappedFileSizeCommitLog": FILE_SIZE, "maxMessageSize": 30_000, "defaultTopicQueueNums": 1}
TEXTS = [Random(number).randbytes(9_000) for number in range(20)]  # three files


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path / "data", settings=SETTINGS) as cluster:
        send(cluster, *TEXTS)
        wait_until(lambda: same_logs(cluster))
        yield cluster


def flip(broker: LocalBroker, place: int) -> None:
    """Change a byte of a closed file of the log, as a bad disk does."""
    path = sorted((broker.store_path / "commitlog").iterdir())[place // FILE_SIZE]
    data = bytearray(path.read_bytes())
    data[place % FILE_SIZE] ^= 0x40
    path.write_bytes(data)


def read(cluster: LocalCluster, broker: LocalBroker) -> list[bytes]:
    async def call() -> list[bytes]:
        return bodies(server(broker).store)

    return cluster._portal.call(call())


def damage(cluster: LocalCluster, broker: LocalBroker) -> None:
    """Stop a broker, damage two messages in its log, and start it again."""
    cluster.stop_broker(broker)
    for place in (12_000, FILE_SIZE + 20_000):
        flip(broker, place)
    cluster.start_broker(broker)


@pytest.mark.parametrize("side", ["slave", "master"])
def test_damaged_messages_are_served_again(pair: LocalCluster, side: str, caplog: pytest.LogCaptureFixture) -> None:
    broker = pair.slaves[0] if side == "slave" else pair.brokers[0]
    damage(pair, broker)
    assert len(read(pair, broker)) == len(TEXTS) - 2
    assert len(server(broker).store.fences) == 2
    wait_until(lambda: server(pair.slaves[0])._follower.is_connected)
    wait_until(lambda: bool(server(pair.brokers[0])._ha.same_logs(log_end(pair))))
    pair.clock.advance(seconds=healing.PERIOD)
    wait_until(lambda: not server(broker).store.fences)
    assert read(pair, broker) == TEXTS
    assert log_of(pair.brokers[0]) == log_of(pair.slaves[0])
    assert caplog.text.count("healed a damaged stretch of the log") == 2


def test_what_is_damaged_on_both_sides_stays_fenced_and_is_said_once(
    pair: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    slave = pair.slaves[0]
    flip(pair.brokers[0], 12_000)
    damage(pair, slave)
    read(pair, slave)
    wait_until(lambda: server(slave)._follower.is_connected)
    for _ in range(3):
        pair.clock.advance(seconds=70)
        wait_until(lambda: server(slave)._follower.is_connected)
    wait_until(lambda: len(server(slave).store.fences) == 1)
    assert caplog.text.count("a damaged stretch cannot be healed") == 1
    assert len(read(pair, slave)) == len(TEXTS) - 1


def log_end(cluster: LocalCluster) -> int:
    return server(cluster.brokers[0]).store.max_physical_offset
