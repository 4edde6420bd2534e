"""Broker: the reading side, and what it takes to send: it builds the parts in order and holds no logic of its own."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import AsyncExitStack
from typing import Any

from pyromq.broker.cleaning import Cleaning, StoreHandlers
from pyromq.broker.config.live_settings import LiveSettings
from pyromq.broker.delay.levels.delay_offsets import DelayOffsets
from pyromq.broker.delay.levels.schedule import Schedule
from pyromq.broker.delay.timer.timer_service import TimerService
from pyromq.broker.durability import Durability, loss_window
from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.messages.dead_letter_watch import DeadLetterWatch
from pyromq.broker.messages.deferred_messages import DeferredMessages
from pyromq.broker.messages.flow_control import SendFlowControl
from pyromq.broker.messages.reply import ReplyHandler
from pyromq.broker.messages.send import SendHandler
from pyromq.broker.messages.send_back import SendBackHandler
from pyromq.broker.pulls.message_query import QueryHandler
from pyromq.broker.pulls.offset_moved_events import OffsetMovedEvents
from pyromq.broker.pulls.pull_queues import PullQueuesHandler
from pyromq.broker.read_side import ReadSide
from pyromq.broker.requests import REQUESTS
from pyromq.broker.signals import StoreSignals
from pyromq.broker.stats.store_figures import writing_figures
from pyromq.broker.tables.all_tables import restore_tables
from pyromq.broker.transactions.transaction_service import TransactionService
from pyromq.errors import ServiceNotAvailable
from pyromq.figures import BoundFigures
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.messages.hosts import encode_host
from pyromq.remoting.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.json_file import JsonFile

logger = logging.getLogger(__name__)


class Broker(ReadSide):
    """A broker on two ports; an async context manager that serves while it is open."""

    store: MessageStore

    def problem(self) -> str:
        """Return why this broker is not well; empty if it is."""
        return super().problem() if self.store.writable else f"the store takes no messages: {self.store.refusal()}"

    def _figure_parts(self) -> list[BoundFigures[Any]]:
        return [
            *super()._figure_parts(),
            writing_figures(self.store),
            self._transactions.figures(),
            self._timer.figures(),
            self._flow.figures(),
            self._schedule.figures(),
        ]

    def _load_settings(self) -> None:
        path = self.config.store.root / "config" / "changedSettings.json"
        self.settings = LiveSettings(self.config, JsonFile(path, self._files))
        self.settings.load()
        self.config = self.settings.current

    def _open_store(self, stack: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        self._signals = StoreSignals()
        self.store = MessageStore(
            self.config.store,
            self._clock.now_ms,
            self._files,
            call_threadsafe=loop.call_soon_threadsafe,
            on_arrival=self._signals.arrived,
            on_durable=self._signals.durable,
            on_failure=self._signals.failed,
        )
        stack.enter_context(self.store)
        logger.info(loss_window(self.config.store))

    def _open_tables(self, stack: AsyncExitStack) -> None:
        super()._open_tables(stack)
        restore_tables(self._tables, self.store)

    def _answering(self) -> list[object]:
        self._build_storing()
        self._build_delays()
        self._build_sends()
        self._build_transactions()
        self._follow_settings()
        return [
            self._sends,
            self._send_backs,
            self._replies,
            self._transactions.requests,
            self._timer.requests,
            QueryHandler(self.store),
            PullQueuesHandler(self.store, self._pulls, self.stats),
            self._cleaning_handlers(),
            *super()._answering(),
        ]

    def _build_storing(self) -> None:
        self._signals.arrived.subscribe(self._pulls.waiting.on_arrival)
        self._durability = Durability(self.store, self._signals)
        self._acknowledgements = Acknowledgements(
            self.store, self._durability, self._round, self.topics.saver, self._clock, self.config.sync_flush_timeout
        )
        self._flow = SendFlowControl(
            self._round,
            self.store,
            wait_limit=self.config.send_wait_limit if self.config.fast_failure else None,
            write_limit=self.config.slow_write_limit,
        )
        self._offset_events = OffsetMovedEvents(
            self.name,
            self._clock,
            store=self.store,
            topics=self.topics,
            acknowledgements=self._acknowledgements,
        )
        self._pulls.on_offset_moved = self._offset_events.moved

    def _build_delays(self) -> None:
        self._placing = DeferredMessages()
        self._schedule = Schedule(
            self.store,
            self.topics,
            DelayOffsets(JsonFile(self.config.store.root / "config" / "delayOffset.json", self._files)),
            self._durability,
            self._acknowledgements,
            self._clock,
        )
        self._schedule.load()
        self._placing.delay = self._schedule.place
        self._timer = TimerService(
            self._clock,
            self._files,
            store=self.store,
            topics=self.topics,
            durability=self._durability,
            acknowledgements=self._acknowledgements,
            placing=self._placing,
        )

    def _build_sends(self) -> None:
        self._sends = SendHandler(
            self.config,
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            durability=self._durability,
            acknowledgements=self._acknowledgements,
            placing=self._placing,
            flow=self._flow,
        )
        self._send_backs = SendBackHandler(
            self.config,
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            acknowledgements=self._acknowledgements,
            placing=self._placing,
            stats=self.stats,
        )
        self._replies = ReplyHandler(
            self.config,
            self._clock,
            store=self.store,
            clients=self.clients,
            sends=self._sends,
            acknowledgements=self._acknowledgements,
            stats=self.stats,
        )

    def _build_transactions(self) -> None:
        self._transactions = TransactionService(
            self.config,
            self._clock,
            store=self.store,
            topics=self.topics,
            offsets=self.offsets,
            clients=self.clients,
            durability=self._durability,
            acknowledgements=self._acknowledgements,
            placing=self._placing,
        )

    def _follow_settings(self) -> None:
        self.settings.listeners += [
            self._sends.configure,
            self._send_backs.configure,
            self._replies.configure,
            self._transactions.configure,
            lambda config: self.store.cleaner.configure(config.store),
        ]

    def _cleaning_handlers(self) -> StoreHandlers:
        self._cleaning = Cleaning(self.store.cleaner, self._clock, self.config.cleaning_period)
        return StoreHandlers(
            self.store.cleaner, self._cleaning, self.topics, lambda: self._registration.register_everywhere()
        )

    def _start_housekeeping(self, stack: AsyncExitStack) -> None:
        super()._start_housekeeping(stack)
        self._cleaning.start()
        stack.callback(self._cleaning.stop)
        watch = DeadLetterWatch(
            self.store, self.topics, self._clock, lambda: self.settings.current.store.file_reserved_hours
        )
        watch.start()
        stack.callback(watch.stop)
        self._schedule.start()
        stack.callback(self._schedule.stop)
        self._timer.start()
        stack.push_async_callback(self._timer.stop)
        self._transactions.start()
        stack.push_async_callback(self._transactions.stop)

    async def _listen(self, stack: AsyncExitStack) -> None:
        await super()._listen(stack)
        self._sends.store_host = self._offset_events.store_host = encode_host(self._ip, self.port)
        self._transactions.transactions.store_host = self._sends.store_host
        stack.push_async_callback(self._stop_sends)

    async def _stop_sends(self) -> None:
        """Take no more messages, and let the answers leave that still wait for the disk."""
        refused = dict.fromkeys(REQUESTS.codes(lambda row: row.writes), _refuse)
        for handlers in (self._handlers, self._fast_handlers):
            handlers.update(refused)
        self._pulls.waiting.close()
        await self._acknowledgements.drained()
        await self._schedule.close()


def settle_memory() -> None:
    """Collect what start-up left and freeze the rest: a full collection then no longer stops the loop.

    For a process that is a server and nothing else, once all its servers have started.
    """
    gc.collect()
    gc.freeze()


def _refuse(request: RemotingCommand, connection: Connection) -> None:
    raise ServiceNotAvailable("this broker is stopping")
