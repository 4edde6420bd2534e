"""ReadSide: what every broker has. It answers pulls, offsets, clients and administrators, over any store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

from pyromq.broker.clients.client_requests import ClientHandlers
from pyromq.broker.parts import Parts
from pyromq.broker.pulls.message_query import QueryHandler
from pyromq.broker.pulls.offset_requests import OffsetHandlers
from pyromq.broker.pulls.pull import PullHandler
from pyromq.broker.sides.ports import Ports
from pyromq.broker.stats.broker_stats import SAMPLE_PERIOD
from pyromq.broker.stats.group_lag import GroupLags
from pyromq.broker.stats.runtime_info import BrokerRun
from pyromq.broker.stats.series import BrokerSeries
from pyromq.broker.stats.store_figures import disk_figures, log_figures
from pyromq.broker.tools.administration import administration
from pyromq.figures import BoundFigures
from pyromq.protocol.release import release
from pyromq.remoting.connection import Connection
from pyromq.remoting.ticker import Ticker

CLIENT_SCAN_PERIOD = 10.0


class ReadSide:
    """Built over the parts of a broker; an async context manager that keeps house while it is open.

    `handlers` answer the requests that read, and those of clients and administrators.
    """

    def __init__(self, parts: Parts, ports: Ports) -> None:
        self._parts = parts
        self._ports = ports
        self._run = BrokerRun(parts.config, parts.clock)
        self.pulls = PullHandler(parts)
        self.clients = ClientHandlers(parts, release())
        self._queries = QueryHandler(parts)
        self.lags = GroupLags(parts)
        self.series = BrokerSeries(parts, self.lags)
        self.handlers: Final[list[object]] = [
            self.pulls,
            OffsetHandlers(parts),
            self._queries,
            self.clients,
            *administration(parts),
        ]

    @property
    def is_working(self) -> bool:
        """Whether threads work for answers that are not sent yet."""
        return self._queries.is_working or self._parts.reads.workers.unfinished > 0

    def figures(self) -> list[BoundFigures[Any]]:
        """Return the figures of a broker that reads, in the order of RocketMQ's runtime information."""
        parts = self._parts
        return [
            self._run.figures(),
            parts.topics.figures(),
            parts.groups.figures(),
            parts.clients.figures(),
            parts.tables.filters.figures(),
            self.pulls.waiting.figures(),
            log_figures(parts.store),
            disk_figures(parts.store, parts.config.store),
            parts.reads.figures(),
            parts.stats.figures(),
            parts.offsets.figures(),
            parts.tables.expressions.functions.figures(),
            self.clients.agreement.figures(),
            self.series.figures(),
        ]

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.callback(self._queries.close)
            stack.callback(self._ports.disconnected.subscribe(self._disconnected))
            stack.callback(self._parts.signals.arrived.subscribe(self.pulls.waiting.on_arrival))
            for part in (self._parts.topics, self._parts.groups, self.pulls, self.clients):
                stack.callback(self._parts.settings.changed.subscribe(part.configure))
            self._keep_house(stack)
            self.lags.start()
            stack.push_async_callback(self.lags.stop)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    def _keep_house(self, stack: AsyncExitStack) -> None:
        parts = self._parts
        for period, work in (
            (CLIENT_SCAN_PERIOD, self.clients.expire),
            (SAMPLE_PERIOD, lambda: parts.stats.sample(parts.clock.now(), parts.clock.monotonic())),
            (parts.config.offset_save_period, parts.tables.save),
        ):
            ticker = Ticker(parts.clock, period, _for_ever(work))
            ticker.start()
            stack.callback(ticker.stop)

    def _disconnected(self, connection: Connection) -> None:
        self.pulls.waiting.drop(connection)
        self.clients.connection_closed(connection)


def _for_ever(work: Callable[[], None]) -> Callable[[], bool]:
    """Make a sweep that never ends of something to do again and again."""

    def sweep() -> bool:
        work()
        return True

    return sweep
