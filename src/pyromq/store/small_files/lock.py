"""One server for one directory: the lock file that RocketMQ's brokers take too.

A record lock (fcntl) on the first byte of `lock` shuts out other processes, Java's among them; it does not shut out a
second open in the same process, and closing any descriptor of the file would drop it. So a table of the directories
this process holds is looked at first, before the file is touched.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import Final

from pyromq.errors import StoreLocked
from pyromq.store.files import OsFiles, store_error, write_all

_CONTENT: Final = b"lock"

_held: set[tuple[int, int]] = set()
_held_guard = threading.Lock()


class DirectoryLock:
    """The exclusive right to a store's directory."""

    def __init__(self, root: Path, files: OsFiles) -> None:
        self._root = root
        self._files = files
        self._descriptor: int | None = None
        self._identity = (0, 0)

    def acquire(self) -> None:
        """Take the lock; raises StoreLocked if this or another process has it."""
        status = os.stat(self._root)
        self._identity = (status.st_dev, status.st_ino)
        with _held_guard:
            if self._identity in _held:
                raise StoreLocked(f"the store directory {self._root} is already open in this process")
            self._descriptor = self._lock_file()
            _held.add(self._identity)

    def _lock_file(self) -> int:
        path = str(self._root / "lock")
        try:
            descriptor = self._files.open(path, create=True)
        except OSError as error:
            raise store_error("open", path, error) from error
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
            write_all(self._files, descriptor, _CONTENT, 0)
            self._files.fdatasync(descriptor)
        except (BlockingIOError, PermissionError) as error:
            self._files.close(descriptor)
            raise StoreLocked(f"the store directory {self._root} is in use by another server") from error
        except OSError as error:
            self._files.close(descriptor)
            raise store_error("lock", path, error) from error
        return descriptor

    def release(self) -> None:
        """Give the lock back; harmless if it is not held."""
        if self._descriptor is None:
            return
        with _held_guard:
            _held.discard(self._identity)
            self._files.close(self._descriptor)
            self._descriptor = None


def is_held(root: Path, files: OsFiles) -> bool:
    """Tell whether a server has a directory open, without writing anything there."""
    try:
        status = os.stat(root)
        with _held_guard:
            # Never open the file here if this process holds it: closing it would give the lock back.
            if (status.st_dev, status.st_ino) in _held:
                return True
            return _is_locked(files.open(str(root / "lock")), files)
    except FileNotFoundError:
        return False


def _is_locked(descriptor: int, files: OsFiles) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
    except (BlockingIOError, PermissionError):
        return True
    finally:
        files.close(descriptor)  # and with it the lock of a moment
    return False
