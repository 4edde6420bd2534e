"""What the files of a queue hold before recovery changes them: for most of thousands of queues, by one read."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue, ConsumeQueueEntry
from pyromq.store.segments import is_zero

_A_PAGE: Final = 204  # entries
_FEW: Final = 16


class QueueLook(NamedTuple):
    """Where a queue ends, by its files, and its first and last entry."""

    end: int
    first: ConsumeQueueEntry
    last: ConsumeQueueEntry
    has_more: bool
    """Whether there may be something behind the end."""


def look_at(queue: ConsumeQueue, likely_end: int) -> QueueLook:
    """Look at a queue; it is quick if the queue ends near the offset at which it did when that was noted last."""
    return _look_near(queue, likely_end) or _look_for_the_end(queue)


def _look_near(queue: ConsumeQueue, noted_end: int) -> QueueLook | None:
    """Look whether a queue ends at most a page behind an offset, in its last file, and with a page of zeros behind."""
    segments = queue.segments
    last_file = max(segments.start, segments.stop - segments.file_size)
    if not last_file < noted_end * ENTRY_SIZE <= segments.stop:
        return None
    first = segments.start // ENTRY_SIZE
    is_short = last_file == segments.start and noted_end - first <= _A_PAGE
    start = first if is_short else noted_end - 1
    data = segments.pread(start * ENTRY_SIZE, (noted_end - start + 2 * _A_PAGE) * ENTRY_SIZE)
    count = _count_entries(data, noted_end - start)
    noted, last = _entry(data, noted_end - start - 1), _entry(data, count - 1)
    if start + count > noted_end + _A_PAGE or not noted.is_written or not last.is_written:
        return None
    first_entry = _entry(data, 0) if start == first else queue.entry(first)
    return QueueLook(start + count, first_entry, last, segments.has_data(start * ENTRY_SIZE + len(data)))


def _entry(data: bytes, index: int) -> ConsumeQueueEntry:
    return ConsumeQueueEntry(*ENTRY.unpack_from(data, index * ENTRY_SIZE))


def _count_entries(data: bytes, likely: int) -> int:
    """Return how many entries stand before the zeros at the end."""
    if is_zero(data[likely * ENTRY_SIZE :]):
        return likely
    few = data[: (likely + _FEW) * ENTRY_SIZE]
    kept = few if is_zero(data[len(few) :]) else data  # stripping thousands of zeros takes a while
    return -(-len(kept.rstrip(b"\0")) // ENTRY_SIZE)


def _look_for_the_end(queue: ConsumeQueue) -> QueueLook:
    end = queue.find_end()
    return QueueLook(end, queue.entry(queue.segments.start // ENTRY_SIZE), queue.entry(end - 1), has_more=True)
