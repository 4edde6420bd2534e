"""`pyromq.index`, a small file of ours: how far the index can be trusted after a crash, and how its files are laid out.

    indexed end of the log 8 | last file's name 8, 0 for none | its next free entry 4 | slots 4 | entries 4 | CRC-32 4

All keys of the log before that end are in the index and flushed. Without it a store whose messages have no keys would
look like one whose index is lost, and nothing else tells how many slots and entries a file was made with.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from pyromq.store.files import OsFiles, read_file, replace_file
from pyromq.store.index.index_file import Geometry

INDEX_CHECKPOINT_NAME: Final = "pyromq.index"

_MARK = struct.Struct(">qqiii")
_CRC = struct.Struct(">I")


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
        self._written = b""

    def read(self) -> tuple[IndexCheckpoint, Geometry] | None:
        """Return what is there, None if nothing is or it is damaged."""
        data = read_file(self._files, self._path, _MARK.size + _CRC.size)
        if len(data) < _MARK.size + _CRC.size or _CRC.pack(crc32(data[: _MARK.size])) != data[_MARK.size :]:
            return None
        end, file_number, next_entry, slots, entries = _MARK.unpack_from(data)
        return IndexCheckpoint(end, file_number, next_entry), Geometry(slots, entries)

    def write(self, mark: IndexCheckpoint, geometry: Geometry) -> None:
        """Replace it, if it says something new."""
        data = _MARK.pack(*mark, *geometry)
        if data != self._written:
            replace_file(self._files, self._path, data + _CRC.pack(crc32(data)))
            self._written = data
