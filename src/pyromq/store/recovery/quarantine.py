"""`quarantine/`: what recovery cuts off the log is kept here first; nobody but an operator removes it.

    quarantine/<offset of the first byte in the log, 20 digits>.<CRC-32 of the bytes>

The name follows the content: a recovery that is interrupted and made again leaves one file and not two.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from zlib import crc32

from pyromq.store.check.findings import relative
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


_COPY_CHUNK: Final = 1 << 20


class SetAside:
    """Keeps what a repair takes away; durable on return, raises OSError."""

    def __init__(self, root: str, files: OsFiles) -> None:
        self._root = root
        self._directory = f"{root}/{QUARANTINE_NAME}"
        self._files = files

    def move(self, path: str) -> None:
        """Take a file or a directory away, if it is still there."""
        if self._files.exists(path):
            target = self._target(path)
            self._files.rename(path, target)
            self._files.sync_directory(os.path.dirname(path))
            self._files.sync_directory(self._directory)

    def copy(self, path: str) -> None:
        """Keep a copy of a file that is about to be changed."""
        if not self._files.exists(path):
            return
        target = self._target(path)
        source = self._files.open(path)
        try:
            descriptor = self._files.open(target, create=True)
            try:
                self._copy(source, descriptor, self._files.size(path))
            finally:
                self._files.close(descriptor)
        finally:
            self._files.close(source)
        self._files.sync_directory(self._directory)

    def _copy(self, source: int, target: int, length: int) -> None:
        self._files.ftruncate(target, length)
        for position in range(0, length, _COPY_CHUNK):
            data = self._files.pread(source, _COPY_CHUNK, position)
            if data.count(0) < len(data):  # zeros need no disk
                write_all(self._files, target, data, position)
        self._files.fdatasync(target)

    def _target(self, path: str) -> str:
        for directory in make_directories(self._files, self._directory):
            self._files.sync_directory(directory)
        name = relative(path, self._root).replace("/", "~")
        target, number = f"{self._directory}/{name}", 0
        while self._files.exists(target):
            number += 1
            target = f"{self._directory}/{name}.{number}"
        return target
