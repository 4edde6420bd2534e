"""All that answers administrators, over any store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pyromq.broker.clients.client_registry import ClientRegistry
from pyromq.broker.config.live_settings import LiveSettings
from pyromq.broker.stats.broker_stats import BrokerStats
from pyromq.broker.tables.all_tables import Tables
from pyromq.broker.tools.broker_admin import BrokerHandlers, StatsHandlers
from pyromq.broker.tools.consume_progress import ProgressHandlers
from pyromq.broker.tools.consumer_relay import RelayHandlers
from pyromq.broker.tools.group_admin import GroupHandlers
from pyromq.broker.tools.offset_resets import ResetHandlers
from pyromq.broker.tools.queue_entries import QueueHandlers
from pyromq.broker.tools.topic_admin import TopicHandlers
from pyromq.clock import Clock
from pyromq.figures import Figures
from pyromq.store.read.readable import ReadableStore


class Administration:
    """Builds the handlers; `figures`, `address` and `register` are called when needed, once the broker listens."""

    def __init__(
        self,
        settings: LiveSettings,
        clock: Clock,
        *,
        store: ReadableStore,
        tables: Tables,
        clients: ClientRegistry,
        stats: BrokerStats,
        figures: Callable[[], Figures],
        address: Callable[[], str],
        register: Callable[[], Awaitable[None]],
    ) -> None:
        name, cluster = settings.current.name, settings.current.cluster
        topics, groups, offsets = tables.topics, tables.groups, tables.offsets
        self.parts = (
            BrokerHandlers(settings, topics=topics, figures=figures, register=register),
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
