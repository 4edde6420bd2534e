"""The JSON of masters and slaves."""

from __future__ import annotations

from pyromq.admin import BrokerStatus, ClusterStatus
from pyromq.admin.views.cluster_view import cluster_fields, promotion_fields
from pyromq.protocol.bodies.replication import FollowerState, LastFailover, Promotion

SLAVE = BrokerStatus(
    cluster="c",
    name="broker-a",
    broker_id=1,
    address="h:1",
    role="SLAVE",
    epoch=3,
    max_offset=40,
    lag_bytes=60,
    lag_seconds=1.23456,
    share=0.4,
    follows=FollowerState(master="h:0", is_connected=False, problem="no route"),
    last_failover=LastFailover(at_ms=1_500, took_ms=250, epoch=2, how="forced"),
)


def test_a_slave_is_shown_with_its_lag_its_master_and_its_last_failover() -> None:
    fields = cluster_fields(ClusterStatus(brokers=(SLAVE,), findings=("broker-a has no master",)))
    assert fields["findings"] == ["broker-a has no master"]
    (slave,) = fields["brokers"]
    assert (slave["lag_bytes"], slave["lag_seconds"], slave["share"]) == (60, 1.235, 0.4)
    assert slave["follows"] == {"master": "h:0", "connected": False, "problem": "no route"}
    assert slave["last_failover"] == {
        "at": "1970-01-01T00:00:01.500Z",
        "took_seconds": 0.25,
        "epoch": 2,
        "how": "forced",
    }


def test_a_promotion_is_shown_whole() -> None:
    done = Promotion(
        epoch=2, start=5, role="SYNC_MASTER", took_ms=7, is_forced=False, old_master="h:0", old_master_told=True
    )
    assert promotion_fields(done)["old_master_told"] is True
