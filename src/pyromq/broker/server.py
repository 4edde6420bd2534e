"""Broker: opens store and tables, serves them, and has a writing side while it is master. It holds no other logic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self

from msgspec.structs import replace

from pyromq.broker.cleaning import Cleaning
from pyromq.broker.clients.client_registry import ClientRegistry
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.config.live_settings import LiveSettings
from pyromq.broker.messages.durability import Copies, Replicas, loss_window
from pyromq.broker.parts import Standing
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.pulls.pull_queues import PullQueuesHandler
from pyromq.broker.replication.failover.by_election import ByElection
from pyromq.broker.replication.failover.coordinator import Coordinator
from pyromq.broker.replication.failover.fence import Fence
from pyromq.broker.replication.failover.in_sync_replicas import InSyncReplicas
from pyromq.broker.replication.failover.known_leader import KnownLeader
from pyromq.broker.replication.failover.member import new_coordinator
from pyromq.broker.replication.follower import Follower, link_rules
from pyromq.broker.replication.foreign_slaves import ForeignSlaves
from pyromq.broker.replication.ha_server import HaServer
from pyromq.broker.replication.handover.by_hand import ByHand
from pyromq.broker.replication.handover.handover_requests import HandoverHandlers
from pyromq.broker.replication.handover.other_brokers import OtherBrokers
from pyromq.broker.replication.history import History
from pyromq.broker.replication.replicas import AnySlave
from pyromq.broker.replication.replication_requests import ReplicationHandlers, ReplicationView
from pyromq.broker.replication.rescue.healing import Healing
from pyromq.broker.replication.slave_link import SlaveLink
from pyromq.broker.replication.tables.table_feed import TableFeed
from pyromq.broker.replication.tables.takeover import take_over_tables
from pyromq.broker.sides.ports import Ports
from pyromq.broker.sides.refusals import refuse_as_slave, refuse_before_agreement, refuse_while_stopping
from pyromq.broker.sides.service import Service
from pyromq.broker.sides.write_side import WriteSide
from pyromq.broker.signals import StoreSignals
from pyromq.broker.stats.broker_stats import BrokerStats
from pyromq.broker.stats.health import BrokerHealth
from pyromq.broker.stats.store_figures import writing_figures
from pyromq.broker.tables.all_tables import Tables, restore_tables
from pyromq.broker.tables.consumer_offsets import ConsumerOffsets
from pyromq.broker.tables.subscription_groups import SubscriptionGroups
from pyromq.broker.tables.topic_table import TopicTable
from pyromq.clock import Clock
from pyromq.figures import BoundFigures, Figures
from pyromq.lane import lane_text
from pyromq.protocol.bodies.replication import Epoch
from pyromq.protocol.codes import MASTER_ID
from pyromq.remoting.limits import ConnectionRoom
from pyromq.remoting.requests import Handler
from pyromq.store.files import OsFiles, store_error
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.json_file import JsonFile

logger = logging.getLogger(__name__)

_COPYING_TIME: Final = 1.0


class Role(Enum):
    """What a broker is at the moment; `promote` and `demote` change it."""

    MASTER = "master"
    SLAVE = "slave"


class Broker:
    """A broker on two ports; an async context manager that serves while it is open.

    It always has a reading side (`service`), and a writing side while it is master. A master starts with both.
    """

    def __init__(
        self, config: BrokerConfig, clock: Clock, files: OsFiles | None = None, role: Role | None = None
    ) -> None:
        self.name = config.name
        self._given = config
        self._clock = clock
        self._files = files
        self._first_role = role or (Role.SLAVE if config.is_slave else Role.MASTER)
        self._write: WriteSide | None = None
        self._is_elected = False
        self._fence = Fence()
        self._coordinator: Coordinator | None = None
        self._stop_sending: Callable[[], None] = lambda: None

    # --- start and stop

    async def __aenter__(self) -> Self:
        """Open the store, listen, register; raise ConfigError, StoreError or RemotingError where that fails."""
        async with AsyncExitStack() as stack:
            self.settings = self._load_settings()
            guard = self._fence if self.config.failover else None
            self._ports = await stack.enter_async_context(Ports(self.config, self._clock, guard))
            signals = StoreSignals()
            self.history = History(self.config, self._clock, self._files)
            self.history.load()
            self.store = stack.enter_context(self._new_store(signals))
            stack.callback(self.history.finish, self.store)
            await self.history.settle(self.store, self.address, is_master=self._first_role is Role.MASTER)
            self._reads = DiskReads(self.store)
            logger.info(loss_window(self.config.store))
            self._tables = self._open_tables(stack)
            self._cleaning = Cleaning(self.store.cleaner, self._reads, self._clock, self.config.cleaning_period)
            self._ha = await self._open_ha(stack)
            self.service = self._new_service(signals)
            self._follower = self._new_follower()
            self._follower.agreed.subscribe(self._ports.allow_reads)
            self._follower.caught_up.subscribe(self.history.last_run.settle)
            self.replication, self.handover = self._new_handover()
            self.health = BrokerHealth(self.replication, self._coordinator)
            stack.push_async_callback(self._ports.close)
            stack.push_async_callback(self._stop_answering)
            if self._first_role is Role.MASTER:
                await self.promote()
            else:
                self._be_slave()
            await stack.enter_async_context(self.service)
            stack.push_async_callback(self._follower.stop)
            if self.role is Role.SLAVE:
                self._follower.start()
            if self._coordinator is not None:
                stack.push_async_callback(self._coordinator.stop)
                self._coordinator.start()
            self._clean(stack)
            self._heal(stack)
            stack.enter_context(self.health.watch)
            self._exit = stack.pop_all()
        logger.info(
            "broker ready name=%s address=%s fast port=%d lane=%s", self.name, self.address, self.fast_port, lane_text()
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()
        logger.info("broker stopped name=%s", self.name)

    def _load_settings(self) -> LiveSettings:
        path = self._given.store.root / "config" / "changedSettings.json"
        settings = LiveSettings(self._given, JsonFile(path, self._files))
        settings.load()
        return settings

    def _new_store(self, signals: StoreSignals) -> MessageStore:
        config = self.config.store
        return MessageStore(
            replace(config, shows_confirmed_only=True) if self.config.failover else config,
            self._clock.now_ms,
            self._files,
            call_threadsafe=asyncio.get_running_loop().call_soon_threadsafe,
            on_arrival=signals.arrived,
            on_durable=signals.durable,
            on_failure=signals.failed,
        )

    def _open_tables(self, stack: AsyncExitStack) -> Tables:
        tables = Tables(self.config, self._clock.now_ms, self._files)
        tables.load()
        stack.push_async_callback(tables.close)
        restore_tables(tables, self.store)
        return tables

    def _new_service(self, signals: StoreSignals) -> Service:
        service = Service(
            self.settings,
            self._clock,
            ports=self._ports,
            store=self.store,
            reads=self._reads,
            tables=self._tables,
            signals=signals,
            ha_port=self._ha.port,
            more_figures=self._more_figures,
            files=self._files,
            standing=Standing(lambda: self._write is None or self._fence.is_closed, self._has_master),
            deleted_at=self.store.cleaner.deleted_at,
        )
        self._ports.answer(
            [
                PullQueuesHandler(service.parts, self.store, service.reading.pulls),
                ReplicationHandlers(self.store, lambda: self.replication, lambda: self.health.problems()),
                HandoverHandlers(lambda: self.handover, lambda: self.role.value),
                TableFeed(service.parts, self.store),
            ],
            self._reads,
        )
        return service

    async def _open_ha(self, stack: AsyncExitStack) -> HaServer:
        config = self.config
        server = HaServer(
            self.store.copied_log,
            link_rules(config),
            self._clock,
            host=config.host,
            port=config.ha_port,
            may_continue=self._may_continue,
            tls=self._ports.tls,
        )
        server.followed.subscribe(self._remember_slave)
        await server.open()
        stack.push_async_callback(server.close)
        return server

    async def _may_continue(self, link: SlaveLink, report: int) -> str:
        return await ForeignSlaves(self.service.parts, self.store, self.service.remoting).objection(link, report)

    def _remember_slave(self, link: SlaveLink) -> None:
        if link.hello is not None:
            self.history.slaves.note(link.hello.broker_id, link.hello.address)

    def _new_follower(self) -> Follower:
        service = self.service
        known = KnownLeader(self.history.epochs.store_id)
        follower = Follower(
            service.parts,
            self.store,
            self.history.epochs,
            service.remoting,
            service.registration,
            known if self.config.failover else None,
        )
        if self.config.failover:
            self._coordinator = new_coordinator(
                self.config,
                self._clock,
                address=self.address,
                ha_address=self._ports.ha_address(self._ha.port),
                roles=self,
                epochs=self.history.epochs,
                store=self.store,
                follower=follower,
                server=self._ha,
                known=known,
                last_run=self.history.last_run,
                has_tables=service.parts.followers.follows,
            )
        return follower

    def _new_handover(self) -> tuple[ReplicationView, ByHand | ByElection]:
        """Return what operators see of replication, and what answers one who wants another master."""
        parts, epochs, registration = self.service.parts, self.history.epochs, self.service.registration
        followed = parts, self.store, epochs, self._ha, self._follower
        coordinator = self._coordinator
        set_ids = None if coordinator is None else lambda: coordinator.in_sync_ids
        view = ReplicationView(self, *followed, registration, self._ports.ha_address(self._ha.port), set_ids)
        others = OtherBrokers(parts, epochs, self.service.remoting, registration)
        if coordinator is None:
            return view, ByHand(self, *followed, others, view)
        coordinator.elected.subscribe(view.note_failover)
        return view, ByElection(coordinator, others, epochs, self.store, self._clock, self.acting_role)

    def _has_master(self) -> bool:
        """Return True if a slave's master may be at work; where masters are elected, one always may."""
        return self._follower.is_connected or bool(self.config.failover)

    def _clean(self, stack: AsyncExitStack) -> None:
        stack.callback(self.settings.changed.subscribe(lambda config: self.store.cleaner.configure(config.store)))
        stack.enter_context(self._cleaning)

    def _heal(self, stack: AsyncExitStack) -> None:
        healing = Healing(self.service.parts, self.store, self.service.remoting, self._same_logs)
        healing.start()
        stack.push_async_callback(healing.stop)

    def _same_logs(self, end: int) -> list[str]:
        """Return where brokers answer whose logs are the same up to an end."""
        if self.role is Role.MASTER:
            return self._ha.same_logs(end)
        return [self._follower.same_log_at] if self._follower.same_log_at else []

    # --- the role

    @property
    def role(self) -> Role:
        """Whether it is master, with a writing side, or slave, without one."""
        return Role.SLAVE if self._write is None else Role.MASTER

    @property
    def is_master(self) -> bool:
        """Whether slaves follow it: it takes messages, or was elected and will as soon as they have what it has."""
        return self._write is not None or self._is_elected

    @property
    def acting_role(self) -> str:
        """What it is, or would be, as master: its brokerRole or, of a slave, that of the master it followed."""
        role = self.config.role
        return role if role != "SLAVE" else self.history.epochs.master_role or "ASYNC_MASTER"

    async def promote(self, at_least: int = 0, check: Callable[[], None] | None = None) -> None:
        """Become master: take messages, and go on with all that waits in the log. Nothing happens to a master.

        The epoch's number is `at_least` this. When it has begun, durably, `check` may raise to leave it unused.
        """
        if self._write is None:
            await self._follower.end()
            epoch = self.history.epochs.begin(self.store.max_physical_offset, at_least)
            if check is not None:
                check()
            self._leave_slaves()  # those of a master that goes back to work have to hear of the new epoch
            self._serve_slaves(epoch)
            await self._go_to_work(self._replicas())
            if self.service.is_open:
                await self.service.registration.register_everywhere()

    async def lead(self, epoch: int, replicas: InSyncReplicas) -> None:
        """Become master for slaves, because this broker was elected; raise StoreError if that cannot be stored."""
        await self._follower.end()
        try:
            begun = self.history.epochs.begin(self.store.max_physical_offset, epoch, must_save=True)
        except OSError as error:
            raise store_error("store the epoch in", str(self.config.store.root), error) from error
        self._fence.replicas = replicas
        self._is_elected = True
        self._serve_slaves(begun)
        replicas.open()

    async def take_messages(self) -> None:
        """Go to work after an election; raise StoreError or ConfigError."""
        replicas = self._fence.replicas
        await self._go_to_work(replicas if replicas is not None and replicas.waits else None)

    def _serve_slaves(self, epoch: Epoch) -> None:
        self.history.last_run.settle()  # what was not taken back by now is given up: the epoch says so
        logger.info("this broker is master now epoch=%d from=%d", epoch.number, epoch.start)
        self.service.registration.epoch, self.service.registration.history = epoch.number, self.history.epochs.origin
        self._ha.epoch_id = epoch.id
        self._send_to_slaves()

    def _send_to_slaves(self) -> None:
        """Send them the log at the end of each round, after all that was added before: what is written goes at once."""
        self._stop_sending()
        arrived = self.service.parts.signals.arrived
        self._stop_sending = self._ha.serve(self.store, self._ports.round, arrived, lambda: self.config.ha_keep_bytes)

    async def _go_to_work(self, replicas: Replicas | None) -> None:
        """Take messages, and go on with what waits in the log."""
        if self.service.is_open:  # it was a slave until now
            take_over_tables(self.service.parts, self.store)
        write = WriteSide(self.service.parts, self.store, self._cleaning, replicas)
        self._write = await write.__aenter__()
        self._send_to_slaves()
        self._ports.answer(write.handlers, self._reads, write.lanes)
        self._ports.allow_reads()
        self.service.registration.broker_id = MASTER_ID

    def _leave_slaves(self) -> None:
        """Send nothing any more, and end all connections."""
        self._stop_sending()
        self._stop_sending = lambda: None
        self._ha.epoch_id = ""
        self._ha.let_go()

    def _replicas(self) -> Replicas | None:
        return AnySlave(self._ha, self.config.ha_fall_behind) if self.acting_role == "SYNC_MASTER" else None

    async def follow(self) -> None:
        """Become slave because another broker was, or may be, elected."""
        self._is_elected = False
        await self.demote()
        self._fence.replicas = None

    async def demote(self, broker_id: int = 0) -> None:
        """Become slave: take no more messages, let the answers leave that wait, and follow the master.

        A broker that has no id of its own as a slave takes the one given, which the new master has left.
        """
        registration = self.service.registration
        registration.slave_id = self.config.broker_id or broker_id or registration.slave_id
        await self.rest(refuse_as_slave)
        if self._ha.epoch_id:
            is_copied = self._ha.is_copied(self.history.slaves.addresses, self.store.max_physical_offset)
            self.history.may_have_tail = not is_copied
        self._leave_slaves()
        self._be_slave()
        self._follower.start()

    def _be_slave(self) -> None:
        self._ports.refuse_writes(refuse_as_slave, but_settings=True)
        if self.history.may_have_tail and not self.store.config.shows_confirmed_only:
            self._ports.refuse_reads(refuse_before_agreement)
        self.service.registration.broker_id = self.service.registration.slave_id
        self.service.registration.epoch = 0

    async def rest(self, refuse: Handler) -> None:
        """Take no more messages, let the answers leave that wait, and go on sending the log to slaves."""
        self._ports.refuse_writes(refuse)
        write, self._write = self._write, None
        if write is not None:
            await write.__aexit__(None, None, None)
            await self._let_slaves_have_all()

    async def _let_slaves_have_all(self) -> None:
        """Wait a moment for the in-sync set: whoever takes over has also what nobody waited for."""
        self._ha.pump()
        replicas = self._fence.replicas
        deadline = self._clock.monotonic() + _COPYING_TIME
        while replicas is not None and not replicas.is_fenced and self._clock.monotonic() < deadline:
            if replicas.copies(self.store.max_physical_offset) is not Copies.PENDING:
                return
            await self._clock.sleep(_COPYING_TIME / 100)

    async def _stop_answering(self) -> None:
        """Refuse what writes, answer the pulls that wait, and let the answers leave that wait for the disk."""
        self.service.reading.pulls.waiting.close()
        self.service.parts.followers.close()
        await self.rest(refuse_while_stopping)
        self.handover.close()
        self._leave_slaves()
        await self._reads.close()

    # --- what it shows

    @property
    def config(self) -> BrokerConfig:
        """The settings in force now."""
        return self.settings.current

    @property
    def handlers(self) -> dict[int, Handler]:
        """What answers requests, by code."""
        return self._ports.handlers

    @property
    def port(self) -> int:
        """The port it listens on, also where any free one was asked for."""
        return self._ports.port

    @property
    def fast_port(self) -> int:
        """The port that serves everything but pulls."""
        return self._ports.fast_port

    @property
    def address(self) -> str:
        """Where clients reach it: `host:port`."""
        return self._ports.address

    @property
    def topics(self) -> TopicTable:
        """The table of topics."""
        return self._tables.topics

    @property
    def groups(self) -> SubscriptionGroups:
        """The table of consumer groups."""
        return self._tables.groups

    @property
    def offsets(self) -> ConsumerOffsets:
        """The committed offsets."""
        return self._tables.offsets

    @property
    def clients(self) -> ClientRegistry:
        """The producers and consumers that are connected."""
        return self.service.parts.clients

    @property
    def stats(self) -> BrokerStats:
        """What is counted by topic and group."""
        return self.service.parts.stats

    def use_descriptors(self, room: ConnectionRoom, brokers: int = 1) -> None:
        """Keep as many files open as the connections of this process, which has so many brokers, leave descriptors."""
        least = self.config.store.max_open_files

        def fit(left: int) -> None:
            self.store.disk.keep_open(max(left // (2 * brokers), least))  # the other half is for sudden connections

        room.listeners.append(fit)
        fit(room.left_for_files)

    def http_info(self) -> dict[str, Any]:
        """Return what /varz shows of this broker."""
        return self.figures().varz()

    def figures(self) -> Figures:
        """Return all figures of this broker."""
        return self.service.figures()

    def _more_figures(self) -> list[BoundFigures[Any]]:
        side = [self._follower.figures()] if self._write is None else self._write.figures()
        return [writing_figures(self.store), self.replication.figures(), self.health.figures(), *side]
