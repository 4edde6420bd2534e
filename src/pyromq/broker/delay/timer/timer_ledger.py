"""TimerLedger: the waiting messages. It consists of the table on disk and the changes since it was saved.

A change is saved only when the log is flushed up to it. A table that is ahead of the log would lose a message if a
power cut loses its delivery. Changes therefore pass through two small stages:

    open      changes since the last tick
    sealed    saved together when the log is flushed up to where it ended at that tick

A message is `leaving` while its delivery or cancellation was put but is not known to be stored. It is not delivered or
cancelled a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field

from pyromq.store.index.pending_table import Pending, PendingProgress, PendingTable

_LARGEST: Final = 2**63 - 1
_FAR: Final = 16 << 20  # bytes of the log after which progress is saved even if nothing has changed


class _Changes(Struct):
    begun: set[Pending] = field(default_factory=set)
    ended: set[Pending] = field(default_factory=set)
    progress: PendingProgress = PendingProgress(0, 0)
    log_end: int = 0

    def __len__(self) -> int:
        return len(self.begun) + len(self.ended)


class TimerLedger:
    """The waiting messages of a broker. Reads and saves of the disk run in a thread, one at a time."""

    def __init__(self, table: PendingTable) -> None:
        self._table = table
        self._open = _Changes()
        self._sealed: _Changes | None = None
        self._leaving: set[Pending] = set()
        self._saved_position = 0
        self._turn = asyncio.Lock()

    @property
    def count(self) -> int:
        """About how many messages wait; some may just have ended."""
        changes = [self._open, *self._sealed_changes()]
        return self._table.count + sum(len(part.begun) - len(part.ended) for part in changes)

    @property
    def unsaved(self) -> int:
        """How many changes are not on disk yet."""
        return len(self._open) + sum(map(len, self._sealed_changes()))

    @property
    def is_empty(self) -> bool:
        """Whether no message waits or is leaving."""
        return not (self._table.count or self.unsaved or self._leaving)

    def clear(self) -> None:
        """Start again with an empty table."""
        self._open, self._sealed = _Changes(), None
        self._leaving.clear()

    def begin_at(self, progress: PendingProgress) -> None:
        """Set up to where the table agrees with the log."""
        self._saved_position = progress.position

    # --- changes

    def begin(self, message: Pending) -> None:
        """Note that a message waits."""
        self._open.begun.add(message)

    def leave(self, message: Pending) -> None:
        """Note that the delivery, cancellation or move of a message was put."""
        self._leaving.add(message)

    def stay(self, message: Pending) -> None:
        """Note that it was not stored, so the message still waits."""
        self._leaving.discard(message)

    def end(self, message: Pending) -> None:
        """Note that a message waits no longer."""
        self._leaving.discard(message)
        if message in self._open.begun:
            self._open.begun.discard(message)  # the table never gets it
        else:
            self._open.ended.add(message)

    def is_on_its_way(self, message: Pending) -> bool:
        """Return True if the end of a message was put but is not known to be stored yet."""
        return message in self._leaving

    def end_if_waiting(self, message: Pending) -> bool:
        """Note that a message waits no longer; return False if it did not wait. It reads the table on this thread."""
        if not (self._is_unsaved(message) or message in self._table) or self.is_leaving(message):
            return False
        self.end(message)
        return True

    def is_leaving(self, message: Pending) -> bool:
        """Return True if a message has been delivered, cancelled or moved, or is about to be."""
        return (
            message in self._leaving
            or message in self._open.ended
            or any(message in part.ended for part in self._sealed_changes())
        )

    # --- saving

    def seal(self, progress: PendingProgress, log_end: int) -> None:
        """Seal the changes, to be saved when the log is flushed up to its current end."""
        if self._sealed is not None or not (self._open or self._has_moved(progress)):
            return
        self._sealed, self._open = self._open, _Changes()
        self._sealed.progress, self._sealed.log_end = progress, log_end

    def _has_moved(self, progress: PendingProgress) -> bool:
        return self._table.count > 0 and progress.position >= self._saved_position + _FAR

    async def save(self, flushed_offset: int) -> None:
        """Save the sealed changes if the log is flushed far enough; raise StoreError and keep them if that fails."""
        async with self._turn:
            sealed = self._sealed
            if sealed is not None and sealed.log_end <= flushed_offset:
                await asyncio.to_thread(self._table.save, sealed.begun, sealed.ended, sealed.progress)
                self._saved_position = sealed.progress.position
                self._sealed = None

    def _sealed_changes(self) -> Iterator[_Changes]:
        if self._sealed is not None:
            yield self._sealed

    # --- reading

    async def due(self, after: Pending, until_ms: int, limit: int) -> tuple[list[Pending], Pending]:
        """Return about `limit` messages after one that are due up to a time, and the message up to which these are all.

        The result is still true when the caller resumes.
        """
        async with self._turn:
            found = await asyncio.to_thread(self._table.due, after, until_ms, limit)
            end = found[-1] if len(found) == limit else Pending(until_ms, _LARGEST)
            found += [message for message in self._unsaved_ones() if after < message <= end]
            return sorted({message for message in found if not self.is_leaving(message)}), end

    async def stored_before(self, physical_offset: int, after: Pending, limit: int) -> list[Pending]:
        """Return messages whose records are before a place of the log, including those that are leaving.

        They are in order of their time, come after a given one, and are `limit` at most.
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
        """Return those that wait and are not leaving. The result is still true when the caller resumes."""
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
