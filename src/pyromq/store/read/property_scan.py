"""Filtering by property: the properties of records are read where they lie; bodies only if the filter asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyromq.errors import MalformedHeader
from pyromq.protocol.messages.record import MAX_HEAD_SIZE, body_end, read_properties
from pyromq.store.read.readable import PropertyFilter, ReadableLog

_READ_WHOLE: Final = 4096  # the disk gives no less at a time


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


def wanted_entries(
    entries: Iterator[tuple[int, tuple[int, int]]], wants: PropertyFilter, reader: PropertyReader
) -> Iterator[tuple[int, tuple[int, int]]]:
    """Give the entries whose records pass a filter, and those without a record: their taker says what became of it."""
    read = reader.read_record if wants.reads_bodies else reader.read
    for entry in entries:
        found = read(*entry[1])
        if found is None or wants.accepts(found):
            yield entry
