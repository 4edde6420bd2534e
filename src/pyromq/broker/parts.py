"""What the parts of a broker share. A handler gets one of these values, or both, and takes what it needs.

    Parts     what every broker has: settings, clock, store, tables, clients, figures
    Writing   what a master has on top: the store as one that is written to, and what answers wait for

Both are complete when they are made: nothing is set on them, or on a handler, afterwards. Where one part has to hear of
another there is a Signal (signals.py), which a part that goes away, such as one of the writing side, unsubscribes from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pyromq.access.accounts import Accounts
from pyromq.access.open_access import OPEN, CallerRights
from pyromq.broker.clients.client_registry import ClientRegistry
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.config.live_settings import LiveSettings
from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.messages.durability import Durability
from pyromq.broker.messages.new_queue_sends import NewQueueSends
from pyromq.broker.messages.new_topic_sends import NewTopicSends
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.pulls.topic_lives import EACH_HAS_ONE, TopicLives
from pyromq.broker.signals import Signal, StoreSignals
from pyromq.broker.stats.broker_stats import BrokerStats
from pyromq.broker.tables.all_tables import Tables
from pyromq.broker.tables.consumer_offsets import ConsumerOffsets
from pyromq.broker.tables.subscription_groups import SubscriptionGroups
from pyromq.broker.tables.table_followers import TableFollowers
from pyromq.broker.tables.topic_table import TopicTable
from pyromq.clock import Clock
from pyromq.figures import Figures
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.remoting.audit.access_log import AccessLog
from pyromq.remoting.round import Round
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.read.readable import SearchableStore
from pyromq.store.results import GetResult

OffsetMoved = Signal[[PullMessageRequestHeader, GetResult]]


@dataclass(frozen=True)
class Standing:
    """What a broker is at the moment, for answers that are different on a slave."""

    is_slave: Callable[[], bool] = lambda: False
    """Whether it is a slave, or a master that may have been deposed without knowing: another may have more than it."""
    has_master: Callable[[], bool] = lambda: False
    """Whether a slave is connected to its master."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What every broker has, whatever its role."""

    settings: LiveSettings
    clock: Clock
    round: Round
    store: SearchableStore
    reads: DiskReads
    """Reads that may have to wait for the disk."""
    tables: Tables
    clients: ClientRegistry
    followers: TableFollowers
    """The slaves that follow the tables: a change can wait for them."""
    stats: BrokerStats
    signals: StoreSignals
    offset_moved: OffsetMoved
    """Heard when a pull asks for an offset that is not there."""
    address: str
    """Where clients reach this broker: `host:port`."""
    store_host: bytes
    """The same, as a record holds it."""
    figures: Callable[[], Figures]
    """Reads the figures of the whole broker."""
    register: Callable[[], Awaitable[None]]
    """Registers at all name servers now."""
    files: OsFiles | None = None
    standing: Standing = Standing()
    lives: TopicLives = EACH_HAS_ONE
    """Tells topics of one name apart."""
    accounts: Accounts | None = None
    """The accounts of a broker with access control."""
    access_log: AccessLog | None = None
    """Where changes are noted that only a handler knows to be some."""
    access: CallerRights = OPEN
    """Who may read and write what, where only a handler can tell."""

    @property
    def config(self) -> BrokerConfig:
        """The settings in force now; `settings.changed` is heard when they change."""
        return self.settings.current

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.settings.current.name

    @property
    def topics(self) -> TopicTable:
        """The table of topics."""
        return self.tables.topics

    @property
    def groups(self) -> SubscriptionGroups:
        """The table of consumer groups."""
        return self.tables.groups

    @property
    def offsets(self) -> ConsumerOffsets:
        """The committed offsets."""
        return self.tables.offsets


@dataclass(frozen=True, kw_only=True)
class Writing:
    """What a broker has while it is master: the ways to store a message and to know that it is stored."""

    store: MessageStore
    durability: Durability
    acknowledgements: Acknowledgements
    new_topics: NewTopicSends
    new_queues: NewQueueSends
