"""What a test can do to the brokers of a LocalCluster: kill them, stop them, cut them off from each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Message, SendStatus
from pyromq.blocking import AdminClient, Portal, Producer
from pyromq.errors import PyroMQError, RequestTimeout, ServiceNotAvailable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.remoting.client import RemotingClient
from pyromq.testing import LocalCluster, wait_until
from pyromq.testing.cluster import LocalBroker
from tests.broker.helpers import send_header
from tests.broker.replication.test_replication import same_logs, server

SYNC = {"brokerRole": "SYNC_MASTER", "slaveTimeout": 300}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path, settings=SYNC) as cluster:
        wait_until(lambda: server(cluster.brokers[0]).replication.in_sync())
        yield cluster


@pytest.fixture
def producer(pair: LocalCluster) -> Iterator[Producer]:
    with Producer("shop", pair.namesrv, clock=pair.clock, retries=0) as opened:
        opened.send(Message("orders", b"first"))
        yield opened


def abort_mark(pair: LocalCluster) -> Path:
    return pair.brokers[0].store_path / "abort"


def test_a_killed_broker_leaves_its_files_as_they_are_and_starts_again(pair: LocalCluster, producer: Producer) -> None:
    config = pair.brokers[0].store_path / "config"
    before = {path: path.read_bytes() for path in config.iterdir()}
    end = server(pair.brokers[0]).store.max_physical_offset
    pair.kill(0)
    assert abort_mark(pair).exists()
    assert {path: path.read_bytes() for path in config.iterdir()} == before
    with pytest.raises(PyroMQError):
        producer.send(Message("orders", b"nobody is there"), timeout=0.5)
    pair.start_broker(0)
    assert server(pair.brokers[0]).store.max_physical_offset >= end
    wait_until(lambda: server(pair.brokers[0]).replication.in_sync())
    assert producer.send(Message("orders", b"again")).status is SendStatus.SEND_OK


def test_a_stopped_broker_removes_the_mark_that_a_killed_one_leaves(pair: LocalCluster) -> None:
    assert abort_mark(pair).exists()
    pair.stop_broker(0)
    assert not abort_mark(pair).exists()


def test_a_killed_broker_is_not_unregistered_and_its_slave_notices_a_reset(pair: LocalCluster) -> None:
    pair.kill(0)
    with AdminClient(pair.namesrv, clock=pair.clock) as admin:
        wait_until(lambda: not server(pair.slaves[0])._follower.is_connected)
        found = admin.cluster_status()
    assert any("the master of broker-a" in finding or "has no master" in finding for finding in found.findings)


def test_a_paused_broker_answers_nothing_until_it_goes_on(pair: LocalCluster, producer: Producer) -> None:
    pair.pause(0)
    results: list[object] = []
    sender = threading.Thread(
        target=lambda: results.append(producer.send(Message("orders", b"late"), timeout=30.0).status)
    )
    sender.start()
    pair.clock.advance(seconds=2)
    assert results == []
    end = server(pair.brokers[0]).store.max_physical_offset
    pair.resume(0)
    sender.join()
    assert results == [SendStatus.SEND_OK]
    assert server(pair.brokers[0]).store.max_physical_offset > end


def test_no_timer_of_a_paused_broker_fires_and_those_of_others_do(pair: LocalCluster) -> None:
    """Its slave hears no heartbeat, and leaves it after 20 s; its own count of ticks stands still."""
    ticks = server(pair.brokers[0])._ha._ticker.count
    pair.pause(0)
    pair.clock.advance(seconds=30)
    assert server(pair.brokers[0])._ha._ticker.count == ticks
    wait_until(lambda: not server(pair.slaves[0])._follower.is_connected)
    pair.resume(0)
    pair.clock.advance(seconds=5)
    wait_until(lambda: server(pair.slaves[0])._follower.is_connected)


def test_nothing_passes_between_the_two_sides_of_a_partition(pair: LocalCluster, producer: Producer) -> None:
    pair.partition(0, pair.slaves[0])
    assert producer.send(Message("orders", b"here only")).status is SendStatus.FLUSH_SLAVE_TIMEOUT
    assert not same_logs(pair)
    assert server(pair.slaves[0])._follower.is_connected  # the connection is silent, not closed
    pair.heal()
    wait_until(lambda: same_logs(pair))
    assert producer.send(Message("orders", b"both")).status is SendStatus.SEND_OK


def test_a_broker_that_is_cut_off_from_the_name_server_stays_there_for_two_minutes(pair: LocalCluster) -> None:
    pair.partition([0, pair.slaves[0]], "namesrv")
    with AdminClient(pair.namesrv, clock=pair.clock) as admin:
        assert len(admin.cluster_status().brokers) == 2
        pair.clock.advance(minutes=3)
        assert admin.cluster_status().brokers == ()
        pair.heal()
        pair.clock.advance(seconds=40)
        wait_until(lambda: len(admin.cluster_status().brokers) == 2)


def test_an_old_sync_master_that_is_cut_off_gives_no_send_ok_after_a_promotion_by_force(
    pair: LocalCluster, producer: Producer
) -> None:
    """Clients still reach it; its slave, which stopped to confirm, is master on the other side."""
    master, slave = pair.brokers[0], pair.slaves[0]
    pair.partition([master], [slave, "namesrv"])
    with AdminClient(pair.namesrv, clock=pair.clock) as admin:
        asked = threading.Thread(target=lambda: pair.clock.advance(seconds=10))
        asked.start()
        done = admin.promote("broker-a", force=True)
        asked.join()
    assert (done.is_forced, done.old_master_told) == (True, False)
    assert server(slave).is_master
    assert server(master).is_master
    codes = {Portal.shared().call(sent_to(pair, master)) for _ in range(3)}
    assert codes <= {ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE}
    pair.heal()
    pair.clock.advance(seconds=5)
    wait_until(lambda: not server(master).is_master)
    wait_until(lambda: server(slave).replication.in_sync() == ["1"])
    wait_until(lambda: same_logs(pair))


async def sent_to(pair: LocalCluster, broker: LocalBroker) -> int:
    """Send to a broker, whatever the route says, and return the code of its answer."""
    command = request(RequestCode.SEND_MESSAGE_V2, send_header("orders"), b"to the old one")
    async with RemotingClient(pair.clock) as remoting:
        return (await remoting.request(broker.address, command, 10.0)).code


def test_a_send_whose_answer_is_lost_is_stored_and_the_producer_does_not_know() -> None:
    with LocalCluster() as cluster, Producer("shop", cluster.namesrv, retries=0, send_timeout=30) as producer:
        producer.send("orders", "first")
        cluster.drop_answers(count=1)
        with pytest.raises(RequestTimeout):
            producer.send("orders", "lost", timeout=0.2)
        producer.send("orders", "next")
        cluster.expect_blocking("orders", count=3)


def test_a_producer_survives_a_cut_connection() -> None:
    with LocalCluster() as cluster, Producer("shop", cluster.namesrv) as producer:
        for body in ("one", "two"):
            producer.send("orders", body)
            cluster.cut_connections()
        producer.send("orders", "three")
        bodies = {message.body for message in cluster.messages_blocking("orders")}
        assert bodies == {b"one", b"two", b"three"}


def test_a_full_disk_refuses_messages_until_it_has_room() -> None:
    with LocalCluster() as cluster, Producer("shop", cluster.namesrv, retries=0) as producer:
        producer.send("orders", "first")
        with cluster.full_disk(), pytest.raises(ServiceNotAvailable, match="the disk is 100% full"):
            producer.send("orders", "refused")
        producer.send("orders", "second")
        cluster.expect_blocking("orders", count=2)


def test_sends_wait_for_a_slow_disk() -> None:
    with (
        LocalCluster(settings={"flushDiskType": "SYNC_FLUSH"}) as cluster,
        Producer("shop", cluster.namesrv, send_timeout=30) as producer,
    ):
        producer.send("orders", "first")
        begun = time.monotonic()
        with cluster.slow_disk(seconds=0.2):
            producer.send("orders", "second")
        assert time.monotonic() - begun >= 0.2


def test_a_broker_that_is_not_running_has_no_disk() -> None:
    with LocalCluster() as cluster:
        cluster.stop_broker()
        with pytest.raises(RuntimeError, match="broker broker-a/0 is not running"), cluster.slow_disk(seconds=1):
            pass
        with pytest.raises(RuntimeError, match="broker broker-a/0 is not running"), cluster.full_disk():
            pass
        cluster.start_broker()
        with cluster.full_disk():
            cluster.kill()
