"""`quarantine/`: what recovery cuts off the log is kept here first; nobody but an operator removes it.

    quarantine/<offset of the first byte in the log, 20 digits>.<CRC-32 of the bytes>

The name follows the content: a recovery that is interrupted and made again leaves one file and not two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zlib import crc32

from pyromq.store.files import OsFiles, make_directories, write_all
from pyromq.store.segments import SegmentedFile

QUARANTINE_NAME: Final = "quarantine"

_CHUNK: Final = 1 << 20


class Quarantine:
    """The directory, made when it is first needed."""

    def __init__(self, root: Path, files: OsFiles) -> None:
        self._directory = str(root / QUARANTINE_NAME)
        self._files = files

    def keep(self, segments: SegmentedFile, start: int) -> int:
        """Copy all that was ever written from a position on, durably; return how many bytes, 0 if there are none.

        Raises OSError, with nothing left behind under its final name.
        """
        end = _last_written(segments, start)
        if end == start:
            return 0
        for directory in make_directories(self._files, self._directory):
            self._files.sync_directory(directory)
        temporary = f"{self._directory}/{start:020d}.tmp"
        checksum = self._copy(segments, start, end, temporary)
        self._files.rename(temporary, f"{self._directory}/{start:020d}.{checksum:08x}")
        self._files.sync_directory(self._directory)
        return end - start

    def _copy(self, segments: SegmentedFile, start: int, end: int, path: str) -> int:
        descriptor = self._files.open(path, create=True)
        checksum, position = 0, start
        try:
            self._files.ftruncate(descriptor, 0)
            while position < end:
                data = segments.pread(position, min(_CHUNK, end - position))
                checksum = crc32(data, checksum)
                if data.count(0) < len(data):  # zeros need no disk
                    write_all(self._files, descriptor, data, position - start)
                position += len(data)
            self._files.ftruncate(descriptor, end - start)
            self._files.fdatasync(descriptor)
        finally:
            self._files.close(descriptor)
        return checksum


def _last_written(segments: SegmentedFile, start: int) -> int:
    """Return the position behind the last byte that is not zero; the start if there is none."""
    for file_start in reversed(segments.starts()):
        first = max(start, file_start)
        if first < file_start + segments.file_size and (end := segments.end_of_bytes(first)) > first:
            return end
    return start
