"""Masters and slaves as an operator sees them and changes them, on real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.blocking import AdminClient, Producer
from pyromq.errors import BrokerError, ClientError
from pyromq.protocol.bodies import KVTable, encode
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler
from pyromq.remoting.server import RemotingServer
from pyromq.testing import LocalCluster, wait_until
from tests.broker.replication.test_replication import server
from tests.client.helpers import register_broker


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path, settings={"brokerRole": "SYNC_MASTER"}) as running:
        wait_until(lambda: server(running.brokers[0]).replication.in_sync())
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(cluster.namesrv, clock=cluster.clock) as opened:
        yield opened


def test_the_status_of_a_pair_that_is_well(cluster: LocalCluster, admin: AdminClient) -> None:
    with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        producer.send(Message("orders", b"one"))
    end = server(cluster.brokers[0]).store.max_physical_offset
    wait_until(lambda: server(cluster.slaves[0]).store.max_physical_offset == end)
    found = admin.cluster_status()
    assert found.findings == ()
    master, slave = found.brokers
    assert (master.name, master.broker_id, master.address) == ("broker-a", 0, cluster.brokers[0].address)
    assert (master.role, master.epoch, master.in_sync, master.max_offset) == ("SYNC_MASTER", 1, ("1",), end)
    assert master.version.startswith("PyroMQ ")
    assert master.lag_bytes is None
    assert (slave.role, slave.broker_id, slave.epoch) == ("SLAVE", 1, 1)
    assert (slave.lag_bytes, slave.lag_seconds, slave.share) == (0, 0.0, 1.0)
    assert slave.follows is not None
    assert (slave.follows.is_connected, slave.follows.master) == (True, cluster.brokers[0].address)


def test_what_a_broker_says_of_itself_is_among_the_findings(cluster: LocalCluster, admin: AdminClient) -> None:
    master = server(cluster.brokers[0])
    aside = master.config.store.root / "quarantine"
    aside.mkdir()
    (aside / "00000000000000000000.0").write_bytes(b"x")
    cluster.clock.advance(seconds=61)
    found = admin.cluster_status()
    assert [problem.cause for problem in found.brokers[0].problems] == ["quarantined_data"]
    (finding,) = found.findings
    assert finding.startswith(f"the master of broker-a at {master.address}: 1 files are in {aside}")
    assert finding.endswith("look at them, then remove them")


def test_a_name_without_a_master_is_the_first_thing_said(cluster: LocalCluster, admin: AdminClient) -> None:
    cluster.stop_broker(cluster.brokers[0])
    cluster.clock.advance(seconds=2)
    wait_until(lambda: len(admin.cluster_status().findings) == 2)
    first, second = admin.cluster_status().findings
    assert first == "broker-a has no master: it takes no messages"
    assert second.startswith("slave 1 of broker-a follows nobody: ")


def test_a_sync_master_without_a_slave_is_reported(cluster: LocalCluster, admin: AdminClient) -> None:
    cluster.stop_broker(cluster.slaves[0])
    wait_until(lambda: admin.cluster_status().findings)
    assert "no slave is in sync: sends are answered SLAVE_NOT_AVAILABLE" in admin.cluster_status().findings[0]


def test_a_slave_far_behind_is_shown_with_what_it_has(cluster: LocalCluster, admin: AdminClient) -> None:
    cluster._portal.call(server(cluster.slaves[0])._follower.stop())
    with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        for _ in range(3):
            producer.send(Message("orders", bytes(1_000)))
    cluster.clock.advance(seconds=20)
    slave = admin.cluster_status("broker-a").brokers[1]
    end = server(cluster.brokers[0]).store.max_physical_offset
    assert slave.lag_bytes == end
    assert slave.lag_seconds is not None
    assert slave.lag_seconds >= 20
    assert slave.share == 0.0


def test_two_masters_of_one_name_are_reported_with_their_epochs(cluster: LocalCluster, admin: AdminClient) -> None:
    """The name servers know the later epoch as master, and the other broker under the id that it had."""
    cluster.promote(cluster.slaves[0])
    cluster._portal.call(register_as_slave(cluster))
    assert any("broker-a has 2 masters: " in finding for finding in admin.cluster_status().findings)


async def register_as_slave(cluster: LocalCluster) -> None:
    registration = server(cluster.brokers[0]).service.registration
    registration.broker_id = 7
    await registration.register_everywhere()


def test_promotion_takes_the_slave_with_the_longest_log(tmp_path: Path) -> None:
    with LocalCluster(slaves=3, data=tmp_path) as running:
        wait_until(lambda: len(server(running.brokers[0]).replication.in_sync()) == 3)
        for slave in (running.slaves[0], running.slaves[2]):
            running._portal.call(server(slave)._follower.stop())
        with Producer("shop", running.namesrv, clock=running.clock) as producer:
            producer.send(Message("orders", b"one"))
        end = server(running.brokers[0]).store.max_physical_offset
        wait_until(lambda: server(running.slaves[1]).store.max_physical_offset == end)
        with AdminClient(running.namesrv, clock=running.clock) as opened:
            assert opened.plan_promotion("broker-a").successor.broker_id == 2
            assert opened.plan_promotion("broker-a", 3).successor.broker_id == 3
            done = opened.promote("broker-a")
            assert (done.epoch, done.role, done.is_forced) == (2, "ASYNC_MASTER", False)
            assert server(running.slaves[1]).is_master


def test_the_last_failover_is_shown_with_its_time(cluster: LocalCluster, admin: AdminClient) -> None:
    done = admin.promote("broker-a")
    master = next(one for one in admin.cluster_status().brokers if one.is_master)
    assert master.last_failover is not None
    assert (master.last_failover.how, master.last_failover.took_ms) == ("handover", done.took_ms)
    assert abs(master.last_failover.at_ms - cluster.clock.now_ms()) < 60_000


def test_a_dead_master_takes_force(cluster: LocalCluster, admin: AdminClient) -> None:
    cluster.stop_broker(cluster.brokers[0])
    with pytest.raises(BrokerError, match="is lost if it becomes master by force"):
        admin.promote("broker-a")
    assert admin.promote("broker-a", force=True).is_forced


def test_what_cannot_be_promoted_is_said(cluster: LocalCluster, admin: AdminClient) -> None:
    with pytest.raises(ClientError, match="no name server knows a broker 'broker-c'; did you mean broker-a"):
        admin.promote("broker-c")
    with pytest.raises(ClientError, match="broker-a has no slave with the id 4"):
        admin.promote("broker-a", 4)
    cluster.stop_broker(cluster.slaves[0])
    with pytest.raises(ClientError, match="broker-a has no slave that the name servers know"):
        admin.promote("broker-a")


def test_apaches_broker_is_shown_with_what_it_says(cluster: LocalCluster, admin: AdminClient) -> None:
    told = {"brokerVersionDesc": "V4_9_7", "commitLogMinOffset": "100", "commitLogMaxOffset": "900"}

    def runtime_info(request: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(request, body=encode(KVTable(table=told)))

    async def start() -> RemotingServer:
        handlers: dict[int, Handler] = {RequestCode.GET_BROKER_RUNTIME_INFO: runtime_info}
        return await RemotingServer(handlers, host="127.0.0.1", port=0, clock=cluster.clock).__aenter__()

    apaches = cluster._portal.call(start())
    admin._portal.call(register_broker(admin._client.api, "other", f"127.0.0.1:{apaches.port}"))
    (shown,) = admin.cluster_status("other").brokers
    cluster._portal.call(apaches.close())
    assert (shown.role, shown.version, shown.min_offset, shown.max_offset) == ("MASTER", "V4_9_7", 100, 900)
    assert (shown.epoch, shown.share) == (None, None)
