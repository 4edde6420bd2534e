"""Reading by queue offset and by time: which records an answer holds, and where the next read begins."""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from pyromq.errors import OffsetOutOfRange
from pyromq.lane.pull_answers import LOWEST_CODE_HIGH
from pyromq.protocol.messages.record import SMALLEST_RECORD
from pyromq.store.config import StoreConfig
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue
from pyromq.store.read.property_scan import PropertyReader, PropertyScan
from pyromq.store.read.readable import PropertyFilter, ReadableLog
from pyromq.store.results import GetResult, GetStatus
from pyromq.store.segments import FileRange, NotInMemory

_PLACE: Final = struct.Struct(">qi8x")
_PLACE_AND_CODE: Final = struct.Struct(">qiii")  # the tags code in two halves: a filter compares the low one
SCAN_ENTRIES: Final = 800
"""Entries that one read looks at, at least, if it filters."""
_SCAN_PLAINLY: Final = 32 * ENTRY_SIZE
_FETCHED_AT_ONCE: Final = 4 << 20
_COMPARE_UP_TO: Final = 8  # codes; numpy's isin costs as much as eight comparisons


Place = tuple[int, tuple[int, int]]
"""Index, physical offset and size of an entry."""
Places = Iterable[Place]


class ReadLimits(NamedTuple):
    """Most messages and bytes of an answer, by whether they are likely in memory, and how far back that is."""

    memory_count: int
    memory_bytes: int
    disk_count: int
    disk_bytes: int
    memory: int


def read_limits(config: StoreConfig) -> ReadLimits:
    """Return the limits a configuration means on this machine."""
    memory = config.physical_memory or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return ReadLimits(
        config.max_transfer_count_in_memory,
        config.max_transfer_bytes_in_memory,
        config.max_transfer_count_in_disk,
        config.max_transfer_bytes_in_disk,
        memory * config.access_message_in_memory_max_ratio // 100,
    )


class ReadableQueues(Protocol):
    """Queues by topic and id."""

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None: ...


class EntryGuard(Protocol):
    """Lets pass the entries whose records are sound."""

    def is_needed(self, queue: ConsumeQueue, offset: int) -> bool:
        """Tell whether entries from an offset on may be damaged, or their records."""

    def sound_ones(self, queue: ConsumeQueue, offset: int, entries: Places) -> Iterator[Place]:
        """Yield the entries whose records are sound; `offset` is that of index 0."""


def stored_entries(queue: ConsumeQueue | None, start: int, stop: int) -> bytes:
    """Return the entries of a range, 20 bytes each, as stored; raises OffsetOutOfRange if some are gone."""
    stop = min(stop, queue.max_offset if queue else 0)
    pieces: list[bytes] = []
    while queue is not None and start < stop:
        piece = queue.read(start, stop - start)
        if len(piece) < ENTRY_SIZE:
            raise OffsetOutOfRange(
                f"entries {start} to {stop} of {queue.topic} queue {queue.queue_id} are no longer there"
            )
        pieces.append(piece)
        start += len(piece) // ENTRY_SIZE
    return b"".join(pieces)


class QueueReader:
    """Reads what consumers may see; changes nothing."""

    def __init__(
        self, log: ReadableLog, queues: ReadableQueues, limits: ReadLimits, guard: EntryGuard | None = None
    ) -> None:
        self._log = log
        self._queues = queues
        self._limits = limits
        self._guard = guard

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int | None,
        codes: frozenset[int] | None,
        wants: PropertyFilter | None = None,
    ) -> GetResult:
        """Return messages from an offset on, with RocketMQ's statuses and limits."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [])
        low, high = queue.min_offset, queue.max_offset
        if offset < low:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high, [])
        if offset == high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high, [])
        if offset > high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high, [])
        return self._scan(queue, offset, max_count, max_bytes, codes, wants)

    def _scan(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        max_bytes: int | None,
        codes: frozenset[int] | None,
        wants: PropertyFilter | None,
    ) -> GetResult:
        batch = _Answer(self._log, self._limits, max_count, max_bytes)
        data = queue.read(offset, _most_entries(batch.most, max_count, codes, wants))
        if not data:
            next_offset = queue.next_file_offset(offset)
            return GetResult(GetStatus.OFFSET_FOUND_NULL, next_offset, queue.min_offset, queue.max_offset, [])
        entries = matching_entries(data, codes)
        if self._guard is not None and self._guard.is_needed(queue, offset):
            entries = self._guard.sound_ones(queue, offset, entries)
        scan = PropertyScan(wants, PropertyReader(self._log)) if wants is not None else None
        if scan is not None:
            entries = scan.wanted(entries)
        try:
            scanned = batch.take(entries, len(data) // ENTRY_SIZE)
        except NotInMemory as error:
            raise NotInMemory([*error.missing, *self._records(data, codes)]) from None
        if scan is not None and scan.stopped_at is not None:
            scanned = scan.stopped_at
        last_seen = ENTRY.unpack_from(data, (scanned - 1) * ENTRY_SIZE)[0]
        return batch.result(queue, offset + scanned, last_seen)

    def _records(self, data: bytes, codes: frozenset[int] | None) -> Iterator[FileRange]:
        """Yield where the records of entries are, up to some megabytes: who has looked at one looks at the next too."""
        segments, left = self._log.segments, _FETCHED_AT_ONCE
        for _, (physical_offset, size) in matching_entries(data, codes):
            left -= size
            if left < 0:
                return
            if size >= SMALLEST_RECORD and self._log.start <= physical_offset < self._log.end - size:
                start = segments.file_start(physical_offset)
                yield FileRange(segments.path(start), physical_offset - start, size)

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of the message stored nearest to a time; the first or the last if it is outside."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.min_offset >= queue.max_offset:
            return 0 if queue is None else queue.max_offset
        offsets = range(queue.min_offset, queue.max_offset)
        right = offsets.start + bisect_left(offsets, timestamp_ms, key=lambda offset: self._stored_at(queue, offset))
        if right == offsets.start:
            return right
        left = right - 1
        if right == offsets.stop:
            return left
        since_left = timestamp_ms - self._stored_at(queue, left)
        return left if since_left <= self._stored_at(queue, right) - timestamp_ms else right

    def first_offset_since(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at or after a time; the queue's end if there is none."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        offsets = range(queue.min_offset, queue.max_offset)
        return offsets.start + bisect_left(offsets, timestamp_ms, key=lambda offset: self._stored_at(queue, offset))

    def _stored_at(self, queue: ConsumeQueue, offset: int) -> int:
        return self._log.store_timestamp_ms(queue.entry(offset).physical_offset) or 0

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Return when the first message that is left was stored; -1 if there is none."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.min_offset >= queue.max_offset:
            return -1
        return self._stored_at(queue, queue.min_offset) or -1


class _Answer:
    """An answer being put together: neighbouring records become one run, a run one view."""

    def __init__(self, log: ReadableLog, limits: ReadLimits, max_count: int, max_bytes: int | None) -> None:
        self._log = log
        self._cold_before = log.end - limits.memory  # RocketMQ's guess, which limits an answer: it may be in memory
        if max_bytes is None:
            self._hot = (min(max_count, limits.memory_count), limits.memory_bytes)
            self._cold = (min(max_count, limits.disk_count), limits.disk_bytes)
        else:
            self._hot = self._cold = (min(max_count, max_bytes // SMALLEST_RECORD + 1), max_bytes)
        self.most = max(self._hot[0], 1)
        self._runs: list[list[int]] = []
        self._count = self._size = 0
        self._removed = False

    def take(self, entries: Iterable[tuple[int, tuple[int, int]]], read: int) -> int:
        """Take what fits of (index, (physical offset, size)); return how many of the entries read were looked at."""
        log_start, log_end, cold_before = self._log.start, self._log.end, self._cold_before
        count = total = skip_to = 0
        run_end = -1
        looked_at = read
        for index, (physical_offset, size) in entries:
            if physical_offset < skip_to:
                continue
            end = physical_offset + size
            if physical_offset < log_start or end > log_end or size < SMALLEST_RECORD:
                skip_to = self._next_readable(physical_offset)
                continue
            most, most_bytes = self._cold if physical_offset < cold_before else self._hot
            if count and total + size > most_bytes:
                looked_at = index
                break
            if physical_offset != run_end:
                self._runs.append([physical_offset, end])
            run_end = self._runs[-1][1] = end
            count += 1
            total += size
            if count >= most:
                looked_at = index + 1
                break
        self._count, self._size = count, total
        return looked_at

    def _next_readable(self, physical_offset: int) -> int:
        self._removed = True
        if physical_offset >= self._log.start:
            return 0  # an entry that names no record says nothing about the next one
        return self._log.segments.file_start(physical_offset) + self._log.file_size

    def result(self, queue: ConsumeQueue, next_offset: int, last_seen: int) -> GetResult:
        """Return the answer; its records are read here."""
        none_found = GetStatus.MESSAGE_WAS_REMOVING if self._removed else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(
            GetStatus.FOUND if self._count else none_found,
            next_offset,
            queue.min_offset,
            queue.max_offset,
            self._log.views(self._runs),
            self._count,
            self._size,
            last_seen < self._cold_before,
        )


def _most_entries(most: int, max_count: int, codes: frozenset[int] | None, wants: PropertyFilter | None) -> int:
    """Return how many entries to look at for an answer that holds at most `most` messages."""
    if wants is not None:
        return min(SCAN_ENTRIES, wants.scan_limit)
    return most if codes is None else max(SCAN_ENTRIES, max_count)


def matching_entries(data: bytes, codes: frozenset[int] | None) -> Iterator[tuple[int, tuple[int, int]]]:
    """Return index, physical offset and size of the entries that pass a filter by tags code."""
    if codes is None:
        return enumerate(_PLACE.iter_unpack(data))
    return _filtered(data, codes)


def _filtered(data: bytes, codes: frozenset[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    # A filter that lets most pass is done after a few entries, one that skips much goes on by columns.
    for index, (offset, size, high, low) in enumerate(_PLACE_AND_CODE.iter_unpack(data[:_SCAN_PLAINLY])):
        if low in codes or high < LOWEST_CODE_HIGH:
            yield index, (offset, size)
    if len(data) > _SCAN_PLAINLY:
        yield from _filtered_by_columns(data, codes, _SCAN_PLAINLY // ENTRY_SIZE)


def _filtered_by_columns(data: bytes, codes: frozenset[int], start: int) -> Iterator[tuple[int, tuple[int, int]]]:
    import numpy  # a tenth of a second to import: only where a filter skips much

    kind = numpy.dtype([("offset", ">i8"), ("size", ">i4"), ("high", ">i4"), ("low", ">i4")])
    entries = numpy.frombuffer(data, kind)[start:]
    passes = entries["high"] < LOWEST_CODE_HIGH
    if len(codes) > _COMPARE_UP_TO:
        passes |= numpy.isin(entries["low"], list(codes))
    else:
        for code in codes:
            passes |= entries["low"] == code
    chosen = numpy.flatnonzero(passes)
    places = zip(entries["offset"][chosen].tolist(), entries["size"][chosen].tolist(), strict=True)
    return zip((chosen + start).tolist(), places, strict=True)
