"""The index file in use: header and slots are held in memory, entries are written in batches.

Nothing is written through a map, so that a full disk is an error and no signal. Pages of slots that have changed wait
for a flush; after a crash they are made anew from the entries, which are flushed before anything relies on them.
"""

from __future__ import annotations

from contextlib import suppress
from mmap import mmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyromq.lane.keys import LinkKeys, key_lane
from pyromq.store.files import OsFiles, write_all
from pyromq.store.index.index_file import ENTRY, HEADER, MAX_SECONDS, Geometry, IndexFile, IndexHeader
from pyromq.store.index.key_batch import Hashes, Ints, KeyBatch

_PAGE: Final = 4096
_READ: Final = 16 * _PAGE
_ENTRIES_A_READ: Final = 1 << 18
_ENTRY: Final = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])

Pages = list[tuple[int, bytes]]


class IndexWriter:
    """Puts keys into one file, which is open as long as this lives."""

    def __init__(self, path: str, number: int, geometry: Geometry, files: OsFiles, *, create: bool = False) -> None:
        self.path = path
        self.number = number
        self.geometry = geometry
        self.header = IndexHeader()
        self._files = files
        # Zeros that nobody has touched take no memory: a quiet broker pays for the pages it uses. They are not
        # malloc's, which may take 20 MB of what others have freed, and fill it while the loop waits: 10 ms.
        self._head = np.frombuffer(mmap(-1, geometry.entries_start), np.uint8)
        self._slots = self._head[HEADER.size :].view(">i4")
        self._changed = np.zeros(-(-geometry.entries_start // _PAGE), np.bool_)
        self._next_page = 0
        lane = key_lane()
        self._link = None if lane is None else lane.link
        self.descriptor = files.open(path, create=create)
        if create:
            self._give_full_length()

    def _give_full_length(self) -> None:
        try:
            self._files.ftruncate(self.descriptor, self.geometry.file_size)
        except OSError:
            self.close()
            with suppress(OSError):
                self._files.unlink(self.path)
            raise

    @property
    def file(self) -> IndexFile:
        """The file as others see it now."""
        return IndexFile(self.path, self.number, self.header)

    @property
    def room(self) -> int:
        """How many keys still fit."""
        return self.geometry.entries - self.header.next_entry

    def close(self) -> None:
        """Close the file; what was not flushed is left to recovery."""
        self._files.close(self.descriptor)

    # --- keys

    def put(self, batch: KeyBatch) -> None:
        """Write the entries of a batch that fits; an OSError leaves all as it was."""
        first = self.header.next_entry
        begin_ms = self.header.begin_ms if first > 1 else int(batch.times_ms[0])
        used = self._put_plain(batch, begin_ms) if self._link is None else self._put_linked(self._link, batch, begin_ms)
        self._changed[0] = True
        self.header = IndexHeader(
            begin_ms,
            max(int(batch.times_ms[-1]), self.header.end_ms),
            self.header.begin_offset if first > 1 else int(batch.offsets[0]),
            int(batch.offsets[-1]),
            self.header.used_slots + used,
            first + len(batch.hashes),
        )

    def _put_plain(self, batch: KeyBatch, begin_ms: int) -> int:
        """Write entries and set their slots; return how many slots were empty before."""
        first, hashes = self.header.next_entry, batch.hashes
        numbers = np.arange(first, first + len(hashes), dtype=np.int32)
        slots = hashes % np.int32(self.geometry.slots)
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        is_same = ordered[1:] == ordered[:-1]  # as the key before it, in the order of slots
        previous = self._newest(slots)
        previous[order[1:][is_same]] = numbers[order[:-1][is_same]]
        self._write_entries(first, _entries(batch, begin_ms, previous))
        is_last = np.append(~is_same, True)
        self._slots[ordered[is_last]] = numbers[order[is_last]]
        self._changed[(ordered * 4 + HEADER.size) // _PAGE] = True
        return int(np.count_nonzero(previous == 0))

    def _put_linked(self, link: LinkKeys, batch: KeyBatch, begin_ms: int) -> int:
        """Do the same by the native lane, which sets the slots first."""
        first, slots = self.header.next_entry, self.geometry.slots
        most_seconds = _most_seconds(begin_ms)
        entries, used = link(
            self._head, self._changed, HEADER.size, slots, _PAGE, first, begin_ms, most_seconds, *batch
        )  # fmt: skip
        try:
            self._write_entries(first, entries)
        except OSError:
            previous = np.frombuffer(entries, _ENTRY)["previous"]
            self._slots[(batch.hashes % np.int32(slots))[::-1]] = previous[::-1]  # of equal slots the first one's stays
            raise
        return used

    def newest(self, key_hash: int) -> int:
        """Return the number of the newest entry in a key's slot, 0 for none."""
        return int(self._newest(np.array([key_hash % self.geometry.slots]))[0])

    def _newest(self, slots: Hashes | Ints) -> Hashes:
        newest = self._slots[slots].astype(np.int32)
        newest[(newest < 0) | (newest >= self.header.next_entry)] = 0  # damaged, or left by a crash
        return newest

    def _write_entries(self, first: int, entries: bytes) -> None:
        write_all(self._files, self.descriptor, entries, self.geometry.entry_position(first))

    # --- flushing

    def take_pages(self, limit: int | None = None) -> Pages:
        """Return changed pages of header and slots to be written, the header's always, and count them as written.

        A limit keeps a pass short where keys are many: the others have their turn in the next ones.
        """
        self._head[: HEADER.size] = np.frombuffer(HEADER.pack(*self.header), np.uint8)
        changed = np.flatnonzero(self._changed)
        if limit is not None and len(changed) > limit:
            turn = int(np.searchsorted(changed, self._next_page))
            changed = np.roll(changed, -turn)[:limit]
            self._next_page = int(changed[-1]) + 1
            changed = np.union1d(changed, [0])
        self._changed[changed] = False
        runs = np.split(changed, np.flatnonzero(np.diff(changed) != 1) + 1) if len(changed) else []
        return [(int(run[0]) * _PAGE, self._bytes(int(run[0]), int(run[-1]) + 1)) for run in runs]

    def _bytes(self, first: int, stop: int) -> bytes:
        return self._head[first * _PAGE : stop * _PAGE].tobytes()

    def write_pages(self, pages: Pages) -> None:
        """Write pages; after an OSError all of them count as changed again."""
        try:
            for position, data in pages:
                write_all(self._files, self.descriptor, data, position)
        except OSError:
            for position, data in pages:
                self._changed[position // _PAGE : -(-(position + len(data)) // _PAGE)] = True
            raise

    # --- a file that is there already

    def load(self, header: IndexHeader) -> None:
        """Take over header and slots of a file that was closed properly."""
        self.header = header
        for position in range(0, len(self._head), _READ):
            data = self._read_head(position)
            if data.strip(b"\0"):
                self._head[position : position + len(data)] = np.frombuffer(data, np.uint8)

    def rebuild(self, header: IndexHeader) -> None:
        """Make the slots anew from the entries before `header.next_entry`, up to the first that cannot be right.

        In a file left by a crash entries may be missing, pages of slots may be older or newer than they. What stands
        behind the last good entry is removed. The header tells afterwards how many entries there are.
        """
        self.header = header._replace(next_entry=1, end_offset=header.begin_offset, end_ms=header.begin_ms)
        is_good = True
        while is_good and self.header.next_entry < header.next_entry:
            is_good = self._rebuild_from(min(header.next_entry - self.header.next_entry, _ENTRIES_A_READ))
        used = int(np.count_nonzero(self._slots))
        end_ms = header.end_ms if self.header.next_entry == header.next_entry else self.header.end_ms
        self.header = self.header._replace(used_slots=used, end_ms=max(end_ms, header.begin_ms))
        self._clear_entries()
        self._find_changes()

    def _rebuild_from(self, count: int) -> bool:
        """Add the next entries to their slots; return whether all were good."""
        first = self.header.next_entry
        data = self._files.pread(self.descriptor, ENTRY.size * count, self.geometry.entry_position(first))
        entries = np.frombuffer(data, _ENTRY, len(data) // ENTRY.size)
        good = self._count_good(entries)
        if good:
            entries = entries[:good]
            numbers = np.arange(first, first + good, dtype=np.int32)
            slots = entries["hash"].astype(np.int32) % np.int32(self.geometry.slots)
            self._slots[slots] = numbers  # of equal slots the last one stays
            end_ms = self.header.begin_ms + int(entries["seconds"][-1]) * 1000 + 999
            offset = int(entries["offset"][-1])
            self.header = self.header._replace(next_entry=first + good, end_offset=offset, end_ms=end_ms)
        return good == count

    def _count_good(self, entries: NDArray[np.void]) -> int:
        numbers = np.arange(self.header.next_entry, self.header.next_entry + len(entries))
        offsets = entries["offset"].astype(np.int64)
        before = np.concatenate(([self.header.end_offset], offsets[:-1])) if len(offsets) else offsets
        good = (offsets >= before) & (entries["hash"] >= 0) & (entries["seconds"] >= 0)
        good &= (entries["previous"] >= 0) & (entries["previous"] < numbers)
        good &= (entries["hash"] != 0) | (
            offsets != 0
        )  # never written; an odd key of the log's first message is put again
        return int(np.argmin(good)) if not good.all() else len(entries)

    def count_before(self, physical_offset: int) -> int:
        """Return the number of the first entry at or behind an offset of the log."""
        low, high = 1, self.header.next_entry
        while low < high:
            middle = (low + high) // 2
            if self._offset(middle) < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _offset(self, number: int) -> int:
        data = self._files.pread(self.descriptor, ENTRY.size, self.geometry.entry_position(number))
        return int(ENTRY.unpack(data)[1])

    def cut(self, physical_offset: int) -> None:
        """Drop the keys of all messages at or behind an offset of the log."""
        count = self.count_before(physical_offset)
        self._slots[:] = 0
        self.rebuild(self.header._replace(next_entry=count))

    def _clear_entries(self) -> None:
        # What a crash left there must never be taken for entries of today.
        end = self.geometry.entry_position(self.header.next_entry)
        if self._files.has_data(self.descriptor, end):
            self._files.ftruncate(self.descriptor, end)
            self._files.ftruncate(self.descriptor, self.geometry.file_size)

    def _find_changes(self) -> None:
        """Mark the pages in which the file differs from what was rebuilt."""
        for position in range(0, len(self._head), _READ):
            there = np.frombuffer(self._read_head(position), np.uint8)
            differs = np.flatnonzero(there != self._head[position : position + len(there)])
            self._changed[(position + differs) // _PAGE] = True
        self._changed[0] = True

    def _read_head(self, position: int) -> bytes:
        return self._files.pread(self.descriptor, min(_READ, len(self._head) - position), position)


def _entries(batch: KeyBatch, begin_ms: int, previous: Hashes) -> bytes:
    entries = np.empty(len(batch.hashes), _ENTRY)
    entries["hash"] = batch.hashes
    entries["offset"] = batch.offsets
    entries["seconds"] = np.clip((batch.times_ms - begin_ms) // 1000, 0, _most_seconds(begin_ms))
    entries["previous"] = previous
    return entries.tobytes()


def _most_seconds(begin_ms: int) -> int:
    # A begin of 0 or less comes from another broker, which then counts no seconds.
    return MAX_SECONDS if begin_ms > 0 else 0
