"""What the store's tests share: small files that roll all the time, a clock, files that fail on demand."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, decode_messages, encode_host
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.config import StoreConfig
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.read.readable import ReadableStore

HOST = encode_host("127.0.0.1", 10911)
LOG_FILE_SIZE = 4096
QUEUE_FILE_SIZE = 200


class FakeTime:
    """Milliseconds that move on with every look."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = start_ms

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


def small_config(root: Path, **changes: Any) -> StoreConfig:
    """Return a configuration whose files hold a few messages, and whose flusher comes only when called."""
    settings: dict[str, Any] = {
        "commit_log_file_size": LOG_FILE_SIZE,
        "consume_queue_file_size": QUEUE_FILE_SIZE,
        "flush_interval_ms": 600_000,
        "checkpoint_interval_ms": 600_000,
        "max_hash_slots": 64,
        "max_index_entries": 256,
    }
    return StoreConfig(root=root, **(settings | changes))


def small_store(root: Path, files: OsFiles | None = None, **changes: Any) -> MessageStore:
    """Return a store with small files, to be opened; it flushes nothing unless the files given do."""
    return MessageStore(small_config(root, **changes), FakeTime(), files or QuickFiles())


def message(topic: str = "orders", body: bytes = b"hello", queue_id: int = 0, tag: str | None = None) -> Record:
    """Return a message as a broker would hand it over."""
    properties = encode_properties({"TAGS": tag} if tag else {}).encode()
    return Record(
        topic=topic, body=body, queue_id=queue_id, properties=properties, tags_code=tag_code(tag), store_host=HOST
    )


def read_queue(store: ReadableStore, topic: str = "orders", queue_id: int = 0) -> list[MessageExt]:
    """Read a queue from its first message to its last, as a consumer does."""
    found: list[MessageExt] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, offset, 32)
        found += decode_messages(b"".join(result.views))
        assert result.next_offset > offset
        offset = result.next_offset
    return found


def bodies(store: ReadableStore, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """Return the bodies of a queue in order."""
    return [found.body for found in read_queue(store, topic, queue_id)]


def left_by_a_kill(store: MessageStore, root: Path) -> Path:
    """Close the store and return its directory as a process would leave it that is killed now."""
    shutil.copytree(store.config.root, root)
    store.close()
    assert (root / "abort").exists()
    return root


def log_files(root: Path) -> list[Path]:
    """Return the files of the log in order."""
    return sorted((root / "commitlog").iterdir())


def queue_files(root: Path, topic: str = "orders", queue_id: int = 0) -> list[Path]:
    """Return the files of a queue in order."""
    return sorted((root / "consumequeue" / topic / str(queue_id)).iterdir())


def open_files(root: Path) -> int:
    """Count the descriptors that this process has of files below a directory."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            count += os.readlink(descriptor).startswith(f"{root}/")
    return count


def maps(root: Path) -> int:
    """Count the maps that this process has of files below a directory."""
    return Path("/proc/self/maps").read_text().count(f"{root}/")


class FaultyFiles(OsFiles):
    """The real calls, counted; `fail` may answer one with an error number. Flushing may be left out for speed."""

    def __init__(
        self, fail: Callable[[str, int], int | None] = lambda name, number: None, *, flushes: bool = True
    ) -> None:
        self.calls: Counter[str] = Counter()
        self.fail = fail
        self._flushes = flushes

    def _count(self, name: str) -> None:
        self.calls[name] += 1
        error = self.fail(name, self.calls[name])
        if error is not None:
            raise OSError(error, os.strerror(error))

    def open(self, path: str, *, create: bool = False) -> int:
        self._count("open")
        return super().open(path, create=create)

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        self._count("pread")
        return super().pread(descriptor, length, position)

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        self._count("pwrite")
        return super().pwrite(descriptor, data, position)

    def ftruncate(self, descriptor: int, length: int) -> None:
        self._count("ftruncate")
        super().ftruncate(descriptor, length)

    def fallocate(self, descriptor: int, position: int, length: int) -> None:
        self._count("fallocate")
        super().fallocate(descriptor, position, length)

    def fdatasync(self, descriptor: int) -> None:
        self._count("fdatasync")
        if self._flushes:
            super().fdatasync(descriptor)

    def mmap(self, descriptor: int, length: int) -> mmap.mmap:
        self._count("mmap")
        return super().mmap(descriptor, length)

    def rename(self, source: str, target: str) -> None:
        self._count("rename")
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._count("unlink")
        super().unlink(path)

    def makedirs(self, path: str) -> None:
        self._count("makedirs")
        super().makedirs(path)

    def sync_directory(self, path: str) -> None:
        self._count("sync_directory")
        if self._flushes:
            super().sync_directory(path)

    def sync_file_system(self, path: str) -> None:
        self._count("sync_file_system")
        if self._flushes:
            super().sync_file_system(path)


class QuickFiles(OsFiles):
    """Flushes nothing: for many small stores whose process does not die with the power."""

    def fdatasync(self, descriptor: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass

    def sync_file_system(self, path: str) -> None:
        pass


class FullDisk(FaultyFiles):
    """A disk on which reserving space fails while `full` is set."""

    def __init__(self) -> None:
        super().__init__(lambda name, _: errno.ENOSPC if self.full and name == "fallocate" else None)
        self.full = False
