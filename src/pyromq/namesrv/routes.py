"""RouteTable: which broker serves which topic, and which brokers have gone silent.

A broker group (one broker name) has a master, id 0, and slaves; only the master's topics count. A broker is alive while
it keeps registering. It is removed with all its topics when it unregisters, when its connection closes, or when it has
been silent for too long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.namesrv.broker_registration import BrokerRegistration
from pyromq.protocol.bodies import BrokerData, ClusterInfo, DataVersion, QueueData, TopicConfig, TopicRouteData
from pyromq.protocol.codes import MASTER_ID, PERM_WRITE

logger = logging.getLogger(__name__)


class MasterAddress(NamedTuple):
    """The addresses at which a slave finds its master."""

    address: str
    ha_address: str


class VersionAnswer(NamedTuple):
    """Whether a broker's topics differ from those known here, and the version of those."""

    changed: bool
    known: DataVersion | None


class SystemTopics(NamedTuple):
    """The topics that every cluster and broker has, and a broker that knows its other system topics."""

    names: list[str]
    broker_address: str | None


class RouteCounts(NamedTuple):
    """How much a name server knows."""

    topics: int
    clusters: int
    brokers: int


_FIGURES: Final[tuple[Figure[RouteCounts], ...]] = (
    Figure("topics", "Topics with a route.", Kind.GAUGE, lambda counts: counts.topics),
    Figure("clusters", "Clusters with a broker.", Kind.GAUGE, lambda counts: counts.clusters),
    Figure("brokers", "Brokers that are alive, masters and slaves.", Kind.GAUGE, lambda counts: counts.brokers),
)


class _BrokerGroup(Struct):
    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)


class _LiveBroker(Struct):
    last_seen: float
    data_version: DataVersion
    connection: object
    ha_address: str
    deleted_topics: set[str] = field(default_factory=set)  # deleted by an operator while the broker still had them


class RouteTable:
    """All that a name server knows about brokers and topics, in memory."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, QueueData]] = {}  # topic -> broker name -> its queues
        self._groups: dict[str, _BrokerGroup] = {}
        self._clusters: dict[str, dict[str, None]] = {}  # cluster -> broker names, in order
        self._live: dict[str, _LiveBroker] = {}  # by address
        self._filter_servers: dict[str, list[str]] = {}  # by address

    # --- brokers come and go ---------------------------------------------------------------------------------------

    def register(self, broker: BrokerRegistration, connection: object, now: float) -> MasterAddress | None:
        """Add a broker and, if it is a master, its topics; return a slave's master if that is alive."""
        group = self._groups.setdefault(broker.broker_name, _BrokerGroup(broker.cluster))
        self._clusters.setdefault(broker.cluster, {})[broker.broker_name] = None
        known = self._live.get(broker.address)
        if known is None:
            logger.info("broker registered name=%r id=%d address=%r", *_identity(broker))
        first = _place(group, broker)
        changed = first or known is None or known.data_version != broker.data_version
        deleted = set() if changed or known is None else known.deleted_topics
        if broker.broker_id == MASTER_ID:
            self._merge_topics(broker, changed, deleted)
        self._live[broker.address] = _LiveBroker(now, broker.data_version, connection, broker.ha_address, deleted)
        self._set_filter_servers(broker)
        return self._master_of(group) if broker.broker_id != MASTER_ID else None

    def query_version(self, address: str, version: DataVersion, now: float) -> VersionAnswer:
        """Compare a broker's topic version with the known one. The same version counts as a sign of life."""
        live = self._live.get(address)
        if live is None:
            return VersionAnswer(True, None)
        if live.data_version != version:
            return VersionAnswer(True, live.data_version)
        live.last_seen = now
        return VersionAnswer(False, live.data_version)

    def unregister(self, address: str) -> None:
        """Remove a broker that stops; another one that has taken its id in the meantime stays."""
        self._forget(address, "unregistered")

    def connection_lost(self, connection: object) -> None:
        """Remove the brokers whose latest registration came over this connection."""
        for address in [address for address, live in self._live.items() if live.connection is connection]:
            self._forget(address, "connection lost")

    def expire(self, now: float, silence: float) -> list[object]:
        """Remove the brokers that were silent for longer than `silence`; return their connections, to be closed."""
        expired = [(address, live) for address, live in self._live.items() if now - live.last_seen > silence]
        for address, _ in expired:
            self._forget(address, "silent for too long")
        return [live.connection for _, live in expired]

    # --- topics ------------------------------------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic; None if no broker serves it."""
        queues = self._queues.get(topic, {})
        if not queues:
            return None
        brokers = [self._broker_data(name) for name in queues]
        addresses = [address for broker in brokers for address in broker.broker_addrs.values()]
        filters = {address: self._filter_servers[address] for address in addresses if address in self._filter_servers}
        return TopicRouteData(queue_datas=list(queues.values()), broker_datas=brokers, filter_server_table=filters)

    def topics(self, having: Callable[[int], bool] = lambda flag: True) -> list[str]:
        """Return the topics for which `having` is true of the system flag that their first broker gives."""
        return [topic for topic, queues in self._queues.items() if having(next(iter(queues.values())).topic_sys_flag)]

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the topics of all brokers of a cluster."""
        names = self._clusters.get(cluster, {})
        return [topic for topic, queues in self._queues.items() if not names.keys().isdisjoint(queues)]

    def system_topics(self) -> SystemTopics:
        """Return the topics named after clusters and brokers, and a broker that knows its other system topics."""
        names = dict.fromkeys(name for cluster, members in self._clusters.items() for name in (cluster, *members))
        addresses = (address for group in self._groups.values() for address in group.addresses.values())
        return SystemTopics(list(names), next(addresses, None))

    def cluster_info(self) -> ClusterInfo:
        """Return all brokers and clusters."""
        return ClusterInfo(
            broker_addr_table={name: self._broker_data(name) for name in self._groups},
            cluster_addr_table={cluster: list(members) for cluster, members in self._clusters.items()},
        )

    def counts(self) -> RouteCounts:
        """Return how much is known."""
        return RouteCounts(len(self._queues), len(self._clusters), len(self._live))

    def figures(self) -> BoundFigures[RouteCounts]:
        """Return the figures of this table."""
        return BoundFigures(_FIGURES, self.counts)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove the route of a topic, or its part in one cluster, until a broker changes its topics."""
        queues = self._queues.get(topic, {})
        members = queues if cluster is None else self._clusters.get(cluster, {})
        for name in [name for name in queues if name in members]:
            self._drop_queues(topic, name)
            master = self._live.get(self._groups[name].addresses.get(MASTER_ID, ""))
            if master is not None:
                master.deleted_topics.add(topic)

    def wipe_write(self, broker_name: str) -> int:
        """Take the write permission from all topics of a broker; return their number."""
        return self._set_permissions(broker_name, lambda permission: permission & ~PERM_WRITE)

    def add_write(self, broker_name: str) -> int:
        """Give the write permission back to all topics of a broker; return their number."""
        return self._set_permissions(broker_name, lambda permission: permission | PERM_WRITE)

    # --- the tables --------------------------------------------------------------------------------------------------

    def _merge_topics(self, broker: BrokerRegistration, changed: bool, deleted: set[str]) -> None:
        """Add and change topics but never remove them: a registration may carry a single topic.

        A registration with an unchanged version adds the topics that are missing here. Apache's name server ignores it,
        and after a restart a single-topic registration then hides the broker's other topics. Topics that an operator
        deleted stay deleted, and permissions that were wiped stay wiped.
        """
        name = broker.broker_name
        for topic, config in broker.topics.items():
            known = name in self._queues.get(topic, {})
            if changed or not (known or topic in deleted):
                self._queues.setdefault(topic, {})[name] = _queue_data(name, config)

    def _set_filter_servers(self, broker: BrokerRegistration) -> None:
        if broker.filter_servers:
            self._filter_servers[broker.address] = broker.filter_servers
        elif broker.filter_servers is not None:
            self._filter_servers.pop(broker.address, None)

    def _master_of(self, group: _BrokerGroup) -> MasterAddress | None:
        address = group.addresses.get(MASTER_ID)
        if address is None or address not in self._live:
            return None
        return MasterAddress(address, self._live[address].ha_address)

    def _forget(self, address: str, reason: str) -> None:
        self._live.pop(address, None)
        self._filter_servers.pop(address, None)
        for name, group in list(self._groups.items()):
            for broker_id in [broker_id for broker_id, known in group.addresses.items() if known == address]:
                del group.addresses[broker_id]
                logger.info("broker gone name=%r id=%d address=%r: %s", name, broker_id, address, reason)
            if not group.addresses:
                self._forget_group(name)

    def _forget_group(self, name: str) -> None:
        del self._groups[name]
        for cluster, members in list(self._clusters.items()):
            members.pop(name, None)
            if not members:
                del self._clusters[cluster]
        for topic in list(self._queues):
            self._drop_queues(topic, name)

    def _drop_queues(self, topic: str, broker_name: str) -> None:
        queues = self._queues[topic]
        queues.pop(broker_name, None)
        if not queues:
            del self._queues[topic]

    def _broker_data(self, name: str) -> BrokerData:
        group = self._groups[name]
        return BrokerData(cluster=group.cluster, broker_name=name, broker_addrs=dict(group.addresses))

    def _set_permissions(self, broker_name: str, change: Callable[[int], int]) -> int:
        touched = [queues for queues in self._queues.values() if broker_name in queues]
        for queues in touched:
            queues[broker_name] = replace(queues[broker_name], perm=change(queues[broker_name].perm))
        return len(touched)


def _place(group: _BrokerGroup, broker: BrokerRegistration) -> bool:
    """Set the broker of an id and remove it from other ids; return True if the id was free."""
    known = group.addresses.items()
    for other in [other for other, address in known if address == broker.address and other != broker.broker_id]:
        del group.addresses[other]
    first = broker.broker_id not in group.addresses
    group.addresses[broker.broker_id] = broker.address
    return first


def _identity(broker: BrokerRegistration) -> tuple[str, int, str]:
    return broker.broker_name, broker.broker_id, broker.address


def _queue_data(broker_name: str, topic: TopicConfig) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm,
        topic_sys_flag=topic.topic_sys_flag,
    )
