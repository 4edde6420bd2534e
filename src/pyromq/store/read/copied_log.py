"""The bytes of a log, for who copies it: on the loop's thread (CopiedLog), and on another one (RawReader)."""

from __future__ import annotations

from pyromq.errors import OffsetOutOfRange
from pyromq.store.commit_log import CommitLog
from pyromq.store.files import OsFiles, store_error
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.read.reading import Reading
from pyromq.store.results import StoredRecord
from pyromq.store.segments import SegmentedFile


class CopiedLog:
    """The log of an open store as it stands, from `start` to `end`, in files of one size."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, files: OsFiles, reading: Reading) -> None:
        self._log = log
        self._queues = queues
        self._files = files
        self._reading = reading

    @property
    def start(self) -> int:
        """Where the log begins."""
        return self._log.start

    @property
    def end(self) -> int:
        """Where it ends."""
        return self._log.end

    @property
    def file_size(self) -> int:
        """The size of one of its files."""
        return self._log.file_size

    def read(self, physical_offset: int, length: int) -> bytes:
        """Return bytes, to the end of their file at most."""
        with self._reading:
            return self._log.pread(physical_offset, min(length, self._log.end - physical_offset))

    def reader(self) -> RawReader:
        """Return a reader for another thread."""
        return RawReader(self._log.segments, self._files)

    def last_record(self, before: int | None = None) -> StoredRecord | None:
        """Return the last message, or the last that ends before an offset; None if there is none."""
        limit = self._log.end if before is None else before
        with self._reading:
            ends = ((queue, queue.end_before(limit)) for queue in self._queues)
            entries = [queue.entry(end - 1) for queue, end in ends if end > queue.min_offset]
            for place in sorted((entry.physical_offset for entry in entries if entry.is_message), reverse=True):
                data = self._log.read(place)
                if data is not None and place + len(data) <= limit:
                    return StoredRecord(place, data)
            return None


class RawReader:
    """Reads the log's files in order, one thread at a time; close() it at the end.

    The store's own descriptors belong to the loop's thread. A file that is deleted while it is read stays readable.
    """

    def __init__(self, segments: SegmentedFile, files: OsFiles) -> None:
        self._segments = segments
        self._files = files
        self._start = -1
        self._descriptor = -1

    def read(self, physical_offset: int, length: int) -> bytes:
        """Return bytes, to the end of their file at most; raise OffsetOutOfRange if the file is gone, or StoreError."""
        start = self._segments.file_start(physical_offset)
        path = self._segments.path(start)
        try:
            if start != self._start:
                self.close()
                self._descriptor, self._start = self._files.open(path), start
            room = start + self._segments.file_size - physical_offset
            return self._files.pread(self._descriptor, min(length, room), physical_offset - start)
        except FileNotFoundError as error:
            raise OffsetOutOfRange(f"the log from {physical_offset} on is gone") from error
        except OSError as error:
            raise store_error("read", path, error) from error

    def close(self) -> None:
        """Close the file; harmless if none is open."""
        if self._start >= 0:
            self._files.close(self._descriptor)
            self._start = -1
