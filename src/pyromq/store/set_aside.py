"""Whole files in `quarantine/`: moved or copied there before a repair changes or replaces them.

quarantine/<path below the store, "/" as "~">[.<number>]
"""

from __future__ import annotations

import os
from typing import Final

from pyromq.store.files import OsFiles, make_directories, write_all
from pyromq.store.findings import relative
from pyromq.store.quarantine import QUARANTINE_NAME

_CHUNK: Final = 1 << 20


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
        for position in range(0, length, _CHUNK):
            data = self._files.pread(source, _CHUNK, position)
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
