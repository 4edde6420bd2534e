"""Who waits: the table on disk, and what has changed since it was saved.

A change is saved when the log is flushed up to it, never before: a table that is ahead of the log would forget a
message whose delivery a power cut took. So changes pass through two stages, both small:

    open      since the last tick
    sealed    waits until the log is flushed to where it ended then, and is saved as one

What was put into the log but is not known to be stored yet is `leaving`: it is neither delivered nor cancelled again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field

from pyromq.store.index.pending_table import Pending, PendingProgress, PendingTable

_LARGEST: Final = 2**63 - 1
_FAR: Final = 16 << 20  # bytes of the log after which progress is saved although nothing has changed


class _Changes(Struct):
    begun: set[Pending] = field(default_factory=set)
    ended: set[Pending] = field(default_factory=set)
    progress: PendingProgress = PendingProgress(0, 0)
    log_end: int = 0

    def __len__(self) -> int:
        return len(self.begun) + len(self.ended)


class TimerLedger:
    """The waiting messages of a broker; reads and saves wait for the disk in a thread, one at a time."""

    def __init__(self, table: PendingTable) -> None:
        self._table = table
        self._open = _Changes()
        self._sealed: _Changes | None = None
        self._leaving: set[Pending] = set()
        self._saved_position = 0
        self._turn = asyncio.Lock()

    @property
    def count(self) -> int:
        """How many messages wait, about: some may just have ended."""
        changes = [self._open, *self._sealed_changes()]
        return self._table.count + sum(len(part.begun) - len(part.ended) for part in changes)

    @property
    def unsaved(self) -> int:
        """How many changes are not on disk yet."""
        return len(self._open) + sum(map(len, self._sealed_changes()))

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return not (self._table.count or self.unsaved or self._leaving)

    def clear(self) -> None:
        """Begin anew, with an empty table."""
        self._open, self._sealed = _Changes(), None
        self._leaving.clear()

    def begin_at(self, progress: PendingProgress) -> None:
        """Say how far the table agrees with the log."""
        self._saved_position = progress.position

    # --- changes

    def begin(self, message: Pending) -> None:
        """Note that a message waits."""
        self._open.begun.add(message)

    def leave(self, message: Pending) -> None:
        """Note that what ends the waiting of a message is on its way into the log."""
        self._leaving.add(message)

    def stay(self, message: Pending) -> None:
        """Note that it did not get there."""
        self._leaving.discard(message)

    def end(self, message: Pending) -> None:
        """Note that a message waits no longer."""
        self._leaving.discard(message)
        if message in self._open.begun:
            self._open.begun.discard(message)  # the table never hears of it
        else:
            self._open.ended.add(message)

    def is_on_its_way(self, message: Pending) -> bool:
        """Tell whether what ends the waiting of a message is not known to be stored yet."""
        return message in self._leaving

    def end_if_waiting(self, message: Pending) -> bool:
        """Note that a message waits no longer, unless that is known; it looks into the table on this thread."""
        if not (self._is_unsaved(message) or message in self._table) or self.is_leaving(message):
            return False
        self.end(message)
        return True

    def is_leaving(self, message: Pending) -> bool:
        """Tell whether a message has been delivered, cancelled or moved, or is about to be."""
        return (
            message in self._leaving
            or message in self._open.ended
            or any(message in part.ended for part in self._sealed_changes())
        )

    # --- saving

    def seal(self, progress: PendingProgress, log_end: int) -> None:
        """Have what has changed saved as soon as the log is flushed up to its present end."""
        if self._sealed is not None or not (self._open or self._has_moved(progress)):
            return
        self._sealed, self._open = self._open, _Changes()
        self._sealed.progress, self._sealed.log_end = progress, log_end

    def _has_moved(self, progress: PendingProgress) -> bool:
        return self._table.count > 0 and progress.position >= self._saved_position + _FAR

    async def save(self, flushed_offset: int) -> None:
        """Save what is sealed if the log is flushed so far; raises StoreError, and it stays sealed."""
        async with self._turn:
            sealed = self._sealed
            if sealed is not None and sealed.log_end <= flushed_offset:
                await asyncio.to_thread(self._table.save, sealed.begun, sealed.ended, sealed.progress)
                self._saved_position = sealed.progress.position
                self._sealed = None

    def _sealed_changes(self) -> Iterator[_Changes]:
        if self._sealed is not None:
            yield self._sealed

    # --- looking

    async def due(self, after: Pending, until_ms: int, limit: int) -> tuple[list[Pending], Pending]:
        """Return messages after one that are due up to a time, about `limit` of them, and up to which these are all.

        When the caller goes on, nothing has changed since.
        """
        async with self._turn:
            found = await asyncio.to_thread(self._table.due, after, until_ms, limit)
            end = found[-1] if len(found) == limit else Pending(until_ms, _LARGEST)
            found += [message for message in self._unsaved_ones() if after < message <= end]
            return sorted({message for message in found if not self.is_leaving(message)}), end

    async def stored_before(self, physical_offset: int, after: Pending, limit: int) -> list[Pending]:
        """Return messages whose records lie before a place of the log, also those that are leaving.

        They are in order of their time and come after a given one, `limit` of them at most.
        """
        async with self._turn:
            found = await asyncio.to_thread(self._table.stored_before, physical_offset, after, limit)
            unsaved = [
                message
                for message in self._unsaved_ones()
                if message.physical_offset < physical_offset and message > after
            ]
            return sorted({*found, *unsaved})[:limit]

    async def waiting(self, messages: Iterable[Pending]) -> list[Pending]:
        """Return those that wait and are not leaving; when the caller goes on, nothing has changed since."""
        async with self._turn:
            found = [
                message
                for message in messages
                if self._is_unsaved(message) or await asyncio.to_thread(self._table.__contains__, message)
            ]
            return [message for message in found if not self.is_leaving(message)]

    def _is_unsaved(self, message: Pending) -> bool:
        return any(message in part.begun for part in (self._open, *self._sealed_changes()))

    def _unsaved_ones(self) -> Iterator[Pending]:
        yield from self._open.begun
        for part in self._sealed_changes():
            yield from part.begun
