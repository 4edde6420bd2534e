"""A master and its slave, and requests to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.command import RemotingCommand, request
from pyromq.remoting.client import RemotingClient
from pyromq.testing import LocalCluster, wait_until
from pyromq.testing.cluster import LocalBroker
from tests.broker.replication.test_replication import same_logs, send, server


class Pair:
    """A cluster of one master and one slave, which follows."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.master, self.slave = cluster.brokers[0], cluster.slaves[0]

    def run(self, work: Callable[[], object]) -> None:
        """Do something on the brokers' loop."""

        async def run() -> None:
            work()

        self.cluster._portal.call(run())

    def ask(
        self, broker: LocalBroker, code: int, header: Any = None, body: bytes = b"", seconds: float = 30.0
    ) -> RemotingCommand:
        """Send a request to a broker and return its answer."""

        async def ask() -> RemotingCommand:
            async with RemotingClient(self.cluster.clock) as remoting:
                return await remoting.request(broker.address, request(code, header, body), seconds)

        return self.cluster._portal.call(ask())

    def wait_until_tables_follow(self) -> None:
        """Wait until the slave has met its master and waits for changes."""
        wait_until(lambda: server(self.master).service.parts.followers.are_there)

    def hand_over(self) -> None:
        """Stop the master as a crash would seem to the slave, and promote that."""
        self.cluster.stop_broker(self.master)
        self.cluster.promote(self.slave)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Pair]:
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        send(cluster, b"one")
        wait_until(lambda: same_logs(cluster))
        pair = Pair(cluster)
        pair.wait_until_tables_follow()
        yield pair
