"""LateEnds: ends that need a search of the store. They answer a check, come late or again, or come after a restart.

A producer may end a transaction by any copy of its half message, the one it sent or one it was asked about, and may do
so more than once. What counts is the transaction, so all its copies are looked up, in batches:

    committed before     nothing more is written; copies that are still open are settled
    some copy is open    it is ended, and the other open copies are settled
    it was given up      a commit is still accepted; a rollback changes nothing
    else                 it has ended before, and nothing is written
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.transactions.half_messages import Identity, StoredHalf
from pyromq.broker.transactions.open_transactions import OpenTransactions
from pyromq.broker.transactions.transaction_history import RecordPlaces, TransactionHistory, TransactionPast
from pyromq.errors import BrokerError, PyroMQError, ServiceNotAvailable, StoreError, SystemBusy
from pyromq.protocol.headers.transactions import TransactionState

logger = logging.getLogger(__name__)

_AT_A_TIME: Final = 64
_MOST_WAITING: Final = 10_000

WhenDecided = Callable[[PyroMQError | None], None]
"""Called with None when an end joined the store's open group or had no effect, else with the error."""


class LateEnd(NamedTuple):
    """An end in the queue."""

    half: StoredHalf
    state: TransactionState
    when_decided: WhenDecided


class LateEnds:
    """Decides ends one after the other, so that no two can have the same effect."""

    def __init__(self, transactions: OpenTransactions, history: TransactionHistory, reads: DiskReads) -> None:
        self.repeated = 0
        """How many had no effect."""
        self._transactions = transactions
        self._history = history
        self._reads = reads
        self._waiting: deque[LateEnd] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def add(self, end: LateEnd) -> None:
        """Add an end to the queue; raise SystemBusy if it is full."""
        if self._stopped:
            raise ServiceNotAvailable("this broker is stopping")
        if len(self._waiting) >= _MOST_WAITING:
            raise SystemBusy(
                f"{_MOST_WAITING} ends of transactions are already waiting; this transaction will be checked again"
            )
        self._waiting.append(end)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="pyromq late ends")

    async def stop(self) -> None:
        """Stop deciding; the transactions stay open."""
        self._stopped = True
        self._waiting.clear()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(_AT_A_TIME, len(self._waiting)))]
                await self._decide_all(batch)
        except Exception:
            logger.exception("ends of transactions were lost; the transactions will be checked again")
        finally:
            self._task = None

    async def _decide_all(self, batch: list[LateEnd]) -> None:
        # The index does not have what is committed during the search or not stored yet: this set does.
        committed = self._transactions.committed_since = set(self._transactions.unstored)
        try:
            found = await asyncio.to_thread(self._find_all, batch)
            for end, places in zip(batch, found, strict=True):
                end.when_decided(await self._failure(end, places, committed))
        except StoreError as error:
            for end in batch:
                end.when_decided(error)
        finally:
            self._transactions.committed_since = None

    def _find_all(self, batch: list[LateEnd]) -> list[RecordPlaces]:
        return [self._history.find(end.half) for end in batch]

    async def _failure(self, end: LateEnd, places: RecordPlaces, committed: set[Identity]) -> PyroMQError | None:
        try:
            past = await self._reads.read(partial(self._history.read, end.half, places))
            self._decide(end, past, committed)
        except PyroMQError as error:
            return error
        return None

    def _decide(self, end: LateEnd, past: TransactionPast, committed: set[Identity]) -> None:
        transactions = self._transactions
        still_open = [copy for copy in past.copies if transactions.ledger.is_open(copy.queue_offset)]
        if past.is_committed or end.half.identity in committed:
            self._count_repeated(end)
        elif still_open:
            transactions.end(still_open.pop(0), end.state)
        elif past.given_up is not None:
            if end.state is TransactionState.COMMIT:
                transactions.commit(end.half)
        elif not self._history.knows(end.half):
            raise BrokerError("the transaction has ended before, or it will be checked again")
        else:
            self._count_repeated(end)
        for copy in still_open:
            transactions.settle(copy)

    def _count_repeated(self, end: LateEnd) -> None:
        self.repeated += 1
        logger.info("transaction had ended before message=%s state=%s", end.half.unique_key, end.state.name)
