"""All that answers administrators, over any store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pyromq.broker.clients import ClientRegistry
from pyromq.broker.handlers.admin_broker import BrokerHandlers
from pyromq.broker.handlers.admin_groups import GroupHandlers
from pyromq.broker.handlers.admin_progress import ProgressHandlers
from pyromq.broker.handlers.admin_queues import QueueHandlers
from pyromq.broker.handlers.admin_stats import StatsHandlers
from pyromq.broker.handlers.admin_topics import TopicHandlers
from pyromq.broker.handlers.relays import RelayHandlers
from pyromq.broker.handlers.resets import ResetHandlers
from pyromq.broker.settings import Settings
from pyromq.broker.stats import BrokerStats
from pyromq.broker.tables import Tables
from pyromq.clock import Clock
from pyromq.remoting.connection import Handler
from pyromq.store.read.readable import ReadableStore


class Administration:
    """Builds the handlers; `address` and `register` are asked when they are needed, once the broker listens."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        store: ReadableStore,
        tables: Tables,
        clients: ClientRegistry,
        stats: BrokerStats,
        address: Callable[[], str],
        register: Callable[[], Awaitable[None]],
    ) -> None:
        name, cluster = settings.current.name, settings.current.cluster
        topics, groups, offsets = tables.topics, tables.groups, tables.offsets
        self.broker = BrokerHandlers(settings, clock, store=store, topics=topics, stats=stats, register=register)
        self._parts = (
            self.broker,
            TopicHandlers(name, store=store, topics=topics, offsets=offsets, clients=clients, register=register),
            GroupHandlers(groups=groups, offsets=offsets, clients=clients),
            ProgressHandlers(
                name,
                address,
                clock,
                store=store,
                topics=topics,
                groups=groups,
                offsets=offsets,
                clients=clients,
                stats=stats,
            ),
            StatsHandlers(cluster, stats),
            QueueHandlers(store=store, clients=clients, filters=tables.filters),
            RelayHandlers(name, store=store, clients=clients),
            ResetHandlers(name, store=store, topics=topics, offsets=offsets, clients=clients),
        )

    def handlers(self) -> Mapping[int, Handler]:
        """Return who answers which request."""
        return {code: handler for part in self._parts for code, handler in part.handlers().items()}
