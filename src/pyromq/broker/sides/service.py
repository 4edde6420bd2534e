"""Service: a broker at work. It joins ports, parts, the reading side and the registration, over an open store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

from pyromq.broker.clients.client_registry import ClientRegistry
from pyromq.broker.config.live_settings import LiveSettings
from pyromq.broker.parts import OffsetMoved, Parts, Standing
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.pulls.quick_pulls import QuickPulls
from pyromq.broker.pulls.topic_lives import TopicLives
from pyromq.broker.registration import Registration
from pyromq.broker.sides.ports import Ports
from pyromq.broker.sides.read_side import ReadSide
from pyromq.broker.signals import StoreSignals
from pyromq.broker.stats.broker_stats import BrokerStats
from pyromq.broker.tables.all_tables import Tables
from pyromq.broker.tables.table_followers import TableFollowers
from pyromq.clock import Clock
from pyromq.figures import BoundFigures, Figure, Figures, Kind
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import refusals_by_cause
from pyromq.store.files import OsFiles
from pyromq.store.read.readable import SearchableStore


class Service:
    """Serves what is in a store; an async context manager: it accepts connections and is registered while it is open.

    Its ports are closed by whoever bound them: a broker ends its writing side in between.
    """

    def __init__(
        self,
        settings: LiveSettings,
        clock: Clock,
        *,
        ports: Ports,
        store: SearchableStore,
        reads: DiskReads,
        tables: Tables,
        signals: StoreSignals,
        ha_port: int,
        more_figures: Callable[[], list[BoundFigures[Any]]] = list,
        files: OsFiles | None = None,
        standing: Standing | None = None,
        deleted_at: Callable[[str], int] = lambda topic: 0,
    ) -> None:
        self.is_open = False
        """Whether it accepts connections and is registered."""
        self._ports = ports
        self._more_figures = more_figures
        self.remoting = RemotingClient(clock, credentials=settings.current.own_account, tls=settings.current.own_tls)
        self.registration = Registration(
            settings.current,
            clock,
            self.remoting,
            tables.topics,
            address=ports.address,
            ha_address=ports.ha_address(ha_port),
        )
        self.parts = Parts(
            settings=settings,
            clock=clock,
            round=ports.round,
            store=store,
            reads=reads,
            tables=tables,
            clients=ClientRegistry(settings.current),
            followers=TableFollowers(tables, clock),
            stats=BrokerStats(tables.topics, clock.now(), asyncio.get_running_loop().call_soon),
            signals=signals,
            offset_moved=OffsetMoved(),
            address=ports.address,
            store_host=ports.store_host,
            figures=self.figures,
            register=self.registration.register_everywhere,
            files=files,
            standing=standing or Standing(),
            lives=TopicLives(deleted_at, lambda: store.min_physical_offset),
            access=ports.access,
            accounts=ports.accounts,
            access_log=ports.access_log,
        )
        self.reading = ReadSide(self.parts, ports)
        ports.answer(self.reading.handlers, reads)
        if (reader := self.reading.pulls.plain.reader) is not None:
            pulls = QuickPulls(self.parts, self.reading.pulls, reader)
            ports.answer_quickly(pulls.answer, pulls.begin_pass if pulls.has_passes else None)

    async def __aenter__(self) -> Self:
        """Accept connections and register; raise RemotingError if a port was taken by another process meanwhile."""
        async with AsyncExitStack() as stack:
            await self._ports.listen()
            await stack.enter_async_context(self.remoting)
            stack.callback(self.parts.settings.changed.subscribe(self.registration.configure))
            await self.registration.start()
            stack.push_async_callback(self.registration.stop)
            self.remoting.on_disconnect = self.registration.disconnected
            await stack.enter_async_context(self.reading)
            self._exit = stack.pop_all()
        self.is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.is_open = False
        await self._exit.aclose()

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.parts.name

    @property
    def cluster(self) -> str:
        """The cluster that it belongs to."""
        return self.parts.config.cluster

    @property
    def address(self) -> str:
        """Where clients reach it: `host:port`."""
        return self._ports.address

    @property
    def registered_at(self) -> list[str]:
        """The name servers that know it."""
        return sorted(self.registration.registered)

    @property
    def connections(self) -> list[Connection]:
        """The connections that are open, at both ports."""
        return self._ports.connections

    @property
    def refusals(self) -> dict[str, int]:
        """How often requests were refused, by the name of the response code."""
        return refusals_by_cause(self._ports.refusals)

    @property
    def is_working(self) -> bool:
        """Whether threads work for answers that are not sent yet."""
        return self.reading.is_working

    def figures(self) -> Figures:
        """Return all figures of the broker."""
        return Figures(
            BoundFigures(_FIGURES, lambda: self), *self.reading.figures(), *self._ports.figures(), *self._more_figures()
        )


_FIGURES: Final[tuple[Figure[Service], ...]] = (
    Figure("name", "The broker's name.", Kind.TEXT, lambda service: service.name),
    Figure("cluster", "The cluster that it belongs to.", Kind.TEXT, lambda service: service.cluster),
    Figure("address", "Where clients reach it.", Kind.TEXT, lambda service: service.address),
    Figure("registered_at", "The name servers that know it.", Kind.TEXT, lambda service: service.registered_at),
    Figure("connections", "Open connections, at both ports.", Kind.GAUGE, lambda service: len(service.connections)),
    Figure(
        "requests_refused",
        "Requests answered with an error, by its cause.",
        Kind.COUNTER,
        lambda service: service.refusals,
        label="cause",
    ),
)
