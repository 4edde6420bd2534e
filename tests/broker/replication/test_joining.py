"""An empty slave joins a master that is under load and deletes its oldest files; then the master's disk is gone.

`interop/test_joining.py` does the same with processes, and with Apache's broker on either side.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from random import Random

from pyromq import Message, SendStatus
from pyromq.blocking import Producer
from pyromq.testing import LocalCluster, wait_until
from tests.broker.replication.test_replication import expire, log_of, same_logs, send, server

FILE_SIZE = 1 << 16


def test_nothing_acknowledged_is_lost_with_the_disk_of_a_master_that_an_empty_slave_has_joined(tmp_path: Path) -> None:
    settings = {"mappedFileSizeCommitLog": FILE_SIZE, "maxMessageSize": 30_000, "brokerRole": "SYNC_MASTER"}
    with LocalCluster(slaves=1, data=tmp_path, settings=settings) as cluster:
        master, slave = cluster.brokers[0], cluster.slaves[0]
        cluster.stop_broker(slave)
        shutil.rmtree(slave.store_path)
        send(cluster, *(Random(number).randbytes(20_000) for number in range(16)))
        assert server(master).store.max_physical_offset > 5 * FILE_SIZE
        over, acknowledged = threading.Event(), set[bytes]()

        def send_on() -> None:
            with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
                while not over.is_set():
                    body = f"load {len(acknowledged)}".encode().ljust(2_000)
                    if producer.send(Message("orders", body)).status is SendStatus.SEND_OK:
                        acknowledged.add(body)

        load = threading.Thread(target=send_on)
        load.start()
        try:
            cluster.start_broker(slave)
            expire(cluster, 2 * FILE_SIZE)
            wait_until(lambda: len(acknowledged) > 20)
        finally:
            over.set()
            load.join()
        wait_until(lambda: same_logs(cluster) or _is_level_from_its_start(cluster))
        cluster.kill(master)
        shutil.rmtree(master.store_path)
        cluster.promote(slave)
        log = log_of(slave)
        assert [body for body in acknowledged if body not in log] == []
        assert server(slave).store.min_physical_offset <= 2 * FILE_SIZE


def _is_level_from_its_start(cluster: LocalCluster) -> bool:
    """The slave may have been given files that the master deleted a moment later."""
    master, slave = (server(broker).store for broker in (cluster.brokers[0], cluster.slaves[0]))
    older = master.min_physical_offset - slave.min_physical_offset
    return older > 0 and log_of(cluster.slaves[0])[older:] == log_of(cluster.brokers[0])
