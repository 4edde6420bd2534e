"""RocketMQ's index file: from the hash of a key to the messages that have it.

    header 40 | slots, 4 bytes each | entries, 20 bytes each

    header: begin time 8 | end time 8 | begin offset 8 | end offset 8 | used slots 4 | next free entry 4
    entry:  key hash 4 | physical offset 8 | seconds since the begin time 4 | previous entry of the slot 4

A slot holds the number of its newest entry, 0 for none; entries of one slot are a chain from the newest to the oldest.
Entry 0 is never used. Times are store times in milliseconds; offsets never go back, neither in a file nor from one
file to the next. A file's name is the local time at which it was made, 17 digits. It has its full length from the
start and is sparse.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile
from typing import Final, NamedTuple

from pyromq.store.files import OsFiles

HEADER: Final = struct.Struct(">qqqqii")
SLOT: Final = struct.Struct(">i")
ENTRY: Final = struct.Struct(">iqii")
NAME_LENGTH: Final = 17
MAX_SECONDS: Final = 0x7FFFFFFF

_ENTRIES_A_READ: Final = 200
_ENTRIES_PER_SLOT: Final = 4  # of files as they are usually made


class Geometry(NamedTuple):
    """How many slots and entries a file has; nothing in the file itself says so."""

    slots: int = 5_000_000
    entries: int = 20_000_000

    @property
    def entries_start(self) -> int:
        """Where entry 0 would stand."""
        return HEADER.size + SLOT.size * self.slots

    @property
    def file_size(self) -> int:
        """Bytes of a file."""
        return self.entries_start + ENTRY.size * self.entries

    def entry_position(self, number: int) -> int:
        """Return where an entry stands."""
        return self.entries_start + ENTRY.size * number

    def slot_position(self, key_hash: int) -> int:
        """Return where the slot of a key stands."""
        return HEADER.size + SLOT.size * (key_hash % self.slots)


def likely_geometry(file_size: int) -> Geometry | None:
    """Return how a file is laid out if it has as many entries for each slot as usual; None if it does not."""
    slots, rest = divmod(file_size - HEADER.size, SLOT.size + ENTRY.size * _ENTRIES_PER_SLOT)
    return Geometry(slots, slots * _ENTRIES_PER_SLOT) if slots > 0 and rest == 0 else None


class IndexHeader(NamedTuple):
    """What a file says about its entries; `next_entry` is the number that its next one gets."""

    begin_ms: int = 0
    end_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used_slots: int = 0
    next_entry: int = 1

    @classmethod
    def unpack(cls, data: bytes) -> IndexHeader:
        """Read a header; one that was never written has no entries."""
        header = cls(*HEADER.unpack(data.ljust(HEADER.size, b"\0")))
        return header if header.next_entry > 0 else header._replace(next_entry=1)

    def covers(self, begin_ms: int, end_ms: int) -> bool:
        """Tell whether messages of a time may be in the file."""
        return self.next_entry > 1 and begin_ms <= self.end_ms and end_ms >= self.begin_ms


class IndexEntry(NamedTuple):
    """One key of one message."""

    key_hash: int
    physical_offset: int
    seconds: int
    previous: int


class IndexFile(NamedTuple):
    """A file by its name."""

    path: str
    number: int
    header: IndexHeader


def file_number(now_ms: int, last: int) -> int:
    """Return the name of a new file, as a number: the local time, but behind the last one's whatever the clock says."""
    now = datetime.fromtimestamp(now_ms / 1000)
    return max(int(now.strftime("%Y%m%d%H%M%S")) * 1000 + now_ms % 1000, last + 1)


def read_slot(files: OsFiles, descriptor: int, geometry: Geometry, key_hash: int) -> int:
    """Return the number that the slot of a key holds; 0 if the file is short."""
    data = files.pread(descriptor, SLOT.size, geometry.slot_position(key_hash))
    return int(SLOT.unpack(data)[0]) if len(data) == SLOT.size else 0


def walk_chain(files: OsFiles, descriptor: int, geometry: Geometry, newest: int, count: int) -> Iterator[IndexEntry]:
    """Give the entries of a slot from the newest on; whatever the file holds, this ends."""
    first, data = 0, b""
    number = newest
    while 0 < number < count:
        if not first <= number < first + len(data) // ENTRY.size:
            # Keys that are common stand close together: one read serves many steps of their chain.
            first = max(0, number - _ENTRIES_A_READ + 1)
            data = files.pread(descriptor, ENTRY.size * (number - first + 1), geometry.entry_position(first))
            if len(data) < ENTRY.size * (number - first + 1):
                return
        entry = IndexEntry._make(ENTRY.unpack_from(data, ENTRY.size * (number - first)))
        yield entry
        if entry.previous >= number:
            return
        number = entry.previous


def last_hashes(files: OsFiles, descriptor: int, geometry: Geometry, header: IndexHeader) -> list[int]:
    """Return the hashes of the keys of a file's last message, the last one first."""
    found: list[int] = []
    stop = min(header.next_entry, geometry.entries)
    while stop > 1:
        first = max(1, stop - _ENTRIES_A_READ)
        data = files.pread(descriptor, ENTRY.size * (stop - first), geometry.entry_position(first))
        entries = [
            IndexEntry._make(fields) for fields in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])
        ]
        of_last = list(takewhile(lambda entry: entry.physical_offset == header.end_offset, reversed(entries)))
        found += [entry.key_hash for entry in of_last]
        if len(of_last) < stop - first:
            break
        stop = first
    return found
