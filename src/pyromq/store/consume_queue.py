"""Consume queues: for each topic and queue, where its messages are in the log.

    physical offset 8 | record size 4 | tags code 8          entry n stands at byte n × 20 of the queue

Zeros mean "never written". A queue whose first messages are gone may begin inside its first file: what stands before
is filled with (0, 2147483647, 0). A file is made for its first entry and not before: RocketMQ's brokers take an empty
one for entries. A queue is a few numbers in memory; files are opened when needed, through the pool.

The newest entries may be in memory only, as the queue's tail (`write/queue_tails.py`). Reads look there first. Whatever
changes a queue otherwise than at its end writes the tail first.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from contextlib import suppress
from typing import Final, NamedTuple

from pyromq.errors import StoreError
from pyromq.store.segments import MadeFile, SegmentedFile, is_zero

ENTRY: Final = struct.Struct(">qiq")
ENTRY_SIZE: Final = ENTRY.size
PRE_BLANK: Final = ENTRY.pack(0, 0x7FFFFFFF, 0)

_FIRST_RESERVE: Final = 4096
_FIRST_READ: Final = 32 * ENTRY_SIZE
_LOOK_BEHIND: Final = 204 * ENTRY_SIZE  # a page
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


def _written_ones(data: bytes) -> list[int]:
    """Return which of some entries were written."""
    if is_zero(data):
        return []
    return [index for index, (offset, size, _) in enumerate(ENTRY.iter_unpack(data)) if offset >= 0 and size > 0]


def _names_behind(entry: ConsumeQueueEntry, physical_offset: int) -> bool:
    return entry.is_message and entry.physical_offset >= physical_offset


class ConsumeQueue:
    """One queue of one topic: consumers see `min_offset` up to `max_offset`, the next message gets `next_offset`."""

    __slots__ = (
        "_first_record", "checked_offset", "chunks", "is_removed", "max_offset", "min_offset", "next_offset",
        "queue_id", "reserved", "segments", "sound_ranges", "tail", "topic", "topic_name",
    )  # fmt: skip

    def __init__(self, topic: str, queue_id: int, segments: SegmentedFile) -> None:
        self.topic = topic
        self.topic_name = topic.encode()
        self.queue_id = queue_id
        self.segments = segments
        self.min_offset = self.max_offset = self.next_offset = 0
        self.is_removed = False
        """Whether its topic was deleted; what was on its way here has nowhere to go then."""
        self.checked_offset = 0
        """From here on entries were written, or compared with the log, since the store was opened."""
        self.sound_ranges: tuple[tuple[int, int], ...] = ()
        """What lies before that and was found sound when it was read."""
        self.reserved = 0
        """Up to this byte of the queue there is room for entries."""
        self.tail: bytes | bytearray = b""
        """The last visible entries that are in no file yet; the thread that writes owns it."""
        self.chunks: dict[int, tuple[int, bytes | bytearray]] | None = None
        """Entries that were read, for the next readers (lane/pull_serving.py); None if there are none, or after a
        change."""
        self._first_record = -1  # where the message at min_offset is in the log; -1 before it was looked up

    # --- writing

    def make_room(self, count: int) -> None:
        """See to it that entries from `next_offset` on can be written; raises DiskFull if there is no space."""
        needed = (self.next_offset + count) * ENTRY_SIZE
        if needed > self.reserved:
            self._find_room(needed)

    def _find_room(self, needed: int) -> None:
        try:
            while needed > self.reserved:
                self._reserve()
        except StoreError:
            with suppress(OSError):
                self.segments.cut(self.next_offset * ENTRY_SIZE)  # no file stays that would be empty
            self.reserved = min(self.reserved, self.segments.stop)
            raise

    def _reserve(self) -> None:
        segments = self.segments
        if self.reserved >= segments.stop:
            segments.add(_FIRST_RESERVE)
            self.reserved = segments.stop - segments.file_size + min(_FIRST_RESERVE, segments.file_size)
            return
        # As much again as the file holds: few calls for a busy queue, a page for a quiet one.
        used = self.reserved % segments.file_size
        step = min(max(used, _FIRST_RESERVE), _MAX_RESERVE, segments.file_size - used)
        segments.reserve(self.reserved, step)
        self.reserved += step

    @property
    def has_file(self) -> bool:
        """Whether a first file is there; make_room() has to make it otherwise, which waits for the disk."""
        return self.segments.start != self.segments.stop

    def make_first_file(self) -> MadeFile:
        """Make the first file, for take_over(); any thread may call this. Raises DiskFull or another StoreError."""
        return self.segments.make_file(_FIRST_RESERVE, 0)

    def take_over(self, made: MadeFile) -> None:
        """Begin with a first file that was made before."""
        self.segments.take_over(made)
        self.reserved = min(_FIRST_RESERVE, self.segments.file_size)

    def append(self, entries: list[bytes]) -> None:
        """Write entries behind the last one, for consumers to see; room was made before."""
        if not self.is_removed:
            self.write_tail()
            self.segments.pwrite(self.max_offset * ENTRY_SIZE, b"".join(entries))
        self.max_offset += len(entries)

    def hold(self, entries: list[bytes]) -> None:
        """Let consumers see entries behind the last one; they are in memory until write_tail()."""
        if not self.is_removed:
            if self.tail:
                self.tail += b"".join(entries)
            else:
                self.tail = bytearray().join(entries)
        self.max_offset += len(entries)

    def write_tail(self) -> None:
        """Write the entries that are in memory; raises OSError, and they stay there."""
        if self.tail:
            self.segments.pwrite(self.max_offset * ENTRY_SIZE - len(self.tail), bytes(self.tail))
            self.tail = b""

    @property
    def written_offset(self) -> int:
        """The offset behind the last entry that is in a file; any thread may ask, and is told no more than that."""
        return max(self.max_offset - len(self.tail) // ENTRY_SIZE, 0)

    def restore(self, offset: int, data: bytes) -> None:
        """Write entries at their own offset unless they are there already: for recovery."""
        self.write_tail()
        self.chunks = None
        if self._has(offset, data):
            return
        if offset * ENTRY_SIZE < self.segments.start:  # the topic was deleted and made again
            self.segments.cut(self.segments.start)
        self._fill_gap(offset, data[:ENTRY_SIZE])
        while self.segments.stop < offset * ENTRY_SIZE + len(data):
            self.segments.add(_FIRST_RESERVE)
        self.segments.pwrite(offset * ENTRY_SIZE, data)

    def _has(self, offset: int, data: bytes) -> bool:
        """Tell whether entries are there already, right behind another one or the first of all."""
        first, stop = self.segments.start // ENTRY_SIZE, self.segments.stop // ENTRY_SIZE
        if not first <= offset <= stop - len(data) // ENTRY_SIZE:
            return False
        start = max(first, offset - 1)
        found = self._read_all(start, (offset - start) * ENTRY_SIZE + len(data))
        return found.endswith(data) and (start == offset or bool(_written_ones(found[:ENTRY_SIZE])))

    def rewrite(self, offset: int, entry: bytes) -> None:
        """Replace an entry that is damaged."""
        self.write_tail()
        self.chunks = None
        self.segments.pwrite(offset * ENTRY_SIZE, entry)

    def fill_front(self, offset: int) -> None:
        """Fill holes before the first message that the log still has: what stood there has expired with its records."""
        self.chunks = None
        if self.segments.start == self.segments.stop:
            return
        while self.segments.stop < offset * ENTRY_SIZE:
            self.segments.add(_FIRST_RESERVE)
        first = self.segments.start // ENTRY_SIZE
        if len(_written_ones(self._read_all(first, (offset - first) * ENTRY_SIZE))) < offset - first:
            self.segments.pwrite(first * ENTRY_SIZE, PRE_BLANK * (offset - first))

    def extend(self, end: int) -> None:
        """Let the queue end later, behind entries that name no record: what stood there is lost."""
        self._fill_gap(end, PRE_BLANK)
        self.settle(end)

    def _fill_gap(self, offset: int, next_entry: bytes) -> None:
        position = offset * ENTRY_SIZE
        if self.segments.start == self.segments.stop:
            self.segments.add(_FIRST_RESERVE, self.segments.file_start(position))
        first = self.segments.start // ENTRY_SIZE
        gap_start = min(self.find_end(), offset)
        while self.segments.stop < position:
            self.segments.add(_FIRST_RESERVE)
        # Entries whose records are lost name the next one: searches find rising offsets, and reads of ours see that it
        # is another's. RocketMQ's brokers deliver that one again, where a filler would cost them the file's rest.
        filler = PRE_BLANK if gap_start == first else next_entry
        self.segments.pwrite(gap_start * ENTRY_SIZE, filler * (offset - gap_start))

    def _read_all(self, offset: int, length: int) -> bytes:
        position, pieces = offset * ENTRY_SIZE, []
        while length > 0:
            piece = self._pread(position, length)
            pieces.append(piece)
            position += len(piece)
            length -= len(piece)
        return b"".join(pieces)

    # --- reading

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` visible entries, to the end of their file at most."""
        count = min(count, self.max_offset - offset)
        return self._pread(offset * ENTRY_SIZE, count * ENTRY_SIZE)

    def read_cached(self, offset: int, count: int) -> bytes | bytearray | None:
        """Return `count` visible entries as read() does; None if the disk would have to be read."""
        position, length, tail = offset * ENTRY_SIZE, count * ENTRY_SIZE, self.tail
        begin = position - self.max_offset * ENTRY_SIZE + len(tail)
        if begin >= 0:
            return tail[begin : begin + length]
        found = self.segments.pread_cached(position, min(length, -begin))
        if found is not None and len(found) == -begin:
            found += tail[: length + begin]
        return found

    def _pread(self, position: int, length: int) -> bytes:
        """Return bytes of the tail, or of the file that holds a position, to its end at most."""
        tail = self.tail
        begin = position - self.max_offset * ENTRY_SIZE + len(tail)
        if not tail or begin >= len(tail):
            return self.segments.pread(position, length)
        if begin >= 0:
            return bytes(tail[begin : begin + length])
        found = self.segments.pread(position, min(length, -begin))
        return found + tail[: length + begin] if len(found) == -begin else found

    def entry(self, offset: int) -> ConsumeQueueEntry:
        """Return what stands at an offset, visible or not."""
        data = self._pread(offset * ENTRY_SIZE, ENTRY_SIZE)
        return ConsumeQueueEntry(*ENTRY.unpack(data)) if len(data) == ENTRY_SIZE else _NOTHING

    def next_file_offset(self, offset: int) -> int:
        """Return the first offset of the file behind the one that holds an offset."""
        per_file = self.segments.file_size // ENTRY_SIZE
        return (offset // per_file + 1) * per_file

    def find_offset(self, physical_offset: int) -> int | None:
        """Return the offset of the entry that names a place in the log, visible or not; None if none does."""
        offsets = range(self.segments.start // ENTRY_SIZE, self.find_end())
        found = offsets.start + bisect_left(offsets, physical_offset, key=lambda offset: self.entry(offset)[0])
        return found if found in offsets and self.entry(found).physical_offset == physical_offset else None

    # --- where a queue begins and ends, by binary search: no file is read as a whole

    def find_end(self) -> int:
        """Return the offset behind the last entry that was written; one that is damaged is none, but ends nothing."""
        self.write_tail()
        first = self.segments.start // ENTRY_SIZE
        per_file = self.segments.file_size // ENTRY_SIZE
        end = self.segments.stop // ENTRY_SIZE
        while end > first:
            file_first = end - per_file
            found = self._find_end_in_file(file_first, end)
            if found > file_first:
                return found
            end = file_first
        return first

    def _find_end_in_file(self, first: int, end: int) -> int:
        found = self._first_unwritten(first, end)
        while found < end:
            behind = _written_ones(self.segments.pread(found * ENTRY_SIZE, _LOOK_BEHIND))
            if not behind:
                break
            found = self._first_unwritten(found + behind[-1] + 1, end)
        return found

    def _first_unwritten(self, first: int, end: int) -> int:
        # Most files are short: their end is among the first entries, found by one read.
        data = self.segments.pread(first * ENTRY_SIZE, min(_FIRST_READ, (end - first) * ENTRY_SIZE))
        count = len(data) // ENTRY_SIZE
        written = _written_ones(data)
        if len(written) < count:
            return first + next(index for index in range(count) if index not in written)
        offsets = range(first + count, end)
        return offsets.start + bisect_left(offsets, True, key=lambda offset: not self.entry(offset).is_written)

    def settle(self, end: int) -> None:
        """Let the queue end here; whatever stands behind is not looked at."""
        self.chunks = None
        self.max_offset = self.next_offset = end
        self.reserved = end * ENTRY_SIZE

    def cut(self, end: int) -> None:
        """Let the queue end here and remove whatever stands behind."""
        self.write_tail()
        self.segments.cut(end * ENTRY_SIZE)
        self.settle(end)
        self.checked_offset = min(self.checked_offset, end)
        self.sound_ranges = tuple((start, min(stop, end)) for start, stop in self.sound_ranges if start < end)

    def end_before(self, physical_offset: int) -> int:
        """Return where the queue ends without the entries at its end that name records from a place of the log on."""
        first, end = self.segments.start // ENTRY_SIZE, self.max_offset
        while end > first:
            start = max(first, end - _LOOK_BEHIND // ENTRY_SIZE)
            entries = [*ENTRY.iter_unpack(self._read_all(start, (end - start) * ENTRY_SIZE))]
            while entries and _names_behind(ConsumeQueueEntry._make(entries[-1]), physical_offset):
                entries.pop()
                end -= 1
            if entries:
                return end
        return end

    def find_start(self, log_start: int, first_entry: ConsumeQueueEntry | None = None) -> None:
        """Move `min_offset` to the first entry whose record is still in the log, which begins at `log_start`.

        `first_entry` is the one at the beginning of the files, for whoever has read it.
        """

        def is_expired(entry: ConsumeQueueEntry) -> bool:
            return entry.is_written and not (entry.is_message and entry.physical_offset >= log_start)

        first = self.segments.start // ENTRY_SIZE
        entry = first_entry or self.entry(first)
        while first < self.max_offset:
            if is_expired(entry):
                offsets = range(first, self.max_offset)
                first += bisect_left(offsets, True, key=lambda offset: not is_expired(self.entry(offset)))
                entry = self.entry(first)
            if entry.is_written:
                break
            # A hole is damage. In front of an expired entry it has expired too: entries are in the order of the log.
            behind = self._next_written(first)
            if behind is None or not is_expired(next_entry := self.entry(behind)):
                break
            first, entry = behind, next_entry
        self.min_offset = first  # after the last read: until then consumers see what was true before
        self._first_record = entry.physical_offset if first < self.max_offset else -1

    def _next_written(self, offset: int) -> int | None:
        """Return the first offset, from one on, whose entry was written; None if none was."""
        while offset < self.max_offset:
            data = self._pread(offset * ENTRY_SIZE, min(_LOOK_BEHIND, (self.max_offset - offset) * ENTRY_SIZE))
            if written := _written_ones(data):
                return offset + written[0]
            if not data:
                break
            offset += len(data) // ENTRY_SIZE
        return None

    def drop_before(self, log_start: int) -> list[str]:
        """Follow a log that begins later now; return the files left over, which are for the caller to remove.

        The file of the last entry stays although nothing in it may be left: the queue's next offset is known by it.
        """
        if self._first_record >= log_start or self.segments.start == self.segments.stop:
            return []
        self.write_tail()  # it may belong into a file that goes
        self.find_start(log_start)
        last = max(self.max_offset - 1, 0)
        return self.segments.drop_before(min(self.min_offset, last) * ENTRY_SIZE)
