"""A broker as a member of those that elect their master: what its coordinator is made of."""

from __future__ import annotations

from collections.abc import Callable

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.failover.coordinator import Coordinator, Identity, Roles
from pyromq.broker.replication.failover.etcd_client import EtcdClient, LeaseClient
from pyromq.broker.replication.failover.etcd_state import Keys
from pyromq.broker.replication.failover.known_leader import KnownLeader
from pyromq.broker.replication.failover.lease import Lease
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.ha_server import HaServer
from pyromq.broker.replication.last_run import LastRun
from pyromq.clock import Clock
from pyromq.store.message_store import MessageStore

_REQUESTS_A_LEASE = 4
"""How many requests that are not answered fit into the time of a lease."""


def new_coordinator(
    config: BrokerConfig,
    clock: Clock,
    *,
    address: str,
    ha_address: str,
    roles: Roles,
    epochs: EpochFile,
    store: MessageStore,
    follower: Follower,
    server: HaServer,
    known: KnownLeader,
    last_run: LastRun,
    has_tables: Callable[[int], bool],
) -> Coordinator:
    """Return what decides the role of a broker, through the etcd that its settings name."""
    timeout = config.failover_lease / _REQUESTS_A_LEASE
    return Coordinator(
        Keys.of(config.cluster, config.name),
        EtcdClient(config.etcd, timeout),
        Lease(LeaseClient(config.etcd, timeout), round(config.failover_lease), clock),
        clock,
        identity=Identity(config.broker_id, address, ha_address),
        roles=roles,
        epochs=epochs,
        store=store,
        follower=follower,
        server=server,
        known=known,
        last_run=last_run,
        has_tables=has_tables,
        waits_for_slaves=config.role == "SYNC_MASTER",
    )
