"""Reading a log from one record to the next: by large reads, and with one tuple for each record.

A restart may have to look at millions of records, so the loop below does by itself what check_record does, in a third
of the time. Records with IPv6 addresses, and whatever else looks odd, are left to check_record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, Protocol
from zlib import crc32

from pyromq.protocol.messages.record import BLANK_MAGIC, MESSAGE_MAGIC, V6_FLAGS, check_record, read_tail
from pyromq.store.read.readable import ReadableLog

WalkedRecord = tuple[int, int, int, int, int, int, bytes, bytes]
"""Physical offset, size, queue id, queue offset, sys flag, store time in ms, topic, properties."""

_READ: Final = 1 << 20
# total size, magic, body CRC, queue id, queue offset, physical offset, sys flag, store time, body length
_HEAD: Final = struct.Struct(">iIii4xqqi16xq20xi")
_BODY: Final = _HEAD.size
_SHORTEST: Final = _HEAD.size + 3
_SIZE_AND_MAGIC: Final = struct.Struct(">iI")
_MAGIC_POSITION: Final = 4
_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MESSAGE_MAGIC, BLANK_MAGIC))


class LogBytes(Protocol):
    """The bytes of a log from `start` to `stop`, in files of one size or in memory."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...

    @property
    def file_size(self) -> int: ...

    def file_start(self, position: int) -> int: ...

    def pread(self, position: int, length: int) -> bytes: ...


class LogWalk:
    """A place in the log that moves over sound records; `position` is where the next one is, or should be."""

    def __init__(self, segments: LogBytes, position: int) -> None:
        self.position = position
        self._segments = segments
        self._data = b""
        self._base = position

    def records(self, limit: int) -> Iterator[WalkedRecord]:
        """Yield the records that begin before a limit, up to the first place without a sound one."""
        while self._segments.start <= self.position < min(limit, self._segments.stop):
            self._load(_SHORTEST)
            yield from self._plain_records(limit)
            if self.position >= min(limit, self._segments.stop) or self._pass_blank():
                continue
            record = self.check_here()
            if record is None:
                return
            self.position += record[1]
            yield record

    def check_here(self) -> WalkedRecord | None:
        """Return the record at the position, with all checks; None if no sound one is there."""
        size, magic = self._size_and_magic()
        if magic != MESSAGE_MAGIC or not _SHORTEST <= size <= self._file_end - self.position:
            return None
        data = self._load(size)
        at = self.position - self._base
        found = check_record(data, at, at + size)
        if found.head is None or found.head.physical_offset != self.position:
            return None
        head = found.head
        return (
            head.physical_offset, size, head.queue_id, head.queue_offset, head.sys_flag, head.store_timestamp_ms,
            *read_tail(data, head),
        )  # fmt: skip

    def is_blank_here(self) -> bool:
        """Tell whether the file is closed by a blank record at the position."""
        size, magic = self._size_and_magic()
        return magic == BLANK_MAGIC and size == self._file_end - self.position

    def find_next(self, limit: int) -> None:
        """Move to the next place after this one with a sound record, or a file's beginning; to the limit if none is."""
        limit = min(limit, self._segments.stop)
        file_end = min(self._file_end, limit)
        self.position = next((place for place in self._candidates(file_end) if self._is_sound(place)), file_end)

    def _is_sound(self, place: int) -> bool:
        self.position = place
        return self.check_here() is not None or self.is_blank_here()

    def _candidates(self, limit: int) -> Iterator[int]:
        """Yield the places in this file, behind the position, where a magic number stands as in a record."""
        position = self.position + 1
        while position + _MAGIC_POSITION < limit:
            data = self._segments.pread(position, min(_READ, limit - position))
            places = (position + at - _MAGIC_POSITION for at in _find_all(data))
            yield from (place for place in places if place > position - 1)
            position += max(len(data) - 2 * _MAGIC_POSITION, 1)

    def _plain_records(self, limit: int) -> Iterator[WalkedRecord]:
        """Yield the records that lie whole in the bytes in memory, up to the first that is not plainly right."""
        data, base, unpack = self._data, self._base, _HEAD.unpack_from
        view, length = memoryview(data), len(data)
        last = min(length - _SHORTEST, limit - 1 - base)
        at = self.position - base
        while at <= last:
            size, magic, crc, queue_id, queue_offset, physical, sys_flag, stored_ms, body_length = unpack(data, at)
            end = at + size
            if magic != MESSAGE_MAGIC or physical != base + at or end > length or sys_flag & V6_FLAGS:
                return
            body_end = at + _BODY + body_length
            if body_length < 0 or body_end + 3 > end or crc32(view[at + _BODY : body_end]) & 0x7FFFFFFF != crc:
                return
            topic_length = data[body_end]
            topic_end = body_end + 1 + topic_length
            if topic_length > 127 or topic_end + 2 > end:
                return
            if data[topic_end] << 8 | data[topic_end + 1] != end - topic_end - 2 or data[topic_end] > 127:
                return
            self.position = base + end
            yield (
                physical, size, queue_id, queue_offset, sys_flag, stored_ms,
                data[body_end + 1 : topic_end], data[topic_end + 2 : end],
            )  # fmt: skip
            at = end

    def _pass_blank(self) -> bool:
        if self.is_blank_here():
            self.position = self._file_end
            return True
        return False

    def _size_and_magic(self) -> tuple[int, int]:
        data = self._load(_SIZE_AND_MAGIC.size)
        at = self.position - self._base
        size, magic = _SIZE_AND_MAGIC.unpack(data[at : at + _SIZE_AND_MAGIC.size].ljust(_SIZE_AND_MAGIC.size, b"\0"))
        return size, magic

    def _load(self, length: int) -> bytes:
        """Have bytes in memory that hold the position and, where the file does, so many from there on."""
        end = self._base + len(self._data)
        if not self._base <= self.position <= end - min(length, self._file_end - self.position):
            self._data = self._segments.pread(self.position, max(_READ, length))
            self._base = self.position
        return self._data

    @property
    def _file_end(self) -> int:
        return self._segments.file_start(self.position) + self._segments.file_size


def walk_log(log: ReadableLog, start: int) -> Iterator[WalkedRecord]:
    """Yield the records of a log from an offset on, up to its end as it is now; skip what is damaged."""
    end = log.end
    walk = LogWalk(log.segments, max(start, log.start))
    while walk.position < min(end, log.end):  # it may have been cut since
        yield from walk.records(end)
        if walk.position < min(end, log.end):
            walk.find_next(end)


def _find_all(data: bytes) -> Iterator[int]:
    """Yield where magic numbers stand, in order."""
    found = [data.find(magic) for magic in _MAGICS]
    while places := [place for place in found if place >= 0]:
        at = min(places)
        yield at
        found = [
            place if place != at else data.find(magic, at + 1) for magic, place in zip(_MAGICS, found, strict=True)
        ]
