"""RouteTable: which broker serves which topic, and which brokers have gone silent.

A broker group (one broker name) has a master, id 0, and slaves; only the master's topics count. A broker is alive while
it keeps registering. It is removed with all its topics when it unregisters, when its connection closes, or when it has
been silent for too long.

Topics are kept by broker. A registration of 15,000 topics is then one update of a dict, and a broker that goes is one
deletion; a route looks into the table of each broker. What goes through all topics is a generator that yields often.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from pyromq.errors import BrokerError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.namesrv.broker_registration import BrokerRegistration, TopicQueues
from pyromq.namesrv.master_epochs import BrokerName, MasterEpochs
from pyromq.namesrv.rivals import Rivals
from pyromq.protocol.bodies import BrokerData, ClusterInfo, DataVersion, QueueData, TopicRouteData
from pyromq.protocol.codes import MASTER_ID, PERM_WRITE
from pyromq.protocol.headers.routes import UnregisterBrokerRequestHeader

logger = logging.getLogger(__name__)

_TOPICS_A_STEP: Final = 500
_MOST_COMPARED: Final = 200_000  # to count a topic of several brokers once; that takes 20 ms


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
    topics: dict[str, TopicQueues] = field(default_factory=dict)


class _LiveBroker(Struct):
    last_seen: float
    data_version: DataVersion
    connection: object
    ha_address: str
    deleted_topics: set[str] = field(default_factory=set)  # deleted by an operator while the broker still had them


class RouteTable:
    """All that a name server knows about brokers and topics, in memory.

    `max_brokers` is the most broker names, clusters, and members of one name; `max_topics` is for all brokers together.
    """

    def __init__(self, *, max_brokers: int = 2_000, max_topics: int = 250_000) -> None:
        self._max_brokers = max_brokers
        self._max_topics = max_topics
        self._groups: dict[str, _BrokerGroup] = {}
        self._clusters: dict[str, dict[str, None]] = {}  # cluster -> broker names, in order
        self._live: dict[str, _LiveBroker] = {}  # by address
        self._connected: dict[int, set[str]] = {}  # addresses by the id of the connection that registered them
        self._filter_servers: dict[str, list[str]] = {}  # by address
        self._epochs = MasterEpochs()
        self._rivals = Rivals()

    # --- brokers come and go ---------------------------------------------------------------------------------------

    def register(self, broker: BrokerRegistration, connection: object, now: float) -> MasterAddress | None:
        """Add a broker and, if it is a master, its topics; return a slave's master if that is alive.

        Raise BrokerError if there is no room for it, or if it is a master and another one is newer.
        """
        self._check_room(broker)
        self._note_rival(broker, now)
        if broker.broker_id == MASTER_ID:
            self._replace_master(broker, now)
        group = self._groups.setdefault(broker.broker_name, _BrokerGroup(broker.cluster))
        self._clusters.setdefault(broker.cluster, {})[broker.broker_name] = None
        known = self._live.get(broker.address)
        if known is None:
            logger.info("broker registered name=%r id=%d address=%r", *_identity(broker))
        first = _place(group, broker)
        changed = first or known is None or known.data_version != broker.data_version
        deleted = set() if changed or known is None else known.deleted_topics
        if broker.broker_id == MASTER_ID:
            _merge_topics(group, broker, changed, deleted)
        self._disconnect(broker.address)
        self._live[broker.address] = _LiveBroker(now, broker.data_version, connection, broker.ha_address, deleted)
        self._connected.setdefault(id(connection), set()).add(broker.address)
        self._set_filter_servers(broker)
        return self._master_of(group) if broker.broker_id != MASTER_ID else None

    def rival_of(self, broker: BrokerRegistration, now: float) -> str:
        """Return where another broker runs that registers under the same name and id; empty if there is none."""
        return self._rivals.of(broker, now)

    def rivalries(self, now: float) -> list[str]:
        """Return the brokers that register under one name and id, in words."""
        return self._rivals.all(now)

    def _note_rival(self, broker: BrokerRegistration, now: float) -> None:
        group = self._groups.get(broker.broker_name)
        holder = group.addresses.get(broker.broker_id) if group else None
        if holder is not None and holder != broker.address and holder in self._live:
            self._rivals.note(broker, holder, now)

    def _replace_master(self, broker: BrokerRegistration, now: float) -> None:
        """Let a master take the place of an older one, whose address is forgotten at once."""
        group = self._groups.get(broker.broker_name)
        before = self._master_of(group) if group else None
        self._epochs.check(broker, before.address if before else None, now)
        self._epochs.note(broker, now)
        if broker.epoch and before is not None and before.address != broker.address:
            logger.info("master replaced name=%r id=%d address=%r before=%r", *_identity(broker), before.address)
            self._disconnect(before.address)
            self._filter_servers.pop(before.address, None)

    def _check_room(self, broker: BrokerRegistration) -> None:
        group = self._groups.get(broker.broker_name)
        most = self._max_brokers
        if group is None and len(self._groups) >= most:
            raise _full(f"{most} broker names")
        if group is not None and broker.broker_id not in group.addresses and len(group.addresses) >= most:
            raise _full(f"{most} brokers of the name {broker.broker_name}")
        if broker.cluster not in self._clusters and len(self._clusters) >= most:
            raise _full(f"{most} clusters")
        known = group.topics if group else {}
        topics, most = sum(len(each.topics) for each in self._groups.values()), self._max_topics
        if topics + len(broker.topics) > most and topics + len(broker.topics.keys() - known) > most:
            text = f"{most} topics are registered already (pyromqMaxTopics)"
            raise BrokerError(text, limit="pyromqMaxTopics")

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

    def is_deposed(self, broker: UnregisterBrokerRequestHeader, epoch: int) -> bool:
        """Return True if a broker was master in an epoch that has ended: another master has a newer one."""
        return self._epochs.is_older(BrokerName(broker.cluster_name, broker.broker_name), epoch, broker.broker_addr)

    def connection_lost(self, connection: object) -> None:
        """Remove the brokers whose latest registration came over this connection."""
        for address in sorted(self._connected.get(id(connection), ())):
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
        serving = {name: group for name, group in self._groups.items() if topic in group.topics}
        if not serving:
            return None
        brokers = [self._broker_data(name) for name in serving]
        queues = [_queue_data(name, group.topics[topic]) for name, group in serving.items()]
        addresses = [address for broker in brokers for address in broker.broker_addrs.values()]
        filters = {address: self._filter_servers[address] for address in addresses if address in self._filter_servers}
        return TopicRouteData(queue_datas=queues, broker_datas=brokers, filter_server_table=filters)

    def topics(self, having: Callable[[int], bool] = lambda flag: True) -> Generator[None, None, list[str]]:
        """Return the topics for which `having` is true of the system flag that their first broker gives."""
        seen: set[str] = set()
        found: list[str] = []
        for step in self._all_topics(list(self._groups.values())):
            fresh = [(topic, queues) for topic, queues in step if topic not in seen]
            seen.update(topic for topic, _ in fresh)
            found += [topic for topic, queues in fresh if having(queues.topic_sys_flag)]
            yield
        return found

    def topics_of_cluster(self, cluster: str) -> Generator[None, None, list[str]]:
        """Return the topics of all brokers of a cluster."""
        found: dict[str, None] = {}
        for step in self._all_topics([self._groups[name] for name in self._clusters.get(cluster, {})]):
            found.update(dict.fromkeys(topic for topic, _ in step))
            yield
        return list(found)

    def _all_topics(self, groups: list[_BrokerGroup]) -> Iterator[list[tuple[str, TopicQueues]]]:
        """Yield a few topics at a time; brokers may come and go meanwhile."""
        for group in groups:
            names = list(group.topics)
            for start in range(0, len(names), _TOPICS_A_STEP):
                known = ((name, group.topics.get(name)) for name in names[start : start + _TOPICS_A_STEP])
                yield [(name, queues) for name, queues in known if queues is not None]

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

    def broker_state(self, name: str) -> dict[str, object] | None:
        """Return the addresses of a broker, and in how many topics it takes messages; None if it is not known."""
        group = self._groups.get(name)
        if group is None:
            return None
        writable = sum(1 for topic in group.topics.values() if topic.perm & PERM_WRITE)
        return {"addresses": dict(group.addresses), "writable_topics": writable}

    def counts(self) -> RouteCounts:
        """Return how much is known."""
        tables = [group.topics for group in self._groups.values()]
        topics = sum(map(len, tables))
        if topics <= _MOST_COMPARED:
            topics = len(set[str]().union(*tables))
        return RouteCounts(topics, len(self._clusters), len(self._live))

    def figures(self) -> BoundFigures[RouteCounts]:
        """Return the figures of this table."""
        return BoundFigures(_FIGURES, self.counts)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove the route of a topic, or its part in one cluster, until a broker changes its topics."""
        for name in self._groups if cluster is None else self._clusters.get(cluster, {}):
            group = self._groups[name]
            if group.topics.pop(topic, None) is None:
                continue
            master = self._live.get(group.addresses.get(MASTER_ID, ""))
            if master is not None:
                master.deleted_topics.add(topic)

    def wipe_write(self, broker_name: str) -> Generator[None, None, int]:
        """Take the write permission from all topics of a broker; return their number."""
        return self._set_permissions(broker_name, lambda permission: permission & ~PERM_WRITE)

    def add_write(self, broker_name: str) -> Generator[None, None, int]:
        """Give the write permission back to all topics of a broker; return their number."""
        return self._set_permissions(broker_name, lambda permission: permission | PERM_WRITE)

    # --- the tables --------------------------------------------------------------------------------------------------

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

    def _disconnect(self, address: str) -> None:
        """Forget over which connection a broker registered last."""
        live = self._live.pop(address, None)
        if live is not None:
            addresses = self._connected[id(live.connection)]
            addresses.discard(address)
            if not addresses:
                del self._connected[id(live.connection)]

    def _forget(self, address: str, reason: str) -> None:
        self._disconnect(address)
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

    def _broker_data(self, name: str) -> BrokerData:
        group = self._groups[name]
        return BrokerData(cluster=group.cluster, broker_name=name, broker_addrs=dict(group.addresses))

    def _set_permissions(self, broker_name: str, change: Callable[[int], int]) -> Generator[None, None, int]:
        group = self._groups.get(broker_name)
        if group is None:
            return 0
        count = 0
        shared: dict[TopicQueues, TopicQueues] = {}
        for step in self._all_topics([group]):
            for topic, queues in step:
                changed = replace(queues, perm=change(queues.perm))
                group.topics[topic] = shared.setdefault(changed, changed)
            count += len(step)
            yield
        return count


def _full(what: str) -> BrokerError:
    return BrokerError(f"{what} are registered already (pyromqMaxBrokers)", limit="pyromqMaxBrokers")


def _merge_topics(group: _BrokerGroup, broker: BrokerRegistration, changed: bool, deleted: set[str]) -> None:
    """Add and change topics but never remove them: a registration may carry a single topic.

    A registration with an unchanged version adds the topics that are missing here. Apache's name server ignores it,
    and after a restart a single-topic registration then hides the broker's other topics. Topics that an operator
    deleted stay deleted, and permissions that were wiped stay wiped.
    """
    if changed:
        group.topics.update(broker.topics)
    else:
        missing = broker.topics.keys() - group.topics.keys() - deleted
        group.topics.update({topic: broker.topics[topic] for topic in broker.topics if topic in missing})


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


def _queue_data(broker_name: str, topic: TopicQueues) -> QueueData:
    return QueueData(broker_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag)
