"""Broker: the reading side, and what it takes to send: it builds the parts in order and holds no logic of its own."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import AsyncExitStack
from typing import Any

from pyromq.broker.acknowledgements import Acknowledgements
from pyromq.broker.cleaning import Cleaning
from pyromq.broker.handlers.admin_store import StoreHandlers
from pyromq.broker.handlers.query import QueryHandler
from pyromq.broker.handlers.send import SendHandler
from pyromq.broker.placing import Placing
from pyromq.broker.read_side import ReadSide
from pyromq.broker.restoring import restore_tables
from pyromq.errors import ServiceNotAvailable
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.hosts import encode_host
from pyromq.remoting.connection import Connection, Handler
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)


class Broker(ReadSide):
    """A broker on two ports; an async context manager that serves while it is open."""

    store: MessageStore

    def problem(self) -> str:
        """Return why this broker is not well; empty if it is."""
        return super().problem() if self.store.writable else f"the store takes no messages: {self.store.refusal()}"

    def http_info(self) -> dict[str, Any]:
        """Return facts about this broker, for people with curl."""
        return super().http_info() | {
            "flush_disk_type": self.config.store.flush_disk_type,
            "unflushed_bytes": self.store.max_physical_offset - self.store.flushed_offset,
            "unflushed_ms": round(self.store.unflushed_ms, 1),
            "max_unflushed_ms": round(self.store.max_unflushed_ms, 1),
            "damaged_ranges": len(self.store.fences),
            "damaged_messages_left_out": self.store.fences.skipped,
            "disk_used_percent": self.store.cleaner.retention.disk_percent,
        }

    def _open_store(self, stack: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        self.store = MessageStore(
            self.config.store, self._clock.now_ms, self._files, call_threadsafe=loop.call_soon_threadsafe
        )
        stack.enter_context(self.store)
        logger.info(loss_window(self.config.store))

    def _open_tables(self, stack: AsyncExitStack) -> None:
        super()._open_tables(stack)
        restore_tables(self._tables, self.store)

    def _handler_table(self) -> dict[int, Handler]:
        self.store.on_arrival = self._pulls.waiting.on_arrival
        self._acknowledgements = Acknowledgements(
            self.store, self._round, self.topics.saver, self._clock, self.config.sync_flush_timeout
        )
        self._placing = Placing()
        self._sends = SendHandler(
            self.config,
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            acknowledgements=self._acknowledgements,
            placing=self._placing,
        )
        self._cleaning = Cleaning(self.store.cleaner, self._clock, self.config.cleaning_period)
        store_handlers = StoreHandlers(
            self.store.cleaner, self._cleaning, self.topics, lambda: self._registration.register_everywhere()
        )
        return {
            **self._sends.handlers(),
            **QueryHandler(self.store).handlers(),
            **store_handlers.handlers(),
            **super()._handler_table(),
        }

    def _start_housekeeping(self, stack: AsyncExitStack) -> None:
        super()._start_housekeeping(stack)
        self._cleaning.start()
        stack.callback(self._cleaning.stop)

    async def _listen(self, stack: AsyncExitStack) -> None:
        await super()._listen(stack)
        self._sends.store_host = encode_host(self._ip, self.port)
        stack.push_async_callback(self._stop_sends)

    async def _stop_sends(self) -> None:
        """Take no more messages, and let the answers leave that still wait for the disk."""
        for handlers in (self._handlers, self._fast_handlers):
            handlers.update(dict.fromkeys(self._sends.handlers(), _refuse))
        self._pulls.waiting.close()
        await self._acknowledgements.drained()


def loss_window(config: StoreConfig) -> str:
    """Say what an acknowledged message survives."""
    if config.flush_disk_type == "SYNC_FLUSH":
        return "SYNC_FLUSH: a message is on disk when it is acknowledged; a power cut takes none"
    return (
        f"ASYNC_FLUSH: a power cut can take what was acknowledged in the last {config.flush_interval_ms} ms"
        " and during one flush; the death of this process takes nothing"
    )


def settle_memory() -> None:
    """Collect what start-up left and freeze the rest: a full collection then no longer stops the loop.

    For a process that is a server and nothing else, once all its servers have started.
    """
    gc.collect()
    gc.freeze()


def _refuse(request: RemotingCommand, connection: Connection) -> None:
    raise ServiceNotAvailable("this broker is stopping")
