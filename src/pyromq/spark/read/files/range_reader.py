"""Turns ranges of a store into Arrow batches, on an executor, without a broker.

No broker has checked these files, so every record must match its queue entry. Damaged records are skipped and reported.
A body's checksum is verified only on request, or if the body is to be decompressed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa

from pyromq.errors import CorruptRecord
from pyromq.protocol.messages.properties import decode_properties
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.sql92.sql_filter import compile_sql
from pyromq.protocol.tag_filter import parse_tags
from pyromq.spark.arrow import Int64s
from pyromq.spark.offsets import QueueSlice, queue_name
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.decode.columns import Columns, freeze, record_batches
from pyromq.spark.read.decode.records import Records, RowMask
from pyromq.spark.read.files.record_matcher import RecordMatcher
from pyromq.spark.read.files.store_files import Entries, StoreFiles, joined
from pyromq.spark.read.plan.partitions import divided
from pyromq.spark.read.plan.positions import report_lost
from pyromq.store.read.file_view import Segment

logger = logging.getLogger(__name__)

_MOST_ENTRIES = 1_000_000
_FILLER_SIZE = 0x7FFFFFFF
_LARGE_RECORD = 32 << 10
"""Record size, in bytes, from which reading only head and tail is less work than reading everything."""


def read_store(slices: Sequence[QueueSlice], options: ReadOptions, *, by_log: bool) -> Iterator[pa.RecordBatch]:
    """Read ranges queue by queue, or together in log order; skip and report damaged records."""
    freeze()
    pieces = [piece for part in slices for piece in divided(part, _MOST_ENTRIES)]
    groups = [list(slices)] if by_log else [[piece] for piece in pieces]
    with StoreFiles(options.store) as files:
        for group in groups:
            yield from RangeReader(files, group, options).batches()


class RangeReader:
    """Reads ranges of queues that lie together in the log."""

    def __init__(self, files: StoreFiles, slices: Sequence[QueueSlice], options: ReadOptions) -> None:
        self._files = files
        self._slices = slices
        self._options = options
        self._filter = RowFilter(options.tags, options.sql)
        self._has_bodies = "body" in options.columns
        self._check = RecordMatcher(
            [files.queue(part.queue) for part in slices],
            check_crc=options.check_crc,
            inflates=self._has_bodies and options.decompress,
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the ranges as Arrow batches of about the size set in the options."""
        for segment, entries in self._pieces(self._entries()):
            data = self._files.mapped(segment, ahead=self._looks_at_most(entries))
            if data is None:
                self._each_queue(entries, self._lost)
                continue
            records, sound = self._check.records(data, segment.base, entries)
            self._without(entries, ~sound, self._damaged)
            yield from record_batches(self._filter.wanted(records), self._options.broker_name, self._options)

    def _looks_at_most(self, entries: Entries) -> bool:
        """Return True if most pages of these messages will be read; without bodies it is one or two per message."""
        return self._has_bodies or self._options.check_crc or float(entries.sizes.mean()) < _LARGE_RECORD

    # --- entries

    def _entries(self) -> Entries:
        """Return the entries of messages that may match the filter, in log order."""
        loaded = [self._files.entries(part, owner) for owner, part in enumerate(self._slices)]
        for part, found in zip(self._slices, loaded, strict=True):
            if len(found) < part.stop - part.start:
                self._lost(part._replace(stop=part.stop - len(found)))
        entries = joined(loaded)
        entries = self._without(entries, ~_names_message(entries), self._damaged)
        entries = self._without(entries, entries.physical_offsets < self._files.log.start, self._lost)
        if all(part.queue.topic != SCHEDULE_TOPIC for part in self._slices):  # there the tags code is a time
            entries = entries.select(self._filter.may_want(entries.tags_codes))
        if len(loaded) > 1:
            entries = entries.select(np.argsort(entries.physical_offsets, kind="stable"))
        return entries

    def _pieces(self, entries: Entries) -> Iterator[tuple[Segment, Entries]]:
        """Split entries into batches, each within one log file."""
        segments = self._files.log.segments
        if not segments:
            self._each_queue(entries, self._lost)
            return
        places = np.searchsorted([segment.base for segment in segments], entries.physical_offsets, "right") - 1
        edges = [0, *(np.flatnonzero(np.diff(places)) + 1), len(entries)]
        for start, stop in pairwise(edges):
            for piece in self._batch_sized(entries.select(slice(start, stop))):
                yield segments[places[start]], piece

    def _batch_sized(self, entries: Entries) -> Iterator[Entries]:
        rows, most = self._options.batch_rows, self._options.batch_bytes
        totals = np.cumsum(entries.sizes)
        start, before = 0, 0
        while start < len(entries):
            fitting = int(np.searchsorted(totals, before + most, "right")) if self._has_bodies else len(entries)
            stop = min(start + rows, max(fitting, start + 1), len(entries))
            yield entries.select(slice(start, stop))
            start, before = stop, int(totals[stop - 1])

    # --- what is missing

    def _without(self, entries: Entries, missing: RowMask, tell: Callable[[QueueSlice], None]) -> Entries:
        if not missing.any():
            return entries
        self._each_queue(entries.select(missing), tell)
        return entries.select(~missing)

    def _each_queue(self, missing: Entries, tell: Callable[[QueueSlice], None]) -> None:
        """Report missing messages, one call for each consecutive range of a queue."""
        for owner, part in enumerate(self._slices):
            offsets = np.sort(missing.queue_offsets[missing.owners == owner])
            for run in np.split(offsets, np.flatnonzero(np.diff(offsets) > 1) + 1):
                if len(run):
                    tell(part._replace(start=int(run[0]), stop=int(run[-1]) + 1))

    def _lost(self, part: QueueSlice) -> None:
        report_lost(self._options, part.queue, part.start, part.stop)

    def _damaged(self, part: QueueSlice) -> None:
        place = self._files.place(part.queue, part.start)
        text = f"queue {queue_name(part.queue)}: offsets {part.start} to {part.stop - 1} are damaged ({place})"
        if self._options.fail_on_damage:
            raise CorruptRecord(f"{text}; without failOnDataLoss=true they would be skipped")
        logger.warning("%s, skipped; see pyromq store verify %s", text, self._options.store)


def _names_message(entries: Entries) -> RowMask:
    is_filler = (entries.physical_offsets == 0) & (entries.sizes == _FILLER_SIZE)
    return cast(RowMask, (entries.physical_offsets >= 0) & (entries.sizes > 0) & ~is_filler)


_LOWEST_CODE = -(1 << 32)
"""A smaller value is not a tags code but the address of an extension: unknown, so the message may match."""


class RowFilter:
    """Selects rows by tags and by SQL92, as a broker does, for reads that ask none; either may accept everything."""

    def __init__(self, tags: str, sql: str | None) -> None:
        self._tags = parse_tags(tags)
        self._sql = None if sql is None else compile_sql(sql)

    def may_want(self, tags_codes: Int64s) -> RowMask:
        """Return which messages may match, judging by their tags codes without reading them."""
        if self._tags.everything:
            return np.ones(len(tags_codes), bool)
        codes = np.array(sorted(self._tags.codes), np.int32)
        return np.isin(tags_codes.astype(np.int32), codes) | (tags_codes < _LOWEST_CODE)

    def wanted(self, records: Records) -> Records:
        """Return the matching records; tags are compared as text, since several can share a code."""
        if not self._tags.everything and len(records):
            records = records.select(Columns(records).tagged(self._tags.tags))
        if self._sql is not None and len(records):
            records = records.select(self._accepted(records))
        return records

    def _accepted(self, records: Records) -> RowMask:
        assert self._sql is not None
        matches, data = self._sql.matches, records.data
        starts, ends = (part.tolist() for part in records.properties)
        texts = (bytes(data[start:end]) for start, end in zip(starts, ends, strict=True))
        return np.array([matches(decode_properties(text)) for text in texts], bool)
