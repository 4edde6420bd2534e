"""The reading side of a broker: tables, pulls, offsets, clients, administration and registration, over any store.

A broker adds the sending side (server.py); a directory that is only served has nothing to add (read_only.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Self

from pyromq.broker.clients.client_registry import ClientRegistry, QueueLockTable
from pyromq.broker.clients.client_requests import ClientHandlers
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.config.live_settings import LiveSettings
from pyromq.broker.config.public_address import (
    join_address,
    machine_host,
    refuse_hidden_loopback,
    resolve,
    split_address,
)
from pyromq.broker.messages.send import BORN_HOST
from pyromq.broker.pulls.offset_requests import OffsetHandlers
from pyromq.broker.pulls.pull import PullHandler
from pyromq.broker.pulls.selection import Selection
from pyromq.broker.registration import Registration
from pyromq.broker.requests import REQUESTS
from pyromq.broker.stats.broker_stats import SAMPLE_PERIOD, BrokerStats
from pyromq.broker.stats.runtime_info import BrokerRun
from pyromq.broker.stats.store_figures import disk_figures, log_figures
from pyromq.broker.tables.all_tables import Tables
from pyromq.broker.tools.administration import Administration
from pyromq.clock import Clock
from pyromq.errors import LocalProtocolError
from pyromq.figures import BoundFigures, Figure, Figures, Kind
from pyromq.protocol.messages.hosts import IPV4_HOST_LENGTH, encode_host
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection, Handler
from pyromq.remoting.requests import Cost
from pyromq.remoting.round import Round
from pyromq.remoting.server import RemotingServer
from pyromq.remoting.ticker import Ticker
from pyromq.store.files import OsFiles
from pyromq.store.read.readable import ReadableStore

logger = logging.getLogger(__name__)

CLIENT_SCAN_PERIOD = 10.0
HA_PORT_ABOVE = 1


class ReadSide:
    """A server on two ports over a store that a subclass opens; an async context manager that serves while open."""

    store: ReadableStore

    def __init__(self, config: BrokerConfig, clock: Clock, files: OsFiles | None = None) -> None:
        self.config = config
        self.settings = LiveSettings(config)
        self.name = config.name
        self._clock = clock
        self._files = files

    @property
    def port(self) -> int:
        """The port it listens on, also where any free one was asked for."""
        return self._main.port

    @property
    def fast_port(self) -> int:
        """The port that serves everything but pulls."""
        return self._fast.port

    @property
    def address(self) -> str:
        """Where clients reach it: `host:port`."""
        return join_address(self._host, self.port)

    def problem(self) -> str:
        """Return why this broker is not well; empty if it is."""
        if self.config.namesrv and not self._registration.registered:
            return f"not registered at any name server of {self.config.namesrv_addr}"
        return ""

    def http_info(self) -> dict[str, Any]:
        """Return what /varz shows of this broker."""
        return self.figures().varz()

    @property
    def registered_at(self) -> list[str]:
        """The name servers that know this broker."""
        return sorted(self._registration.registered)

    @property
    def connections(self) -> int:
        """How many connections are open, at both ports."""
        return len(self._main.connections) + len(self._fast.connections)

    def figures(self) -> Figures:
        """Return all figures of this broker."""
        return Figures(*self._figure_parts())

    def _figure_parts(self) -> list[BoundFigures[Any]]:
        # In the order of RocketMQ's runtime information; /varz has the same.
        return [
            BoundFigures(_FIGURES, lambda: self),
            self._run.figures(),
            self.topics.figures(),
            self.groups.figures(),
            self.clients.figures(),
            self._pulls.waiting.figures(),
            log_figures(self.store),
            disk_figures(self.store, self.config.store),
            self.stats.figures(),
            self.offsets.figures(),
            self._tables.expressions.functions.figures(),
            self._client_handlers.agreement.figures(),
        ]

    async def __aenter__(self) -> Self:
        """Open the store, listen, register; raise ConfigError, StoreError or RemotingError where that fails."""
        async with AsyncExitStack() as stack:
            self._load_settings()
            await self._find_host()
            self._open_store(stack)
            self._open_tables(stack)
            self._build_handlers()
            await self._listen(stack)
            await self._register(stack)
            self._start_housekeeping(stack)
            self._exit = stack.pop_all()
        logger.info("broker ready name=%s address=%s fast port=%d", self.name, self.address, self.fast_port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()
        logger.info("broker stopped name=%s", self.name)

    def _load_settings(self) -> None:
        """Set `settings` and `config`, where changes were made before a restart."""

    async def _find_host(self) -> None:
        self._host = self.config.public_host or machine_host()
        self._ip = await resolve(self._host, "brokerIP1")
        await refuse_hidden_loopback(self._host, self.config.namesrv)

    def _open_store(self, stack: AsyncExitStack) -> None:
        """Set `store`; what has to be closed goes on the stack."""
        raise NotImplementedError

    def _open_tables(self, stack: AsyncExitStack) -> None:
        self._tables = self._make_tables()
        self._tables.load()
        stack.push_async_callback(self._tables.close)
        self.topics, self.groups, self.offsets = self._tables.topics, self._tables.groups, self._tables.offsets

    def _make_tables(self) -> Tables:
        return Tables(self.config, self._clock.now_ms, self._files)

    def _build_handlers(self) -> None:
        config, clock = self.config, self._clock
        self._round = Round(asyncio.get_running_loop())
        self._run = BrokerRun(config, clock)
        self.clients = ClientRegistry()
        self.stats = BrokerStats(self.topics, clock.now(), asyncio.get_running_loop().call_soon)
        self._pulls = PullHandler(
            config,
            clock,
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            selection=Selection(
                self.clients,
                self._tables.filters,
                self._tables.expressions,
                filter_retries=config.filter_retries,
            ),
            offsets=self.offsets,
            stats=self.stats,
        )
        self._client_handlers = ClientHandlers(
            clock,
            _version(),
            clients=self.clients,
            groups=self.groups,
            topics=self.topics,
            locks=QueueLockTable(),
            registered=self._tables.filters,
            filters=self._tables.expressions,
            notify_changes=config.notify_consumer_changes,
        )
        self.settings.listeners += [
            self.topics.configure,
            self.groups.configure,
            self._pulls.configure,
            self._client_handlers.configure,
        ]
        self._handlers = REQUESTS.handlers(*self._answering())

    def _answering(self) -> list[object]:
        """Return the objects that answer requests."""
        self._administration = Administration(
            self.settings,
            self._clock,
            store=self.store,
            tables=self._tables,
            clients=self.clients,
            stats=self.stats,
            figures=self.figures,
            address=lambda: self.address,
            register=lambda: self._registration.register_everywhere(),
        )
        return [
            self._pulls,
            OffsetHandlers(store=self.store, topics=self.topics, offsets=self.offsets),
            self._client_handlers,
            *self._administration.parts,
        ]

    async def _listen(self, stack: AsyncExitStack) -> None:
        pulls = REQUESTS.codes(lambda row: row.cost is Cost.PULL)
        self._fast_handlers = {code: handler for code, handler in self._handlers.items() if code not in pulls}
        self._main = await stack.enter_async_context(self._server(self._handlers, self.config.port))
        self._fast = await stack.enter_async_context(self._server(self._fast_handlers, self.config.fast_port))

    def _server(self, handlers: dict[int, Handler], port: int) -> RemotingServer:
        return RemotingServer(
            handlers,
            host=self.config.host,
            port=port,
            clock=self._clock,
            round=self._round,
            idle_timeout=self.config.idle_timeout,
            on_connect=_connected,
            on_disconnect=self._disconnected,
        )

    async def _register(self, stack: AsyncExitStack) -> None:
        ha_host = self.config.ha_host or self._host
        remoting = await stack.enter_async_context(RemotingClient(self._clock))
        self._registration = Registration(
            self.config,
            self._clock,
            remoting,
            self.topics,
            address=self.address,
            ha_address=join_address(ha_host, self.port + HA_PORT_ABOVE),
        )
        self.settings.listeners.append(self._registration.configure)
        await self._registration.start()
        stack.push_async_callback(self._registration.stop)

    def _start_housekeeping(self, stack: AsyncExitStack) -> None:
        for period, work in (
            (CLIENT_SCAN_PERIOD, self._client_handlers.expire),
            (SAMPLE_PERIOD, lambda: self.stats.sample(self._clock.now())),
            (self.config.offset_save_period, self._tables.save),
        ):
            ticker = Ticker(self._clock, period, _for_ever(work))
            ticker.start()
            stack.callback(ticker.stop)

    def _disconnected(self, connection: Connection) -> None:
        self._pulls.waiting.drop(connection)
        self._client_handlers.connection_closed(connection)


_FIGURES: tuple[Figure[ReadSide], ...] = (
    Figure("name", "The broker's name.", Kind.TEXT, lambda broker: broker.name),
    Figure("cluster", "The cluster that it belongs to.", Kind.TEXT, lambda broker: broker.config.cluster),
    Figure("address", "Where clients reach it.", Kind.TEXT, lambda broker: broker.address),
    Figure("registered_at", "The name servers that know it.", Kind.TEXT, lambda broker: broker.registered_at),
    Figure("connections", "Open connections, at both ports.", Kind.GAUGE, lambda broker: broker.connections),
)


def _connected(connection: Connection) -> None:
    connection.attributes[BORN_HOST] = _born_host(connection.peer)


def _born_host(peer: str) -> bytes:
    try:
        return encode_host(*split_address(peer))
    except (ValueError, LocalProtocolError):
        return bytes(IPV4_HOST_LENGTH)  # it went before its address could be asked


def _for_ever(work: Callable[[], None]) -> Callable[[], bool]:
    """Make a sweep that never ends of something to do again and again."""

    def sweep() -> bool:
        work()
        return True

    return sweep


def _version() -> str:
    try:
        return version("pyromq")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"
