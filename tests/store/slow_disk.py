"""SlowDisk: a file layer that says what is in memory, and lets a test decide when the disk answers."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter

from pyromq.store.files import OsFiles

_PAGE = 4096
PATIENCE = 60.0


class SlowDisk(OsFiles):
    """Reads of what is not in memory wait for `ready`. After `forget` only what is used from then on is in memory."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.ready.set()
        self.waits: list[str] = []
        """The names of the threads whose reads had to wait."""
        self.remembers = True
        self.broken = False
        self.asked: Counter[str] = Counter()
        """How often it was asked, by path, whether bytes are in memory."""
        self._paths: dict[int, str] = {}
        self._cached: set[tuple[str, int]] | None = None
        self._forgotten = ""
        self._guard = threading.Lock()

    def forget(self, part_of_path: str = "") -> None:
        """Let nothing be in memory from now on but what is read or written; or nothing of files with such a name."""
        self._cached = set()
        self._forgotten = part_of_path

    def open(self, path: str, *, create: bool = False) -> int:
        descriptor = super().open(path, create=create)
        self._paths[descriptor] = path
        return descriptor

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        if not self._is_cached(descriptor, length, position):
            self.waits.append(threading.current_thread().name)
            assert self.ready.wait(PATIENCE)
            if self.broken:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._remember(descriptor, length, position)
        return super().pread(descriptor, length, position)

    def pread_cached(self, descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
        self.asked[self._paths[descriptor]] += 1
        if not self._is_cached(descriptor, len(buffer), position):
            return -1
        return super()._fill(descriptor, buffer, position)

    def is_cached(self, descriptor: int, length: int, position: int) -> bool:
        return False  # whoever asks does not believe it for a moment only, and tests forget faster than that

    def pages_taken(self) -> int | None:
        return None  # for the same reason

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        self._remember(descriptor, len(data), position)
        return super().pwrite(descriptor, data, position)

    def _pages(self, descriptor: int, length: int, position: int) -> list[tuple[str, int]]:
        path = self._paths[descriptor]
        return [(path, page) for page in range(position // _PAGE, (position + max(length, 1) - 1) // _PAGE + 1)]

    def _is_cached(self, descriptor: int, length: int, position: int) -> bool:
        with self._guard:
            if self._cached is None or self._forgotten not in self._paths[descriptor]:
                return True
            return self._cached.issuperset(self._pages(descriptor, length, position))

    def _remember(self, descriptor: int, length: int, position: int) -> None:
        with self._guard:
            if self._cached is not None and self.remembers:
                self._cached.update(self._pages(descriptor, length, position))
