"""The files of an index, of which the last takes new keys; full ones wait here until they are flushed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pyromq.store.index.index_directory import IndexDirectory
from pyromq.store.index.index_file import IndexFile, IndexHeader, file_number

if TYPE_CHECKING:
    from pyromq.store.index.index_writer import IndexWriter
    from pyromq.store.index.key_batch import KeyBatch

logger = logging.getLogger(__name__)


class IndexFileList:
    """Files from the oldest to the newest. Not safe for threads by itself."""

    def __init__(self, directory: IndexDirectory, now_ms: Callable[[], int]) -> None:
        self.directory = directory
        self.writer: IndexWriter | None = None
        """The last file, once a key was put into it."""
        self.full: list[IndexWriter] = []
        """Files before it that are not flushed yet."""
        self._now_ms = now_ms
        self._others: list[IndexFile] = []

    def begin(self, files: list[IndexFile], writer: IndexWriter | None = None) -> None:
        """Begin with what was found, the last file open for writing if it had to be mended."""
        self._others, self.writer = files, writer

    def newest_first(self) -> list[IndexFile]:
        """Return all files as they are now."""
        return [*([self.writer.file] if self.writer else []), *reversed(self._others)]

    @property
    def last(self) -> IndexFile | None:
        """The file that takes the next key, unless it is full."""
        if self.writer is not None:
            return self.writer.file
        return self._others[-1] if self._others else None

    @property
    def last_header(self) -> IndexHeader:
        """What the last file says; as of an empty one if there is none."""
        return self.last.header if self.last else IndexHeader()

    @property
    def unflushed(self) -> list[IndexWriter]:
        """The files whose slots may not be on disk yet."""
        return [*self.full, *([self.writer] if self.writer else [])]

    def put(self, batch: KeyBatch) -> None:
        """Put keys, into new files if need be.

        After an OSError it may be called again with the same keys: those that got their place then have two.
        """
        while len(batch.hashes):
            writer = self._writer_with_room()
            count = min(writer.room, len(batch.hashes))
            writer.put(batch.rows(0, count))
            batch = batch.rows(count, len(batch.hashes))

    def _writer_with_room(self) -> IndexWriter:
        if self.last is not None and self.last.header.next_entry < self.directory.geometry.entries:
            return self._open_last()
        if self.writer is not None:
            self._others.append(self.writer.file)
            self.full.append(self.writer)
            self.writer = None
        number = file_number(self._now_ms(), self._others[-1].number if self._others else 0)
        self.writer = self.directory.create(number)
        logger.info("began an index file name=%d", number)
        return self.writer

    def _open_last(self) -> IndexWriter:
        if self.writer is None:
            self.writer = self._unflushed_last() or self._load_last()
            self._others.pop()
        return self.writer

    def _unflushed_last(self) -> IndexWriter | None:
        """Return the last file if it was full and is still open; it no longer counts as full then."""
        is_open = self.full and self.full[-1].number == self._others[-1].number
        return self.full.pop() if is_open else None

    def fetch_last(self) -> None:
        """Have the slots of the last file, 20 MB, in memory before it is loaded: the loop may have to wait for that.

        Any thread may call this; it raises nothing.
        """
        last = self.last
        if self.writer is None and last is not None:
            with suppress(OSError):
                self.directory.fetch_slots(last)

    def _load_last(self) -> IndexWriter:
        writer = self.directory.writer(self._others[-1])
        try:
            writer.load(self._others[-1].header)
        except OSError:
            writer.close()
            raise
        return writer

    def cut(self, physical_offset: int) -> None:
        """Drop the keys of all messages at or behind an offset of the log."""
        while self.last is not None and self.last.header.begin_offset >= physical_offset:
            self._drop_last(self.last)
        if self.last is not None and self.last.header.end_offset >= physical_offset:
            self._open_last().cut(physical_offset)

    def _drop_last(self, last: IndexFile) -> None:
        self.directory.remove(last)
        writer = self.writer or self._unflushed_last()
        if writer is not None:
            writer.close()
        if self.writer is not None:
            self.writer = None
        else:
            self._others.pop()

    def oldest_expired(self, log_start: int) -> IndexFile | None:
        """Return the oldest file if the log has lost all its messages; never the last one, nor one not yet flushed."""
        oldest = self._others[0] if self._others else None
        if oldest is None or oldest == self.last or oldest.header.end_offset >= log_start:
            return None
        return oldest if all(one.number != oldest.number for one in self.full) else None

    def forget_oldest(self) -> None:
        """Go on without the oldest file, which is gone."""
        del self._others[0]

    def close(self) -> None:
        """Close what is open; what was not flushed is left to recovery."""
        for writer in self.unflushed:
            writer.close()
        self.full, self.writer = [], None
