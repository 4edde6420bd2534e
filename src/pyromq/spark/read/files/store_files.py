"""The files of a store as a task reads them: queue entries as columns, log files mapped into memory.

The driver has decided what is visible, so nothing is searched here. A map reads only the touched pages: without the
column body, most pages of large messages are never read. Brokers remove log files but never shorten them, and a removed
file stays readable through its map.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from pyromq.errors import StoreError
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.arrow import Int64s
from pyromq.spark.offsets import QueueSlice
from pyromq.spark.read.decode.records import RowMask
from pyromq.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from pyromq.store.files import ReadOnlyFiles
from pyromq.store.read.file_view import LOG_NAME, QUEUES_NAME, Segment, SegmentView, find_root
from pyromq.store.segments import DescriptorPool

_MAX_OPEN_FILES = 64
_ENTRY = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])


@dataclass(frozen=True, slots=True)
class Entries:
    """Queue entries as columns."""

    physical_offsets: Int64s
    sizes: Int64s
    tags_codes: Int64s
    queue_offsets: Int64s
    owners: Int64s
    """The index of the requested range that each entry belongs to."""

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def columns(self) -> tuple[Int64s, ...]:
        """All columns, in order."""
        return self.physical_offsets, self.sizes, self.tags_codes, self.queue_offsets, self.owners

    def select(self, rows: RowMask | Int64s | slice) -> Entries:
        """Return the given entries, or all in another order."""
        return Entries(*(column[rows] for column in self.columns))


def joined(parts: Sequence[Entries]) -> Entries:
    """Return the entries of all parts, one after another."""
    return Entries(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))


class StoreFiles:
    """One store's files, open for one task; a context manager."""

    def __init__(self, directory: str) -> None:
        """Open a store directory; raises StoreError if it is not visible from here."""
        self._files = ReadOnlyFiles()
        try:
            self._root = find_root(directory, self._files)
        except StoreError as error:
            raise StoreError(f"{error}; every executor must see the directory of option store") from None
        self._pool = DescriptorPool(self._files, _MAX_OPEN_FILES)
        self.log = SegmentView([os.path.join(self._root, LOG_NAME)], self._files, self._pool)
        self._mapped: tuple[Segment, memoryview] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._mapped = None  # columns may still use the map: it is freed with the last of them
        self._pool.close()

    def queue(self, queue: MessageQueue) -> ConsumeQueue:
        """Return a queue whose start and end have not been looked up."""
        return ConsumeQueue(queue.topic, queue.queue_id, self._queue_files(queue))

    def _queue_files(self, queue: MessageQueue) -> SegmentView:
        directory = os.path.join(self._root, QUEUES_NAME, queue.topic, str(queue.queue_id))
        return SegmentView([directory], self._files, self._pool)

    def entries(self, part: QueueSlice, owner: int) -> Entries:
        """Return the entries of a range, without the first ones that retention removed; gaps are zeros."""
        stored = np.zeros(part.stop - part.start, _ENTRY)
        start, stop = part.start * ENTRY_SIZE, part.stop * ENTRY_SIZE
        octets = stored.view(np.uint8)
        files = self._queue_files(part.queue)
        first = min(max(part.start, files.start // ENTRY_SIZE), part.stop)
        for segment in files.segments:
            begin, end = max(start, segment.base), min(stop, segment.end)
            if begin < end:
                data = files.pread(begin, end - begin)
                octets[begin - start :][: len(data)] = np.frombuffer(data, np.uint8)
                first = first if data else -(-end // ENTRY_SIZE)  # removed a moment ago
        stored = stored[first - part.start :]
        return Entries(
            stored["physical_offset"].astype(np.int64),
            stored["size"].astype(np.int64),
            stored["tags_code"].astype(np.int64),
            np.arange(first, part.stop),
            np.full(len(stored), owner),
        )

    def place(self, queue: MessageQueue, offset: int) -> str:
        """Return the file and position of the message at an offset, or of the queue entry if it names no message."""
        entries = self.entries(QueueSlice(queue, offset, offset + 1), 0)
        named = entries.physical_offsets[entries.sizes > 0]
        files, position = (self.log, int(named[0])) if len(named) else (self._queue_files(queue), offset * ENTRY_SIZE)
        for segment in files.segments:
            if segment.base <= position < segment.end:
                return f"{segment.path} at byte {position - segment.base}"
        return f"byte {position} of {files.directory}, whose file is missing"

    def mapped(self, segment: Segment, *, ahead: bool = True) -> memoryview | None:
        """Return the bytes of a log file, or None if it is gone; `ahead` means that most of them will be read."""
        if self._mapped is None or self._mapped[0] != segment:
            self._mapped = None
            data = _map(segment.path, ahead=ahead)
            if data is None:
                return None
            self._mapped = segment, data
        return self._mapped[1]


def _map(path: str, *, ahead: bool) -> memoryview | None:
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
        return None
    if not ahead:
        data.madvise(mmap.MADV_RANDOM)  # else the system reads megabytes around each touched page
    return memoryview(data)
