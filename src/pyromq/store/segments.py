"""Files of one size in one directory, seen as one run of bytes (RocketMQ's MappedFileQueue).

    00000000000000000000   00000000001073741824   …      a name is the position of the file's first byte, 20 digits

Every file has its full length from the start, sparse. They are contiguous: first and last position say it all.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from mmap import PAGESIZE
from typing import Final, NamedTuple

from pyromq.errors import StoreError
from pyromq.store.files import OsFiles, is_out_of_descriptors, make_directories, store_error, write_all

logger = logging.getLogger(__name__)

_NAME_LENGTH: Final = 20
_CHUNK: Final = 1 << 20
_ZEROS: Final = bytes(_CHUNK)


def is_zero(data: bytes) -> bool:
    """Tell whether bytes, a chunk at most, are all zero."""
    return _ZEROS.startswith(data)


class FileRange(NamedTuple):
    """Bytes of a file."""

    path: str
    position: int
    length: int


class MadeFile(NamedTuple):
    """A file that was made ahead: where it begins, its descriptor, and the directories in which names changed."""

    start: int
    descriptor: int
    directories: Sequence[str]


class NotInMemory(Exception):
    """A reader who must not wait asked for bytes that are only on the disk; see `store/read/disk/disk_access.py`."""

    def __init__(self, missing: Sequence[FileRange]) -> None:
        super().__init__(missing)
        self.missing = missing


_STAYS: Final = 32
"""Of so many files that took the place of another, one counts as just used: so the pool follows what changes."""


class DescriptorPool:
    """A bounded number of open files: the one unused for longest is closed for the next.

    Files that are used in turn, and are more than that, would each be closed just before their next turn. So a file
    opened while the pool is full is the next to be closed, unless it is used again before, or is one in `_STAYS`.
    Then most of the others stay open.

    While `may_wait` is False, reads of these files raise NotInMemory where they would wait for the disk.
    """

    def __init__(self, files: OsFiles, limit: int) -> None:
        self.may_wait = True
        self.fetched: Collection[FileRange] = ()
        """What was fetched for the reader at work: it may wait for these, so that it cannot be sent away for ever."""
        self.reached: Callable[[str, int], bool] | None = None
        """Called with path and position where a reader comes to; True if the bytes there are being read ahead."""
        self._files = files
        self._limit = limit
        self._open: OrderedDict[str, int] = OrderedDict()
        self._replaced = 0

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str) -> int:
        """Return a descriptor that is good until the next call."""
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = self._opened(path)
            self.add(path, descriptor)
        else:
            self._open.move_to_end(path)
        return descriptor

    def _opened(self, path: str) -> int:
        try:
            return self._files.open(path)
        except OSError as error:
            if not is_out_of_descriptors(error) or not self._open:
                raise
        self._close_down_to(len(self._open) // 2)  # others of the process took what was left
        return self._files.open(path)

    def resize(self, limit: int) -> None:
        """Keep at most so many files open from now on."""
        self._limit = limit
        self._close_down_to(limit)

    def pread(self, path: str, length: int, position: int) -> bytes:
        """Read from a file."""
        descriptor = self.get(path)
        if self.may_wait:
            return self._files.pread(descriptor, length, position)
        buffer = bytearray(length)
        count = self._files.pread_cached(descriptor, buffer, position)
        if count == length:
            return bytes(buffer)
        if count < 0:
            if not self.has_in_memory(descriptor, length, position):
                self.let_wait_for(FileRange(path, position, length))
            return self._files.pread(descriptor, length, position)
        return bytes(buffer[:count])

    def has_in_memory(self, descriptor: int, length: int, position: int) -> bool:
        """Return True if the system has bytes in memory that it would not read without waiting.

        Linux refuses so where it would like to read ahead, for example.
        """
        before = position % PAGESIZE
        return self._files.is_cached(descriptor, before + length, position - before)

    def let_wait_for(self, missing: FileRange) -> None:
        """Raise NotInMemory unless the bytes were fetched."""
        if missing not in self.fetched:
            raise NotInMemory([missing])

    def add(self, path: str, descriptor: int) -> None:
        """Take over a descriptor that was opened elsewhere."""
        self._open[path] = descriptor
        if len(self._open) <= self._limit:
            return
        self._close_down_to(self._limit)
        self._replaced += 1
        if self._replaced % _STAYS and path in self._open:
            self._open.move_to_end(path, last=False)

    def _close_down_to(self, count: int) -> None:
        while len(self._open) > count:
            self._files.close(self._open.popitem(last=False)[1])

    def discard(self, path: str) -> None:
        """Close a file that is about to be removed."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            self._files.close(descriptor)

    def close(self) -> None:
        """Close every file."""
        while self._open:
            self._files.close(self._open.popitem()[1])


class DirtyFiles:
    """The files and directories changed since the last flush: filled by the writer, taken by the flusher's thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._files: set[str] = set()
        self._directories: set[str] = set()

    def add(self, path: str) -> None:
        """Note a file whose bytes changed."""
        with self._guard:
            self._files.add(path)

    def add_directories(self, *paths: str) -> None:
        """Note directories in which names changed."""
        with self._guard:
            self._directories.update(paths)

    def discard(self, path: str) -> None:
        """Forget a file that was removed."""
        with self._guard:
            self._files.discard(path)

    @property
    def has_directories(self) -> bool:
        """Whether names have changed in a directory."""
        return bool(self._directories)

    def take(self) -> tuple[set[str], set[str]]:
        """Return files and directories, and begin anew."""
        with self._guard:
            files, directories = self._files, self._directories
            self._files, self._directories = set(), set()
        return files, directories


class SegmentedFile:
    """Contiguous files of one size; `start` is the first byte of the first, `stop` the one behind the last."""

    __slots__ = ("_dirty", "_files", "_pool", "directory", "file_size", "start", "stop")

    def __init__(self, directory: str, file_size: int, files: OsFiles, pool: DescriptorPool, dirty: DirtyFiles) -> None:
        self.directory = directory
        self.file_size = file_size
        self.start = self.stop = 0
        self._files = files
        self._pool = pool
        self._dirty = dirty

    def path(self, start: int) -> str:
        """Return the name of the file that begins at a position."""
        return f"{self.directory}/{start:020d}"

    def file_start(self, position: int) -> int:
        """Return where the file that holds a position begins."""
        return position - position % self.file_size

    def starts(self) -> range:
        """Return where each file begins."""
        return range(self.start, self.stop, self.file_size)

    def load(self, *, mend: bool = False) -> None:
        """Find the files that are there; raises StoreError, naming the file, if one does not belong there.

        `mend` puts zeros in the place of what is missing between the first and the last byte.
        """
        starts = [self._checked_start(name) for name in self._names()]
        if not starts:
            return
        self.start, self.stop = starts[0], starts[-1] + self.file_size
        for missing in sorted(set(self.starts()) - set(starts)):
            if not mend:
                raise StoreError(f"the file {self.path(missing)} is missing between {starts[0]} and {starts[-1]}")
            logger.error("a file is missing, zeros take its place file=%s", self.path(missing))
            self._pool.add(self.path(missing), self._files.open(self.path(missing), create=True))
        for start in self.starts():
            self._check_length(start, may_be_short=mend or start == starts[-1])

    def _names(self) -> list[str]:
        try:
            return sorted(self._files.listdir(self.directory))
        except FileNotFoundError:
            return []

    def _checked_start(self, name: str) -> int:
        if len(name) != _NAME_LENGTH or not (name.isascii() and name.isdigit()) or int(name) % self.file_size:
            raise StoreError(f"{self.directory}/{name} is no file of {self.file_size} bytes of this store")
        return int(name)

    def _check_length(self, start: int, may_be_short: bool) -> None:
        path = self.path(start)
        length = self._files.size(path)
        if length == self.file_size:
            return
        if not may_be_short or length > self.file_size:
            raise StoreError(f"{path} has {length} bytes and not {self.file_size}")
        # For the last file: a crash came between making the file, or cutting it, and giving it its length.
        logger.warning("extended a file that was short file=%s length=%d", path, length)
        self._files.ftruncate(self._pool.get(path), self.file_size)
        self._dirty.add_directories(self.directory)

    def add(self, reserve: int, start: int | None = None) -> None:
        """Make the next file, with some space reserved in it.

        `start` places the very first file. Raises DiskFull or StoreError and leaves nothing behind if that fails.
        """
        self.take_over(self.make_file(reserve, self.stop if start is None else start))

    def make_file(self, reserve: int, start: int) -> MadeFile:
        """Make a file for take_over(); any thread may call this. Raises DiskFull or StoreError, as add() does."""
        path = self.path(start)
        try:
            directories = make_directories(self._files, self.directory)
            descriptor = self._files.open(path, create=True)
        except OSError as error:
            raise store_error("create", path, error) from error
        try:
            self._files.ftruncate(descriptor, self.file_size)
            self._files.fallocate(descriptor, 0, min(reserve, self.file_size))
        except OSError as error:
            self._files.close(descriptor)
            with suppress(OSError):
                self._files.unlink(path)
            raise store_error("create", path, error) from error
        return MadeFile(start, descriptor, directories)

    def take_over(self, made: MadeFile) -> None:
        """Use the next file, which was made before."""
        self._dirty.add_directories(self.directory, *made.directories)
        self._pool.add(self.path(made.start), made.descriptor)
        if self.start == self.stop:
            self.start = made.start
        self.stop = made.start + self.file_size

    def give_up(self, made: MadeFile, *, unlink: bool) -> None:
        """Close a file that was made and is not needed; with `unlink`, leave nothing of it."""
        self._files.close(made.descriptor)
        if unlink:
            with suppress(OSError):
                self._files.unlink(self.path(made.start))
                self._files.rmdir(self.directory)

    def reserve(self, position: int, length: int) -> None:
        """Reserve disk space inside one file; raises DiskFull if there is none."""
        start = self.file_start(position)
        path = self.path(start)
        try:
            self._files.fallocate(self._pool.get(path), position - start, length)
        except OSError as error:
            raise store_error("reserve space in", path, error) from error

    def pread(self, position: int, length: int) -> bytes:
        """Read from the file that holds a position, to its end at most; nothing if there is no such file."""
        if not self.start <= position < self.stop:
            return b""
        start = self.file_start(position)
        offset = position - start
        return self._pool.pread(self.path(start), min(length, self.file_size - offset), offset)

    def pread_cached(self, position: int, length: int) -> bytearray | None:
        """Return the same if it is in memory; None if the disk would have to be read."""
        if not self.start <= position < self.stop:
            return bytearray()
        start = position - position % self.file_size
        buffer = bytearray(min(length, start + self.file_size - position))
        count = self._files.pread_cached(self._pool.get(self.path(start)), buffer, position - start)
        return buffer if count == len(buffer) else None

    def pread_runs(self, runs: Sequence[Sequence[int]]) -> list[bytes | bytearray]:
        """Read runs of bytes, each from one position up to another in the same file.

        Where reads must not wait, NotInMemory names all that is missing, and not only the first run.
        """
        if self._pool.may_wait:
            return [self.pread(start, stop - start) for start, stop in runs]
        # Answers are made of dozens of runs, so that this is a pull's inner loop: one buffer, one call for each run.
        buffer = bytearray(sum([stop - start for start, stop in runs]))
        view, at = memoryview(buffer), 0
        missing: list[FileRange] = []
        file_start, descriptor, pread = -1, -1, self._files.pread_cached
        for start, stop in runs:
            if start - start % self.file_size != file_start:
                file_start = self.file_start(start)
                descriptor = self._pool.get(self.path(file_start))
            end = at + stop - start
            count = pread(descriptor, view[at:end], start - file_start)
            if count < 0 and self._pool.has_in_memory(descriptor, stop - start, start - file_start):
                view[at:end] = self._files.pread(descriptor, stop - start, start - file_start)
            elif count != stop - start:
                missing.append(FileRange(self.path(file_start), start - file_start, stop - start))
            at = end
        if not missing:
            return [buffer]
        if unknown := [part for part in missing if part not in self._pool.fetched]:
            raise NotInMemory(unknown)
        return [self.pread(start, stop - start) for start, stop in runs]

    def is_cached(self, position: int, length: int) -> bool:
        """Return True if the system says that it has bytes in memory; those of one file are looked at, to its end."""
        if not self.start <= position < self.stop:
            return False
        start = self.file_start(position)
        length = min(length, start + self.file_size - position)
        return self._files.is_cached(self._pool.get(self.path(start)), length, position - start)

    def is_coming(self, position: int) -> bool:
        """Note that a reader has come to a position; return True if the bytes from there on are being read ahead."""
        if self._pool.reached is None or not self.start <= position < self.stop:
            return False
        start = self.file_start(position)
        return self._pool.reached(self.path(start), position - start)

    @property
    def was_fetched(self) -> bool:
        """Whether bytes were fetched for the reader at work, so that what was said of them before is old."""
        return bool(self._pool.fetched)

    def will_need(self, position: int, length: int) -> None:
        """Have the file that holds a position fetched from the disk from there on, without waiting for it."""
        if self.start <= position < self.stop:
            start = self.file_start(position)
            self._files.will_need(self._pool.get(self.path(start)), length, position - start)

    def end_of_bytes(self, position: int) -> int:
        """Return where the last byte of a file ends that is not zero; the position itself if none is from there on."""
        start = self.file_start(position)
        descriptor = self._pool.get(self.path(start))
        for first, end in reversed(self._files.data_ranges(descriptor, position - start)):
            while end > first:
                chunk = max(first, end - _CHUNK)
                data = self._files.pread(descriptor, end - chunk, chunk)
                if not is_zero(data):
                    return start + chunk + len(data.rstrip(b"\0"))
                end = chunk
        return position

    def has_data(self, position: int) -> bool:
        """Tell whether the file that holds a position may have bytes from there on; no if there is no such file."""
        if not self.start <= position < self.stop:
            return False
        start = self.file_start(position)
        return self._files.has_data(self._pool.get(self.path(start)), position - start)

    def pwrite(self, position: int, data: bytes) -> None:
        """Write into files that are there, across their borders."""
        while data:
            start = self.file_start(position)
            path = self.path(start)
            room = start + self.file_size - position
            write_all(self._files, self._pool.get(path), data[:room], position - start)
            self._dirty.add(path)
            position += room
            data = data[room:]

    def drop_before(self, position: int) -> list[str]:
        """Begin with the file that holds a position; return the files before it, which are for the caller to remove."""
        first = min(max(self.file_start(position), self.start), self.stop)
        paths = [self.path(start) for start in range(self.start, first, self.file_size)]
        for path in paths:
            self._pool.discard(path)
            self._dirty.discard(path)
        self.start = first
        return paths

    def cut(self, position: int, *, is_in_use: bool = False) -> None:
        """Drop all bytes from a position on, for good: later files go, what is left of this one reads as zeros.

        `is_in_use` if somebody may have mapped the file. It is then overwritten: whoever reads a map of a file that
        is shorter for a moment is killed by a signal.
        """
        while self.stop > self.start and self.stop - self.file_size >= position:
            self.stop -= self.file_size
            path = self.path(self.stop)
            self._pool.discard(path)
            self._dirty.discard(path)
            self._files.unlink(path)
            self._dirty.add_directories(self.directory)
        if self.start <= position < self.stop:
            self._clear(position, is_in_use=is_in_use)

    def _clear(self, position: int, *, is_in_use: bool) -> None:
        start = self.file_start(position)
        path = self.path(start)
        end = self.end_of_bytes(position)
        if end == position:
            return  # the usual case; the file keeps its time and its reserved space
        if is_in_use:
            for place in range(position, end, _CHUNK):
                self.pwrite(place, _ZEROS[: min(_CHUNK, end - place)])
            return
        descriptor = self._pool.get(path)
        self._files.ftruncate(descriptor, position - start)
        self._files.ftruncate(descriptor, self.file_size)
        self._dirty.add(path)

    def sync(self, position: int) -> None:
        """Make all that is in the files from a position on durable."""
        for start in self.starts():
            if start + self.file_size > position:
                self._files.fdatasync(self._pool.get(self.path(start)))
        if self.stop > self.start:
            self._files.sync_directory(self.directory)
