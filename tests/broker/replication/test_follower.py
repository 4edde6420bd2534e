"""A slave's side of the stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pyromq.testing import LocalCluster, wait_until
from tests.broker.replication.test_replication import same_logs, send, server


def test_a_slave_whose_connection_broke_within_a_record_gets_that_record_again(tmp_path: Path) -> None:
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        master, slave = server(cluster.brokers[0]), server(cluster.slaves[0])
        send(cluster, b"one")
        wait_until(lambda: same_logs(cluster))
        cluster._portal.call(slave._follower.stop())
        end = slave.store.max_physical_offset
        send(cluster, b"two")

        async def take_half_and_go_on() -> None:
            slave.store.append_raw(end, master.store.copied_log.read(end, 50))
            slave._follower.start()

        cluster._portal.call(take_half_and_go_on())
        wait_until(lambda: same_logs(cluster), seconds=20)


class ClosedTransfers:
    """A connection that its master has closed; what uvloop does with it then."""

    is_closing = True

    def write(self, data: bytes) -> None:
        raise RuntimeError("unable to perform operation, the handler is closed")


def test_nothing_is_reported_on_a_connection_that_is_closed(tmp_path: Path) -> None:
    """The end of the stream may be read later than it is known: what was sent before it is still to be appended."""
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        follower = server(cluster.slaves[0])._follower
        wait_until(lambda: follower.is_connected)

        async def beat() -> None:
            transfers, follower._transfers = follower._transfers, cast(Any, ClosedTransfers())
            try:
                assert follower._heartbeat()
            finally:
                follower._transfers = transfers

        cluster._portal.call(beat())
