"""Between entries and answers: what was not written in this life of the store is checked before it is handed out.

A restart trusts what was flushed and does not read it all again, so damage at rest shows when a message is read. A
damaged record is left out, and its place in the log fenced. A damaged entry is found a place again: its record lies
between those of its neighbours.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Iterator
from typing import Final

from pyromq.store.commit_log import CommitLog
from pyromq.store.consume_queue import ENTRY, ConsumeQueue, ConsumeQueueEntry
from pyromq.store.dispatch import stored_tags_code
from pyromq.store.read.log_walk import LogWalk, WalkedRecord
from pyromq.store.read.record_match import has_traces, is_sound, named_record
from pyromq.store.small_files.fences import Fences

logger = logging.getLogger(__name__)

_NEIGHBOURS: Final = 64
_LARGEST: Final = 64 << 20  # of a record: no request is a quarter of that
_NEAR: Final = 8 << 10
_AHEAD: Final = 64 << 10
_FURTHEST: Final = 256 << 20  # a second at most, once, on the thread that answers

Places = Iterable[tuple[int, tuple[int, int]]]
"""Index, physical offset and size of entries."""


class ReadGuard:
    """Lets pass what is sound."""

    def __init__(self, log: CommitLog, fences: Fences, delay_levels_ms: tuple[int, ...]) -> None:
        self._log = log
        self.fences = fences
        """The damage that is known: while there is some, every read is looked at."""
        self._delay_levels_ms = delay_levels_ms

    def is_needed(self, queue: ConsumeQueue, offset: int) -> bool:
        """Tell whether entries from an offset on may be damaged, or their records."""
        return offset < queue.checked_offset or bool(self.fences)

    def sound_ones(self, queue: ConsumeQueue, offset: int, entries: Places) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the entries whose records are sound; `offset` is that of index 0."""
        seen = False
        log_start, log_end = self._log.start, self._log.end
        records = _RecordBuffer(self._log)
        for index, (physical_offset, size) in entries:
            if not seen and 0 <= physical_offset < log_start and size > 0:
                yield index, (physical_offset, size)  # expired: the reader knows what to do
                continue
            is_inside = physical_offset >= log_start and 0 < size <= min(log_end - physical_offset, _LARGEST)
            data, at = records.find(physical_offset, size) if is_inside else (b"", 0)
            place = (physical_offset, queue, offset + index)
            if is_sound(data, at, size, place):
                seen = True
                yield index, (physical_offset, size)
            elif (found := self._look_closer(data[at : at + size], is_inside, size, place)) is not None:
                seen = True
                yield index, found

    def _look_closer(
        self, data: bytes | memoryview, is_inside: bool, size: int, place: tuple[int, ConsumeQueue, int]
    ) -> tuple[int, int] | None:
        """Return the place of the record that a damaged entry should name; None if it is the record that is damaged."""
        physical, queue, offset = place
        if self.fences.is_left_out(queue.topic, queue.queue_id, offset):
            return None
        is_unreadable = is_inside and not data
        found = None if is_unreadable else self._record_at(physical, queue, offset)
        if is_unreadable or (found is None and has_traces(data, size, place)):
            self._fence(physical, physical + size)
        elif found is not None or (found := self._find_record(queue, offset)) is not None:
            return self._mend(queue, offset, found)
        self.fences.left_out(queue.topic, queue.queue_id, offset)
        return None

    def _fence(self, start: int, end: int) -> None:
        segments = self._log.segments
        self.fences.add(start, end, segments.path(segments.file_start(start)))
        try:
            self.fences.save()
        except OSError as error:  # it is found again
            logger.warning("cannot note that the log is damaged: %s", error)

    # --- entries that name no record

    def _record_at(self, physical: int, queue: ConsumeQueue, offset: int) -> WalkedRecord | None:
        """Return the record of a queue offset if it is there but for its size."""
        if not self._log.start <= physical < self._log.end:
            return None
        record = LogWalk(self._log.segments, physical).check_here()
        return record if record is not None and _is_of(record, queue, offset) else None

    def _find_record(self, queue: ConsumeQueue, offset: int) -> WalkedRecord | None:
        """Return the record of a queue offset, looked for between those of its neighbours."""
        start, stop = self._bounds(queue, offset)
        if stop - start > _FURTHEST:
            logger.warning("a damaged entry is left to `pyromq store repair`: its record is in %d bytes", stop - start)
            return None
        walk = LogWalk(self._log.segments, start)
        while walk.position < stop:
            for record in walk.records(stop):
                if _is_of(record, queue, offset):
                    return record
            if walk.position < stop:
                walk.find_next(stop)
        return None

    def _bounds(self, queue: ConsumeQueue, offset: int) -> tuple[int, int]:
        before = range(offset - 1, max(queue.min_offset, offset - _NEIGHBOURS) - 1, -1)
        behind = range(offset + 1, min(queue.max_offset, offset + _NEIGHBOURS))
        last = self._first_sound(queue, before)
        following = self._first_sound(queue, behind)
        start = last.physical_offset + last.size if last else self._log.start
        return start, following.physical_offset if following else self._log.end

    def _first_sound(self, queue: ConsumeQueue, offsets: Iterable[int]) -> ConsumeQueueEntry | None:
        entries = ((offset, queue.entry(offset)) for offset in offsets)
        return next((entry for offset, entry in entries if named_record(self._log, queue, offset, entry)), None)

    def _mend(self, queue: ConsumeQueue, offset: int, record: WalkedRecord) -> tuple[int, int]:
        physical, size, _, _, _, stored_ms, _, properties = record
        code = stored_tags_code(queue.topic, properties, stored_ms, self._delay_levels_ms)
        logger.warning("mended a damaged entry topic=%s queue=%d offset=%d", queue.topic, queue.queue_id, offset)
        queue.rewrite(offset, ENTRY.pack(physical, size, code))
        return physical, size


class _RecordBuffer:
    """The records of one answer: from a map where that is known to be in memory, else read.

    Many are read at a time while they lie near each other: one call for all is cheaper.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._data: bytes | memoryview = b""
        self._start = 0
        self._may_read_ahead = True

    def find(self, position: int, size: int) -> tuple[bytes | memoryview, int]:
        """Return bytes that hold a record, and where it begins in them; nothing if the disk cannot read it."""
        at = position - self._start
        if at >= 0 and at + size <= len(self._data):
            return self._data, at
        if (stretch := self._log.stretch(position, position + size)) is not None:
            low, high, start, whole = stretch
            self._start, self._data = low, whole[low - start : high - start]
            return self._data, position - low
        is_near = self._may_read_ahead and 0 <= at - len(self._data) < _NEAR
        self._start = position
        self._data = self._read(position, max(size, _AHEAD)) if is_near else b""
        if len(self._data) < size:
            self._may_read_ahead = not is_near  # one that cannot be read must not take its neighbours along
            self._data = self._read(position, size)
        return self._data, 0

    def _read(self, position: int, length: int) -> bytes:
        try:
            return self._log.pread(position, length)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            logger.debug("cannot read the log offset=%d bytes=%d: %s", position, length, error)
            return b""


def _is_of(record: WalkedRecord, queue: ConsumeQueue, offset: int) -> bool:
    return (record[6], record[2], record[3]) == (queue.topic_name, queue.queue_id, offset)
