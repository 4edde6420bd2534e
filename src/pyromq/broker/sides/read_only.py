"""A directory or a backup, offered read-only: the reading side of a broker over files that belong to somebody else.

Nothing is written. Groups and their commits are taken, or a consumer could not work, and are forgotten at the end;
they begin at what `config/consumerOffset.json` says. Whatever else would change something is refused with
NO_PERMISSION. The directory is looked at again every second: if a live broker writes it, its messages follow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from pyromq.broker.config.broker_config import HA_PORT_ABOVE, BrokerConfig
from pyromq.broker.config.live_settings import LiveSettings
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.sides.ports import Ports
from pyromq.broker.sides.service import Service
from pyromq.broker.signals import StoreSignals
from pyromq.broker.tables.all_tables import Tables
from pyromq.clock import Clock
from pyromq.errors import NoPermission, StoreError
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.remoting.ticker import Ticker
from pyromq.store.consume_queue import ENTRY
from pyromq.store.read.reader import StoreReader
from pyromq.store.results import Arrival

logger = logging.getLogger(__name__)

LOOK_PERIOD = 1.0
MOST_ARRIVALS = 10_000  # of a queue at a time; a held pull needs one that it wants
SHARE_OF_TIME = 10  # looking may take a tenth of the time: a large directory is looked at less often


class ReadOnlyBroker:
    """Serves a directory to any client that reads; `config.store.root` says where its tables are."""

    def __init__(self, config: BrokerConfig, clock: Clock, store: StoreReader) -> None:
        self.config = config
        self.store = store
        self._clock = clock
        self._looking: asyncio.Task[None] | None = None
        self._rest = 0

    @property
    def address(self) -> str:
        """Where clients reach it: `host:port`."""
        return self._service.address

    async def __aenter__(self) -> Self:
        """Serve the directory; raise ConfigError, StoreError or RemotingError where that fails."""
        async with AsyncExitStack() as stack:
            stack.callback(self.store.close)
            ports = await stack.enter_async_context(Ports(self.config, self._clock, is_read_only=True))
            reads = DiskReads(self.store)
            stack.push_async_callback(reads.close)
            self._service = await stack.enter_async_context(self._new_service(ports, reads))
            self._follow_the_directory(stack)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    def _new_service(self, ports: Ports, reads: DiskReads) -> Service:
        tables = Tables(self.config, self._clock.now_ms, read_only=True)
        tables.load()
        self._topics = tables.topics
        self._add_topics()
        service = Service(
            LiveSettings(self.config),
            self._clock,
            ports=ports,
            store=self.store,
            reads=reads,
            tables=tables,
            signals=StoreSignals(),
            ha_port=ports.port + HA_PORT_ABOVE,
        )
        ports.refuse_writes(_refuse)
        self._pulls = service.reading.pulls
        return service

    def _follow_the_directory(self, stack: AsyncExitStack) -> None:
        ticker = Ticker(self._clock, LOOK_PERIOD, self._look)
        ticker.start()
        stack.push_async_callback(self._stop_looking)
        stack.callback(ticker.stop)

    def _add_topics(self) -> None:
        """Add what the table of topics lacks and the queues show: a copy may hold more than its table knew."""
        for topic in self.store.topics:
            self._topics.ensure(topic, max(self.store.queue_ids(topic), default=0) + 1, "found in its consume queues")

    def _look(self) -> bool:
        self._rest -= 1
        if self._rest < 0 and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._follow())
        return True

    async def _follow(self) -> None:
        """Take over what has become visible, and wake the pulls that wait for it."""
        began = time.perf_counter_ns()
        try:
            view = await asyncio.to_thread(self.store.scan)
        except StoreError as error:
            logger.warning("cannot look at the directory again: %s", error)
            return
        before = self._ends()
        self.store.show(view)
        self._add_topics()
        if len(self._pulls.waiting):
            self._wake(before)
        self._rest = int((time.perf_counter_ns() - began) / 1e9 / LOOK_PERIOD * SHARE_OF_TIME)

    def _wake(self, before: dict[tuple[str, int], int]) -> None:
        for (topic, queue_id), end in self._ends().items():
            start = before.get((topic, queue_id), 0)
            if end > start:
                self._pulls.waiting.on_arrival(self._arrivals(topic, queue_id, start, start + MOST_ARRIVALS))

    def _ends(self) -> dict[tuple[str, int], int]:
        return {
            (topic, queue_id): self.store.max_offset(topic, queue_id)
            for topic in self.store.topics
            for queue_id in self.store.queue_ids(topic)
        }

    def _arrivals(self, topic: str, queue_id: int, start: int, end: int) -> list[Arrival]:
        entries = ENTRY.iter_unpack(self.store.raw_entries(topic, queue_id, start, end))
        return [Arrival(topic, queue_id, offset, code) for offset, (_, _, code) in enumerate(entries, start)]

    async def _stop_looking(self) -> None:
        if self._looking is not None:
            await self._looking


def _refuse(request: RemotingCommand, connection: Connection) -> None:
    raise NoPermission("this directory is served read-only: nothing in it can be changed, and nothing sent to it")
