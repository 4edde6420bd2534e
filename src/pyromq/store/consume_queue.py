"""Consume queues: for each topic and queue, where its messages are in the log.

    physical offset 8 | record size 4 | tags code 8          entry n stands at byte n × 20 of the queue

Zeros mean "never written". A queue whose first messages are gone may begin inside its first file: what stands before
is filled with (0, 2147483647, 0). A file is made for its first entry and not before: RocketMQ's brokers take an empty
one for entries. A queue is a few numbers in memory; files are opened when needed, through the pool.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from contextlib import suppress
from typing import Final, NamedTuple

from pyromq.errors import StoreError
from pyromq.store.segments import SegmentedFile

ENTRY: Final = struct.Struct(">qiq")
ENTRY_SIZE: Final = ENTRY.size
PRE_BLANK: Final = ENTRY.pack(0, 0x7FFFFFFF, 0)

_FIRST_RESERVE: Final = 4096
_FIRST_READ: Final = 32 * ENTRY_SIZE
_MAX_RESERVE: Final = 256 * 1024


class ConsumeQueueEntry(NamedTuple):
    """Where a message is, and what its tag is for a filter."""

    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_written(self) -> bool:
        """Whether an entry was ever written here."""
        return self.physical_offset >= 0 and self.size > 0

    @property
    def is_message(self) -> bool:
        """Whether it names a message and does not just fill the space before the first one."""
        return self.is_written and self != _FILLER


_FILLER: Final = ConsumeQueueEntry(0, 0x7FFFFFFF, 0)
_NOTHING: Final = ConsumeQueueEntry(-1, 0, 0)


def _unpack(data: bytes) -> list[ConsumeQueueEntry]:
    return list(map(ConsumeQueueEntry._make, ENTRY.iter_unpack(data)))


class ConsumeQueue:
    """One queue of one topic: consumers see `min_offset` up to `max_offset`, the next message gets `next_offset`."""

    __slots__ = ("_reserved", "max_offset", "min_offset", "next_offset", "queue_id", "segments", "topic", "topic_name")

    def __init__(self, topic: str, queue_id: int, segments: SegmentedFile) -> None:
        self.topic = topic
        self.topic_name = topic.encode()
        self.queue_id = queue_id
        self.segments = segments
        self.min_offset = self.max_offset = self.next_offset = 0
        self._reserved = 0

    # --- writing

    def make_room(self, count: int) -> None:
        """See to it that entries from `next_offset` on can be written; raises DiskFull if there is no space."""
        needed = (self.next_offset + count) * ENTRY_SIZE
        if needed > self._reserved:
            self._find_room(needed)

    def _find_room(self, needed: int) -> None:
        try:
            while needed > self._reserved:
                self._reserve()
        except StoreError:
            with suppress(OSError):
                self.segments.cut(self.next_offset * ENTRY_SIZE)  # no file stays that would be empty
            self._reserved = min(self._reserved, self.segments.stop)
            raise

    def _reserve(self) -> None:
        segments = self.segments
        if self._reserved >= segments.stop:
            segments.add(_FIRST_RESERVE)
            self._reserved = segments.stop - segments.file_size + min(_FIRST_RESERVE, segments.file_size)
            return
        # As much again as the file holds: few calls for a busy queue, a page for a quiet one.
        used = self._reserved % segments.file_size
        step = min(max(used, _FIRST_RESERVE), _MAX_RESERVE, segments.file_size - used)
        segments.reserve(self._reserved, step)
        self._reserved += step

    def append(self, entries: list[bytes]) -> None:
        """Write entries behind the last one, for consumers to see; room was made before."""
        self.segments.pwrite(self.max_offset * ENTRY_SIZE, b"".join(entries))
        self.max_offset += len(entries)

    def restore(self, offset: int, data: bytes) -> None:
        """Write entries at their own offset unless they are there already: for recovery."""
        if offset * ENTRY_SIZE < self.segments.start:  # the topic was deleted and made again
            self.segments.cut(self.segments.start)
        self._fill_gap(offset)
        while self.segments.stop < offset * ENTRY_SIZE + len(data):
            self.segments.add(_FIRST_RESERVE)
        if self._read_all(offset, len(data)) != data:
            self.segments.pwrite(offset * ENTRY_SIZE, data)

    def _fill_gap(self, offset: int) -> None:
        position = offset * ENTRY_SIZE
        if self.segments.start == self.segments.stop:
            self.segments.add(_FIRST_RESERVE, self.segments.file_start(position))
            gap_start = self.segments.start // ENTRY_SIZE
        else:
            gap_start = min(self.find_end(), offset)
        while self.segments.stop < position:
            self.segments.add(_FIRST_RESERVE)
        self.segments.pwrite(gap_start * ENTRY_SIZE, PRE_BLANK * (offset - gap_start))

    def _read_all(self, offset: int, length: int) -> bytes:
        position, pieces = offset * ENTRY_SIZE, []
        while length > 0:
            piece = self.segments.pread(position, length)
            pieces.append(piece)
            position += len(piece)
            length -= len(piece)
        return b"".join(pieces)

    # --- reading

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` visible entries, to the end of their file at most."""
        count = min(count, self.max_offset - offset)
        return self.segments.pread(offset * ENTRY_SIZE, count * ENTRY_SIZE)

    def entry(self, offset: int) -> ConsumeQueueEntry:
        """Return what stands at an offset, visible or not."""
        data = self.segments.pread(offset * ENTRY_SIZE, ENTRY_SIZE)
        return ConsumeQueueEntry(*ENTRY.unpack(data)) if len(data) == ENTRY_SIZE else _NOTHING

    def next_file_offset(self, offset: int) -> int:
        """Return the first offset of the file behind the one that holds an offset."""
        per_file = self.segments.file_size // ENTRY_SIZE
        return (offset // per_file + 1) * per_file

    # --- where a queue begins and ends, by binary search: no file is read as a whole

    def find_end(self) -> int:
        """Return the offset behind the last entry that was written."""
        first = self.segments.start // ENTRY_SIZE
        per_file = self.segments.file_size // ENTRY_SIZE
        end = self.segments.stop // ENTRY_SIZE
        while end > first and not self.entry(end - per_file).is_written:
            end -= per_file
        return self._find_end_in_file(end - per_file, end) if end > first else first

    def _find_end_in_file(self, first: int, end: int) -> int:
        # Most files are short: their end is among the first entries, found by one read.
        written = [entry.is_written for entry in _unpack(self.segments.pread(first * ENTRY_SIZE, _FIRST_READ))]
        if not written[-1]:
            return first + written.index(False)
        offsets = range(first + len(written), end)
        return offsets.start + bisect_left(offsets, True, key=lambda offset: not self.entry(offset).is_written)

    def settle(self, end: int) -> None:
        """Let the queue end here; whatever stands behind is not looked at."""
        self.max_offset = self.next_offset = end
        self._reserved = end * ENTRY_SIZE

    def cut(self, end: int) -> None:
        """Let the queue end here and remove whatever stands behind."""
        self.segments.cut(end * ENTRY_SIZE)
        self.settle(end)

    def find_start(self, log_start: int) -> None:
        """Move `min_offset` to the first entry whose record is still in the log, which begins at `log_start`."""

        def is_there(offset: int) -> bool:
            entry = self.entry(offset)
            return entry.is_message and entry.physical_offset >= log_start

        first = self.segments.start // ENTRY_SIZE
        if first < self.max_offset and is_there(first):
            self.min_offset = first
        else:
            offsets = range(first, self.max_offset)
            self.min_offset = first + bisect_left(offsets, True, key=is_there)
