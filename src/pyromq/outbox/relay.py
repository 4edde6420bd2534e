"""Relay: one pass over the waiting rows. Rows of one topic and order key are sent one after the other."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection

from pyromq.client.send.producer import Producer
from pyromq.errors import NoRoute, PyroMQError
from pyromq.outbox.lease import RelayLease
from pyromq.outbox.rows import OutboxRow, OutboxTable
from pyromq.protocol.messages.message import Message, MessageQueue

logger = logging.getLogger(__name__)

T = TypeVar("T")


class InTransaction(Protocol):
    """Runs a function in a transaction of its own."""

    def __call__(self, function: Callable[[Connection], T]) -> Awaitable[T]: ...


_TIMEOUT: Final = 3.0
"""Of one send, in seconds; the lease counts on it."""


class Relay:
    """Sends what waits in a table."""

    def __init__(self, table: OutboxTable, lease: RelayLease, batch: int) -> None:
        self._table = table
        self._lease = lease
        self._batch = batch
        self._turn = 0
        self.is_failing = False
        """Whether a row of the last pass could not be sent."""

    async def send_some(self, transact: InTransaction, producer: Producer) -> int:
        """Send the oldest rows and delete those that are stored; return how many these are."""
        rows = await transact(self._claim)
        chains: defaultdict[tuple[str, str | None], list[OutboxRow]] = defaultdict(list)
        for row in rows:
            chains[row.message.topic, row.order_key].append(row)
        self.is_failing = False
        stored: list[int] = []
        try:
            async with asyncio.TaskGroup() as group:
                for chain in chains.values():
                    group.create_task(self._send_chain(chain, producer, stored))
        finally:
            if stored:
                await asyncio.shield(_removed(transact, self._table, stored))
        return len(stored)

    def _claim(self, connection: Connection) -> list[OutboxRow]:
        """Return the rows to send; none if another process sends. They are marked before anything is sent."""
        if not self._lease.take(connection):
            return []
        rows = self._table.first(connection, self._batch)
        new = [row.id for row in rows if not row.is_tried]
        if new:
            self._table.mark_tried(connection, new)
        return rows

    async def _send_chain(self, chain: list[OutboxRow], producer: Producer, stored: list[int]) -> None:
        for row in chain:
            if not self._lease.is_held:
                return
            try:
                await self._send(row, producer)
            except PyroMQError as error:
                self.is_failing = True
                logger.warning("message %s of the outbox waits: %s", row.message_id, error)
                return  # those behind it keep their place
            stored.append(row.id)

    async def _send(self, row: OutboxRow, producer: Producer) -> None:
        if row.is_tried and await _is_stored(row, producer):
            return
        # With a queue or an order key a send is tried once: one that is tried again elsewhere could be stored twice.
        select = self._next_queue if row.order_key is None else None
        await producer.send(
            row.message, order_key=row.order_key, select=select, message_id=row.message_id, timeout=_TIMEOUT
        )

    def _next_queue(self, queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        self._turn += 1
        return queues[self._turn % len(queues)]


async def _removed(transact: InTransaction, table: OutboxTable, ids: list[int]) -> None:
    await transact(lambda connection: table.remove(connection, ids))


async def _is_stored(row: OutboxRow, producer: Producer) -> bool:
    try:
        return await producer.find(row.message.topic, row.message_id) is not None
    except NoRoute:
        return False  # no broker has the topic yet: the first send creates it, or says what is wrong
