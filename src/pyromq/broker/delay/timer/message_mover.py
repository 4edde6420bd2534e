"""MessageMover: before a file of the log is deleted, messages that still wait in it are written again at the log's end.

The cleaner asks up to where the log is free. If messages wait there, the answer is "not yet" and they are moved. When
the ledger on disk has their new places, a later pass of the cleaner may delete the files. Moving must work on a full
disk too, because only then files can be deleted. The store therefore accepts a moved message where it would refuse a
new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pyromq.broker.delay.timer.message_timer import MessageTimer
from pyromq.broker.delay.timer.timer_records import moved, read_waiting
from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.clock import Clock
from pyromq.errors import StoreError
from pyromq.store.index.pending_table import BEFORE_ALL, Pending
from pyromq.store.message_store import MessageStore
from pyromq.store.read.disk.disk_access import need_all

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 4 << 20


class MessageMover:
    """Moves waiting messages out of files that the cleaner wants to delete."""

    def __init__(
        self,
        timer: MessageTimer,
        store: MessageStore,
        reads: DiskReads,
        acknowledgements: Acknowledgements,
        clock: Clock,
    ) -> None:
        self._timer = timer
        self._clock = clock
        self._store = store
        self._reads = reads
        self._acknowledgements = acknowledgements
        self._free_to = 0
        self._task: asyncio.Task[None] | None = None

    def free_to(self, start: int) -> int:
        """Return up to where, at most `start`, no message waits in the log; begin to move those before `start`."""
        if not self._timer.is_running:
            return 0
        if self._timer.ledger.is_empty:
            return start
        if start > self._free_to and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._free(start))
        return min(start, self._free_to)

    async def stop(self) -> None:
        """Stop moving."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _free(self, start: int) -> None:
        try:
            found, count = await self._move_all(start)
            if not found:
                self._free_to = max(self._free_to, start)
            elif count:
                logger.info("moved timed messages out of files to be deleted count=%d up to=%d", count, start)
        except StoreError as error:
            logger.error("files of the log are kept because messages in them cannot be moved: %s", error)
        finally:
            self._task = None

    async def _move_all(self, start: int) -> tuple[bool, int]:
        """Move messages that wait before a place; return whether there were any, and how many were moved."""
        after, count, found = BEFORE_ALL, 0, True
        while found:
            async with self._timer.places:
                messages = await self._timer.ledger.stored_before(start, after, _AT_ONCE)
                await self._have_in_memory(messages)
                messages = await self._timer.ledger.stored_before(start, after, _AT_ONCE)
                after, moving = self._move(messages, after)  # no await in between: they still wait
                found = bool(messages)
                await self._settle(moving)
            count += len(moving)
        return after != BEFORE_ALL, count

    async def _have_in_memory(self, messages: Sequence[Pending]) -> None:
        """Have messages read from the disk before they are moved, as many as are moved at once."""
        offsets = [message.physical_offset for message in messages]
        await self._reads.read(lambda: need_all(self._store.read, offsets, _BYTES_AT_ONCE))

    def _move(self, messages: Sequence[Pending], after: Pending) -> tuple[Pending, list[Pending]]:
        """Put messages into the open group again, as many as fit; return the last one looked at and those put."""
        moving: list[Pending] = []
        begin = self._store.max_physical_offset
        for message in messages:
            after = message
            if self._timer.ledger.is_leaving(message) or message in self._timer.window:
                continue  # it leaves within seconds; the next pass does not find it
            place = self._put(message)
            if place is not None:
                moving.append(message)
                if place - begin > _BYTES_AT_ONCE:
                    break
        return after, moving

    def _put(self, message: Pending) -> int | None:
        waiting = read_waiting(self._store.read(message.physical_offset))
        if waiting is None:
            logger.error("a timed message is not readable any more physical_offset=%d", message.physical_offset)
            self._timer.ledger.end(message)
            return None
        place = self._store.put_again(moved(waiting))
        self._timer.ledger.leave(message)
        self._timer.expect()
        return place.physical_offset

    async def _settle(self, moving: Sequence[Pending]) -> None:
        """Wait until the moved messages are stored and the timer knows their new places."""
        if moving:
            await self._stored()
        while any(map(self._timer.ledger.is_on_its_way, moving)):
            await self._clock.sleep(0)

    async def _stored(self) -> None:
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._acknowledgements.then(lambda outcome: None if stored.done() else stored.set_result(outcome))
        if not await stored:
            raise StoreError("the store accepts no messages")
