"""Divides the work of reading a store: by ranges of queues, or by ranges of the log if most of it is wanted.

Messages of several queues lie mixed in the log. Reading queue by queue visits every page of it once per queue; reading
range by range visits it once. That saves a tenth to a fifth of the work if a topic fills the log.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import QueueSlice
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.plan.partitions import SMALL, Slices, plan
from pyromq.store.consume_queue import ConsumeQueueEntry

_ENOUGH_ROWS = 100_000
"""Rows that justify a task of their own."""
_SAMPLES = 16
_MUCH_OF_THE_LOG = 0.25


class EntryLookup(Protocol):
    """Looks up queue entries by offset."""

    def entry(self, queue: MessageQueue, offset: int) -> ConsumeQueueEntry: ...


class LogRange(Slices):
    """The work of one task that reads in log order: the ranges of all queues that lie together in the log."""


class _Span(NamedTuple):
    start: int
    stop: int
    wanted: float
    """Estimated bytes of the messages to read within the span."""


def plan_store(entries: EntryLookup, slices: Sequence[QueueSlice], options: ReadOptions) -> list[Slices]:
    """Divide ranges of queues into tasks; every offset is in exactly one."""
    rows = sum(part.stop - part.start for part in slices)
    if rows > SMALL:
        span = _measure(entries, slices)
        if span.wanted >= _MUCH_OF_THE_LOG * (span.stop - span.start):
            ranges = _log_ranges(entries, slices, span, _task_count(rows, options))
            return [part for pieces in ranges for part in _tasks(pieces, options.max_records_per_partition)]
    return plan(slices, options.min_partitions, options.max_records_per_partition)


def _task_count(rows: int, options: ReadOptions) -> int:
    """Return the number of tasks: a few large ones, one per core of this machine if there is enough work."""
    usual = min(os.cpu_count() or 1, rows // _ENOUGH_ROWS)
    most = options.max_records_per_partition
    return max(1, options.min_partitions or usual, -(-rows // (most - most // 8)))  # ranges never hold equal numbers


def _measure(entries: EntryLookup, slices: Sequence[QueueSlice]) -> _Span:
    start, stop, wanted = 1 << 63, 0, 0.0
    for part in slices:
        count = part.stop - part.start
        step = max(1, (count - 1) // _SAMPLES)
        seen = [entries.entry(part.queue, offset) for offset in (*range(part.start, part.stop, step), part.stop - 1)]
        sound = [entry for entry in seen if entry.is_message]
        if sound:
            start = min(start, sound[0].physical_offset)
            stop = max(stop, sound[-1].physical_offset + sound[-1].size)
            wanted += count * sum(entry.size for entry in sound) / len(sound)
    return _Span(start, stop, wanted)


def _tasks(pieces: Sequence[QueueSlice], most: int) -> list[Slices]:
    """Return one task for ranges that lie together in the log, or several if they hold too many messages."""
    parts = plan(pieces, None, most) if sum(part.stop - part.start for part in pieces) > most else [Slices(pieces)]
    return [LogRange(part.slices) for part in parts]


def _log_ranges(
    entries: EntryLookup, slices: Sequence[QueueSlice], span: _Span, count: int
) -> Iterator[list[QueueSlice]]:
    size = span.stop - span.start
    edges = [span.start + size * index // count for index in range(1, count)]
    cut = [_cut(entries, part, edges) for part in slices]
    ranges = ([part for part in pieces if part.start < part.stop] for pieces in zip(*cut, strict=True))
    return (pieces for pieces in ranges if pieces)


def _cut(entries: EntryLookup, part: QueueSlice, edges: Sequence[int]) -> list[QueueSlice]:
    """Split a range at the given log positions; pieces may be empty."""
    cuts = [part.start]
    for edge in edges:
        offsets = range(cuts[-1], part.stop)
        beyond = bisect_left(offsets, edge, key=lambda offset: entries.entry(part.queue, offset).physical_offset)
        cuts.append(offsets.start + beyond)
    return [part._replace(start=start, stop=stop) for start, stop in pairwise([*cuts, part.stop])]
