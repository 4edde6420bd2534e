"""`pyromq.index`, a small file of ours: how far the index can be trusted after a crash, and how its files are laid out.

    format 4 | indexed end of the log 8 | last file's name 8, 0 for none | its next free entry 4
    slots 4 | entries 4 | CRC-32 of all before 4

All keys of the log before that end are in the index and flushed. Without it a store whose messages have no keys would
look like one whose index is lost, and nothing else tells how many slots and entries a file was made with.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.store.files import OsFiles
from pyromq.store.index.index_file import Geometry
from pyromq.store.small_files.sealed_file import read_packed, replace_packed

INDEX_CHECKPOINT_NAME: Final = "pyromq.index"

_MARK = struct.Struct(">qqiii")


class IndexCheckpoint(NamedTuple):
    """What is flushed of the index."""

    end: int
    file_number: int
    next_entry: int


class IndexCheckpointFile:
    """Reads and replaces the mark."""

    def __init__(self, root: Path, files: OsFiles) -> None:
        self._files = files
        self._path = str(root / INDEX_CHECKPOINT_NAME)
        self._written: tuple[IndexCheckpoint, Geometry] | None = None

    def read(self) -> tuple[IndexCheckpoint, Geometry] | None:
        """Return what is there, None if nothing is or it is damaged."""
        found = read_packed(self._files, self._path, _MARK)
        if found is None:
            return None
        end, file_number, next_entry, slots, entries = found
        return IndexCheckpoint(end, file_number, next_entry), Geometry(slots, entries)

    def write(self, mark: IndexCheckpoint, geometry: Geometry) -> None:
        """Replace it, if it says something new."""
        if (mark, geometry) != self._written:
            replace_packed(self._files, self._path, _MARK, *mark, *geometry)
            self._written = (mark, geometry)
