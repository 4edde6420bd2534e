"""Every index entry against the keys of the record it names, and every key of the log against the index.

Entries stand in the order of the log, so what the log says and what the files hold are two sequences that go side by
side: they are compared in blocks, and entry by entry only where they part. A broker that died may have put the last
message's keys twice. What a file says of its own entries is compared in verify_index_file.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyromq.store.check.findings import Finding, Severity, relative
from pyromq.store.check.index_file_check import CheckedIndexFile, IndexFileCheck, read_index_entries
from pyromq.store.dispatch import is_indexed
from pyromq.store.files import OsFiles, read_file
from pyromq.store.index.index_checkpoint import IndexCheckpointFile
from pyromq.store.index.index_file import HEADER, NAME_LENGTH, Geometry, IndexHeader, likely_geometry
from pyromq.store.index.key_batch import hash_keys
from pyromq.store.index.key_hash import COLUMNS, StoredKeys
from pyromq.store.read.log_walk import WalkedRecord

INDEX_NAME: Final = "index"

_PAIR: Final = np.dtype([("offset", "i8"), ("hash", "i4")])
_BATCH: Final = 4096
_BLOCK: Final = 1 << 16

Pairs = NDArray[np.void]


class IndexCheck:
    """Compares the index with the log, as records come."""

    def __init__(
        self,
        root: str,
        files: OsFiles,
        log_start: int,
        damage: Sequence[range],
        read_keys: Callable[[int], StoredKeys | None],
    ) -> None:
        """Prepare to compare; `damage` grows with the walk, `read_keys` tells what a record of the log is found by."""
        self._root = root
        self._files = files
        self._log_start = log_start
        self._damage = damage
        self._read_keys = read_keys
        mark = IndexCheckpointFile(Path(root), files).read()
        self._indexed_end = mark[0].end if mark else 0
        self._last_number = mark[0].file_number if mark else 0  # files before it are full, and written to the last slot
        self._geometry = mark[1] if mark else None
        self.geometry = self._geometry
        """How files are laid out; None if nothing says so."""
        self.has_files = False
        self._unjudged: list[Finding] = []
        self._found = list(self._open_all())
        self._held = _StoredEntries(self._found, files)
        self._waiting: StoredKeys = []
        self._missing: list[int] = []
        self._has_begun = False

    def _open_all(self) -> Iterator[CheckedIndexFile]:
        directory = f"{self._root}/{INDEX_NAME}"
        names = self._files.listdir(directory) if self._files.exists(directory) else []
        for name in sorted(name for name in names if len(name) == NAME_LENGTH and name.isdecimal()):
            path = f"{directory}/{name}"
            self.has_files = True
            self.geometry = geometry = self._geometry_of(self._files.size(path))
            header = IndexHeader.unpack(read_file(self._files, path, HEADER.size))
            if geometry is None:
                text = "its length says nothing of its slots and entries: not judged"
                self._unjudged.append(self._finding(path, None, text, Severity.NOTE))
            elif not 0 < header.next_entry <= geometry.entries:
                text = f"says its next entry is {header.next_entry}, of {geometry.entries} it can hold"
                self._unjudged.append(self._finding(path, HEADER.size - 4, text))
            else:
                yield CheckedIndexFile(path, header, geometry)

    def _geometry_of(self, size: int) -> Geometry | None:
        if self._geometry is not None and self._geometry.file_size == size:
            return self._geometry
        return likely_geometry(size)

    def add(self, record: WalkedRecord) -> None:
        """Meet a record of the log."""
        if self._found and b"KEY" in record[7] and is_indexed(record[4]):
            self._waiting += keys_of_record(record)

    @property
    def is_full(self) -> bool:
        """Whether it is time to compare()."""
        return len(self._waiting) >= _BATCH * COLUMNS

    def compare(self) -> Iterator[Finding]:
        """Compare what was gathered."""
        batch = hash_keys(self._waiting)
        self._waiting.clear()
        expected = np.empty(len(batch.hashes), _PAIR)
        expected["offset"], expected["hash"] = batch.offsets, batch.hashes
        if not self._has_begun:
            self._has_begun = True
            self._held.skip_before(self._log_start)
        while len(expected):
            step, finding = self._same(expected), None
            if step == 0:
                step, finding = self._part(expected[0])
            expected = expected[step:]
            if finding is not None:
                yield finding

    def _same(self, expected: Pairs) -> int:
        """Go on over what is the same on both sides; return how much that is."""
        held = self._held.pairs(len(expected))
        differs = np.flatnonzero(held != expected[: len(held)])
        same = int(differs[0]) if len(differs) else len(held)
        self._held.take(same)
        return same

    def _part(self, expected: Pairs) -> tuple[int, Finding | None]:
        """Decide what a difference is; return how many expected keys are dealt with, and what was found."""
        held = self._held.pairs(1)
        offset = int(expected["offset"])
        if not len(held):
            self._missing.append(offset)
            return 1, None
        entry_offset, entry_hash = int(held[0]["offset"]), int(held[0]["hash"])
        if not self._is_right(entry_offset, entry_hash):
            return 1, self._wrong_entry(entry_offset, entry_hash, "which is no key of a message there")
        if entry_offset >= offset:  # a later message's: the expected one is not in the index
            self._missing.append(offset)
            return 1, None
        self._held.take(1)  # a key that was put twice
        return 0, None

    def _wrong_entry(self, offset: int, key_hash: int, text: str) -> Finding:
        path, number, position = self._held.place()
        self._held.take(1)
        return self._finding(path, position, f"entry {number} says hash {key_hash} at physical offset {offset}, {text}")

    def _is_right(self, offset: int, key_hash: int) -> bool:
        if any(offset in where for where in self._damage):
            return True  # its message was named
        keys = self._read_keys(offset) if offset >= self._log_start else None
        return keys is not None and key_hash in hash_keys(keys).hashes

    def finish(self, *, is_settled: bool) -> Iterator[Finding]:
        """Look at what is left; `is_settled` if no broker is at work and the last one stopped cleanly."""
        if self._waiting:
            yield from self.compare()
        yield from self._unjudged
        yield from self._behind_the_log(is_settled=is_settled)
        yield from self._not_indexed(is_settled=is_settled)
        for file in self._found:
            check = IndexFileCheck(file, self._files, self._root, self._stored_at)
            yield from check.run(is_settled=is_settled or file.number < self._last_number)

    def _stored_at(self, offset: int) -> int | None:
        keys = self._read_keys(offset) if offset >= self._log_start else None
        return None if keys is None else int(keys[3])

    def _behind_the_log(self, *, is_settled: bool) -> Iterator[Finding]:
        if not self._has_begun:
            self._held.skip_before(self._log_start)
        while len(held := self._held.pairs(1)):
            entry_offset, entry_hash = int(held[0]["offset"]), int(held[0]["hash"])
            if self._is_right(entry_offset, entry_hash):
                self._held.take(1)
            else:
                finding = self._wrong_entry(entry_offset, entry_hash, "where no message of it is")
                yield finding if is_settled else finding.as_note()

    def _not_indexed(self, *, is_settled: bool) -> Iterator[Finding]:
        """Say which messages cannot be found by their keys: wrong only where our own mark says that they can."""
        for are_promised in (True, False):
            missing = [offset for offset in self._missing if (offset < self._indexed_end) is are_promised]
            if missing:
                text = (
                    f"{len(missing)} keys are not in it, of messages from physical offset {missing[0]} to {missing[-1]}"
                )
                finding = self._finding(f"{self._root}/{INDEX_NAME}", None, text)
                yield finding if are_promised and is_settled else finding.as_note()

    def _finding(self, path: str, offset: int | None, text: str, severity: Severity = Severity.PROBLEM) -> Finding:
        return Finding(severity=severity, kind="index", file=relative(path, self._root), offset=offset, text=text)


def keys_of_record(record: WalkedRecord) -> StoredKeys:
    """Return what the index needs of a record."""
    return [record[6].decode("utf-8", "replace"), record[7], record[0], record[5]]


class _StoredEntries:
    """The entries of all files one after the other, read in blocks."""

    def __init__(self, found: Sequence[CheckedIndexFile], files: OsFiles) -> None:
        self._found = list(found)
        self._files = files
        self._index = 0
        self._number = 1  # of the first entry in the block
        self._block: Pairs = np.empty(0, _PAIR)

    def pairs(self, count: int) -> Pairs:
        """Return what comes next: at most so many entries, fewer at the end of a block, none at the end of all."""
        while not len(self._block) and self._index < len(self._found):
            file = self._found[self._index]
            if self._number >= file.header.next_entry:
                self._index, self._number = self._index + 1, 1
            else:
                self._block = self._read(file)
        return self._block[:count]

    def _read(self, file: CheckedIndexFile) -> Pairs:
        count = min(_BLOCK, file.header.next_entry - self._number)
        entries = read_index_entries(file, self._files, self._number, count)
        block = np.empty(len(entries), _PAIR)
        block["offset"], block["hash"] = entries["offset"], entries["hash"]
        return block

    def take(self, count: int) -> None:
        """Go on by so many."""
        self._block = self._block[count:]
        self._number += count

    def skip_before(self, log_start: int) -> None:
        """Go on to the first entry whose message the log still has."""
        while len(held := self.pairs(_BLOCK)):
            there = np.flatnonzero(held["offset"] >= log_start)
            self.take(int(there[0]) if len(there) else len(held))
            if len(there):
                return

    def place(self) -> tuple[str, int, int]:
        """Return file, number and position of the next entry."""
        file = self._found[self._index]
        return file.path, self._number, file.geometry.entry_position(self._number)
