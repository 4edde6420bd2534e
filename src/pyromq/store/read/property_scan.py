"""Filtering by property: the properties of records are read where they lie; bodies only if the filter asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyromq.errors import MalformedHeader
from pyromq.protocol.messages.record import MAX_HEAD_SIZE, body_end, read_properties
from pyromq.store.read.readable import PropertyFilter, ReadableLog

_READ_WHOLE: Final = 4096  # the disk gives no less at a time
_MOST_PROPERTY_BYTES: Final = 128 * 1024
"""Bytes that a filter by property is asked about in one read, in 10 ms: a message may have thousands of properties."""
_MOST_RECORD_BYTES: Final = 4 * 1024 * 1024


class PropertyReader:
    """Reads properties of records in a log; of long records that may lie on the disk only the parts that it needs."""

    def __init__(self, log: ReadableLog) -> None:
        self._log = log
        self._start, self._end = log.start, log.end
        self._mapped_from = log.mapped_from

    def read(self, position: int, size: int) -> bytes | None:
        """Return the properties of the record at a position; None if there is no such record."""
        if position < self._start or position + size > self._end or size <= 0:
            return None
        try:
            if position >= self._mapped_from:
                return read_properties(self._log.view(position, size))
            return self._read_parts(position, size)
        except MalformedHeader:
            return None

    def read_record(self, position: int, size: int) -> bytes | None:
        """Return the whole record at a position; None if there is none."""
        if position < self._start or position + size > self._end or size <= 0:
            return None
        return bytes(self._log.view(position, size))

    def _read_parts(self, position: int, size: int) -> bytes:
        if size <= _READ_WHOLE:
            return read_properties(self._log.pread(position, size))
        tail = body_end(self._log.pread(position, MAX_HEAD_SIZE))
        if tail >= size:
            raise MalformedHeader("the record's body is longer than the record")
        return read_properties(self._log.pread(position + tail, size - tail), 0)


class PropertyScan:
    """Picks the entries whose records pass a filter; it looks at so many bytes of properties and no more."""

    def __init__(self, wants: PropertyFilter, reader: PropertyReader) -> None:
        self._accepts = wants.accepts
        self._read = reader.read_record if wants.reads_bodies else reader.read
        self._most_bytes = _MOST_RECORD_BYTES if wants.reads_bodies else _MOST_PROPERTY_BYTES
        self.stopped_at: int | None = None
        """The first entry that was not looked at; None if all were."""

    def wanted(self, entries: Iterator[tuple[int, tuple[int, int]]]) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the wanted entries, and those without a record: their taker says what became of it."""
        looked_at = 0
        for entry in entries:
            if looked_at > self._most_bytes:
                self.stopped_at = entry[0]
                return
            found = self._read(*entry[1])
            looked_at += len(found or b"")
            if found is None or self._accepts(found):
                yield entry
