"""Finding messages by key in a directory that belongs to somebody else: its index files, read as they are.

A broker of ours that is at work, or was killed, has not written every slot of its last file: there the entries are
searched for the newest one of a slot. What came since its last flush, some seconds ago, is not found yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyromq.store.files import OsFiles
from pyromq.store.index.index_directory import IndexDirectory
from pyromq.store.index.index_file import ENTRY, Geometry, IndexFile, IndexHeader, likely_geometry, read_slot
from pyromq.store.index.key_query import KeyQuery, QueryBudget, find_offsets

_ENTRIES_A_READ: Final = 1 << 16


class IndexView:
    """The index files of a store as they were when this was made; any thread may ask. Raises OSError."""

    def __init__(self, root: Path, files: OsFiles, *, is_clean: bool) -> None:
        """Look at the files; `is_clean` if their broker has stopped, and properly."""
        directory = IndexDirectory(root, Geometry(), files)
        self._files = files
        mark = directory.mark.read()
        found = directory.list()
        sizes = [_size(files, file.path) for file in found]
        guessed = likely_geometry(sizes[-1]) if sizes else None
        self._geometry = mark[1] if mark else guessed or Geometry()
        pairs = zip(reversed(found), reversed(sizes), strict=True)
        self._newest_first = [file for file, size in pairs if size == self._geometry.file_size]
        self._first_behind = mark[0].file_number if mark and not is_clean else None

    @property
    def last_header(self) -> IndexHeader:
        """What the newest file says; as of an empty one if there is none."""
        return self._newest_first[0].header if self._newest_first else IndexHeader()

    def find(self, query: KeyQuery, budget: QueryBudget | None = None) -> list[int]:
        """Return where messages with a key are, newest first; those of another key with its hash are among them."""
        return find_offsets(
            self._files,
            self._geometry,
            self._newest_first,
            query,
            lambda file: self._newest(file, query.key_hash),
            budget,
        )

    def _newest(self, file: IndexFile, key_hash: int) -> int | None:
        """Return the newest entry of a key's slot where the slot itself may be behind; None where it is not."""
        if self._first_behind is None or file.number < self._first_behind:
            return None
        descriptor = self._files.open(file.path)
        try:
            written = read_slot(self._files, descriptor, self._geometry, key_hash)
            known = written if 0 < written < file.header.next_entry else 0
            return self._newest_since(descriptor, known, file.header.next_entry, key_hash) or known
        finally:
            self._files.close(descriptor)

    def _newest_since(self, descriptor: int, known: int, stop: int, key_hash: int) -> int:
        import numpy as np  # only where a broker is at work, or was killed

        kind = np.dtype([("hash", ">i4"), ("rest", "V16")])
        while stop > known + 1:
            first = max(known + 1, stop - _ENTRIES_A_READ)
            data = self._files.pread(descriptor, (stop - first) * ENTRY.size, self._geometry.entry_position(first))
            slots = np.frombuffer(data, kind, len(data) // ENTRY.size)["hash"] % self._geometry.slots
            same = np.flatnonzero(slots == key_hash % self._geometry.slots)
            if len(same):
                return first + int(same[-1])
            stop = first
        return 0


def _size(files: OsFiles, path: str) -> int:
    try:
        return files.size(path)
    except FileNotFoundError:
        return 0  # expired since
