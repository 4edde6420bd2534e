"""Brokers of which only the coordinator is real: they have the roles and the reports that a test gives them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.failover.coordinator import Coordinator, Identity
from pyromq.broker.replication.failover.etcd_state import ClusterView, EtcdAway, Keys, read_view
from pyromq.broker.replication.failover.in_sync_replicas import InSyncReplicas
from pyromq.broker.replication.failover.known_leader import KnownLeader
from pyromq.broker.replication.failover.lease import Lease
from pyromq.broker.replication.introductions import Hello
from pyromq.broker.replication.last_run import LastRun
from pyromq.broker.signals import Signal
from pyromq.errors import StoreError
from pyromq.testing import TestClock
from tests.broker.replication.failover.fake_etcd import FakeEtcd, FakeLeases

KEYS = Keys.of("c", "broker-a")
LEASE = 60


class FakeStore:
    """A log that only has an end."""

    waits_for_flush = False
    failure: StoreError | None = None

    def __init__(self) -> None:
        self.max_physical_offset = 0
        self.confirmed = [0]

    @property
    def confirm_offset(self) -> int:
        return min(self.confirmed[-1], self.max_physical_offset)

    def confirm(self, end: int) -> None:
        self.confirmed.append(end)


class FakeServer:
    """Slaves that report when the test says so."""

    def __init__(self) -> None:
        self.reported_by: Signal[[Any]] = Signal()
        self.left_by: Signal[[Any]] = Signal()


class FakeFollower:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.has_caught_up = False
        self.silent_seconds: float | None = None
        self.alone_seconds: float | None = None
        self.lost: Signal[[]] = Signal()
        self.moves = 0

    async def follow_another(self) -> None:
        self.moves += 1


class FakeLink:
    """A slave's report."""

    def __init__(self, store: str, end: int) -> None:
        self.hello = Hello("broker-a", 2, store, "", 0)
        self.acknowledged = end


class Node:
    """A broker of which only the coordinator is real. It has the roles that it is told to have."""

    def __init__(self, number: int, etcd: FakeEtcd, clock: TestClock, directory: Path) -> None:
        root = directory / str(number)
        root.mkdir()
        self.clock = clock
        self.leads: int | None = None
        self.takes_messages = False
        self.fails = False
        self.gives_tables = True
        """Whether its slaves follow its tables."""
        self.store = FakeStore()
        self.server = FakeServer()
        self.follower = FakeFollower()
        self.epochs = EpochFile(root)
        self.lease = Lease(FakeLeases(etcd), LEASE, clock)
        self.last_run = LastRun(root)
        self.coordinator = Coordinator(
            KEYS,
            etcd,
            self.lease,
            clock,
            identity=Identity(number, f"host{number}:10911", f"host{number}:10912"),
            roles=self,
            epochs=self.epochs,
            store=cast(Any, self.store),
            follower=cast(Any, self.follower),
            server=cast(Any, self.server),
            known=KnownLeader(self.epochs.store_id),
            last_run=self.last_run,
            has_tables=lambda broker_id: self.gives_tables,
        )

    async def lead(self, epoch: int, replicas: InSyncReplicas) -> None:
        if self.fails:
            raise RuntimeError("it cannot")
        self.epochs.begin(self.store.max_physical_offset, epoch)
        self.leads = epoch
        replicas.open()

    async def take_messages(self) -> None:
        self.takes_messages = True

    async def follow(self) -> None:
        self.leads = None
        self.takes_messages = False

    async def look(self) -> None:
        with suppress(EtcdAway):
            self.lease.renew()
        await self.coordinator.look()

    @property
    def replicas(self) -> InSyncReplicas:
        assert self.coordinator.replicas is not None
        return self.coordinator.replicas

    def reports(self, other: Node, end: int) -> None:
        """A slave, `other`, reports to this one."""
        self.server.reported_by(FakeLink(other.epochs.store_id, end))

    def leaves(self, other: Node) -> None:
        """The connection of a slave, `other`, to this one ends."""
        self.server.left_by(FakeLink(other.epochs.store_id, 0))


async def view(etcd: FakeEtcd) -> ClusterView:
    return read_view(KEYS, await etcd.read(KEYS.prefix))


async def pair(nodes: list[Node], end: int = 1000) -> tuple[Node, Node]:
    """Have the first lead and the second be in its set."""
    one, two = nodes[:2]
    await one.look()
    one.store.max_physical_offset = two.store.max_physical_offset = end
    await two.look()
    two.epochs.adopt(one.epochs.epochs)
    one.reports(two, end)
    await one.look()
    one.reports(two, end)
    await one.look()
    return one, two


async def trio(nodes: list[Node], etcd: FakeEtcd) -> tuple[Node, Node, Node]:
    """Have the first lead and the others be in its set."""
    one, two = await pair(nodes)
    three = nodes[2]
    await three.look()
    three.epochs.adopt(one.epochs.epochs)
    for _ in range(2):
        one.reports(three, 1000)
        await one.look()
    assert set((await view(etcd)).members or ()) == {node.epochs.store_id for node in nodes}
    return one, two, three
