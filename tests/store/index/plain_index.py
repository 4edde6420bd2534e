"""An index file written one key at a time, by RocketMQ's rules and nothing else: the measure for the real one."""

from __future__ import annotations

import struct

from pyromq.store.index.index_file import Geometry

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
SLOT = struct.Struct(">i")


class PlainIndexFile:
    """The bytes of a file, and queries over them."""

    def __init__(self, geometry: Geometry, data: bytes | None = None) -> None:
        self.geometry = geometry
        self.data = bytearray(data or geometry.file_size)

    @property
    def header(self) -> tuple[int, ...]:
        begin_ms, end_ms, begin, end, used, count = HEADER.unpack_from(self.data)
        return begin_ms, end_ms, begin, end, used, max(count, 1)

    @property
    def is_full(self) -> bool:
        return self.header[5] >= self.geometry.entries

    def put(self, key_hash: int, offset: int, time_ms: int) -> None:
        begin_ms, end_ms, begin, _, used, count = self.header
        if count == 1:
            begin_ms, begin = time_ms, offset
        slot = HEADER.size + 4 * (key_hash % self.geometry.slots)
        (previous,) = SLOT.unpack_from(self.data, slot)
        if not 0 < previous < count:
            previous = 0
        seconds = max(0, min((time_ms - begin_ms) // 1000, 0x7FFFFFFF)) if begin_ms > 0 else 0
        ENTRY.pack_into(self.data, self._position(count), key_hash, offset, seconds, previous)
        SLOT.pack_into(self.data, slot, count)
        used += previous == 0
        HEADER.pack_into(self.data, 0, begin_ms, max(time_ms, end_ms), begin, offset, used, count + 1)

    def chain(self, key_hash: int) -> list[tuple[int, ...]]:
        (number,) = SLOT.unpack_from(self.data, HEADER.size + 4 * (key_hash % self.geometry.slots))
        found = []
        while number:
            found.append(ENTRY.unpack_from(self.data, self._position(number)))
            number = found[-1][3]
        return found

    def _position(self, number: int) -> int:
        return HEADER.size + 4 * self.geometry.slots + ENTRY.size * number
