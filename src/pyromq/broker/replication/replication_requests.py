"""How a broker's log stands: for the other brokers of its name, for operators, and as figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from msgspec.structs import replace

from pyromq.broker.parts import Parts
from pyromq.broker.registration import Registration
from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.ha_server import HaServer
from pyromq.broker.replication.slave_link import SlaveLink
from pyromq.errors import BrokerError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.problems import Problem
from pyromq.protocol.bodies.replication import (
    BrokerProblem,
    FollowerState,
    LastFailover,
    ReplicationState,
    SlaveState,
    encode_state,
)
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.replication import ReadLogRequestHeader
from pyromq.protocol.release import release
from pyromq.remoting.connection import Connection
from pyromq.store.message_store import MessageStore

MOST_BYTES: Final = 1 << 20
_UNKNOWN_ID: Final = -1


class ReplicatedBroker(Protocol):
    """The broker whose log this is."""

    @property
    def is_master(self) -> bool:
        """Whether it takes messages."""

    @property
    def acting_role(self) -> str:
        """SYNC_MASTER or ASYNC_MASTER: what it is, or would be, as master."""


class ReplicationView:
    """Looks at the parts of replication; changes nothing."""

    def __init__(
        self,
        broker: ReplicatedBroker,
        parts: Parts,
        store: MessageStore,
        epochs: EpochFile,
        server: HaServer,
        follower: Follower,
        registration: Registration,
        ha_address: str,
        set_ids: Callable[[], list[str]] | None = None,
    ) -> None:
        """`set_ids` tells the members of the in-sync set, under failover."""
        self.last_failover: LastFailover | None = None
        """When this broker last became master while it ran; whoever made it so sets this."""
        self._broker = broker
        self.parts = parts
        self.store = store
        self._epochs = epochs
        self._server = server
        self.follower = follower
        self.registration = registration
        self._ha_address = ha_address
        self._set_ids = set_ids

    def note_failover(self, last: LastFailover) -> None:
        """Show how this broker became master."""
        self.last_failover = last

    @property
    def role(self) -> str:
        """ASYNC_MASTER, SYNC_MASTER or SLAVE."""
        return self._broker.acting_role if self._broker.is_master else "SLAVE"

    @property
    def epoch(self) -> int:
        """The number of the last epoch of the log."""
        return self._epochs.number

    @property
    def links(self) -> list[SlaveLink]:
        """The slaves that follow this broker, by id."""
        return sorted((link for link in self._server.links if link.position is not None), key=str)

    def slave_names(self) -> dict[SlaveLink, str]:
        """Return what the slaves are called: by id, or by address where they do not say it, as Apache's."""
        return {link: link.peer if link.hello is None else str(link.hello.broker_id) for link in self.links}

    def in_sync(self) -> list[str]:
        """Return the slaves that an acknowledgement can rely on: they are in the set, or have had the whole log."""
        if self._set_ids is not None:
            return self._set_ids() if self._broker.is_master else []
        return [name for link, name in self.slave_names().items() if link.has_caught_up]

    def slave_lags(self) -> dict[str, int]:
        """Return how many bytes each slave lacks."""
        end = self.store.max_physical_offset
        return {name: max(end - link.acknowledged, 0) for link, name in self.slave_names().items()}

    def slave_lag_seconds(self) -> dict[str, float]:
        """Return the age of the oldest byte that each slave lacks."""
        return {name: self._server.behind_seconds(link) for link, name in self.slave_names().items()}

    @property
    def share(self) -> float:
        """How much of the log this broker has, from 0 to 1: all of it, unless it is a slave that copies."""
        if self._broker.is_master:
            return 1.0
        first, end = self.store.min_physical_offset, self.store.max_physical_offset
        whole = max(self.follower.master_end, end) - self.follower.master_start(first)
        return (end - first) / whole if whole > 0 else 1.0

    def state(self) -> ReplicationState:
        """Return how the log stands, for other brokers and for tools."""
        is_master = self._broker.is_master
        return ReplicationState(
            name=self.parts.name,
            broker_id=self.registration.broker_id,
            store=self._epochs.store_id,
            is_master=is_master,
            epochs=self._epochs.epochs,
            min_offset=self.store.min_physical_offset,
            max_offset=self.store.max_physical_offset,
            flushed_offset=self.store.flushed_offset,
            file_size=self.store.copied_log.file_size,
            ha_address=self._ha_address,
            role=self.role,
            version=release(),
            slaves=[self._slave_state(link) for link in self.links] if is_master else [],
            in_sync=self.in_sync() if is_master else [],
            follows=None if is_master else self._follower_state(),
            last_failover=self.last_failover,
        )

    def _slave_state(self, link: SlaveLink) -> SlaveState:
        return SlaveState(
            broker_id=_UNKNOWN_ID if link.hello is None else link.hello.broker_id,
            address=link.peer,
            acknowledged=link.acknowledged,
            has_caught_up=link.has_caught_up,
            behind_seconds=self._server.behind_seconds(link),
        )

    def _follower_state(self) -> FollowerState:
        follower = self.follower
        return FollowerState(
            master=follower.master.broker,
            is_connected=follower.is_connected,
            problem="" if follower.is_connected else follower.problem,
            master_end=follower.master_end,
            silent_seconds=follower.silent_seconds or 0.0,
        )

    def figures(self) -> BoundFigures[ReplicationView]:
        """Return the figures that every broker has; those of a slave alone are the follower's."""
        return BoundFigures(_MASTER_FIGURES if self._broker.is_master else _FIGURES, lambda: self)


class ReplicationHandlers:
    """Answers about the log, on master and slave."""

    def __init__(
        self,
        store: MessageStore,
        view: Callable[[], ReplicationView],
        problems: Callable[[], list[Problem]],
    ) -> None:
        self._store = store
        self._view = view
        self._problems = problems

    def state(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Tell how the log stands, and whether this broker is its master."""
        found = [
            BrokerProblem(cause=one.cause, text=one.text, advice=one.advice, stops_messages=one.stops_messages)
            for one in self._problems()
        ]
        return response(request, body=encode_state(replace(self._view().state(), problems=found)))

    def read_log(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return bytes of the log, to the end of their file at most; none at its end."""
        header = request.header(ReadLogRequestHeader)
        first, end = self._store.min_physical_offset, self._store.max_physical_offset
        if not first <= header.offset <= end or header.length < 0:
            raise BrokerError(f"the log is from {first} to {end}: there is no offset {header.offset}")
        return response(request, body=self._store.copied_log.read(header.offset, min(header.length, MOST_BYTES)))


_FIGURES: Final[tuple[Figure[ReplicationView], ...]] = (
    Figure("role", "What this broker is: ASYNC_MASTER, SYNC_MASTER or SLAVE.", Kind.TEXT, lambda view: view.role),
    Figure("epoch", "The number of the last epoch of the log.", Kind.GAUGE, lambda view: view.epoch),
    Figure(
        "last_failover_ms",
        "When this broker last became master while it ran, as time since the epoch; 0 if it has not.",
        Kind.GAUGE,
        lambda view: 0 if view.last_failover is None else view.last_failover.at_ms,
        metric="last_failover_timestamp_seconds",
    ),
    Figure(
        "last_failover_seconds",
        "How long that took, until it could take messages.",
        Kind.GAUGE,
        lambda view: 0.0 if view.last_failover is None else view.last_failover.took_ms / 1000,
    ),
    Figure(
        "replication_log_share",
        "How much of its master's log this broker has, from 0 to 1; 1 of a master.",
        Kind.GAUGE,
        lambda view: view.share,
    ),
)
_MASTER_FIGURES: Final[tuple[Figure[ReplicationView], ...]] = (
    *_FIGURES,
    Figure("slaves_connected", "Slaves that follow this broker.", Kind.GAUGE, lambda view: len(view.links)),
    Figure("in_sync", "Slaves that have had the whole log, by id.", Kind.TEXT, lambda view: view.in_sync()),
    Figure(
        "in_sync_count",
        "How many slaves have had the whole log.",
        Kind.GAUGE,
        lambda view: len(view.in_sync()),
        metric="slaves_in_sync",
    ),
    Figure(
        "slave_lag_bytes",
        "Bytes of the log that a slave lacks.",
        Kind.GAUGE,
        ReplicationView.slave_lags,
        label="slave",
    ),
    Figure(
        "largest_slave_lag_bytes",
        "Bytes of the log that the slave furthest behind lacks.",
        Kind.GAUGE,
        lambda view: max(view.slave_lags().values(), default=0),
        in_varz=False,
        in_metrics=False,
        exporter="rocketmq_broker_commitlog_diff",
    ),
    Figure(
        "slave_lag_seconds",
        "The age of the oldest byte that a slave lacks, to the second.",
        Kind.GAUGE,
        ReplicationView.slave_lag_seconds,
        label="slave",
    ),
)
