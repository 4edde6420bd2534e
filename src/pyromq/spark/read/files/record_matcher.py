"""Finds the records of a store that match their queue entries: by columns, then the doubtful ones one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from zlib import crc32

import numpy as np

from pyromq.errors import CorruptRecord
from pyromq.protocol.messages.compression import COMPRESSED_FLAG
from pyromq.protocol.messages.record import SMALLEST_RECORD
from pyromq.spark.arrow import Int64s
from pyromq.spark.read.decode.records import RecordHeaders, Records, RowMask
from pyromq.spark.read.files.store_files import Entries
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.read.gather import is_text
from pyromq.store.read.record_match import is_sound


class RecordMatcher:
    """Matches records with their entries; `check_crc` checks all bodies, `inflates` the compressed ones."""

    def __init__(self, queues: Sequence[ConsumeQueue], *, check_crc: bool, inflates: bool) -> None:
        self._queues = queues
        self._ids = np.array([queue.queue_id for queue in queues])
        self._topics = sorted({queue.topic_name for queue in queues})
        self._topic_of = np.array([self._topics.index(queue.topic_name) for queue in queues])
        self._check_crc = check_crc
        self._inflates = inflates

    def records(self, data: memoryview, base: int, entries: Entries) -> tuple[Records, RowMask]:
        """Return the sound records of a log file, and a mask of the entries that they belong to."""
        starts = entries.physical_offsets - base
        if (starts + entries.sizes == len(data)).any():  # a copied file may end with its last record
            first = int(starts.min())
            data, starts = memoryview(bytes(data[first:]) + b"\0"), starts - first
        sound = (entries.sizes >= SMALLEST_RECORD) & (starts + entries.sizes < len(data))
        heads = RecordHeaders(data, np.where(sound, starts, 0)) if len(data) >= SMALLEST_RECORD else None
        matching = np.zeros(len(sound), bool) if heads is None else self._match(heads, entries)
        self._judge(data, starts, entries, sound, ~matching)
        records = self._with_parts(data, starts, entries, sound, heads)
        doubtful = np.zeros(len(sound), bool)
        doubtful[sound] = self._need_a_look(records, entries.owners[sound])
        if doubtful.any():
            self._judge(data, starts, entries, sound, doubtful)
            records = Records(data, starts[sound])
        return records, sound

    def _match(self, heads: RecordHeaders, entries: Entries) -> RowMask:
        """Return which records start as their entries say and need no closer look."""
        matching = (
            (heads.numbers(0, "i4") == entries.sizes)
            & (heads.numbers(28, "i8") == entries.physical_offsets)
            & (heads.numbers(20, "i8") == entries.queue_offsets)
            & (heads.numbers(12, "i4") == self._ids[entries.owners])
        )
        if self._inflates:
            matching &= heads.numbers(36, "i4") & COMPRESSED_FLAG == 0
        return cast(RowMask, matching)

    def _with_parts(
        self, data: memoryview, starts: Int64s, entries: Entries, sound: RowMask, heads: RecordHeaders | None
    ) -> Records:
        """Return the sound records, after dropping those whose parts do not add up."""
        try:
            return Records(data, starts, heads) if sound.all() else Records(data, starts[sound])
        except CorruptRecord:
            self._judge(data, starts, entries, sound, sound.copy())
        return Records(data, starts[sound])

    def _need_a_look(self, records: Records, owners: Int64s) -> RowMask:
        doubtful = ~self._has_its_topic(records, self._topic_of[owners])
        return doubtful | _has_other_body(records) if self._check_crc else doubtful

    def _has_its_topic(self, records: Records, expected: Int64s) -> RowMask:
        starts, ends = records.topics
        alike = np.zeros(len(records), bool)
        for number in np.unique(expected).tolist():
            name = self._topics[number]
            rows = np.flatnonzero((expected == number) & (ends - starts == len(name)))
            alike[rows] = is_text(records.data, starts[rows], name)
        return alike

    def _judge(self, data: memoryview, starts: Int64s, entries: Entries, sound: RowMask, doubtful: RowMask) -> None:
        """Check doubtful records one by one, and clear their `sound` flag if they are damaged."""
        for row in np.flatnonzero(doubtful & sound).tolist():
            queue, queue_offset = self._queues[int(entries.owners[row])], int(entries.queue_offsets[row])
            place = int(entries.physical_offsets[row]), queue, queue_offset
            sound[row] = is_sound(data, int(starts[row]), int(entries.sizes[row]), place)


def _has_other_body(records: Records) -> RowMask:
    """Return which bodies do not match their checksums."""
    ranges = zip(*(edges.tolist() for edges in records.bodies), strict=True)
    found = np.fromiter((crc32(records.data[start:end]) for start, end in ranges), np.int64, len(records))
    return cast(RowMask, found & 0x7FFFFFFF != records.numbers(8, "i4"))
