"""One index file by itself: header, times, slots and chains, compared with what its entries say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyromq.store.check.findings import Finding, Severity, relative
from pyromq.store.files import OsFiles, read_file
from pyromq.store.index.index_file import ENTRY, HEADER, NAME_LENGTH, SLOT, Geometry, IndexHeader

_ENTRY: Final = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_LATEST_MS: Final = 86_400_000  # by which a clock may have been set back

Entries = NDArray[np.void]


class CheckedIndexFile(NamedTuple):
    """A file with its header and its layout."""

    path: str
    header: IndexHeader
    geometry: Geometry

    @property
    def number(self) -> int:
        """Its name."""
        return int(self.path[-NAME_LENGTH:])


def read_index_entries(file: CheckedIndexFile, files: OsFiles, first: int, count: int) -> Entries:
    """Return entries of a file as columns; zeros where the file is short."""
    descriptor = files.open(file.path)
    try:
        data = files.pread(descriptor, count * ENTRY.size, file.geometry.entry_position(first))
    finally:
        files.close(descriptor)
    entries = np.zeros(count, _ENTRY)
    entries[: len(data) // ENTRY.size] = np.frombuffer(data[: len(data) // ENTRY.size * ENTRY.size], _ENTRY)
    return entries


class IndexFileCheck:
    """Looks at one file; `stored_at` tells when the record at an offset of the log was stored, None if it is gone."""

    def __init__(
        self, file: CheckedIndexFile, files: OsFiles, root: str, stored_at: Callable[[int], int | None]
    ) -> None:
        self._file = file
        self._files = files
        self._root = root
        self._stored_at = stored_at
        self._entries = read_index_entries(file, files, 1, file.header.next_entry - 1)

    def run(self, *, is_settled: bool) -> Iterator[Finding]:
        """Give what is wrong; of a file that a broker still writes, one note says how many slots are behind."""
        slots, chains = self._wrong_slots(), self._wrong_chains()
        if not is_settled:
            if behind := len(slots) + len(chains):
                text = f"{behind} slots are behind its entries: the broker writes them later, or makes them anew"
                yield self._finding(None, text, Severity.NOTE)
            return
        yield from self._check_header()
        geometry = self._file.geometry
        for what, wrong, position, size in (
            ("slot", slots, HEADER.size, SLOT.size),
            ("chain of entry", chains, geometry.entries_start, ENTRY.size),
        ):
            for number in wrong:
                yield self._finding(
                    position + size * number, f"the {what} {number} does not lead where the entries say"
                )

    def _check_header(self) -> Iterator[Finding]:
        header, entries = self._file.header, self._entries
        if not len(entries):
            return
        first, last = int(entries["offset"][0]), int(entries["offset"][-1])
        if (header.begin_offset, header.end_offset) != (first, last):
            text = f"says offsets {header.begin_offset} to {header.end_offset}, its entries {first} to {last}"
            yield self._finding(16, text)
        begin_ms, end_ms = self._stored_at(first), self._stored_at(last)
        if begin_ms is not None and header.begin_ms != begin_ms:
            yield self._finding(0, f"says it begins at {header.begin_ms}, its first message was stored at {begin_ms}")
        if end_ms is not None and not end_ms <= header.end_ms <= end_ms + _LATEST_MS:
            yield self._finding(8, f"says it ends at {header.end_ms}, its last message was stored at {end_ms}")
        yield from self._check_times()

    def _check_times(self) -> Iterator[Finding]:
        header, seconds = self._file.header, self._entries["seconds"]
        longest = max(header.end_ms - header.begin_ms, 0) // 1000
        for index in np.flatnonzero((seconds < 0) | (seconds > longest)).tolist():
            position = self._file.geometry.entry_position(index + 1)
            yield self._finding(position, f"entry {index + 1} is {seconds[index]} s behind the first, of {longest}")

    def _slots(self) -> NDArray[np.int64]:
        slots: NDArray[np.int64] = self._entries["hash"].astype(np.int64) % self._file.geometry.slots
        return slots

    def _numbers(self) -> NDArray[np.int32]:
        return np.arange(1, len(self._entries) + 1, dtype=np.int32)

    def _wrong_slots(self) -> list[int]:
        geometry = self._file.geometry
        newest = np.zeros(geometry.slots, np.int32)
        newest[self._slots()] = self._numbers()  # of several the last one stays
        data = read_file(self._files, self._file.path, geometry.entries_start)[HEADER.size :]
        held = np.frombuffer(data.ljust(SLOT.size * geometry.slots, b"\0"), ">i4")
        wrong: list[int] = np.flatnonzero(held != newest).tolist()
        return wrong

    def _wrong_chains(self) -> list[int]:
        slots, numbers = self._slots(), self._numbers()
        order = np.argsort(slots, kind="stable")
        is_same = slots[order][1:] == slots[order][:-1]
        previous = np.zeros(len(slots), np.int32)
        previous[order[1:][is_same]] = numbers[order[:-1][is_same]]
        wrong: list[int] = (np.flatnonzero(self._entries["previous"] != previous) + 1).tolist()
        return wrong

    def _finding(self, offset: int | None, text: str, severity: Severity = Severity.PROBLEM) -> Finding:
        file = relative(self._file.path, self._root)
        return Finding(severity=severity, kind="index", file=file, offset=offset, text=text)
