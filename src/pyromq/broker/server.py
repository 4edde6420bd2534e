"""Broker: the reading side, and what it takes to send: it builds the parts in order and holds no logic of its own."""

from __future__ import annotations

import asyncio
import gc
from contextlib import AsyncExitStack

from pyromq.broker.acknowledgements import Acknowledgements
from pyromq.broker.handlers.send import SendHandler
from pyromq.broker.read_side import ReadSide
from pyromq.errors import ServiceNotAvailable
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.hosts import encode_host
from pyromq.remoting.connection import Connection, Handler
from pyromq.store.message_store import MessageStore


class Broker(ReadSide):
    """A broker on two ports; an async context manager that serves while it is open."""

    store: MessageStore

    def problem(self) -> str:
        """Return why this broker is not well; empty if it is."""
        return super().problem() if self.store.writable else "the store takes no messages"

    def _open_store(self, stack: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        self.store = MessageStore(
            self.config.store, self._clock.now_ms, self._files, call_threadsafe=loop.call_soon_threadsafe
        )
        stack.enter_context(self.store)

    def _handler_table(self) -> dict[int, Handler]:
        self.store.on_arrival = self._pulls.waiting.on_arrival
        self._acknowledgements = Acknowledgements(self.store, self._round, self.topics.saver)
        self._sends = SendHandler(
            self.config,
            store=self.store,
            topics=self.topics,
            groups=self.groups,
            acknowledgements=self._acknowledgements,
        )
        return {**self._sends.handlers(), **super()._handler_table()}

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


def settle_memory() -> None:
    """Collect what start-up left and freeze the rest: a full collection then no longer stops the loop.

    For a process that is a server and nothing else, once all its servers have started.
    """
    gc.collect()
    gc.freeze()


def _refuse(request: RemotingCommand, connection: Connection) -> None:
    raise ServiceNotAvailable("this broker is stopping")
