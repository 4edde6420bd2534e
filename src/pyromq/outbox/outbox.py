"""Outbox: messages that are committed together with business rows, and sent afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine, MetaData
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session

from pyromq.client.net.message_ids import message_ids
from pyromq.client.send.producer import Producer
from pyromq.clock import Clock, SystemClock
from pyromq.errors import ClientError
from pyromq.outbox.lease import RelayLease
from pyromq.outbox.relay import Relay
from pyromq.outbox.rows import TABLE, OutboxTable
from pyromq.protocol.messages.message import Message

T = TypeVar("T")

_PATIENCE: Final = 1.0
"""Seconds to wait after a row could not be sent: a broker that stored it has indexed it by then."""


class Outbox:
    """Sends each message that was added in a committed transaction, once, in the order of the additions.

    >>> outbox = Outbox(engine)
    >>> with engine.begin() as connection:
    ...     connection.execute(insert(orders).values(id="o-1"))
    ...     outbox.add(connection, Message(topic="orders", body=b"...", keys=["o-1"]), order_key="o-1")
    >>> async with Producer("shop") as producer:
    ...     await outbox.run(producer)  # in this process or in another one, until cancelled

    The order is that of the additions for messages of one topic and order key; transactions that overlap have none.
    `add` takes a connection or a session; with SQLAlchemy's async ones write
    `await session.run_sync(outbox.add, message)`. Any number of processes may call `run`: one of them sends.
    """

    def __init__(
        self, engine: Engine | AsyncEngine, *, table: str = TABLE, batch: int = 200, clock: Clock | None = None
    ) -> None:
        if not isinstance(engine, Engine | AsyncEngine):
            raise ClientError(f"Outbox needs SQLAlchemy's engine, create_engine(url), not {type(engine).__name__}")
        self.metadata = MetaData()
        """The tables, for migrations; `metadata.create_all(engine)` creates them."""
        self._engine = engine
        self._clock = clock or SystemClock()
        self._ids = message_ids()
        self._table = OutboxTable(self.metadata, table)
        self._lease = RelayLease(self.metadata, table, self._clock)
        self._relay = Relay(self._table, self._lease, batch)

    async def create_tables(self) -> None:
        """Create the tables if they do not exist."""
        await self._run(lambda connection: self.metadata.create_all(connection))

    def add(self, connection: Connection | Session, message: Message, *, order_key: str | None = None) -> str:
        """Let a message wait in the transaction of a connection or session; return its id.

        Raises InvalidMessage at once if no broker would take it. It is sent if the transaction commits.
        """
        message.check()
        now_ms = self._clock.now_ms()
        message_id = self._ids.next(now_ms)
        self._table.add(connection, message, message_id, order_key, now_ms)
        return message_id

    async def run(self, producer: Producer, *, poll: float = 0.5) -> None:
        """Send what is committed until cancelled; look for more every `poll` seconds."""
        try:
            while True:
                if not await self._send_some(producer):
                    await self._clock.sleep(_PATIENCE if self._relay.is_failing else poll)
        finally:
            if self._lease.is_held:
                await asyncio.shield(self._run(self._lease.give_back))

    async def send_waiting(self, producer: Producer) -> int:
        """Send all that waits now; return how many messages were stored. For jobs and tests, instead of `run`."""
        total = 0
        while sent := await self._send_some(producer):
            total += sent
        return total

    async def waiting(self) -> int:
        """Return how many messages are committed and not sent yet."""
        return await self._run(self._table.count)

    async def _send_some(self, producer: Producer) -> int:
        return await self._relay.send_some(self._run, producer)

    async def _run(self, function: Callable[[Connection], T]) -> T:
        """Run a function in a transaction of its own."""
        if isinstance(self._engine, AsyncEngine):
            async with self._engine.begin() as connection:
                return await connection.run_sync(function)
        return await asyncio.to_thread(self._run_here, self._engine, function)

    @staticmethod
    def _run_here(engine: Engine, function: Callable[[Connection], T]) -> T:
        with engine.begin() as connection:
            return function(connection)
