"""Several queues of a topic read at once, in the order of the log: what lies side by side there is one run of bytes.

Queue by queue, thousands of messages are thousands of pieces to find and to copy; together they are a few runs. This is
for large answers and for what is plain: where an entry or a record is not what it should be, there is no answer here,
and whoever asks reads queue by queue, where damage is looked at closely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyromq.lane.pull_answers import LOWEST_CODE_HIGH
from pyromq.protocol.messages.record import SMALLEST_RECORD
from pyromq.store.commit_log import CommitLog
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.read.queue_reader import ReadableQueues, ReadLimits
from pyromq.store.read.record_columns import Expected, RecordColumns
from pyromq.store.results import MergedResult, QueueRange
from pyromq.store.segments import FileRange, NotInMemory
from pyromq.store.small_files.fences import Fences

_ENTRY: Final = np.dtype([("offset", ">i8"), ("size", ">i4"), ("high", ">i4"), ("low", ">i4")])
_LARGEST_RECORD: Final = 64 << 20
_FILTER_SCAN: Final = 65_536  # entries looked at for one answer, of all queues together
_FEW_RUNS: Final = 64  # more are joined: each piece handed to a socket costs as much as copying a kilobyte
_BLOCK: Final = 256 << 10  # read at once: it stays in the processor's cache until its records are copied out of it
_MOST_AHEAD: Final = 32 << 20
_WIDEST_GAP: Final = 16 << 10  # what lies between two records is read along: that costs less than another read

Int64s = NDArray[np.int64]


class _Entries(NamedTuple):
    """Entries of several queues as columns; `owners` tells of which range each is."""

    offsets: Int64s
    sizes: Int64s
    owners: Int64s
    queue_offsets: Int64s
    wanted: NDArray[np.bool_]

    def select(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> _Entries:
        offsets, sizes, owners, queue_offsets, wanted = self
        return _Entries(offsets[rows], sizes[rows], owners[rows], queue_offsets[rows], wanted[rows])


class MergedReader:
    """Reads ranges of the queues of one topic; changes nothing."""

    def __init__(self, log: CommitLog, queues: ReadableQueues, limits: ReadLimits, fences: Fences) -> None:
        self._log = log
        self._queues = queues
        self._memory = limits.memory
        self._records = RecordColumns(fences)

    def get(
        self, topic: str, ranges: Sequence[QueueRange], max_count: int, max_bytes: int, codes: frozenset[int] | None
    ) -> MergedResult | None:
        """Return messages from the start of each range on, of the given tag codes only; None if not all is plain."""
        queues = [self._queues.find(topic, part.queue_id) for part in ranges]
        spans = [_visible(queue, part) for queue, part in zip(queues, ranges, strict=True)]
        share = (_FILTER_SCAN if codes is not None else 2 * max_count) // len(ranges) + 1
        entries, seen_all = self._entries(queues, spans, share, codes)
        if entries is None:
            return None
        entries = entries.select(np.argsort(entries.offsets, kind="stable"))
        entries = entries.select(slice(_fitting(entries, seen_all, max_count, max_bytes)))
        next_offsets = [
            span.start + taken
            for span, taken in zip(spans, np.bincount(entries.owners, minlength=len(spans)).tolist(), strict=True)
        ]
        views = self._views(topic, queues, spans, next_offsets, entries)
        if views is None:
            return None
        wanted = entries.sizes[entries.wanted]
        cold_before = self._log.end - self._memory
        return MergedResult(
            views,
            wanted.astype(">i4").tobytes(),
            len(wanted),
            int(wanted.sum()),
            next_offsets,
            [0 if queue is None else queue.min_offset for queue in queues],
            [0 if queue is None else queue.max_offset for queue in queues],
            bool(len(entries.offsets)) and int(entries.offsets[-1]) < cold_before,
        )

    # --- entries

    def _entries(
        self,
        queues: Sequence[ConsumeQueue | None],
        spans: Sequence[QueueRange],
        share: int,
        codes: frozenset[int] | None,
    ) -> tuple[_Entries | None, list[bool]]:
        """Return the next entries of each queue, and whether those are all of its range; None if one names nothing."""
        pieces = [
            b""
            if queue is None or span.start >= span.stop
            else queue.read(span.start, min(share, span.stop - span.start))
            for queue, span in zip(queues, spans, strict=True)
        ]
        stored = np.frombuffer(b"".join(pieces), _ENTRY)
        counts = [len(piece) // _ENTRY.itemsize for piece in pieces]
        seen_all = [span.start + count >= span.stop for span, count in zip(spans, counts, strict=True)]
        offsets, sizes = stored["offset"].astype(np.int64), stored["size"].astype(np.int64)
        is_plain = (
            (offsets >= self._log.start)
            & (offsets + sizes <= self._log.end)
            & (sizes >= SMALLEST_RECORD)
            & (sizes <= _LARGEST_RECORD)
        )
        if not is_plain.all() or any(not count and not seen for count, seen in zip(counts, seen_all, strict=True)):
            return None, seen_all
        owners = np.repeat(np.arange(len(spans)), counts)
        firsts = np.cumsum([0, *counts[:-1]])
        queue_offsets = np.arange(len(stored)) + np.array([span.start for span in spans])[owners] - firsts[owners]
        return _Entries(offsets, sizes, owners, queue_offsets, _passing(stored, codes)), seen_all

    # --- records

    def _views(
        self,
        topic: str,
        queues: Sequence[ConsumeQueue | None],
        spans: Sequence[QueueRange],
        next_offsets: Sequence[int],
        entries: _Entries,
    ) -> list[bytes | memoryview] | None:
        """Return the bytes of the messages that are wanted; None if one of them is not sound."""
        unknown = [
            (queue, span.start, end)
            for queue, span, end in zip(queues, spans, next_offsets, strict=True)
            if queue is not None and self._records.is_unknown(queue, span.start, end)
        ]
        entries = entries if entries.wanted.all() else entries.select(entries.wanted)
        views = self._read(entries)
        if sum(map(len, views)) != int(entries.sizes.sum()):
            return None  # a file is shorter than its queues say
        if len(views) > _FEW_RUNS or unknown:
            views = [b"".join(views)]
        if unknown:
            queue_ids = np.array([span.queue_id for span in spans])[entries.owners]
            expected = Expected(topic.encode(), queue_ids, entries.queue_offsets, entries.offsets, entries.sizes)
            if not self._records.are_sound(views[0], expected):
                return None
            if len(entries.offsets) == sum(end - span.start for span, end in zip(spans, next_offsets, strict=True)):
                self._records.remember(unknown)
        return views

    def _read(self, entries: _Entries) -> list[bytes | memoryview]:
        """Return the bytes of records that are in the order of the log, neighbours as one piece."""
        starts, ends = _runs(entries)
        is_old = starts < self._log.mapped_from
        pieces: list[bytes | memoryview] = []
        missing: list[FileRange] = []
        for first, last in _windows(starts, ends, is_old, self._log.file_size):
            begin, end = int(starts[first]), int(ends[last - 1])
            try:
                window = self._log.view(begin, end - begin)
            except NotInMemory as error:
                missing += error.missing
                continue
            if last - first == 1:
                pieces.append(window)
                continue
            view = memoryview(window)
            edges = zip((starts[first:last] - begin).tolist(), (ends[first:last] - begin).tolist(), strict=True)
            pieces += [view[start:end] for start, end in edges]
        if missing:
            raise NotInMemory(missing)
        if len(ends) and is_old[-1]:
            self._look_ahead(int(starts[0]), int(ends[-1]))
        return pieces

    def _look_ahead(self, start: int, end: int) -> None:
        """Have the system fetch what the next answer needs, while this one is on its way; then nobody waits for it."""
        if end - start <= _MOST_AHEAD:
            self._log.segments.will_need(end, end - start)


def _visible(queue: ConsumeQueue | None, part: QueueRange) -> QueueRange:
    """Return what there is of a range."""
    if queue is None:
        return part._replace(stop=part.start)
    start = max(part.start, queue.min_offset)
    return part._replace(start=start, stop=max(start, min(part.stop, queue.max_offset)))


def _passing(stored: NDArray[np.void], codes: frozenset[int] | None) -> NDArray[np.bool_]:
    if codes is None:
        return np.ones(len(stored), bool)
    passing: NDArray[np.bool_] = np.isin(stored["low"], list(codes)) | (stored["high"] < LOWEST_CODE_HIGH)
    return passing


def _fitting(entries: _Entries, seen_all: Sequence[bool], max_count: int, max_bytes: int) -> int:
    """Return how many of the entries, which are in the order of the log, an answer covers."""
    # Where a queue has more entries than were read, nothing beyond its last one is in order yet.
    ends = [int(entries.offsets[entries.owners == owner][-1]) for owner, is_all in enumerate(seen_all) if not is_all]
    covered = int(np.searchsorted(entries.offsets, min(ends), "right")) if ends else len(entries.offsets)
    counts = np.cumsum(entries.wanted[:covered])
    totals = np.cumsum(np.where(entries.wanted[:covered], entries.sizes[:covered], 0))
    by_count = int(np.searchsorted(counts, max_count, "right"))
    by_size = int(np.searchsorted(totals, max_bytes, "right"))
    first = int(np.searchsorted(counts, 1)) + 1  # one message is given whatever its size
    return min(covered, by_count, max(by_size, first))


def _runs(entries: _Entries) -> tuple[Int64s, Int64s]:
    """Return where runs of neighbouring records begin and end."""
    ends = entries.offsets + entries.sizes
    is_first = np.ones(len(ends), bool)
    is_first[1:] = entries.offsets[1:] != ends[:-1]
    is_last = np.roll(is_first, -1)
    return entries.offsets[is_first], ends[is_last]


def _windows(starts: Int64s, ends: Int64s, is_old: NDArray[np.bool_], file_size: int) -> Iterator[tuple[int, int]]:
    """Yield the runs, by their numbers from and to, that one look at the log gets: through a map, those of a file."""
    files, blocks = starts // file_size, starts // _BLOCK
    is_apart = (blocks[1:] != blocks[:-1]) | (starts[1:] - ends[:-1] > _WIDEST_GAP)
    breaks = (files[1:] != files[:-1]) | (is_old[1:] != is_old[:-1]) | (is_old[1:] & is_apart)
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(starts)]
    return pairwise(edges) if len(starts) else iter(())
