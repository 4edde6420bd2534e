"""HalfMover: before a file of the log is deleted, open half messages in it are written again at the log's end.

The cleaner asks up to where the log is free. The answer is "not yet" until the open half messages before that place are
moved and the log is durable up to their copies; a later pass of the cleaner then deletes the files. The timer does the
same for its messages (broker/delay/timer/message_mover.py).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from pyromq.broker.parts import Parts, Writing
from pyromq.broker.transactions.half_messages import QUEUE, StoredHalf
from pyromq.broker.transactions.open_transactions import OpenTransactions
from pyromq.broker.transactions.transaction_history import TransactionHistory
from pyromq.errors import StoreError
from pyromq.protocol.names import TRANSACTION_HALF_TOPIC

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 50
_BYTES_AT_ONCE: Final = 4 << 20


class HalfMover:
    """Moves open half messages out of files that the cleaner wants to delete."""

    def __init__(
        self, parts: Parts, writing: Writing, transactions: OpenTransactions, history: TransactionHistory
    ) -> None:
        self._reads = parts.reads
        self._clock = parts.clock
        self._store = writing.store
        self._durability = writing.durability
        self._acknowledgements = writing.acknowledgements
        self._transactions = transactions
        self._history = history
        self._free_to = 0
        self._moved_to = 0  # no half message before this place is open …
        self._moved_end = 0  # … once the log is durable up to here
        self._task: asyncio.Task[None] | None = None

    def free_to(self, start: int) -> int:
        """Return up to where, at most `start`, no half message is open; begin to move those before `start`."""
        first = self._store.min_offset(TRANSACTION_HALF_TOPIC, QUEUE)
        if first >= self._transactions.end_offset:
            return start
        if self._durability.flushed_end >= self._moved_end:
            self._free_to = self._moved_to
        if start > self._moved_to and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._free(start))
        return min(start, self._free_to)

    async def stop(self) -> None:
        """Stop moving."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _free(self, start: int) -> None:
        try:
            count = await self._move_all(start)
            self._moved_to, self._moved_end = start, self._store.max_physical_offset
            if count:
                logger.info("moved half messages out of files to be deleted count=%d up to=%d", count, start)
        except StoreError as error:
            logger.error("files of the log are kept because half messages in them cannot be moved: %s", error)
        finally:
            self._task = None

    async def _move_all(self, start: int) -> int:
        """Move the half messages that are open before a place of the log; return how many there were."""
        ledger, end = self._transactions.ledger, self._transactions.end_offset
        count = size = 0
        offset = ledger.next_open(self._store.min_offset(TRANSACTION_HALF_TOPIC, QUEUE))
        while offset < end:
            half = await self._reads.read(partial(self._transactions.read, offset))
            if half is not None:
                if half.physical_offset >= start:
                    break
                await self._move(half)
                size += half.head.total_size
            count += 1
            if count % _AT_ONCE == 0 or size > _BYTES_AT_ONCE:
                await self._stored()
                size = 0
            offset = ledger.next_open(offset + 1)
        await self._stored()
        return count

    async def _move(self, half: StoredHalf) -> None:
        """Move a half message; settle it if it was committed and only its op record was lost in a crash.

        The committed message names the half message by its place, so a later search could not find that out.
        """
        places = await asyncio.to_thread(self._history.find, half)
        past = await self._reads.read(partial(self._history.read, half, places))
        if self._transactions.ledger.is_open(half.queue_offset):  # it may have ended during the search
            self._transactions.leave_file(half, is_committed=past.is_committed)

    async def _stored(self) -> None:
        """Wait until the log has everything that was put so far."""
        if not self._store.has_pending:
            await self._clock.sleep(0)
            return
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._acknowledgements.then(lambda outcome: None if stored.done() else stored.set_result(outcome))
        if not await stored:
            raise StoreError("the store accepts no messages")
