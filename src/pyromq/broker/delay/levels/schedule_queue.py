"""ScheduleQueue: reads the queue of one delay level. An entry says where its message is and when it is due."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from pyromq.errors import OffsetOutOfRange
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.store.consume_queue import ENTRY, ConsumeQueueEntry
from pyromq.store.message_store import MessageStore

_PAGE: Final = 512


class ScheduleQueue:
    """One queue of SCHEDULE_TOPIC_XXXX."""

    def __init__(self, store: MessageStore, level: int) -> None:
        self._store = store
        self._queue_id = level - 1

    @property
    def min_offset(self) -> int:
        """The offset of the first message."""
        return self._store.min_offset(SCHEDULE_TOPIC, self._queue_id)

    @property
    def max_offset(self) -> int:
        """The offset behind the last message."""
        return self._store.max_offset(SCHEDULE_TOPIC, self._queue_id)

    def entries(self, offset: int, count: int) -> list[ConsumeQueueEntry]:
        """Return entries from an offset on; raise OffsetOutOfRange if they were deleted."""
        data = self._store.raw_entries(SCHEDULE_TOPIC, self._queue_id, offset, offset + count)
        return list(map(ConsumeQueueEntry._make, ENTRY.iter_unpack(data)))

    def entries_from(self, offset: int) -> Iterator[tuple[int, ConsumeQueueEntry]]:
        """Yield offset and entry from an offset on, as long as they can be read."""
        offset = max(offset, self.min_offset)
        with suppress(OffsetOutOfRange):
            while page := self.entries(offset, _PAGE):
                yield from enumerate(page, offset)
                offset += len(page)

    def entries_before(self, offset: int) -> Iterator[tuple[int, ConsumeQueueEntry]]:
        """Yield offset and entry, the last one before an offset first."""
        with suppress(OffsetOutOfRange):
            while (start := max(offset - _PAGE, self.min_offset)) < offset:
                page = self.entries(start, offset - start)
                yield from reversed(list(enumerate(page, start)))
                offset = start

    def messages(self, offset: int, count: int, max_bytes: int) -> tuple[list[MessageExt], int]:
        """Return messages from an offset on and the offset after them; unreadable ones are left out.

        Raise CorruptRecord or MalformedHeader if one was damaged after it was stored.
        """
        found = self._store.get(SCHEDULE_TOPIC, self._queue_id, offset, count, max_bytes=max_bytes)
        return decode_messages(b"".join(found.views)), max(found.next_offset, offset + 1)
