"""What a broker says about its log: to others, and as figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.blocking import Producer
from pyromq.broker.server import Broker
from pyromq.testing import LocalCluster, wait_until
from tests.broker.conftest import StartBroker
from tests.broker.replication.conftest import Attach
from tests.broker.replication.test_replication import server


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path, settings={"brokerRole": "SYNC_MASTER"}) as cluster:
        wait_until(lambda: server(cluster.brokers[0]).replication.in_sync())
        yield cluster


def figures(broker: Broker) -> dict[str, object]:
    return broker.http_info()


def test_a_master_shows_its_slaves_and_a_slave_how_much_of_the_log_it_has(pair: LocalCluster) -> None:
    master, slave = figures(server(pair.brokers[0])), figures(server(pair.slaves[0]))
    assert (master["role"], master["epoch"], master["slaves_connected"]) == ("SYNC_MASTER", 1, 1)
    assert (master["in_sync"], master["in_sync_count"], master["slave_lag_bytes"]) == (["1"], 1, {"1": 0})
    assert master["slave_lag_seconds"] == {"1": 0.0}
    assert (slave["role"], slave["replication_log_share"], slave["replication_lag_seconds"]) == ("SLAVE", 1.0, 0.0)
    assert "slaves_connected" not in slave
    assert master["last_failover_ms"] == 0


def test_a_slave_that_follows_nobody_counts_the_time(pair: LocalCluster) -> None:
    with Producer("shop", pair.namesrv, clock=pair.clock) as producer:
        producer.send(Message("orders", b"one"))
    pair._portal.call(server(pair.slaves[0])._follower.stop())
    pair.clock.advance(seconds=30)
    slave = figures(server(pair.slaves[0]))
    assert slave["replication_connected"] is False
    assert float(str(slave["replication_lag_seconds"])) >= 30


def test_a_promotion_is_a_figure(pair: LocalCluster) -> None:
    done = pair._portal.call(server(pair.slaves[0]).handover.take_over(force=False))
    shown = figures(server(pair.slaves[0]))
    assert (shown["role"], shown["epoch"]) == ("SYNC_MASTER", done.epoch)
    assert shown["last_failover_ms"] != 0


async def test_the_lag_of_a_slave_is_the_age_of_the_oldest_byte_that_it_lacks(
    start_broker: StartBroker, attach: Attach
) -> None:
    broker = await start_broker()
    slave = await attach(broker)
    slave.report(0)
    await slave.has(0)
    server_of = broker._ha
    server_of._marks.clear()
    now = server_of._clock.monotonic()
    server_of._marks.extend([(0, now - 40), (100, now - 20), (200, now - 5)])

    class Log:
        end = 200

    server_of._log = Log()  # type: ignore[assignment]
    (link,) = server_of.links
    for acknowledged, age in ((0, 40), (100, 20), (150, 20), (200, 0)):
        link.acknowledged = acknowledged
        assert server_of.behind_seconds(link) == pytest.approx(age, abs=1.0)
